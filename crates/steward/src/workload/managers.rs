//! The containers that work through the API server of their pod: controller manager, scheduler and tunnel.
//!
//! Leader election is always on, with one replica too: while new pods replace old ones two of each run, and
//! two controller managers at work would start a Job twice. Its durations stay at their defaults. A shorter
//! lease would shorten the pause after a crash (about 20 s), but losing it means to start over and list
//! everything again, which is the wrong answer to a store that is slow for all tenants.

use k8s_openapi::api::core::v1::{Container, Volume};

use super::{Inputs, args::Args, files, pod};
use crate::{
    endpoint::Endpoint,
    names::{self, Part},
    spec::{
        ControlPlane, Konnectivity,
        network::{
            CONTROLLER_MANAGER_PORT, KONNECTIVITY_ADMIN_PORT, KONNECTIVITY_HEALTH_PORT,
            SCHEDULER_PORT, node_mask,
        },
    },
};

/// Seconds until the start of a manager counts as failed.
const START_BUDGET: i32 = 60;

/// The controller manager.
pub(super) fn controller_manager(spec: &ControlPlane, inputs: &Inputs) -> Container {
    let pki = |file: &str| format!("{}/{file}", files::PKI);
    let mut args = Args::default();
    identify(&mut args, "controller-manager.conf");
    args.set("leader-elect", true)
        .set("use-service-account-credentials", true)
        .set("controllers", "*,bootstrapsigner,tokencleaner")
        .set("cluster-name", &spec.identity.name)
        .set("allocate-node-cidrs", true)
        .set("cluster-cidr", spec.network.pod_cidr)
        .set("service-cluster-ip-range", spec.network.service_cidr)
        .set("root-ca-file", pki("ca.crt"))
        .set("cluster-signing-cert-file", pki("ca.crt"))
        .set("cluster-signing-key-file", pki("ca.key"))
        .set("service-account-private-key-file", pki("sa.key"));
    if let Some(mask) = node_mask(spec.network.pod_cidr) {
        args.set("node-cidr-mask-size", mask);
    }
    let command = args.command(names::CONTROLLER_MANAGER, &spec.controller_manager_flags);
    let image = spec
        .images
        .image(&spec.images.controller_manager, inputs.version);
    let mut container = pod::container(names::CONTROLLER_MANAGER, image, command);
    container.resources = Some(pod::resources(
        spec.pods.resources.controller_manager.as_ref(),
        ("10m", "32Mi"),
    ));
    watched(&mut container, CONTROLLER_MANAGER_PORT);
    let mut mounts = vec![
        files::mount(files::CONTROLLER_MANAGER_PKI, files::PKI),
        files::mount(files::CONTROLLER_MANAGER_KUBECONFIG, files::KUBECONFIG),
    ];
    mounts.extend(spec.pods.mounts.controller_manager.iter().cloned());
    container.volume_mounts = Some(mounts);
    container
}

/// The scheduler.
pub(super) fn scheduler(spec: &ControlPlane, inputs: &Inputs) -> Container {
    let mut args = Args::default();
    identify(&mut args, "scheduler.conf");
    args.set("leader-elect", true);
    let command = args.command(names::SCHEDULER, &spec.scheduler_flags);
    let image = spec.images.image(&spec.images.scheduler, inputs.version);
    let mut container = pod::container(names::SCHEDULER, image, command);
    container.resources = Some(pod::resources(
        spec.pods.resources.scheduler.as_ref(),
        ("5m", "24Mi"),
    ));
    watched(&mut container, SCHEDULER_PORT);
    let mut mounts = vec![
        files::mount(files::SCHEDULER_PKI, files::PKI),
        files::mount(files::SCHEDULER_KUBECONFIG, files::KUBECONFIG),
    ];
    mounts.extend(spec.pods.mounts.scheduler.iter().cloned());
    container.volume_mounts = Some(mounts);
    container
}

/// Who a manager is, and whom it trusts. With both authorities given it asks the API for nothing at its
/// start, so an API server that is not up yet does not end it.
fn identify(args: &mut Args, kubeconfig: &str) {
    let kubeconfig = format!("{}/{kubeconfig}", files::KUBECONFIG);
    args.set("kubeconfig", &kubeconfig)
        .set("authentication-kubeconfig", &kubeconfig)
        .set("authorization-kubeconfig", &kubeconfig)
        .set("client-ca-file", format!("{}/ca.crt", files::PKI))
        .set(
            "requestheader-client-ca-file",
            format!("{}/front-proxy-ca.crt", files::PKI),
        );
}

/// A process that ends at once never counts as started, and so never as ready; one that runs is ended only
/// when it hangs. There is no readiness probe: see the documentation of [`super`].
fn watched(container: &mut Container, port: u16) {
    container.startup_probe = Some(pod::probe("/healthz", port, 1, START_BUDGET));
    container.liveness_probe = Some(pod::probe("/healthz", port, 10, 8));
}

/// The tunnel to nodes.
pub(super) fn konnectivity(
    spec: &ControlPlane,
    tunnel: &Konnectivity,
    endpoint: &Endpoint,
    inputs: &Inputs,
) -> Container {
    let mut args = Args::default();
    args.set("mode", "grpc")
        .set(
            "uds-name",
            format!("{}/konnectivity-server.socket", files::TUNNEL),
        )
        .set("delete-existing-uds-file", true)
        .set("server-port", 0)
        .set(
            "agent-port",
            endpoint.konnectivity_port.unwrap_or(tunnel.port),
        )
        .set("admin-port", KONNECTIVITY_ADMIN_PORT)
        .set("health-port", KONNECTIVITY_HEALTH_PORT)
        .set("server-count", spec.replicas.max(1))
        .set("agent-namespace", "kube-system")
        .set("agent-service-account", "konnectivity-agent")
        .set("authentication-audience", "system:konnectivity-server")
        .set(
            "kubeconfig",
            format!("{}/konnectivity-server.conf", files::KUBECONFIG),
        )
        .set("cluster-cert", format!("{}/apiserver.crt", files::PKI))
        .set("cluster-key", format!("{}/apiserver.key", files::PKI));
    // The image names its program; where in it that lies is its own affair.
    let mut flags = args.command("", &tunnel.flags);
    flags.remove(0);
    let image = tunnel.server_image(inputs.version);
    let mut container = pod::container(names::KONNECTIVITY_SERVER, image, Vec::new());
    container.command = None;
    container.args = Some(flags);
    let agents = endpoint.konnectivity_port.unwrap_or(tunnel.port);
    container.ports = Some(vec![pod::port(pod::TUNNEL_PORT, agents)]);
    container.resources = Some(pod::resources(tunnel.resources.as_ref(), ("5m", "24Mi")));
    let probe = |period, failures| {
        let mut probe = pod::probe("/healthz", KONNECTIVITY_HEALTH_PORT, period, failures);
        if let Some(get) = &mut probe.http_get {
            get.scheme = Some("HTTP".to_owned());
        }
        Some(probe)
    };
    container.startup_probe = probe(1, START_BUDGET);
    container.liveness_probe = probe(10, 3);
    container.volume_mounts = Some(vec![
        files::mount(files::TUNNEL_PKI, files::PKI),
        files::mount(files::TUNNEL_KUBECONFIG, files::KUBECONFIG),
        files::writable(files::TUNNEL_SOCKET, files::TUNNEL),
    ]);
    container
}

/// The volumes of all of them.
pub(super) fn volumes(spec: &ControlPlane) -> Vec<Volume> {
    let own = |part: Part| part.name(&spec.identity.name);
    let authority = |files: &[(&str, &str)]| files::secret(&own(Part::Ca), files);
    let front_proxy = files::secret(
        &own(Part::FrontProxyCa),
        &[("front-proxy-ca.crt", "front-proxy-ca.crt")],
    );
    let kubeconfig = |part: Part, file: &str| files::secret(&own(part), &[(file, file)]);
    let mut volumes = vec![
        files::volume(
            files::CONTROLLER_MANAGER_PKI,
            vec![
                authority(&[("ca.crt", "ca.crt"), ("ca.key", "ca.key")]),
                front_proxy.clone(),
                files::secret(&own(Part::ServiceAccount), &[("sa.key", "sa.key")]),
            ],
        ),
        files::volume(
            files::CONTROLLER_MANAGER_KUBECONFIG,
            vec![kubeconfig(
                Part::ControllerManagerKubeconfig,
                "controller-manager.conf",
            )],
        ),
        files::volume(
            files::SCHEDULER_PKI,
            vec![authority(&[("ca.crt", "ca.crt")]), front_proxy],
        ),
        files::volume(
            files::SCHEDULER_KUBECONFIG,
            vec![kubeconfig(Part::SchedulerKubeconfig, "scheduler.conf")],
        ),
    ];
    if spec.konnectivity.is_some() {
        let pair = [
            ("apiserver.crt", "apiserver.crt"),
            ("apiserver.key", "apiserver.key"),
        ];
        volumes.push(files::volume(
            files::TUNNEL_PKI,
            vec![files::secret(&own(Part::ApiServerCertificate), &pair)],
        ));
        volumes.push(files::volume(
            files::TUNNEL_KUBECONFIG,
            vec![kubeconfig(
                Part::KonnectivityKubeconfig,
                "konnectivity-server.conf",
            )],
        ));
        volumes.push(files::memory(files::TUNNEL_SOCKET));
    }
    volumes
}
