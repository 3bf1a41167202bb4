//! What would be done for a cluster, step by step, for people who want to know before they ask for it.
//!
//! The same reading and the same plan as the controller's, without a watch and without a write.

use butler_api::{
    butler::{ButlerConfig, ProviderConfig, Team, TenantCluster, butler_config::ButlerConfigSpec},
    names,
};
use butler_capi::{
    Object, Observed, Plan, TenantSpec,
    access::Audience,
    addons::Facts,
    observe::{ClusterState, ControlPlaneState, MachineState, Standing},
    plan,
};
use butler_runtime::{apply::Applier, error::ApiError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::{Value, json};

pub use super::assumed::assume;
use super::{
    addons, assumed,
    carry_out::{Place, WAITED_FOR},
    observe, pools,
    seen::{Seen, observed},
};
use crate::MANAGER;

/// Kinds that a cluster is made of and that a deletion does not wait for.
const OTHERS: [(&str, &str); 5] = [
    ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck"),
    (
        "bootstrap.cluster.x-k8s.io/v1beta2",
        "KubeadmConfigTemplate",
    ),
    ("v1", "Secret"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
];

/// More steps than any change takes: every pool may roll, one after the other, and be tidied up after.
const MOST_STEPS: usize = 80;

/// The platform's defaults.
pub async fn platform(client: &Client) -> Result<ButlerConfigSpec, ApiError> {
    let api: Api<ButlerConfig> = Api::all(client.clone());
    let found = api.get_opt(names::BUTLER_CONFIG).await;
    let found = found.map_err(ApiError::of("get", "ButlerConfig", names::BUTLER_CONFIG))?;
    Ok(found.map_or_else(ButlerConfigSpec::default, |config| config.spec))
}

/// Where the machines of a cluster come from.
pub async fn provider(
    client: &Client,
    raw: &TenantCluster,
    platform: &ButlerConfigSpec,
) -> Result<ProviderConfig, ApiError> {
    let (namespace, name) = super::sources::provider_of(raw, platform);
    let api: Api<ProviderConfig> = Api::namespaced(client.clone(), &namespace);
    let whole = format!("{namespace}/{name}");
    api.get(&name)
        .await
        .map_err(ApiError::of("get", "ProviderConfig", &whole))
}

/// What stands of a cluster now.
pub async fn look(
    client: &Client,
    raw: &TenantCluster,
    spec: &TenantSpec,
) -> Result<Observed, ApiError> {
    let (name, uid) = (spec.identity.tenant_namespace(), &spec.identity.uid);
    let place = Place {
        applier: &Applier::new(client.clone(), MANAGER),
        namespace: &name,
        home: &spec.identity.namespace,
    };
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = api.get_opt(&name).await;
    let namespace = namespace.map_err(ApiError::of("get", "Namespace", &name))?;
    let mut objects = place.infrastructure(spec.infrastructure.kinds()).await?;
    for (version, kind) in WAITED_FOR.into_iter().chain(OTHERS) {
        objects.extend(place.list(version, kind).await?);
    }
    let (machines, mut objects) = objects
        .into_iter()
        .partition::<Vec<Value>, _>(|object| observe::is_a(object, "Machine"));
    objects.extend(
        namespace
            .iter()
            .map(|namespace| observe::described(json!(namespace), "v1", "Namespace")),
    );
    let of_it = addons::live(place.applier, &spec.identity).await?;
    objects.extend(of_it.iter().map(|addon| addons::described(addon)));
    // Also those of others: the control plane's authority is not ours.
    let secrets = objects.iter().filter(|it| observe::is_a(it, "Secret"));
    let secrets: Vec<Value> = secrets.cloned().collect();
    objects.retain(|object| observe::is_of(object, uid));
    let standing = Seen {
        objects: &objects,
        machines: &machines,
        namespace: namespace.as_ref(),
        addons: &of_it,
    };
    let mut seen = observed(raw, uid, &standing);
    assumed::read_joining(spec, &mut seen, &secrets);
    seen.inputs.catalogue = addons::live_catalogue(place.applier, spec, &seen.addons).await?;
    let teams: Api<Team> = Api::all(client.clone());
    // Members of a team may not read it; who has access is not theirs to plan then.
    seen.inputs.access = match teams.get_opt(&spec.identity.namespace).await {
        Err(kube::Error::Api(status)) if status.code == 403 => Audience::Unknown,
        found => {
            let found = found.map_err(ApiError::of("get", "Team", &spec.identity.namespace))?;
            super::access::of(found.as_ref())
        }
    };
    Ok(seen)
}

/// The plans that follow on each other until nothing more happens by itself, if everything goes well.
pub fn foresee(spec: &TenantSpec, mut observed: Observed, now: Timestamp) -> Vec<Plan> {
    let mut steps = Vec::new();
    while steps.len() < MOST_STEPS {
        let next = plan(spec, &observed, now);
        let rests = next.changes.is_empty();
        if rests && !steps.is_empty() {
            break;
        }
        come_true(spec, &mut observed, &next);
        steps.push(next);
        if rests {
            break;
        }
    }
    steps
}

/// Lets everything that is planned be there.
pub(super) fn come_true(spec: &TenantSpec, observed: &mut Observed, plan: &Plan) {
    for object in &plan.objects {
        observed.objects.insert(object.id(), Some(object.hash()));
        match object {
            Object::Namespace(_) => observed.namespace = Standing::Ours,
            Object::Cluster(_) => {
                observed.cluster = Some(ClusterState {
                    infrastructure: true,
                    ..ClusterState::default()
                });
            }
            Object::ControlPlane(_) => serve(observed, &object.to_value()),
            Object::MachineDeployment(_) => grow(observed, &object.to_value()),
            Object::Addon(_) => install(observed, &object.to_value()),
            Object::Role(_)
            | Object::RoleBinding(_)
            | Object::Secret(_)
            | Object::Infrastructure(_)
            | Object::Bootstrap(_)
            | Object::MachineHealthCheck(_) => {}
        }
    }
    for id in &plan.changes.delete {
        observed.objects.remove(id);
        observed.addons.remove(&id.name);
        if id.kind == "MachineDeployment" {
            observed
                .pools
                .retain(|pool, _| spec.identity.pool(pool) != id.name);
        }
    }
    let pools = &observed.pools;
    observed
        .machines
        .retain(|machine| pools.contains_key(&machine.pool));
    for machine in &mut observed.machines {
        machine.version = pools.get(&machine.pool).map(|pool| pool.target.version);
    }
    observed.phase = Some(plan.phase);
}

fn install(observed: &mut Observed, object: &Value) {
    let text = |place: &str| {
        let text = object.pointer(place).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let role = format!("/metadata/labels/{}", names::ADDON_ROLE.replace('/', "~1"));
    let version = object.pointer("/spec/version").and_then(Value::as_str);
    let asked = version.map(str::to_owned);
    let before = observed.addons.remove(&text("/metadata/name"));
    let facts = Facts {
        version: asked
            .clone()
            .or_else(|| before.and_then(|held| held.version)),
        asked,
        ours: true,
        role: text(&role),
        addon: text("/spec/addon"),
        ready: true,
        ..Facts::default()
    };
    observed.addons.insert(text("/metadata/name"), facts);
}

fn serve(observed: &mut Observed, object: &Value) {
    let Some(told) = observe::control_plane(object) else {
        return;
    };
    let endpoint = observed.control_plane.take().and_then(|held| held.endpoint);
    observed.control_plane = Some(ControlPlaneState {
        running: Some(told.wanted),
        initialized: true,
        available: told.replicas > 0,
        endpoint,
        ..told
    });
}

fn grow(observed: &mut Observed, object: &Value) {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64);
    let Some((name, mut pool)) = pools::one(object) else {
        return;
    };
    // The autoscaler decides, and what it will decide is not known.
    if replicas.is_none() {
        pool.wanted = observed.pools.get(&name).map_or(0, |held| held.wanted);
    }
    pool.replicas = pool.wanted;
    pool.up_to_date = pool.wanted;
    pool.ready = pool.wanted;
    pool.current = true;
    // What is installed on machines comes once one has joined.
    let joined = MachineState {
        node: Some(name.clone()),
        version: Some(pool.target.version),
        name: name.clone(),
        pool: name.clone(),
        provider_id: None,
        addresses: std::collections::BTreeSet::new(),
        ending: false,
        message: None,
        obstacle: None,
    };
    if pool.wanted > 0 && observed.machines.iter().all(|it| it.pool != name) {
        observed.machines.push(joined);
    }
    observed.pools.insert(name, pool);
}

#[cfg(test)]
mod tests {
    use butler_capi::{Raw, validate};

    use super::*;

    fn spec(version: &str, pools: &Value) -> TenantSpec {
        let cluster = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "namespace": "team-a", "uid": "12345678-0000"},
            "spec": {"kubernetesVersion": version, "workers": {"replicas": 2}, "workerPools": pools},
        });
        let raw = Raw {
            cluster: &serde_json::from_value(cluster).unwrap(),
            provider: &crate::tenant_cluster::sources::no_provider(),
            platform: &ButlerConfigSpec::default(),
        };
        validate(&raw).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    /// A cluster that has become what was asked for.
    fn standing(spec: &TenantSpec) -> Observed {
        let mut observed = Observed::default();
        for step in foresee(spec, Observed::default(), now()) {
            come_true(spec, &mut observed, &step);
        }
        observed
    }

    #[test]
    fn a_new_cluster_is_foreseen_down_to_its_last_pool_and_then_rests() {
        let spec = spec("v1.35.4", &json!([{"name": "gpu", "replicas": 1}]));
        let steps = foresee(&spec, Observed::default(), now());
        let made: Vec<String> = steps
            .iter()
            .flat_map(|step| step.changes.create.iter().map(ToString::to_string))
            .collect();
        for object in [
            "StewardControlPlane demo",
            "MachineDeployment demo-workers",
            "MachineDeployment demo-gpu",
        ] {
            assert!(made.contains(&object.to_owned()), "{object}: {made:?}");
        }
        let rest = foresee(&spec, standing(&spec), now());
        assert_eq!(rest.len(), 1);
        assert!(rest[0].changes.is_empty(), "{}", rest[0]);
    }

    #[test]
    fn an_upgrade_is_foreseen_with_every_pool_that_rolls_one_after_the_other() {
        let pools = json!([{"name": "gpu", "replicas": 1}]);
        let before = standing(&spec("v1.34.4", &pools));
        let steps = foresee(&spec("v1.35.4", &pools), before, now());
        let rolls: Vec<(usize, &str, u32)> = steps
            .iter()
            .enumerate()
            .flat_map(|(step, plan)| {
                plan.rolls
                    .iter()
                    .map(move |roll| (step, roll.pool.as_str(), roll.nodes))
            })
            .collect();
        assert_eq!(rolls, [(1, "workers", 2), (2, "gpu", 1)]);
    }

    #[test]
    fn an_upgrade_that_is_held_is_foreseen_as_a_wait_beside_what_goes_on() {
        let before = standing(&spec("v1.34.4", &json!([])));
        let too_far = foresee(&spec("v1.36.0", &json!([])), before.clone(), now());
        assert_eq!(too_far.len(), 1);
        assert!(too_far[0].changes.is_empty(), "{}", too_far[0]);
        let said = too_far[0].to_string();
        assert!(said.contains("? the control plane runs v1.34.4"), "{said}");

        let pools = json!([{"name": "gpu", "replicas": 1}]);
        let steps = foresee(&spec("v1.36.0", &pools), before, now());
        let made = &steps[0].changes.create;
        assert!(made.iter().any(|id| id.name == "demo-gpu"), "{}", steps[0]);
        assert!(steps.iter().all(|step| !step.waits.is_empty()));
    }

    #[test]
    fn a_pool_that_goes_is_told_from_one_whose_name_ends_alike() {
        let pools = json!([{"name": "gpu", "replicas": 1}, {"name": "big-gpu", "replicas": 1}]);
        let before = standing(&spec("v1.35.4", &pools));
        let left = spec("v1.35.4", &json!([{"name": "big-gpu", "replicas": 1}]));
        let steps = foresee(&left, before, now());
        assert_eq!(steps.len(), 1, "one step, and then it rests");
        let gone: Vec<String> = steps[0]
            .changes
            .delete
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(
            gone.contains(&"MachineDeployment demo-gpu".to_owned()),
            "{gone:?}"
        );
        assert!(!gone.iter().any(|it| it.contains("big-gpu")), "{gone:?}");
    }
}
