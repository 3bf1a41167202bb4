//! Observing the network and changing it, with `ip` and `nft`.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use socket2::{Domain, Socket, Type};
use thiserror::Error;
use tokio::net::TcpSocket;

use crate::{
    diff::{Step, diff},
    iproute,
    layout::Layout,
    plan::mark_of,
    space,
    state::{Content, FILTER_TABLE, Filter, Space, State, Target, count_rules},
};

/// Rounds of looking and changing before giving up: what a step removes may take other things with it.
const ROUNDS: usize = 4;

/// Why the network could not be observed or changed.
#[derive(Debug, Error)]
pub enum Error {
    /// A namespace could not be used.
    #[error("could not {action} in network namespace {space:?}")]
    Space {
        /// What was tried.
        action: &'static str,
        /// Where.
        space: Space,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The namespaces could not be listed.
    #[error("could not list the network namespaces in {folder:?}")]
    List {
        /// Where they are.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The network does not become what it should be.
    #[error(
        "the network is still not as it should be after {ROUNDS} rounds; next would be {next:?}; said: {said}"
    )]
    Stuck {
        /// The first step that is still to be taken.
        next: Box<Step>,
        /// What `ip` and `nft` said.
        said: String,
    },
}

/// The network of one platform.
#[derive(Clone, Debug)]
pub struct Fabric {
    folder: PathBuf,
}

impl Fabric {
    /// The network whose namespaces are in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The file of a namespace, which a machine is started in.
    pub fn file(&self, space: &Space) -> PathBuf {
        space::file(&self.folder, space)
    }

    /// Whether nothing for the platform's addresses can take the host's default route. Nobody may talk to them before.
    pub fn is_closed(&self, layout: Layout) -> Result<bool, Error> {
        let host = space::visit(&self.folder, &Space::Host, || look(&Space::Host, None));
        let host = host.map_err(failed("look", &Space::Host))?;
        let mut routes = host.routes.iter();
        Ok(routes.any(|(to, target)| to.to == layout.range() && *target == Target::Unreachable))
    }

    /// Does something inside a namespace, on a thread of its own.
    pub(crate) fn inside<T: Send>(
        &self,
        space: &Space,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        space::visit(&self.folder, space, work)
    }

    /// A socket whose connections to load balancers go by this machine, whether it is one of theirs or not: to find out
    /// whether it would serve, before anybody is sent there.
    pub fn socket_by(&self, machine: Ipv4Addr) -> io::Result<TcpSocket> {
        let socket = self.inside(&Space::Router, || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_mark(mark_of(machine))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Ok(TcpSocket::from_std_stream(socket?.into()))
    }

    /// What there is. Of kernel settings only those in `wanted` are looked at.
    pub fn observe(&self, wanted: &State) -> Result<State, Error> {
        let folder = &self.folder;
        let listed = space::list(folder).map_err(|source| Error::List {
            folder: folder.clone(),
            source,
        })?;
        let mut spaces = BTreeMap::new();
        for space in std::iter::once(Space::Host).chain(listed) {
            let settings = wanted.spaces.get(&space).map(|it| &it.settings);
            let content = space::visit(folder, &space, || look(&space, settings));
            let content = content.map_err(failed("look", &space))?;
            spaces.insert(space, content);
        }
        Ok(State { spaces })
    }

    /// Makes the network what it should be, and says what was done; nothing if nothing was to do.
    pub fn apply(&self, wanted: &State) -> Result<Vec<Step>, Error> {
        let mut done = Vec::new();
        let mut said = String::new();
        for _ in 0..ROUNDS {
            let steps = diff(wanted, &self.observe(wanted)?);
            if steps.is_empty() {
                return Ok(done);
            }
            said = self.take(&steps)?;
            done.extend(steps);
        }
        let rest = diff(wanted, &self.observe(wanted)?);
        match rest.into_iter().next() {
            None => Ok(done),
            Some(next) => Err(Error::Stuck {
                next: Box::new(next),
                said: said.trim().to_owned(),
            }),
        }
    }

    /// Removes everything; nothing of it is left, also if it was half removed before.
    pub fn remove(&self) -> Result<(), Error> {
        let nothing = State {
            spaces: BTreeMap::from([(Space::Host, Content::default())]),
        };
        self.apply(&nothing)?;
        // Files of namespaces that were unmounted by hand.
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        match fs::remove_dir(&self.folder) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::List {
                folder: self.folder.clone(),
                source,
            }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Takes the steps in their order; what `ip` and `nft` complained about is the answer.
    fn take(&self, steps: &[Step]) -> Result<String, Error> {
        let folder = self.folder.as_path();
        let mut said = String::new();
        let mut batch = Batch::default();
        for step in steps {
            if let Some((space, line)) = iproute::line(step, folder) {
                if batch.space.as_ref() != Some(space) {
                    said += &self.run(std::mem::take(&mut batch))?;
                }
                batch.space = Some(space.clone());
                batch.lines += &line;
                batch.lines.push('\n');
                continue;
            }
            said += &self.run(std::mem::take(&mut batch))?;
            match step {
                Step::MakeSpace(space) => {
                    space::make(folder, space).map_err(failed("make", space))?;
                }
                Step::DropSpace(space) => {
                    space::remove(folder, space).map_err(failed("remove", space))?;
                }
                Step::Set(space, name, value) => {
                    let set = space::visit(folder, space, || set(name, value));
                    set.map_err(failed("write a kernel setting", space))?;
                }
                Step::PutFilter(space, filter) => {
                    said += &self.nft(space, &filter_text(filter))?;
                }
                Step::DropFilter(space) => {
                    said += &self.nft(space, &format!("delete table ip {FILTER_TABLE}\n"))?;
                }
                Step::DropLink(..)
                | Step::AddBridge(..)
                | Step::AddPair(..)
                | Step::Enslave(..)
                | Step::SwitchOn(..)
                | Step::AddAddress(..)
                | Step::DropAddress(..)
                | Step::PutRoute(..)
                | Step::DropRoute(..)
                | Step::AddRule(..)
                | Step::DropRule(..) => {}
            }
        }
        said += &self.run(batch)?;
        Ok(said)
    }

    fn run(&self, batch: Batch) -> Result<String, Error> {
        let Some(space) = batch.space else {
            return Ok(String::new());
        };
        // The peer of a veth is placed by a path: for the host that is the namespace we are called from.
        let lines = batch.lines.replace(
            "/proc/self/ns/net",
            &format!("/proc/{}/ns/net", std::process::id()),
        );
        let arguments = ["-4", "-force", "-batch", "-"];
        let ran = space::visit(&self.folder, &space, || call("ip", &arguments, &lines));
        Ok(ran.map_err(failed("run ip", &space))?.1)
    }

    fn nft(&self, space: &Space, text: &str) -> Result<String, Error> {
        let ran = space::visit(&self.folder, space, || call("nft", &["-f", "-"], text));
        Ok(ran.map_err(failed("run nft", space))?.1)
    }
}

fn failed(action: &'static str, space: &Space) -> impl FnOnce(io::Error) -> Error {
    let space = space.clone();
    move |source| Error::Space {
        action,
        space,
        source,
    }
}

/// Lines for one namespace.
#[derive(Default)]
struct Batch {
    space: Option<Space>,
    lines: String,
}

fn look(space: &Space, settings: Option<&BTreeMap<String, String>>) -> io::Result<Content> {
    let arguments = [&iproute::QUESTION_OPTIONS[..], &["-batch", "-"]].concat();
    let (shown, said) = call("ip", &arguments, &iproute::questions())?;
    let mut content = iproute::parse(space, &shown).map_err(|error| {
        io::Error::other(format!("could not read what ip shows: {error}; {said}"))
    })?;
    for (name, wanted) in settings.into_iter().flatten() {
        let value = match fs::read_to_string(setting(name)) {
            // This kernel has no such thing, so there is nothing to switch.
            Err(error) if error.kind() == io::ErrorKind::NotFound => wanted.clone(),
            value => value?.trim().to_owned(),
        };
        content.settings.insert(name.clone(), value);
    }
    if *space != Space::Host {
        content.filter = filter()?;
    }
    Ok(content)
}

fn filter() -> io::Result<Option<Filter>> {
    let (listed, _) = call("nft", &["-s", "list", "table", "ip", FILTER_TABLE], "")?;
    let listed = String::from_utf8_lossy(&listed);
    if listed.trim().is_empty() {
        return Ok(None);
    }
    let comment = listed.lines().find_map(|line| {
        let quoted = line.trim().strip_prefix("comment \"")?;
        quoted.strip_suffix('"')
    });
    Ok(Some(Filter {
        chains: String::new(),
        digest: comment.unwrap_or_default().to_owned(),
        rules: count_rules(&listed),
    }))
}

/// Replaces the table in one transaction: there is no moment without it.
fn filter_text(filter: &Filter) -> String {
    let Filter { chains, digest, .. } = filter;
    format!(
        "table ip {FILTER_TABLE}\ndelete table ip {FILTER_TABLE}\n\
         table ip {FILTER_TABLE} {{\ncomment \"{digest}\"\n{chains}}}\n"
    )
}

fn set(name: &str, value: &str) -> io::Result<()> {
    match fs::write(setting(name), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn setting(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name)
}

/// What a command printed and what it complained about.
fn call(program: &str, arguments: &[&str], input: &str) -> io::Result<(Vec<u8>, String)> {
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child =
        spawned.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading says why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.stdout, said))
}
