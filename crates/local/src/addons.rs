//! Addons on a platform without an internet: the catalogue, and those charts of it that can be had here.

use std::fs;

use butler_images::{Reference, addons::VOLUME_HELPER};
use rust_embed::RustEmbed;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{error::Error, platform::Platform, settings::Settings};

/// The chart of the catalogue as it was when this program was built.
#[derive(RustEmbed)]
#[folder = "../../charts/butler-addons"]
struct Catalogue;

/// Metrics of nodes and pods.
const METRICS_SERVER: &str = "metrics-server";
/// Volumes that are folders of nodes.
const LOCAL_PATH: &str = "local-path-provisioner";
/// Components with a chart, and the repositories in which the catalogue looks for them, as mirrors have them.
const CHARTS: [(&str, &str); 2] = [
    (METRICS_SERVER, "kubernetes-sigs.github.io/metrics-server"),
    (LOCAL_PATH, "ghcr.io/butlerdotdev/charts"),
];

/// What a chart says about itself.
#[derive(Deserialize)]
struct Chart {
    name: String,
    version: String,
}

impl Settings {
    /// Where controllers ask for charts: all of them at the platform's registry, below the address that they have elsewhere.
    pub(crate) fn chart_mirrors(&self) -> [String; 3] {
        let registry = self.registry();
        let registry = registry.trim_start_matches("http://");
        [
            // One who names the registry itself means just that.
            format!("oci://{registry}=oci+http://{registry}"),
            format!("oci://=oci+http://{registry}/charts/"),
            format!("https://=oci+http://{registry}/charts/"),
        ]
    }
}

impl Platform {
    /// Puts charts of addons into the registry; says how many there are.
    pub(crate) async fn fill_charts(&self) -> Result<usize, Error> {
        let registry = self.registry()?;
        for (component, repository) in CHARTS {
            let Chart { name, version } = self.chart_of(component)?;
            let place = format!("charts/{repository}");
            let address = self.settings.registry();
            let address = address.trim_start_matches("http://");
            let reference: Reference = format!("{address}/{place}/{name}:{version}")
                .parse()
                .map_err(Error::on("name a chart"))?;
            let held = registry.digest(&reference).await;
            if held.map_err(Error::on("look for a chart"))?.is_none() {
                let source = self.toolchain.chart(component);
                let source = source.map_err(Error::on("find a chart"))?;
                let to = format!("{}/{place}", self.chart_registry());
                self.publish(&source, &name, &version, &to)?;
            }
        }
        Ok(CHARTS.len())
    }

    /// Installs the catalogue, in which addons that can be had here are those of this platform.
    pub(crate) fn install_catalogue(&self) -> Result<(), Error> {
        let version = |component| self.chart_of(component).map(|chart| chart.version);
        let overrides = overrides(
            &version(METRICS_SERVER)?,
            &self.pinned(METRICS_SERVER),
            &version(LOCAL_PATH)?,
        );
        let values = json!({ "overrides": overrides }).to_string();
        self.install_own::<Catalogue>("butler-addons", &["--values", "-"], &values)
    }

    fn chart_of(&self, component: &str) -> Result<Chart, Error> {
        let folder = self.toolchain.chart(component);
        let path = folder.map_err(Error::on("find a chart"))?;
        let path = path.join("Chart.yaml");
        let what = format!("read {}", path.display());
        let text = fs::read_to_string(&path).map_err(Error::on(what.clone()))?;
        serde_saphyr::from_str(&text).map_err(Error::on(what))
    }
}

/// What the catalogue says otherwise here.
fn overrides(metrics_server_chart: &str, metrics_server: &str, local_path_chart: &str) -> Value {
    let (helper, tag) = VOLUME_HELPER;
    json!({
        METRICS_SERVER: {
            "chart": { "defaultVersion": metrics_server_chart, "availableVersions": [] },
            "defaults": { "values": {
                "image": { "tag": metrics_server },
                // Kubelets of these machines sign their certificates themselves.
                "args": ["--kubelet-insecure-tls"],
            } },
        },
        LOCAL_PATH: {
            "chart": { "defaultVersion": local_path_chart },
            "defaults": { "values": { "helperImage": { "repository": helper, "tag": tag } } },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chart_of_this_platform_is_where_the_catalogue_looks_for_it() {
        for (component, repository) in CHARTS {
            let file = Catalogue::get(&format!("definitions/{component}.yaml")).unwrap();
            let text = String::from_utf8(file.data.into_owned()).unwrap();
            let definition: Value = serde_saphyr::from_str(&text).unwrap();
            let chart = &definition["spec"]["chart"];
            let address = chart["repository"].as_str().unwrap();
            let (_, address) = address.split_once("://").unwrap();
            assert_eq!(
                (chart["name"].as_str().unwrap(), address),
                (component, repository)
            );
            assert!(overrides("", "", "")[component].is_object());
        }
    }
}
