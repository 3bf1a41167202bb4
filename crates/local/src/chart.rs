//! Butler and Steward in the management cluster, from our own chart in the platform's registry.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rust_embed::RustEmbed;

use crate::{
    command,
    controllers::{Controllers, PARTS},
    error::{Error, succeeded},
    platform::Platform,
    settings::write,
};

/// The chart as it was when this program was built.
#[derive(RustEmbed)]
#[folder = "../../charts/butler"]
struct Chart;

const RELEASE: &str = "butler";
const NAMESPACE: &str = "butler-system";

impl Platform {
    /// Installs the chart and what depends on it, and waits for controllers in pods.
    pub(crate) fn butler(&self, controllers: Controllers) -> Result<String, Error> {
        let Some((_, tag)) = self.own() else {
            return Ok(
                "left out: no butler beside butleradm; build it with `cargo build`".to_owned(),
            );
        };
        let (pods, place) = match controllers {
            Controllers::Pods => ("1", "pods"),
            Controllers::Processes => ("0", "controllers on the host"),
        };
        self.install_chart(tag, pods)?;
        // Its image is pulled while ours starts.
        self.make_store()?;
        self.make_pools()?;
        self.install_catalogue()?;
        for part in &PARTS {
            let deployment = format!("deployment/{}", part.name);
            let wait = ["rollout", "status", "-n", part.namespace, &deployment];
            self.kubectl(&[&wait[..], &["--timeout=180s"]].concat(), None)?;
        }
        let version = env!("CARGO_PKG_VERSION");
        Ok(format!("{RELEASE} {version}, image {tag}, {place}"))
    }

    /// Puts the chart into the registry and installs it from there, with so many pods of each controller.
    fn install_chart(&self, tag: &str, pods: &str) -> Result<(), Error> {
        let mirrors = serde_json::json!(self.settings.chart_mirrors());
        let settings = [
            "--set",
            &format!("image.tag={tag}"),
            "--set",
            "localProvider.enabled=true",
            "--set",
            &format!("controller.replicas={pods},steward.replicas={pods}"),
            "--set-json",
            &format!("controller.chartMirrors={mirrors}"),
        ];
        self.install_own::<Chart>(RELEASE, &settings, "")
    }

    /// Puts a chart of ours into the registry and installs it from there. What it is told may come by its standard input.
    pub(crate) fn install_own<Files: RustEmbed>(
        &self,
        name: &str,
        settings: &[&str],
        input: &str,
    ) -> Result<(), Error> {
        let source = self.chart_folder().join(name);
        // Files that are no longer part of the chart must not stay.
        let _ = fs::remove_dir_all(&source);
        for path in Files::iter() {
            let Some(file) = Files::get(&path) else {
                continue;
            };
            let text = String::from_utf8_lossy(&file.data);
            write(&source.join(&*path), &text).map_err(Error::on("unpack the chart"))?;
        }
        let folder = format!("{}/charts", self.chart_registry());
        let version = env!("CARGO_PKG_VERSION");
        self.publish(&source, name, version, &folder)?;
        let chart = format!("{folder}/{name}");
        let install = [
            "upgrade",
            "--install",
            name,
            &chart,
            "--version",
            version,
            "--plain-http",
            "--namespace",
            NAMESPACE,
            "--create-namespace",
        ];
        self.helm(&[&install[..], settings].concat(), input)
            .map(drop)
    }

    /// Packs the chart in a folder and puts it into the registry.
    pub(crate) fn publish(
        &self,
        source: &Path,
        name: &str,
        version: &str,
        to: &str,
    ) -> Result<(), Error> {
        let work = self.chart_folder();
        let (source, folder) = (source.display().to_string(), work.display().to_string());
        self.helm(&["package", &source, "--destination", &folder], "")?;
        let archive = work.join(format!("{name}-{version}.tgz"));
        let archive = archive.display().to_string();
        self.helm(&["push", &archive, to, "--plain-http"], "")?;
        let _ = fs::remove_dir_all(&work);
        Ok(())
    }

    /// The registry as Helm calls it.
    pub(crate) fn chart_registry(&self) -> String {
        self.settings.registry().replace("http://", "oci://")
    }

    fn chart_folder(&self) -> PathBuf {
        self.paths.run.join("chart")
    }

    fn helm(&self, arguments: &[&str], input: &str) -> Result<String, Error> {
        let helm = self.toolchain.binary("helm", None);
        let helm = helm.map_err(Error::on("find helm"))?;
        let what = format!("run helm {}", arguments.join(" "));
        // Its own folders: the user's are none of our business.
        let home: PathBuf = self.paths.run.join("helm");
        let mut command = Command::new(helm);
        command
            .env("KUBECONFIG", self.paths.kubeconfig())
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .args(arguments);
        let said = succeeded(&what, command::run(&mut command, input));
        let _ = fs::remove_dir_all(home);
        said
    }
}
