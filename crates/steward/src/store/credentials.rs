//! What it takes to sign in to a store, checked field by field.
//!
//! Pure: it takes bytes that somebody else read from Secrets. Nothing here prints a secret: the value that
//! holds them has a `Debug` of its own, and errors name the field and never its content.

use std::{fmt, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use sha2::{Digest as _, Sha256};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

const AUTHORITY: &str = "tlsConfig.certificateAuthority.certificate";
const CLIENT_CERTIFICATE: &str = "tlsConfig.clientCertificate.certificate";
const CLIENT_KEY: &str = "tlsConfig.clientCertificate.privateKey";
const USERNAME: &str = "basicAuth.username";
const PASSWORD: &str = "basicAuth.password";

/// The fields of a `DataStore` as bytes, wherever they were kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Material {
    /// Certificate of the authority that signed the store's certificate, as PEM.
    pub authority: Vec<u8>,
    /// Client certificate and its key, as PEM.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// User and password.
    pub basic: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Material {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.debug_struct("Material").finish_non_exhaustive()
    }
}

/// Material that was checked: certificates parse and the key belongs to its certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    material: Material,
    basic: Option<(String, String)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// A field that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Error {
    /// The field of the `DataStore`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Credentials {
    /// Checks the material.
    ///
    /// # Errors
    /// The first field that cannot be used.
    pub fn parse(material: Material) -> Result<Self, Error> {
        check_authority(&material.authority)?;
        if let Some((certificate, key)) = &material.client {
            check_client(certificate, key)?;
        }
        let basic = material.basic.as_ref().map(check_basic).transpose()?;
        if material.client.is_none() && basic.is_none() {
            return Err(wrong(
                "tlsConfig.clientCertificate",
                "is not set, and neither is basicAuth: nobody could be signed in",
            ));
        }
        Ok(Self { material, basic })
    }

    /// How a connection proves who is who.
    pub(crate) fn tls(&self) -> ClientTlsConfig {
        let tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.material.authority));
        match &self.material.client {
            Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
            None => tls,
        }
    }

    /// The same for a connection that is made by hand.
    pub(crate) fn rustls(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(&self.material.authority).filter_map(Result::ok),
        );
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &self.material.client {
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok);
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| rustls::Error::General("the key cannot be read".to_owned()))?;
                config.with_client_auth_cert(chain.collect(), key)?
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    /// User and password, where the store wants them.
    pub(crate) fn basic(&self) -> Option<(&str, &str)> {
        let (user, password) = self.basic.as_ref()?;
        Some((user, password))
    }

    /// Feeds everything that makes a connection another one.
    pub(crate) fn hash_into(&self, hash: &mut Sha256) {
        let Material {
            authority,
            client,
            basic,
        } = &self.material;
        let pair = |pair: &Option<(Vec<u8>, Vec<u8>)>| match pair {
            Some((one, other)) => [one.clone(), other.clone()],
            None => [Vec::new(), Vec::new()],
        };
        let fields = [authority.clone()]
            .into_iter()
            .chain(pair(client))
            .chain(pair(basic));
        for field in fields {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field);
        }
    }
}

fn check_authority(pem: &[u8]) -> Result<(), Error> {
    let certificates = certificates(AUTHORITY, pem)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(certificate)
            .map_err(|_| wrong(AUTHORITY, "holds a certificate that cannot be read"))?;
    }
    Ok(())
}

fn check_client(certificate: &[u8], key: &[u8]) -> Result<(), Error> {
    let chain = certificates(CLIENT_CERTIFICATE, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| wrong(CLIENT_KEY, "is not a private key in PEM format"))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    match CertifiedKey::from_der(chain, key, &provider) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(wrong(
            CLIENT_KEY,
            "does not belong to the client certificate",
        )),
        Err(rustls::Error::InvalidCertificate(_)) => Err(wrong(
            CLIENT_CERTIFICATE,
            "holds a certificate that cannot be read",
        )),
        Err(_) => Err(wrong(
            CLIENT_KEY,
            "is a private key of a kind that cannot be used",
        )),
    }
}

fn check_basic((user, password): &(Vec<u8>, Vec<u8>)) -> Result<(String, String), Error> {
    Ok((text(USERNAME, user)?, text(PASSWORD, password)?))
}

/// Files often end with a line break that is no part of the value.
fn text(field: &'static str, bytes: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| wrong(field, "is not text"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(wrong(field, "is empty")),
        text => Ok(text.to_owned()),
    }
}

fn certificates(field: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) | Err(_) => Err(wrong(field, "is not a certificate in PEM format")),
    }
}

fn wrong(field: &'static str, problem: &'static str) -> Error {
    Error { field, problem }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap();
        (
            certificate.pem().into_bytes(),
            key.serialize_pem().into_bytes(),
        )
    }

    fn material() -> Material {
        Material {
            authority: pair().0,
            client: Some(pair()),
            basic: None,
        }
    }

    #[test]
    fn each_broken_field_is_named() {
        let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
        let (certificate, key) = pair();
        let table: [(Material, &str); 8] = [
            (
                Material {
                    authority: Vec::new(),
                    ..material()
                },
                AUTHORITY,
            ),
            (
                Material {
                    authority: b"text".to_vec(),
                    ..material()
                },
                AUTHORITY,
            ),
            (
                Material {
                    authority: garbage.clone(),
                    ..material()
                },
                AUTHORITY,
            ),
            (
                Material {
                    client: Some((garbage, key.clone())),
                    ..material()
                },
                CLIENT_CERTIFICATE,
            ),
            (
                Material {
                    client: Some((certificate.clone(), certificate.clone())),
                    ..material()
                },
                CLIENT_KEY,
            ),
            (
                Material {
                    client: Some((certificate, pair().1)),
                    ..material()
                },
                CLIENT_KEY,
            ),
            (
                Material {
                    basic: Some((b"\n".to_vec(), b"x".to_vec())),
                    ..material()
                },
                USERNAME,
            ),
            (
                Material {
                    basic: Some((b"x".to_vec(), vec![0xff])),
                    ..material()
                },
                PASSWORD,
            ),
        ];
        for (material, field) in table {
            assert_eq!(Credentials::parse(material).unwrap_err().field, field);
        }
        let nobody = Material {
            client: None,
            ..material()
        };
        assert!(Credentials::parse(nobody).is_err());
        Credentials::parse(material()).unwrap();
    }

    #[test]
    fn nothing_of_a_secret_is_printed() {
        let material = Material {
            basic: Some((b"admin".to_vec(), b"hunter2".to_vec())),
            ..material()
        };
        let printed = format!(
            "{material:?} {:?}",
            Credentials::parse(material.clone()).unwrap()
        );
        assert!(
            !printed.contains("hunter2") && !printed.contains("104"),
            "{printed}"
        );
    }
}
