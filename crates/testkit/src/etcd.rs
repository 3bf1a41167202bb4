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
/// How members are called by their place.
const NAMES: [&str; 3] = [ETCD, "etcd-1", "etcd-2"];
const PATIENCE: Duration = Duration::from_mins(3);
/// How often a starting etcd is asked; nothing can be watched before it answers.
const INTERVAL: Duration = Duration::from_millis(10);

/// An etcd on ports of 127.0.0.1 that accepts only clients with a certificate of its authority.
#[derive(Debug)]
pub struct TlsEtcd {
    guardian: Guardian,
    authority: Pair,
    members: Vec<Member>,
}

/// One process of an etcd.
#[derive(Debug)]
struct Member {
    name: &'static str,
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

    /// Starts an etcd of three members that keeps its users apart: one of them may be lost.
    ///
    /// # Errors
    /// When etcd is not in the tool cache or does not start.
    pub async fn start_three() -> Result<Self, Error> {
        let etcd = Self::start_members(3).await?;
        etcd.enable_auth().await?;
        Ok(etcd)
    }

    /// Starts an etcd that lets everyone with a certificate do everything.
    ///
    /// # Errors
    /// When etcd is not in the tool cache or does not start.
    pub async fn start_open() -> Result<Self, Error> {
        Self::start_members(1).await
    }

    async fn start_members(count: usize) -> Result<Self, Error> {
        let mut tries_left = 3;
        loop {
            tries_left -= 1;
            let authority = pki::authority().map_err(Error::certificate("authority"))?;
            match Self::attempt(authority, count).await {
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
        let etcd = Self::attempt(self.authority.clone(), 1).await?;
        etcd.enable_auth().await?;
        Ok(etcd)
    }

    /// The address of the first member, as `host:port`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// The addresses of all members, as `host:port`.
    pub fn endpoints(&self) -> Vec<String> {
        let ports = self.members.iter().map(|member| member.port);
        ports.map(|port| format!("127.0.0.1:{port}")).collect()
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

    /// The port of the first member on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.members[0].port
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
                "endpoints": self.endpoints(),
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

    /// Ends etcd and starts it again with the same data on the same ports.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn restart(&mut self) -> Result<(), Error> {
        for at in 0..self.members.len() {
            self.stop(at).await?;
        }
        for at in 0..self.members.len() {
            self.resume(at).await?;
        }
        Ok(())
    }

    /// Ends one member, by its place; its data stays.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(&mut self, at: usize) -> Result<(), Error> {
        let name = self.members[at].name;
        self.guardian.stop(name)?;
        let deadline = Instant::now() + PATIENCE;
        while self.guardian.pid(name).is_some() {
            if Instant::now() > deadline {
                return Err(Error::Late {
                    what: format!("{name} to stop"),
                    last: "its process".to_owned(),
                });
            }
            sleep(INTERVAL).await;
        }
        Ok(())
    }

    /// Starts a member that was ended.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn resume(&mut self, at: usize) -> Result<(), Error> {
        self.run(at)?;
        self.listening(at).await
    }

    async fn attempt(authority: Pair, count: usize) -> Result<Self, Error> {
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
        let names = NAMES.into_iter().take(count);
        let peers: Vec<(&'static str, Peer)> = names
            .map(|name| Ok((name, Peer::new(count, folder)?)))
            .collect::<Result<_, Error>>()?;
        let mut members = Vec::new();
        for (name, peer) in &peers {
            let port = free_port()?;
            members.push(Member {
                name,
                port,
                arguments: arguments(folder, name, port, peer, &peers),
            });
        }
        let mut etcd = Self {
            guardian,
            authority,
            members,
        };
        for at in 0..count {
            etcd.run(at)?;
        }
        for at in 0..count {
            etcd.listening(at).await?;
        }
        Ok(etcd)
    }

    fn run(&mut self, at: usize) -> Result<(), Error> {
        let toolchain = Toolchain::locate().map_err(Error::toolchain)?;
        let binary = toolchain.binary(ETCD, None).map_err(Error::toolchain)?;
        let Member {
            name, arguments, ..
        } = &self.members[at];
        self.guardian.start(name, &binary, arguments)
    }

    async fn listening(&self, at: usize) -> Result<(), Error> {
        let Member { name, port, .. } = &self.members[at];
        self.until(name, "etcd to listen", async |_| {
            TcpStream::connect(("127.0.0.1", *port)).await.is_ok()
        })
        .await
    }

    async fn until(
        &self,
        name: &str,
        what: &str,
        done: impl AsyncFn(&Self) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self).await {
            let log = || {
                let file = self.guardian.folder().join(format!("{name}.log"));
                fs::read_to_string(file).unwrap_or_default()
            };
            if self.guardian.has_ended(name) {
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

/// Where a member listens for the others.
#[derive(Debug)]
enum Peer {
    /// There are no others: a socket in the folder, and an address that nobody reads, since a socket is not accepted.
    Alone { socket: String },
    /// A port of 127.0.0.1.
    Port(u16),
}

impl Peer {
    fn new(count: usize, folder: &Path) -> Result<Self, Error> {
        if count > 1 {
            return free_port().map(Self::Port);
        }
        let socket = folder.join("peer.sock").display().to_string();
        Ok(Self::Alone { socket })
    }

    fn listens(&self) -> String {
        match self {
            Self::Alone { socket } => format!("unix://{socket}"),
            Self::Port(port) => format!("http://127.0.0.1:{port}"),
        }
    }

    fn url(&self) -> String {
        let port = match self {
            Self::Alone { .. } => 1,
            Self::Port(port) => *port,
        };
        format!("http://127.0.0.1:{port}")
    }
}

fn arguments(
    folder: &Path,
    name: &str,
    port: u16,
    peer: &Peer,
    peers: &[(&'static str, Peer)],
) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let url = format!("https://127.0.0.1:{port}");
    let members: Vec<String> = peers
        .iter()
        .map(|(name, peer)| format!("{name}={}", peer.url()))
        .collect();
    vec![
        format!("--name={name}"),
        format!("--data-dir={}", file(&format!("data-{name}"))),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={}", peer.listens()),
        format!("--initial-advertise-peer-urls={}", peer.url()),
        format!("--initial-cluster={}", members.join(",")),
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
