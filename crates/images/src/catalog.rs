//! Which images the platform needs, and from which programs they are made.
//!
//! Names are those that Kubernetes itself uses, so nodes and control planes ask for them without being told, and a
//! site that has real mirrors needs no other list.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use butler_toolchain::{Toolchain, Version};
use thiserror::Error;

use crate::{
    addons,
    closure::{closure, closure_of_all},
    recipe::{File, Recipe},
    reference::Reference,
};

/// Where Kubernetes publishes its images.
pub(crate) const KUBERNETES: &str = "registry.k8s.io";
/// Where Butler's own images are published.
const BUTLER: &str = "ghcr.io/butlerdotdev";
/// The image every pod's sandbox is made of.
pub const PAUSE: &str = "registry.k8s.io/pause:3.10.1";
/// `CoreDNS` as control planes of the pinned minors name it. It is one program here, whatever the name says.
const CORE_DNS_TAGS: [&str; 2] = ["v1.13.1", "v1.12.1"];

/// iptables over nftables, under all its names.
const IPTABLES: &str = "xtables-nft-multi";

/// Why the images cannot be made.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// A program of the toolchain is missing.
    #[error(transparent)]
    Toolchain(#[from] butler_toolchain::Error),
    /// A program of this machine is missing.
    #[error("{program:?} is needed in an image and was not found: install package {package}")]
    Program {
        /// The program.
        program: &'static str,
        /// What brings it.
        package: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The pause program could not be built.
    #[error("could not build the pause program with cc: {said}")]
    Pause {
        /// What the compiler said.
        said: String,
    },
}

/// The programs that are not part of the toolchain.
#[derive(Clone, Debug)]
pub struct Extras {
    /// Our own binary, and the tag of its image.
    pub butler: Option<(PathBuf, String)>,
    /// A folder in which the pause program may be built.
    pub work: PathBuf,
}

/// Every image of the platform, for some versions of Kubernetes.
pub fn platform(
    toolchain: &Toolchain,
    kubernetes: &[Version],
    extras: &Extras,
) -> Result<Vec<Recipe>, CatalogError> {
    let mut recipes = vec![pause(&extras.work)?];
    for version in kubernetes {
        for name in [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
        ] {
            recipes.push(component(toolchain, name, *version)?);
        }
        recipes.push(kube_proxy(toolchain, *version)?);
    }
    recipes.push(etcd(toolchain)?);
    recipes.push(core_dns(toolchain)?);
    recipes.extend(cluster_api(toolchain)?);
    recipes.extend(addons::recipes(toolchain)?);
    if let Some((program, version)) = &extras.butler {
        let reference = named(BUTLER, "butler", version);
        // Addons are installed by it (ADR 0029).
        let helm = File {
            target: "/usr/local/bin/helm".to_owned(),
            source: toolchain.binary("helm", None)?,
        };
        let mut recipe = Recipe::program(vec![reference], "/butler", program.clone());
        recipe = recipe.with(libraries(program)?).with([helm]);
        recipe.user = Some("65532:65532".to_owned());
        recipes.push(recipe);
    }
    Ok(recipes)
}

fn component(toolchain: &Toolchain, name: &str, version: Version) -> Result<Recipe, CatalogError> {
    let program = toolchain.binary(name, Some(version))?;
    let reference = named(KUBERNETES, name, &version.to_string());
    let target = format!("/usr/local/bin/{name}");
    Ok(Recipe::program(vec![reference], &target, program))
}

/// With what it runs in either of its modes, as upstream's image has it.
fn kube_proxy(toolchain: &Toolchain, version: Version) -> Result<Recipe, CatalogError> {
    let mut recipe = component(toolchain, "kube-proxy", version)?
        .with(system_program("nft", "nftables")?)
        .with(system_program("conntrack", "conntrack")?)
        .with(system_program(IPTABLES, "iptables")?)
        .with(iptables_extensions()?);
    // The program does what its name says.
    for family in ["iptables", "ip6tables"] {
        for verb in ["", "-save", "-restore"] {
            let link = format!("/usr/sbin/{family}{verb}");
            recipe.links.push((link, IPTABLES.to_owned()));
        }
    }
    Ok(recipe)
}

/// What iptables loads by the names of matches and targets, which no list of libraries shows.
fn iptables_extensions() -> Result<Vec<File>, CatalogError> {
    let missing = |source| CatalogError::Program {
        program: IPTABLES,
        package: "iptables",
        source,
    };
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let folders = folders.map(|folder| Path::new(folder).join("xtables"));
    let found = folders.into_iter().find(|folder| folder.is_dir());
    let folder = found.ok_or_else(|| missing(io::ErrorKind::NotFound.into()))?;
    let entries = fs::read_dir(&folder).map_err(missing)?;
    let paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    closure_of_all(&paths).map_err(missing)
}

fn etcd(toolchain: &Toolchain) -> Result<Recipe, CatalogError> {
    let version = pinned(toolchain, "etcd");
    let reference = named(KUBERNETES, "etcd", &version);
    let program = toolchain.binary("etcd", None)?;
    let tool = File {
        target: "/usr/local/bin/etcdctl".to_owned(),
        source: toolchain.binary("etcdctl", None)?,
    };
    Ok(Recipe::program(vec![reference], "/usr/local/bin/etcd", program).with([tool]))
}

fn core_dns(toolchain: &Toolchain) -> Result<Recipe, CatalogError> {
    let version = pinned(toolchain, "coredns");
    let tags = CORE_DNS_TAGS.into_iter().chain([version.as_str()]);
    let names = tags.map(|tag| named(KUBERNETES, "coredns/coredns", tag));
    let program = toolchain.binary("coredns", None)?;
    Ok(Recipe::program(names.collect(), "/coredns", program))
}

fn cluster_api(toolchain: &Toolchain) -> Result<Vec<Recipe>, CatalogError> {
    let version = pinned(toolchain, "cluster-api-manager");
    let managers = [
        ("cluster-api-manager", "cluster-api/cluster-api-controller"),
        (
            "kubeadm-bootstrap-manager",
            "cluster-api/kubeadm-bootstrap-controller",
        ),
    ];
    let recipe = |(name, repository): (&str, &str)| {
        let program = toolchain.binary(name, None)?;
        let reference = named(KUBERNETES, repository, &version);
        let mut recipe = Recipe::program(vec![reference], "/manager", program);
        recipe.user = Some("65532:65532".to_owned());
        Ok(recipe)
    };
    managers.into_iter().map(recipe).collect()
}

/// The version of the first pinned component with this artifact.
pub(crate) fn pinned(toolchain: &Toolchain, artifact: &str) -> String {
    let known = toolchain.status();
    let found = known.iter().find(|it| it.name == artifact);
    found.map_or_else(String::new, |it| it.version.to_string())
}

pub(crate) fn named(registry: &str, repository: &str, tag: &str) -> Reference {
    written(&format!("{registry}/{repository}:{tag}"))
}

pub(crate) fn written(name: &str) -> Reference {
    name.parse()
        .expect("the names of this file are well formed")
}

pub(crate) fn system_program(
    program: &'static str,
    package: &'static str,
) -> Result<Vec<File>, CatalogError> {
    let missing = |source| CatalogError::Program {
        program,
        package,
        source,
    };
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(program));
    let found = found.into_iter().find(|path| path.is_file());
    let path = found.ok_or_else(|| missing(io::ErrorKind::NotFound.into()))?;
    closure(&path).map_err(missing)
}

/// What a program needs besides itself; nothing if it is linked statically.
fn libraries(program: &Path) -> Result<Vec<File>, CatalogError> {
    let found = closure(program).map_err(|source| CatalogError::Program {
        program: "ldd",
        package: "libc-bin",
        source,
    })?;
    let own = program.display().to_string();
    Ok(found
        .into_iter()
        .filter(|file| file.target != own)
        .collect())
}

/// The sandbox's program is a page of C: no release of it is published as a file.
fn pause(work: &Path) -> Result<Recipe, CatalogError> {
    let failed = |said: String| CatalogError::Pause { said };
    let program = work.join("pause");
    let source = work.join("pause.c");
    let text = include_str!("pause.c");
    if !(program.exists() && fs::read_to_string(&source).is_ok_and(|held| held == text)) {
        fs::create_dir_all(work).map_err(|error| failed(error.to_string()))?;
        let _ = fs::remove_file(&source);
        let draft = work.join("pause.draft.c");
        fs::write(&draft, text).map_err(|error| failed(error.to_string()))?;
        let output = Command::new("cc")
            .args(["-Os", "-static", "-s", "-o"])
            .arg(&program)
            .arg(&draft)
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        // The source last: it says that the program was made from it.
        fs::rename(&draft, &source).map_err(|error| failed(error.to_string()))?;
    }
    let reference = written(PAUSE);
    Ok(Recipe::program(vec![reference], "/pause", program))
}
