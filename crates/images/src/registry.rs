//! A registry over its HTTP API: what it has, and sending what it has not.

use std::{path::Path, time::Duration};

use http::{StatusCode, header};
use reqwest::{Body, Certificate, Client, RequestBuilder, Response, Url};
use thiserror::Error;
use tokio_util::io::ReaderStream;

use crate::{
    layout::{self, Descriptor, Entry, Layout, MANIFEST},
    reference::Reference,
};

/// A registry that does not take the connection by then is taken for unreachable.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A transfer that stalls longer is broken off.
const STALL_LIMIT: Duration = Duration::from_mins(1);

/// Why a registry did not do what was asked.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// Its address is none.
    #[error(
        "{address:?} is not the address of a registry: write http://HOST:PORT or https://HOST, and a path to put everything below it"
    )]
    Address {
        /// What was given.
        address: String,
    },
    /// The certificate that should be trusted cannot be used.
    #[error("could not use the certificate authority")]
    Authority(#[source] reqwest::Error),
    /// It could not be asked.
    #[error("could not {action} at {url}")]
    Request {
        /// What was tried.
        action: &'static str,
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// It said no.
    #[error("{url} did not {action}: {status} {said}")]
    Refused {
        /// What was tried.
        action: &'static str,
        /// Where.
        url: String,
        /// How it answered.
        status: StatusCode,
        /// The start of what it said.
        said: String,
    },
    /// Something of the image could not be read.
    #[error("could not read {name} from the layout")]
    Image {
        /// The image.
        name: Reference,
        /// Why.
        #[source]
        source: Box<layout::Error>,
    },
    /// A part of an image could not be opened.
    #[error("could not read part {digest} of an image; run the command again to make it anew")]
    Blob {
        /// The part.
        digest: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl RegistryError {
    /// Whether the registry found that content differs from its digest: then the layout is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Refused { said, .. } if said.contains("DIGEST_INVALID"))
    }
}

/// A registry.
#[derive(Clone, Debug)]
pub struct Registry {
    client: Client,
    base: Url,
    login: Option<(String, String)>,
}

impl Registry {
    /// The registry at an address such as `http://10.40.0.254:5000` or `https://registry.example.com/mirror`.
    pub fn new(address: &str, authority: Option<&[u8]>) -> Result<Self, RegistryError> {
        let refused = || RegistryError::Address {
            address: address.to_owned(),
        };
        let base = Url::parse(address).map_err(|_| refused())?;
        if !base.has_host() || !["http", "https"].contains(&base.scheme()) {
            return Err(refused());
        }
        let mut client = Client::builder()
            .user_agent(concat!("butler/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(STALL_LIMIT)
            // Addresses of the platform are never to be asked for elsewhere.
            .no_proxy();
        if let Some(pem) = authority {
            let authority = Certificate::from_pem(pem).map_err(RegistryError::Authority)?;
            client = client.add_root_certificate(authority);
        }
        Ok(Self {
            client: client.build().map_err(RegistryError::Authority)?,
            base,
            login: None,
        })
    }

    /// Signs in with a name and a password.
    #[must_use]
    pub fn with_login(mut self, name: String, password: String) -> Self {
        self.login = Some((name, password));
        self
    }

    /// Whether it answers at all.
    pub async fn is_there(&self) -> Result<(), RegistryError> {
        let url = self.url("v2/");
        let answer = self.send("answer", self.client.get(url)).await?;
        expect("answer", answer, &[StatusCode::OK]).await.map(drop)
    }

    /// The digest of an image it has.
    pub async fn digest(&self, name: &Reference) -> Result<Option<String>, RegistryError> {
        let action = "look for an image";
        let url = self.manifest_url(name);
        let request = self.client.head(url).header(header::ACCEPT, MANIFEST);
        let answer = self.send(action, request).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let answer = expect(action, answer, &[StatusCode::OK]).await?;
        let digest = answer.headers().get("docker-content-digest");
        Ok(digest.and_then(|it| it.to_str().ok()).map(str::to_owned))
    }

    /// Sends an image unless it is there already; says whether it was sent.
    pub async fn push(&self, layout: &Layout, entry: &Entry) -> Result<bool, RegistryError> {
        let name = &entry.name;
        if self.digest(name).await?.as_deref() == Some(&entry.digest) {
            return Ok(false);
        }
        let unreadable = |source| RegistryError::Image {
            name: name.clone(),
            source: Box::new(source),
        };
        let manifest = layout.manifest(&entry.digest).map_err(unreadable)?;
        // The manifest last: whoever sees it finds everything it names.
        for part in manifest.layers.iter().chain([&manifest.config]) {
            self.push_blob(layout, name, part).await?;
        }
        let action = "take a manifest";
        let text = read(layout.blob(&entry.digest).as_path(), &entry.digest).await?;
        let request = self
            .client
            .put(self.manifest_url(name))
            .header(header::CONTENT_TYPE, MANIFEST)
            .body(text);
        let answer = self.send(action, request).await?;
        expect(action, answer, &[StatusCode::CREATED, StatusCode::OK]).await?;
        Ok(true)
    }

    async fn push_blob(
        &self,
        layout: &Layout,
        name: &Reference,
        part: &Descriptor,
    ) -> Result<(), RegistryError> {
        let repository = name.repository();
        let looked = self.url(&format!("v2/{repository}/blobs/{}", part.digest));
        let answer = self
            .send("look for a part", self.client.head(looked))
            .await?;
        if answer.status() == StatusCode::OK {
            return Ok(());
        }
        let action = "begin an upload";
        let begin = self.url(&format!("v2/{repository}/blobs/uploads/"));
        let request = self.client.post(begin.clone());
        let request = request.header(header::CONTENT_LENGTH, 0);
        let answer = self.send(action, request).await?;
        let answer = expect(action, answer, &[StatusCode::ACCEPTED]).await?;
        let place = answer.headers().get(header::LOCATION);
        let place = place.and_then(|it| it.to_str().ok()).unwrap_or_default();
        // It may be relative to where we asked.
        let mut place = begin.join(place).map_err(|_| RegistryError::Refused {
            action: "say where to upload",
            url: begin.to_string(),
            status: answer.status(),
            said: place.to_owned(),
        })?;
        place.query_pairs_mut().append_pair("digest", &part.digest);
        let path = layout.blob(&part.digest);
        let file = tokio::fs::File::open(&path)
            .await
            .map_err(unreadable(&part.digest))?;
        let action = "take a part of an image";
        let request = self
            .client
            .put(place)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_LENGTH, part.size)
            .body(Body::wrap_stream(ReaderStream::with_capacity(
                file,
                1 << 18,
            )));
        let answer = self.send(action, request).await?;
        expect(action, answer, &[StatusCode::CREATED])
            .await
            .map(drop)
    }

    fn manifest_url(&self, name: &Reference) -> Url {
        self.url(&format!(
            "v2/{}/manifests/{}",
            name.repository(),
            name.tag()
        ))
    }

    /// A path of the API. The path of a registry's address is a prefix of every repository's name.
    fn url(&self, path: &str) -> Url {
        let prefix = self.base.path().trim_matches('/');
        let path = match path.strip_prefix("v2/") {
            Some(rest) if !prefix.is_empty() && !rest.is_empty() => format!("/v2/{prefix}/{rest}"),
            _ => format!("/{path}"),
        };
        let mut url = self.base.clone();
        url.set_path(&path);
        url
    }

    async fn send(
        &self,
        action: &'static str,
        request: RequestBuilder,
    ) -> Result<Response, RegistryError> {
        let request = match &self.login {
            Some((name, password)) => request.basic_auth(name, Some(password)),
            None => request,
        };
        request
            .send()
            .await
            .map_err(|source| RegistryError::Request {
                action,
                url: source.url().unwrap_or(&self.base).to_string(),
                source: source.without_url(),
            })
    }
}

async fn expect(
    action: &'static str,
    answer: Response,
    good: &[StatusCode],
) -> Result<Response, RegistryError> {
    let status = answer.status();
    if good.contains(&status) {
        return Ok(answer);
    }
    let url = answer.url().to_string();
    let said = answer.text().await.unwrap_or_default();
    Err(RegistryError::Refused {
        action,
        url,
        status,
        said: said.chars().take(300).collect(),
    })
}

async fn read(path: &Path, digest: &str) -> Result<Vec<u8>, RegistryError> {
    tokio::fs::read(path).await.map_err(unreadable(digest))
}

fn unreadable(digest: &str) -> impl FnOnce(std::io::Error) -> RegistryError {
    let digest = digest.to_owned();
    move |source| RegistryError::Blob { digest, source }
}
