//! Names, labels, annotations and finalizers of hosted control planes, spelled once.
//!
//! They are the ones that existing tools and existing installations look for. Nothing here knows what the
//! objects hold.

use std::collections::BTreeMap;

/// Value of [`PROJECT`].
pub const STEWARD: &str = "steward";
/// The field manager of everything that is applied.
pub const FIELD_MANAGER: &str = "steward";

/// Label: whose objects these are.
pub const PROJECT: &str = "steward.butlerlabs.dev/project";
/// Label: the control plane that an object belongs to. The selector of its pods, which can never change.
pub const NAME: &str = "steward.butlerlabs.dev/name";
/// Label: what an object is for.
pub const COMPONENT: &str = "steward.butlerlabs.dev/component";
/// Label: what in a Secret is renewed, `x509` or `kubeconfig`.
pub const CERTIFICATE_LIFECYCLE: &str = "steward.butlerlabs.dev/certificate_lifecycle_controller";
/// Label of a generated kubeconfig: the generator.
pub const MANAGED_BY: &str = "steward.butlerlabs.dev/managed-by";
/// Label of a generated kubeconfig: the control plane it is for.
pub const MANAGED_FOR: &str = "steward.butlerlabs.dev/managed-for";

/// Annotation: its presence pauses the reconciliation of the object.
pub const PAUSED: &str = "steward.butlerlabs.dev/paused";
/// Annotation: a hash of an object's content.
pub const CHECKSUM: &str = "steward.butlerlabs.dev/checksum";
/// Annotation: which key of the administrators' Secret Steward itself uses.
pub const KUBECONFIG_SECRET_KEY: &str = "steward.butlerlabs.dev/kubeconfig-secret-key";
/// Annotation: its presence ends the wait for a store that cannot be reached when the object is deleted.
pub const FORCE_DELETE: &str = "steward.butlerlabs.dev/force-delete";
/// Annotation of a control plane that a `StewardControlPlane` owns: the UID of the owner it is worked on for, see
/// [`crate::provider`].
pub const WORKED_ON_FOR: &str = "provider.steward.butlerlabs.dev/worked-on-for";
/// Annotation of Cluster API's command line: the object goes only here, its copy lives on in another cluster.
pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Annotation of a Secret: empty asks for renewal, and the time of it takes its place.
pub const ROTATE: &str = "certs.steward.butlerlabs.dev/rotate";
/// Annotation of a control plane: each new word asks for one new key for encryption at rest.
pub const ENCRYPTION_ROTATE: &str = "encryption.steward.butlerlabs.dev/rotate";
/// Annotation of the Secret with keys for encryption at rest: the request that it has followed.
pub const ENCRYPTION_ROTATION: &str = "encryption.steward.butlerlabs.dev/rotation";
/// Annotation of the Secret with the encryption configuration: what wrote every object once more, see
/// [`crate::workload::encryption::Plan::writers`].
pub const ENCRYPTION_REWRITTEN: &str = "encryption.steward.butlerlabs.dev/rewritten";
/// Annotation of the Deployment: the release that its pods run.
pub const DEPLOYED_VERSION: &str = "steward.butlerlabs.dev/version";
/// Annotation of the Deployment: the pods that never became ready and were rolled back, see
/// [`crate::workload::fingerprint`].
pub const FAILED_ROLLOUT: &str = "steward.butlerlabs.dev/failed-rollout";
/// How annotations of the pods begin that carry a hash of something they mount.
pub const CONTENT: &str = "component.steward.butlerlabs.dev/";

/// Keeps a control plane until its data in the store is gone.
pub const FINALIZER: &str = "finalizer.steward.butlerlabs.dev";
/// Keeps a store until no control plane has its state there.
pub const STORE_FINALIZER: &str = "finalizer.steward.butlerlabs.dev/users";
/// The reference's finalizer for its tenant-side manager: found on adopted objects, and only removed.
pub const SOOT_FINALIZER: &str = "finalizer.steward.butlerlabs.dev/soot";
/// The reference's finalizer on the Secret with the store's settings: only removed.
pub const DATA_STORE_SECRET_FINALIZER: &str = "finalizer.steward.butlerlabs.dev/datastore-secret";
/// Keeps a `StewardControlPlane` in an external cluster until that is cleaned up.
pub const EXTERNAL_FINALIZER: &str = "ecr.steward.butlerlabs.dev/finalizer";

/// Port and container of the API server.
pub const API_SERVER: &str = "kube-apiserver";
/// Container of the controller manager.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// Container of the scheduler.
pub const SCHEDULER: &str = "kube-scheduler";
/// Port and container of the tunnel to nodes.
pub const KONNECTIVITY_SERVER: &str = "konnectivity-server";

/// An object that is made for a control plane, by what follows the control plane's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Secret: the cluster's certificate authority.
    Ca,
    /// Secret: the authority behind aggregated APIs.
    FrontProxyCa,
    /// Secret: keys of service-account tokens.
    ServiceAccount,
    /// Secret: what the API server shows its clients.
    ApiServerCertificate,
    /// Secret: what the API server shows kubelets.
    KubeletClientCertificate,
    /// Secret: what the API server shows aggregated API servers.
    FrontProxyClientCertificate,
    /// Secret: what the API server shows its store.
    DataStoreCertificate,
    /// Secret: how the store is reached.
    DataStoreConfig,
    /// Secret: kubeconfigs of administrators.
    AdminKubeconfig,
    /// Secret: kubeconfig of the controller manager.
    ControllerManagerKubeconfig,
    /// Secret: kubeconfig of the scheduler.
    SchedulerKubeconfig,
    /// Secret: certificate of the tunnel's server.
    KonnectivityCertificate,
    /// Secret: kubeconfig of the tunnel's server.
    KonnectivityKubeconfig,
    /// `ConfigMap`: how the API server reaches nodes through the tunnel.
    EgressSelector,
    /// `ConfigMap`: kubeadm's configuration.
    KubeadmConfig,
    /// `ConfigMap`: what the API server records.
    AuditPolicy,
    /// Secret: where the API server sends its records.
    AuditWebhook,
    /// `ConfigMap`: who may sign in.
    Authentication,
    /// Secret: keys that Steward made for encryption at rest.
    EncryptionKeys,
    /// Secret: which objects are encrypted, with which keys.
    EncryptionConfig,
}

impl Part {
    /// What follows the control plane's name, and the value of [`COMPONENT`].
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Ca => "ca",
            Self::FrontProxyCa => "front-proxy-ca-certificate",
            Self::ServiceAccount => "sa-certificate",
            Self::ApiServerCertificate => "api-server-certificate",
            Self::KubeletClientCertificate => "api-server-kubelet-client-certificate",
            Self::FrontProxyClientCertificate => "front-proxy-client-certificate",
            Self::DataStoreCertificate => "datastore-certificate",
            Self::DataStoreConfig => "datastore-config",
            Self::AdminKubeconfig => "admin-kubeconfig",
            Self::ControllerManagerKubeconfig => "controller-manager-kubeconfig",
            Self::SchedulerKubeconfig => "scheduler-kubeconfig",
            Self::KonnectivityCertificate => "konnectivity-certificate",
            Self::KonnectivityKubeconfig => "konnectivity-kubeconfig",
            Self::EgressSelector => "konnectivity-egress-selector-configuration",
            Self::KubeadmConfig => "kubeadmconfig",
            Self::AuditPolicy => "audit-policy",
            Self::AuditWebhook => "audit-webhook",
            Self::Authentication => "authentication",
            Self::EncryptionKeys => "encryption-keys",
            Self::EncryptionConfig => "encryption",
        }
    }

    /// The name of the object of this control plane.
    pub fn name(self, control_plane: &str) -> String {
        format!("{control_plane}-{}", self.suffix())
    }
}

/// The labels that select the pods of a control plane.
pub fn selector(control_plane: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(NAME.to_owned(), control_plane.to_owned())])
}

/// The labels of an object of a control plane.
pub fn labels(control_plane: &str, component: &str) -> BTreeMap<String, String> {
    let mut labels = selector(control_plane);
    labels.insert(PROJECT.to_owned(), STEWARD.to_owned());
    labels.insert(COMPONENT.to_owned(), component.to_owned());
    labels
}

/// Name of the Secret that a generator makes for a control plane.
pub fn generated_kubeconfig(control_plane: &str, generator: &str) -> String {
    format!("{control_plane}-{generator}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_tools_find_the_secrets_under_their_names() {
        assert_eq!(Part::Ca.name("prod"), "prod-ca");
        assert_eq!(Part::AdminKubeconfig.name("prod"), "prod-admin-kubeconfig");
        assert_eq!(Part::ServiceAccount.name("prod"), "prod-sa-certificate");
        assert_eq!(Part::KubeadmConfig.name("prod"), "prod-kubeadmconfig");
    }

    #[test]
    fn the_selector_is_the_one_of_deployments_that_are_adopted() {
        let selector = selector("prod");
        assert_eq!(selector.len(), 1);
        assert_eq!(selector["steward.butlerlabs.dev/name"], "prod");
    }
}
