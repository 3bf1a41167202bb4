//! `butler controller`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use butler_controller::{Surroundings, addon_engine};
use butler_steward::Reach;

use crate::process::{self, Lease};

/// Settings of the controllers.
#[derive(clap::Args)]
// Groups are named after their types, and the ones below are called so too.
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    process: process::Args,
    /// The Helm that installs addons
    #[arg(long, env = "BUTLER_HELM", default_value = "/usr/local/bin/helm")]
    helm: PathBuf,
    /// A folder of its own for charts
    #[arg(
        long,
        env = "BUTLER_HELM_FOLDER",
        default_value = "/var/lib/butler/helm"
    )]
    helm_folder: PathBuf,
    /// Where charts are asked for instead, such as `https://charts.example.com=oci://mirror.local/charts`; `oci+http://` is a
    /// registry without TLS
    #[arg(
        long,
        env = "BUTLER_CHART_MIRRORS",
        value_name = "FROM=TO",
        value_delimiter = ',',
        value_parser = addon_engine::mirror
    )]
    chart_mirror: Vec<(String, String)>,
    /// Reach tenants by their endpoints instead of their Services: for running outside the cluster
    #[arg(long)]
    outside: bool,
    /// Leaves addons alone, and needs no Helm
    #[arg(long)]
    without_addons: bool,
}

impl Args {
    /// Where addons are installed with; nothing when nobody wants that.
    fn addons(&self) -> Result<Option<addon_engine::Settings>> {
        if self.without_addons {
            return Ok(None);
        }
        ensure!(
            self.helm.is_file(),
            "there is no Helm at {}: name it with --helm, or give --without-addons",
            self.helm.display()
        );
        Ok(Some(addon_engine::Settings {
            helm: self.helm.clone(),
            folder: self.helm_folder.clone(),
            mirrors: self.chart_mirror.clone(),
        }))
    }
}

/// Runs until the process is asked to end.
pub(crate) async fn run(args: Args) -> Result<()> {
    let lease = Lease {
        namespace: butler_api::names::SYSTEM_NAMESPACE,
        name: butler_controller::LEASE,
    };
    let addons = args.addons()?;
    process::run(
        args.process,
        lease,
        |around| {
            let process::Surroundings {
                clock,
                metrics,
                readiness,
                ..
            } = around.clone();
            let mut surroundings = Surroundings::new(clock, metrics, readiness);
            if args.outside {
                surroundings.reach = Reach::Endpoint;
            }
            match addons {
                Some(settings) => surroundings.with_addons(settings),
                None => surroundings,
            }
        },
        |around, prepared| butler_controller::run(around.client, prepared, around.shutdown),
    )
    .await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: super::Args,
    }

    fn parse(arguments: &[&str]) -> Result<super::Args, clap::Error> {
        let line = ["controller"].iter().chain(arguments);
        Only::try_parse_from(line).map(|only| only.args)
    }

    #[test]
    fn a_controller_without_helm_does_not_start_unless_it_is_told_to() {
        let args = parse(&["--helm", "/nowhere/helm"]).unwrap();
        let said = args.addons().unwrap_err().to_string();
        assert!(
            said.contains("/nowhere/helm") && said.contains("--without-addons"),
            "{said}"
        );
        let args = parse(&["--helm", "/nowhere/helm", "--without-addons"]).unwrap();
        assert!(args.addons().unwrap().is_none());
    }

    #[test]
    fn mirrors_of_charts_are_pairs_of_addresses() {
        let helm = std::env::current_exe().unwrap();
        let mirrors = "https://a.example.com=oci://m.local/a,oci://b.example.com=oci://m.local/b";
        let args = parse(&["--helm", helm.to_str().unwrap(), "--chart-mirror", mirrors]).unwrap();
        let settings = args.addons().unwrap().unwrap();
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(
            settings.mirrors,
            [
                pair("https://a.example.com", "oci://m.local/a"),
                pair("oci://b.example.com", "oci://m.local/b")
            ]
        );
        assert!(parse(&["--chart-mirror", "m.local"]).is_err());
    }
}
