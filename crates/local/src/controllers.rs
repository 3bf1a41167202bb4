//! Where our own controllers run: as pods, as they do anywhere, or as programs of the host for whoever works on them.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddrV4},
    os::unix::fs::chown,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    access::account_kubeconfig,
    agent,
    error::Error,
    node::Node,
    platform::Platform,
    program::copy_program,
    settings::{Paths, write_private},
    wait::until,
};

/// Where they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// In the management cluster, from the image.
    Pods,
    /// On the host, from the binary beside this program; `up` again takes one that was built anew.
    Processes,
}

/// One of them.
pub(crate) struct Part {
    /// Its Deployment and its service account; on the host its log.
    pub(crate) name: &'static str,
    /// The namespace of both.
    pub(crate) namespace: &'static str,
    /// What its program is told.
    pub(crate) arguments: &'static [&'static str],
    /// Where it says on the host how it is.
    port: u16,
}

pub(crate) const PARTS: [Part; 2] = [
    Part {
        name: "butler-controller",
        namespace: "butler-system",
        // Names of Services mean nothing on the host.
        arguments: &["controller", "--outside"],
        port: 9780,
    },
    Part {
        name: "steward",
        namespace: "steward-system",
        arguments: &["steward", "--outside"],
        port: 9781,
    },
];

/// The user of controllers, here and in their image.
const USER: u32 = 65532;
/// For what takes a second, unless another one has the lease and does not give it back.
const PATIENCE: Duration = Duration::from_mins(1);
const ANSWER: Duration = Duration::from_secs(2);

impl Part {
    /// Where it answers on the host.
    pub(crate) fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    /// Whether one on the host can do its work.
    async fn is_ready(&self) -> Result<(), String> {
        let ask = async {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, io::Error>(answer)
        };
        let answer = timeout(ANSWER, ask).await;
        match answer.map_err(io::Error::from).flatten() {
            Ok(answer) if answer.contains(" 200 ") => Ok(()),
            Ok(answer) => Err(answer.lines().last().unwrap_or_default().to_owned()),
            Err(error) => Err(format!("{}: {error}", self.address())),
        }
    }
}

impl Paths {
    /// Where controllers of this platform run.
    pub(crate) fn controllers_place(&self) -> Controllers {
        if self.controllers().exists() {
            Controllers::Processes
        } else {
            Controllers::Pods
        }
    }
}

impl Platform {
    /// Ends controllers on the host; what they hold is given back.
    pub(crate) async fn withdraw_controllers(&self) -> Result<(), Error> {
        if self.paths.controllers_place() == Controllers::Pods {
            return Ok(());
        }
        fs::remove_file(self.paths.controllers())
            .map_err(Error::on("remove the controllers' program"))?;
        for part in &PARTS {
            // It is the key of an account whose pods have their own.
            let _ = fs::remove_file(self.paths.controller_kubeconfig(part.name));
        }
        agent::end(&self.paths).await?;
        self.start_agent().await.map(drop)
    }

    /// What addons are installed with: in a pod it is part of the image.
    fn give_helm(&self) -> Result<(), Error> {
        let helm = self.toolchain.binary("helm", None);
        let helm = helm.map_err(Error::on("find helm"))?;
        copy_program(&helm, &self.paths.helm()).map_err(Error::on("copy helm"))?;
        let folder = self.paths.helm_folder();
        fs::create_dir_all(&folder)
            .and_then(|()| chown(&folder, Some(USER), Some(USER)))
            .map_err(Error::on(format!("make {}", folder.display())))
    }

    /// Runs controllers on the host, as the accounts of their pods, and waits until they can work.
    pub(crate) async fn run_controllers(&self, node: &Node) -> Result<((), String), Error> {
        let Some((binary, _)) = self.own() else {
            return Err(Error::Command {
                what: "run controllers on the host".to_owned(),
                said: "there is no butler beside butleradm; build it with `cargo build`".to_owned(),
            });
        };
        for part in &PARTS {
            let kubeconfig = account_kubeconfig(node, part.namespace, part.name)?;
            let path = self.paths.controller_kubeconfig(part.name);
            write_private(&path, &kubeconfig)
                .and_then(|()| chown(&path, Some(USER), Some(USER)))
                .map_err(Error::on(format!("write {}", path.display())))?;
        }
        self.give_helm()?;
        let target = self.paths.controllers();
        let news = copy_program(binary, &target).map_err(Error::on("copy the controllers"))?;
        if news {
            agent::end(&self.paths).await?;
            self.start_agent().await?;
        }
        for part in &PARTS {
            let log = self.paths.log(part.name);
            let what = format!("{} on the host (log: {})", part.name, log.display());
            until(&what, PATIENCE, async || part.is_ready().await).await?;
        }
        let names = PARTS.map(|part| part.name);
        Ok(((), format!("{} on the host", names.join(", "))))
    }

    /// How each of them is.
    pub(crate) async fn controllers_status(&self) -> Vec<(&'static str, Result<String, String>)> {
        let mut all = Vec::new();
        for part in &PARTS {
            let state = match self.paths.controllers_place() {
                Controllers::Processes => {
                    let ready = part.is_ready().await;
                    ready.map(|()| format!("on the host, http://{}", part.address()))
                }
                Controllers::Pods => self.deployment(part),
            };
            all.push((part.name, state));
        }
        all
    }

    fn deployment(&self, part: &Part) -> Result<String, String> {
        let deployment = format!("deployment/{}", part.name);
        let output = "jsonpath={.status.availableReplicas}/{.spec.replicas}";
        let words = ["get", "-n", part.namespace, &deployment, "-o", output];
        let words = [&words[..], &["--request-timeout=5s", "--ignore-not-found"]].concat();
        let said = self.kubectl(&words, None);
        let said = said.map_err(|error| error.to_string())?;
        match said.split_once('/') {
            Some((ready, wanted)) if ready == wanted => Ok(format!("{ready} pods")),
            None if said.is_empty() => Ok("left out".to_owned()),
            Some(_) | None => Err(format!("available/wanted pods: {said}")),
        }
    }

    /// What a controller has said: a file on the host, or what its pods wrote.
    pub(crate) fn controller_log(&self, name: &str) -> Option<Result<String, Error>> {
        let part = PARTS.iter().find(|part| part.name == name)?;
        Some(match self.paths.controllers_place() {
            Controllers::Processes => {
                let path = self.paths.log(part.name);
                let read = fs::read_to_string(&path);
                read.map_err(Error::on(format!("read {}", path.display())))
            }
            Controllers::Pods => {
                let deployment = format!("deployment/{}", part.name);
                self.kubectl(&["logs", "-n", part.namespace, &deployment], None)
            }
        })
    }
}
