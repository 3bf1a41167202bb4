//! Where the real components and the Cluster API manifests are found.
//!
//! The only file that knows how they got there; everything else takes paths.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

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
    /// What the components are, for the key of a prepared snapshot.
    pub(crate) versions: String,
    /// Where a prepared snapshot may be kept.
    pub(crate) cache: PathBuf,
}

impl Binaries {
    /// Finds every component, or says which one is missing.
    pub(crate) fn locate() -> Result<Self, Error> {
        let folder = env::temp_dir().join("tools");
        let find = |name: &str| -> Result<PathBuf, Error> {
            let path = folder.join(name);
            path.exists().then_some(path).ok_or_else(|| Error::Missing {
                what: name.to_owned(),
            })
        };
        let binaries = Self {
            etcd: find("etcd")?,
            kube_apiserver: find("kube-apiserver")?,
            kube_controller_manager: find("kube-controller-manager")?,
            kubectl: find("kubectl")?,
            cluster_api: find("cluster-api")?,
            versions: "development".to_owned(),
            cache: env::home_dir()
                .unwrap_or_else(env::temp_dir)
                .join(".cache/butler"),
        };
        Ok(binaries)
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

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
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
