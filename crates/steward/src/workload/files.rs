//! Where the containers of a control-plane pod find their files, and the volumes that bring them.
//!
//! Every container gets its own volume with exactly what it reads. The key of the cluster's authority is in
//! the controller manager's volume and in no other: it alone signs certificates.

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, EmptyDirVolumeSource, KeyToPath, ProjectedVolumeSource, SecretProjection,
    Volume, VolumeMount, VolumeProjection,
};

/// Certificates and keys.
pub(crate) const PKI: &str = "/etc/kubernetes/pki";
/// Kubeconfigs.
pub(crate) const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// Audit, sign-in, encryption and egress settings of the API server.
pub(crate) const CONFIG: &str = "/etc/kubernetes/steward";
/// The socket between API server and tunnel.
pub(crate) const TUNNEL: &str = "/run/konnectivity";

/// Folders that no mount of a user may hide.
pub(crate) const FOLDERS: [&str; 4] = [PKI, KUBECONFIG, CONFIG, TUNNEL];

/// Certificates of the API server; the name that existing manifests know.
pub(crate) const API_SERVER_PKI: &str = "etc-kubernetes-pki";
/// Settings of the API server.
pub(crate) const API_SERVER_CONFIG: &str = "api-server-config";
/// Certificates of the controller manager.
pub(crate) const CONTROLLER_MANAGER_PKI: &str = "controller-manager-pki";
/// Kubeconfig of the controller manager.
pub(crate) const CONTROLLER_MANAGER_KUBECONFIG: &str = "controller-manager-kubeconfig";
/// Certificates of the scheduler.
pub(crate) const SCHEDULER_PKI: &str = "scheduler-pki";
/// Kubeconfig of the scheduler.
pub(crate) const SCHEDULER_KUBECONFIG: &str = "scheduler-kubeconfig";
/// Certificates of the tunnel.
pub(crate) const TUNNEL_PKI: &str = "konnectivity-pki";
/// Kubeconfig of the tunnel.
pub(crate) const TUNNEL_KUBECONFIG: &str = "konnectivity-kubeconfig";
/// The socket between API server and tunnel.
pub(crate) const TUNNEL_SOCKET: &str = "konnectivity-uds";

/// Names that no volume of a user may have.
pub(crate) const VOLUMES: [&str; 9] = [
    API_SERVER_PKI,
    API_SERVER_CONFIG,
    CONTROLLER_MANAGER_PKI,
    CONTROLLER_MANAGER_KUBECONFIG,
    SCHEDULER_PKI,
    SCHEDULER_KUBECONFIG,
    TUNNEL_PKI,
    TUNNEL_KUBECONFIG,
    TUNNEL_SOCKET,
];

/// Readable by the user that containers run as (through the pod's group), and by nobody else.
const MODE: i32 = 0o440;

/// A volume with files of several Secrets and `ConfigMap`s.
pub(super) fn volume(name: &str, sources: Vec<VolumeProjection>) -> Volume {
    Volume {
        name: name.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(MODE),
            sources: Some(sources),
        }),
        ..Volume::default()
    }
}

/// A volume in memory that ends with the pod.
pub(super) fn memory(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Keys of a Secret and the paths they get.
pub(super) fn secret(name: &str, files: &[(&str, &str)]) -> VolumeProjection {
    VolumeProjection {
        secret: Some(SecretProjection {
            name: name.to_owned(),
            items: Some(items(files)),
            optional: None,
        }),
        ..VolumeProjection::default()
    }
}

/// Keys of a `ConfigMap` and the paths they get.
pub(super) fn config_map(name: &str, files: &[(&str, &str)]) -> VolumeProjection {
    VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: name.to_owned(),
            items: Some(items(files)),
            optional: None,
        }),
        ..VolumeProjection::default()
    }
}

fn items(files: &[(&str, &str)]) -> Vec<KeyToPath> {
    let item = |(key, path): &(&str, &str)| KeyToPath {
        key: (*key).to_owned(),
        path: (*path).to_owned(),
        mode: None,
    };
    files.iter().map(item).collect()
}

/// A mount of files.
pub(super) fn mount(volume: &str, folder: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: folder.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// A mount to write to.
pub(super) fn writable(volume: &str, folder: &str) -> VolumeMount {
    VolumeMount {
        read_only: None,
        ..mount(volume, folder)
    }
}
