//! One number for everything that a plan is made from besides the time.
//!
//! Judging a control plane checks some ten signatures. While neither what is wanted nor what is held has changed, the
//! verdict stands until something is due, and this number tells.

use sha2::{Digest, Sha256};

use crate::{
    authority::Authority,
    layout::Contents,
    wanted::{Store, Wanted},
};

/// A hash of what is wanted and what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The number of these two.
    pub fn of(wanted: &Wanted, held: &Contents) -> Self {
        let mut hash = Sha256::new();
        let mut put = |part: &[u8]| {
            // Lengths keep `a` + `bc` apart from `ab` + `c`.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        let Wanted {
            tenant,
            algorithm,
            replace_other_algorithms,
            lifetimes,
            authority,
            server_names,
            servers,
            store,
            tunnel,
            rotation,
        } = wanted;
        let plain = (tenant, algorithm, replace_other_algorithms, lifetimes);
        put(format!("{plain:?}").as_bytes());
        let plain = (server_names, servers, tunnel, rotation);
        put(format!("{plain:?}").as_bytes());
        // An authority's key belongs to its certificate.
        let certificates = authority.as_ref().map(Authority::bundle);
        put(certificates.unwrap_or_default().as_bytes());
        if let Some(Store { authority, user }) = store {
            put(authority.bundle().as_bytes());
            put(user.as_bytes());
        }
        for (kind, content) in held {
            put(kind.suffix().as_bytes());
            put(format!("{:?}", (&content.rotate, &content.rotation)).as_bytes());
            for (name, file) in &content.data {
                put(name.as_bytes());
                put(file);
            }
        }
        Self(hash.finalize().into())
    }
}
