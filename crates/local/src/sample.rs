//! The sample: a team and a tenant with one worker, from the same files that a person would apply.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

use crate::{
    error::Error,
    platform::Platform,
    settings::{Settings, write, write_private},
    wait::until,
};

const TEAM: &str = include_str!("../../../samples/team.yaml");
const TENANT: &str = include_str!("../../../samples/demo.yaml");
/// Namespace of the tenant, which is the team's name.
const NAMESPACE: &str = "playground";
/// The tenant.
const NAME: &str = "demo";
const PATIENCE: Duration = Duration::from_mins(3);

impl Platform {
    /// Makes the tenant, once: one that was deleted afterwards stays so. Waits until its Node is Ready.
    pub(crate) async fn sample(&self) -> Result<((), String), Error> {
        let marker = self.paths.state.join("sampled");
        if !marker.exists() {
            self.make_sample()?;
            write(&marker, "").map_err(Error::on("note that the sample is made"))?;
        } else if self.has_no_sample()? {
            return Ok(((), "was deleted".to_owned()));
        }
        let kubeconfig = self.tenant_kubeconfig()?;
        let kubeconfig = kubeconfig.display().to_string();
        let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let nodes = ["--kubeconfig", &kubeconfig, "get", "nodes", "-o", ready];
        let nodes = [&nodes[..], &["--request-timeout=5s"]].concat();
        until("the Node of tenant demo", PATIENCE, async || {
            match self.kubectl(&nodes, None) {
                Ok(said) if said.contains("True") => Ok(()),
                Ok(said) => Err(format!("Ready is {said:?}")),
                Err(error) => Err(error.to_string()),
            }
        })
        .await?;
        Ok(((), format!("Node Ready, kubeconfig {kubeconfig}")))
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
             \x20 kubectl get clusters,stewardcontrolplanes,machines -n {namespace}\n\
             \x20 kubectl scale machinedeployment/{name} -n {namespace} --replicas 2\n\
             its tenant {name}:\n\
             \x20 export KUBECONFIG={}\n\
             \x20 kubectl get nodes,pods -A\n\
             the end: butleradm down, or butleradm reset to remove its disks too",
            kubeconfig.display(),
            tenant.display(),
        )
    }

    fn make_sample(&self) -> Result<(), Error> {
        self.apply(&list(&fitted(TEAM, &self.settings)?))?;
        self.wait_for("team/playground", "Ready")?;
        let objects = fitted(TENANT, &self.settings)?;
        // Cluster API looks at a MachineDeployment whose control plane is not up again after 15 s only.
        let (workers, rest): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .partition(|object| object["kind"] == "MachineDeployment");
        self.apply(&list(&rest))?;
        self.wait_for(&format!("stewardcontrolplane/{NAME}"), "Available")?;
        self.apply(&list(&workers))
    }

    fn wait_for(&self, object: &str, condition: &str) -> Result<(), Error> {
        let condition = format!("--for=condition={condition}");
        let words = [
            "wait",
            "-n",
            NAMESPACE,
            object,
            &condition,
            "--timeout=180s",
        ];
        self.kubectl(&words, None).map(drop)
    }

    fn has_no_sample(&self) -> Result<bool, Error> {
        let cluster = format!("cluster/{NAME}");
        let words = ["get", "-n", NAMESPACE, &cluster, "-o", "name"];
        let found = self.kubectl(&[&words[..], &["--ignore-not-found"]].concat(), None)?;
        Ok(found.trim().is_empty())
    }

    /// The tenant's kubeconfig, as a file.
    fn tenant_kubeconfig(&self) -> Result<PathBuf, Error> {
        let secret = format!("secret/{NAME}-kubeconfig");
        let value = "go-template={{.data.value | base64decode}}";
        let text = self.kubectl(&["get", "-n", NAMESPACE, &secret, "-o", value], None)?;
        let path = self.paths.state.join(format!("{NAME}.conf"));
        write_private(&path, &text).map_err(Error::on("write the tenant's kubeconfig"))?;
        Ok(path)
    }
}

/// The objects of a file, for the range and the version that this platform has.
fn fitted(file: &str, settings: &Settings) -> Result<Vec<Value>, Error> {
    let balancers = settings.layout.balancers().to_string();
    let text = file
        .replace("10.40.0.128/26", &balancers)
        .replace("v1.35.4", &settings.kubernetes);
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
    fn the_sample_follows_the_platforms_range_and_version() {
        let settings = Settings {
            layout: Layout::new("10.50.0.0/24".parse().unwrap()).unwrap(),
            pods: "10.42.0.0/16".parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
            kubernetes: "v1.34.4".to_owned(),
        };
        let objects = fitted(&format!("{TEAM}---\n{TENANT}"), &settings).unwrap();
        let of = |kind: &str| objects.iter().find(|it| it["kind"] == kind).unwrap();
        assert_eq!(of("NetworkPool")["spec"]["cidr"], "10.50.0.128/26");
        assert_eq!(of("StewardControlPlane")["spec"]["version"], "v1.34.4");
        let workers = &of("MachineDeployment")["spec"]["template"]["spec"];
        assert_eq!(workers["version"], "v1.34.4");
        assert_eq!(of("Cluster")["metadata"]["namespace"], NAMESPACE);
        assert_eq!(of("Team")["metadata"]["name"], NAMESPACE);
    }
}
