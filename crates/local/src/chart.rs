//! Butler and Steward in the management cluster, from our own chart in the platform's registry.

use std::{fs, path::PathBuf, process::Command};

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
        for part in &PARTS {
            let deployment = format!("deployment/{}", part.name);
            let wait = ["rollout", "status", "-n", part.namespace, &deployment];
            self.kubectl(&[&wait[..], &["--timeout=180s"]].concat(), None)?;
        }
        let version = env!("CARGO_PKG_VERSION");
        Ok(format!("{RELEASE} {version}, image {tag}, {place}"))
    }

    /// Packs the chart, puts it into the registry and installs it from there, with so many pods of each controller.
    fn install_chart(&self, tag: &str, pods: &str) -> Result<(), Error> {
        let work = self.paths.run.join("chart");
        let source = work.join("butler");
        // Files that are no longer part of the chart must not stay.
        let _ = fs::remove_dir_all(&work);
        for name in Chart::iter() {
            let Some(file) = Chart::get(&name) else {
                continue;
            };
            let text = String::from_utf8_lossy(&file.data);
            write(&source.join(&*name), &text).map_err(Error::on("unpack the chart"))?;
        }
        let folder = work.display().to_string();
        self.helm(&[
            "package",
            &source.display().to_string(),
            "--destination",
            &folder,
        ])?;
        let registry = self.settings.registry().replace("http://", "oci://");
        let version = env!("CARGO_PKG_VERSION");
        let archive = work
            .join(format!("butler-{version}.tgz"))
            .display()
            .to_string();
        self.helm(&[
            "push",
            &archive,
            &format!("{registry}/charts"),
            "--plain-http",
        ])?;
        let chart = format!("{registry}/charts/butler");
        let image = format!("image.tag={tag}");
        self.helm(&[
            "upgrade",
            "--install",
            RELEASE,
            &chart,
            "--version",
            version,
            "--plain-http",
            "--namespace",
            NAMESPACE,
            "--create-namespace",
            "--set",
            &image,
            "--set",
            "localProvider.enabled=true",
            "--set",
            &format!("controller.replicas={pods},steward.replicas={pods}"),
        ])?;
        let _ = fs::remove_dir_all(&work);
        Ok(())
    }

    fn helm(&self, arguments: &[&str]) -> Result<String, Error> {
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
        let said = succeeded(&what, command::run(&mut command, ""));
        let _ = fs::remove_dir_all(home);
        said
    }
}
