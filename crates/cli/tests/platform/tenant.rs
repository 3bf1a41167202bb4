//! A tenant cluster and what the test does in it.

use butler_images::{Layout, Recipe, Registry, closure::closure, mirror};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use crate::{
    server::{REFUSAL, WHO},
    stage::{Cluster, MANAGEMENT, get, until},
};

pub(crate) const NAMESPACE: &str = "playground";
pub(crate) const IMAGE: &str = "example.com/butler/web:1";
pub(crate) const PROGRAM: &str = "/web";

/// Makes an image of this very program and puts it into the platform's registry.
pub(crate) fn push_image() {
    let program = std::env::current_exe().unwrap();
    let recipe = Recipe::program(vec![IMAGE.parse().unwrap()], PROGRAM, program.clone());
    let recipe = recipe.with(closure(&program).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path());
    layout.make(&[recipe]).unwrap();
    let registry = Registry::new("http://10.40.0.254:5000", None).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sent = runtime.block_on(mirror(&layout, None, &registry, |_| {}));
    sent.unwrap();
}

/// A tenant with a web server, reached from the host by an address of the platform.
pub(crate) struct Tenant {
    pub(crate) name: String,
    /// Of its machines.
    pub(crate) namespace: String,
    pub(crate) cluster: Cluster,
    pub(crate) address: String,
}

impl Tenant {
    /// Makes a tenant of Cluster API's own objects, with the ranges of the sample.
    pub(crate) fn make(name: &str) {
        let sample = include_str!("../../../../samples/cluster-api.yaml");
        Cluster(MANAGEMENT.to_owned()).apply(&sample.replace("plain", name));
    }

    /// The namespace of a `TenantCluster`'s objects.
    pub(crate) fn namespace_of(name: &str) -> String {
        let path = "jsonpath={.status.tenantNamespace}";
        let words = ["get", "tenantcluster", name, "-n", NAMESPACE, "-o", path];
        Cluster(MANAGEMENT.to_owned()).kubectl(&words)
    }

    /// Waits for the tenant's node, and starts the web server on it.
    pub(crate) fn serve(name: &str, namespace: &str, folder: &std::path::Path) -> Self {
        let management = Cluster(MANAGEMENT.to_owned());
        let secret = format!("secret/{name}-kubeconfig");
        let value = "go-template={{.data.value | base64decode}}";
        let words = ["get", "-n", namespace, &secret, "-o", value];
        let kubeconfig = management.until("the tenant's kubeconfig", &words, |_| true);
        let path = folder.join(name);
        std::fs::write(&path, kubeconfig).unwrap();
        let cluster = Cluster(path.display().to_string());
        let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        cluster.until(
            "the tenant's node",
            &["get", "nodes", "-o", ready],
            |said| said == "True",
        );
        let certified = generate_simple_self_signed(["web.default.svc".to_owned()]).unwrap();
        cluster.apply(&web(name, &certified).to_string());
        let path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
        let words = ["get", "service", "web", "-o", path];
        let address = cluster.until("an address", &words, |said| !said.is_empty());
        let tenant = Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            cluster,
            address: format!("{address}:80"),
        };
        tenant.answers("its first answer");
        tenant
    }

    /// Waits until the web server answers the host.
    pub(crate) fn answers(&self, when: &str) {
        until(
            &format!("the web server of {}: {when}", self.name),
            || match get(&self.address, "/")? {
                who if who == self.name => Ok(()),
                who => Err(format!("{who} answers")),
            },
        );
    }

    /// Whether a pod of the tenant can open a connection.
    pub(crate) fn reaches(&self, address: &str) -> bool {
        let answer = until("an answer about reach", || {
            get(&self.address, &format!("/reach/{address}"))
        });
        assert!(answer.contains("reached"), "{answer}");
        answer == "reached"
    }

    /// The words that a path selects of some objects.
    pub(crate) fn ask(&self, objects: &str, path: &str) -> Vec<String> {
        let path = format!("jsonpath={path}");
        let mut words = vec!["get", "-o", &path];
        words.extend(objects.split(' '));
        let said = self.cluster.kubectl(&words);
        said.split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        let internal = "{.items[*].status.addresses[?(@.type==\"InternalIP\")].address}";
        self.ask("nodes", internal)
    }

    pub(crate) fn pods(&self) -> Vec<String> {
        self.ask("pods", "{.items[*].status.podIP}")
    }

    /// Everything that goes through the tenant's own API server into its pods.
    pub(crate) fn check_api(&self) {
        let Self { name, cluster, .. } = self;
        let service = &self.ask("service/web", "{.spec.clusterIP}")[0];
        assert!(self.reaches(&format!("{service}:80")), "a Service");
        until("the tenant's name server", || {
            let name = "web.default.svc.cluster.local:80";
            self.reaches(name)
                .then_some(())
                .ok_or_else(|| name.to_owned())
        });
        let listed = cluster.kubectl(&["exec", "deployment/web", "--", PROGRAM, "--list"]);
        assert!(listed.contains("serve_in_a_pod"), "{listed}");
        let logs = cluster.kubectl(&["logs", "deployment/web"]);
        assert!(logs.contains(&format!("serving as {name}")), "{logs}");
        let config = |name: &str, data: &Value| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": "guarded" }, "data": data,
            })
        };
        until("the webhook to be called", || {
            let refused = config("refused", &json!({ "forbidden": "yes" })).to_string();
            match cluster.try_kubectl(&["create", "-f", "-"], &refused) {
                Err(said) if said.contains(REFUSAL) => Ok(()),
                Err(said) => Err(said),
                Ok(_) => {
                    cluster.kubectl(&["delete", "configmap", "refused", "-n", "guarded"]);
                    Err("not called yet".to_owned())
                }
            }
        });
        cluster.apply(&config("allowed", &json!({ "fine": "yes" })).to_string());
    }
}

/// The web server, its Service, and the webhook that it is too.
fn web(name: &str, certified: &CertifiedKey<rcgen::KeyPair>) -> Value {
    let CertifiedKey { cert, signing_key } = certified;
    let labels = json!({ "app": "web" });
    let bundle = k8s_base64(&cert.pem());
    let container = json!({
        "name": "web",
        "image": IMAGE,
        "command": [PROGRAM, "--ignored", "--exact", "server::serve_in_a_pod", "--nocapture"],
        "env": [{ "name": WHO, "value": name }],
        "volumeMounts": [{ "name": "tls", "mountPath": "/tls" }],
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [{ "name": "tls", "secret": { "secretName": "web" } }],
    });
    let service = json!({
        "type": "LoadBalancer",
        "selector": labels,
        "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
            { "name": "https", "port": 443, "targetPort": 8443 },
        ],
    });
    let webhook = json!({
        "name": "web.default.svc",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "guarded" } },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
        "clientConfig": { "caBundle": bundle, "service": { "namespace": "default", "name": "web", "port": 443 } },
    });
    let named = |name: &str| json!({ "name": name });
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Namespace", "metadata": named("guarded") },
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": named("web"), "type": "kubernetes.io/tls",
            "stringData": { "tls.crt": cert.pem(), "tls.key": signing_key.serialize_pem() },
        },
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": named("web"),
            "spec": {
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        },
        { "apiVersion": "v1", "kind": "Service", "metadata": named("web"), "spec": service },
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": named("web"), "webhooks": [webhook],
        },
    ]})
}

fn k8s_base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
