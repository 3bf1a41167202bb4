//! Charts, kept by the digest of their archive.
//!
//! An archive is written aside and renamed, and named after what it is, so that two who fetch the same, or one who is
//! killed, never leave half of it. What stands for a version is a small file with a digest, written the same way.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_addons::{
    failure::{self, Class},
    request::{ChartRef, hex},
};
use butler_runtime::sync::lock;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    StepError,
    process::{Call, Helm},
};

/// How long fetching a chart may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// How a mirror is written that is a registry without TLS. What it stands for may well have TLS, so it is the mirror that
/// says so.
const PLAIN_REGISTRY: &str = "oci+http://";
/// The authority of a repository, in the folder of a call.
const AUTHORITY: &str = "authority.pem";

/// How a repository is spoken to.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// The authority that signed its certificate, in PEM.
    pub authority: Option<Vec<u8>>,
    /// Without TLS.
    pub plain_http: bool,
}

/// The charts on this machine.
pub struct Charts {
    helm: Helm,
    /// Beginnings of addresses, and what to put in their place.
    mirrors: Vec<(String, String)>,
    fetching: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

impl Charts {
    /// Charts below Helm's folder. An address that begins with the first of a pair is asked at the second.
    pub fn new(helm: Helm, mirrors: Vec<(String, String)>) -> io::Result<Self> {
        fs::create_dir_all(helm.folder().join("charts"))?;
        fs::create_dir_all(helm.folder().join("versions"))?;
        Ok(Self {
            helm,
            mirrors,
            fetching: Mutex::default(),
        })
    }

    /// The archive of a chart, fetched if it is not here.
    pub async fn get(&self, chart: &ChartRef, access: &Access) -> Result<PathBuf, StepError> {
        let version = self.version_file(chart, access);
        if let Some(path) = self.held(chart, &version) {
            return Ok(path);
        }
        let turn = Arc::clone(lock(&self.fetching).entry(version.clone()).or_default());
        let _turn = turn.lock().await;
        // Somebody may have fetched it meanwhile.
        let fetched = match self.held(chart, &version) {
            Some(path) => Ok(path),
            None => self.fetch(chart, access).await,
        };
        lock(&self.fetching).remove(&version);
        fetched
    }

    fn held(&self, chart: &ChartRef, version: &Path) -> Option<PathBuf> {
        let digest = fs::read_to_string(version).ok()?;
        let wanted = chart.digest.as_ref();
        let path = self.archive(&digest);
        let fits = wanted.is_none_or(|wanted| *wanted == format!("sha256:{digest}"));
        (fits && path.exists()).then_some(path)
    }

    fn archive(&self, digest: &str) -> PathBuf {
        self.helm
            .folder()
            .join("charts")
            .join(format!("{digest}.tgz"))
    }

    /// Who comes with other credentials, or with none, has to show them to the repository once: a chart that one team
    /// may read must not be had by another that knows its name or its digest.
    fn version_file(&self, chart: &ChartRef, access: &Access) -> PathBuf {
        let Access {
            credentials,
            authority,
            plain_http,
        } = access;
        let name = json!([
            chart.repository,
            chart.name,
            chart.version,
            credentials,
            authority,
            plain_http,
        ]);
        let name = hex(&Sha256::digest(name.to_string().as_bytes()), 32);
        self.helm.folder().join("versions").join(name)
    }

    async fn fetch(&self, chart: &ChartRef, access: &Access) -> Result<PathBuf, StepError> {
        let scratch = self
            .helm
            .scratch()
            .map_err(StepError::broken("make a folder"))?;
        let folder = scratch.path();
        let (repository, plain_http) = mirrored(&self.mirrors, &chart.repository);
        if let Some(pem) = &access.authority {
            let kept = fs::write(folder.join(AUTHORITY), pem);
            kept.map_err(StepError::broken("keep the authority"))?;
        }
        if repository.starts_with("oci://") {
            let plain_http = plain_http || access.plain_http;
            let access = Access {
                plain_http,
                ..access.clone()
            };
            self.pull_oci(chart, &repository, &access, folder).await?;
        } else {
            self.pull_http(chart, &repository, access, folder).await?;
        }
        let content = only_archive(folder).map_err(StepError::broken("read the chart"))?;
        let content = content.ok_or_else(|| {
            let message = format!("the repository gave no archive for chart {chart}");
            StepError::new(Class::ChartNotFound, message)
        })?;
        self.keep(chart, access, &content)
    }

    fn keep(
        &self,
        chart: &ChartRef,
        access: &Access,
        content: &[u8],
    ) -> Result<PathBuf, StepError> {
        let digest = hex(&Sha256::digest(content), 32);
        if let Some(wanted) = &chart.digest
            && *wanted != format!("sha256:{digest}")
        {
            let message = format!("chart {chart} has digest sha256:{digest}, not {wanted}");
            return Err(StepError::new(Class::WrongDigest, message));
        }
        let path = self.archive(&digest);
        put(&path, content).map_err(StepError::broken("keep the chart"))?;
        put(&self.version_file(chart, access), digest.as_bytes())
            .map_err(StepError::broken("keep the chart"))?;
        Ok(path)
    }

    async fn pull_oci(
        &self,
        chart: &ChartRef,
        repository: &str,
        access: &Access,
        folder: &Path,
    ) -> Result<(), StepError> {
        let repository = repository.trim_end_matches('/');
        let mut call = Call::new(["pull"]);
        call.arg(format!("{repository}/{}", chart.name));
        let mut auths = json!({});
        if let Some((user, password)) = &access.credentials {
            let host = repository.trim_start_matches("oci://");
            let host = host.split('/').next().unwrap_or_default();
            let auth = STANDARD.encode(format!("{user}:{password}"));
            auths = json!({ host: {"auth": auth} });
        }
        let config = json!({ "auths": auths }).to_string();
        let config = self.helm.private_file(config.as_bytes());
        let config = config.map_err(StepError::broken("keep credentials"))?;
        call.environment
            .push(("HELM_REGISTRY_CONFIG", config.path().to_owned()));
        if access.plain_http {
            call.arg("--plain-http");
        }
        self.pull(call, chart, access, folder).await
    }

    async fn pull_http(
        &self,
        chart: &ChartRef,
        repository: &str,
        access: &Access,
        folder: &Path,
    ) -> Result<(), StepError> {
        let (user, password) = access.credentials.clone().unwrap_or_default();
        let authority = access.authority.as_ref().map(|_| folder.join(AUTHORITY));
        let entry = json!({
            "name": "repository", "url": repository,
            "username": user, "password": password, "caFile": authority.unwrap_or_default(),
        });
        // JSON is YAML.
        let config = json!({"apiVersion": "v1", "repositories": [entry]}).to_string();
        let config = self.helm.private_file(config.as_bytes());
        let config = config.map_err(StepError::broken("keep credentials"))?;
        let places = [
            ("HELM_REPOSITORY_CONFIG", config.path().to_owned()),
            ("HELM_REPOSITORY_CACHE", folder.join("index")),
        ];
        let mut update = Call::new(["repo", "update"]);
        update.environment.extend(places.clone());
        update.secrets = secrets(access);
        update.prints_reasons = true;
        self.helm
            .run(update, PATIENCE, failure::of_fetching)
            .await?;
        let mut call = Call::new(["pull"]);
        call.arg(format!("repository/{}", chart.name));
        call.environment.extend(places);
        self.pull(call, chart, access, folder).await
    }

    async fn pull(
        &self,
        mut call: Call,
        chart: &ChartRef,
        access: &Access,
        folder: &Path,
    ) -> Result<(), StepError> {
        call.arg("--version").arg(&chart.version);
        call.arg("--destination").arg(folder);
        if access.authority.is_some() {
            call.arg("--ca-file").arg(folder.join(AUTHORITY));
        }
        call.secrets = secrets(access);
        let pulled = self.helm.run(call, PATIENCE, failure::of_fetching).await;
        pulled.map_err(|error| StepError {
            message: format!("could not fetch chart {chart}: {}", error.message),
            ..error
        })
    }
}

/// Where a repository is asked, and whether that is a registry without TLS.
fn mirrored(mirrors: &[(String, String)], repository: &str) -> (String, bool) {
    let found = mirrors.iter().find_map(|(from, to)| {
        let rest = repository.strip_prefix(from.as_str())?;
        Some(format!("{to}{rest}"))
    });
    let asked = found.unwrap_or_else(|| repository.to_owned());
    match asked.strip_prefix(PLAIN_REGISTRY) {
        Some(rest) => (format!("oci://{rest}"), true),
        None => (asked, false),
    }
}

fn secrets(access: &Access) -> Vec<String> {
    let credentials = access.credentials.iter();
    credentials
        .flat_map(|(user, password)| {
            let both = STANDARD.encode(format!("{user}:{password}"));
            [password.clone(), both]
        })
        .collect()
}

/// The one archive in a folder.
fn only_archive(folder: &Path) -> io::Result<Option<Vec<u8>>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tgz") {
            return fs::read(path).map(Some);
        }
    }
    Ok(None)
}

/// Writes aside and renames.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut aside = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut aside, content)?;
    aside.as_file().sync_all()?;
    aside.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mirror_that_fits_is_asked_and_may_be_a_registry_without_tls() {
        let mirrors = [
            ("oci://10.0.0.1:5000", "oci+http://10.0.0.1:5000"),
            ("https://", "oci+http://10.0.0.1:5000/charts/"),
            ("oci://", "oci://mirror.local/"),
        ];
        let mirrors = mirrors.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let ask = |repository: &str| mirrored(&mirrors, repository);
        let plain = |address: &str| (address.to_owned(), true);
        assert_eq!(
            ask("https://a.example.com/stable"),
            plain("oci://10.0.0.1:5000/charts/a.example.com/stable")
        );
        assert_eq!(
            ask("oci://10.0.0.1:5000/own"),
            plain("oci://10.0.0.1:5000/own")
        );
        let with_tls = ("oci://mirror.local/b.example.com".to_owned(), false);
        assert_eq!(ask("oci://b.example.com"), with_tls);
        let unknown = ("http://c.example.com".to_owned(), false);
        assert_eq!(ask("http://c.example.com"), unknown);
    }
}
