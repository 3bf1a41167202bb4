//! The machine of the management cluster: namespaces of this host with a root, containerd and a kubelet of their own.

mod files;

use std::{
    fs, io,
    net::Ipv4Addr,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::{cgroup, settings::write};

/// What a machine is made from.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its name, and that of its cgroup.
    pub(crate) name: String,
    /// Where its disk is.
    pub(crate) folder: PathBuf,
    /// Its network namespace.
    pub(crate) network: PathBuf,
    /// Its address there.
    pub(crate) address: Ipv4Addr,
    /// Who answers questions about names.
    pub(crate) resolver: Ipv4Addr,
    /// Where images are pulled from.
    pub(crate) registry: String,
    /// The image of a pod's sandbox.
    pub(crate) pause: String,
    /// The folder with kubelet and kubeadm.
    pub(crate) kubernetes: PathBuf,
    /// The folder with containerd.
    pub(crate) containerd: PathBuf,
}

impl Node {
    /// The root of its disk.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// The first process, if the machine runs.
    pub(crate) fn first_process(&self) -> Option<u32> {
        let text = fs::read_to_string(self.folder.join("pid")).ok()?;
        let starter: u32 = text.trim().parse().ok()?;
        // Numbers are used again: only one that is in our cgroup is ours.
        let ours = cgroup::processes(Some(&self.name)).ok()?;
        if !ours.contains(&starter) {
            return None;
        }
        let children = format!("/proc/{starter}/task/{starter}/children");
        let children = fs::read_to_string(children).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Starts the machine unless it runs. Its disk is kept from the last time.
    pub(crate) fn start(&self) -> io::Result<()> {
        if self.first_process().is_some() {
            return Ok(());
        }
        // Whatever a killed start left; a kubelet takes seconds for every stale cgroup it finds.
        cgroup::end(Some(&self.name))?;
        self.prepare()?;
        let script = self.folder.join("start.sh");
        write(&script, include_str!("start.sh"))?;
        let console = fs::File::create(self.folder.join("console.log"))?;
        let mut net = std::ffi::OsString::from("--net=");
        net.push(&self.network);
        // It reads its first line when we have put it where it belongs.
        let mut starter = Command::new("setsid")
            .args([
                "sh",
                "-c",
                "read -r _ && exec \"$@\"",
                "butler-machine",
                "nsenter",
            ])
            .arg(net)
            .args(["unshare", "--mount", "--pid", "--uts", "--ipc", "--cgroup"])
            .args(["--fork", "--kill-child=KILL", "sh"])
            .arg(&script)
            .args([self.folder.as_os_str(), self.name.as_ref()])
            .arg(self.address.to_string())
            .args([&self.kubernetes, &self.containerd])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(console.try_clone()?)
            .stderr(console)
            .spawn()?;
        cgroup::enter(&self.name, starter.id())?;
        write(&self.folder.join("pid"), &starter.id().to_string())?;
        if let Some(mut stdin) = starter.stdin.take() {
            io::Write::write_all(&mut stdin, b"\n")?;
        }
        Ok(())
    }

    /// Ends the machine and removes its disk.
    pub(crate) fn remove(&self) -> io::Result<()> {
        cgroup::end(Some(&self.name))?;
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Where containerd listens, seen from the host; nothing while the machine is down.
    pub(crate) fn container_socket(&self) -> Option<PathBuf> {
        let first = self.first_process()?;
        Some(format!("/proc/{first}/root/run/containerd/containerd.sock").into())
    }

    /// Runs a command inside and waits for it.
    pub(crate) fn run(&self, command: &[&str]) -> io::Result<Output> {
        let Some(first) = self.first_process() else {
            return Err(io::Error::other(format!(
                "machine {} is not running; its last words: {}",
                self.name,
                self.last_words()
            )));
        };
        Command::new("nsenter")
            .args(["--target", &first.to_string(), "--all", "--"])
            .args(["env", "-i", "HOME=/root"])
            .arg("PATH=/opt/kubernetes:/opt/containerd:/usr/sbin:/usr/bin:/sbin:/bin")
            .args(command)
            .stdin(Stdio::null())
            .output()
    }

    /// The end of its console.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read_to_string(self.folder.join("console.log")).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    /// Makes the disk, or what is missing of it.
    fn prepare(&self) -> io::Result<()> {
        let root = self.root();
        for folder in ["usr", "usr.work"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        for folder in files::FOLDERS {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        for name in ["bin", "sbin", "lib", "lib64"] {
            link_like_the_host(&root, name)?;
        }
        for path in files::COPIES {
            copy(&Path::new("/etc").join(path), &root.join("etc").join(path))?;
        }
        for (path, text) in files::files(self) {
            write(&root.join(path.trim_start_matches('/')), &text)?;
        }
        let id = root.join("etc/machine-id");
        if !id.exists() {
            let fresh = || fs::read_to_string("/proc/sys/kernel/random/uuid");
            write(&id, &fresh()?.replace('-', ""))?;
            write(&self.folder.join("product_uuid"), &fresh()?)?;
        }
        Ok(())
    }
}

/// Hosts with a merged `/usr` have links there, others folders.
fn link_like_the_host(root: &Path, name: &str) -> io::Result<()> {
    let place = root.join(name);
    if place.symlink_metadata().is_ok() {
        return Ok(());
    }
    match fs::read_link(Path::new("/").join(name)) {
        Ok(_) => symlink(format!("usr/{name}"), place),
        Err(_) => fs::create_dir_all(place),
    }
}

/// Copies a file or a folder; what the host does not have is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(metadata) = from.symlink_metadata() else {
        return Ok(());
    };
    if to.symlink_metadata().is_ok() {
        return Ok(());
    }
    if metadata.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if !metadata.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
