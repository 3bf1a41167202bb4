//! What every controller of addons works with: Helm, charts, and a bounded pool of steps.

pub(crate) mod catalogue;
pub(crate) mod schema;

use std::{io, path::PathBuf, sync::Arc};

use butler_helm::{charts::Charts, look::Kinds, pool::Pool, process::Helm};
use butler_runtime::clock::SharedClock;
use futures::Stream;

/// Steps of Helm for tenants at once: they wait for API servers for a third of their time (ADR 0029).
pub(crate) const WORKERS: usize = 3;

/// Where Helm is, and where it may write.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program.
    pub helm: PathBuf,
    /// A folder of our own: charts are kept there.
    pub folder: PathBuf,
    /// Beginnings of chart repositories' addresses, and what is asked in their place.
    pub mirrors: Vec<(String, String)>,
}

/// Reads a mirror as people write it: the beginning of an address, `=`, and what is asked in its place.
pub fn mirror(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if from.contains("://") && to.contains("://") => {
            Ok((from.to_owned(), to.to_owned()))
        }
        _ => {
            Err("two addresses are needed, such as https://a.example.com=oci://b.local".to_owned())
        }
    }
}

/// Why nothing can be asked of Helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// One word for programs.
    pub(crate) reason: &'static str,
    /// What is wrong and what to do.
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// Whom a step is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) uid: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// Shared by all passes.
pub(crate) struct Engine {
    pub(crate) helm: Helm,
    pub(crate) charts: Arc<Charts>,
    pub(crate) kinds: Kinds,
    pub(crate) pool: Pool<Key>,
}

impl Engine {
    /// The engine with so many steps at once, and a stream of those whose step ended.
    pub(crate) fn start(
        settings: &Settings,
        clock: SharedClock,
        workers: usize,
    ) -> io::Result<(Self, impl Stream<Item = Key> + Send + use<>)> {
        let helm = Helm::new(settings.helm.clone(), settings.folder.clone())?;
        let charts = Charts::new(helm.clone(), settings.mirrors.clone())?;
        let (pool, ended) = Pool::new(workers, clock);
        let engine = Self {
            helm,
            charts: Arc::new(charts),
            kinds: Kinds::default(),
            pool,
        };
        Ok((engine, ended))
    }
}
