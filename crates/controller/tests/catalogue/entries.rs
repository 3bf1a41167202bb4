//! Every entry by itself, and the entries together, without an API server.

use std::{collections::BTreeSet, fs};

use butler_addons::{
    compatibility::Range,
    graph::{Graph, circle},
    request::duration,
};
use butler_api::butler::AddonDefinition;
use jsonschema::error::ValidationErrorKind;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::{chart, render};

/// What users of the platform find in its catalogue.
const NAMES: [&str; 26] = [
    "argocd",
    "cert-manager",
    "cilium",
    "cnpg",
    "external-dns",
    "external-secrets",
    "flux",
    "istio",
    "jaeger",
    "linkerd",
    "loki",
    "longhorn",
    "metallb",
    "metrics-server",
    "nats",
    "otel-collector",
    "prometheus-operator",
    "rabbitmq",
    "redis",
    "sealed-secrets",
    "tempo",
    "traefik",
    "vector-agent",
    "velero",
    "victoria-logs",
    "victoria-metrics",
];
/// What those need besides, and what the local platform runs.
const BESIDES: [&str; 11] = [
    "flux-sync",
    "ingress-nginx",
    "istio-base",
    "linkerd-certificates",
    "linkerd-crds",
    "linstor",
    "local-cni",
    "local-loadbalancer",
    "local-path-provisioner",
    "piraeus-operator",
    "trust-manager",
];

pub(crate) fn all() -> Vec<AddonDefinition> {
    let folder = chart("butler-addons").join("definitions");
    let mut found: Vec<AddonDefinition> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let entry: AddonDefinition = serde_saphyr::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let file = path.file_stem().unwrap().to_str().unwrap();
            assert_eq!(entry.name_any(), file, "a file is named after its entry");
            entry
        })
        .collect();
    found.sort_by_key(ResourceExt::name_any);
    found
}

#[test]
fn the_catalogue_has_every_addon_that_is_documented_and_no_other() {
    let held: BTreeSet<String> = all().iter().map(ResourceExt::name_any).collect();
    let wanted = NAMES.iter().chain(&BESIDES).map(ToString::to_string);
    assert_eq!(held, wanted.collect());
}

#[test]
fn entries_depend_only_on_entries_and_never_in_a_circle() {
    let all = all();
    let graph: Graph = all
        .iter()
        .map(|entry| {
            (
                entry.name_any(),
                entry.spec.depends_on.iter().cloned().collect(),
            )
        })
        .collect();
    for (name, needs) in &graph {
        for needed in needs {
            assert!(graph.contains_key(needed), "{name} needs {needed}");
        }
        assert_eq!(circle(&graph, name), None);
    }
}

#[test]
fn versions_and_times_are_such_and_every_entry_has_a_layer() {
    for entry in all() {
        let (name, spec) = (entry.name_any(), &entry.spec);
        match &spec.kubernetes_versions {
            Some(range) => assert!(Range::parse(range).is_some(), "{name}: {range}"),
            // Their charts name none.
            None => assert!(
                spec.built_in || ["jaeger", "nats", "tempo"].contains(&name.as_str()),
                "{name} does not say on which Kubernetes it runs"
            ),
        }
        assert!(duration(&spec.defaults.timeout).is_some(), "{name}");
        assert!(spec.tier.is_some(), "{name} has no tier");
        let Some(chart) = &spec.chart else {
            assert!(spec.built_in, "{name} has no chart");
            continue;
        };
        assert!(spec.values_schema.is_some(), "{name} has no schema");
        let others = chart.available_versions.iter();
        for version in others.chain([&chart.default_version]) {
            let numbers = version.trim_start_matches('v').split('.');
            let numbers: Result<Vec<u32>, _> = numbers.map(str::parse).collect();
            assert_eq!(numbers.map(|all| all.len()), Ok(3), "{name}: {version}");
        }
    }
}

#[test]
fn no_entry_has_a_password_that_everybody_knows() {
    for entry in all() {
        let values = entry.spec.defaults.values.unwrap_or_default();
        secrets_in(&entry.metadata.name.unwrap(), &values);
    }
    let planted = json!({"grafana": {"adminPassword": "butler-admin"}});
    let caught = std::panic::catch_unwind(|| secrets_in("planted", &planted));
    assert!(caught.is_err(), "the check finds what it looks for");
}

fn secrets_in(at: &str, values: &Value) {
    match values {
        Value::Object(fields) => {
            for (key, value) in fields {
                let low = key.to_lowercase();
                let sounds = [
                    "password",
                    "passwd",
                    "secret",
                    "token",
                    "apikey",
                    "privatekey",
                ];
                let is_secret = sounds.iter().any(|word| low.contains(word));
                let text = value.as_str().unwrap_or_default();
                assert!(!is_secret || text.is_empty(), "{at}.{key} has a default");
                secrets_in(&format!("{at}.{key}"), value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| secrets_in(at, item)),
        Value::String(text) => {
            for placeholder in [
                "INJECTED_",
                "PIPELINE_",
                "MANUAL_INSTALL",
                "CHANGEME",
                "TODO",
            ] {
                assert!(!text.contains(placeholder), "{at}: {text}");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Nothing but what only the user can know may be missing: where logs go, which zones names are made in.
#[test]
fn defaults_fit_their_own_schema_but_for_what_the_user_has_to_say() {
    let mut asks = Vec::new();
    for entry in all() {
        let name = entry.name_any();
        let Some(schema) = &entry.spec.values_schema else {
            continue;
        };
        let validator = jsonschema::validator_for(schema)
            .unwrap_or_else(|error| panic!("{name}: no JSON Schema: {error}"));
        let defaults = entry.spec.defaults.values.unwrap_or_else(|| json!({}));
        for error in validator.iter_errors(&defaults) {
            let required = matches!(error.kind(), ValidationErrorKind::Required { .. });
            assert!(required, "{name}: {error}");
            asks.push(name.clone());
        }
    }
    assert_eq!(
        asks,
        [
            "external-dns",
            "flux-sync",
            "otel-collector",
            "vector-agent",
            "velero"
        ]
    );
}

#[test]
fn flux_is_told_its_repository_with_a_deploy_key_with_a_token_or_without() {
    let https = ["--set", "url=https://git.example.com/team/fleet"];
    let open = render("flux-sync", &https).unwrap();
    assert!(
        !open.contains("kind: Secret") && !open.contains("secretRef"),
        "{open}"
    );
    assert!(
        open.contains("kind: GitRepository") && open.contains("branch: \"main\""),
        "{open}"
    );
    let token = "credentials.username=git,credentials.password=s3cr3t,path=clusters/a,branch=live";
    let token = render("flux-sync", &[&https[..], &["--set", token]].concat()).unwrap();
    assert!(
        token.contains("  password: s3cr3t\n  username: git\n"),
        "{token}"
    );
    assert!(
        token.contains("secretRef:\n    name: flux-system-1\n"),
        "{token}"
    );
    assert!(
        token.contains("path: \"clusters/a\"") && token.contains("branch: \"live\""),
        "{token}"
    );
    let ssh = ["--set", "url=ssh://git@git.example.com/team/fleet"];
    let key = "credentials.identity=key,credentials.known_hosts=hosts";
    let key = render("flux-sync", &[&ssh[..], &["--set", key]].concat()).unwrap();
    assert!(
        key.contains("  identity: key\n  known_hosts: hosts\n"),
        "{key}"
    );
    for (wrong, why) in [
        (&[][..], "url is missing"),
        (&ssh, "needs credentials.identity"),
        (
            &["--set", "url=https://g,credentials.identity=key"],
            "needs an ssh:// repository",
        ),
        (
            &["--set", "url=https://g,credentials.username=ada"],
            "belong together",
        ),
    ] {
        let said = render("flux-sync", wrong).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn linkerd_gets_the_certificates_that_its_control_plane_reads() {
    let rendered = render("linkerd-certificates", &["--namespace", "linkerd"]).unwrap();
    for needed in [
        "secretName: linkerd-identity-issuer",
        "commonName: identity.linkerd.cluster.local",
        "name: linkerd-identity-trust-roots",
        "key: ca-bundle.crt",
    ] {
        assert!(rendered.contains(needed), "{needed} is not in {rendered}");
    }
}
