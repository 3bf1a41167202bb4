//! Workers: `spec.workers` and `spec.workerPools` become pools of one shape.

use std::collections::{BTreeMap, BTreeSet};

use butler_api::{
    butler::tenant_cluster::{
        DEFAULT_POOL, MachineTemplate, NodeTaint, OsType, PoolSettings, WorkerPool,
    },
    types::Quantity,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Faults, Raw, schedules};

/// How long the pods of a machine may take to leave, unless a pool says something else.
const DRAIN_SECONDS: u32 = 30 * 60;

/// How many workers a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many.
    Fixed(u32),
    /// As many as the autoscaler wants.
    Between {
        /// At least.
        min: u32,
        /// At most.
        max: u32,
    },
}

impl Size {
    /// The most workers there may be.
    pub const fn most(self) -> u32 {
        match self {
            Self::Fixed(count) => count,
            Self::Between { max, .. } => max,
        }
    }

    /// The fewest workers there may be.
    pub const fn fewest(self) -> u32 {
        match self {
            Self::Fixed(count) => count,
            Self::Between { min, .. } => min,
        }
    }
}

/// What one machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// CPUs.
    pub cpu: u32,
    /// Memory.
    pub memory: Quantity,
    /// Disk.
    pub disk: Quantity,
}

impl Machine {
    /// Memory in MiB, rounded up: a machine never gets less than was asked for.
    pub fn memory_mib(&self) -> u64 {
        in_units(self.memory, 1 << 20)
    }

    /// Disk in GiB, rounded up.
    pub fn disk_gib(&self) -> u64 {
        in_units(self.disk, 1 << 30)
    }
}

fn in_units(amount: Quantity, unit: i128) -> u64 {
    let bytes = amount.ceil();
    let whole = bytes / unit + i128::from(bytes % unit != 0);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// Operating system of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Os {
    /// Rocky Linux, with kubeadm.
    Rocky,
    /// Talos Linux, with a machine configuration.
    Talos(Talos),
    /// Flatcar Container Linux, with Ignition.
    Flatcar,
    /// Bottlerocket, with settings.
    Bottlerocket,
    /// Kairos, with cloud-config.
    Kairos,
}

/// More about Talos Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Talos {
    /// Release; left out, that of the image.
    pub version: Option<String>,
    /// Disk to install to.
    pub disk: Option<String>,
    /// Installer image.
    pub installer: Option<String>,
}

/// A pool of equal workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// How many.
    pub size: Size,
    /// What one has.
    pub machine: Machine,
    /// What runs on it.
    pub os: Os,
    /// Image of the provider that was asked for.
    pub image: Option<String>,
    /// Schematic that an image is built from.
    pub schematic: Option<String>,
    /// Labels of the nodes.
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    pub taints: Vec<NodeTaint>,
    /// Zone.
    pub zone: Option<String>,
    /// Whether broken workers are replaced.
    pub repair: bool,
    /// Seconds until a worker goes although pods are left.
    pub drain_seconds: u32,
    /// Workers more than wanted while they are replaced.
    pub surge: u32,
    /// Workers fewer than wanted while they are replaced.
    pub unavailable: u32,
    /// SSH key of this pool.
    pub ssh_key: Option<String>,
}

impl Pool {
    /// Where it stands in the spec, for messages.
    pub fn field(&self) -> String {
        field(&self.name)
    }
}

fn field(name: &str) -> String {
    if name == DEFAULT_POOL {
        "spec.workers".to_owned()
    } else {
        format!("spec.workerPools[{name}]")
    }
}

/// What both ways to describe workers have in common.
struct Parts<'a> {
    name: &'a str,
    size: Size,
    template: &'a MachineTemplate,
    settings: &'a PoolSettings,
}

pub(super) fn validate(raw: &Raw<'_>, faults: &mut Faults) -> Vec<Pool> {
    let spec = &raw.cluster.spec;
    let first = Parts {
        name: DEFAULT_POOL,
        size: Size::Fixed(count(
            "spec.workers.replicas",
            spec.workers.replicas,
            faults,
        )),
        template: &spec.workers.machine_template,
        settings: &spec.workers.settings,
    };
    let mut names = BTreeSet::from([DEFAULT_POOL]);
    let mut pools: Vec<Pool> = pool(&first, raw, faults).into_iter().collect();
    for worker_pool in &spec.worker_pools {
        let name = worker_pool.name.as_str();
        if !names.insert(name) {
            let rule = format!("there is already a pool {name:?}: names are unique in a cluster");
            faults.add(format!("{}.name", field(name)), rule);
            continue;
        }
        let parts = Parts {
            name,
            size: size(worker_pool, faults),
            template: &worker_pool.machine_template,
            settings: &worker_pool.settings,
        };
        pools.extend(pool(&parts, raw, faults));
    }
    // A cluster that lists its workers in pools says 0 here: an empty pool of the old way would only be noise.
    if !spec.worker_pools.is_empty() && spec.workers.replicas == 0 {
        pools.retain(|pool| pool.name != DEFAULT_POOL);
    }
    pools
}

fn count(field: &str, number: i32, faults: &mut Faults) -> u32 {
    u32::try_from(number).unwrap_or_else(|_| {
        faults.add(field, format!("{number} is negative"));
        0
    })
}

fn size(pool: &WorkerPool, faults: &mut Faults) -> Size {
    let field = field(&pool.name);
    match (pool.replicas, pool.min_replicas, pool.max_replicas) {
        (Some(replicas), None, None) => {
            Size::Fixed(count(&format!("{field}.replicas"), replicas, faults))
        }
        (None, Some(min), Some(max)) if min <= max => Size::Between {
            min: count(&format!("{field}.minReplicas"), min, faults),
            max: count(&format!("{field}.maxReplicas"), max, faults),
        },
        (None, Some(min), Some(max)) => {
            let rule = format!("{min} is above maxReplicas, which is {max}");
            faults.add(format!("{field}.minReplicas"), rule);
            Size::Fixed(0)
        }
        _ => {
            let rule = "give either replicas, or minReplicas and maxReplicas for the autoscaler";
            faults.add(format!("{field}.replicas"), rule);
            Size::Fixed(0)
        }
    }
}

fn pool(parts: &Parts<'_>, raw: &Raw<'_>, faults: &mut Faults) -> Option<Pool> {
    let field = field(parts.name);
    let machine = machine(parts.template, &field, faults);
    let os = &parts.template.os;
    let settings = parts.settings;
    let drain_seconds = settings.drain_timeout.as_ref().map(|text| {
        let field = format!("{field}.drainTimeout");
        schedules::seconds(&field, text, faults).unwrap_or(DRAIN_SECONDS)
    });
    check_labels(settings, &field, faults);
    let rollout = &settings.rollout;
    let (surge, unavailable) = (
        count(
            &format!("{field}.rollout.maxSurge"),
            rollout.max_surge,
            faults,
        ),
        count(
            &format!("{field}.rollout.maxUnavailable"),
            rollout.max_unavailable,
            faults,
        ),
    );
    if surge == 0 && unavailable == 0 {
        let rule = "with maxSurge 0 and maxUnavailable 0 no worker could ever be replaced";
        faults.add(format!("{field}.rollout.maxSurge"), rule);
    }
    let talos = os.talos.clone().unwrap_or_default();
    let platform_key = raw.platform.ssh_authorized_key.clone();
    Some(Pool {
        name: parts.name.to_owned(),
        size: parts.size,
        machine: machine?,
        os: match os.os_type {
            OsType::Rocky => Os::Rocky,
            OsType::Flatcar => Os::Flatcar,
            OsType::Kairos => Os::Kairos,
            OsType::Bottlerocket => Os::Bottlerocket,
            OsType::Talos => Os::Talos(Talos {
                version: talos.version.or_else(|| os.version.clone()),
                disk: talos.install_disk,
                installer: talos.installer_image,
            }),
        },
        image: os.image_ref.clone(),
        schematic: os.schematic_id.clone(),
        labels: settings.labels.clone(),
        taints: settings.taints.clone(),
        zone: settings.zone.clone(),
        repair: settings.auto_repair,
        drain_seconds: drain_seconds.unwrap_or(DRAIN_SECONDS),
        surge,
        unavailable,
        ssh_key: os.ssh_authorized_key.clone().or(platform_key),
    })
}

fn machine(template: &MachineTemplate, field: &str, faults: &mut Faults) -> Option<Machine> {
    let mut amount = |name: &str, raw: &IntOrString, least: Quantity| {
        let field = format!("{field}.machineTemplate.{name}");
        let amount: Quantity = faults.parse(&field, raw.try_into())?;
        if amount < least {
            faults.add(
                &field,
                format!("{amount} is too little: give at least {least}"),
            );
            return None;
        }
        Some(amount)
    };
    let cpu = amount("cpu", &template.cpu, Quantity::from_milli(1000));
    let memory = amount("memory", &template.memory, Quantity::from_bytes(1 << 30));
    let disk = amount(
        "diskSize",
        &template.disk_size,
        Quantity::from_bytes(10 << 30),
    );
    Some(Machine {
        cpu: u32::try_from(cpu?.ceil()).unwrap_or(u32::MAX),
        memory: memory?,
        disk: disk?,
    })
}

/// Labels of Kubernetes' own domains that a kubelet may give itself.
const KUBELET_MAY: [&str; 4] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/exclude-from-external-load-balancers",
];

/// Domains that Cluster API copies from a Machine to its Node, which the kubelet itself may not set.
const COPIED: [&str; 3] = [
    "node-role.kubernetes.io",
    "node-restriction.kubernetes.io",
    "node.cluster.x-k8s.io",
];

/// Whether a label reaches the Node by way of its Machine.
pub(crate) fn is_copied(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    COPIED
        .iter()
        .any(|copied| domain == *copied || domain.ends_with(&format!(".{copied}")))
}

/// Whether a text is a label key: a name of at most 63 characters, with a DNS domain before it or without.
fn is_label_key(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let ends_well = |text: &str| {
        let ends = [text.chars().next(), text.chars().next_back()];
        ends.iter()
            .all(|end| end.is_some_and(|end| end.is_ascii_alphanumeric()))
    };
    let name_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let domain_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let good_name = name.len() <= 63 && name.chars().all(name_char) && ends_well(name);
    let good_domain = domain.is_none_or(|domain| {
        domain.len() <= 253 && domain.chars().all(domain_char) && ends_well(domain)
    });
    good_name && good_domain
}

fn check_labels(settings: &PoolSettings, field: &str, faults: &mut Faults) {
    for key in settings.labels.keys() {
        if !is_label_key(key) {
            let rule =
                format!("{key:?} is not a label key: write it like tier or example.com/tier");
            faults.add(format!("{field}.labels"), rule);
            continue;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_own = ["kubernetes.io", "k8s.io"]
            .iter()
            .any(|own| domain == *own || domain.ends_with(&format!(".{own}")));
        let allowed = !is_own
            || is_copied(key)
            || KUBELET_MAY.contains(&key.as_str())
            || domain.ends_with("kubelet.kubernetes.io")
            || domain.ends_with("node.kubernetes.io");
        if !allowed {
            let rule = format!(
                "{key} is in a domain of Kubernetes that a kubelet may not set on its own node: use node-role.kubernetes.io/, node-restriction.kubernetes.io/ or a domain of your own"
            );
            faults.add(format!("{field}.labels"), rule);
        }
    }
}
