//! The etcd that hosted control planes share: one pod of the management cluster, with its data on the machine's disk.

use std::net::Ipv4Addr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};

use crate::{error::Error, platform::Platform};

const NAME: &str = "tenant-etcd";
const NAMESPACE: &str = "steward-system";
/// The Secret with every certificate of it.
const SECRET: &str = "tenant-etcd-certificates";
/// etcd's own administrator; it is signed in by its certificate.
const ADMINISTRATOR: &str = "root";

impl Platform {
    /// Makes the store, without waiting for it.
    pub(crate) fn make_store(&self) -> Result<(), Error> {
        let name = [
            "get",
            "secret",
            "-n",
            NAMESPACE,
            SECRET,
            "-o",
            "name",
            "--ignore-not-found",
        ];
        let address = self.settings.tenant_store();
        let mut objects = objects(&self.pinned("etcd"), address);
        if self.kubectl(&name, None)?.trim().is_empty() {
            let secret =
                certificates(address).map_err(Error::on("issue certificates of the store"))?;
            objects.insert(0, secret);
        }
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.apply(&list.to_string())
    }

    /// Waits for the store and says to Steward that it is there.
    pub(crate) fn tenant_store(&self) -> Result<((), String), Error> {
        let address = self.settings.tenant_store();
        let set = format!("statefulset/{NAME}");
        self.kubectl(
            &["rollout", "status", "-n", NAMESPACE, &set, "--timeout=120s"],
            None,
        )?;
        self.keep_tenants_apart()?;
        self.apply(&data_store(address).to_string())?;
        let wait = [
            "wait",
            "datastore/default",
            "--for=condition=Ready",
            "--timeout=60s",
        ];
        self.kubectl(&wait, None)?;
        Ok(((), "DataStore default".to_owned()))
    }

    /// Turns etcd's users on. Each may have been done by an earlier run.
    fn keep_tenants_apart(&self) -> Result<(), Error> {
        let steps: [&[&str]; 4] = [
            &["user", "add", ADMINISTRATOR, "--no-password"],
            &["role", "add", ADMINISTRATOR],
            &["user", "grant-role", ADMINISTRATOR, ADMINISTRATOR],
            &["auth", "enable"],
        ];
        let pod = format!("{NAME}-0");
        let client = [
            "exec",
            "-n",
            NAMESPACE,
            &pod,
            "--",
            "etcdctl",
            "--endpoints=https://127.0.0.1:2379",
            "--cacert=/tls/ca.crt",
            "--cert=/tls/client.crt",
            "--key=/tls/client.key",
        ];
        for step in steps {
            match self.kubectl(&[&client[..], step].concat(), None) {
                Err(Error::Command { said, .. }) if said.contains("already exist") => {}
                result => drop(result?),
            }
        }
        Ok(())
    }
}

fn certificates(address: Ipv4Addr) -> Result<Value, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, NAME);
    let authority_certificate = authority.self_signed(&authority_key)?.pem();
    let authority_pem = authority_key.serialize_pem();
    let issuer = Issuer::new(authority, authority_key);
    let leaf = |name: &str, hosts: Vec<String>, usages: Vec<ExtendedKeyUsagePurpose>| {
        let key = KeyPair::generate()?;
        let mut leaf = CertificateParams::new(hosts)?;
        leaf.distinguished_name.push(DnType::CommonName, name);
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = usages;
        let certificate = leaf.signed_by(&key, &issuer)?;
        Ok::<_, rcgen::Error>((certificate.pem(), key.serialize_pem()))
    };
    let service = format!("{NAME}.{NAMESPACE}.svc");
    let hosts = vec![
        service.clone(),
        format!("{service}.cluster.local"),
        address.to_string(),
        "127.0.0.1".to_owned(),
    ];
    let (server, client) = (
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    );
    let (serving, serving_key) = leaf("etcd", hosts, vec![server, client.clone()])?;
    let (administrator, administrator_key) = leaf(ADMINISTRATOR, Vec::new(), vec![client])?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": SECRET, "namespace": NAMESPACE },
        "stringData": {
            "ca.crt": authority_certificate,
            "ca.key": authority_pem,
            "server.crt": serving,
            "server.key": serving_key,
            "client.crt": administrator,
            "client.key": administrator_key,
        },
    }))
}

fn objects(version: &str, address: Ipv4Addr) -> Vec<Value> {
    let labels = json!({ "app.kubernetes.io/name": NAME });
    let metadata = json!({ "name": NAME, "namespace": NAMESPACE, "labels": labels });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": address,
            "selector": labels,
            "ports": [{ "name": "etcd", "port": 2379 }],
        },
    });
    let listen = "https://0.0.0.0:2379";
    let advertise = format!("https://{address}:2379");
    let mounts = json!([
        { "name": "data", "mountPath": "/data" },
        { "name": "tls", "mountPath": "/tls", "readOnly": true },
    ]);
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "serviceName": NAME,
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "etcd",
                        "image": format!("registry.k8s.io/etcd:{version}"),
                        "command": [
                            "etcd", "--data-dir=/data/etcd",
                            format!("--listen-client-urls={listen}"),
                            format!("--advertise-client-urls={advertise}"),
                            "--listen-peer-urls=http://127.0.0.1:2380",
                            "--listen-metrics-urls=http://0.0.0.0:2381",
                            "--client-cert-auth", "--trusted-ca-file=/tls/ca.crt",
                            "--cert-file=/tls/server.crt", "--key-file=/tls/server.key",
                            "--auto-compaction-mode=periodic", "--auto-compaction-retention=10m",
                            "--quota-backend-bytes=4294967296",
                        ],
                        "ports": [{ "containerPort": 2379 }, { "containerPort": 2381 }],
                        "readinessProbe": {
                            "httpGet": { "path": "/readyz", "port": 2381 },
                            "periodSeconds": 1,
                        },
                        "volumeMounts": mounts,
                    }],
                    "volumes": [
                        // The machine's own disk: there is one machine, and it is kept.
                        { "name": "data", "hostPath": { "path": "/var/lib/tenant-etcd", "type": "DirectoryOrCreate" } },
                        { "name": "tls", "secret": { "secretName": SECRET } },
                    ],
                },
            },
        },
    });
    vec![service, set]
}

fn data_store(address: Ipv4Addr) -> Value {
    let key = |path: &str| json!({ "secretReference": { "name": SECRET, "namespace": NAMESPACE, "keyPath": path } });
    json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "DataStore",
        "metadata": { "name": "default" },
        "spec": {
            "driver": "etcd",
            "endpoints": [format!("{address}:2379")],
            "tlsConfig": {
                "certificateAuthority": { "certificate": key("ca.crt"), "privateKey": key("ca.key") },
                "clientCertificate": { "certificate": key("client.crt"), "privateKey": key("client.key") },
            },
        },
    })
}
