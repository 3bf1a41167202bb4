//! Private keys: read from the formats people have, written as PKCS#8, never printed.
//!
//! It knows algorithms and encodings; it does not know what a key is for. Making a key needs chance and is
//! in [`crate::source`].

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use pem::Pem;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

/// How new keys are made; the spelling is kubeadm's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// Small, and made in microseconds.
    #[default]
    #[serde(rename = "ECDSA-P256")]
    EcdsaP256,
    /// For clients that know nothing else.
    #[serde(rename = "RSA-2048")]
    Rsa2048,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::EcdsaP256 => "ECDSA-P256",
            Self::Rsa2048 => "RSA-2048",
        })
    }
}

/// What a key that was read is: an authority that people bring may be of a kind that is not made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// RSA with so many bits.
    Rsa(usize),
}

impl KeyKind {
    /// Whether keys made with the algorithm are of this kind.
    pub fn is(self, algorithm: Algorithm) -> bool {
        match algorithm {
            Algorithm::EcdsaP256 => self == Self::EcdsaP256,
            Algorithm::Rsa2048 => self == Self::Rsa(2048),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EcdsaP256 => formatter.write_str("ECDSA-P256"),
            Self::EcdsaP384 => formatter.write_str("ECDSA-P384"),
            Self::Rsa(bits) => write!(formatter, "RSA-{bits}"),
        }
    }
}

/// Why text is no private key, or a key could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No block of a kind that holds a private key.
    #[error("there is no private key in it: write a PEM block such as PRIVATE KEY")]
    NoKey,
    /// Locked with a password that nobody gave.
    #[error("the private key is encrypted: store it without a passphrase")]
    Encrypted,
    /// Damaged, or an algorithm that is not supported.
    #[error(
        "the private key cannot be read: use ECDSA on P-256 or P-384, or RSA with 2048 to 8192 bits"
    )]
    Unsupported,
    /// The crypto library could not make one.
    #[error("could not make an {0} key")]
    Generate(Algorithm),
    /// The system gave no random bytes.
    #[error("could not draw a serial number: the system gives no random bytes")]
    Chance,
    /// The crypto library could not sign.
    #[error("could not sign with the {0} key")]
    Sign(KeyKind),
}

/// A private key that can sign. Clones share it; it is wiped with the last one.
#[derive(Clone)]
pub struct PrivateKey(Arc<Inner>);

struct Inner {
    pkcs8: Zeroizing<Vec<u8>>,
    public: Vec<u8>,
    kind: KeyKind,
    signer: Signer,
}

enum Signer {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl PrivateKey {
    /// Reads the first private key of PEM text: PKCS#8, `EC PRIVATE KEY` or `RSA PRIVATE KEY`.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let blocks = pem::parse_many(text).map_err(|_| KeyError::NoKey)?;
        let block = blocks
            .iter()
            .find(|block| block.tag().ends_with("PRIVATE KEY"))
            .ok_or(KeyError::NoKey)?;
        let locked =
            block.tag() == "ENCRYPTED PRIVATE KEY" || block.headers().get("Proc-Type").is_some();
        if locked {
            return Err(KeyError::Encrypted);
        }
        Self::from_der(block.contents())
    }

    /// Reads a key in PKCS#8, PKCS#1 or SEC 1 encoding.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let curves = [
            (&ECDSA_P256_SHA256_ASN1_SIGNING, KeyKind::EcdsaP256),
            (&ECDSA_P384_SHA384_ASN1_SIGNING, KeyKind::EcdsaP384),
        ];
        for (curve, kind) in curves {
            if let Ok(pair) = EcdsaKeyPair::from_private_key_der(curve, der) {
                return Self::from_ecdsa(pair, kind).ok_or(KeyError::Unsupported);
            }
        }
        RsaKeyPair::from_pkcs8(der)
            .or_else(|_| RsaKeyPair::from_der(der))
            .ok()
            .and_then(Self::from_rsa)
            .ok_or(KeyError::Unsupported)
    }

    pub(crate) fn from_ecdsa(pair: EcdsaKeyPair, kind: KeyKind) -> Option<Self> {
        let pkcs8 = pair.to_pkcs8v1().ok()?;
        let public = pair.public_key().as_der().ok()?;
        Some(Self(Arc::new(Inner {
            pkcs8: Zeroizing::new(pkcs8.as_ref().to_vec()),
            public: public.as_ref().to_vec(),
            kind,
            signer: Signer::Ecdsa(pair),
        })))
    }

    pub(crate) fn from_rsa(pair: RsaKeyPair) -> Option<Self> {
        let pkcs8: Pkcs8V1Der<'_> = pair.as_der().ok()?;
        let public = pair.public_key().as_der().ok()?;
        Some(Self(Arc::new(Inner {
            pkcs8: Zeroizing::new(pkcs8.as_ref().to_vec()),
            public: public.as_ref().to_vec(),
            kind: KeyKind::Rsa(pair.public_modulus_len() * 8),
            signer: Signer::Rsa(pair),
        })))
    }

    /// The key as a `PRIVATE KEY` block, which every Kubernetes component reads.
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(encode("PRIVATE KEY", &self.0.pkcs8))
    }

    /// The public half as a `PUBLIC KEY` block.
    pub fn public_pem(&self) -> String {
        encode("PUBLIC KEY", &self.0.public)
    }

    /// The public half as `SubjectPublicKeyInfo`.
    pub fn public_der(&self) -> &[u8] {
        &self.0.public
    }

    /// What the key is.
    pub fn kind(&self) -> KeyKind {
        self.0.kind
    }

    /// A signature over the message, with the hash that belongs to the kind of key.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let chance = SystemRandom::new();
        let failed = |_| KeyError::Sign(self.kind());
        match &self.0.signer {
            Signer::Ecdsa(pair) => {
                let signature = pair.sign(&chance, message).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &chance, message, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

impl PartialEq for PrivateKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.public == other.0.public
    }
}

impl Eq for PrivateKey {}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PrivateKey({}, redacted)", self.kind())
    }
}

/// One PEM block with the line ends that Kubernetes' own tools write.
pub(crate) fn encode(tag: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&Pem::new(tag, der), config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Fresh, KeySource as _};

    #[test]
    fn a_key_reads_back_and_never_prints() {
        for algorithm in [Algorithm::EcdsaP256, Algorithm::Rsa2048] {
            let key = Fresh.key(algorithm).unwrap();
            let again = PrivateKey::from_pem(key.to_pem().as_bytes()).unwrap();
            assert_eq!(again, key);
            assert!(key.kind().is(algorithm));
            assert_eq!(
                format!("{key:?}"),
                format!("PrivateKey({algorithm}, redacted)")
            );
            assert!(key.to_pem().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        }
    }

    #[test]
    fn text_without_a_usable_key_is_refused_in_words() {
        let refused = |text: &str| PrivateKey::from_pem(text.as_bytes()).unwrap_err();
        assert_eq!(refused(""), KeyError::NoKey);
        assert_eq!(refused("not a key"), KeyError::NoKey);
        assert_eq!(refused(&encode("CERTIFICATE", b"x")), KeyError::NoKey);
        assert_eq!(refused(&encode("PRIVATE KEY", b"x")), KeyError::Unsupported);
        let locked = refused(&encode("ENCRYPTED PRIVATE KEY", b"x"));
        assert!(locked.to_string().contains("without a passphrase"));
    }
}
