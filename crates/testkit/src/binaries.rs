//! Where the real components and the Cluster API manifests are found.
//!
//! The only file that knows how they got there; everything else takes paths.

use std::{
    fs,
    path::{Path, PathBuf},
};

use butler_toolchain::Toolchain;

use crate::server::Error;

/// The components one server is made of.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    pub(crate) etcd: PathBuf,
    pub(crate) kube_apiserver: PathBuf,
    pub(crate) kube_controller_manager: PathBuf,
    pub(crate) kubectl: PathBuf,
    /// Folder with the `config` and `bootstrap` trees of Cluster API.
    pub(crate) cluster_api: PathBuf,
    /// Where prepared snapshots are kept.
    pub(crate) cache: PathBuf,
}

impl Binaries {
    /// Finds every component in the user's tool cache, or says which one is missing.
    pub(crate) fn locate() -> Result<Self, Error> {
        let toolchain = Toolchain::locate().map_err(Error::toolchain)?;
        let find = |name: &str| toolchain.binary(name, None).map_err(Error::toolchain);
        let folder = toolchain.folder();
        let cache = folder.parent().unwrap_or(folder);
        Ok(Self {
            etcd: find("etcd")?,
            kube_apiserver: find("kube-apiserver")?,
            kube_controller_manager: find("kube-controller-manager")?,
            kubectl: find("kubectl")?,
            cluster_api: toolchain
                .cluster_api_manifests()
                .map_err(Error::toolchain)?,
            cache: cache.join("testkit"),
        })
    }

    /// What the components are, for the name of a snapshot: the tool cache keeps versions apart by path.
    pub(crate) fn versions(&self) -> String {
        let components = [
            &self.etcd,
            &self.kube_apiserver,
            &self.kube_controller_manager,
        ];
        components.map(|path| path.display().to_string()).join(" ")
    }

    /// The Cluster API definitions of the core and of the kubeadm bootstrap provider.
    pub(crate) fn cluster_api_definitions(&self) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        for part in ["config/crd/bases", "bootstrap/kubeadm/config/crd/bases"] {
            files.extend(yaml_files(&self.cluster_api.join(part))?);
        }
        files.sort();
        Ok(files)
    }
}

pub(crate) fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file("list", folder))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::file("list", folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            files.push(path);
        }
    }
    Ok(files)
}
