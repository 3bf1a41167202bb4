//! How the pods of a control plane are run: the fragments of pods that users write, read into Kubernetes'
//! own types.
//!
//! A field that those types do not have is an error that names it: dropped in silence, a misspelt
//! `securityContext` would be a hole.

use std::collections::BTreeMap;

use butler_api::{
    steward::{
        fragments::{self, ExtraMetadata},
        tenant_control_plane::{
            Deployment,
            deployment::{self, StrategyType},
        },
    },
    types::Quantity,
};
use k8s_openapi::{
    api::core::v1::{
        Affinity, Container, ResourceRequirements, Toleration, TopologySpreadConstraint, Volume,
        VolumeMount,
    },
    apimachinery::pkg::{api::resource, util::intstr::IntOrString},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::SpecError;
use crate::{names, workload::files};

/// CPU and memory of a container.
pub type Resources = ResourceRequirements;

/// Labels and annotations that users add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// How new pods replace old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// New pods start before old ones stop.
    Rolling {
        /// Pods that may run on top.
        max_surge: IntOrString,
        /// Pods that may be missing.
        max_unavailable: IntOrString,
    },
    /// Old pods stop before new ones start.
    Recreate,
}

/// One value for each component.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerComponent<T> {
    /// Of the API server.
    pub api_server: T,
    /// Of the controller manager.
    pub controller_manager: T,
    /// Of the scheduler.
    pub scheduler: T,
}

/// How the pods are run.
#[derive(Clone, Debug, PartialEq)]
pub struct Pods {
    /// Labels that a node must carry.
    pub node_selector: BTreeMap<String, String>,
    /// `RuntimeClass`.
    pub runtime_class: Option<String>,
    /// `PriorityClass`.
    pub priority_class: Option<String>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// Where the pods are drawn to.
    pub affinity: Option<Affinity>,
    /// How the pods are spread; empty means the default.
    pub spread: Vec<TopologySpreadConstraint>,
    /// Service account.
    pub service_account: String,
    /// How new pods replace old ones.
    pub strategy: Strategy,
    /// CPU and memory; none means the default.
    pub resources: PerComponent<Option<Resources>>,
    /// Of the Deployment.
    pub deployment_metadata: Metadata,
    /// Of the pods.
    pub pod_metadata: Metadata,
    /// Containers that run first.
    pub init_containers: Vec<Container>,
    /// Containers that run beside.
    pub containers: Vec<Container>,
    /// Volumes.
    pub volumes: Vec<Volume>,
    /// Mounts of these volumes.
    pub mounts: PerComponent<Vec<VolumeMount>>,
}

const AT: &str = "spec.controlPlane.deployment";

/// Reads how the pods are run.
pub(super) fn pods(raw: &Deployment) -> Result<Pods, SpecError> {
    let mounts = raw.additional_volume_mounts.clone().unwrap_or_default();
    Ok(Pods {
        node_selector: raw.node_selector.clone(),
        runtime_class: raw.runtime_class_name.clone(),
        priority_class: raw.priority_class_name.clone(),
        tolerations: fragments("tolerations", &raw.tolerations)?,
        affinity: raw
            .affinity
            .as_ref()
            .map(|affinity| fragment(&format!("{AT}.affinity"), affinity))
            .transpose()?,
        spread: fragments(
            "topologySpreadConstraints",
            &raw.topology_spread_constraints,
        )?,
        service_account: raw.service_account_name.clone(),
        strategy: strategy(&raw.strategy),
        resources: component_resources(raw.resources.as_ref())?,
        deployment_metadata: metadata(raw.additional_metadata.as_ref()),
        pod_metadata: metadata(raw.pod_additional_metadata.as_ref()),
        init_containers: containers("additionalInitContainers", &raw.additional_init_containers)?,
        containers: containers("additionalContainers", &raw.additional_containers)?,
        volumes: volumes(&raw.additional_volumes)?,
        mounts: PerComponent {
            api_server: volume_mounts("apiServer", &mounts.api_server)?,
            controller_manager: volume_mounts("controllerManager", &mounts.controller_manager)?,
            scheduler: volume_mounts("scheduler", &mounts.scheduler)?,
        },
    })
}

/// Reads labels and annotations; Steward's own labels are never taken from users.
pub(super) fn metadata(raw: Option<&ExtraMetadata>) -> Metadata {
    raw.map_or_else(Metadata::default, |raw| Metadata {
        labels: raw.labels.clone(),
        annotations: raw.annotations.clone(),
    })
}

fn strategy(raw: &deployment::Strategy) -> Strategy {
    let (surge, unavailable) = raw.rolling_update.as_ref().map_or((None, None), |pace| {
        (pace.max_surge.clone(), pace.max_unavailable.clone())
    });
    match raw.kind {
        StrategyType::Recreate => Strategy::Recreate,
        StrategyType::RollingUpdate => Strategy::Rolling {
            max_surge: surge.unwrap_or_else(|| IntOrString::String("100%".into())),
            max_unavailable: unavailable.unwrap_or(IntOrString::Int(0)),
        },
    }
}

fn component_resources(
    raw: Option<&deployment::ComponentResources>,
) -> Result<PerComponent<Option<Resources>>, SpecError> {
    let read = |name: &str, raw: Option<&fragments::Resources>| {
        raw.map(|raw| resources(&format!("{AT}.resources.{name}"), raw))
            .transpose()
    };
    Ok(PerComponent {
        api_server: read("apiServer", raw.and_then(|raw| raw.api_server.as_ref()))?,
        controller_manager: read(
            "controllerManager",
            raw.and_then(|raw| raw.controller_manager.as_ref()),
        )?,
        scheduler: read("scheduler", raw.and_then(|raw| raw.scheduler.as_ref()))?,
    })
}

/// Reads amounts, in the spelling in which the API server would hand them back: any other would look like
/// drift for ever.
pub(super) fn resources(field: &str, raw: &fragments::Resources) -> Result<Resources, SpecError> {
    let amounts = |part: &str, raw: &BTreeMap<String, IntOrString>| {
        let read = |(name, amount): (&String, &IntOrString)| {
            let quantity = Quantity::try_from(amount)
                .map_err(|error| SpecError::invalid(format!("{field}.{part}.{name}"), error))?;
            Ok((name.clone(), resource::Quantity(quantity.to_string())))
        };
        let amounts = raw
            .iter()
            .map(read)
            .collect::<Result<BTreeMap<_, _>, SpecError>>()?;
        Ok::<_, SpecError>(Some(amounts).filter(|amounts| !amounts.is_empty()))
    };
    Ok(ResourceRequirements {
        requests: amounts("requests", &raw.requests)?,
        limits: amounts("limits", &raw.limits)?,
        ..ResourceRequirements::default()
    })
}

fn containers(part: &str, raw: &[Value]) -> Result<Vec<Container>, SpecError> {
    let mut containers: Vec<Container> = fragments(part, raw)?;
    let own = [
        names::API_SERVER,
        names::CONTROLLER_MANAGER,
        names::SCHEDULER,
        names::KONNECTIVITY_SERVER,
    ];
    for (index, container) in containers.iter_mut().enumerate() {
        let field = format!("{AT}.{part}[{index}]");
        if own.contains(&container.name.as_str()) {
            let problem = format!(
                "{:?} is a container of the control plane itself",
                container.name
            );
            return Err(SpecError::invalid(format!("{field}.name"), problem));
        }
        if let Some(resources) = &mut container.resources {
            let amounts = resources.requests.iter_mut().chain(&mut resources.limits);
            for (name, amount) in amounts.flatten() {
                let quantity: Quantity = amount.0.parse().map_err(|error| {
                    SpecError::invalid(format!("{field}.resources: {name}"), error)
                })?;
                amount.0 = quantity.to_string();
            }
        }
    }
    Ok(containers)
}

fn volumes(raw: &[Value]) -> Result<Vec<Volume>, SpecError> {
    let part = "additionalVolumes";
    let volumes: Vec<Volume> = fragments(part, raw)?;
    let own = |volume: &Volume| files::VOLUMES.contains(&volume.name.as_str());
    if let Some((index, volume)) = volumes.iter().enumerate().find(|(_, volume)| own(volume)) {
        let problem = format!("{:?} is a volume of the control plane itself", volume.name);
        return Err(SpecError::invalid(
            format!("{AT}.{part}[{index}].name"),
            problem,
        ));
    }
    Ok(volumes)
}

fn volume_mounts(component: &str, raw: &[Value]) -> Result<Vec<VolumeMount>, SpecError> {
    let part = format!("additionalVolumeMounts.{component}");
    let mounts: Vec<VolumeMount> = fragments(&part, raw)?;
    let own =
        |mount: &VolumeMount| files::FOLDERS.contains(&mount.mount_path.trim_end_matches('/'));
    if let Some((index, mount)) = mounts.iter().enumerate().find(|(_, mount)| own(mount)) {
        let problem = format!(
            "{:?} holds files of the control plane itself",
            mount.mount_path
        );
        return Err(SpecError::invalid(
            format!("{AT}.{part}[{index}].mountPath"),
            problem,
        ));
    }
    Ok(mounts)
}

fn fragments<T: DeserializeOwned + Serialize>(
    part: &str,
    raw: &[Value],
) -> Result<Vec<T>, SpecError> {
    let read = |(index, value)| fragment(&format!("{AT}.{part}[{index}]"), value);
    raw.iter().enumerate().map(read).collect()
}

fn fragment<T: DeserializeOwned + Serialize>(field: &str, raw: &Value) -> Result<T, SpecError> {
    let unreadable = |error| SpecError::invalid(field, error);
    let parsed: T = serde_json::from_value(raw.clone()).map_err(unreadable)?;
    let kept = serde_json::to_value(&parsed).map_err(unreadable)?;
    match lost(raw, &kept) {
        None => Ok(parsed),
        Some(path) => {
            let field = format!("{field}{path}");
            Err(SpecError::invalid(field, "there is no such field here"))
        }
    }
}

/// The path of a field that was written but not understood.
fn lost(written: &Value, kept: &Value) -> Option<String> {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => {
            written.iter().find_map(|(key, value)| match kept.get(key) {
                Some(kept) => lost(value, kept).map(|path| format!(".{key}{path}")),
                None => (!value.is_null()).then(|| format!(".{key}")),
            })
        }
        (Value::Array(written), Value::Array(kept)) => written
            .iter()
            .zip(kept)
            .enumerate()
            .find_map(|(index, (value, kept))| {
                lost(value, kept).map(|path| format!("[{index}]{path}"))
            }),
        _ => None,
    }
}
