//! Kubeconfigs that carry everything in themselves: a server, whom to trust, and a client certificate.

use std::fmt;

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

/// Why text is no kubeconfig that could be made here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KubeconfigError {
    /// Not the format.
    #[error("it is not a kubeconfig")]
    Format,
    /// No cluster and user in the current context, or credentials of another kind.
    #[error("its current context has no server, authority and client certificate written in it")]
    Incomplete,
}

/// One user at one server.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// Name of the cluster's entry.
    pub cluster: String,
    /// Name of the user's entry.
    pub user: String,
    /// Name of the context, which is the current one.
    pub context: String,
    /// Address of the API server.
    pub server: String,
    /// Authorities to trust, PEM.
    pub authority: Vec<u8>,
    /// The client certificate, PEM.
    pub certificate: Vec<u8>,
    /// Its private key, PEM.
    pub key: Zeroizing<Vec<u8>>,
}

impl Kubeconfig {
    /// Reads the current context.
    pub fn from_yaml(text: &[u8]) -> Result<Self, KubeconfigError> {
        let file: File = serde_saphyr::from_slice(text).map_err(|_| KubeconfigError::Format)?;
        let find = || {
            let context = file
                .contexts
                .into_iter()
                .find(|one| one.name == file.current_context)?;
            let Context { cluster, user } = context.context;
            let cluster = file.clusters.into_iter().find(|one| one.name == cluster)?;
            let user = file.users.into_iter().find(|one| one.name == user)?;
            Some(Self {
                cluster: cluster.name,
                user: user.name,
                context: context.name,
                server: cluster.cluster.server?,
                authority: cluster.cluster.certificate_authority_data?.0,
                certificate: user.user.client_certificate_data?.0,
                key: Zeroizing::new(user.user.client_key_data?.0),
            })
        };
        find().ok_or(KubeconfigError::Incomplete)
    }

    /// The file as kubeadm lays it out.
    pub fn to_yaml(&self) -> Vec<u8> {
        let file = File {
            api_version: "v1".to_owned(),
            clusters: vec![NamedCluster {
                cluster: Cluster {
                    certificate_authority_data: Some(ByteString(self.authority.clone())),
                    server: Some(self.server.clone()),
                },
                name: self.cluster.clone(),
            }],
            contexts: vec![NamedContext {
                context: Context {
                    cluster: self.cluster.clone(),
                    user: self.user.clone(),
                },
                name: self.context.clone(),
            }],
            current_context: self.context.clone(),
            kind: "Config".to_owned(),
            users: vec![NamedUser {
                name: self.user.clone(),
                user: User {
                    client_certificate_data: Some(ByteString(self.certificate.clone())),
                    client_key_data: Some(ByteString(self.key.to_vec())),
                },
            }],
        };
        // One line for each value, however long: people grep in these files.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(&file, options)
            .expect("a kubeconfig is made of maps, lists and texts only")
            .into_bytes()
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Kubeconfig({} at {}, redacted)",
            self.user, self.server
        )
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    api_version: String,
    clusters: Vec<NamedCluster>,
    contexts: Vec<NamedContext>,
    #[serde(rename = "current-context")]
    current_context: String,
    #[serde(default)]
    kind: String,
    users: Vec<NamedUser>,
}

#[derive(Serialize, Deserialize)]
struct NamedCluster {
    cluster: Cluster,
    name: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    #[serde(default)]
    certificate_authority_data: Option<ByteString>,
    #[serde(default)]
    server: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct NamedContext {
    context: Context,
    name: String,
}

#[derive(Serialize, Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Serialize, Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    #[serde(default)]
    client_certificate_data: Option<ByteString>,
    #[serde(default)]
    client_key_data: Option<ByteString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(user: &str) -> Kubeconfig {
        Kubeconfig {
            cluster: "blue".into(),
            user: user.into(),
            context: format!("{user}@blue"),
            server: "https://192.0.2.10:6443".into(),
            authority: b"authority".repeat(100),
            certificate: b"certificate".repeat(100),
            key: Zeroizing::new(b"secret".repeat(100)),
        }
    }

    #[test]
    fn a_kubeconfig_reads_back_whatever_the_user_is_called() {
        for user in [
            "kubernetes-admin",
            "a: b",
            "#x",
            "jane@example.com",
            "yes",
            "1",
            "a\nb",
            "ü\"'",
        ] {
            let config = example(user);
            assert_eq!(
                Kubeconfig::from_yaml(&config.to_yaml()),
                Ok(config),
                "{user}"
            );
        }
    }

    #[test]
    fn it_is_laid_out_one_value_on_a_line() {
        let text = String::from_utf8(example("kubernetes-admin").to_yaml()).unwrap();
        let keys: Vec<&str> = text
            .lines()
            .map(|line| line.split(": ").next().unwrap_or_default().trim())
            .collect();
        assert_eq!(text.lines().count(), 18, "{text}");
        assert!(keys.contains(&"client-key-data"));
        assert!(!text.contains("...") && !text.contains(">-"), "{text}");
    }

    #[test]
    fn it_never_prints_its_key() {
        let shown = format!("{:?}", example("kubernetes-admin"));
        assert_eq!(
            shown,
            "Kubeconfig(kubernetes-admin at https://192.0.2.10:6443, redacted)"
        );
    }

    #[test]
    fn other_text_is_refused() {
        assert_eq!(
            Kubeconfig::from_yaml(b"\xff\xfe"),
            Err(KubeconfigError::Format)
        );
        assert_eq!(
            Kubeconfig::from_yaml(b"kind: Config"),
            Err(KubeconfigError::Format)
        );
        let text = String::from_utf8(example("x").to_yaml()).unwrap();
        let other = text.replace("client-key-data", "token");
        assert_eq!(
            Kubeconfig::from_yaml(other.as_bytes()),
            Err(KubeconfigError::Incomplete)
        );
    }
}
