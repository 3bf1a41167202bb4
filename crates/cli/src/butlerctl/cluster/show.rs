//! `list` and `get`.

use butler_api::butler::{TenantCluster, tenant_cluster::DEFAULT_POOL};
use butler_capi::{Reason, Retry};
use butler_runtime::clock::{Clock as _, SystemClock};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;

use super::super::{
    connection::{Access, within},
    failure::Failure,
    output::{self, Format, clean},
    table::{age, fields, or_dash, table},
};

/// How clusters are listed.
#[derive(clap::Args)]
pub(crate) struct List {
    /// Clusters of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Which cluster is shown.
#[derive(clap::Args)]
pub(crate) struct Get {
    /// Name of the cluster
    name: String,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) async fn list(args: &List, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let (api, place): (Api<TenantCluster>, String) = if args.all_namespaces {
        (
            Api::all(connection.client.clone()),
            "all namespaces".to_owned(),
        )
    } else {
        let place = format!("namespace {}", connection.namespace);
        (connection.clusters(), place)
    };
    let what = format!("list TenantClusters of {place}");
    let parameters = ListParams::default();
    let mut clusters = within(&what, api.list(&parameters)).await?.items;
    clusters.sort_by_key(|cluster| (cluster.namespace(), cluster.name_any()));
    if let Some(syntax) = args.output.syntax() {
        let items: Vec<TenantCluster> = clusters.into_iter().map(clean).collect();
        let list = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantClusterList", "items": items,
        });
        return output::data(&list, syntax);
    }
    if clusters.is_empty() {
        eprintln!("There are no clusters in {place}.");
        return Ok(());
    }
    let wide = args.output == Format::Wide;
    let text = overview(&clusters, args.all_namespaces, wide, SystemClock.now());
    output::bytes(text.as_bytes())
}

pub(crate) async fn get(args: &Get, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let cluster = clean(connection.cluster(&args.name).await?);
    match args.output.syntax() {
        Some(syntax) => output::data(&cluster, syntax),
        None => output::bytes(details(&cluster, SystemClock.now()).as_bytes()),
    }
}

/// One line a cluster.
fn overview(clusters: &[TenantCluster], namespaces: bool, wide: bool, now: Timestamp) -> String {
    let mut headings = vec!["NAME", "PHASE", "VERSION", "WORKERS", "AGE"];
    if namespaces {
        headings.insert(0, "NAMESPACE");
    }
    if wide {
        headings.extend(["ENDPOINT", "PROVIDER", "TEAM", "MESSAGE"]);
    }
    let row = |cluster: &TenantCluster| {
        let mut row = vec![
            cluster.name_any(),
            phase(cluster),
            version(cluster),
            workers(cluster),
            age(made(cluster), now),
        ];
        if namespaces {
            row.insert(0, cluster.namespace().unwrap_or_default());
        }
        if wide {
            row.extend([
                endpoint(cluster),
                provider(cluster),
                team(cluster),
                message(cluster),
            ]);
        }
        row
    };
    table(&headings, &clusters.iter().map(row).collect::<Vec<_>>())
}

/// Everything about one cluster that people ask for.
fn details(cluster: &TenantCluster, now: Timestamp) -> String {
    let (spec, status) = (&cluster.spec, cluster.status.clone().unwrap_or_default());
    let protected = if spec.deletion_protection {
        "yes"
    } else {
        "no"
    };
    let paused = if spec.paused { "yes" } else { "no" };
    let mut text = fields(&[
        ("Name", cluster.name_any()),
        ("Namespace", cluster.namespace().unwrap_or_default()),
        ("Phase", phase(cluster)),
        ("Version", version(cluster)),
        ("Workers", workers(cluster)),
        ("Endpoint", endpoint(cluster)),
        ("Provider", provider(cluster)),
        ("Team", team(cluster)),
        (
            "Tenant namespace",
            or_dash(status.tenant_namespace.as_deref()),
        ),
        ("Protected", protected.to_owned()),
        ("Paused", paused.to_owned()),
        ("Age", age(made(cluster), now)),
    ]);
    text.push('\n');
    text.push_str(&pools(cluster));
    if !status.conditions.is_empty() {
        let rows: Vec<Vec<String>> = status
            .conditions
            .iter()
            .map(|held| {
                vec![
                    held.type_.clone(),
                    held.status.clone(),
                    held.reason.clone(),
                    age(Some(held.last_transition_time.0), now),
                    next(held).to_owned(),
                    held.message.clone(),
                ]
            })
            .collect();
        text.push('\n');
        let headings = ["CONDITION", "STATUS", "REASON", "SINCE", "NEXT", "MESSAGE"];
        text.push_str(&table(&headings, &rows));
    }
    let addons = status.observed_state.map(|seen| seen.addons);
    let addons = addons.unwrap_or_default();
    if !addons.is_empty() {
        let rows: Vec<Vec<String>> = addons
            .iter()
            .map(|it| {
                vec![
                    it.name.clone(),
                    it.version.clone(),
                    format!("{:?}", it.status),
                ]
            })
            .collect();
        text.push('\n');
        text.push_str(&table(&["ADDON", "VERSION", "STATUS"], &rows));
    }
    text
}

/// Who has the next move, where something is not as it should be.
fn next(held: &Condition) -> &'static str {
    match Reason::parse(&held.reason).map(Reason::retry) {
        Some(Retry::Waits) => "waits",
        Some(Retry::NeedsChange) => "needs you",
        Some(Retry::Unneeded) | None => "-",
    }
}

fn pools(cluster: &TenantCluster) -> String {
    let amount = |amount: &k8s_openapi::apimachinery::pkg::util::intstr::IntOrString| {
        json!(amount)
            .as_str()
            .map_or_else(|| json!(amount).to_string(), str::to_owned)
    };
    let spec = &cluster.spec;
    let row = |name: &str,
               size: String,
               machine: &butler_api::butler::tenant_cluster::MachineTemplate| {
        vec![
            name.to_owned(),
            size,
            amount(&machine.cpu),
            amount(&machine.memory),
            amount(&machine.disk_size),
            json!(machine.os.os_type)
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ]
    };
    let workers = &spec.workers;
    let mut rows = vec![row(
        DEFAULT_POOL,
        workers.replicas.to_string(),
        &workers.machine_template,
    )];
    for pool in &spec.worker_pools {
        let size = match (pool.replicas, pool.min_replicas, pool.max_replicas) {
            (Some(replicas), _, _) => replicas.to_string(),
            (None, Some(least), Some(most)) => format!("{least}-{most}"),
            (None, _, _) => "-".to_owned(),
        };
        rows.push(row(&pool.name, size, &pool.machine_template));
    }
    table(&["POOL", "WORKERS", "CPU", "MEMORY", "DISK", "OS"], &rows)
}

fn made(cluster: &TenantCluster) -> Option<Timestamp> {
    cluster.creation_timestamp().map(|time| time.0)
}

fn phase(cluster: &TenantCluster) -> String {
    if cluster.metadata.deletion_timestamp.is_some() {
        return "Deleting".to_owned();
    }
    let phase = cluster.status.as_ref().and_then(|status| status.phase);
    phase.map_or_else(|| "Pending".to_owned(), |phase| format!("{phase:?}"))
}

/// The release it runs, and the one it shall run where that is another.
fn version(cluster: &TenantCluster) -> String {
    let wanted = &cluster.spec.kubernetes_version;
    match super::wait::running(cluster) {
        Some(running) if running != wanted => format!("{running}->{wanted}"),
        _ => wanted.clone(),
    }
}

/// Ready and wanted workers of all pools.
fn workers(cluster: &TenantCluster) -> String {
    let status = cluster.status.as_ref();
    let ready = status.and_then(|status| status.worker_nodes_ready);
    let desired = status.and_then(|status| status.worker_nodes_desired);
    format!(
        "{}/{}",
        ready.unwrap_or(0),
        desired.unwrap_or(cluster.spec.workers.replicas)
    )
}

fn endpoint(cluster: &TenantCluster) -> String {
    let status = cluster.status.as_ref();
    or_dash(status.and_then(|status| status.control_plane_endpoint.as_deref()))
}

fn provider(cluster: &TenantCluster) -> String {
    let named = cluster.spec.provider_config_ref.as_ref();
    or_dash(named.map(|named| named.name.as_str()))
}

fn team(cluster: &TenantCluster) -> String {
    let team = cluster.spec.team_ref.as_ref();
    or_dash(team.map(|team| team.name.as_str()))
}

fn message(cluster: &TenantCluster) -> String {
    or_dash(super::wait::ready(cluster).map(|held| held.message.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> TenantCluster {
        let object = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "namespace": "team-a", "creationTimestamp": "2026-11-15T10:00:00Z"},
            "spec": {
                "kubernetesVersion": "v1.35.4", "teamRef": {"name": "a"}, "workers": {"replicas": 3},
                "workerPools": [{"name": "gpu", "minReplicas": 0, "maxReplicas": 4,
                                 "machineTemplate": {"cpu": 16, "memory": "64Gi", "os": {"type": "flatcar"}}}],
            },
            "status": {
                "phase": "Updating", "controlPlaneEndpoint": "10.40.0.201:6443",
                "workerNodesReady": 2, "workerNodesDesired": 3, "tenantNamespace": "demo-1234",
                "observedState": {"kubernetesVersion": "v1.34.4"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Updating", "message": "it moves",
                                "lastTransitionTime": "2026-11-15T11:30:00Z"}],
            },
        });
        serde_json::from_value(object).unwrap()
    }

    fn now() -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_list_shows_what_runs_and_what_it_becomes() {
        assert_eq!(
            overview(&[cluster()], false, false, now()),
            "NAME   PHASE      VERSION            WORKERS   AGE\n\
             demo   Updating   v1.34.4->v1.35.4   2/3       2h\n"
        );
    }

    #[test]
    fn a_wide_list_of_all_namespaces_has_more_columns() {
        let text = overview(&[cluster()], true, true, now());
        for word in [
            "NAMESPACE",
            "ENDPOINT",
            "team-a",
            "10.40.0.201:6443",
            "it moves",
        ] {
            assert!(text.contains(word), "{word}:\n{text}");
        }
    }

    #[test]
    fn a_cluster_that_nobody_looked_at_yet_is_shown_as_pending() {
        let mut fresh = cluster();
        fresh.status = None;
        let text = overview(&[fresh], false, false, now());
        assert!(text.contains("Pending   v1.35.4   0/3"), "{text}");
    }

    #[test]
    fn a_condition_says_who_has_the_next_move() {
        let mut refused = cluster();
        let ready = &mut refused.status.as_mut().unwrap().conditions[0];
        ready.reason = "ProviderNotFound".to_owned();
        let text = details(&refused, now());
        assert!(text.contains("needs you   it moves"), "{text}");
    }

    #[test]
    fn details_have_pools_and_conditions() {
        let text = details(&cluster(), now());
        for line in [
            "Tenant namespace: demo-1234",
            "workers   3         4     16Gi     100Gi   rocky",
            "gpu       0-4       16    64Gi     100Gi   flatcar",
            "Ready       True     Updating   30m     waits   it moves",
        ] {
            assert!(text.contains(line), "{line}\n---\n{text}");
        }
    }
}
