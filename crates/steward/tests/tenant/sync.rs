//! Looks at a tenant: what is written, what is left alone, what is taken away.

use std::time::{Duration, Instant};

use butler_runtime::error::chain;
use butler_steward::tenant::{
    TenantSettings, nodes, plan,
    settings::{AgentMode, KonnectivityAgents},
    sync::{FIELD_MANAGER, Limits, sync},
};
use butler_testkit::Server;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Service},
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::stage::{LIMITS, look, names, server, settings};

const AGENT: &str = "tenant-test";

async fn edit<K>(api: Api<K>, name: &str, change: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
}

fn in_system<K>(server: &Server) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(server.client(), "kube-system")
}

#[tokio::test]
async fn a_fresh_tenant_gets_everything_and_a_second_look_writes_nothing() {
    let server = server().await;
    let (client, settings) = (server.client_called(AGENT), settings(&server));
    let planned = plan(&settings).unwrap().objects.len();

    let (mark, start) = (server.mark().await, Instant::now());
    let first = look(&client, &settings).await;
    let took = start.elapsed();
    let requests = server.audit(mark).await.by_agent(AGENT);
    assert_eq!(
        (first.applied.len(), first.unchanged, first.removed.len()),
        (planned, 0, 0)
    );
    assert_eq!(requests.clone().writes().count(), planned, "{requests}");

    let (mark, start) = (server.mark().await, Instant::now());
    let quiet = plan(&settings).unwrap().quiet();
    let second = sync(&client, &quiet, LIMITS).await.unwrap();
    let quiet_took = start.elapsed();
    let quiet = server.audit(mark).await.by_agent(AGENT);
    assert!(!second.has_changed(), "{second:?}");
    assert_eq!(second.unchanged, planned);
    assert_eq!(quiet.clone().writes().count(), 0, "{quiet}");
    assert!(quiet.count() <= 12, "a quiet look asks too much:\n{quiet}");
    println!(
        "fresh: {planned} writes, {} requests, {took:?}; quiet: {} requests, {quiet_took:?}",
        requests.count(),
        quiet.count()
    );

    let service = in_system::<Service>(&server).get("kube-dns").await.unwrap();
    assert_eq!(
        service.spec.unwrap().cluster_ip.as_deref(),
        Some("10.96.0.10")
    );
    let managers = service.metadata.managed_fields.unwrap();
    assert!(
        managers
            .iter()
            .any(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER))
    );
}

#[tokio::test]
async fn drift_is_corrected_and_what_belongs_to_the_tenant_stays() {
    let server = server().await;
    let (client, settings) = (server.client_called(AGENT), settings(&server));
    look(&client, &settings).await;

    let maps = in_system::<ConfigMap>(&server);
    maps.delete("kubeadm-config", &DeleteParams::default())
        .await
        .unwrap();
    edit(
        maps.clone(),
        "coredns",
        json!({ "data": { "Corefile": "mine" }, "immutable": true }),
    )
    .await;
    edit(
        maps.clone(),
        "kubelet-config",
        json!({ "metadata": { "labels": null }, "data": { "kubelet": "{}" } }),
    )
    .await;
    edit(
        in_system::<RoleBinding>(&server),
        "kubeadm:kubelet-config",
        json!({ "subjects": [] }),
    )
    .await;
    edit(
        in_system::<Deployment>(&server),
        "coredns",
        json!({ "spec": { "replicas": 4 } }),
    )
    .await;
    let public: Api<ConfigMap> = Api::namespaced(server.client(), "kube-public");
    edit(
        public.clone(),
        "cluster-info",
        json!({ "data": { "jws-kubeconfig-abcdef": "e..s", "kubeconfig": "gone" } }),
    )
    .await;
    let bindings: Api<ClusterRoleBinding> = Api::all(server.client());
    bindings
        .delete("kubeadm:cluster-admins", &DeleteParams::default())
        .await
        .unwrap();
    let weaker = json!({
        "metadata": { "name": "kubeadm:cluster-admins" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
    });
    bindings
        .create(
            &PostParams::default(),
            &serde_json::from_value(weaker).unwrap(),
        )
        .await
        .unwrap();

    let synced = look(&client, &settings).await;
    assert_eq!(
        names(&synced.applied),
        [
            "ClusterRoleBinding kubeadm:cluster-admins",
            "ConfigMap kube-public/cluster-info",
            "ConfigMap kube-system/coredns",
            "ConfigMap kube-system/kubeadm-config",
            "ConfigMap kube-system/kubelet-config",
            "RoleBinding kube-system/kubeadm:kubelet-config",
        ]
    );
    assert_eq!(
        bindings
            .get("kubeadm:cluster-admins")
            .await
            .unwrap()
            .role_ref
            .name,
        "cluster-admin"
    );
    let info = public.get("cluster-info").await.unwrap().data.unwrap();
    assert_eq!(info["jws-kubeconfig-abcdef"], "e..s");
    assert!(
        info["kubeconfig"].contains("https://127.0.0.1:"),
        "{info:?}"
    );
    let coredns = in_system::<Deployment>(&server)
        .get("coredns")
        .await
        .unwrap();
    assert_eq!(coredns.spec.unwrap().replicas, Some(4));
    assert!(!look(&client, &settings).await.has_changed());
}

#[tokio::test]
async fn an_addon_that_is_turned_off_takes_exactly_its_own_objects_with_it() {
    let server = server().await;
    let (client, mut settings) = (server.client_called(AGENT), settings(&server));
    look(&client, &settings).await;
    let maps = in_system::<ConfigMap>(&server);
    let custom =
        json!({ "metadata": { "name": "coredns-custom" }, "data": { "a.override": "log" } });
    maps.create(
        &PostParams::default(),
        &serde_json::from_value(custom).unwrap(),
    )
    .await
    .unwrap();
    // Somebody who keeps their own under the same name takes our label off.
    edit(
        maps.clone(),
        "kube-proxy",
        json!({ "metadata": { "labels": null } }),
    )
    .await;

    settings.kube_proxy = None;
    let synced = look(&client, &settings).await;
    assert_eq!(
        names(&synced.removed),
        [
            "ClusterRoleBinding kubeadm:node-proxier",
            "DaemonSet kube-system/kube-proxy",
            "Role kube-system/kube-proxy",
            "RoleBinding kube-system/kube-proxy",
            "ServiceAccount kube-system/kube-proxy",
        ]
    );
    // The cluster's configuration says so too.
    assert_eq!(
        names(&synced.applied),
        ["ConfigMap kube-system/kubeadm-config"]
    );

    settings.core_dns = None;
    let synced = look(&client, &settings).await;
    assert_eq!(synced.removed.len(), 6, "{:?}", names(&synced.removed));
    for kept in ["coredns-custom", "kube-proxy", "kubelet-config"] {
        maps.get(kept).await.unwrap();
    }
    let mark = server.mark().await;
    assert!(!look(&client, &settings).await.has_changed());
    assert_eq!(server.writes(mark).await.by_agent(AGENT).count(), 0);
}

#[tokio::test]
async fn agents_of_the_tunnel_follow_their_mode_and_go_with_it() {
    let server = server().await;
    let client = server.client_called(AGENT);
    let agents = |mode, host_network| KonnectivityAgents {
        image: "registry.k8s.io/kas-network-proxy/proxy-agent:v0.34.0".into(),
        mode,
        server_host: "127.0.0.1".into(),
        server_port: 8132,
        host_network,
        tolerations: vec![json!({ "key": "CriticalAddonsOnly", "operator": "Exists" })],
        extra_args: Vec::new(),
    };
    let mut settings = settings(&server);
    settings.konnectivity = Some(agents(AgentMode::DaemonSet, false));
    look(&client, &settings).await;
    assert!(!look(&client, &settings).await.has_changed());

    settings.konnectivity = Some(agents(AgentMode::Deployment(2), true));
    let synced = look(&client, &settings).await;
    assert_eq!(
        names(&synced.applied),
        ["Deployment kube-system/konnectivity-agent"]
    );
    assert_eq!(
        names(&synced.removed),
        ["DaemonSet kube-system/konnectivity-agent"]
    );
    assert!(!look(&client, &settings).await.has_changed());

    settings.konnectivity = None;
    let synced = look(&client, &settings).await;
    assert_eq!(
        names(&synced.removed),
        [
            "ClusterRoleBinding system:konnectivity-server",
            "Deployment kube-system/konnectivity-agent",
            "ServiceAccount kube-system/konnectivity-agent",
        ]
    );
    assert!(synced.applied.is_empty(), "{:?}", synced.applied);
}

#[tokio::test]
async fn one_object_that_is_refused_does_not_stop_the_others() {
    let server = server().await;
    let wrong = TenantSettings {
        dns_service_ips: vec!["192.0.2.10".parse().unwrap()],
        ..settings(&server)
    };
    let plan = plan(&wrong).unwrap();
    let synced = sync(&server.client(), &plan, LIMITS).await.unwrap();
    assert_eq!(synced.applied.len(), plan.objects.len() - 1);
    let [(key, error)] = synced.failed.as_slice() else {
        panic!("{:?}", synced.failed)
    };
    assert_eq!(key.to_string(), "Service kube-system/kube-dns");
    assert!(
        !error.is_outage() && chain(error).contains("192.0.2.10"),
        "{}",
        chain(error)
    );
}

#[tokio::test]
async fn a_quarrel_over_the_dns_address_ends_with_the_planned_one() {
    let server = server().await;
    let (client, settings) = (server.client(), settings(&server));
    let theirs = json!({
        "metadata": { "name": "kube-dns" },
        "spec": { "clusterIP": "10.96.0.77", "ports": [{ "port": 53 }] },
    });
    let services = in_system::<Service>(&server);
    services
        .create(
            &PostParams::default(),
            &serde_json::from_value(theirs).unwrap(),
        )
        .await
        .unwrap();
    look(&client, &settings).await;
    let service = services.get("kube-dns").await.unwrap().spec.unwrap();
    assert_eq!(service.cluster_ip.as_deref(), Some("10.96.0.10"));
    assert!(!look(&client, &settings).await.has_changed());
}

#[tokio::test]
async fn a_tenant_that_never_answers_costs_one_time_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let settings = crate::stage::settings_at("127.0.0.1", 1, "");
    let limits = Limits {
        call: Duration::from_millis(200),
        at_once: 4,
    };
    let start = Instant::now();
    let error = sync(&client, &plan(&settings).unwrap(), limits)
        .await
        .unwrap_err();
    assert!(error.is_outage(), "{}", chain(&error));
    assert!(
        error.to_string().contains("took longer than 200ms to list"),
        "{error}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn the_releases_of_kubelets_are_read_page_by_page() {
    let server = server().await;
    let api: Api<Node> = Api::all(server.client());
    for number in 0..120 {
        let version = if number == 77 {
            "v1.33.9+k3s1"
        } else {
            "v1.34.2"
        };
        let name = format!("n{number}");
        let node = json!({ "metadata": { "name": name }, "status": { "nodeInfo": {
            "kubeletVersion": version, "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
            "containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        }}});
        let node: Node = serde_json::from_value(node).unwrap();
        api.create(&PostParams::default(), &node).await.unwrap();
    }
    let mark = server.mark().await;
    let found = nodes::node_versions(&server.client_called(AGENT), LIMITS.call)
        .await
        .unwrap();
    assert_eq!((found.nodes, found.unknown), (120, Vec::<String>::new()));
    assert_eq!(found.oldest.unwrap().node, "n77");
    assert_eq!(found.newest.unwrap().version.to_string(), "v1.34.2");
    assert_eq!(server.audit(mark).await.by_agent(AGENT).count(), 3);
}
