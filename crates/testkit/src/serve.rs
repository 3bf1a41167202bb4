//! Running a server until somebody says stop: what `make up` does.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::interval,
};

use crate::{Options, Server, server::Error};

/// Starts a server, tells that it is ready, and keeps it until `stop` resolves.
///
/// The admin's kubeconfig is copied to `kubeconfig`, if a path is given, and removed at the end. A server that dies
/// in between is an error.
pub async fn serve(
    options: Options,
    kubeconfig: Option<PathBuf>,
    ready: impl AsyncFnOnce(&Server),
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let server = Server::start(options).await?;
    let copy = kubeconfig
        .map(|path| Copy::make(&server.kubeconfig(), path))
        .transpose()?;
    let live = async {
        ready(&server).await;
        stop.await;
    };
    let result = tokio::select! {
        () = live => Ok(()),
        error = ended(&server) => Err(error),
    };
    drop(copy);
    result
}

/// Resolves at Ctrl-C or when the process is asked to end.
pub async fn stop_signal() -> Result<(), Error> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signal)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signal)?;
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// Resolves when a component has ended by itself.
async fn ended(server: &Server) -> Error {
    let mut look = interval(Duration::from_secs(1));
    loop {
        look.tick().await;
        if let Some(error) = server.failure() {
            return error;
        }
    }
}

/// A copy of the kubeconfig that goes with the server.
struct Copy(PathBuf);

impl Copy {
    fn make(from: &Path, to: PathBuf) -> Result<Self, Error> {
        let content = fs::read(from).map_err(Error::file("read", from))?;
        // Made with its final permissions before it has content: it opens everything.
        fs::write(&to, "").map_err(Error::file("create", &to))?;
        let owner_only = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&to, owner_only).map_err(Error::file("protect", &to))?;
        fs::write(&to, content).map_err(Error::file("write", &to))?;
        Ok(Self(to))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
