//! Carries out what [`crate::plan`] decides, for several components at once.
//!
//! One installer per component works at a time, over all processes; whoever comes second finds the work done.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::join_all;

use crate::{
    cache::{Cache, CacheError, Held},
    lock::{self, Builds, LockError},
    manifest::{Artifact, Component, Kind},
    plan::{Fact, Facts, Offer, Place, Step, next_step},
    progress::{Event, Progress},
    receipt::{Depth, Origin, Receipt},
    settings::Settings,
    source::{
        archive,
        download::Downloader,
        gobuild::Go,
        mirror::{mirrored, without_credentials},
        path::{self, reports},
        with_causes,
    },
};

/// Why an artifact could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// No source could deliver it.
    #[error("could not install {item}; tried: {}", reasons.join("; "))]
    NoSource {
        /// The artifact.
        item: String,
        /// Why each source could not.
        reasons: Vec<String>,
    },
    /// The cache folder could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Another installer could not be waited for.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Artifacts to install, of one component.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) component: &'a Component,
    pub(crate) artifacts: Vec<&'a Artifact>,
}

/// One run of installing.
pub(crate) struct Installer<'a> {
    settings: &'a Settings,
    cache: &'a Cache,
    progress: &'a dyn Progress,
    downloader: Downloader,
    builds: Builds,
    /// Reasons already told: one unreachable host concerns many artifacts.
    told: Mutex<HashSet<String>>,
}

/// A file ready to be put in place.
struct Delivery {
    staged: PathBuf,
    origin: Origin,
}

impl<'a> Installer<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        cache: &'a Cache,
        progress: &'a dyn Progress,
    ) -> Self {
        let downloader = Downloader::new(cache.build_folder().join("downloads"));
        Self {
            settings,
            cache,
            progress,
            downloader,
            builds: Builds::new(cache.lock_folder()),
            told: Mutex::default(),
        }
    }

    /// Installs everything that is wanted; one failure does not stop the others.
    pub(crate) async fn run(&self, wanted: &[Wanted<'_>]) -> Vec<InstallError> {
        let components = wanted.iter().map(|it| self.component(it));
        join_all(components).await.into_iter().flatten().collect()
    }

    async fn component(&self, wanted: &Wanted<'_>) -> Vec<InstallError> {
        let Wanted {
            component,
            artifacts,
        } = wanted;
        let name = format!("{}@{}", component.name, component.version);
        let waiting = || {
            self.progress.tell(&Event::Waiting {
                item: &name,
                reason: "another installer",
            });
        };
        let lock = match lock::acquire(&self.cache.lock_folder(), &name, waiting).await {
            Ok(lock) => lock,
            Err(error) => return vec![error.into()],
        };
        let mut downloads = Vec::new();
        let mut errors = Vec::new();
        for artifact in artifacts {
            if let Err(error) = self.artifact(component, artifact, &mut downloads).await {
                self.progress.tell(&Event::Failed {
                    item: &component.label(artifact),
                });
                errors.push(error);
            }
        }
        for file in downloads {
            // Only room is lost if it stays, and pruning takes it.
            let _ = fs::remove_file(file);
        }
        drop(lock);
        errors
    }

    async fn artifact(
        &self,
        component: &Component,
        artifact: &Artifact,
        downloads: &mut Vec<PathBuf>,
    ) -> Result<(), InstallError> {
        let item = component.label(artifact);
        let mut facts = self.first_facts(component, artifact);
        let stage = self.cache.stage(component)?;
        loop {
            let step = next_step(&facts);
            let delivered = match &step {
                Step::Keep => return Ok(()),
                Step::SearchPath => {
                    facts.on_path = self.search_path(component, artifact).await;
                    continue;
                }
                Step::FindGo => {
                    facts.go = self.find_go();
                    continue;
                }
                Step::GiveUp(reasons) => {
                    return Err(InstallError::NoSource {
                        item,
                        reasons: reasons.clone(),
                    });
                }
                Step::Link(program) => link(program, stage.path(), artifact),
                Step::Download(place) => {
                    self.download(component, artifact, place, stage.path(), downloads)
                        .await
                }
                Step::Build(go) => self.build(component, artifact, go, stage.path()).await,
            };
            match delivered {
                Ok(Delivery { staged, origin }) => {
                    let receipt = self.cache.commit(component, artifact, &staged, origin)?;
                    self.tell_installed(&item, &receipt);
                    return Ok(());
                }
                Err(reason) => {
                    self.tell_fell_through(&item, &reason);
                    note_failure(&mut facts, &step, reason);
                }
            }
        }
    }

    fn tell_installed(&self, item: &str, receipt: &Receipt) {
        let origin = receipt.origin.to_string();
        self.progress.tell(&Event::Installed {
            item,
            origin: &origin,
            size: receipt.size(),
        });
    }

    fn tell_fell_through(&self, item: &str, reason: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(reason.to_owned()) {
            self.progress.tell(&Event::FellThrough { item, reason });
        }
    }

    fn first_facts(&self, component: &Component, artifact: &Artifact) -> Facts {
        let held = self.cache.check(component, artifact, Depth::Quick);
        if let Held::Untrusted(reason) = &held {
            let item = component.label(artifact);
            self.progress.tell(&Event::FellThrough {
                item: &item,
                reason,
            });
        }
        let is_binary = matches!(artifact.kind, Kind::Binary { .. });
        let download = component.download.as_ref().filter(|_| is_binary);
        let official = download.map(|download| Place {
            url: component.expand(&download.url, artifact),
            checksum_url: component.expand(&download.checksum, artifact),
        });
        let mirror = self.settings.mirror.as_deref();
        let mirrored = mirror
            .zip(official.as_ref())
            .and_then(|(mirror, place)| mirrored(mirror, place));
        Facts {
            cached: matches!(held, Held::Trusted(_)),
            on_path: Fact::Unknown,
            offers: mirrored
                .into_iter()
                .chain(official)
                .map(|place| Offer {
                    place,
                    failed: None,
                })
                .collect(),
            go: Fact::Unknown,
            build_failed: None,
        }
    }

    async fn search_path(&self, component: &Component, artifact: &Artifact) -> Fact<PathBuf> {
        let name = &artifact.name;
        let Kind::Binary {
            report: Some(report),
            ..
        } = &artifact.kind
        else {
            return Fact::Absent(format!("{name} cannot be asked for its version"));
        };
        let folders = &self.settings.search_path;
        path::find(folders, self.cache.root(), name, report, component.version).await
    }

    fn find_go(&self) -> Fact<PathBuf> {
        match path::first(&self.settings.search_path, "go") {
            Some(go) => Fact::Present(go),
            None => Fact::Absent("there is no go on PATH to build it with".to_owned()),
        }
    }

    async fn download(
        &self,
        component: &Component,
        artifact: &Artifact,
        place: &Place,
        stage: &Path,
        downloads: &mut Vec<PathBuf>,
    ) -> Result<Delivery, String> {
        let item = component.label(artifact);
        let member = component
            .download
            .as_ref()
            .and_then(|it| it.member.as_deref());
        let started = AtomicBool::new(false);
        let moved = |done, all| {
            if !started.swap(true, Ordering::Relaxed) {
                self.progress.tell(&Event::Started {
                    item: &item,
                    action: "downloading",
                });
            }
            let bytes = Some((done, all));
            self.progress.tell(&Event::Moved {
                item: &item,
                bytes,
                detail: "downloaded",
            });
        };
        let file = self
            .downloader
            .fetch(place, &moved)
            .await
            .map_err(|it| with_causes(&it))?;
        let staged = stage.join(&artifact.name);
        match member {
            Some(member) => archive::extract(&file, &component.expand(member, artifact), &staged)
                .map_err(|error| with_causes(&error))?,
            None => drop(fs::copy(&file, &staged).map_err(|it| it.to_string())?),
        }
        if !downloads.contains(&file) {
            downloads.push(file);
        }
        make_executable(&staged).map_err(|error| error.to_string())?;
        check_report(component, artifact, &staged).await?;
        Ok(Delivery {
            staged,
            origin: Origin::Download {
                url: without_credentials(&place.url),
            },
        })
    }

    async fn build(
        &self,
        component: &Component,
        artifact: &Artifact,
        go: &Path,
        stage: &Path,
    ) -> Result<Delivery, String> {
        let item = component.label(artifact);
        let waiting = || {
            self.progress.tell(&Event::Waiting {
                item: &item,
                reason: "other builds",
            });
        };
        let place = self
            .builds
            .take(waiting)
            .await
            .map_err(|it| with_causes(&it))?;
        let build_folder = self.cache.build_folder();
        let settings = self.settings.go_settings.as_deref();
        let go = Go {
            command: go,
            build_folder: &build_folder,
            settings,
            stage,
            component,
        };
        let staged = stage.join(&artifact.name);
        let moved = |detail: &str| {
            self.progress.tell(&Event::Moved {
                item: &item,
                bytes: None,
                detail,
            });
        };
        let origin = match &artifact.kind {
            Kind::Binary { package, .. } => {
                self.progress.tell(&Event::Started {
                    item: &item,
                    action: "building",
                });
                go.build(artifact, package, &staged, &moved)
                    .await
                    .map_err(|it| with_causes(&it))?;
                check_report(component, artifact, &staged).await?;
                Origin::GoBuild {
                    package: package.clone(),
                }
            }
            Kind::Tree { module, paths } => {
                self.progress.tell(&Event::Started {
                    item: &item,
                    action: "fetching",
                });
                go.take(module, paths, &staged, &moved)
                    .await
                    .map_err(|it| with_causes(&it))?;
                Origin::GoModule {
                    module: module.clone(),
                }
            }
        };
        drop(place);
        Ok(Delivery { staged, origin })
    }
}

/// What a source's failure teaches.
fn note_failure(facts: &mut Facts, step: &Step, reason: String) {
    match step {
        Step::Link(_) => facts.on_path = Fact::Absent(reason),
        Step::Download(place) => {
            if let Some(offer) = facts.offers.iter_mut().find(|offer| offer.place == *place) {
                offer.failed = Some(reason);
            }
        }
        Step::Build(_) => facts.build_failed = Some(reason),
        Step::Keep | Step::SearchPath | Step::FindGo | Step::GiveUp(_) => {}
    }
}

fn link(program: &Path, stage: &Path, artifact: &Artifact) -> Result<Delivery, String> {
    let staged = stage.join(&artifact.name);
    symlink(program, &staged)
        .map_err(|error| format!("{} cannot be linked: {error}", program.display()))?;
    Ok(Delivery {
        staged,
        origin: Origin::Path {
            path: program.to_owned(),
        },
    })
}

fn make_executable(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

/// Makes sure that a new binary starts on this machine and is what was asked for.
async fn check_report(
    component: &Component,
    artifact: &Artifact,
    staged: &Path,
) -> Result<(), String> {
    match &artifact.kind {
        Kind::Binary {
            report: Some(report),
            ..
        } => reports(staged, report, component.version)
            .await
            .map_err(|reason| format!("what was delivered {reason}")),
        Kind::Binary { report: None, .. } | Kind::Tree { .. } => Ok(()),
    }
}
