//! Locks between processes that share one cache folder.
//!
//! The kernel drops them with their holder, so a killed installer blocks nobody. Lock files are never removed: a
//! waiter would keep the lock of a file that another process no longer sees.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Semaphore, SemaphorePermit};

/// How many builds may run at the same time, over all processes.
const BUILDS: usize = 2;

/// A lock file could not be used.
#[derive(Debug, thiserror::Error)]
#[error("could not lock {path:?}")]
pub struct LockError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Holds a lock until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the lock called `name`; `waiting` is called first if somebody else holds it.
pub(crate) async fn acquire(
    folder: &Path,
    name: &str,
    waiting: impl FnOnce(),
) -> Result<Lock, LockError> {
    let path = folder.join(format!("{name}.lock"));
    if let Some(lock) = try_path(&path)? {
        return Ok(lock);
    }
    waiting();
    wait_for(path).await
}

/// The places for builds, as one process takes them.
#[derive(Debug)]
pub(crate) struct Builds {
    folder: PathBuf,
    /// Within a process builds take turns here: who waited at the file of one place would miss that another is free.
    turns: Semaphore,
    asked: AtomicUsize,
}

/// Holds a place for a build until it is dropped.
#[derive(Debug)]
pub(crate) struct BuildPlace<'a> {
    // Dropped before the turn, so that whoever has the next turn finds it free.
    _lock: Lock,
    _turn: Option<SemaphorePermit<'a>>,
}

impl Builds {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            turns: Semaphore::new(BUILDS),
            asked: AtomicUsize::new(0),
        }
    }

    /// Takes one of the places; `waiting` is called whenever others have to finish first.
    pub(crate) async fn take(&self, waiting: impl Fn()) -> Result<BuildPlace<'_>, LockError> {
        let turn = if let Ok(turn) = self.turns.try_acquire() {
            Some(turn)
        } else {
            waiting();
            // Fails only for a closed semaphore, and this one is never closed.
            self.turns.acquire().await.ok()
        };
        let place = |lock| BuildPlace {
            _lock: lock,
            _turn: turn,
        };
        for number in 0..BUILDS {
            if let Some(lock) = try_path(&build_path(&self.folder, number))? {
                return Ok(place(lock));
            }
        }
        waiting();
        // Another process has them: our waiters spread, so that each place that becomes free finds one.
        let number = self.asked.fetch_add(1, Ordering::Relaxed) % BUILDS;
        wait_for(build_path(&self.folder, number)).await.map(place)
    }
}

/// Takes every place for builds, or none if one is taken.
pub(crate) fn try_all_builds(folder: &Path) -> Result<Option<Vec<Lock>>, LockError> {
    (0..BUILDS)
        .map(|number| try_path(&build_path(folder, number)))
        .collect()
}

fn build_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("build-{number}.lock"))
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

fn try_path(path: &Path) -> Result<Option<Lock>, LockError> {
    let failed = |source| LockError {
        path: path.to_owned(),
        source,
    };
    let file = open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

async fn wait_for(path: PathBuf) -> Result<Lock, LockError> {
    let shown = path.clone();
    let locked = tokio::task::spawn_blocking(move || {
        let file = open(&path)?;
        file.lock()?;
        Ok(file)
    })
    .await
    .unwrap_or_else(|ended| Err(io::Error::other(ended)));
    match locked {
        Ok(file) => Ok(Lock { _file: file }),
        Err(source) => Err(LockError {
            path: shown,
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_had_by_one_and_then_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let first = acquire(folder.path(), "etcd", || panic!("nobody holds it"))
            .await
            .unwrap();
        let mut waited = false;
        let second = acquire(folder.path(), "etcd", || {
            waited = true;
            drop(first);
        });
        second.await.unwrap();
        assert!(waited);
    }

    #[tokio::test]
    async fn two_builds_run_and_the_third_takes_whichever_place_is_free_first() {
        let folder = tempfile::tempdir().unwrap();
        let builds = Builds::new(folder.path().to_owned());
        for freed in 0..2 {
            let free = || panic!("a place is free");
            let mut held = vec![
                builds.take(free).await.unwrap(),
                builds.take(free).await.unwrap(),
            ];
            assert!(try_all_builds(folder.path()).unwrap().is_none());
            let third = builds.take(|| {});
            let (third, ()) = tokio::join!(third, async { drop(held.remove(freed)) });
            drop(third.unwrap());
        }
        assert_eq!(
            try_all_builds(folder.path()).unwrap().map(|it| it.len()),
            Some(2)
        );
    }

    #[tokio::test]
    async fn builds_of_another_process_count_too() {
        let folder = tempfile::tempdir().unwrap();
        let other = Builds::new(folder.path().to_owned());
        let held = [
            other.take(|| {}).await.unwrap(),
            other.take(|| {}).await.unwrap(),
        ];
        let builds = Builds::new(folder.path().to_owned());
        let held = std::cell::Cell::new(Some(held));
        builds.take(|| drop(held.take())).await.unwrap();
        assert!(held.take().is_none(), "it had to wait");
    }
}
