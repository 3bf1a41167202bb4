//! A machine joins a real cluster: stock kubeadm, from bootstrap data as Cluster API's provider writes it, over a cable
//! to a network with a kube-apiserver and nothing else.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use butler_machine::runtime::protocol::Outcome;
use butler_testkit::{Options, Server, wait_for};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};

use crate::stage::{Net, Stage, binary, can_run, left, namespaces};

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
const ADDRESS: &str = "10.99.0.1";
const JOIN: &str = include_str!("../data/kubeadm-join.txt");

/// A control plane that a machine can reach: the etcd of a test server, with an API server in a network of its own.
pub(crate) struct ControlPlane {
    pub(crate) server: Server,
    pub(crate) net: Net,
    folder: tempfile::TempDir,
    processes: Vec<Child>,
}

impl ControlPlane {
    pub(crate) async fn start() -> Self {
        let server = Server::start(Options::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let plane = Self {
            server,
            net: Net::new(),
            folder,
            processes: Vec::new(),
        };
        plane.write_files();
        plane
    }

    fn write_files(&self) {
        let read = |name: &str| fs::read_to_string(self.server.folder().join(name)).unwrap();
        let issuer_key = KeyPair::from_pem(&read("ca.key")).unwrap();
        let issuer = Issuer::from_ca_cert_pem(&read("ca.crt"), issuer_key).unwrap();
        let mut params = CertificateParams::new(vec![ADDRESS.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let ours = read("kubeconfig").replace(
            self.server.url().trim_end_matches('/'),
            &format!("https://{ADDRESS}:6443"),
        );
        let init = format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n\
             localAPIEndpoint: {{advertiseAddress: {ADDRESS}, bindPort: 6443}}\n\
             nodeRegistration: {{name: cp, criSocket: 'unix:///run/containerd/containerd.sock'}}\n\
             ---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.4\n\
             controlPlaneEndpoint: {ADDRESS}:6443\n\
             networking: {{podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}}\n",
        );
        for (name, text) in [
            ("serving.crt", certificate.pem()),
            ("serving.key", key.serialize_pem()),
            ("kubeconfig", ours),
            ("init.yaml", init),
        ] {
            fs::write(self.folder.path().join(name), text).unwrap();
        }
    }

    /// Starts the components; the address has to be there already.
    pub(crate) async fn serve(&mut self) {
        let theirs = |name: &str| self.server.folder().join(name).display().to_string();
        let ours = |name: &str| self.folder.path().join(name).display().to_string();
        let api_server = [
            format!("--etcd-servers=unix://{}", theirs("etcd.sock")),
            format!("--bind-address={ADDRESS}"),
            format!("--advertise-address={ADDRESS}"),
            "--secure-port=6443".to_owned(),
            format!("--tls-cert-file={}", ours("serving.crt")),
            format!("--tls-private-key-file={}", ours("serving.key")),
            format!("--client-ca-file={}", theirs("ca.crt")),
            format!("--service-account-key-file={}", theirs("sa.pub")),
            format!("--service-account-signing-key-file={}", theirs("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--enable-bootstrap-token-auth=true".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        let controllers = [
            format!("--kubeconfig={}", theirs("kubeconfig")),
            "--controllers=bootstrap-signer-controller,certificatesigningrequest-approving-controller,\
             certificatesigningrequest-signing-controller,node-ipam-controller"
                .to_owned(),
            format!("--cluster-signing-cert-file={}", theirs("ca.crt")),
            format!("--cluster-signing-key-file={}", theirs("ca.key")),
            "--allocate-node-cidrs=true".to_owned(),
            "--cluster-cidr=10.244.0.0/16".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let namespace = format!("--net=/proc/{}/ns/net", self.net.pid());
        self.run("kube-apiserver", Some(&namespace), &api_server);
        self.run("kube-controller-manager", None, &controllers);
        let deadline = Instant::now() + PATIENCE;
        while !self.kubectl(&["get", "--raw", "/readyz"]).1 {
            assert!(
                Instant::now() < deadline,
                "waited {PATIENCE:?} for the API server:\n{}",
                self.log("kube-apiserver")
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Starts a component that ends with this process.
    fn run(&mut self, name: &str, namespace: Option<&str>, arguments: &[String]) {
        let log = fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(namespace) = namespace {
            command.args(["nsenter", namespace, "--"]);
        }
        command.arg(binary(name)).args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.processes.push(command.spawn().unwrap());
    }

    fn log(&self, name: &str) -> String {
        let text =
            fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
        let skipped = text.lines().count().saturating_sub(20);
        text.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }

    fn kubectl(&self, arguments: &[&str]) -> (String, bool) {
        self.tool("kubectl", arguments)
    }

    fn kubeadm(&self, arguments: &[&str]) -> String {
        let (text, succeeded) = self.tool("kubeadm", arguments);
        assert!(succeeded, "kubeadm {arguments:?}: {text}");
        text
    }

    fn tool(&self, name: &str, arguments: &[&str]) -> (String, bool) {
        let mut command = self.net.command(binary(name));
        command
            .args(arguments)
            .args(["--kubeconfig"])
            .arg(self.folder.path().join("kubeconfig"));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            format!("{}{}", text(&output.stdout), text(&output.stderr)),
            output.status.success(),
        )
    }

    /// Leaves what `kubeadm init` would, and returns bootstrap data for a worker.
    pub(crate) async fn bootstrap_data(&self) -> String {
        let config = self.folder.path().join("init.yaml").display().to_string();
        for phase in [&["upload-config", "all"][..], &["bootstrap-token"]] {
            let words = [&["init", "phase"], phase, &["--config", &config]].concat();
            self.kubeadm(&words);
        }
        let line = self.kubeadm(&["token", "create", "--print-join-command"]);
        let after = |word: &str| {
            let mut words = line.split_whitespace().skip_while(|held| *held != word);
            words
                .nth(1)
                .unwrap_or_else(|| panic!("no {word} in {line}"))
                .to_owned()
        };
        let token = after("--token");
        let signature = format!("jws-kubeconfig-{}", token.split('.').next().unwrap());
        let infos: Api<ConfigMap> = Api::namespaced(self.server.client(), "kube-public");
        wait_for(&infos, "cluster-info", "its signature", PATIENCE, |info| {
            info.data
                .as_ref()
                .is_some_and(|data| data.contains_key(&signature))
        })
        .await;
        JOIN.replace("ENDPOINT", &format!("{ADDRESS}:6443"))
            .replace("CA_HASH", &after("--discovery-token-ca-cert-hash"))
            .replace("abcdef.0123456789abcdef", &token)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|held| held.type_ == "Ready");
    ready.any(|held| held.status == "True")
}

#[tokio::test]
async fn a_machine_joins_a_real_cluster_by_stock_kubeadm_and_comes_back_after_a_power_cut() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    let mut plane = ControlPlane::start().await;
    stage.net.connect(&plane.net);
    plane.serve().await;
    let data = plane.bootstrap_data().await;
    let nodes: Api<Node> = Api::all(plane.server.client());

    let began = Instant::now();
    stage.start(&data);
    println!("first process up after {:?}", began.elapsed());
    let seen = stage.until("the bootstrap data", |seen| seen.outcome.is_some());
    println!("joined after {:?}", began.elapsed());
    assert_eq!(seen.outcome, Some(Outcome::Succeeded), "{}", stage.logs());
    let ready = wait_for(&nodes, "worker", "a Node that is Ready", PATIENCE, is_ready);
    let node = tokio::time::timeout(PATIENCE, ready)
        .await
        .unwrap_or_else(|_| panic!("{}", stage.logs()));
    println!("Ready after {:?}", began.elapsed());

    let spec = node.spec.unwrap();
    assert_eq!(spec.provider_id.as_deref(), Some("local://team/worker"));
    assert!(
        spec.taints
            .iter()
            .flatten()
            .any(|taint| taint.key == "node.cluster.x-k8s.io/uninitialized")
    );
    let status = node.status.unwrap();
    let addresses: Vec<_> = status
        .addresses
        .iter()
        .flatten()
        .map(|held| held.address.as_str())
        .collect();
    assert_eq!(addresses, ["10.99.0.2", "worker"]);
    assert_eq!(status.capacity.unwrap()["memory"].0, "1Gi");

    // The kubelet says so itself, to whoever watches Nodes: a new heartbeat after the restart.
    stage.machines.kill(&stage.id).unwrap();
    stage.machines.resume(&stage.id).unwrap();
    let began = Instant::now();
    let boot = status.node_info.unwrap().boot_id;
    stage.start("#cloud-config");
    let back = stage.until("the kubelet", |_| {
        stage.run("systemctl is-active kubelet") == "active"
    });
    println!(
        "kubelet back {:?} after a power cut (boot id {boot})",
        began.elapsed()
    );

    let namespaces = namespaces(back.pid.unwrap());
    let began = Instant::now();
    stage.machines.remove(&stage.id).unwrap();
    println!("removed after {:?}", began.elapsed());
    assert_eq!(left(&stage, &namespaces), Vec::<String>::new());
}
