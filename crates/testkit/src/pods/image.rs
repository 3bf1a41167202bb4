//! A container as a folder and a shell script: where an image's program is, what else is around it, what is
//! mounted where, and as whom it runs.
//!
//! As in the images of Kubernetes itself there is one program and no shell. User, groups and a read-only root are
//! honoured; capabilities, seccomp, resource limits and privilege escalation are not, on purpose: nothing here
//! protects this machine from a test.

use std::{
    fmt::Write as _,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use butler_toolchain::Toolchain;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{environment::Environment, sources::Refusal, volumes::Volumes};
use crate::guardian::quoted;

/// An image that is known here.
pub(super) struct Image {
    name: String,
    program: PathBuf,
}

impl Image {
    /// `any.registry/any/path/<name>:<version>` is the program of that name and version in the toolchain.
    pub(super) fn find(toolchain: &Toolchain, reference: &str) -> Result<Self, Refusal> {
        let refused = |message: String| Refusal {
            reason: "ErrImagePull",
            message: format!("image {reference:?}: {message}"),
        };
        let last = reference.rsplit('/').next().unwrap_or_default();
        let (name, tag) = last
            .split_once(':')
            .ok_or_else(|| refused("it has no tag".to_owned()))?;
        let version = tag.parse().map_err(|error| refused(format!("{error}")))?;
        let program = toolchain.binary(name, Some(version));
        let program = program.map_err(|error| refused(error.to_string()))?;
        let program = fs::canonicalize(program).map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            program,
        })
    }

    /// What the image runs when the container names no command.
    pub(super) fn entrypoint(&self) -> String {
        format!("/usr/local/bin/{}", self.name)
    }
}

/// Who a container's processes are; nothing means root.
pub(super) struct Identity {
    user: Option<i64>,
    group: Option<i64>,
    groups: Vec<i64>,
}

impl Identity {
    pub(super) fn of(pod: &Pod, container: &Container) -> Result<Self, Refusal> {
        let own = container.security_context.as_ref();
        let shared = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.security_context.as_ref());
        let user = own
            .and_then(|it| it.run_as_user)
            .or_else(|| shared.and_then(|it| it.run_as_user));
        let group = own
            .and_then(|it| it.run_as_group)
            .or_else(|| shared.and_then(|it| it.run_as_group));
        let non_root = own
            .and_then(|it| it.run_as_non_root)
            .or_else(|| shared.and_then(|it| it.run_as_non_root));
        if non_root == Some(true) && user.unwrap_or(0) == 0 {
            let message = "container has runAsNonRoot and image will run as root";
            return Err(Refusal::config(message));
        }
        let more = shared.and_then(|it| it.supplemental_groups.clone());
        let mut groups = more.unwrap_or_default();
        groups.extend(shared.and_then(|it| it.fs_group));
        Ok(Self {
            user,
            group,
            groups,
        })
    }

    /// The words that change the root and become this user.
    fn enter(&self, working_dir: Option<&str>) -> Result<String, Refusal> {
        let working_dir = working_dir.filter(|folder| !folder.is_empty() && *folder != "/");
        let (user, group) = (self.user.unwrap_or(0), self.group.unwrap_or(0));
        let groups: Vec<String> = self.groups.iter().map(ToString::to_string).collect();
        // A mapped root is nobody but root.
        let switch = super::is_real_root();
        match working_dir {
            None if switch => Ok(format!(
                "\"$chroot\" --userspec={user}:{group} --groups={} \"$root\"",
                groups.join(",")
            )),
            None => Ok("\"$chroot\" \"$root\"".to_owned()),
            Some(_) if switch && !groups.is_empty() => Err(Refusal::config(
                "this runner cannot give a container both a working folder and more groups",
            )),
            Some(folder) => {
                let ids = format!("--setuid={user} --setgid={group}");
                let ids = if switch { ids.as_str() } else { "" };
                let folder = quoted(folder);
                Ok(format!("\"$unshare\" {ids} --root=\"$root\" --wd={folder}"))
            }
        }
    }
}

/// Everything one start of a container needs.
pub(super) struct Start<'a> {
    /// Unlike any other of the pod.
    pub(super) name: &'a str,
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    pub(super) image: &'a Image,
    pub(super) volumes: &'a Volumes,
    pub(super) environment: &'a Environment,
    pub(super) command: &'a [String],
    /// Becomes the container's root.
    pub(super) root: &'a Path,
    pub(super) log: &'a Path,
}

impl Start<'_> {
    /// Makes the container's root and the script that turns into its program.
    pub(super) fn prepare(&self) -> Result<String, Refusal> {
        let made = self.make_root();
        made.map_err(Refusal::run("make the container's root"))?;
        let identity = Identity::of(self.pod, self.container)?;
        let context = self.container.security_context.as_ref();
        let read_only = context.and_then(|it| it.read_only_root_filesystem) == Some(true);
        let program = quoted(&self.image.program.display().to_string());
        let mut script = format!("exec 3>&1 >>{} 2>&1\nset -e\n", path(self.log));
        let _ = writeln!(script, "root={}", path(self.root));
        if read_only {
            script.push_str("mount --bind \"$root\" \"$root\"\n");
        }
        script.push_str("mount --rbind /dev \"$root/dev\"\nmount -t proc proc \"$root/proc\"\n");
        let entrypoint = self.image.entrypoint();
        let _ = writeln!(script, "mount --bind -o ro {program} \"$root\"{entrypoint}");
        script.push_str(&self.mounts()?);
        if read_only {
            script.push_str("mount -o remount,bind,ro \"$root\"\n");
        }
        script.push_str("chroot=$(command -v chroot)\nunshare=$(command -v unshare)\n");
        let enter = identity.enter(self.container.working_dir.as_deref())?;
        script.push_str(&become_program(
            self.name,
            self.environment,
            &enter,
            self.command,
        ));
        Ok(script)
    }

    /// What every container has besides its program: folders to mount on, and files programs look for.
    fn make_root(&self) -> io::Result<()> {
        for folder in ["dev", "proc", "tmp", "etc", "run", "var", "usr/local/bin"] {
            fs::create_dir_all(self.root.join(folder))?;
        }
        fs::set_permissions(self.root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
        fs::write(self.root.join("usr/local/bin").join(&self.image.name), "")?;
        let mut hosts = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        let spec = self.pod.spec.as_ref();
        let aliases = spec.and_then(|spec| spec.host_aliases.as_ref());
        for alias in aliases.into_iter().flatten() {
            let names = alias.hostnames.clone().unwrap_or_default().join(" ");
            let _ = writeln!(hosts, "{} {names}", alias.ip);
        }
        let users = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/:/sbin/nologin\n";
        let files = [
            ("hosts", hosts.as_str()),
            ("passwd", users),
            ("group", "root:x:0:\nnonroot:x:65532:\n"),
            ("nsswitch.conf", "hosts: files\n"),
            // Nobody answers: a name that is not in `hosts` fails at once.
            ("resolv.conf", "nameserver 127.0.0.1\n"),
        ];
        files
            .into_iter()
            .try_for_each(|(name, text)| fs::write(self.root.join("etc").join(name), text))
    }

    /// The lines that mount the volumes, outer ones first.
    fn mounts(&self) -> Result<String, Refusal> {
        let mut mounts = self.container.volume_mounts.clone().unwrap_or_default();
        mounts.sort_by_key(|mount| mount.mount_path.trim_end_matches('/').len());
        let mut lines = String::new();
        for mount in &mounts {
            let Some(volume) = self.volumes.get(&mount.name) else {
                return Err(Refusal::config(format!(
                    "there is no volume {:?}",
                    mount.name
                )));
            };
            if mount.sub_path_expr.is_some() {
                return Err(Refusal::config("subPathExpr is not known to this runner"));
            }
            let source = mount.sub_path.as_ref();
            let source = source.map_or_else(|| volume.folder.clone(), |it| volume.folder.join(it));
            if !source.exists() && !volume.read_only {
                let made = fs::create_dir_all(&source);
                made.map_err(Refusal::run("make the folder of a subPath"))?;
            }
            let target = format!("\"$root\"{}", quoted(&mount.mount_path));
            // A mount point inside of another volume cannot be made before that is mounted.
            let make = if source.is_dir() {
                format!("mkdir -p {target}")
            } else {
                format!("{{ mkdir -p \"$(dirname {target})\"; : >{target}; }}")
            };
            let read_only = volume.read_only || mount.read_only == Some(true);
            let options = if read_only { "-o ro" } else { "" };
            let source = path(&source);
            let _ = writeln!(lines, "[ -e {target} ] || {make}");
            let _ = writeln!(lines, "mount --bind {options} {source} {target}");
        }
        Ok(lines)
    }
}

/// The script of a command that runs in a container which is running.
pub(super) fn exec_script(
    name: &str,
    pid: u32,
    identity: &Identity,
    environment: &Environment,
    command: &[String],
    log: &Path,
) -> String {
    let mut script = format!("exec 3>&1 >>{} 2>&1\n", path(log));
    script.push_str("nsenter=$(command -v nsenter)\n");
    let (user, group) = (identity.user.unwrap_or(0), identity.group.unwrap_or(0));
    let ids = format!("--setuid={user} --setgid={group}");
    let ids = if super::is_real_root() {
        ids.as_str()
    } else {
        ""
    };
    let enter = format!("\"$nsenter\" --target={pid} --mount --root --wd {ids} --");
    script.push_str(&become_program(name, environment, &enter, command));
    script
}

fn become_program(
    name: &str,
    environment: &Environment,
    enter: &str,
    command: &[String],
) -> String {
    let mut line = format!("echo \"started {name} $$\" >&3\nexec env -i");
    for (name, value) in environment {
        let _ = write!(line, " {}", quoted(&format!("{name}={value}")));
    }
    let _ = write!(line, " {enter}");
    for word in command {
        let _ = write!(line, " {}", quoted(word));
    }
    line.push_str(" 3>&-\n");
    line
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}
