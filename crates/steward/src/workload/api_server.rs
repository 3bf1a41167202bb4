//! The container of the API server and its volumes.

use butler_api::steward::tenant_control_plane::kubernetes::AddressType;
use k8s_openapi::api::core::v1::{Container, Volume, VolumeMount, VolumeProjection};

use super::{Inputs, admission, args::Args, configs, encryption, files, pod};
use crate::{
    endpoint::Endpoint,
    names::{self, Part},
    spec::ControlPlane,
};

/// How long the API server still serves after it was told to stop: longer than it takes until nobody is
/// sent to it any more.
pub(super) const SHUTDOWN_DELAY: i64 = 10;
/// The longest that a request may take, which is the API server's own default.
const REQUEST_TIMEOUT: i64 = 60;
/// How long a pod may take to end: the delay, the requests in flight, and some.
pub(super) const GRACE: i64 = SHUTDOWN_DELAY + REQUEST_TIMEOUT + 5;

/// Seconds until a start counts as failed. A cold store or a slow disk is no reason to start over.
const START_BUDGET: i32 = 180;

/// The container.
pub(super) fn container(spec: &ControlPlane, endpoint: &Endpoint, inputs: &Inputs) -> Container {
    let mut container = pod::container(
        names::API_SERVER,
        spec.images.image(&spec.images.api_server, inputs.version),
        command(spec, endpoint, inputs),
    );
    container.ports = Some(vec![pod::port(names::API_SERVER, endpoint.port)]);
    container.resources = Some(pod::resources(
        spec.pods.resources.api_server.as_ref(),
        ("50m", "128Mi"),
    ));
    container.startup_probe = Some(pod::probe("/livez", endpoint.port, 1, START_BUDGET));
    container.readiness_probe = Some(pod::probe("/readyz", endpoint.port, 2, 3));
    // Starting over does not heal a store that is away, and all tenants starting over at once hurts it.
    container.liveness_probe = Some(pod::probe("/livez?exclude=etcd", endpoint.port, 10, 8));
    // The binary carries this capability as a file attribute: without it in the bounding set the kernel
    // refuses to start it, even though nothing uses it.
    pod::allow(&mut container, "NET_BIND_SERVICE");
    container.volume_mounts = Some(mounts(spec, inputs));
    container
}

fn command(spec: &ControlPlane, endpoint: &Endpoint, inputs: &Inputs) -> Vec<String> {
    let mut args = Args::default();
    args.set("advertise-address", endpoint.advertise_address)
        .set("secure-port", endpoint.port)
        .set("allow-privileged", true)
        .set("authorization-mode", "Node,RBAC")
        .set("enable-bootstrap-token-auth", true)
        .set("service-cluster-ip-range", spec.network.service_cidr)
        .set(
            "enable-admission-plugins",
            admission::plugins(&spec.admission, &spec.api_server_flags, inputs.version).join(","),
        )
        // No kube-proxy runs beside the API server: Service addresses of the tenant lead nowhere here.
        .set("enable-aggregator-routing", true)
        .set("shutdown-delay-duration", format!("{SHUTDOWN_DELAY}s"))
        .set("shutdown-send-retry-after", true);
    certificates(&mut args, spec);
    kubelets(&mut args, spec);
    store(&mut args, inputs);
    settings(&mut args, spec, inputs);
    args.command(names::API_SERVER, &spec.api_server_flags)
}

fn certificates(args: &mut Args, spec: &ControlPlane) {
    let pki = |file: &str| format!("{}/{file}", files::PKI);
    args.set_all([
        ("client-ca-file", pki("ca.crt")),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
        ("proxy-client-cert-file", pki("front-proxy-client.crt")),
        ("proxy-client-key-file", pki("front-proxy-client.key")),
        ("requestheader-client-ca-file", pki("front-proxy-ca.crt")),
        (
            "requestheader-allowed-names",
            "front-proxy-client".to_owned(),
        ),
        (
            "requestheader-extra-headers-prefix",
            "X-Remote-Extra-".to_owned(),
        ),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        (
            "service-account-issuer",
            format!(
                "https://kubernetes.default.svc.{}",
                spec.network.cluster_domain
            ),
        ),
        ("service-account-key-file", pki("sa.pub")),
        ("service-account-signing-key-file", pki("sa.key")),
    ]);
}

/// Kubelets that sign their serving certificates themselves, which is what kubeadm leaves, cannot be
/// verified: logs and exec would fail. Where the spec has them signed by the cluster, they are verified.
fn kubelets(args: &mut Args, spec: &ControlPlane) {
    let types: Vec<&str> = spec
        .kubelet
        .address_types
        .iter()
        .copied()
        .map(address_type)
        .collect();
    args.set(
        "kubelet-client-certificate",
        format!("{}/apiserver-kubelet-client.crt", files::PKI),
    )
    .set(
        "kubelet-client-key",
        format!("{}/apiserver-kubelet-client.key", files::PKI),
    )
    .set("kubelet-preferred-address-types", types.join(","));
    if spec.kubelet.signed_serving {
        args.set(
            "kubelet-certificate-authority",
            format!("{}/ca.crt", files::PKI),
        );
    }
}

fn address_type(kind: AddressType) -> &'static str {
    match kind {
        AddressType::Hostname => "Hostname",
        AddressType::InternalIP => "InternalIP",
        AddressType::ExternalIP => "ExternalIP",
        AddressType::InternalDNS => "InternalDNS",
        AddressType::ExternalDNS => "ExternalDNS",
    }
}

fn store(args: &mut Args, inputs: &Inputs) {
    let store = &inputs.store;
    args.set("etcd-servers", store.endpoints.join(","))
        // The terminator keeps `/a` from being a part of `/ab`.
        .set(
            "etcd-prefix",
            format!("{}/", store.prefix.trim_end_matches('/')),
        )
        .set("etcd-cafile", format!("{}/etcd/ca.crt", files::PKI))
        .set("etcd-certfile", format!("{}/etcd/server.crt", files::PKI))
        .set("etcd-keyfile", format!("{}/etcd/server.key", files::PKI))
        // A tenant may not compact a store that it shares; the store compacts itself.
        .set("etcd-compaction-interval", "0s");
    let overrides = store.overrides.iter();
    let overrides: Vec<String> = overrides
        .map(|item| format!("{}#{}", item.resource, item.endpoints.join(";")))
        .collect();
    if !overrides.is_empty() {
        args.set("etcd-servers-overrides", overrides.join(","));
    }
}

fn settings(args: &mut Args, spec: &ControlPlane, inputs: &Inputs) {
    let file = |name: &str| format!("{}/{name}", files::CONFIG);
    if let Some(audit) = &spec.audit {
        args.set("audit-policy-file", file(configs::AUDIT_POLICY))
            .set("audit-log-path", "-");
        if audit.webhook.is_some() {
            args.set("audit-webhook-config-file", file(configs::AUDIT_WEBHOOK));
        }
    }
    if spec.authentication.is_some() {
        args.set("authentication-config", file(configs::AUTHENTICATION));
    }
    if encryption::is_used(spec, &inputs.encryption) {
        args.set("encryption-provider-config", file(encryption::FILE));
    }
    if spec.konnectivity.is_some() {
        args.set("egress-selector-config-file", file(configs::EGRESS));
    }
}

fn mounts(spec: &ControlPlane, inputs: &Inputs) -> Vec<VolumeMount> {
    let mut mounts = vec![files::mount(files::API_SERVER_PKI, files::PKI)];
    if !config_sources(spec, inputs).is_empty() {
        mounts.push(files::mount(files::API_SERVER_CONFIG, files::CONFIG));
    }
    if spec.konnectivity.is_some() {
        mounts.push(files::writable(files::TUNNEL_SOCKET, files::TUNNEL));
    }
    mounts.extend(spec.pods.mounts.api_server.iter().cloned());
    mounts
}

/// The volumes of the API server.
pub(super) fn volumes(spec: &ControlPlane, inputs: &Inputs) -> Vec<Volume> {
    let own = |part: Part| part.name(&spec.identity.name);
    let pair = |part: Part, name: &str| {
        let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
        files::secret(&own(part), &[(&certificate, &certificate), (&key, &key)])
    };
    let pki = vec![
        pair(Part::ApiServerCertificate, "apiserver"),
        files::secret(&own(Part::Ca), &[("ca.crt", "ca.crt")]),
        pair(Part::KubeletClientCertificate, "apiserver-kubelet-client"),
        files::secret(
            &own(Part::FrontProxyCa),
            &[("front-proxy-ca.crt", "front-proxy-ca.crt")],
        ),
        pair(Part::FrontProxyClientCertificate, "front-proxy-client"),
        files::secret(
            &own(Part::ServiceAccount),
            &[("sa.pub", "sa.pub"), ("sa.key", "sa.key")],
        ),
        files::secret(
            &inputs.store.certificate_secret,
            &[
                ("ca.crt", "etcd/ca.crt"),
                ("server.crt", "etcd/server.crt"),
                ("server.key", "etcd/server.key"),
            ],
        ),
    ];
    let mut volumes = vec![files::volume(files::API_SERVER_PKI, pki)];
    let config = config_sources(spec, inputs);
    if !config.is_empty() {
        volumes.push(files::volume(files::API_SERVER_CONFIG, config));
    }
    volumes
}

fn config_sources(spec: &ControlPlane, inputs: &Inputs) -> Vec<VolumeProjection> {
    let own = |part: Part| part.name(&spec.identity.name);
    let mut sources = Vec::new();
    if let Some(audit) = &spec.audit {
        let file = [(configs::AUDIT_POLICY, configs::AUDIT_POLICY)];
        sources.push(files::config_map(&own(Part::AuditPolicy), &file));
        let webhook = audit.webhook.is_some().then(|| {
            let file = [(configs::AUDIT_WEBHOOK, configs::AUDIT_WEBHOOK)];
            files::secret(&own(Part::AuditWebhook), &file)
        });
        sources.extend(webhook);
    }
    if spec.authentication.is_some() {
        let file = [(configs::AUTHENTICATION, configs::AUTHENTICATION)];
        sources.push(files::config_map(&own(Part::Authentication), &file));
    }
    if encryption::is_used(spec, &inputs.encryption) {
        let file = [(encryption::FILE, encryption::FILE)];
        sources.push(files::secret(&own(Part::EncryptionConfig), &file));
    }
    if spec.konnectivity.is_some() {
        let file = [(configs::EGRESS, configs::EGRESS)];
        sources.push(files::config_map(&own(Part::EgressSelector), &file));
    }
    sources
}
