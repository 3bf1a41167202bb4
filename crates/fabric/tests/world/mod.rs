//! A private world for one test: its own host network, mounts and processes, gone when the test is.
//!
//! The test runs a second time as a child inside new namespaces. There a namespace without any connection to this
//! machine plays the host, with a made-up default route into a device where packets are counted.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    process::Command,
    sync::mpsc,
    time::{Duration, Instant},
};

use butler_fabric::{Fabric, Space};
use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

const INSIDE: &str = "BUTLER_FABRIC_TEST_WORLD";
const PORT: u16 = 8080;
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `test` in a world of its own; skipped, and said so, without the rights to make one.
pub(crate) fn in_world(test: impl FnOnce(World)) {
    if std::env::var_os(INSIDE).is_some() {
        return test(World::new());
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let unshare = [
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
    ];
    let possible = Command::new("unshare").args(unshare).arg("true").output();
    if !possible.is_ok_and(|output| output.status.success()) {
        println!("skipped {name}: namespaces can only be made by root");
        return;
    }
    let status = Command::new("unshare")
        .args(unshare)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{name} failed in its world; see above");
}

pub(crate) struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        // What a host has: a way to the world outside, here one that ends in a bridge.
        for command in [
            "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6",
            "ip link set lo up",
            // Without snooping: it would report its own membership in a multicast group.
            "ip link add out0 type bridge mcast_snooping 0",
            "ip link set out0 up",
            "ip address add 198.51.100.2/24 dev out0",
            "ip route add default via 198.51.100.1",
            "ip neighbour add 198.51.100.1 lladdr 02:00:00:00:00:01 dev out0 nud permanent",
        ] {
            world.run(&Space::Host, command);
        }
        world
    }

    pub(crate) fn fabric(&self) -> Fabric {
        Fabric::new(self.folder.path().join("net"))
    }

    /// Does something in a namespace, on a thread of its own.
    fn visit<T: Send>(&self, space: &Space, work: impl FnOnce() -> T + Send) -> T {
        let namespace = std::fs::File::open(self.fabric().file(space)).unwrap();
        let inside = move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
    }

    pub(crate) fn run(&self, space: &Space, command: &str) {
        let output = self.visit(space, || {
            Command::new("sh").args(["-c", command]).output().unwrap()
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
    }

    /// Answers connections with a word.
    pub(crate) fn serve(&self, space: &Space, word: &str) {
        let listener = self.visit(space, || TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)));
        let (listener, word) = (listener.unwrap(), word.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = (&stream).write_all(word.as_bytes());
            }
        });
    }

    /// Answers everything that is said on a connection with a letter.
    pub(crate) fn converse(&self, space: &Space, letter: u8) {
        let listener = self.visit(space, || TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)));
        let listener = listener.unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    while stream.read_exact(&mut [0]).is_ok() && stream.write_all(&[letter]).is_ok()
                    {
                    }
                });
            }
        });
    }

    /// A connection that stays open.
    pub(crate) fn open(&self, space: &Space, to: &str) -> TcpStream {
        let to = socket_address(to, PORT);
        let stream = self.visit(space, || TcpStream::connect_timeout(&to, PATIENCE));
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn connect(
        &self,
        space: &Space,
        from: &str,
        to: &str,
        patience: Duration,
    ) -> std::io::Result<String> {
        let (from, to) = (socket_address(from, 0), socket_address(to, PORT));
        let (sender, receiver) = mpsc::channel();
        let made = self.visit(space, || {
            socket(AddressFamily::INET, SocketType::STREAM, None)
        });
        std::thread::spawn(move || {
            let made = made.unwrap();
            let asked = (|| {
                bind(&made, &from)?;
                connect(&made, &to)?;
                let mut stream = TcpStream::from(made);
                let mut word = String::new();
                stream.read_to_string(&mut word)?;
                Ok(word)
            })();
            let _ = sender.send(asked);
        });
        let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        receiver.recv_timeout(patience).map_err(|_| late())?
    }

    /// The word somebody answers with.
    pub(crate) fn ask(&self, space: &Space, from: &str, to: &str) -> String {
        let answer = self.connect(space, from, to, PATIENCE);
        answer.unwrap_or_else(|error| panic!("{space:?} {from} to {to}: {error}"))
    }

    /// Nobody answers.
    pub(crate) fn refused(&self, space: &Space, from: &str, to: &str) {
        // Packets that are dropped are never answered; whoever is reached answers at once.
        let answer = self.connect(space, from, to, Duration::from_millis(700));
        assert!(answer.is_err(), "{space:?} {from} reached {to}: {answer:?}");
    }

    pub(crate) fn unmount(&self, space: &Space) {
        let file = self.fabric().file(space).display().to_string();
        // Whoever looks at it in this moment would keep it busy.
        self.run(&Space::Host, &format!("umount --lazy {file}"));
    }

    /// Everything that could be left over: links, routes, rules, mounts, files, processes.
    pub(crate) fn count(&self) -> Vec<String> {
        let commands = [
            "ip -br link | cut -d' ' -f1",
            "ip route show table all",
            "ip rule",
            "cut -d' ' -f5 /proc/self/mountinfo",
            "for it in /proc/[0-9]*; do cat $it/comm; done 2>/dev/null | grep -v '^sh$\\|^cat$\\|^grep$'",
        ];
        let mut counted: Vec<String> = commands
            .map(|command| {
                let output = Command::new("sh").args(["-c", command]).output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            })
            .into();
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        counted.extend(files.map(|it| it.unwrap().path().display().to_string()));
        counted
    }
}

/// The letter that is answered on an open connection.
pub(crate) fn say(stream: &mut TcpStream) -> std::io::Result<char> {
    stream.write_all(b"?")?;
    let mut letter = [0];
    stream.read_exact(&mut letter)?;
    Ok(letter[0].into())
}

/// Packets that went out by the default route.
pub(crate) struct Caught {
    before: u64,
}

impl Caught {
    pub(crate) fn packets(&self) -> u64 {
        sent() - self.before
    }
}

/// As the kernel counts for the device of the default route.
fn sent() -> u64 {
    let output = Command::new("ip")
        .args(["-s", "-j", "link", "show", "out0"])
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    shown[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

/// Sends from the host as anybody would.
pub(crate) fn try_to_send(to: &str) {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.send_to(b"x", (to, PORT)).unwrap();
}

/// Counts from now on what goes out by the default route.
pub(crate) fn listen_on_the_default_route() -> Caught {
    Caught { before: sent() }
}

pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for: {what}");
        std::thread::yield_now();
    }
}

fn socket_address(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}
