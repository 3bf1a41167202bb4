//! A real etcd as tenants share it: TLS on both sides, and users that are kept apart.
//!
//! It ends with the value that holds it, and with the process. It knows etcd's own users; what tenants are is the
//! business of tests.

use std::{fs, net::TcpListener, path::Path, time::Duration};

use butler_toolchain::Toolchain;
use http::Request;
use k8s_openapi::ByteString;
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::{
    Error, User,
    guardian::Guardian,
    host::Access,
    pki::{self, Pair},
};

const ETCD: &str = "etcd";
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a starting etcd is asked; nothing can be watched before it answers.
const INTERVAL: Duration = Duration::from_millis(10);

/// An etcd on a port of 127.0.0.1 that accepts only clients with a certificate of its authority.
#[derive(Debug)]
pub struct TlsEtcd {
    guardian: Guardian,
    authority: Pair,
    port: u16,
    arguments: Vec<String>,
}

impl TlsEtcd {
    /// Starts an etcd that keeps its users apart; `root`, by certificate, may do everything.
    ///
    /// # Errors
    /// When etcd is not in the tool cache or does not start.
    pub async fn start() -> Result<Self, Error> {
        let etcd = Self::start_open().await?;
        etcd.enable_auth().await?;
        Ok(etcd)
    }

    /// Starts an etcd that lets everyone with a certificate do everything.
    ///
    /// # Errors
    /// When etcd is not in the tool cache or does not start.
    pub async fn start_open() -> Result<Self, Error> {
        let mut tries_left = 3;
        loop {
            tries_left -= 1;
            let authority = pki::authority().map_err(Error::certificate("authority"))?;
            match Self::attempt(authority).await {
                // Most likely somebody took the port between our look and its use.
                Err(Error::Ended { .. }) if tries_left > 0 => {}
                result => return result,
            }
        }
    }

    /// Starts another etcd that keeps its users apart, with the authority of this one.
    ///
    /// # Errors
    /// When etcd is not in the tool cache or does not start.
    pub async fn start_beside(&self) -> Result<Self, Error> {
        let etcd = Self::attempt(self.authority.clone()).await?;
        etcd.enable_auth().await?;
        Ok(etcd)
    }

    /// The address, as `host:port`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Certificate and key of the authority that signed the server's certificate and must sign clients'.
    pub fn authority(&self) -> (&str, &str) {
        (&self.authority.certificate, &self.authority.key)
    }

    /// A certificate and its key that etcd takes for this user.
    ///
    /// # Panics
    /// When the name cannot be part of a certificate.
    pub fn client(&self, user: &str) -> (String, String) {
        let pair = pki::client(&self.authority, &User::named(user));
        let Pair { certificate, key } = pair.expect("a certificate for a user of a test");
        (certificate, key)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A `DataStore` of this name that is this etcd, signed in to as `root`.
    pub fn data_store(&self, name: &str) -> Value {
        let bytes = |text: &str| json!({ "content": ByteString(text.as_bytes().to_vec()) });
        let (certificate, key) = self.client("root");
        json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1",
            "kind": "DataStore",
            "metadata": { "name": name },
            "spec": {
                "driver": "etcd",
                "endpoints": [self.endpoint()],
                "tlsConfig": {
                    "certificateAuthority": {
                        "certificate": bytes(&self.authority.certificate),
                        "privateKey": bytes(&self.authority.key),
                    },
                    "clientCertificate": {
                        "certificate": bytes(&certificate),
                        "privateKey": bytes(&key),
                    },
                },
            },
        })
    }

    /// Ends etcd and starts it again with the same data on the same port.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.guardian.stop(ETCD)?;
        self.until("etcd to stop", async |etcd| {
            etcd.guardian.pid(ETCD).is_none()
        })
        .await?;
        self.run()?;
        self.listening().await
    }

    async fn attempt(authority: Pair) -> Result<Self, Error> {
        let guardian = Guardian::new()?;
        let serving = pki::serving(&authority, &["127.0.0.1", "localhost"])
            .map_err(Error::certificate(ETCD))?;
        // etcd's own way from HTTP to gRPC is a client like any other.
        let gateway = pki::client(&authority, &User::named("gateway"))
            .map_err(Error::certificate("gateway"))?;
        let folder = guardian.folder();
        let files = [
            ("ca.crt", &authority.certificate),
            ("server.crt", &serving.certificate),
            ("server.key", &serving.key),
            ("gateway.crt", &gateway.certificate),
            ("gateway.key", &gateway.key),
        ];
        for (name, content) in files {
            let file = folder.join(name);
            fs::write(&file, content).map_err(Error::file("write", &file))?;
        }
        let port = free_port()?;
        let mut etcd = Self {
            arguments: arguments(folder, port),
            guardian,
            authority,
            port,
        };
        etcd.run()?;
        etcd.listening().await?;
        Ok(etcd)
    }

    fn run(&mut self) -> Result<(), Error> {
        let toolchain = Toolchain::locate().map_err(Error::toolchain)?;
        let binary = toolchain.binary(ETCD, None).map_err(Error::toolchain)?;
        self.guardian.start(ETCD, &binary, &self.arguments)
    }

    async fn listening(&self) -> Result<(), Error> {
        self.until("etcd to listen", async |etcd| {
            TcpStream::connect(("127.0.0.1", etcd.port)).await.is_ok()
        })
        .await
    }

    async fn until(&self, what: &str, done: impl AsyncFn(&Self) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self).await {
            let log = || {
                let file = self.guardian.folder().join("etcd.log");
                fs::read_to_string(file).unwrap_or_default()
            };
            if self.guardian.has_ended(ETCD) {
                return Err(Error::Ended {
                    component: ETCD,
                    log: log(),
                });
            }
            if Instant::now() > deadline {
                return Err(Error::Late {
                    what: what.to_owned(),
                    last: log(),
                });
            }
            sleep(INTERVAL).await;
        }
        Ok(())
    }

    /// Adds `root` and turns authentication on.
    async fn enable_auth(&self) -> Result<(), Error> {
        let url = format!("https://{}", self.endpoint());
        let access = Access {
            folder: self.guardian.folder().to_owned(),
            url: url.parse().expect("a port on 127.0.0.1 is an address"),
            authority: self.authority.clone(),
        };
        let config = access.config(&User::named("root"))?;
        let client = Client::try_from(config).map_err(Error::client("root"))?;
        let requests = [
            (
                "/v3/auth/user/add",
                json!({ "name": "root", "options": { "no_password": true } }),
            ),
            ("/v3/auth/role/add", json!({ "name": "root" })),
            (
                "/v3/auth/user/grant",
                json!({ "user": "root", "role": "root" }),
            ),
            ("/v3/auth/enable", json!({})),
        ];
        for (path, body) in requests {
            let request = Request::post(path)
                .body(body.to_string().into_bytes())
                .expect("a path and a body are a request");
            let _: Value = client.request(request).await.map_err(|error| Error::Late {
                what: format!("etcd to answer {path}"),
                last: error.to_string(),
            })?;
        }
        Ok(())
    }
}

fn arguments(folder: &Path, port: u16) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let url = format!("https://127.0.0.1:{port}");
    vec![
        "--name=testkit".to_owned(),
        format!("--data-dir={}", file("data")),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls=unix://{}", file("peer.sock")),
        // Only other members would read these; there are none, and a socket is not accepted here.
        "--initial-advertise-peer-urls=http://127.0.0.1:1".to_owned(),
        "--initial-cluster=testkit=http://127.0.0.1:1".to_owned(),
        "--client-cert-auth=true".to_owned(),
        format!("--trusted-ca-file={}", file("ca.crt")),
        format!("--cert-file={}", file("server.crt")),
        format!("--key-file={}", file("server.key")),
        format!("--client-cert-file={}", file("gateway.crt")),
        format!("--client-key-file={}", file("gateway.key")),
        // The data dies with the folder: a lost write after a power cut harms nobody.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(Error::Port)?;
    Ok(listener.local_addr().map_err(Error::Port)?.port())
}
