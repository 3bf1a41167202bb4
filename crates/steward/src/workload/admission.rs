//! Which admission plugins the API server is told to turn on.
//!
//! Names that a release no longer knows would keep it from starting, so they are left out; manifests are
//! older than releases.

use butler_api::types::KubeVersion;

use crate::spec::Flags;

/// Plugins by the minor release from which they are gone. All releases that are supported are newer than
/// the first entries; they are here because manifests still name them.
const RETIRED: [(&str, u16); 5] = [
    ("DenyEscalatingExec", 21),
    ("DenyExecOnPrivileged", 21),
    ("PodSecurityPolicy", 25),
    ("SecurityContextDeny", 30),
    ("PersistentVolumeLabel", 31),
];

/// Plugins by the minor release that knows them first.
const ADDED: [(&str, u16); 2] = [("MutatingAdmissionPolicy", 32), ("PodTopologyLabels", 33)];

/// A kubelet must not be able to edit other nodes; a list that forgets it does not mean that. Whoever does
/// says so with `--disable-admission-plugins`.
const ALWAYS: &str = "NodeRestriction";

/// The plugins to turn on, in order and once each.
///
/// What users turn off by a flag is left out: the API server refuses a plugin that is both.
pub fn plugins(wanted: &[String], flags: &Flags, version: KubeVersion) -> Vec<String> {
    let off = flags.items("disable-admission-plugins");
    let known = |name: &str| {
        let gone = RETIRED
            .iter()
            .any(|(old, minor)| *old == name && version.minor() >= *minor);
        let later = ADDED
            .iter()
            .any(|(new, minor)| *new == name && version.minor() < *minor);
        !gone && !later && !off.contains(name)
    };
    let all = wanted.iter().map(String::as_str).chain([ALWAYS]);
    let mut plugins: Vec<String> = all.filter(|name| known(name)).map(str::to_owned).collect();
    plugins.sort_unstable();
    plugins.dedup();
    plugins
}
