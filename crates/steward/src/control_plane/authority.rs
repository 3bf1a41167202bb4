//! The certificate authority that people bring, where they bring one.

use butler_pki::Authority;
use k8s_openapi::api::core::v1::Secret;

use super::{Controller, Error};
use crate::spec::ControlPlane;

/// Keys of a Secret that hold a certificate and its private key: of `kubernetes.io/tls`, then of kubeadm.
const PAIRS: [(&str, &str); 2] = [("tls.crt", "tls.key"), ("ca.crt", "ca.key")];

/// What people bring.
pub(super) enum Brought {
    /// Nothing: an authority is made here.
    Nothing,
    /// An authority.
    Usable(Box<Authority>),
    /// Something that cannot be used, in words.
    Unusable {
        problem: String,
        /// Whether there is an authority to go on with.
        stands: bool,
    },
}

impl Controller {
    /// Reads the authority that the spec refers to. Without it a control plane where one `stands` goes on with that, and a new
    /// one waits: nodes that joined another would have to join again.
    pub(super) async fn authority(
        &self,
        spec: &ControlPlane,
        stands: bool,
    ) -> Result<Brought, Error> {
        let Some(reference) = &spec.certificates.authority_secret_ref else {
            return Ok(Brought::Nothing);
        };
        let found = self.secret(spec, &reference.name).await?;
        Ok(match read(&reference.name, found.as_ref()) {
            Ok(authority) => Brought::Usable(Box::new(authority)),
            Err(problem) => Brought::Unusable { problem, stands },
        })
    }
}

fn read(name: &str, found: Option<&Secret>) -> Result<Authority, String> {
    let field = "spec.kubernetes.certificates.authoritySecretRef";
    let found = found.ok_or_else(|| {
        format!("{field}: there is no Secret {name}; make it, with tls.crt and tls.key")
    })?;
    let data = found.data.as_ref();
    let file = |key: &str| data.and_then(|data| data.get(key));
    let pair = PAIRS.into_iter().find_map(|(certificate, key)| {
        let (certificate, key) = (file(certificate)?, file(key)?);
        Some((certificate, key))
    });
    let (certificate, key) =
        pair.ok_or_else(|| format!("{field}: Secret {name} has no tls.crt and tls.key"))?;
    Authority::from_pem(&certificate.0, &key.0)
        .map_err(|error| format!("{field}: Secret {name} cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_authority_that_is_missing_or_garbage_is_named() {
        let secret = |data: serde_json::Value| -> Secret {
            serde_json::from_value(json!({"metadata": {"name": "mine"}, "data": data})).unwrap()
        };
        let garbage = serde_json::to_value(ByteString(b"garbage".to_vec())).unwrap();
        let table = [
            (None, "there is no Secret mine"),
            (Some(secret(json!({}))), "has no tls.crt and tls.key"),
            (
                Some(secret(json!({"tls.crt": garbage}))),
                "has no tls.crt and tls.key",
            ),
            (
                Some(secret(json!({"tls.crt": garbage, "tls.key": garbage}))),
                "Secret mine cannot be used: its certificate is unusable",
            ),
        ];
        for (found, words) in table {
            let error = read("mine", found.as_ref()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
