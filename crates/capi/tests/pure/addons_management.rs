//! Who looks after the addons of a cluster, and when one of them may go.

use butler_api::butler::{
    butler_config::ButlerConfigSpec,
    tenant_cluster::{AddonManager, Phase},
};
use butler_capi::{
    Observed, Plan, Raw, TenantSpec,
    addons::Deletion,
    plan,
    plan::{Finding, Truth},
    validate,
};
use serde_json::{Value, json};

use crate::{
    common::{cluster, now, observed, provider, providers, spec},
    world::{apply, running, settle},
};

fn finding(plan: &Plan, kind: &str) -> Finding {
    let found = plan.findings.iter().find(|finding| finding.kind == kind);
    found.unwrap().clone()
}

fn addons(plan: &Plan) -> usize {
    let objects = plan.objects.iter();
    objects.filter(|it| it.id().kind == "TenantAddon").count()
}

fn has_kube_proxy(plan: &Plan) -> bool {
    let mut objects = plan.objects.iter();
    let plane = objects.find(|object| object.id().kind == "StewardControlPlane");
    !plane.unwrap().to_value()["spec"]["addons"]["kubeProxy"].is_null()
}

fn agreeing(asked: &Value, agreed: &str) -> TenantSpec {
    let mut raw = cluster(asked);
    let annotations = raw.metadata.annotations.get_or_insert_default();
    let key = "butler.butlerlabs.dev/remove-addons".to_owned();
    annotations.insert(key, agreed.to_owned());
    let raw = Raw {
        cluster: &raw,
        provider: &provider(&providers()["harvester"]),
        platform: &ButlerConfigSpec::default(),
    };
    validate(&raw).unwrap()
}

fn looked_at(more: &Value) -> Value {
    json!({"managementPolicy": {"mode": "Observe"}, "addons": more})
}

#[test]
fn a_cluster_that_is_only_looked_at_is_given_nothing_and_loses_nothing() {
    let world = running(&spec("harvester", &json!({})), now());
    let asked = looked_at(&json!({"storage": {}, "loadBalancer": {"enabled": false}}));
    let plan = plan(&spec("harvester", &asked), &world, now());
    assert!(plan.changes.is_empty(), "{plan}");
    assert_eq!(addons(&plan), 0);
    assert_eq!(plan.phase, Phase::Ready);
    let said = finding(&plan, "AddonsReady");
    assert_eq!(
        (said.status, said.reason.as_str()),
        (Truth::True, "Observed")
    );
    assert!(said.message.contains("2 that it installed"), "{plan}");
    assert!(!has_kube_proxy(&plan), "Cilium is still there");
}

#[test]
fn an_addon_that_broke_in_a_cluster_that_is_only_looked_at_is_said() {
    let mut world = running(&spec("harvester", &json!({})), now());
    let held = world.addons.get_mut("my-cluster-metallb").unwrap();
    held.ready = false;
    held.message = "it is not healthy".to_owned();
    let plan = plan(&spec("harvester", &looked_at(&json!({}))), &world, now());
    let said = finding(&plan, "AddonsReady");
    assert_eq!(said.status, Truth::False);
    assert_eq!(said.message, "my-cluster-metallb: it is not healthy");
}

#[test]
fn a_cluster_that_is_only_looked_at_from_the_start_has_kube_proxy_as_nobody_installs_cilium() {
    let asked = spec("harvester", &looked_at(&json!({})));
    assert!(has_kube_proxy(&plan(&asked, &observed(), now())));
    let mut world = Observed {
        inputs: crate::common::inputs(),
        ..Observed::default()
    };
    for _ in 0..4 {
        let plan = plan(&asked, &world, now());
        apply(&mut world, &plan);
        settle(&mut world);
    }
    let said = finding(&plan(&asked, &world, now()), "AddonsReady");
    assert!(said.message.contains("installed none"), "{}", said.message);
}

#[test]
fn a_gitops_tool_manages_what_was_installed_once_and_the_cluster_says_which() {
    let managed = |asked: &Value, is_installed: bool| {
        let spec = spec("harvester", asked);
        spec.addons.manager(is_installed)
    };
    let handed = |tool: &Value| json!({"managementPolicy": {"mode": "GitOps"}, "addons": tool});
    let flux = handed(&json!({"gitops": {}}));
    let argo = handed(&json!({"gitops": {"provider": "argocd"}}));
    let cases = [
        (
            json!({"addons": {"gitops": {}}}),
            true,
            AddonManager::Butler,
        ),
        (flux.clone(), false, AddonManager::Butler),
        (flux, true, AddonManager::Flux),
        (argo, true, AddonManager::Argocd),
        (handed(&json!({})), true, AddonManager::Manual),
        (looked_at(&json!({})), true, AddonManager::Manual),
        (looked_at(&json!({"gitops": {}})), true, AddonManager::Flux),
    ];
    for (asked, is_installed, expected) in cases {
        assert_eq!(managed(&asked, is_installed), expected, "{asked}");
    }
}

#[test]
fn flux_has_values_of_the_cluster_and_goes_with_its_repository_when_switched_off_and_agreed_to() {
    let repository = json!({"url": "https://git.example.com/fleet.git"});
    let on = json!({"addons": {"gitops": {"repository": repository, "values": {"a": 1}}}});
    let before = spec("harvester", &on);
    let world = running(&before, now());
    let objects = plan(&before, &world, now()).objects;
    let mut objects = objects.iter();
    let flux = objects.find(|it| it.id().name == "my-cluster-flux");
    assert_eq!(flux.unwrap().to_value()["spec"]["values"], json!({"a": 1}));

    let off = json!({"addons": {"gitops": {"enabled": false, "repository": repository}}});
    let silent = plan(&agreeing(&off, ""), &world, now());
    assert!(silent.changes.delete.is_empty(), "{silent}");
    let said = silent.waits.join("\n");
    assert!(said.contains("remove-addons=flux "), "{said}");
    let agreed = plan(&agreeing(&off, "flux,flux-sync"), &world, now());
    let gone: Vec<String> = agreed
        .changes
        .delete
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        gone,
        [
            "TenantAddon my-cluster-flux",
            "TenantAddon my-cluster-flux-sync"
        ]
    );
}

#[test]
fn a_deleted_addon_comes_again_waits_or_goes_as_its_cluster_says() {
    let on = json!({"addons": {"storage": {}}});
    let off = json!({"addons": {"storage": {"enabled": false}}});
    let other = json!({"addons": {"storage": {"provider": "linstor"}}});
    let cases = [
        (&on, "", Deletion::Renew),
        (&on, "longhorn", Deletion::Renew),
        (&off, "", Deletion::Wait),
        (&off, "traefik", Deletion::Wait),
        (&off, "longhorn", Deletion::Uninstall),
        (&other, "longhorn", Deletion::Uninstall),
        (&json!({}), "longhorn", Deletion::Wait),
    ];
    for (asked, agreed, expected) in cases {
        let found = agreeing(asked, agreed)
            .addons
            .deletion("storage", "longhorn");
        assert_eq!(found, expected, "{asked} {agreed}");
    }
}
