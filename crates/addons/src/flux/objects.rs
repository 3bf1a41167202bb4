//! The objects of Flux, as far as they are written: its kinds at the versions that every release since 2.3 serves.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Addon, Credentials, FLUX, MARK, Tier};
use crate::{
    manifest::yaml,
    request::{Drift, hex},
    values::lay_over,
};

pub(super) const HELM_RELEASE: &str = "HelmRelease";
/// How often what stands is compared with what is written.
const INTERVAL: &str = "10m";
/// How often a repository is asked for charts. Versions are exact, so nothing new is expected of it.
const CHART_INTERVAL: &str = "1h";
/// How many characters of an address are in the name of its source.
const LONGEST_SLUG: usize = 40;

/// A repository of charts. `HelmRepository` serves OCI registries too, and takes the same Secrets as Butler does;
/// `OCIRepository` wants Secrets of another form, and became stable later than all other kinds used here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    url: String,
    plain_http: bool,
    credentials: Option<Credentials>,
}

impl Source {
    pub(super) fn of(addon: &Addon) -> Self {
        let url = addon.chart.repository.trim_end_matches('/').to_owned();
        Self {
            plain_http: addon.plain_http && url.starts_with("oci://"),
            url,
            credentials: addon.credentials.clone(),
        }
    }

    /// What a source is called does not change when others come and go.
    pub(super) fn name(&self) -> String {
        let address = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let address = address.to_ascii_lowercase();
        let words = address.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let slug: String = words.join("-").chars().take(LONGEST_SLUG).collect();
        let Self {
            url,
            plain_http,
            credentials,
        } = self;
        let secret = credentials.as_ref().map(|it| [&it.namespace, &it.name]);
        let whole = json!([url, plain_http, secret]).to_string();
        let digest = hex(&Sha256::digest(whole.as_bytes()), 3);
        format!("{}-{digest}", slug.trim_end_matches('-'))
    }

    pub(super) fn object(&self) -> Value {
        let mut spec = json!({"url": self.url, "interval": CHART_INTERVAL});
        if self.url.starts_with("oci://") {
            lay_over(&mut spec, &json!({"type": "oci"}));
        }
        if self.plain_http {
            lay_over(&mut spec, &json!({"insecure": true}));
        }
        if let Some(Credentials { name, .. }) = &self.credentials {
            lay_over(&mut spec, &json!({"secretRef": {"name": name}}));
        }
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
            "metadata": {"name": self.name(), "namespace": FLUX},
            "spec": spec,
        })
    }
}

/// The release of an addon, without values. Its records stay where they are, else Flux would install a second one.
pub(super) fn helm_release(addon: &Addon) -> Value {
    let mut release = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": HELM_RELEASE,
        "metadata": {"name": addon.name, "namespace": FLUX},
        "spec": {
            "interval": INTERVAL,
            "releaseName": addon.release.name,
            "targetNamespace": addon.release.namespace,
            "storageNamespace": addon.release.namespace,
            "timeout": written(addon.timeout),
            "maxHistory": addon.history,
            "chart": {"spec": {
                "chart": addon.chart.name,
                "version": addon.chart.version,
                "sourceRef": {"kind": "HelmRepository", "name": Source::of(addon).name()},
            }},
            "install": {"createNamespace": addon.create_namespace},
            // What did not become healthy goes back to what did, as Butler has it.
            "upgrade": {"remediation": {"retries": 1, "remediateLastFailure": true}},
            "driftDetection": {"mode": match addon.drift {
                Drift::Correct => "enabled",
                Drift::Report => "warn",
                Drift::Off => "disabled",
            }},
        },
    });
    let mut add = |more: Value| lay_over(&mut release, &more);
    if !addon.needs.is_empty() {
        let needs: Vec<Value> = addon
            .needs
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        add(json!({"spec": {"dependsOn": needs}}));
    }
    if addon.paused {
        add(json!({"spec": {"suspend": true}}));
    }
    if let Some(digest) = &addon.chart.digest {
        let noted = json!({"butler.butlerlabs.dev/chart-digest": digest});
        add(json!({"metadata": {"annotations": noted}}));
    }
    if !addon.values_from.is_empty() {
        add(json!({"spec": {"valuesFrom": values_from(addon)}}));
    }
    release
}

/// With Secrets, all values are references: Flux lays inline values over what Secrets say, and Butler has it the other way.
fn values_from(addon: &Addon) -> Vec<Value> {
    let mut all = Vec::new();
    if addon.values.as_object().is_some_and(|own| !own.is_empty()) {
        all.push(json!({"kind": "ConfigMap", "name": config_map_name(addon)}));
    }
    for source in &addon.values_from {
        let mut one = json!({"kind": "Secret", "name": source.secret, "valuesKey": source.key});
        if let Some(target) = &source.target {
            lay_over(&mut one, &json!({"targetPath": target}));
        }
        all.push(one);
    }
    all
}

fn config_map_name(addon: &Addon) -> String {
    format!("{}-values", addon.name)
}

/// The values that lie below those of Secrets.
pub(super) fn config_map(addon: &Addon) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": config_map_name(addon), "namespace": FLUX},
        "data": {"values.yaml": yaml(&addon.values)},
    })
}

/// One layer of a cluster, for Flux. A file that goes astray must not take the network or the volumes of a cluster along:
/// of the lowest layer nothing is removed.
pub(super) fn kustomization(cluster: &str, tier: Tier, below: Option<Tier>) -> Value {
    let mut spec = json!({
        "interval": INTERVAL,
        "path": format!("./{}/{cluster}", tier.folder()),
        "prune": tier == Tier::Apps,
        "sourceRef": {"kind": "GitRepository", "name": FLUX},
        "wait": true,
    });
    if let Some(below) = below {
        let needs = json!([{"name": below.folder()}]);
        lay_over(&mut spec, &json!({"dependsOn": needs}));
    }
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": tier.folder(), "namespace": FLUX},
        "spec": spec,
    })
}

/// The list of files of a folder, for kustomize.
pub(super) fn listing(files: &[String]) -> Value {
    json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": files,
    })
}

/// As Kubernetes writes it.
fn written(duration: Duration) -> String {
    let seconds = duration.as_secs().max(1);
    match (seconds % 3600, seconds % 60) {
        (0, _) => format!("{}h", seconds / 3600),
        (_, 0) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// What to do with the files.
pub(super) fn read_me(cluster: &str, folder: &str, notes: &[String]) -> String {
    let mut text = format!(
        "<!-- {MARK} -->\n\n\
         # Addons of cluster {cluster}\n\n\
         `infrastructure.yaml` and `apps.yaml` tell Flux to follow `infrastructure/{cluster}` and `apps/{cluster}`.\n\
         They belong to a `GitRepository` `{FLUX}` that follows this repository with the path `{folder}`.\n\n\
         To hand the addons over:\n\n\
         1. Let Butler leave what is installed alone:\n   \
         `kubectl patch tenantcluster {cluster} --type merge -p '{{\"spec\":{{\"managementPolicy\":{{\"mode\":\"GitOps\"}}}}}}'`\n\
         2. See to what is listed below.\n\
         3. Commit these files. Flux takes over the releases that stand, and makes one more revision of each.\n\n\
         Nothing of `infrastructure` is removed when its file goes; what belongs to `apps` is.\n"
    );
    if !notes.is_empty() {
        text.push_str("\n## To see to\n\n");
        for note in notes {
            text.push_str("- ");
            text.push_str(note);
            text.push_str(".\n");
        }
    }
    text
}
