//! Official releases over HTTP: the published checksum first, then the file, resumed where it was interrupted.
//!
//! A download is kept under its checksum until it is complete, so a resumed file can only be the same file, from
//! whichever place its rest comes.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, Response, StatusCode, Url, header};
use tokio::{io::AsyncWriteExt, sync::OnceCell};

use super::{mirror::without_credentials, with_causes};
use crate::{plan::Place, receipt::sha256};

/// A host that has not answered by then is taken for unreachable: most often a machine without Internet.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// A host that took the connection has this long to answer its first request.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// A transfer that stalls longer is broken off, and resumed.
const STALL_LIMIT: Duration = Duration::from_secs(30);
/// How many times in a row a transfer may bring nothing before the place is given up.
const FRUITLESS_LIMIT: u32 = 3;

/// Why a place did not deliver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    #[error("the address to download from has no host: check BUTLER_TOOLCHAIN_MIRROR")]
    Address,
    #[error("{host} cannot be reached ({reason})")]
    Unreachable { host: String, reason: String },
    #[error("{url} answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("could not download {url}")]
    Transfer {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("{url} has no SHA-256 of {file:?}")]
    NoChecksum { url: String, file: String },
    #[error("{url} was refused: its SHA-256 is {actual}, published is {expected}")]
    Checksum {
        url: String,
        expected: String,
        actual: String,
    },
    #[error("could not store the download in {path:?}")]
    Store {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Downloads into a folder. Remembers which hosts did not answer, and does not ask them again.
#[derive(Debug)]
pub(crate) struct Downloader {
    client: Result<Client, String>,
    folder: PathBuf,
    hosts: Mutex<HashMap<String, Arc<OnceCell<Option<String>>>>>,
}

/// Told about bytes done and, where known, bytes in all.
pub(crate) type Moved<'a> = &'a (dyn Fn(u64, Option<u64>) + Sync);

impl Downloader {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let client = Client::builder()
            .user_agent(concat!("butler-toolchain/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(STALL_LIMIT)
            .build()
            .map_err(|error| with_causes(&error));
        Self {
            client,
            folder,
            hosts: Mutex::default(),
        }
    }

    /// The complete file of `place`, whose content is what its checksum says.
    pub(crate) async fn fetch(
        &self,
        place: &Place,
        moved: Moved<'_>,
    ) -> Result<PathBuf, DownloadError> {
        let client = self.reach(&place.checksum_url).await?;
        let expected = checksum(client, place).await?;
        let client = self.reach(&place.url).await?;
        fs::create_dir_all(&self.folder).map_err(store(&self.folder))?;
        let complete = self.folder.join(&expected);
        if sha256(&complete).is_ok_and(|actual| actual == expected) {
            return Ok(complete);
        }
        let part = self.folder.join(format!("{expected}.part"));
        Transfer {
            client,
            url: &place.url,
            part: &part,
            moved,
        }
        .run(&expected)
        .await?;
        let actual = sha256(&part).map_err(store(&part))?;
        if actual != expected {
            fs::remove_file(&part).map_err(store(&part))?;
            return Err(DownloadError::Checksum {
                url: without_credentials(&place.url),
                expected,
                actual,
            });
        }
        fs::rename(&part, &complete).map_err(store(&complete))?;
        Ok(complete)
    }

    /// The client, if the host of `url` answers at all; asked once per host.
    async fn reach(&self, url: &str) -> Result<&Client, DownloadError> {
        let parsed = Url::parse(url).ok().filter(Url::has_host);
        let Some(host) = parsed.as_ref().map(host_and_port) else {
            return Err(DownloadError::Address);
        };
        let client = match &self.client {
            Ok(client) => client,
            Err(reason) => {
                return Err(DownloadError::Unreachable {
                    host,
                    reason: reason.clone(),
                });
            }
        };
        let known = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(hosts.entry(host.clone()).or_default())
        };
        let answer = known.get_or_init(|| async {
            let error = client.head(url).timeout(ANSWER_LIMIT).send().await.err()?;
            (error.is_connect() || error.is_timeout()).then(|| with_causes(&error.without_url()))
        });
        match answer.await {
            None => Ok(client),
            Some(reason) => Err(DownloadError::Unreachable {
                host,
                reason: reason.clone(),
            }),
        }
    }
}

/// How a host is told apart and shown; an address may hold a password besides.
fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn store(path: &Path) -> impl FnOnce(io::Error) -> DownloadError {
    let path = path.to_owned();
    move |source| DownloadError::Store { path, source }
}

async fn get(client: &Client, url: &str, from: u64) -> Result<Response, DownloadError> {
    let mut request = client.get(url);
    if from > 0 {
        request = request.header(header::RANGE, format!("bytes={from}-"));
    }
    request.send().await.map_err(transfer(url))
}

fn transfer(url: &str) -> impl FnOnce(reqwest::Error) -> DownloadError {
    let url = without_credentials(url);
    move |error| DownloadError::Transfer {
        url,
        source: error.without_url(),
    }
}

async fn checksum(client: &Client, place: &Place) -> Result<String, DownloadError> {
    let url = &place.checksum_url;
    let response = get(client, url, 0).await?;
    if response.status() != StatusCode::OK {
        return Err(DownloadError::Status {
            url: without_credentials(url),
            status: response.status(),
        });
    }
    let text = response.text().await.map_err(transfer(url))?;
    let file = place.url.rsplit('/').next().unwrap_or_default();
    parse_checksum(&text, file).ok_or_else(|| DownloadError::NoChecksum {
        url: without_credentials(url),
        file: file.to_owned(),
    })
}

/// Finds the checksum of `file`: in a list of checksums and names, or as the only word.
fn parse_checksum(text: &str, file: &str) -> Option<String> {
    let is_sum = |word: &str| word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let sum = lines.find_map(|words| match words.as_slice() {
        [sum] => Some(*sum),
        [sum, name] => {
            let name = name.trim_start_matches('*');
            (name.rsplit('/').next() == Some(file)).then_some(*sum)
        }
        _ => None,
    })?;
    is_sum(sum).then(|| sum.to_ascii_lowercase())
}

/// One file on its way.
struct Transfer<'a> {
    client: &'a Client,
    url: &'a str,
    part: &'a Path,
    moved: Moved<'a>,
}

impl Transfer<'_> {
    /// Brings all bytes into the part file, starting again where the connection broke.
    async fn run(&self, expected: &str) -> Result<(), DownloadError> {
        let mut fruitless = 0;
        loop {
            let before = self.have();
            match self.attempt(before, expected).await {
                Err(DownloadError::Transfer { .. }) if self.have() > before => fruitless = 0,
                Err(DownloadError::Transfer { url, source }) => {
                    fruitless += 1;
                    if fruitless >= FRUITLESS_LIMIT {
                        return Err(DownloadError::Transfer { url, source });
                    }
                }
                finished => return finished,
            }
        }
    }

    fn have(&self) -> u64 {
        fs::metadata(self.part).map_or(0, |metadata| metadata.len())
    }

    async fn attempt(&self, have: u64, expected: &str) -> Result<(), DownloadError> {
        let mut response = get(self.client, self.url, have).await?;
        if have > 0 && response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            // Nothing is left to send: complete already, or not this file.
            if sha256(self.part).is_ok_and(|actual| actual == expected) {
                return Ok(());
            }
            fs::remove_file(self.part).map_err(store(self.part))?;
            response = get(self.client, self.url, 0).await?;
        }
        let resumed = match response.status() {
            StatusCode::OK => false,
            StatusCode::PARTIAL_CONTENT if starts_at(&response, have) => true,
            status => {
                return Err(DownloadError::Status {
                    url: without_credentials(self.url),
                    status,
                });
            }
        };
        self.receive(response, if resumed { have } else { 0 }).await
    }

    async fn receive(&self, mut response: Response, mut done: u64) -> Result<(), DownloadError> {
        let all = response.content_length().map(|rest| done + rest);
        let file = fs::File::options()
            .create(true)
            .append(true)
            .open(self.part);
        let file = file.and_then(|file| file.set_len(done).map(|()| file));
        let mut file = tokio::fs::File::from_std(file.map_err(store(self.part))?);
        loop {
            let chunk = response.chunk().await.map_err(transfer(self.url));
            let Ok(Some(chunk)) = chunk else {
                file.flush().await.map_err(store(self.part))?;
                return chunk.map(drop);
            };
            file.write_all(&chunk).await.map_err(store(self.part))?;
            done += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            (self.moved)(done, all);
        }
    }
}

/// Whether a partial answer continues exactly where the part file ends.
fn starts_at(response: &Response, offset: u64) -> bool {
    let range = response
        .headers()
        .get(header::CONTENT_RANGE)
        .and_then(|it| it.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {offset}-")))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const ONE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const TWO: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn a_checksum_is_found_in_every_form_it_is_published_in() {
        let list = format!("{TWO}  other.tar.gz\n{ONE}  file.tar.gz\n");
        for text in [
            ONE.to_owned(),
            format!("{ONE}\n"),
            ONE.to_uppercase().replace('A', "a"),
            format!("{ONE}  file.tar.gz"),
            format!("{ONE} *file.tar.gz"),
            format!("{ONE}  _dist/file.tar.gz"),
            list,
        ] {
            assert_eq!(
                parse_checksum(&text, "file.tar.gz").as_deref(),
                Some(ONE),
                "{text}"
            );
        }
    }

    #[tokio::test]
    async fn an_unreachable_host_is_asked_only_once() {
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let downloader = Downloader::new(PathBuf::new());
        let url = format!("http://{address}/file");
        assert!(downloader.reach(&url).await.is_err());
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(downloader.reach(&url).await.is_err());
        assert!(listener.accept().is_err(), "nobody has called");
    }

    #[test]
    fn what_is_no_checksum_of_the_file_is_not_taken_for_one() {
        for text in [
            "",
            "<html>sign in</html>",
            "abc",
            &format!("{ONE}  other"),
            &format!("{ONE}0"),
        ] {
            assert_eq!(parse_checksum(text, "file"), None, "{text}");
        }
    }
}
