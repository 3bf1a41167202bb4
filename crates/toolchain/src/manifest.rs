//! The pins: which components there are, at which versions, what each consists of and where it may come from.
//!
//! Text in, values out. Below this module nobody reads TOML, and nothing here looks at the machine.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::{
    modules::{self, GoModule},
    version::{InvalidVersion, Version},
};

/// The pins of this release of Butler.
const VERSIONS: &str = include_str!("../../../toolchain/versions.toml");

/// Why a file of pins cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is no valid TOML, or has unknown or missing fields.
    #[error("could not read the list of pinned versions")]
    Syntax(#[source] Box<toml::de::Error>),
    /// A component's version is not of the form v1.2.3.
    #[error("component {component:?} has an invalid version")]
    Version {
        /// The component.
        component: String,
        /// What is wrong with it.
        #[source]
        source: InvalidVersion,
    },
    /// A component names a Go module that is not there.
    #[error("component {component:?} is built from Go module {module:?}, which does not exist")]
    UnknownModule {
        /// The component.
        component: String,
        /// The module it names.
        module: String,
    },
    /// A name cannot be that of a file.
    #[error("{0:?} cannot be used as a file name")]
    Name(String),
    /// The same artifact is listed twice for one version.
    #[error("{name:?} is listed twice for {component} {version}")]
    Twice {
        /// The artifact.
        name: String,
        /// The component.
        component: String,
        /// The component's version.
        version: Version,
    },
}

/// When a component is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Needed by `make test`.
    Test,
    /// Needed only by the local platform.
    #[default]
    Platform,
}

/// Where the official release of a component is published. All texts may hold placeholders.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Download {
    /// The file.
    pub url: String,
    /// The file that holds its SHA-256.
    pub checksum: String,
    /// The binary's path inside, where the file is a compressed archive; else the file is the binary.
    pub member: Option<String>,
}

/// What an artifact is and how it is made from source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A program.
    Binary {
        /// The Go package of its `main`.
        package: String,
        /// Arguments that make it print its version, if it can.
        report: Option<Vec<String>>,
    },
    /// Files taken out of a Go module as they are.
    Tree {
        /// The path of that Go module.
        module: String,
        /// The folders taken, which keep their place.
        paths: Vec<String>,
    },
}

/// One thing to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its name, which is also that of its file or folder.
    pub name: String,
    /// When it is needed.
    pub group: Group,
    /// What it is.
    pub kind: Kind,
}

/// One release of one upstream project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The project.
    pub name: String,
    /// The release.
    pub version: Version,
    /// The Go module it is built from.
    pub module: GoModule,
    /// What the linker is told.
    pub ldflags: Vec<String>,
    /// The official release, where one with checksums exists.
    pub download: Option<Download>,
    /// What it consists of.
    pub artifacts: Vec<Artifact>,
}

/// All pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    components: Vec<Component>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    component: Vec<RawComponent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawComponent {
    name: String,
    version: String,
    module: String,
    #[serde(default)]
    ldflags: Vec<String>,
    download: Option<Download>,
    #[serde(default)]
    binaries: Vec<RawBinary>,
    #[serde(default)]
    trees: Vec<RawTree>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBinary {
    name: String,
    #[serde(default)]
    group: Group,
    package: String,
    report: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTree {
    name: String,
    #[serde(default)]
    group: Group,
    module: String,
    paths: Vec<String>,
}

impl Manifest {
    /// The pins compiled into this program.
    pub fn builtin() -> Self {
        Self::parse(VERSIONS, &modules::embedded()).expect("a test reads the embedded pins")
    }

    /// Reads pins, whose components are built from `modules`.
    pub fn parse(text: &str, modules: &[GoModule]) -> Result<Self, ManifestError> {
        let raw: RawManifest =
            toml::from_str(text).map_err(|source| ManifestError::Syntax(Box::new(source)))?;
        let components = raw
            .component
            .into_iter()
            .map(|component| component.validate(modules))
            .collect::<Result<Vec<_>, _>>()?;
        let mut seen = BTreeSet::new();
        for component in &components {
            for artifact in &component.artifacts {
                // The version belongs to the key: two releases of one project share their binaries' names.
                if !seen.insert((&component.name, component.version, &artifact.name)) {
                    return Err(ManifestError::Twice {
                        name: artifact.name.clone(),
                        component: component.name.clone(),
                        version: component.version,
                    });
                }
            }
        }
        Ok(Self { components })
    }

    /// Every component, in the order of the file.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The first component that has an artifact of this name and, if given, this version.
    pub fn find(&self, name: &str, version: Option<Version>) -> Option<(&Component, &Artifact)> {
        self.components
            .iter()
            .filter(|component| version.is_none_or(|wanted| wanted == component.version))
            .find_map(|component| {
                let artifact = component.artifacts.iter().find(|it| it.name == name)?;
                Some((component, artifact))
            })
    }
}

impl RawComponent {
    fn validate(self, modules: &[GoModule]) -> Result<Component, ManifestError> {
        let Self {
            name,
            version,
            module,
            ldflags,
            download,
            binaries,
            trees,
        } = self;
        let version = version.parse().map_err(|source| ManifestError::Version {
            component: name.clone(),
            source,
        })?;
        let Some(module) = modules
            .iter()
            .find(|it| it.name == module.as_str())
            .cloned()
        else {
            return Err(ManifestError::UnknownModule {
                component: name,
                module,
            });
        };
        let binaries = binaries.into_iter().map(
            |RawBinary {
                 name,
                 group,
                 package,
                 report,
             }| {
                Artifact {
                    name,
                    group,
                    kind: Kind::Binary { package, report },
                }
            },
        );
        let trees = trees.into_iter().map(
            |RawTree {
                 name,
                 group,
                 module,
                 paths,
             }| Artifact {
                name,
                group,
                kind: Kind::Tree { module, paths },
            },
        );
        let artifacts: Vec<_> = binaries.chain(trees).collect();
        for used in std::iter::once(&name).chain(artifacts.iter().map(|it| &it.name)) {
            if !is_file_name(used) {
                return Err(ManifestError::Name(used.clone()));
            }
        }
        Ok(Component {
            name,
            version,
            module,
            ldflags,
            download,
            artifacts,
        })
    }
}

/// Names become folders below the cache: none may climb out of it or hide in it.
fn is_file_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

impl Component {
    /// Fills the placeholders of a text of this component for one of its artifacts.
    pub fn expand(&self, template: &str, artifact: &Artifact) -> String {
        template
            .replace("{version}", &self.version.to_string())
            .replace("{number}", &self.version.number())
            .replace("{major}", &self.version.major().to_string())
            .replace("{minor}", &self.version.minor().to_string())
            .replace("{arch}", go_arch())
            .replace("{binary}", &artifact.name)
    }

    /// How people are told of one of its artifacts, and how they may ask for it: `kubectl@v1.35.4`.
    pub fn label(&self, artifact: &Artifact) -> String {
        format!("{}@{}", artifact.name, self.version)
    }
}

/// This machine's architecture as Go and the release files spell it.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module() -> GoModule {
        GoModule {
            name: "m".into(),
            go_mod: "".into(),
            go_sum: "".into(),
            tools_go: "".into(),
        }
    }

    #[test]
    fn the_embedded_pins_can_be_read() {
        let manifest = Manifest::builtin();
        let test_group: Vec<_> = manifest
            .components()
            .iter()
            .flat_map(|component| &component.artifacts)
            .filter(|artifact| artifact.group == Group::Test)
            .map(|artifact| artifact.name.as_str())
            .collect();
        assert_eq!(
            test_group,
            [
                "kube-apiserver",
                "kube-controller-manager",
                "kubectl",
                "kube-scheduler",
                "kubelet",
                "kubeadm",
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "etcd",
                "cluster-api-manager",
                "clusterctl",
                "cluster-api-manifests",
                "helm",
                "registry",
                "containerd",
                "containerd-shim-runc-v2",
                "ctr",
                "metrics-server-chart",
                "local-path-provisioner-chart",
                "cilium-chart",
                "cert-manager-chart",
                "proxy-server",
                "proxy-agent"
            ]
        );
    }

    #[test]
    fn every_go_module_pins_the_version_of_its_component() {
        for component in Manifest::builtin().components() {
            for artifact in &component.artifacts {
                let source = match &artifact.kind {
                    Kind::Binary { package, .. } => package,
                    Kind::Tree { module, .. } => module,
                };
                let pinned = component.module.go_mod.lines().any(|line| {
                    let mut words = line.trim().trim_start_matches("require ").split(' ');
                    let path = words.next().unwrap_or_default();
                    !path.is_empty()
                        && source.starts_with(path)
                        && words.next() == Some(&component.version.to_string())
                });
                assert!(
                    pinned,
                    "go.mod of {} does not pin {}",
                    component.module.name,
                    component.label(artifact)
                );
            }
        }
    }

    #[test]
    fn every_command_that_is_built_is_named_in_its_module() {
        for component in Manifest::builtin().components() {
            for artifact in &component.artifacts {
                if let Kind::Binary { package, .. } = &artifact.kind {
                    assert!(
                        component
                            .module
                            .tools_go
                            .contains(&format!("_ \"{package}\"")),
                        "{package}"
                    );
                }
            }
        }
    }

    #[test]
    fn without_a_version_the_first_listed_release_is_found() {
        let manifest = Manifest::builtin();
        let (newest, _) = manifest.find("kubelet", None).unwrap();
        assert_eq!(newest.version.to_string(), "v1.35.4");
        let (older, _) = manifest.find("kubelet", "v1.34.4".parse().ok()).unwrap();
        assert_eq!(older.version.to_string(), "v1.34.4");
        assert!(manifest.find("kubelet", "v1.2.3".parse().ok()).is_none());
        assert!(manifest.find("minesweeper", None).is_none());
    }

    #[test]
    fn placeholders_are_filled() {
        let manifest = Manifest::builtin();
        let (component, etcd) = manifest.find("etcd", None).unwrap();
        assert_eq!(
            component.expand("{binary}-{version}-{number}-{major}-{minor}", etcd),
            "etcd-v3.6.16-3.6.16-3-6"
        );
    }

    #[test]
    fn bad_pins_are_refused_with_the_reason() {
        for (text, reason) in [
            ("nonsense", "could not read"),
            (
                "[[component]]\nname='a'\nversion='1'\nmodule='m'",
                "invalid version",
            ),
            (
                "[[component]]\nname='a'\nversion='v1.2.3'\nmodule='other'",
                "\"other\", which does not exist",
            ),
            (
                "[[component]]\nname='../a'\nversion='v1.2.3'\nmodule='m'",
                "file name",
            ),
            (
                "[[component]]\nname='a'\nversion='v1.2.3'\nmodule='m'\nbinaries=[{name='.b',package='p'}]",
                "file name",
            ),
            (
                "[[component]]\nname='a'\nversion='v1.2.3'\nmodule='m'\n\
                 binaries=[{name='b',package='p'},{name='b',package='q'}]",
                "listed twice",
            ),
            (
                "[[component]]\nname='a'\nversion='v1.2.3'\nmodule='m'\ntypo=1",
                "could not read",
            ),
        ] {
            let error = Manifest::parse(text, &[module()]).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
