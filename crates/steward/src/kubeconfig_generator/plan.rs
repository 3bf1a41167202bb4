//! Pure decisions of a generator: which control planes it means, whom their kubeconfigs name, what they say, and
//! which Secrets are left over. It knows no client and no clock.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
};

use butler_api::steward::{
    TenantControlPlane,
    kubeconfig_generator::{CompoundValue, KubeconfigGeneratorSpec},
};
use butler_pki::{
    Algorithm, Authority, AuthorityError, Content, Kubeconfig, Lifetimes, Reason, SecretKind,
    Subject, Tenant, UserKubeconfig, kubeconfig::KubeconfigError, user,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{
    ResourceExt,
    core::{ParseExpressionError, Selector, SelectorExt},
};
use serde_json::Value;

use crate::names::{self, Part};

/// The group that passes every check of an API server.
const MASTERS: &str = "system:masters";

/// Objects of a control plane that a generated Secret of the same name would stand in the way of.
const LATER: [Part; 6] = [
    Part::DataStoreConfig,
    Part::KonnectivityCertificate,
    Part::KonnectivityKubeconfig,
    Part::EncryptionKeys,
    Part::EncryptionConfig,
    Part::DataStoreCertificate,
];

/// Which control planes a generator means.
pub(super) struct Selection {
    namespaces: Selector,
    control_planes: Selector,
}

impl Selection {
    pub(super) fn of(spec: &KubeconfigGeneratorSpec) -> Result<Self, ParseExpressionError> {
        let selector = |selector: &Option<LabelSelector>| {
            Selector::try_from(selector.clone().unwrap_or_default())
        };
        Ok(Self {
            namespaces: selector(&spec.namespace_selector)?,
            control_planes: selector(&spec.tenant_control_plane_selector)?,
        })
    }

    /// Whether a control plane is meant; the labels are its namespace's, where that is known.
    pub(super) fn holds(
        &self,
        plane: &TenantControlPlane,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> bool {
        plane.metadata.deletion_timestamp.is_none()
            && self.control_planes.matches(plane.labels())
            && namespace.map_or_else(
                || self.namespaces.selects_all(),
                |labels| self.namespaces.matches(labels),
            )
    }
}

/// Why nobody can be named.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SubjectError {
    #[error("{field} says neither stringValue nor fromDefinition; set one of them")]
    Unset { field: String },
    #[error(
        "{field} is read from {path}, which the control plane does not have; set it there, or read another field"
    )]
    Missing { field: String, path: String },
    #[error("{field} is read from {path}, which is not a text; read another field")]
    NotText { field: String, path: String },
    #[error(
        "the group {MASTERS} is refused: it passes every check, and no change of RBAC takes its rights back from a kubeconfig that was handed out; use a group of your own and bind it to a role, cluster-admin if need be"
    )]
    Masters,
    #[error(transparent)]
    Unusable(#[from] user::SubjectError),
}

/// Whom the kubeconfig of a control plane names.
pub(super) fn subject(
    spec: &KubeconfigGeneratorSpec,
    plane: &TenantControlPlane,
) -> Result<Subject, SubjectError> {
    let definition = LazyCell::new(|| serde_json::to_value(plane).unwrap_or_default());
    let read = |value: &CompoundValue, field: String| match value {
        CompoundValue {
            string_value: Some(text),
            ..
        } => Ok(text.clone()),
        CompoundValue {
            from_definition: Some(path),
            ..
        } => leaf(&definition, path, field),
        CompoundValue { .. } => Err(SubjectError::Unset { field }),
    };
    let user = read(&spec.user, "spec.user".to_owned())?;
    let groups = spec.groups.iter().enumerate();
    let groups: Vec<String> = groups
        .map(|(index, group)| read(group, format!("spec.groups[{index}]")))
        .collect::<Result<_, _>>()?;
    // Also when it is read from the control plane, where others may write.
    if groups.iter().any(|group| group == MASTERS) {
        return Err(SubjectError::Masters);
    }
    Ok(Subject::user(&user, &groups)?)
}

/// The text at a path with dots, a first dot being optional.
fn leaf(definition: &Value, path: &str, field: String) -> Result<String, SubjectError> {
    let steps = path.strip_prefix('.').unwrap_or(path).split('.');
    let mut found = Some(definition);
    for step in steps {
        found = found.and_then(|value| value.get(step));
    }
    let path = path.to_owned();
    match found {
        Some(Value::String(text)) => Ok(text.clone()),
        None | Some(Value::Null) => Err(SubjectError::Missing { field, path }),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(SubjectError::NotText { field, path })
        }
    }
}

/// Why a kubeconfig cannot be made or renewed now; one that is there stays.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    #[error("the control plane has no Secret {secret} yet")]
    Waiting { secret: String },
    #[error("the Secret {secret} has no key {key}; name another in spec.controlPlaneEndpointFrom")]
    NoEndpoint { secret: String, key: String },
    #[error("the address cannot be read from {key} of the Secret {secret}")]
    Endpoint {
        secret: String,
        key: String,
        #[source]
        source: KubeconfigError,
    },
    #[error("the authority in the Secret {secret} cannot sign")]
    Authority {
        secret: String,
        #[source]
        source: AuthorityError,
    },
    #[error(
        "the Secret {secret} was not made by this generator and is left alone; rename the generator, or remove the Secret"
    )]
    Foreign { secret: String },
    #[error("the kubeconfig cannot be renewed: {reason}")]
    Blocked { reason: Reason },
}

/// What the kubeconfig should be and who signs it.
pub(super) fn wanted(
    generator: &str,
    endpoint_from: &str,
    tenant: Tenant,
    subject: Subject,
    authority: &Content,
    admin: &Content,
) -> Result<(UserKubeconfig, Authority), Obstacle> {
    let name = SecretKind::AdminKubeconfig.name(&tenant.name);
    let key = endpoint_from.to_owned();
    let Some(file) = admin.data.get(endpoint_from) else {
        return Err(Obstacle::NoEndpoint { secret: name, key });
    };
    let server = match Kubeconfig::from_yaml(file) {
        Ok(kubeconfig) => kubeconfig.server,
        Err(source) => {
            return Err(Obstacle::Endpoint {
                secret: name,
                key,
                source,
            });
        }
    };
    let file = |name: &str| authority.data.get(name).map(Vec::as_slice);
    let authority = Authority::from_pem(
        file("ca.crt").unwrap_or_default(),
        file("ca.key").unwrap_or_default(),
    )
    .map_err(|source| Obstacle::Authority {
        secret: SecretKind::Ca.name(&tenant.name),
        source,
    })?;
    let wanted = UserKubeconfig {
        generator: generator.to_owned(),
        tenant,
        subject,
        server,
        algorithm: Algorithm::EcdsaP256,
        lifetime: Lifetimes::default().leaf,
    };
    Ok((wanted, authority))
}

/// Whether a Secret is one that the generator made: by its labels and by the name that follows from them.
pub(super) fn is_made_by(generator: &str, secret: &ObjectMeta) -> bool {
    let label = |key| secret.labels.as_ref().and_then(|labels| labels.get(key));
    let plane = label(names::MANAGED_FOR).map(String::as_str);
    label(names::MANAGED_BY).is_some_and(|held| held == generator)
        && plane.is_some_and(|plane| {
            secret.name.as_deref() == Some(&names::generated_kubeconfig(plane, generator))
        })
}

/// Secrets of the generator that no selected control plane has.
pub(super) fn leftovers<'a, K: ResourceExt>(
    generator: &str,
    held: &'a [K],
    kept: &BTreeSet<(String, String)>,
) -> Vec<&'a K> {
    let is_left = |secret: &&K| {
        let key = (secret.namespace().unwrap_or_default(), secret.name_any());
        is_made_by(generator, secret.meta())
            && !kept.contains(&key)
            && secret.meta().deletion_timestamp.is_none()
    };
    held.iter().filter(is_left).collect()
}

/// The ending that makes a generator's name unusable: its Secrets would be called like those of control planes.
pub(super) fn reserved(generator: &str) -> Option<&'static str> {
    let kinds = SecretKind::ALL.map(SecretKind::suffix);
    let suffixes = kinds.into_iter().chain(LATER.map(Part::suffix));
    let is_like = |suffix: &&str| {
        let before = generator.strip_suffix(suffix);
        before.is_some_and(|before| before.is_empty() || before.ends_with('-'))
    };
    suffixes.into_iter().find(is_like)
}

#[cfg(test)]
mod tests;
