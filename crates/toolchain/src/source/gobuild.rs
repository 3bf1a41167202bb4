//! Builds programs with `go` from the embedded modules, and takes files out of Go modules.
//!
//! All that Go keeps (sources, objects, temporary files, telemetry) stays below the cache folder. Where Go fetches
//! sources from is the user's choice: their GOPROXY, GOFLAGS, GOSUMDB and settings file are left as they are.

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{ChildStderr, Command},
};

use crate::{
    manifest::{Artifact, Component},
    receipt::files_below,
};

/// How many lines of Go's messages an error repeats.
const TAIL: usize = 15;
/// How often it is told that a build goes on.
const BEAT: Duration = Duration::from_secs(1);

/// Why Go did not deliver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GoError {
    #[error("could not prepare {path:?} for go")]
    Prepare {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not run {go:?}")]
    Run {
        go: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("go {action} ended with {status}: {tail}")]
    Failed {
        action: String,
        status: ExitStatus,
        tail: String,
    },
    #[error("go did not say where it put module {module}")]
    NoFolder { module: String },
    #[error("could not copy {path:?} out of the Go module")]
    Copy {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Told which package is at work.
pub(crate) type Moved<'a> = &'a (dyn Fn(&str) + Sync);

/// Runs `go` for one component.
#[derive(Debug)]
pub(crate) struct Go<'a> {
    /// The command.
    pub(crate) command: &'a Path,
    /// Where Go keeps what makes the next build faster.
    pub(crate) build_folder: &'a Path,
    /// Go's settings file of the user.
    pub(crate) settings: Option<&'a Path>,
    /// A folder of our own for this run, removed afterwards.
    pub(crate) stage: &'a Path,
    pub(crate) component: &'a Component,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    dir: PathBuf,
}

impl Go<'_> {
    /// Builds `package` into the file `target`.
    pub(crate) async fn build(
        &self,
        artifact: &Artifact,
        package: &str,
        target: &Path,
        moved: Moved<'_>,
    ) -> Result<(), GoError> {
        let stamps = self
            .component
            .ldflags
            .iter()
            .map(|it| self.component.expand(it, artifact));
        let ldflags: Vec<_> = ["-s -w".to_owned()].into_iter().chain(stamps).collect();
        let module = self.prepare_module()?;
        let mut command = self.start(&module);
        command
            .args([
                "build",
                "-mod=readonly",
                "-modcacherw",
                "-trimpath",
                "-buildvcs=false",
                "-v",
            ])
            .arg("-ldflags")
            .arg(ldflags.join(" "))
            .arg("-o")
            .arg(target)
            .arg(package);
        self.run(command, &format!("build {package}"), moved)
            .await
            .map(drop)
    }

    /// Copies `paths` of the Go module `source` into the folder `target`.
    pub(crate) async fn take(
        &self,
        source: &str,
        paths: &[String],
        target: &Path,
        moved: Moved<'_>,
    ) -> Result<(), GoError> {
        let module = self.prepare_module()?;
        let mut command = self.start(&module);
        // No version: the embedded go.mod has it, and go.sum the checksum of what comes.
        command.args(["mod", "download", "-modcacherw", "-json", source]);
        let output = self
            .run(command, &format!("mod download {source}"), moved)
            .await?;
        let downloaded: Downloaded =
            serde_json::from_slice(&output).map_err(|_| GoError::NoFolder {
                module: source.to_owned(),
            })?;
        for path in paths {
            copy_tree(&downloaded.dir.join(path), &target.join(path))?;
        }
        Ok(())
    }

    fn prepare_module(&self) -> Result<PathBuf, GoError> {
        let folder = self.stage.join("module");
        let module = &self.component.module;
        let failed = |source| GoError::Prepare {
            path: folder.clone(),
            source,
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        for (name, text) in [
            ("go.mod", &module.go_mod),
            ("go.sum", &module.go_sum),
            ("tools.go", &module.tools_go),
        ] {
            fs::write(folder.join(name), text.as_bytes()).map_err(failed)?;
        }
        for path in [self.temporary(), self.build_folder.to_owned()] {
            fs::create_dir_all(&path).map_err(|source| GoError::Prepare { path, source })?;
        }
        Ok(folder)
    }

    fn temporary(&self) -> PathBuf {
        self.stage.join("tmp")
    }

    fn start(&self, module: &Path) -> Command {
        let below = |name: &str| self.build_folder.join(name);
        let mut command = Command::new(self.command);
        command
            .current_dir(module)
            .env("PWD", module)
            .env("GOPATH", below("gopath"))
            .env("GOMODCACHE", below("mod"))
            .env("GOCACHE", below("cache"))
            .env("GOTMPDIR", self.temporary())
            .env("TMPDIR", self.temporary())
            // Telemetry counters go below this folder; the settings file is named apart, so that it still counts.
            .env("XDG_CONFIG_HOME", below("config"))
            .env("GOWORK", "off")
            .env_remove("GOOS")
            .env_remove("GOARCH")
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(settings) = self.settings {
            command.env("GOENV", settings);
        }
        command
    }

    /// Runs the command to its end and returns what it wrote to standard output.
    async fn run(
        &self,
        mut command: Command,
        action: &str,
        moved: Moved<'_>,
    ) -> Result<Vec<u8>, GoError> {
        let failed = |source| GoError::Run {
            go: self.command.to_owned(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(mut stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(io::Error::other("its output cannot be read")));
        };
        let mut output = Vec::new();
        let (tail, read) = tokio::join!(follow(stderr, moved), stdout.read_to_end(&mut output));
        read.map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        if status.success() {
            Ok(output)
        } else {
            let action = action.to_owned();
            Err(GoError::Failed {
                action,
                status,
                tail: tail.make_contiguous_text(),
            })
        }
    }
}

/// The last lines Go wrote.
#[derive(Debug, Default)]
struct Tail(VecDeque<String>);

impl Tail {
    fn make_contiguous_text(self) -> String {
        Vec::from(self.0).join("\n")
    }
}

/// Reads messages until the end, and tells the newest one at least once every [`BEAT`].
async fn follow(stderr: ChildStderr, moved: Moved<'_>) -> Tail {
    let mut lines = BufReader::new(stderr).lines();
    let mut beat = tokio::time::interval(BEAT);
    let mut tail = Tail::default();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                // A line that is no text does not end a build that goes well.
                let Ok(Some(line)) = line else { return tail };
                moved(&line);
                tail.0.push_back(line);
                if tail.0.len() > TAIL {
                    tail.0.pop_front();
                }
            }
            _ = beat.tick() => moved(tail.0.back().map_or("linking", String::as_str)),
        }
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), GoError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| GoError::Copy { path, source }
    };
    for file in files_below(from).map_err(failed(from))? {
        let (source, target) = (from.join(&file), to.join(&file));
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(failed(folder))?;
        }
        // Only the content: files in Go's module cache may be read-only, ours must stay removable.
        fs::read(&source)
            .and_then(|content| fs::write(&target, content))
            .map_err(failed(&source))?;
    }
    Ok(())
}
