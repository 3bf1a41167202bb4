//! Certificate authorities: made here, or brought by people and checked before anything is signed.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use x509_parser::{prelude::FromDer as _, x509::SubjectPublicKeyInfo};

use crate::{
    certificate::{Certificate, CertificateError},
    der::{Unsigned, name, signed},
    key::{KeyError, KeyKind, PrivateKey},
    profile::{Profile, Purpose},
    validity::Validity,
};

/// Why an authority cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuthorityError {
    /// Its certificate cannot be read.
    #[error("its certificate is unusable: {0}")]
    Certificate(CertificateError),
    /// Its key cannot be read.
    #[error("its key is unusable: {0}")]
    Key(KeyError),
    /// Certificate and key are not a pair.
    #[error("no certificate in it belongs to its private key: replace both together")]
    WrongKey,
    /// An ordinary certificate.
    #[error(
        "its certificate is not one of a certificate authority: it needs CA:TRUE and the usage to sign certificates"
    )]
    NotAuthority,
    /// Limited to other uses.
    #[error("its certificate is limited to uses that do not include {0:?}")]
    Limited(Purpose),
    /// Over.
    #[error("it expired at {0}")]
    Expired(Timestamp),
    /// Not begun.
    #[error("it is valid only from {0} on: look at the clocks")]
    NotYetValid(Timestamp),
}

/// Why something could not be signed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SignError {
    /// The key failed.
    #[error("could not sign {subject:?}")]
    Key {
        /// Whom the certificate was to name.
        subject: String,
        /// What failed.
        #[source]
        source: KeyError,
    },
    /// What was written cannot be read.
    #[error("could not write a certificate for {subject:?}: its name cannot be encoded")]
    Encoding {
        /// Whom the certificate was to name.
        subject: String,
        /// What failed.
        #[source]
        source: CertificateError,
    },
}

/// A certificate authority that can sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    certificate: Certificate,
    /// Further certificates that clients are told to trust.
    others: Vec<Certificate>,
    key: PrivateKey,
}

impl Authority {
    /// Reads an authority; of several certificates, the one that belongs to the key signs.
    ///
    /// Its dates are not looked at, see [`Authority::check`].
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let mut others =
            Certificate::all_from_pem(certificates).map_err(AuthorityError::Certificate)?;
        if others.is_empty() {
            return Err(AuthorityError::Certificate(CertificateError::Missing));
        }
        let key = PrivateKey::from_pem(key).map_err(AuthorityError::Key)?;
        let place = others
            .iter()
            .position(|certificate| certificate.belongs_to(&key))
            .ok_or(AuthorityError::WrongKey)?;
        let certificate = others.remove(place);
        if !certificate.is_authority() {
            return Err(AuthorityError::NotAuthority);
        }
        Ok(Self {
            certificate,
            others,
            key,
        })
    }

    /// Whether it may sign for these purposes now.
    pub fn check(&self, purposes: &[Purpose], now: Timestamp) -> Result<(), AuthorityError> {
        if let Some(refused) = purposes.iter().find(|one| !self.certificate.allows(**one)) {
            return Err(AuthorityError::Limited(*refused));
        }
        if now >= self.certificate.not_after() {
            return Err(AuthorityError::Expired(self.certificate.not_after()));
        }
        if now < self.certificate.not_before() {
            return Err(AuthorityError::NotYetValid(self.certificate.not_before()));
        }
        Ok(())
    }

    /// A new authority that signs itself.
    ///
    /// With the key of an older one it is its renewal: what that one signed stays valid.
    pub fn create(
        profile: &Profile,
        key: PrivateKey,
        serial: [u8; 16],
        validity: Validity,
    ) -> Result<Self, SignError> {
        let issuer = name(&profile.subject);
        let signer = Issuer {
            name: &issuer,
            key: &key,
            key_id: None,
        };
        let certificate = signer.sign(profile, key.public_der(), serial, validity)?;
        Ok(Self {
            certificate,
            others: Vec::new(),
            key,
        })
    }

    /// Signs a certificate for a public key; it ends with the authority at the latest.
    pub fn sign(
        &self,
        profile: &Profile,
        public_key: &[u8],
        serial: [u8; 16],
        validity: Validity,
    ) -> Result<Certificate, SignError> {
        let signer = Issuer {
            name: &self.certificate.subject_der,
            key: &self.key,
            key_id: self.certificate.subject_key_id.as_deref(),
        };
        signer.sign(
            profile,
            public_key,
            serial,
            validity.within(&self.certificate),
        )
    }

    /// The certificate that signs.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Its private key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// What clients are told to trust: the certificate that signs, then the others.
    pub fn bundle(&self) -> String {
        let all = [&self.certificate].into_iter().chain(&self.others);
        all.map(Certificate::to_pem).collect()
    }

    /// Whether it can be renewed here: it signed itself, under the name that we give.
    pub(crate) fn is_ours(&self, profile: &Profile) -> bool {
        self.others.is_empty()
            && self.certificate.subject_der == name(&profile.subject)
            && self.certificate.is_self_signed()
    }
}

struct Issuer<'a> {
    name: &'a [u8],
    key: &'a PrivateKey,
    key_id: Option<&'a [u8]>,
}

impl Issuer<'_> {
    fn sign(
        &self,
        profile: &Profile,
        public_key: &[u8],
        serial: [u8; 16],
        validity: Validity,
    ) -> Result<Certificate, SignError> {
        let subject = || profile.subject.to_string();
        let kind: KeyKind = self.key.kind();
        let unsigned = Unsigned {
            profile,
            serial,
            issuer: self.name,
            issuer_key: kind,
            issuer_key_id: self.key_id,
            not_before: validity.not_before,
            not_after: validity.not_after,
            public_key,
            key_id: &key_id(public_key),
        }
        .encode();
        let signature = self.key.sign(&unsigned).map_err(|source| SignError::Key {
            subject: subject(),
            source,
        })?;
        Certificate::from_der(&signed(&unsigned, kind, &signature)).map_err(|source| {
            SignError::Encoding {
                subject: subject(),
                source,
            }
        })
    }
}

/// Twenty bytes that name a key: the start of a hash over its bits, without their description.
fn key_id(public_key: &[u8]) -> Vec<u8> {
    let bits = SubjectPublicKeyInfo::from_der(public_key).map_or_else(
        |_| public_key.to_vec(),
        |(_, info)| info.subject_public_key.data.to_vec(),
    );
    Sha256::digest(bits).iter().take(20).copied().collect()
}
