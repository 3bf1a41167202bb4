//! The sample: a team and a tenant with one worker, from the same files that a person would apply.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    error::Error,
    platform::Platform,
    settings::{Settings, write, write_private},
};

const TEAM: &str = include_str!("../../../samples/team.yaml");
const TENANT: &str = include_str!("../../../samples/demo.yaml");
/// Namespace of the tenant, which is the team's name.
const NAMESPACE: &str = "playground";
/// The tenant.
const NAME: &str = "demo";

impl Platform {
    /// Makes the tenant, once: one that was deleted afterwards stays so. Waits until it is Ready.
    pub(crate) fn sample(&self) -> Result<((), String), Error> {
        let marker = self.paths.state.join("sampled");
        if !marker.exists() {
            self.apply(&list(&fitted(TEAM, &self.settings)?))?;
            self.wait_for("team/playground")?;
            self.apply(&list(&fitted(TENANT, &self.settings)?))?;
            write(&marker, "").map_err(Error::on("note that the sample is made"))?;
        } else if self.ask_of_sample("{.metadata.name}")?.is_empty() {
            return Ok(((), "was deleted".to_owned()));
        }
        self.wait_for(&sample())?;
        let kubeconfig = self.tenant_kubeconfig()?;
        let workers = self.ask_of_sample("{.status.workerNodesReady}")?;
        let kubeconfig = kubeconfig.display();
        Ok((
            (),
            format!("Ready, nodes: {workers}, kubeconfig {kubeconfig}"),
        ))
    }

    /// What to type after `up`.
    pub(crate) fn what_next(&self) -> String {
        let kubeconfig = self.paths.kubeconfig();
        let tenant = self.paths.state.join(format!("{NAME}.conf"));
        let path = self.toolchain.binary("kubectl", None).unwrap_or_default();
        let path = path.parent().unwrap_or(&path).display().to_string();
        let (namespace, name) = (NAMESPACE, NAME);
        format!(
            "  export PATH=$PATH:{path}\n\
             the platform:\n\
             \x20 export KUBECONFIG={}\n\
             \x20 kubectl get tenantclusters -A\n\
             \x20 kubectl patch tenantcluster {name} -n {namespace} --type merge -p '{{\"spec\":{{\"workers\":{{\"replicas\":2}}}}}}'\n\
             its tenant {name}:\n\
             \x20 export KUBECONFIG={}\n\
             \x20 kubectl get nodes,pods -A\n\
             the end: butleradm down, or butleradm reset to remove its disks too",
            kubeconfig.display(),
            tenant.display(),
        )
    }

    fn wait_for(&self, object: &str) -> Result<(), Error> {
        let words = ["wait", "-n", NAMESPACE, object, "--for=condition=Ready"];
        let waited = self.kubectl(&[&words[..], &["--timeout=180s"]].concat(), None);
        waited
            .map(drop)
            .map_err(|error| self.explain(object, error))
    }

    /// What an object says itself about why it is not Ready.
    fn explain(&self, object: &str, error: Error) -> Error {
        let path =
            "jsonpath={range .status.conditions[?(@.status==\"False\")]}{.type}: {.message}; {end}";
        let words = ["get", "-n", NAMESPACE, object, "-o", path];
        match (error, self.kubectl(&words, None)) {
            (Error::Command { what, said }, Ok(reasons)) => Error::Command {
                what,
                said: format!("{said}; it says: {reasons}"),
            },
            (error, _) => error,
        }
    }

    /// What a path selects of the tenant; nothing where there is none.
    fn ask_of_sample(&self, path: &str) -> Result<String, Error> {
        let path = format!("jsonpath={path}");
        let object = sample();
        let words = ["get", "-n", NAMESPACE, &object, "-o", &path];
        self.kubectl(&[&words[..], &["--ignore-not-found"]].concat(), None)
    }

    /// The tenant's kubeconfig, as a file.
    fn tenant_kubeconfig(&self) -> Result<PathBuf, Error> {
        let namespace = self.ask_of_sample("{.status.tenantNamespace}")?;
        let secret = self.ask_of_sample("{.status.kubeconfigSecretRef.name}")?;
        let value = "go-template={{.data.value | base64decode}}";
        let words = ["get", "secret", &secret, "-n", &namespace, "-o", value];
        let text = self.kubectl(&words, None)?;
        let path = self.paths.state.join(format!("{NAME}.conf"));
        write_private(&path, &text).map_err(Error::on("write the tenant's kubeconfig"))?;
        Ok(path)
    }
}

fn sample() -> String {
    format!("tenantcluster/{NAME}")
}

/// The objects of a file, for the version that this platform has.
fn fitted(file: &str, settings: &Settings) -> Result<Vec<Value>, Error> {
    let text = file.replace("v1.35.4", &settings.kubernetes);
    serde_saphyr::from_multiple(&text).map_err(Error::on("read the sample"))
}

fn list(objects: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string()
}

#[cfg(test)]
mod tests {
    use butler_fabric::Layout;

    use super::*;

    #[test]
    fn the_sample_follows_the_platforms_version() {
        let settings = Settings {
            layout: Layout::new("10.50.0.0/24".parse().unwrap()).unwrap(),
            pods: "10.42.0.0/16".parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
            kubernetes: "v1.34.4".to_owned(),
        };
        let objects = fitted(&format!("{TEAM}---\n{TENANT}"), &settings).unwrap();
        let of = |kind: &str| objects.iter().find(|it| it["kind"] == kind).unwrap();
        let tenant = of("TenantCluster");
        assert_eq!(tenant["spec"]["kubernetesVersion"], "v1.34.4");
        assert_eq!(tenant["metadata"]["namespace"], NAMESPACE);
        assert_eq!(tenant["metadata"]["name"], NAME);
        assert_eq!(of("Team")["metadata"]["name"], NAMESPACE);
    }
}
