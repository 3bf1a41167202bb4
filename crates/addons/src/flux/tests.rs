use super::*;

fn addon(name: &str, tier: Tier, needs: &[&str]) -> Addon {
    Addon {
        name: name.to_owned(),
        tier,
        release: ReleaseId {
            namespace: format!("{name}-system"),
            name: name.to_owned(),
        },
        chart: ChartRef {
            repository: "https://charts.example.com".to_owned(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            digest: None,
        },
        plain_http: false,
        credentials: None,
        values: json!({}),
        values_from: Vec::new(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        create_namespace: true,
        timeout: Duration::from_mins(10),
        history: 10,
        drift: Drift::Correct,
        paused: false,
        installed: None,
    }
}

fn paths(export: &Export) -> Vec<&str> {
    export.files.iter().map(|file| file.path.as_str()).collect()
}

fn object<'a>(export: &'a Export, kind: &str, name: &str) -> &'a Value {
    let mut objects = export.objects.iter();
    let found = objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

#[test]
fn what_the_lower_layer_waits_for_comes_down_to_it() {
    let addons = [
        addon("mesh", Tier::Infrastructure, &["certificates"]),
        addon("certificates", Tier::Apps, &["issuer"]),
        addon("issuer", Tier::Apps, &[]),
        addon("shop", Tier::Apps, &["mesh"]),
    ];
    let (below, above) = (Tier::Infrastructure, Tier::Apps);
    assert_eq!(tiers(&addons), Ok(vec![below, below, below, above]));
}

#[test]
fn an_addon_that_would_wait_for_ever_is_named() {
    let error = export(
        "demo",
        "clusters/demo",
        &[addon("shop", Tier::Apps, &["db"])],
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "addon shop waits for db, which this cluster does not have"
    );
}

#[test]
fn addons_that_wait_for_each_other_end_in_one_layer() {
    let addons = [
        addon("a", Tier::Infrastructure, &["b"]),
        addon("b", Tier::Apps, &["a"]),
    ];
    assert_eq!(tiers(&addons), Ok(vec![Tier::Infrastructure; 2]));
}

#[test]
fn a_layer_without_addons_is_not_written_and_nobody_waits_for_it() {
    let export = export("demo", "clusters/demo/", &[addon("shop", Tier::Apps, &[])]).unwrap();
    assert_eq!(
        paths(&export),
        [
            "clusters/demo/apps.yaml",
            "apps/demo/kustomization.yaml",
            "apps/demo/sources.yaml",
            "apps/demo/release-shop.yaml",
            "clusters/demo/README.md",
        ]
    );
    assert!(!export.files[0].content.contains("dependsOn"));
}

#[test]
fn a_repository_that_both_layers_use_is_written_once_and_below() {
    let addons = [
        addon("shop", Tier::Apps, &[]),
        addon("mesh", Tier::Infrastructure, &[]),
    ];
    let export = export("demo", "clusters/demo", &addons).unwrap();
    let sources: Vec<&str> = paths(&export)
        .into_iter()
        .filter(|path| path.ends_with("/sources.yaml"))
        .collect();
    assert_eq!(sources, ["infrastructure/demo/sources.yaml"]);
}

#[test]
fn one_address_with_other_credentials_is_another_source() {
    let mut own = addon("shop", Tier::Apps, &[]);
    let open = Source::of(&own);
    own.chart.repository.push('/');
    assert_eq!(open, Source::of(&own), "the same address");
    own.credentials = Some(Credentials {
        namespace: "team".to_owned(),
        name: "registry".to_owned(),
    });
    assert_ne!(open.name(), Source::of(&own).name());
    own.chart.repository = format!("https://{}.example.com", "long-".repeat(60));
    assert!(Source::of(&own).name().len() <= 63);
}

/// Flux lays inline values over those of Secrets, so they must not be inline.
#[test]
fn what_a_secret_says_stays_above_what_is_written_in_the_open() {
    let mut shop = addon("shop", Tier::Apps, &[]);
    shop.values = json!({"password": "change-me"});
    let export_of = |shop: &Addon| export("demo", "clusters/demo", std::slice::from_ref(shop));
    let open = export_of(&shop).unwrap();
    let values = &object(&open, "HelmRelease", "shop")["spec"]["values"];
    assert_eq!(*values, shop.values);
    shop.values_from = vec![SecretKey {
        secret: "shop".to_owned(),
        key: "values.yaml".to_owned(),
        target: None,
    }];
    let secret = export_of(&shop).unwrap();
    let spec = &object(&secret, "HelmRelease", "shop")["spec"];
    assert_eq!(spec["values"], Value::Null);
    assert_eq!(spec["valuesFrom"][0]["kind"], "ConfigMap");
    assert_eq!(spec["valuesFrom"][1]["kind"], "Secret");
    let held = &object(&secret, "ConfigMap", "shop-values")["data"]["values.yaml"];
    let held: Value = serde_saphyr::from_str(held.as_str().unwrap()).unwrap();
    assert_eq!(held, shop.values);
}

#[test]
fn a_folder_that_leads_out_of_the_repository_is_refused() {
    for wrong in ["", "/", "/etc", "../up", "a/../../b", "a//b", "a b"] {
        let shop = addon("shop", Tier::Apps, &[]);
        let error = export("demo", wrong, &[shop]).unwrap_err();
        assert_eq!(error, ExportError::Folder(wrong.to_owned()), "{wrong}");
    }
}
