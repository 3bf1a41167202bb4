//! The addons of a cluster: which ones, in which order, and what becomes of the cluster when they do not work.

use butler_api::butler::{
    butler_config::ButlerConfigSpec, tenant_addon::TenantAddonPhase, tenant_cluster::Phase,
};
use butler_capi::{
    Observed, Plan, Raw, TenantSpec, plan,
    plan::{
        Finding, Truth,
        dns::{self, Gap},
    },
    validate,
};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    common::{cluster, now, observed, provider, providers, spec},
    world::{apply, machine, running, settle},
};

/// The addons that are planned once machines have joined, by name.
fn planned(spec: &TenantSpec) -> Vec<(String, Value)> {
    let world = running(spec, now());
    addons(&plan(spec, &world, now()))
}

fn addons(plan: &Plan) -> Vec<(String, Value)> {
    let addons = plan.objects.iter();
    let addons = addons.filter(|object| object.id().kind == "TenantAddon");
    addons
        .map(|object| (object.id().name, object.to_value()))
        .collect()
}

fn names(spec: &TenantSpec) -> Vec<String> {
    planned(spec).into_iter().map(|(name, _)| name).collect()
}

fn finding(plan: &Plan, kind: &str) -> Finding {
    let found = plan.findings.iter().find(|finding| finding.kind == kind);
    found.unwrap().clone()
}

const EVERYTHING: &str = r#"{"addons": {"cni": {}, "loadBalancer": {}, "certManager": {}, "storage": {},
    "ingress": {}, "monitoring": {}}}"#;

fn everything() -> Value {
    serde_json::from_str(EVERYTHING).unwrap()
}

#[test]
fn a_cluster_that_says_nothing_gets_what_its_provider_does_not_bring() {
    assert!(names(&spec("local", &json!({}))).is_empty());
    assert_eq!(names(&spec("aws", &json!({}))), ["my-cluster-cilium"]);
    let on_premises = ["my-cluster-cilium", "my-cluster-metallb"];
    for name in ["harvester", "kubevirt", "nutanix", "proxmox", "vsphere"] {
        assert_eq!(names(&spec(name, &json!({}))), on_premises, "{name}");
    }
}

#[test]
fn everything_comes_in_the_documents_order_and_each_waits_for_what_it_needs() {
    let planned = planned(&spec("harvester", &everything()));
    let needs: Vec<(&str, Vec<&str>)> = planned
        .iter()
        .map(|(name, addon)| {
            let needs = addon["spec"]["dependsOn"].as_array();
            let needs = needs.into_iter().flatten();
            let needs = needs.map(|other| other["name"].as_str().unwrap());
            (name.as_str(), needs.collect())
        })
        .collect();
    assert_eq!(
        needs,
        [
            ("my-cluster-cilium", vec![]),
            ("my-cluster-metallb", vec!["my-cluster-cilium"]),
            ("my-cluster-cert-manager", vec!["my-cluster-cilium"]),
            ("my-cluster-longhorn", vec!["my-cluster-cilium"]),
            (
                "my-cluster-traefik",
                vec!["my-cluster-cilium", "my-cluster-metallb"]
            ),
            (
                "my-cluster-prometheus-operator",
                vec!["my-cluster-cilium", "my-cluster-longhorn"]
            ),
        ]
    );
    let (_, cilium) = &planned[0];
    assert_eq!(cilium["metadata"]["namespace"], "team-a");
    assert_eq!(
        cilium["metadata"]["ownerReferences"][0]["kind"],
        "TenantCluster"
    );
    assert_eq!(cilium["spec"]["clusterRef"]["name"], "my-cluster");
    assert!(
        cilium["spec"]["version"].is_null(),
        "the catalogue says which"
    );
}

#[test]
fn other_providers_and_switches_are_honoured() {
    let asked = json!({"addons": {"loadBalancer": {"enabled": false}, "certManager": {"enabled": false},
        "storage": {"provider": "linstor"}, "ingress": {"provider": "nginx"},
        "monitoring": {"provider": "metrics-server"}, "gitops": {"provider": "argocd"}}});
    let wanted = [
        "my-cluster-cilium",
        "my-cluster-piraeus-operator",
        "my-cluster-linstor",
        "my-cluster-ingress-nginx",
        "my-cluster-metrics-server",
        "my-cluster-argocd",
    ];
    assert_eq!(names(&spec("harvester", &asked)), wanted);
    let on_local = json!({"addons": {"cni": {"provider": "cilium"}, "storage": {}}});
    assert_eq!(
        names(&spec("local", &on_local)),
        ["my-cluster-cilium", "my-cluster-local-path-provisioner"]
    );
}

#[test]
fn a_version_is_the_clusters_or_else_the_platforms() {
    let platform: ButlerConfigSpec = serde_json::from_value(json!({
        "defaultAddonVersions": {"cilium": "1.16.5", "metallb": "0.14.8"},
    }))
    .unwrap();
    let asked = cluster(&json!({"addons": {"cni": {"version": "1.17.0"}}}));
    let raw = Raw {
        cluster: &asked,
        provider: &provider(&providers()["harvester"]),
        platform: &platform,
    };
    let versions: Vec<Value> = planned(&validate(&raw).unwrap())
        .into_iter()
        .map(|(_, addon)| addon["spec"]["version"].clone())
        .collect();
    assert_eq!(versions, [json!("1.17.0"), json!("0.14.8")]);
}

#[test]
fn cilium_is_told_where_the_api_server_is_and_kube_proxy_stays_away_unless_it_is_wanted() {
    let proxy = |plan: &Plan| {
        let mut objects = plan.objects.iter();
        let plane = objects.find(|object| object.id().kind == "StewardControlPlane");
        !plane.unwrap().to_value()["spec"]["addons"]["kubeProxy"].is_null()
    };
    let replaced = spec("harvester", &json!({}));
    let values = planned(&replaced)[0].1["spec"]["values"].clone();
    assert_eq!(values["k8sServiceHost"], "10.40.0.201");
    assert_eq!(values["k8sServicePort"], "6443");
    assert!(!proxy(&plan(&replaced, &observed(), now())));

    let own = json!({"addons": {"cni": {"values": {"kubeProxyReplacement": false, "hubble": {"enabled": true}}}}});
    let kept = spec("harvester", &own);
    let values = planned(&kept)[0].1["spec"]["values"].clone();
    assert_eq!(values["kubeProxyReplacement"], false);
    assert_eq!(values["hubble"]["enabled"], true);
    assert_eq!(values["ipam"]["mode"], "kubernetes", "values are merged");
    assert!(values["k8sServiceHost"].is_null());
    assert!(proxy(&plan(&kept, &observed(), now())));
    assert!(proxy(&plan(&spec("local", &json!({})), &observed(), now())));
}

#[test]
fn a_load_balancer_gets_the_clusters_own_addresses_or_those_that_were_drawn() {
    let ranges = |spec: &TenantSpec, drawn: &[&str]| {
        let mut world = running(spec, now());
        world.inputs.load_balancer_ranges = drawn.iter().map(|it| (*it).to_owned()).collect();
        let (_, balancer) = addons(&plan(spec, &world, now())).remove(1);
        balancer["metadata"]["annotations"]["butler.butlerlabs.dev/address-ranges"].clone()
    };
    let own =
        json!({"networking": {"loadBalancerPool": {"start": "10.40.1.0", "end": "10.40.1.50"}}});
    assert_eq!(
        ranges(&spec("harvester", &own), &["10.0.0.1-10.0.0.2"]),
        "10.40.1.0-10.40.1.50"
    );
    let network = json!({"addons": {"loadBalancer": {"addressPool": "10.40.1.0/26"}}});
    assert_eq!(ranges(&spec("harvester", &network), &[]), "10.40.1.0/26");
    let drawn = ["10.0.0.1-10.0.0.2", "10.0.0.9-10.0.0.9"];
    assert_eq!(
        ranges(&spec("harvester", &json!({})), &drawn),
        "10.0.0.1-10.0.0.2,10.0.0.9-10.0.0.9"
    );
}

/// A cluster whose machines have joined and whose addons were asked for.
fn joined(spec: &TenantSpec) -> Observed {
    let mut world = Observed {
        inputs: crate::common::inputs(),
        ..Observed::default()
    };
    for _ in 0..3 {
        let next = plan(spec, &world, now());
        apply(&mut world, &next);
        settle(&mut world);
    }
    for held in world.addons.values_mut() {
        held.ready = false;
        held.phase = Some(TenantAddonPhase::Installing);
        held.message = String::from("0 of 3 ready");
    }
    world.phase = Some(Phase::Installing);
    world
}

fn fail(world: &mut Observed, addon: &str) {
    let held = world.addons.get_mut(addon).unwrap();
    held.phase = Some(TenantAddonPhase::Failed);
    held.ready = false;
    held.message = String::from("the chart is not there");
}

fn work(world: &mut Observed, addon: &str) {
    let held = world.addons.get_mut(addon).unwrap();
    held.phase = Some(TenantAddonPhase::Installed);
    held.ready = true;
}

#[test]
fn nothing_is_installed_before_a_machine_has_joined_and_a_cluster_without_workers_needs_nothing() {
    let wanted = spec("harvester", &json!({}));
    assert!(addons(&plan(&wanted, &observed(), now())).is_empty());
    let mut one = observed();
    let target = joined(&wanted).pools["workers"].target.clone();
    one.machines.push(machine("workers", 0, &target));
    assert_eq!(addons(&plan(&wanted, &one, now())).len(), 2);

    let empty = spec("harvester", &json!({"workers": {"replicas": 0}}));
    assert_eq!(
        plan(&empty, &running(&empty, now()), now()).phase,
        Phase::Ready
    );
}

#[test]
fn a_cluster_is_installing_until_its_addons_work() {
    let wanted = spec("harvester", &everything());
    let mut world = joined(&wanted);
    let first = plan(&wanted, &world, now());
    assert_eq!(first.phase, Phase::Installing);
    let said = finding(&first, "AddonsReady");
    assert!(
        said.message.contains("my-cluster-cilium: 0 of 3 ready"),
        "{said:?}"
    );
    settle(&mut world);
    let last = plan(&wanted, &world, now());
    assert_eq!(last.phase, Phase::Ready);
    assert_eq!(finding(&last, "AddonsReady").status, Truth::True);
}

#[test]
fn a_new_cluster_waits_for_dns_a_while_and_works_without_it_after_that() {
    let wanted = spec("local", &json!({}));
    let mut world = joined(&wanted);
    settle(&mut world);
    assert!(dns::is_asked_for(&wanted, &world, now()));
    let gap = |first| Some(Gap::since(first, now(), "DNS: 0 of 2".to_owned()));
    world.dns = gap(now());
    let first = plan(&wanted, &world, now());
    assert_eq!(first.phase, Phase::Installing);
    assert_eq!(finding(&first, "AddonsReady").message, "DNS: 0 of 2");
    assert_eq!(first.wake, world.dns.as_ref().map(|gap| gap.look));

    world.dns = gap(now() - SignedDuration::from_mins(5));
    let late = plan(&wanted, &world, now());
    assert_eq!(late.phase, Phase::Ready);
    let ready = finding(&late, "Ready");
    assert_eq!(ready.status, Truth::True);
    assert!(ready.message.contains("DNS: 0 of 2"), "{ready:?}");

    world.phase = Some(Phase::Ready);
    assert!(
        !dns::is_asked_for(&wanted, &world, now()),
        "it was there once"
    );
    world = joined(&wanted);
    world.machines.clear();
    assert!(
        !dns::is_asked_for(&wanted, &world, now()),
        "nowhere to run yet"
    );
}

#[test]
fn a_pod_network_that_fails_holds_the_cluster_up_and_says_why() {
    let wanted = spec("harvester", &everything());
    let mut world = joined(&wanted);
    fail(&mut world, "my-cluster-cilium");
    let plan = plan(&wanted, &world, now());
    assert_eq!(plan.phase, Phase::Installing);
    let said = finding(&plan, "AddonsReady");
    assert_eq!(said.reason.as_str(), "CNIInstallFailed");
    assert_eq!(said.message, "my-cluster-cilium: the chart is not there");
    assert_eq!(finding(&plan, "Ready").status, Truth::False);
}

#[test]
fn any_other_addon_that_fails_is_said_and_the_cluster_works_without_it() {
    let wanted = spec("harvester", &everything());
    let mut world = joined(&wanted);
    settle(&mut world);
    fail(&mut world, "my-cluster-metallb");
    // What needs it waits for ever, and must not hold the cluster up either.
    let ingress = world.addons.get_mut("my-cluster-traefik").unwrap();
    ingress.ready = false;
    ingress.phase = Some(TenantAddonPhase::Pending);
    ingress.message = String::from("waits for TenantAddon my-cluster-metallb to be ready");
    let plan = plan(&wanted, &world, now());
    assert_eq!(plan.phase, Phase::Ready);
    let said = finding(&plan, "AddonsReady");
    assert_eq!(
        (said.status, said.reason.as_str()),
        (Truth::False, "AddonInstallFailed")
    );
    assert!(
        said.message
            .contains("my-cluster-metallb: the chart is not there"),
        "{said:?}"
    );
    let ready = finding(&plan, "Ready");
    assert_eq!(
        (ready.status, ready.reason.as_str()),
        (Truth::True, "AddonInstallFailed")
    );
}

#[test]
fn an_addon_that_moves_to_another_version_leaves_a_ready_cluster_ready() {
    let wanted = spec("harvester", &everything());
    let mut world = running(&wanted, now());
    let newer = spec(
        "harvester",
        &json!({"addons": {"certManager": {"version": "v1.17.0"}}}),
    );
    let bump = plan(&newer, &world, now());
    let changed: Vec<String> = bump
        .changes
        .change
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(changed, ["TenantAddon my-cluster-cert-manager"]);
    let held = world.addons.get_mut("my-cluster-cert-manager").unwrap();
    held.ready = false;
    held.phase = Some(TenantAddonPhase::Upgrading);
    let moving = plan(&newer, &world, now());
    assert_eq!(moving.phase, Phase::Ready);
    assert_eq!(finding(&moving, "Ready").status, Truth::True);
    assert_eq!(
        finding(&moving, "AddonsReady").reason.as_str(),
        "Installing"
    );
    work(&mut world, "my-cluster-cert-manager");
    assert_eq!(
        finding(&plan(&newer, &world, now()), "AddonsReady").status,
        Truth::True
    );
}

#[test]
fn an_addon_goes_only_when_it_is_switched_off_and_its_user_agrees_by_name() {
    let before = spec("harvester", &json!({"addons": {"storage": {}}}));
    let world = running(&before, now());
    let agreeing = |asked: Value, agreed: &str| {
        let mut raw = cluster(&asked);
        raw.metadata.annotations.get_or_insert_default().insert(
            "butler.butlerlabs.dev/remove-addons".to_owned(),
            agreed.to_owned(),
        );
        let raw = Raw {
            cluster: &raw,
            provider: &provider(&providers()["harvester"]),
            platform: &ButlerConfigSpec::default(),
        };
        plan(&validate(&raw).unwrap(), &world, now())
    };
    let off = json!({"addons": {"storage": {"enabled": false}}});
    let deleted = |plan: &Plan| -> Vec<String> {
        plan.changes
            .delete
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert!(
        deleted(&agreeing(json!({}), "longhorn")).is_empty(),
        "it was only left out"
    );
    let silent = agreeing(off.clone(), "");
    assert!(deleted(&silent).is_empty());
    assert!(
        silent.waits[0].contains("remove-addons=longhorn"),
        "{silent}"
    );
    assert_eq!(
        deleted(&agreeing(off, "traefik, longhorn")),
        ["TenantAddon my-cluster-longhorn"]
    );
    let other = json!({"addons": {"storage": {"provider": "linstor"}}});
    assert_eq!(
        deleted(&agreeing(other, "longhorn")),
        ["TenantAddon my-cluster-longhorn"]
    );
}

#[test]
fn an_addon_of_the_same_name_that_somebody_else_made_is_left_alone_and_named() {
    let wanted = spec("harvester", &json!({}));
    let mut world = joined(&wanted);
    settle(&mut world);
    world.addons.get_mut("my-cluster-metallb").unwrap().ours = false;
    let plan = plan(&wanted, &world, now());
    assert_eq!(addons(&plan).len(), 1);
    let said = finding(&plan, "AddonsReady").message;
    assert!(
        said.contains("TenantAddon my-cluster-metallb was made by somebody else"),
        "{said}"
    );
}

#[test]
fn flux_is_told_of_the_repository_once_it_stands() {
    let cases = [
        (
            "git@git.example.com:fleet.git",
            "ssh://git@git.example.com/fleet.git",
            ["identity", "known_hosts"],
        ),
        (
            "https://git.example.com/fleet.git",
            "https://git.example.com/fleet.git",
            ["username", "password"],
        ),
    ];
    for (asked, told, keys) in cases {
        let repository =
            json!({"url": asked, "path": "clusters/blue", "secretRef": {"name": "deploy"}});
        let wanted = spec(
            "local",
            &json!({"addons": {"gitops": {"repository": repository}}}),
        );
        let planned = planned(&wanted);
        let (name, sync) = &planned[1];
        assert_eq!(name, "my-cluster-flux-sync");
        let sync = &sync["spec"];
        assert_eq!(
            sync["values"],
            json!({"url": told, "branch": "main", "path": "clusters/blue"})
        );
        assert_eq!(sync["dependsOn"], json!([{"name": "my-cluster-flux"}]));
        let sources = keys.map(|key| {
            json!({"secret": "deploy", "key": key, "targetPath": format!("credentials.{key}")})
        });
        assert_eq!(sync["valuesFrom"], json!(sources));
    }
}

#[test]
fn a_repository_that_argo_cd_is_not_told_of_is_said() {
    let repository = json!({"url": "https://git.example.com/fleet.git"});
    let wanted = spec(
        "local",
        &json!({"addons": {"gitops": {"provider": "argocd", "repository": repository}}}),
    );
    let plan = plan(&wanted, &running(&wanted, now()), now());
    assert_eq!(names(&wanted), ["my-cluster-argocd"]);
    assert!(
        plan.waits[0].contains("https://git.example.com/fleet.git"),
        "{plan}"
    );
}
