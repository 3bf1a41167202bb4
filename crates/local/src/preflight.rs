//! Whether this machine can carry a platform. Looking is separate from judging, so that judging can be tested.

use std::{
    fmt, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
};

use ipnet::Ipv4Net;

use crate::{
    cgroup,
    settings::{Paths, Settings},
};

/// A fresh platform with every image and one tenant takes about half of this.
const DISK: u64 = 4 << 30;
/// Programs and the Debian package that brings each.
const PROGRAMS: [(&str, &str); 13] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("runc", "runc"),
    ("conntrack", "conntrack"),
    ("xtables-nft-multi", "iptables"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("mount", "mount"),
    ("hostname", "hostname"),
    ("ldd", "libc-bin"),
    ("cc", "gcc"),
];
/// Network plugins that nodes use, where packages put them.
const PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];
const PLUGIN_FOLDER: &str = "/usr/lib/cni";

/// What was seen.
#[derive(Clone, Debug)]
pub struct Facts {
    root: bool,
    missing: Vec<(&'static str, &'static str)>,
    plugins: Vec<&'static str>,
    overlay: bool,
    cgroups: bool,
    network: Result<(), String>,
    free: Vec<(PathBuf, u64)>,
    taken: Vec<(Ipv4Net, String)>,
}

/// Something that is not as it has to be, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub problem: String,
    /// What helps.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.problem, self.remedy)
    }
}

/// Looks at this machine.
pub fn look(paths: &Paths) -> Facts {
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let root = is_root();
    Facts {
        root,
        missing: PROGRAMS
            .into_iter()
            .filter(|(name, _)| !is_there(name))
            .collect(),
        plugins: PLUGINS
            .into_iter()
            .filter(|name| !Path::new(PLUGIN_FOLDER).join(name).exists())
            .collect(),
        overlay: filesystems.lines().any(|line| line.ends_with("\toverlay")),
        cgroups: cgroup::mounts().is_ok_and(|mounts| !mounts.is_empty()),
        network: if root { try_network() } else { Ok(()) },
        free: [&paths.state, &paths.cache]
            .into_iter()
            .filter_map(|path| free(path))
            .collect(),
        taken: taken(),
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What is wrong when somebody else asks.
pub(crate) fn not_root() -> Finding {
    Finding {
        problem: "you are not root".to_owned(),
        remedy: "namespaces, mounts and routes need it; run it with sudo".to_owned(),
    }
}

/// Everything that is wrong at once, so that nobody has to try again and again.
pub fn judge(facts: &Facts, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |problem: String, remedy: String| findings.push(Finding { problem, remedy });
    if !facts.root {
        let Finding { problem, remedy } = not_root();
        find(problem, remedy);
    }
    let mut packages: Vec<&str> = facts.missing.iter().map(|(_, package)| *package).collect();
    if !facts.plugins.is_empty() {
        packages.push("containernetworking-plugins");
    }
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        let programs = facts.missing.iter().map(|(name, _)| *name);
        let names: Vec<_> = programs.chain(facts.plugins.iter().copied()).collect();
        find(
            format!("programs are missing: {}", names.join(", ")),
            format!(
                "install them, on Debian: apt-get install {}",
                packages.join(" ")
            ),
        );
    }
    if !facts.overlay {
        find(
            "the kernel has no overlay file system".to_owned(),
            "modprobe overlay".to_owned(),
        );
    }
    if !facts.cgroups {
        find(
            "no cgroups are mounted".to_owned(),
            "mount them below /sys/fs/cgroup".to_owned(),
        );
    }
    if let Err(said) = &facts.network {
        find(
            format!("the kernel cannot make the network ({said})"),
            "modprobe veth bridge br_netfilter nf_tables".to_owned(),
        );
    }
    for (path, free) in facts.free.iter().filter(|(_, free)| *free < DISK) {
        find(
            format!("{} has {} MiB free", path.display(), free >> 20),
            format!("{} MiB are needed", DISK >> 20),
        );
    }
    let ranges = [settings.layout.range(), settings.pods, settings.services];
    for range in ranges {
        for (theirs, what) in &facts.taken {
            if range.contains(theirs) || theirs.contains(&range) {
                find(
                    format!("{range} is used on this machine: {what}"),
                    "choose another range with --range, --pods or --services".to_owned(),
                );
            }
        }
    }
    findings
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(system);
    folders
        .into_iter()
        .any(|folder| folder.join(program).is_file())
}

/// Makes what the network is made of, in a namespace that is gone at once.
fn try_network() -> Result<(), String> {
    let attempt = "ip link add one type veth peer name two && ip link add three type bridge && \
                   ip link set one master three && nft 'add table ip four'";
    let output = Command::new("unshare")
        .args([
            "--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork",
        ])
        .args(["sh", "-c", attempt])
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .replace('\n', "; ")),
        Err(error) => Err(error.to_string()),
    }
}

/// Free bytes where a folder is or will be.
fn free(path: &Path) -> Option<(PathBuf, u64)> {
    let existing = path.ancestors().find(|it| it.exists())?;
    let seen = rustix::fs::statvfs(existing).ok()?;
    Some((path.to_owned(), seen.f_bavail * seen.f_frsize))
}

/// Ranges that this machine uses for something else: routes that are not ours, and who answers for names.
fn taken() -> Vec<(Ipv4Net, String)> {
    let output = Command::new("ip")
        .args(["-4", "-N", "route", "show"])
        .output();
    let routes = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let resolvers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let mut taken = others_routes(&routes.unwrap_or_default());
    taken.extend(nameservers(&resolvers));
    taken
}

fn others_routes(shown: &str) -> Vec<(Ipv4Net, String)> {
    let ours = format!("proto {}", butler_fabric::state::PROTOCOL);
    let route = |line: &str| {
        let first = line
            .split_whitespace()
            .find(|word| *word != "unreachable")?;
        let range = first
            .parse()
            .or_else(|_| first.parse::<Ipv4Addr>().map(Ipv4Net::from))
            .ok()?;
        Some((range, format!("route {}", line.trim())))
    };
    let others = shown.lines().filter(|line| !line.contains(&ours));
    others.filter_map(route).collect()
}

fn nameservers(text: &str) -> Vec<(Ipv4Net, String)> {
    let server = |line: &str| {
        let address: Ipv4Addr = line.strip_prefix("nameserver ")?.trim().parse().ok()?;
        Some((
            address.into(),
            format!("{} of /etc/resolv.conf", line.trim()),
        ))
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use butler_fabric::Layout;

    use super::*;

    fn settings() -> Settings {
        Settings {
            layout: Layout::new("10.40.0.0/24".parse().unwrap()).unwrap(),
            pods: "10.42.0.0/16".parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
            kubernetes: "v1.35.4".to_owned(),
        }
    }

    fn good() -> Facts {
        Facts {
            root: true,
            missing: Vec::new(),
            plugins: Vec::new(),
            overlay: true,
            cgroups: true,
            network: Ok(()),
            free: vec![("/var/lib/butler".into(), DISK)],
            taken: others_routes("default via 192.0.2.1 dev eth0 \n192.0.2.0/24 dev eth0\n"),
        }
    }

    #[test]
    fn a_good_machine_has_no_findings() {
        assert_eq!(judge(&good(), &settings()), []);
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once_with_what_helps() {
        let facts = Facts {
            root: false,
            missing: vec![
                ("nft", "nftables"),
                ("nsenter", "util-linux"),
                ("unshare", "util-linux"),
            ],
            plugins: vec!["bridge"],
            overlay: false,
            cgroups: false,
            network: Err("RTNETLINK answers: Operation not supported".to_owned()),
            free: vec![("/var/lib/butler".into(), 1 << 30)],
            taken: vec![("10.42.7.0/24".parse().unwrap(), "route x".to_owned())],
        };
        let said: Vec<_> = judge(&facts, &settings())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(said.len(), 7, "{said:#?}");
        let all = said.join("\n");
        assert!(all.contains("apt-get install containernetworking-plugins nftables util-linux"));
        assert!(all.contains("10.42.0.0/16 is used on this machine: route x"));
    }

    #[test]
    fn our_own_routes_do_not_stand_in_our_way_and_others_do() {
        let shown = "default via 192.0.2.1 dev eth0 \n\
                     10.40.0.0/24 via 10.40.0.126 dev butler0 proto 157 src 10.40.0.1 \n\
                     unreachable 10.96.0.0/12 metric 9\n\
                     10.99.0.7 dev tun0\n";
        let ranges: Vec<_> = others_routes(shown)
            .into_iter()
            .map(|(it, _)| it.to_string())
            .collect();
        assert_eq!(ranges, ["10.96.0.0/12", "10.99.0.7/32"]);
        assert_eq!(nameservers("search x\nnameserver 10.96.0.10\n").len(), 1);
    }
}
