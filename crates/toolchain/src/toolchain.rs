//! The one thing other crates use: makes components available and says where they are.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    cache::{Cache, CacheError, Held},
    install::{InstallError, Installer, Wanted},
    lock::{self, LockError},
    manifest::{Artifact, Component, Kind},
    progress::Progress,
    receipt::{Depth, Receipt},
    selection::{Name, Selection},
    settings::{NoCacheFolder, Settings},
    source::with_causes,
    status::{ArtifactStatus, Installed, InstalledArtifact, State},
    version::Version,
};

/// Why the toolchain could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no place for the cache folder.
    #[error(transparent)]
    NoCacheFolder(#[from] NoCacheFolder),
    /// Nothing of that name is pinned.
    #[error("{name} is not pinned in toolchain/versions.toml; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Everything there is.
        known: String,
    },
    /// It is pinned, but not there.
    #[error("{item} is not installed ({reason}): run `cargo xtask toolchain install {item}`")]
    NotInstalled {
        /// The artifact.
        item: String,
        /// What was found instead.
        reason: String,
    },
    /// Some artifacts could not be installed.
    #[error("{}", .0.iter().map(|it| with_causes(it)).collect::<Vec<_>>().join("\n"))]
    Install(Vec<InstallError>),
    /// The installation could not be started at all.
    #[error("could not start the installation")]
    Start(#[source] io::Error),
    /// The cache folder could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A lock could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Pruning would break a build.
    #[error("a build is running: prune when it has ended")]
    Building,
    /// The build folder could not be removed.
    #[error("could not remove {path:?}")]
    Prune {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The pinned components in a cache folder of the user.
#[derive(Clone, Debug)]
pub struct Toolchain {
    settings: Settings,
    cache: Cache,
}

impl Toolchain {
    /// The toolchain of this user, as the environment says.
    pub fn locate() -> Result<Self, Error> {
        Ok(Self::with_settings(Settings::from_env()?))
    }

    /// A toolchain in Butler's cache folder `cache_dir`, otherwise as the environment says.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self::with_settings(Settings::in_folder(cache_dir.into()))
    }

    /// A toolchain that depends on nothing but `settings`.
    pub fn with_settings(settings: Settings) -> Self {
        let cache = Cache::new(settings.cache_dir.join("toolchain"));
        Self { settings, cache }
    }

    /// The folder everything is in.
    pub fn folder(&self) -> &Path {
        self.cache.root()
    }

    /// Makes sure that everything selected is installed, and says where it is.
    ///
    /// Quick when it is. Otherwise it takes as long as downloads and builds take, blocks the calling thread
    /// meanwhile, and can be killed and started again at any time. It may be called from asynchronous code.
    pub fn ensure(
        &self,
        selection: &Selection,
        progress: &dyn Progress,
    ) -> Result<Installed, Error> {
        let selected = self.select(selection)?;
        let missing: Vec<_> = selected
            .iter()
            .filter_map(|wanted| self.missing(wanted))
            .collect();
        if !missing.is_empty() {
            self.install(&missing, progress)?;
        }
        let mut artifacts = Vec::new();
        for Wanted {
            component,
            artifacts: wanted,
        } in &selected
        {
            for artifact in wanted {
                artifacts.push(self.installed(component, artifact)?);
            }
        }
        Ok(Installed { artifacts })
    }

    /// The path of an installed program; without a version, of the first pinned one.
    pub fn binary(&self, name: &str, version: Option<Version>) -> Result<PathBuf, Error> {
        let found = self.settings.manifest.find(name, version);
        let found = found.filter(|(_, artifact)| matches!(artifact.kind, Kind::Binary { .. }));
        let (component, artifact) = found.ok_or_else(|| {
            self.unknown(&match version {
                Some(version) => format!("{name}@{version}"),
                None => name.to_owned(),
            })
        })?;
        Ok(self.installed(component, artifact)?.path)
    }

    /// The folder with `config` and `bootstrap/kubeadm/config` of Cluster API.
    pub fn cluster_api_manifests(&self) -> Result<PathBuf, Error> {
        let name = "cluster-api-manifests";
        let found = self.settings.manifest.find(name, None);
        let (component, artifact) = found.ok_or_else(|| self.unknown(name))?;
        Ok(self.installed(component, artifact)?.path)
    }

    /// The folder of an installed component's Helm chart, such as `cilium`.
    pub fn chart(&self, component: &str) -> Result<PathBuf, Error> {
        self.tree(&format!("{component}-chart"))
    }

    /// The folder of an installed component's custom resource definitions, such as `helm-controller`.
    pub fn definitions(&self, component: &str) -> Result<PathBuf, Error> {
        self.tree(&format!("{component}-definitions"))
    }

    /// The folder of a tree that was taken from one place.
    fn tree(&self, name: &str) -> Result<PathBuf, Error> {
        let found = self.settings.manifest.find(name, None);
        let (component, artifact) = found.ok_or_else(|| self.unknown(name))?;
        let folder = self.installed(component, artifact)?.path;
        // A tree keeps the places that its files have in the Go module.
        Ok(match &artifact.kind {
            Kind::Tree { paths, .. } => paths.iter().fold(folder, |below, path| below.join(path)),
            Kind::Binary { .. } => folder,
        })
    }

    /// What there is of every pinned artifact, by a quick look.
    pub fn status(&self) -> Vec<ArtifactStatus> {
        self.look(Depth::Quick)
    }

    /// What there is of every pinned artifact, by reading all of it. What has changed is no longer trusted afterwards.
    pub fn verify(&self) -> Result<Vec<ArtifactStatus>, Error> {
        let looked = self.look(Depth::Full);
        for status in &looked {
            if let State::Untrusted(_) = status.state
                && let Some((component, artifact)) = self
                    .settings
                    .manifest
                    .find(&status.name, Some(status.version))
            {
                self.cache.distrust(component, artifact)?;
            }
        }
        Ok(looked)
    }

    /// The folder with what makes the next build faster.
    pub fn build_folder(&self) -> PathBuf {
        self.cache.build_folder()
    }

    /// Removes what only building needs; what is installed stays.
    pub fn prune(&self) -> Result<(), Error> {
        let Some(_locks) = lock::try_all_builds(&self.cache.lock_folder())? else {
            return Err(Error::Building);
        };
        let path = self.cache.build_folder();
        match std::fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Prune { path, source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn look(&self, depth: Depth) -> Vec<ArtifactStatus> {
        let components = self.settings.manifest.components().iter();
        let pairs =
            components.flat_map(|it| it.artifacts.iter().map(move |artifact| (it, artifact)));
        pairs
            .map(|(component, artifact)| ArtifactStatus {
                component: component.name.clone(),
                version: component.version,
                name: artifact.name.clone(),
                group: artifact.group,
                state: match self.cache.check(component, artifact, depth) {
                    Held::Missing => State::Missing,
                    Held::Untrusted(reason) => State::Untrusted(reason),
                    Held::Trusted(receipt) => {
                        State::Installed(self.describe(component, artifact, receipt))
                    }
                },
            })
            .collect()
    }

    fn select(&self, selection: &Selection) -> Result<Vec<Wanted<'_>>, Error> {
        if let Selection::Named(names) = selection {
            let known = |name: &Name| {
                let mut components = self.settings.manifest.components().iter();
                components.any(|it| it.artifacts.iter().any(|artifact| name.means(it, artifact)))
            };
            if let Some(Name { name, version }) = names.iter().find(|name| !known(name)) {
                let version = version.map(|it| format!("@{it}")).unwrap_or_default();
                return Err(self.unknown(&format!("{name}{version}")));
            }
        }
        let selected = |component: &Component, artifact: &Artifact| match selection {
            Selection::All => true,
            Selection::Group(group) => artifact.group == *group,
            Selection::Named(names) => names.iter().any(|name| name.means(component, artifact)),
        };
        let components = self.settings.manifest.components().iter();
        Ok(components
            .map(|component| Wanted {
                artifacts: component
                    .artifacts
                    .iter()
                    .filter(|it| selected(component, it))
                    .collect(),
                component,
            })
            .filter(|wanted| !wanted.artifacts.is_empty())
            .collect())
    }

    fn missing<'a>(&self, wanted: &Wanted<'a>) -> Option<Wanted<'a>> {
        let component = wanted.component;
        let is_missing = |artifact: &&Artifact| {
            !matches!(
                self.cache.check(component, artifact, Depth::Quick),
                Held::Trusted(_)
            )
        };
        let artifacts: Vec<_> = wanted
            .artifacts
            .iter()
            .copied()
            .filter(is_missing)
            .collect();
        (!artifacts.is_empty()).then_some(Wanted {
            component,
            artifacts,
        })
    }

    /// Runs the installer on a thread of its own, so that callers may or may not be asynchronous themselves.
    fn install(&self, missing: &[Wanted<'_>], progress: &dyn Progress) -> Result<(), Error> {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(Error::Start)?;
            let installer = Installer::new(&self.settings, &self.cache, progress);
            Ok::<_, Error>(runtime.block_on(installer.run(missing)))
        };
        let joined = std::thread::scope(|scope| scope.spawn(run).join());
        let errors = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Error::Install(errors))
        }
    }

    fn installed(
        &self,
        component: &Component,
        artifact: &Artifact,
    ) -> Result<InstalledArtifact, Error> {
        let reason = match self.cache.check(component, artifact, Depth::Quick) {
            Held::Trusted(receipt) => {
                return Ok(self.describe(component, artifact, receipt));
            }
            Held::Missing => "it is missing".to_owned(),
            Held::Untrusted(reason) => reason,
        };
        Err(Error::NotInstalled {
            item: component.label(artifact),
            reason,
        })
    }

    fn describe(
        &self,
        component: &Component,
        artifact: &Artifact,
        receipt: Receipt,
    ) -> InstalledArtifact {
        InstalledArtifact {
            component: component.name.clone(),
            version: component.version,
            name: artifact.name.clone(),
            path: self.cache.path(component, artifact),
            size: receipt.size(),
            origin: receipt.origin,
        }
    }

    fn unknown(&self, name: &str) -> Error {
        let components = self.settings.manifest.components().iter();
        let known: Vec<_> = components
            .flat_map(|it| it.artifacts.iter().map(move |artifact| it.label(artifact)))
            .collect();
        Error::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
        }
    }
}
