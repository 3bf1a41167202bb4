//! Kubeconfigs for people: any user in any groups, over one control plane, in a Secret of its own.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use thiserror::Error;

use crate::{
    authority::Authority,
    files::Files,
    issue::{IssueError, Maker, second},
    judge::{Leaf, Signer},
    key::Algorithm,
    layout::{Content, LIFECYCLE, Tenant},
    plan::Step,
    profile::{Profile, Purpose, Subject},
    source::KeySource,
    validity::{Jitter, Lifetime},
};

/// Label: the generator that made a kubeconfig.
pub const MANAGED_BY: &str = "steward.butlerlabs.dev/managed-by";
/// Label: the control plane that a kubeconfig is for.
pub const MANAGED_FOR: &str = "steward.butlerlabs.dev/managed-for";
/// Key of the Secret that holds the kubeconfig.
pub const FILE: &str = "value";

/// The longest text that X.509 allows in a name.
const LONGEST: usize = 64;

/// A user or group that no certificate can name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} cannot be a user or group in a certificate: use 1 to 64 characters, none of them a control character"
)]
pub struct SubjectError(pub String);

impl Subject {
    /// A user in groups, as people wrote them.
    pub fn user(user: &str, groups: &[String]) -> Result<Self, SubjectError> {
        let texts = [user].into_iter().chain(groups.iter().map(String::as_str));
        for text in texts {
            let length = text.chars().count();
            if !(1..=LONGEST).contains(&length) || text.chars().any(char::is_control) {
                return Err(SubjectError(text.to_owned()));
            }
        }
        Ok(Self::new(user, groups.iter().map(String::as_str)))
    }
}

/// The kubeconfig that one generator makes for one control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserKubeconfig {
    /// Name of the generator; entries in the file are called so.
    pub generator: String,
    /// The control plane.
    pub tenant: Tenant,
    /// Whom it names.
    pub subject: Subject,
    /// Address of the API server.
    pub server: String,
    /// How the key is made.
    pub algorithm: Algorithm,
    /// How long its certificate lives.
    pub lifetime: Lifetime,
}

impl UserKubeconfig {
    /// Name of its Secret.
    pub fn secret_name(&self) -> String {
        format!("{}-{}", self.tenant.name, self.generator)
    }

    /// Whether the held kubeconfig stays, is written anew around its key, or is made anew.
    pub fn plan(
        &self,
        held: Option<&Content>,
        authority: &Authority,
        now: Timestamp,
        jitter: Jitter,
    ) -> Step {
        let signer = match authority.check(&[Purpose::ClientAuth], now) {
            Ok(()) => Signer::Stands(authority.clone()),
            Err(_) => Signer::Unusable,
        };
        let leaf = Leaf {
            profile: &self.profile(),
            signer: &signer,
            lifetime: self.lifetime,
            only: None,
            requested: held.is_some_and(Content::is_asked_to_rotate),
            now,
            jitter,
        };
        let (action, dates) = self.files().judge(&leaf, |name| held?.file(name));
        Step {
            action,
            not_after: dates.not_after,
            renew_at: dates.renew_at,
        }
    }

    /// Carries the plan out; what stays is returned as it is held.
    pub fn issue(
        &self,
        step: &Step,
        held: Option<&Content>,
        authority: &Authority,
        source: &mut dyn KeySource,
        now: Timestamp,
    ) -> Result<Content, IssueError> {
        let mut content = held.cloned().unwrap_or_default();
        content.data.retain(|key, _| key == FILE);
        if step.action.changes() {
            let mut maker = Maker::leaves(self.algorithm, self.lifetime, source, now);
            let profile = self.profile();
            self.files()
                .make(&step.action, &mut content, &profile, authority, &mut maker)?;
            if content.is_asked_to_rotate() {
                content.rotate = Some(second(now));
            }
        }
        Ok(content)
    }

    /// The Secret, without an owner.
    pub fn to_secret(&self, content: &Content) -> Secret {
        let labels = BTreeMap::from([
            (MANAGED_BY.to_owned(), self.generator.clone()),
            (MANAGED_FOR.to_owned(), self.tenant.name.clone()),
            (LIFECYCLE.to_owned(), "kubeconfig".to_owned()),
        ]);
        content.named(self.secret_name(), &self.tenant.namespace, labels)
    }

    fn profile(&self) -> Profile {
        Profile::client(self.subject.clone())
    }

    fn files(&self) -> Files {
        Files {
            cluster: self.tenant.name.clone(),
            user: self.generator.clone(),
            context: self.generator.clone(),
            servers: vec![(FILE.to_owned(), self.server.clone())],
        }
    }
}
