//! Stock kubeadm, unchanged, against a tenant that holds nothing but what we put there.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use butler_steward::tenant::TenantSettings;
use butler_testkit::{Server, wait_for};
use butler_toolchain::Toolchain;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::process::{Child, Command};

use crate::stage::{look, server, settings_at};

const PATIENCE: Duration = Duration::from_mins(1);
const SIGNATURE: &str = "jws-kubeconfig-abcdef";

/// A tenant's API server that takes bootstrap tokens, and the controller that signs for them, over the etcd of a test server.
struct Tenant {
    server: Server,
    folder: tempfile::TempDir,
    port: u16,
    processes: Vec<Child>,
}

impl Tenant {
    async fn start() -> Self {
        let server = server().await;
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let kubeconfig = fs::read_to_string(server.kubeconfig()).unwrap();
        let ours = kubeconfig.replace(
            server.url().trim_end_matches('/'),
            &format!("https://127.0.0.1:{port}"),
        );
        fs::write(folder.path().join("kubeconfig"), ours).unwrap();
        let mut tenant = Self {
            server,
            folder,
            port,
            processes: Vec::new(),
        };
        tenant.run("kube-apiserver", &api_server(tenant.server.folder(), port));
        tenant.run(
            "kube-controller-manager",
            &[
                format!("--kubeconfig={}", tenant.server.kubeconfig().display()),
                "--controllers=bootstrap-signer-controller".to_owned(),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
        );
        tenant.until_ready().await;
        tenant
    }

    fn run(&mut self, name: &str, arguments: &[String]) {
        let log = fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let child = Command::new(binary(name))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        self.processes.push(child.unwrap());
    }

    async fn until_ready(&self) {
        let mut config = self.server.config();
        config.cluster_url = format!("https://127.0.0.1:{}", self.port).parse().unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let ready = async {
            loop {
                let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
                if client.request_text(request).await.is_ok() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, ready).await.is_err() {
            let log = fs::read_to_string(self.folder.path().join("kube-apiserver.log")).unwrap();
            panic!("waited {PATIENCE:?} for the tenant's API server; its log:\n{log}");
        }
    }

    fn settings(&self) -> TenantSettings {
        let authority = fs::read_to_string(self.server.folder().join("ca.crt")).unwrap();
        settings_at("127.0.0.1", self.port, &authority)
    }

    async fn kubeadm(&self, arguments: &[&str]) -> String {
        let output = self.try_kubeadm(arguments).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success(),
            "kubeadm {arguments:?}:\n{stdout}{stderr}"
        );
        stdout
    }

    async fn try_kubeadm(&self, arguments: &[&str]) -> Output {
        let run = Command::new(binary("kubeadm"))
            .args(arguments)
            .env("KUBEADM_JOIN_DRYRUN_DIR", self.folder.path())
            .kill_on_drop(true)
            .output();
        tokio::time::timeout(PATIENCE, run)
            .await
            .expect("kubeadm to end in time")
            .unwrap()
    }

    fn kubeconfig(&self) -> String {
        self.folder.path().join("kubeconfig").display().to_string()
    }

    /// Makes a token the way an administrator does, and joins with the line that kubeadm prints, short of changing this
    /// machine.
    async fn join(&self, node: &str) -> String {
        let line = self
            .kubeadm(&[
                "token",
                "create",
                "--print-join-command",
                "--kubeconfig",
                &self.kubeconfig(),
            ])
            .await;
        let token = line
            .split_whitespace()
            .skip_while(|word| *word != "--token")
            .nth(1)
            .unwrap();
        let signature = format!("jws-kubeconfig-{}", token.split('.').next().unwrap());
        self.until_signed(&signature).await;
        let mut arguments: Vec<_> = line.split_whitespace().skip(1).collect();
        assert!(
            arguments.contains(&"--discovery-token-ca-cert-hash"),
            "{line}"
        );
        arguments.extend([
            "--dry-run",
            "--ignore-preflight-errors=all",
            "--node-name",
            node,
        ]);
        arguments.extend(["--cri-socket", "unix:///run/containerd/containerd.sock"]);
        self.kubeadm(&arguments).await
    }

    async fn until_signed(&self, signature: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.server.client(), "kube-public");
        wait_for(&api, "cluster-info", "its signature", PATIENCE, |info| {
            info.data
                .as_ref()
                .is_some_and(|data| data.contains_key(signature))
        })
        .await;
    }
}

fn binary(name: &str) -> PathBuf {
    let found = Toolchain::locate().and_then(|toolchain| toolchain.binary(name, None));
    found.unwrap_or_else(|error| {
        panic!("{error}; `cargo xtask toolchain install {name}` makes it available")
    })
}

fn api_server(folder: &Path, port: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers=unix://{}", file("etcd.sock")),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ]
}

#[tokio::test]
async fn stock_kubeadm_joins_with_what_we_leave_behind() {
    let tenant = Tenant::start().await;
    let mut settings = tenant.settings();
    look(&tenant.server.client(), &settings).await;

    let joined = tenant.join("w1").await;
    assert!(
        joined.contains("This node has joined the cluster"),
        "{joined}"
    );
    for line in [
        "- 10.96.0.10",
        "clusterDomain: cluster.local",
        "clientCAFile: /etc/kubernetes/pki/ca.crt",
    ] {
        assert!(
            joined.contains(line),
            "no {line:?} in what the kubelet would get:\n{joined}"
        );
    }

    // The signer wrote beside our key: that is no drift, and stays.
    let again = look(&tenant.server.client(), &settings).await;
    assert!(!again.has_changed(), "{again:?}");

    settings.kube_proxy = None;
    settings.core_dns = None;
    look(&tenant.server.client(), &settings).await;
    let joined = tenant.join("w2").await;
    assert!(
        joined.contains("This node has joined the cluster"),
        "{joined}"
    );
}

#[tokio::test]
async fn a_tenant_that_kubeadm_made_is_taken_over_without_losing_its_signatures() {
    let tenant = Tenant::start().await;
    kubeadm_init(&tenant).await;
    tenant.until_signed(SIGNATURE).await;

    let client = tenant.server.client();
    let first = look(&client, &tenant.settings()).await;
    assert_eq!(first.unchanged, 0, "our label and stamp are on nothing yet");
    let second = look(&client, &tenant.settings()).await;
    assert!(!second.has_changed(), "{second:?}");
    tenant.until_signed(SIGNATURE).await;
    let joined = tenant.join("w1").await;
    assert!(
        joined.contains("This node has joined the cluster"),
        "{joined}"
    );
}

/// What `kubeadm init` would do to a cluster, without the machine it would run on.
async fn kubeadm_init(tenant: &Tenant) {
    let config = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n\
         bootstrapTokens: [{{token: abcdef.0123456789abcdef, ttl: 24h0m0s}}]\n\
         localAPIEndpoint: {{advertiseAddress: 192.0.2.1, bindPort: {port}}}\n\
         nodeRegistration: {{name: cp, criSocket: 'unix:///run/containerd/containerd.sock'}}\n\
         ---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.4\n\
         clusterName: ta\ncontrolPlaneEndpoint: 127.0.0.1:{port}\n\
         networking: {{podSubnet: 10.43.0.0/16, serviceSubnet: 10.96.0.0/16}}\n",
        port = tenant.port,
    );
    let file = tenant.folder.path().join("init.yaml");
    fs::write(&file, config).unwrap();
    let (file, kubeconfig) = (file.display().to_string(), tenant.kubeconfig());
    for phase in [
        &["upload-config", "all"][..],
        &["bootstrap-token"],
        &["addon", "all"],
    ] {
        let mut arguments = vec!["init", "phase"];
        arguments.extend(phase);
        arguments.extend(["--config", &file, "--kubeconfig", &kubeconfig]);
        tenant.kubeadm(&arguments).await;
    }
}
