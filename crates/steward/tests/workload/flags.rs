//! Every flag and every admission plugin that is written exists in the real components, in each release
//! that the toolchain pins.

use std::{collections::BTreeSet, process::Command};

use butler_api::{steward::TenantControlPlane, types::KubeVersion};
use butler_steward::workload::{admission, objects};
use butler_toolchain::Toolchain;
use k8s_openapi::api::core::v1::Container;
use kube::CustomResourceExt as _;

use crate::stage::{endpoint, everything, inputs_with_override};

const RELEASES: [KubeVersion; 2] = [KubeVersion::new(1, 35, 4), KubeVersion::new(1, 34, 4)];

fn help(component: &str, release: KubeVersion) -> String {
    let version = release.to_string().parse().unwrap();
    let found =
        Toolchain::locate().and_then(|toolchain| toolchain.binary(component, Some(version)));
    let binary = found.unwrap_or_else(|error| {
        panic!("{error}; `cargo xtask toolchain install {component}@{release}` makes it available")
    });
    let output = Command::new(binary).arg("--help").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Names of flags are at the beginning of a line, some after a short form: `  -v, --v Level`.
fn known(help: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for line in help.lines() {
        let Some((before, rest)) = line.trim_start().split_once("--") else {
            continue;
        };
        if before.is_empty() || before.ends_with(", ") {
            names.extend(rest.split([' ', '=']).next());
        }
    }
    names
}

fn containers(release: KubeVersion) -> Vec<Container> {
    let spec = everything();
    let mut inputs = inputs_with_override(&spec);
    inputs.version = release;
    let deployment = objects(&spec, &endpoint(&spec), &inputs).deployment;
    deployment.spec.unwrap().template.spec.unwrap().containers
}

#[test]
fn the_components_know_every_flag_that_they_are_given() {
    for release in RELEASES {
        let mut seen = 0;
        for container in containers(release) {
            if !container.name.starts_with("kube-") {
                continue;
            }
            let help = help(&container.name, release);
            let known = known(&help);
            for argument in container.command.unwrap().iter().skip(1) {
                let flag = argument.trim_start_matches("--").split('=').next().unwrap();
                assert!(
                    known.contains(flag),
                    "{} {release} has no --{flag}",
                    container.name
                );
                seen += 1;
            }
        }
        assert!(seen > 60, "only {seen} flags were compared");
    }
}

#[test]
fn the_api_server_knows_every_admission_plugin_that_is_turned_on() {
    let every = plugins_of_the_schema();
    for release in RELEASES {
        let help = help("kube-apiserver", release);
        let (_, list) = help
            .split_once("Comma-delimited list of admission plugins: ")
            .unwrap();
        let (list, _) = list.split_once(". The order").unwrap();
        let known: BTreeSet<&str> = list.split(", ").collect();
        for plugin in admission::plugins(&every, &everything().scheduler_flags, release) {
            assert!(known.contains(plugin.as_str()), "{release} has no {plugin}");
        }
    }
}

/// What the schema of `spec.kubernetes.admissionControllers` lets through.
fn plugins_of_the_schema() -> Vec<String> {
    let crd = serde_json::to_value(TenantControlPlane::crd()).unwrap();
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/kubernetes/properties/admissionControllers/items/enum";
    let names = crd.pointer(at).unwrap().as_array().unwrap().iter();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}
