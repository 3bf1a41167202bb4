//! Whether a held authority or certificate may stay. Pure; [`crate::plan`] asks for each item.

use jiff::Timestamp;

use crate::{
    authority::{Authority, AuthorityError},
    certificate::Certificate,
    key::{Algorithm, PrivateKey},
    plan::Action,
    profile::{Profile, Purpose},
    reason::Reason,
    validity::{Jitter, Lifetime, Validity, renew_at},
};

/// An authority as it will stand once the plan is carried out.
#[derive(Clone, Debug)]
pub(crate) enum Signer {
    /// As it is.
    Stands(Authority),
    /// The same key under a new certificate.
    Renewed(Authority),
    /// Another key, which nobody knows yet.
    Replaced,
    /// Somebody has to repair it.
    Unusable,
}

/// When something that stays ends and is renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    pub(crate) not_after: Option<Timestamp>,
    pub(crate) renew_at: Option<Timestamp>,
}

/// What a certificate should be, and what decides when it is made anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) signer: &'a Signer,
    pub(crate) lifetime: Lifetime,
    /// Set where keys of other kinds are replaced.
    pub(crate) only: Option<Algorithm>,
    pub(crate) requested: bool,
    pub(crate) now: Timestamp,
    pub(crate) jitter: Jitter,
}

impl Leaf<'_> {
    /// What becomes of a certificate and its key, found under these keys of the Secret.
    pub(crate) fn judge(&self, certificate: File<'_>, key: File<'_>) -> Result<Dates, Reason> {
        let (Some(certificate_text), Some(key_text)) = (certificate.text, key.text) else {
            return Err(Reason::Missing);
        };
        let held = Certificate::from_pem(certificate_text)
            .map_err(|error| garbage(certificate.name, &error))?;
        let held_key = PrivateKey::from_pem(key_text).map_err(|error| garbage(key.name, &error))?;
        if !held.belongs_to(&held_key) {
            return Err(Reason::WrongKey);
        }
        if self.requested {
            return Err(Reason::Requested);
        }
        match self.signer {
            Signer::Replaced => return Err(Reason::AuthorityReplaced),
            Signer::Stands(authority) | Signer::Renewed(authority)
                if !held.is_signed_by(authority.certificate()) =>
            {
                return Err(Reason::ForeignAuthority);
            }
            Signer::Stands(_) | Signer::Renewed(_) | Signer::Unusable => (),
        }
        self.matches(&held, &held_key)?;
        self.dates(&held)
    }

    fn matches(&self, held: &Certificate, key: &PrivateKey) -> Result<(), Reason> {
        let profile = self.profile;
        if *held.subject() != profile.subject {
            let (from, to) = (held.subject().clone(), profile.subject.clone());
            return Err(Reason::Subject { from, to });
        }
        if !held.has_usages_of(profile) {
            return Err(Reason::Usages);
        }
        if *held.names() != profile.names {
            return Err(Reason::names(held.names(), &profile.names));
        }
        match self.only {
            Some(to) if !key.kind().is(to) => Err(Reason::Algorithm {
                from: key.kind(),
                to,
            }),
            Some(_) | None => Ok(()),
        }
    }

    fn dates(&self, held: &Certificate) -> Result<Dates, Reason> {
        if self.now >= held.not_after() {
            return Err(Reason::Expired {
                at: held.not_after(),
            });
        }
        if self.now < held.not_before() {
            return Err(Reason::NotYetValid {
                from: held.not_before(),
            });
        }
        let due = renew_at(held, self.lifetime, self.jitter);
        let anew = Validity::starting(self.now, self.lifetime);
        let anew = match self.signer {
            Signer::Stands(authority) => anew.within(authority.certificate()),
            Signer::Renewed(_) | Signer::Replaced | Signer::Unusable => anew,
        };
        // Near the end of its authority a certificate would be made again and again for nothing.
        let gains = anew.not_after != held.not_after();
        match (self.now >= due, gains) {
            (true, true) => Err(Reason::Due { since: due }),
            (true, false) => Ok(Dates {
                not_after: Some(held.not_after()),
                renew_at: None,
            }),
            (false, _) => Ok(Dates {
                not_after: Some(held.not_after()),
                renew_at: Some(due),
            }),
        }
    }

    /// What is done about a reason: nothing can be signed by an authority that is unusable.
    pub(crate) fn answer(&self, reason: Reason) -> Action {
        match self.signer {
            Signer::Unusable => Action::Blocked {
                reason: Reason::AuthorityUnusable,
            },
            Signer::Stands(_) | Signer::Renewed(_) | Signer::Replaced => Action::Issue { reason },
        }
    }
}

/// A file of a Secret, if it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: Option<&'a [u8]>,
}

pub(crate) fn garbage(file: &str, problem: &impl ToString) -> Reason {
    Reason::Garbage {
        file: file.to_owned(),
        problem: problem.to_string(),
    }
}

/// Whether an authority that is made here may stay, is renewed, or must be repaired.
pub(crate) fn authority(
    held: Result<Authority, AuthorityError>,
    file: &str,
    profile: &Profile,
    purposes: &[Purpose],
    (lifetime, now, jitter): (Lifetime, Timestamp, Jitter),
) -> (Action, Dates, Signer) {
    let blocked = |reason| {
        (
            Action::Blocked { reason },
            Dates::default(),
            Signer::Unusable,
        )
    };
    let held = match held {
        Ok(held) => held,
        Err(error) => return blocked(garbage(file, &error)),
    };
    let not_after = held.certificate().not_after();
    let ours = held.is_ours(profile);
    let renewed = |reason, held| {
        (
            Action::Rewrite { reason },
            Dates::default(),
            Signer::Renewed(held),
        )
    };
    match held.check(purposes, now) {
        Ok(()) => (),
        Err(AuthorityError::Expired(at)) if ours => return renewed(Reason::Expired { at }, held),
        Err(error) => return blocked(garbage(file, &error)),
    }
    let due = renew_at(held.certificate(), lifetime, jitter);
    if ours && now >= due {
        return renewed(Reason::Due { since: due }, held);
    }
    let dates = Dates {
        not_after: Some(not_after),
        renew_at: (ours && now < due).then_some(due),
    };
    (Action::Keep, dates, Signer::Stands(held))
}
