//! The management cluster: a machine, and what stock kubeadm makes on it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use butler_fabric::{Fabric, Space};
use butler_images::catalog;

use serde_json::json;

use crate::{
    error::{Error, succeeded},
    kubeadm,
    node::Node,
    platform::Platform,
    settings::{MANAGEMENT, write, write_private},
    wait::until,
};

/// For something that takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(3);

impl Platform {
    pub(crate) fn management_node(&self) -> Result<Node, Error> {
        let version = self.settings.kubernetes.parse();
        let version = version.map_err(Error::on("read the version of Kubernetes"))?;
        let folder = |path: PathBuf| path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let find = |name: &str, version| {
            let found = self.toolchain.binary(name, version);
            found.map(folder).map_err(Error::on(format!("find {name}")))
        };
        let network = Fabric::new(self.paths.network());
        Ok(Node {
            name: MANAGEMENT.to_owned(),
            folder: self.paths.machine(MANAGEMENT),
            network: network.file(&Space::Machine(MANAGEMENT.to_owned())),
            address: self.settings.management(),
            resolver: self.settings.layout.services(),
            registry: self.settings.registry(),
            pause: catalog::PAUSE.to_owned(),
            kubernetes: find("kubelet", Some(version))?,
            containerd: find("containerd", None)?,
        })
    }

    pub(crate) async fn start_machine(&self, node: &Node) -> Result<((), String), Error> {
        let noted = |name: &str| node.folder.join(name).exists();
        if noted("initialising") && !noted("initialised") {
            // kubeadm was interrupted. What it left would be trusted, and a kubelet that runs holds on to it.
            node.remove()
                .map_err(Error::on("remove a half-made machine"))?;
        }
        node.start()
            .map_err(Error::on(format!("start machine {}", node.name)))?;
        until(
            "containerd of the machine",
            Duration::from_secs(30),
            async || {
                let socket = node.container_socket().ok_or_else(|| node.last_words())?;
                let connected = std::os::unix::net::UnixStream::connect(&socket);
                connected
                    .map(drop)
                    .map_err(|error| format!("{error}; {}", node.last_words()))
            },
        )
        .await?;
        Ok(((), node.address.to_string()))
    }

    pub(crate) async fn make_cluster(&self, node: &Node) -> Result<((), String), Error> {
        let admin = node.root().join("etc/kubernetes/admin.conf");
        let marker = node.folder.join("initialised");
        let mut said = "started again";
        if !marker.exists() {
            let config = kubeadm::init(
                &self.settings,
                &self.pinned("etcd"),
                &self.pinned("coredns"),
            );
            write(&node.root().join("etc/kubeadm.yaml"), &config)
                .map_err(Error::on("write kubeadm's configuration"))?;
            write(&node.folder.join("initialising"), "")
                .map_err(Error::on("note that kubeadm begins"))?;
            let init = [
                "kubeadm",
                "init",
                "--config=/etc/kubeadm.yaml",
                "--skip-phases=preflight",
            ];
            succeeded("run kubeadm init", node.run(&init))?;
            write(&marker, "").map_err(Error::on("note that kubeadm is done"))?;
            said = "made by kubeadm";
        }
        let kubeconfig = fs::read_to_string(&admin).map_err(Error::on("read the kubeconfig"))?;
        let target = self.paths.kubeconfig();
        write_private(&target, &kubeconfig).map_err(Error::on("write the kubeconfig"))?;
        until("the API server", PATIENCE, async || {
            self.kubectl(&["get", "--raw", "/readyz", "--request-timeout=5s"], None)
                .map_err(|error| error.to_string())
        })
        .await?;
        self.adjust_name_server()?;
        self.admit_agent(node)?;
        Ok(((), said.to_owned()))
    }

    pub(crate) async fn node_ready(&self) -> Result<((), String), Error> {
        let path =
            "{range .items[*].status.conditions[?(@.type==\"Ready\")]}{.status} {.message}{end}";
        let output = format!("jsonpath={path}");
        until("the node to be Ready", PATIENCE, async || {
            let said = self.kubectl(
                &["get", "nodes", "-o", &output, "--request-timeout=5s"],
                None,
            );
            let said = said.map_err(|error| error.to_string())?;
            if said.starts_with("True") {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await?;
        Ok(((), String::new()))
    }

    pub(crate) fn system_pods(&self) -> Result<String, Error> {
        for what in ["daemonset/kube-proxy", "deployment/coredns"] {
            let wait = [
                "rollout",
                "status",
                "-n",
                "kube-system",
                what,
                "--timeout=180s",
            ];
            self.kubectl(&wait, None)?;
        }
        Ok("kube-proxy, CoreDNS".to_owned())
    }

    /// One machine needs one name server, and whoever asks every ten seconds whether it is ready hears of it after ten.
    /// Before the node is Ready, so that nothing is started twice.
    fn adjust_name_server(&self) -> Result<(), Error> {
        let containers = json!([{ "name": "coredns", "readinessProbe": { "periodSeconds": 1 } }]);
        let change = json!({
            "spec": { "replicas": 1, "template": { "spec": { "containers": containers } } },
        });
        let change = change.to_string();
        let words = ["patch", "deployment/coredns", "-n", "kube-system", "-p"];
        self.kubectl(&[&words[..], &[&change]].concat(), None)
            .map(drop)
    }
}
