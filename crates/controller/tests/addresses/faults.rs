//! Every flow, disturbed at every write: crashes, conflicts, lost answers, old views.

use butler_api::butler::{IPAllocation, NetworkPool, ProviderConfig, TenantCluster};
use butler_testkit::{
    Options, PATIENCE, Scenario, World, at_every_write, wait_for, wait_for_condition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    scene::{TEN, claim, cluster, phase, sweep},
    stage,
};

/// Text of an object of the scene, in this world's namespace.
fn here(world: &World, text: &str) -> String {
    let namespace = world.namespace().name();
    text.replace(
        "namespace: butler-system",
        &format!("namespace: {namespace}"),
    )
    .replace("namespace: default", &format!("namespace: {namespace}"))
}

async fn set_up(world: &World) {
    let client = world.server().client();
    sweep::<IPAllocation>(&client).await;
    sweep::<NetworkPool>(&client).await;
    world.server().apply_yaml(&here(world, TEN)).await;
    world
        .server()
        .apply_yaml(&here(world, &cluster("shop")))
        .await;
}

async fn all_claims(world: &World) -> Vec<IPAllocation> {
    let api: Api<IPAllocation> = world.namespace().api();
    api.list(&ListParams::default())
        .await
        .expect("a list of claims")
        .items
}

fn kinds() -> Vec<(&'static str, &'static str)> {
    vec![
        ("butler.butlerlabs.dev/v1alpha1", "NetworkPool"),
        ("butler.butlerlabs.dev/v1alpha1", "IPAllocation"),
    ]
}

/// Nothing is left on record, and nothing is held twice.
async fn consistent(world: &World, free: i64) -> Result<(), String> {
    let pools: Api<NetworkPool> = world.namespace().api();
    let Some(pool) = pools
        .get_opt("ten")
        .await
        .map_err(|error| error.to_string())?
    else {
        return Err("the pool is gone".to_owned());
    };
    let status = pool.status.unwrap_or_default();
    if status.available_ips != Some(free) || !status.grants.is_empty() {
        return Err(format!(
            "{:?} free, on record {:?}",
            status.available_ips, status.grants
        ));
    }
    let claims = all_claims(world).await;
    let held = claims
        .iter()
        .flat_map(|claim| claim.status.iter().flat_map(|status| &status.addresses));
    let mut held: Vec<&String> = held.collect();
    let count = held.len();
    held.sort();
    held.dedup();
    if held.len() == count {
        Ok(())
    } else {
        Err(format!("held twice: {held:?}"))
    }
}

/// Three claims come, one of them too late to be served.
struct Granting;

impl Scenario for Granting {
    async fn set_up(&self, world: &World) {
        set_up(world).await;
        for (name, more) in [("a", "count: 4"), ("b", "count: 3")] {
            world
                .server()
                .apply_yaml(&here(world, &claim(name, more)))
                .await;
        }
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        for name in ["a", "b"] {
            let claims: Api<IPAllocation> = world.namespace().api();
            wait_for(&claims, name, "its addresses", PATIENCE, |claim| {
                claim
                    .status
                    .as_ref()
                    .is_some_and(|status| status.allocated_count.is_some())
            })
            .await;
        }
        world
            .server()
            .apply_yaml(&here(world, &claim("c", "count: 4")))
            .await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        for claim in all_claims(world).await {
            if phase(&claim).is_none() {
                return Err(format!("{} has no phase", claim.name_any()));
            }
        }
        consistent(world, 3).await
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        kinds()
    }

    // The addresses are those of one pool.
    fn parallel(&self) -> usize {
        1
    }

    fn simplify(&self, object: &mut Value) {
        if object["status"]["ownerUID"].is_string() {
            object["status"]["ownerUID"] = json!("owner");
        }
    }
}

/// Claims give back, the next one gets it, and a cluster goes.
struct Releasing;

impl Scenario for Releasing {
    async fn set_up(&self, world: &World) {
        set_up(world).await;
        world
            .server()
            .apply_yaml(&here(world, &cluster("farm")))
            .await;
        let _controllers = stage::run(world.server().client());
        let farm = claim("b", "count: 2").replace("name: shop", "name: farm");
        world
            .server()
            .apply_yaml(&here(world, &claim("a", "count: 8")))
            .await;
        world.server().apply_yaml(&here(world, &farm)).await;
        world
            .server()
            .apply_yaml(&here(world, &claim("c", "count: 5")))
            .await;
        let pools: Api<NetworkPool> = world.namespace().api();
        wait_for(&pools, "ten", "two grants", PATIENCE, |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.available_ips == Some(0) && status.grants.is_empty())
        })
        .await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let claims: Api<IPAllocation> = world.namespace().api();
        claims
            .delete("a", &DeleteParams::default())
            .await
            .expect("a user deletes a claim");
        let clusters: Api<TenantCluster> = world.namespace().api();
        clusters
            .delete("farm", &DeleteParams::default())
            .await
            .expect("a user deletes a cluster");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let names: Vec<String> = all_claims(world)
            .await
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        if names != ["c"] {
            return Err(format!("claims {names:?}"));
        }
        consistent(world, 5).await
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        kinds()
    }

    fn parallel(&self) -> usize {
        1
    }

    fn simplify(&self, object: &mut Value) {
        Granting.simplify(object);
        // Which of the two is freed first decides where the third one goes; both are right.
        for field in [
            "startAddress",
            "endAddress",
            "addresses",
            "ranges",
            "cidr",
            "conditions",
        ] {
            object["status"]
                .as_object_mut()
                .map(|status| status.remove(field));
        }
    }
}

/// A pool goes, after those who hold its addresses.
struct Ending;

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        set_up(world).await;
        let _controllers = stage::run(world.server().client());
        world
            .server()
            .apply_yaml(&here(world, &claim("a", "count: 8")))
            .await;
        let pools: Api<NetworkPool> = world.namespace().api();
        wait_for(&pools, "ten", "a grant", PATIENCE, |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.available_ips == Some(2) && status.grants.is_empty())
        })
        .await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let pools: Api<NetworkPool> = world.namespace().api();
        pools
            .delete("ten", &DeleteParams::default())
            .await
            .expect("a user deletes the pool");
        let claims: Api<IPAllocation> = world.namespace().api();
        claims
            .delete("a", &DeleteParams::default())
            .await
            .expect("a user deletes the claim");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let pools: Api<NetworkPool> = world.namespace().api();
        match pools
            .get_opt("ten")
            .await
            .map_err(|error| error.to_string())?
        {
            Some(pool) => Err(format!("the pool is still there: {:?}", pool.status)),
            None if !all_claims(world).await.is_empty() => Err("a claim is still there".to_owned()),
            None => Ok(()),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        kinds()
    }

    fn parallel(&self) -> usize {
        1
    }
}

const PROVIDER: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec: {provider: local, network: {mode: ipam, poolRefs: [{name: ten}], loadBalancer: {defaultPoolSize: 2}}}
";

/// A provider says what is left while its pool is used, and a cluster of it gets the claim it starts with.
struct Providing;

impl Scenario for Providing {
    async fn set_up(&self, world: &World) {
        let client = world.server().client();
        sweep::<TenantCluster>(&client).await;
        sweep::<ProviderConfig>(&client).await;
        set_up(world).await;
        world.server().apply_yaml(&here(world, PROVIDER)).await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let providers: Api<ProviderConfig> = world.namespace().api();
        wait_for_condition(&providers, "local", "PoolAvailable", "True").await;
        let clusters: Api<TenantCluster> = world.namespace().api();
        let reference = json!({"name": "local", "namespace": world.namespace().name()});
        let change = json!({"spec": {"providerConfigRef": reference}});
        clusters
            .patch("shop", &PatchParams::default(), &Patch::Merge(&change))
            .await
            .expect("a user names the provider");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let claims = all_claims(world).await;
        if claims.len() != 1 {
            return Err(format!("{} claims", claims.len()));
        }
        let providers: Api<ProviderConfig> = world.namespace().api();
        let provider = providers
            .get("local")
            .await
            .map_err(|error| error.to_string())?;
        let status = provider.status.unwrap_or_default();
        let capacity = status.capacity.clone().unwrap_or_default();
        if capacity.available_ips != Some(8) || status.ready != Some(true) {
            return Err(format!("{status:?}"));
        }
        consistent(world, 8).await
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        let mut kinds = kinds();
        kinds.push(("butler.butlerlabs.dev/v1alpha1", "ProviderConfig"));
        kinds
    }

    fn parallel(&self) -> usize {
        1
    }

    // A provider's figures and a cluster's claims wait for a quarter of a second of quiet.
    fn quiet(&self) -> std::time::Duration {
        std::time::Duration::from_millis(900)
    }

    // The claim is named after the UID of its cluster.
    fn simplify(&self, object: &mut Value) {
        Granting.simplify(object);
        if object["kind"] == "IPAllocation" {
            object["metadata"]["name"] = json!("claim");
            object["metadata"]["labels"]["butler.butlerlabs.dev/owner-uid"] = json!("owner");
        }
    }
}

#[tokio::test]
async fn a_provider_and_the_first_claim_of_a_cluster_end_up_the_same_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Providing).await;
    println!("{summary:?}");
    assert!(summary.writes >= 6, "{summary:?}");
}

#[tokio::test]
async fn grants_end_up_the_same_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Granting).await;
    println!("{summary:?}");
    assert!(summary.writes >= 7, "{summary:?}");
}

#[tokio::test]
async fn addresses_are_given_back_and_given_on_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Releasing).await;
    println!("{summary:?}");
    assert!(summary.writes >= 6, "{summary:?}");
}

#[tokio::test]
async fn a_pool_is_gone_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Ending).await;
    println!("{summary:?}");
    assert!(summary.writes >= 3, "{summary:?}");
}
