//! Flags that users add to the components, and which of them they may not touch.
//!
//! The rules, the same for every component: Steward's flags come first, the user's follow in their order;
//! a flag that both give is the user's alone; a flag may be repeated. The flags in [`protected`] stay
//! Steward's, because with another value the control plane would not work or not be apart from others; the
//! error says where the value comes from.

use std::collections::BTreeSet;

use super::SpecError;

/// A component with flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// konnectivity-server.
    Konnectivity,
}

impl Component {
    /// The field with its flags.
    fn field(self) -> &'static str {
        match self {
            Self::ApiServer => "spec.controlPlane.deployment.extraArgs.apiServer",
            Self::ControllerManager => "spec.controlPlane.deployment.extraArgs.controllerManager",
            Self::Scheduler => "spec.controlPlane.deployment.extraArgs.scheduler",
            Self::Konnectivity => "spec.addons.konnectivity.server.extraArgs",
        }
    }
}

/// Which settings have fields of their own in this spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "four independent parts of a spec that are there or not"
)]
pub(super) struct Context {
    pub(super) audit: bool,
    pub(super) authentication: bool,
    pub(super) encryption: bool,
    pub(super) konnectivity: bool,
}

/// One flag as a user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    name: String,
    text: String,
}

impl Flag {
    /// The name without dashes in front, in the spelling that components compare by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The flag as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What follows the first equals sign.
    pub fn value(&self) -> Option<&str> {
        self.text.split_once('=').map(|(_, value)| value)
    }
}

/// Flags in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(Vec<Flag>);

impl<'a> IntoIterator for &'a Flags {
    type Item = &'a Flag;
    type IntoIter = std::slice::Iter<'a, Flag>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Flags {
    /// In their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Flag> {
        self.0.iter()
    }

    /// Whether a flag is among them.
    pub fn has(&self, name: &str) -> bool {
        self.iter().any(|flag| flag.name == name)
    }

    /// Every item of a flag whose value is a list.
    pub fn items(&self, name: &str) -> BTreeSet<&str> {
        let values = self
            .iter()
            .filter(|flag| flag.name == name)
            .filter_map(Flag::value);
        values
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect()
    }
}

const CERTIFICATES: &str = "certificates and keys are made by Steward";
const STORE: &str = "it follows spec.dataStore";
const SERVICE_RANGE: &str = "set spec.networkProfile.serviceCidr when the control plane is made";
const KUBECONFIGS: &str = "kubeconfigs are made by Steward";
const PROBED: &str = "the probes of the pod use this port";
const ELECTION: &str = "two pods run while a new version is rolled out, and only one may act";
const TUNNEL: &str = "it follows spec.addons.konnectivity";

const API_SERVER: [(&str, &str); 28] = [
    ("advertise-address", "set spec.networkProfile.address"),
    (
        "anonymous-auth",
        "the probes of the pod and kubeadm's discovery have no credentials",
    ),
    ("client-ca-file", CERTIFICATES),
    ("disable-http2-serving", "watches of many clients need it"),
    (
        "enable-admission-plugins",
        "set spec.kubernetes.admissionControllers",
    ),
    ("etcd-cafile", STORE),
    ("etcd-certfile", STORE),
    (
        "etcd-compaction-interval",
        "the store compacts itself; a tenant may not",
    ),
    ("etcd-keyfile", STORE),
    ("etcd-prefix", STORE),
    ("etcd-servers", STORE),
    ("etcd-servers-overrides", "set spec.dataStoreOverrides"),
    ("kubelet-client-certificate", CERTIFICATES),
    ("kubelet-client-key", CERTIFICATES),
    (
        "kubelet-preferred-address-types",
        "set spec.kubernetes.kubelet.preferredAddressTypes",
    ),
    ("permit-port-sharing", "one API server listens in a pod"),
    ("proxy-client-cert-file", CERTIFICATES),
    ("proxy-client-key-file", CERTIFICATES),
    ("requestheader-allowed-names", CERTIFICATES),
    ("requestheader-client-ca-file", CERTIFICATES),
    ("secure-port", "set spec.networkProfile.port"),
    ("service-account-signing-key-file", CERTIFICATES),
    ("service-cluster-ip-range", SERVICE_RANGE),
    (
        "shutdown-delay-duration",
        "pods are given time to end that fits this value",
    ),
    ("storage-backend", STORE),
    ("tls-cert-file", CERTIFICATES),
    ("tls-private-key-file", CERTIFICATES),
    ("cert-dir", CERTIFICATES),
];

const CONTROLLER_MANAGER: [(&str, &str); 14] = [
    ("authentication-kubeconfig", KUBECONFIGS),
    ("authorization-kubeconfig", KUBECONFIGS),
    ("client-ca-file", CERTIFICATES),
    (
        "cluster-cidr",
        "set spec.networkProfile.podCidr when the control plane is made",
    ),
    ("cluster-signing-cert-file", CERTIFICATES),
    ("cluster-signing-key-file", CERTIFICATES),
    ("kubeconfig", KUBECONFIGS),
    ("leader-elect", ELECTION),
    ("master", KUBECONFIGS),
    ("requestheader-client-ca-file", CERTIFICATES),
    ("root-ca-file", CERTIFICATES),
    ("secure-port", PROBED),
    ("service-account-private-key-file", CERTIFICATES),
    ("service-cluster-ip-range", SERVICE_RANGE),
];

const SCHEDULER: [(&str, &str); 8] = [
    ("authentication-kubeconfig", KUBECONFIGS),
    ("authorization-kubeconfig", KUBECONFIGS),
    ("client-ca-file", CERTIFICATES),
    ("kubeconfig", KUBECONFIGS),
    ("leader-elect", ELECTION),
    ("master", KUBECONFIGS),
    ("requestheader-client-ca-file", CERTIFICATES),
    ("secure-port", PROBED),
];

const KONNECTIVITY: [(&str, &str); 10] = [
    ("admin-port", TUNNEL),
    ("agent-port", "set spec.addons.konnectivity.server.port"),
    ("cluster-cert", CERTIFICATES),
    ("cluster-key", CERTIFICATES),
    ("health-port", PROBED),
    ("kubeconfig", KUBECONFIGS),
    ("mode", TUNNEL),
    ("server-count", "set spec.controlPlane.deployment.replicas"),
    ("server-port", TUNNEL),
    ("uds-name", TUNNEL),
];

/// Where the value of a flag comes from that users may not change.
fn protected(component: Component, name: &str, context: Context) -> Option<&'static str> {
    let list: &[(&str, &str)] = match component {
        Component::ApiServer => &API_SERVER,
        Component::ControllerManager => &CONTROLLER_MANAGER,
        Component::Scheduler => &SCHEDULER,
        Component::Konnectivity => &KONNECTIVITY,
    };
    let always = list
        .iter()
        .find(|(flag, _)| *flag == name)
        .map(|(_, advice)| *advice);
    always.or_else(|| protected_here(component, name, context))
}

/// Flags that are free as long as the field for the same thing is not used.
fn protected_here(component: Component, name: &str, context: Context) -> Option<&'static str> {
    if component != Component::ApiServer {
        return None;
    }
    match name {
        "audit-policy-file" | "audit-webhook-config-file" if context.audit => {
            Some("spec.kubernetes.audit is set; use one of the two")
        }
        "authentication-config" if context.authentication => {
            Some("spec.kubernetes.authentication is set; use one of the two")
        }
        _ if context.authentication && name.starts_with("oidc-") => {
            Some("spec.kubernetes.authentication is set; use one of the two")
        }
        "encryption-provider-config" if context.encryption => {
            Some("spec.kubernetes.encryption is set; use one of the two")
        }
        "egress-selector-config-file" if context.konnectivity => Some(TUNNEL),
        _ => None,
    }
}

/// Reads the flags of a component.
pub(super) fn flags(
    component: Component,
    raw: &[String],
    context: Context,
) -> Result<Flags, SpecError> {
    let read = |(index, text): (usize, &String)| {
        let field = format!("{}[{index}]", component.field());
        let flag = flag(text).ok_or_else(|| {
            let problem =
                format!("{text:?} is not a flag; write one with its value, such as --v=2");
            SpecError::invalid(field.as_str(), problem)
        })?;
        if let Some(advice) = protected(component, &flag.name, context) {
            let problem = format!("--{} cannot be set: {advice}", flag.name);
            return Err(SpecError::invalid(field, problem));
        }
        Ok(flag)
    };
    let flags = raw.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let flags = Flags(flags);
    check_authorization(component, &flags)?;
    Ok(flags)
}

/// Components accept underscores for dashes, so both are the same flag here.
fn flag(text: &str) -> Option<Flag> {
    let bare = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    let name = bare
        .split_once('=')
        .map_or(bare, |(name, _)| name)
        .replace('_', "-");
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let proper = !name.is_empty() && !name.starts_with('-') && name.bytes().all(inner);
    proper.then(|| Flag {
        name,
        text: text.to_owned(),
    })
}

/// Nodes are let in by `Node`, and everybody that Steward makes an account for by `RBAC`.
fn check_authorization(component: Component, flags: &Flags) -> Result<(), SpecError> {
    let name = "authorization-mode";
    if component != Component::ApiServer || !flags.has(name) {
        return Ok(());
    }
    let modes = flags.items(name);
    if modes.contains("Node") && modes.contains("RBAC") {
        return Ok(());
    }
    let problem =
        "--authorization-mode must have Node and RBAC among its values, such as Node,RBAC,Webhook";
    Err(SpecError::invalid(component.field(), problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(component: Component, texts: &[&str]) -> Result<Flags, SpecError> {
        let raw: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        flags(component, &raw, Context::default())
    }

    #[test]
    fn a_protected_flag_is_refused_in_every_spelling_and_the_field_is_named() {
        for text in [
            "--secure-port=7443",
            "--secure_port=7443",
            "-secure-port=7443",
            "--secure-port",
        ] {
            let error = read(Component::ApiServer, &["--v=2", text])
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("extraArgs.apiServer[1]")
                    && error.contains("set spec.networkProfile.port"),
                "{error}"
            );
        }
    }

    #[test]
    fn text_that_is_no_flag_is_refused() {
        for text in ["", "v=2", "--", "-", "---v", "--a b=c", "--=x"] {
            assert!(read(Component::Scheduler, &[text]).is_err(), "{text}");
        }
    }

    #[test]
    fn a_flag_may_be_repeated_and_keeps_its_text() {
        let flags = read(Component::ApiServer, &["--tls_sni=a=b", "--tls-sni=c"]).unwrap();
        let texts: Vec<&str> = flags.iter().map(Flag::text).collect();
        assert_eq!(texts, ["--tls_sni=a=b", "--tls-sni=c"]);
        assert_eq!(flags.iter().next().unwrap().name(), "tls-sni");
        assert_eq!(flags.iter().next().unwrap().value(), Some("a=b"));
    }

    #[test]
    fn a_flag_is_free_until_its_field_is_used() {
        let raw = ["--oidc-issuer-url=https://id.example.com".to_owned()];
        assert!(flags(Component::ApiServer, &raw, Context::default()).is_ok());
        let context = Context {
            authentication: true,
            ..Context::default()
        };
        assert!(flags(Component::ApiServer, &raw, context).is_err());
    }

    #[test]
    fn authorization_may_grow_but_not_lose_nodes_and_roles() {
        assert!(
            read(
                Component::ApiServer,
                &["--authorization-mode=Node,RBAC,Webhook"]
            )
            .is_ok()
        );
        assert!(read(Component::ApiServer, &["--authorization-mode=AlwaysAllow"]).is_err());
        assert!(read(Component::ApiServer, &["--authorization-config=/x.yaml"]).is_ok());
    }

    #[test]
    fn no_flag_is_listed_twice() {
        for list in [
            &API_SERVER[..],
            &CONTROLLER_MANAGER,
            &SCHEDULER,
            &KONNECTIVITY,
        ] {
            let names: BTreeSet<&str> = list.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), list.len());
        }
    }
}
