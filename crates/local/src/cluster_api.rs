//! Cluster API's managers in the management cluster, without cert-manager: we issue the certificates of their webhooks.
//!
//! What upstream's kustomizations say is rendered by kubectl; [`prepare`] does what remains and is pure.

use std::{collections::BTreeMap, path::Path, process::Command};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use crate::{
    command,
    error::{Error, succeeded},
    platform::Platform,
};

/// One manager.
struct Provider {
    /// Its kustomization below the tree of manifests.
    folder: &'static str,
    /// Where it runs.
    namespace: &'static str,
    /// The Service of its webhooks; its certificate is in a Secret named after it.
    service: &'static str,
    /// Its Deployment.
    deployment: &'static str,
    /// Its image.
    image: &'static str,
}

const PROVIDERS: [Provider; 2] = [
    Provider {
        folder: "config/default",
        namespace: "capi-system",
        service: "capi-webhook-service",
        deployment: "capi-controller-manager",
        image: "registry.k8s.io/cluster-api/cluster-api-controller",
    },
    Provider {
        folder: "bootstrap/kubeadm/config/default",
        namespace: "capi-kubeadm-bootstrap-system",
        service: "capi-kubeadm-bootstrap-webhook-service",
        deployment: "capi-kubeadm-bootstrap-controller-manager",
        image: "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller",
    },
];

/// Values of variables in the manifests that differ from what they say themselves.
const VARIABLES: [(&str, &str); 1] = [
    // It holds every object back for seconds between two looks: a cluster takes 14 s instead of 4 (upstream has it
    // for management clusters with thousands of clusters).
    ("EXP_RECONCILER_RATE_LIMITING", "false"),
];

/// A certificate with what signed it, as PEM.
struct Certificate {
    authority: String,
    leaf: String,
    key: String,
}

impl Platform {
    /// Installs both managers, or brings them up to date, and waits until they are ready.
    pub(crate) fn cluster_api(&self) -> Result<String, Error> {
        let manifests = self.toolchain.cluster_api_manifests();
        let manifests = manifests.map_err(Error::on("find Cluster API's manifests"))?;
        let version = self.pinned("cluster-api-manager");
        for provider in &PROVIDERS {
            let rendered = self.render(&manifests.join(provider.folder))?;
            let documents = parse(&rendered)?;
            let held = self.held_certificate(provider)?;
            let certificate = match held {
                Some(held) => held,
                None => issue(provider).map_err(Error::on("issue a webhook's certificate"))?,
            };
            let objects = prepare(documents, provider, &version, &certificate);
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
            self.apply(&list.to_string())?;
        }
        for Provider {
            namespace,
            deployment,
            ..
        } in &PROVIDERS
        {
            let name = format!("deployment/{deployment}");
            let wait = [
                "rollout",
                "status",
                "-n",
                namespace,
                &name,
                "--timeout=180s",
            ];
            self.kubectl(&wait, None)?;
        }
        Ok(version)
    }

    fn render(&self, folder: &Path) -> Result<String, Error> {
        let kubectl = self.toolchain.binary("kubectl", None);
        let kubectl = kubectl.map_err(Error::on("find kubectl"))?;
        let what = format!("render {}", folder.display());
        let mut kustomize = Command::new(kubectl);
        kustomize.arg("kustomize").arg(folder);
        succeeded(&what, command::run(&mut kustomize, ""))
    }

    /// The certificate of an earlier run: a new one would cut off whoever trusts the old one for a moment.
    fn held_certificate(&self, provider: &Provider) -> Result<Option<Certificate>, Error> {
        let name = format!("{}-cert", provider.service);
        let get = [
            "get",
            "secret",
            "-n",
            provider.namespace,
            &name,
            "-o",
            "json",
            "--ignore-not-found",
        ];
        let text = self.kubectl(&get, None)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let secret: k8s_openapi::api::core::v1::Secret =
            serde_json::from_str(&text).map_err(Error::on("read a webhook's certificate"))?;
        let mut data = secret.data.unwrap_or_default();
        let mut take = |key: &str| String::from_utf8(data.remove(key)?.0).ok();
        let held = (take("ca.crt"), take("tls.crt"), take("tls.key"));
        Ok(match held {
            (Some(authority), Some(certificate), Some(key)) => Some(Certificate {
                authority,
                leaf: certificate,
                key,
            }),
            _ => None,
        })
    }
}

fn parse(rendered: &str) -> Result<Vec<Value>, Error> {
    let parsed = serde_saphyr::from_multiple(rendered);
    parsed.map_err(Error::on("read Cluster API's manifests"))
}

fn issue(provider: &Provider) -> Result<Certificate, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let name = format!("{} authority", provider.service);
    authority.distinguished_name.push(DnType::CommonName, name);
    let certificate = authority.self_signed(&key)?;
    let issuer = Issuer::new(authority, key);
    let host = format!("{}.{}.svc", provider.service, provider.namespace);
    let leaf_key = KeyPair::generate()?;
    let leaf = CertificateParams::new([host.clone(), format!("{host}.cluster.local")])?;
    // The authority's key is forgotten here: it signs nothing else.
    let leaf = leaf.signed_by(&leaf_key, &issuer)?;
    Ok(Certificate {
        authority: certificate.pem(),
        leaf: leaf.pem(),
        key: leaf_key.serialize_pem(),
    })
}

/// The objects of a manager, in the order in which they are applied.
fn prepare(
    documents: Vec<Value>,
    provider: &Provider,
    version: &str,
    certificate: &Certificate,
) -> Vec<Value> {
    let bundle = base64(&certificate.authority);
    let mut objects: Vec<Value> = documents
        .into_iter()
        .filter(|it| !text(it, "/apiVersion").starts_with("cert-manager.io/"))
        .map(|it| ready(it, provider, version, &bundle))
        .collect();
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": format!("{}-cert", provider.service),
            "namespace": provider.namespace,
        },
        "stringData": {
            "ca.crt": certificate.authority,
            "tls.crt": certificate.leaf,
            "tls.key": certificate.key,
        },
    }));
    objects.sort_by_key(|it| order(text(it, "/kind")));
    objects
}

/// Webhooks last: from then on nothing of their kinds can be written without the manager.
fn order(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "Deployment" => 3,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => 4,
        _ => 2,
    }
}

fn ready(mut object: Value, provider: &Provider, version: &str, bundle: &str) -> Value {
    let kind = text(&object, "/kind").to_owned();
    match kind.as_str() {
        "CustomResourceDefinition" => {
            let client = "/spec/conversion/webhook/clientConfig";
            if let Some(Value::Object(client)) = object.pointer_mut(client) {
                client.insert("caBundle".to_owned(), bundle.into());
            }
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                if let Some(Value::Object(client)) = webhook.get_mut("clientConfig") {
                    client.insert("caBundle".to_owned(), bundle.into());
                }
            }
        }
        "Deployment" => {
            let containers = object.pointer_mut("/spec/template/spec/containers");
            let containers = containers.and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if let Some(image) = container.get_mut("image") {
                    *image = format!("{}:{version}", provider.image).into();
                }
                let arguments = container.get_mut("args").and_then(Value::as_array_mut);
                for argument in arguments.into_iter().flatten() {
                    *argument = substitute(argument.as_str().unwrap_or_default()).into();
                }
                watch_the_start(container);
            }
        }
        _ => {}
    }
    // Asks cert-manager for what we have done.
    let annotations = object.pointer_mut("/metadata/annotations");
    if let Some(Value::Object(annotations)) = annotations {
        annotations.remove("cert-manager.io/inject-ca-from");
    }
    object
}

/// A manager is ready two seconds after it was started. Whoever asks every ten seconds hears of it after ten.
fn watch_the_start(container: &mut Value) {
    let Some(ready) = container.get("readinessProbe").cloned() else {
        return;
    };
    if let (Value::Object(container), Value::Object(mut probe)) = (container, ready) {
        probe.insert("periodSeconds".to_owned(), 1.into());
        probe.insert("failureThreshold".to_owned(), 300.into());
        container.insert("startupProbe".to_owned(), probe.into());
    }
}

/// Replaces `${NAME:=default}`.
fn substitute(argument: &str) -> String {
    let values = BTreeMap::from(VARIABLES);
    let mut result = String::new();
    let mut rest = argument;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        let Some((variable, behind)) = after.split_once('}') else {
            break;
        };
        let (name, default) = variable.split_once(":=").unwrap_or((variable, ""));
        result.push_str(values.get(name).copied().unwrap_or(default));
        rest = behind;
    }
    result + rest
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    let found = object.pointer(path).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn base64(text: &str) -> String {
    let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
    let encoded = json!(bytes);
    encoded.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(documents: Vec<Value>) -> Vec<Value> {
        let certificate = Certificate {
            authority: "ca".to_owned(),
            leaf: "crt".to_owned(),
            key: "key".to_owned(),
        };
        prepare(documents, &PROVIDERS[0], "v1.13.6", &certificate)
    }

    #[test]
    fn variables_get_their_defaults_or_what_we_say() {
        let argument = "--feature-gates=A=${EXP_A:=true},R=${EXP_RECONCILER_RATE_LIMITING:=true},x";
        assert_eq!(substitute(argument), "--feature-gates=A=true,R=false,x");
        assert_eq!(substitute("--leader-elect"), "--leader-elect");
    }

    #[test]
    fn everything_that_calls_a_webhook_trusts_our_authority_and_cert_manager_is_not_needed() {
        let client = json!({ "service": { "name": "s" } });
        let objects = prepared(vec![
            json!({ "kind": "ValidatingWebhookConfiguration", "webhooks": [{ "clientConfig": client }] }),
            json!({ "apiVersion": "cert-manager.io/v1", "kind": "Issuer" }),
            json!({
                "kind": "CustomResourceDefinition",
                "metadata": { "annotations": { "cert-manager.io/inject-ca-from": "x" } },
                "spec": { "conversion": { "webhook": { "clientConfig": client } } },
            }),
            json!({
                "kind": "Deployment",
                "spec": { "template": { "spec": { "containers": [{
                    "image": "x", "args": ["${A:=b}"], "readinessProbe": { "httpGet": { "path": "/readyz" } },
                }] } } },
            }),
            json!({ "kind": "Namespace" }),
        ]);
        let kinds: Vec<_> = objects.iter().map(|it| text(it, "/kind")).collect();
        let wanted = [
            "Namespace",
            "CustomResourceDefinition",
            "Secret",
            "Deployment",
            "ValidatingWebhookConfiguration",
        ];
        assert_eq!(kinds, wanted);
        let bundle = "/spec/conversion/webhook/clientConfig/caBundle";
        assert_eq!(text(&objects[1], bundle), "Y2E=");
        assert_eq!(
            text(&objects[4], "/webhooks/0/clientConfig/caBundle"),
            "Y2E="
        );
        assert_eq!(objects[1]["metadata"]["annotations"], json!({}));
        let container = &objects[3]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            container["image"],
            "registry.k8s.io/cluster-api/cluster-api-controller:v1.13.6"
        );
        assert_eq!(container["args"][0], "b");
        let start = &container["startupProbe"];
        assert_eq!(start["httpGet"], container["readinessProbe"]["httpGet"]);
        assert_eq!(start["periodSeconds"], 1);
    }

    #[test]
    fn a_certificate_is_for_the_service_of_its_manager() {
        let issued = issue(&PROVIDERS[1]).unwrap();
        assert!(issued.authority.contains("BEGIN CERTIFICATE"));
        assert_ne!(issued.authority, issued.leaf);
        assert!(issued.key.contains("PRIVATE KEY"));
    }
}
