//! Where fresh keys and serial numbers come from: the one door through which chance enters.
//!
//! Planning takes no [`KeySource`]; only carrying a plan out does. Edges pass [`Fresh`], or a pool of keys
//! made ahead of time; tests pass what they like.

use aws_lc_rs::{
    rand,
    rsa::KeySize,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, RsaKeyPair},
};

use crate::key::{Algorithm, KeyError, KeyKind, PrivateKey};

/// Gives keys and serial numbers that nobody had before.
pub trait KeySource {
    /// A new private key.
    fn key(&mut self, algorithm: Algorithm) -> Result<PrivateKey, KeyError>;

    /// Sixteen unpredictable bytes for a certificate's serial number.
    fn serial(&mut self) -> Result<[u8; 16], KeyError>;
}

/// Keys and numbers from the crypto library's own generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fresh;

impl Fresh {
    /// Thirty-two unpredictable bytes: a key for a cipher.
    pub fn secret(self) -> Result<[u8; 32], KeyError> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| KeyError::Chance)?;
        Ok(secret)
    }
}

impl KeySource for Fresh {
    fn key(&mut self, algorithm: Algorithm) -> Result<PrivateKey, KeyError> {
        let key = match algorithm {
            Algorithm::EcdsaP256 => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
                .ok()
                .and_then(|pair| PrivateKey::from_ecdsa(pair, KeyKind::EcdsaP256)),
            Algorithm::Rsa2048 => RsaKeyPair::generate(KeySize::Rsa2048)
                .ok()
                .and_then(PrivateKey::from_rsa),
        };
        key.ok_or(KeyError::Generate(algorithm))
    }

    fn serial(&mut self) -> Result<[u8; 16], KeyError> {
        let mut serial = [0; 16];
        rand::fill(&mut serial).map_err(|_| KeyError::Chance)?;
        Ok(serial)
    }
}
