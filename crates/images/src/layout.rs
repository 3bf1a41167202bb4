//! A folder of images in the OCI image layout.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufWriter, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::{
    layer::{self, Hashing},
    recipe::Recipe,
    reference::Reference,
};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
// Not compressed: on one machine that costs more time than it saves.
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const NAME: &str = "org.opencontainers.image.ref.name";
/// Says from what an image was made, so that it is not made again.
const RECIPE: &str = "dev.butlerlabs.recipe";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why an image could not be made or read.
#[derive(Debug, Error)]
pub enum Error {
    /// A file could not be used.
    #[error("could not {action} {path:?}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of the layout says something else than it should.
    #[error("{path:?} is damaged: remove it and run the command again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// A folder of images.
#[derive(Clone, Debug)]
pub struct Layout {
    folder: PathBuf,
}

/// An image in a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Reference,
    /// The digest of its manifest.
    pub digest: String,
    /// The size of its manifest.
    pub size: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    schema_version: u32,
    media_type: String,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    manifests: Vec<Descriptor>,
}

impl Layout {
    /// The layout in a folder; it is made when the first image is.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every image there is, by name.
    pub fn images(&self) -> Result<Vec<Entry>, Error> {
        let named = |it: Descriptor| {
            let name = it.annotations.get(NAME)?.parse().ok()?;
            let (digest, size) = (it.digest, it.size);
            Some(Entry { name, digest, size })
        };
        let index = self.index()?;
        let mut entries: Vec<_> = index.manifests.into_iter().filter_map(named).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Makes every image that is not there yet, and says how many that were. Others of the layout stay.
    pub fn make(&self, recipes: &[Recipe]) -> Result<usize, Error> {
        let blobs = self.folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(failed("make", &blobs))?;
        let marker = self.folder.join("oci-layout");
        self.write_file(&marker, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let mut made = 0;
        for recipe in recipes {
            let fingerprint = fingerprint(recipe)?;
            let mut index = self.index()?;
            if self.holds(&index, recipe, &fingerprint) {
                continue;
            }
            let manifest = self.make_one(recipe)?;
            index.manifests.retain(|it| {
                let name = it.annotations.get(NAME);
                !recipe
                    .names
                    .iter()
                    .any(|own| name == Some(&own.to_string()))
            });
            for name in &recipe.names {
                let mut named = manifest.clone();
                named.annotations.insert(NAME.to_owned(), name.to_string());
                named
                    .annotations
                    .insert(RECIPE.to_owned(), fingerprint.clone());
                index.manifests.push(named);
            }
            self.write_json(&self.folder.join("index.json"), &index)?;
            made += 1;
        }
        Ok(made)
    }

    /// Removes what no image of the layout needs.
    pub fn prune(&self) -> Result<(), Error> {
        let mut needed = BTreeSet::new();
        for entry in self.images()? {
            let manifest = self.manifest(&entry.digest)?;
            needed.insert(entry.digest);
            needed.insert(manifest.config.digest);
            needed.extend(manifest.layers.into_iter().map(|layer| layer.digest));
        }
        let blobs = self.folder.join("blobs/sha256");
        for file in fs::read_dir(&blobs).map_err(failed("list", &blobs))? {
            let path = file.map_err(failed("list", &blobs))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !needed.contains(&format!("sha256:{name}")) {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }

    pub(crate) fn manifest(&self, digest: &str) -> Result<Manifest, Error> {
        read_json(&self.blob(digest))
    }

    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        let name = digest.strip_prefix("sha256:").unwrap_or(digest);
        self.folder.join("blobs/sha256").join(name)
    }

    /// Whether an image is there as it was made, by a quick look; a registry finds out the rest.
    fn holds(&self, index: &Index, recipe: &Recipe, fingerprint: &str) -> bool {
        recipe.names.iter().all(|name| {
            let name = name.to_string();
            let found = index.manifests.iter().find(|it| {
                let says = |key, value| it.annotations.get(key).is_some_and(|it| it == value);
                says(NAME, name.as_str()) && says(RECIPE, fingerprint)
            });
            found.is_some_and(|it| self.is_whole(&it.digest))
        })
    }

    fn is_whole(&self, digest: &str) -> bool {
        let Ok(manifest) = self.manifest(digest) else {
            return false;
        };
        let mut blobs = manifest.layers.iter().chain([&manifest.config]);
        blobs.all(|it| fs::metadata(self.blob(&it.digest)).is_ok_and(|file| file.len() == it.size))
    }

    fn make_one(&self, recipe: &Recipe) -> Result<Descriptor, Error> {
        let layer = self.write_layer(recipe)?;
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {
                "Env": [PATH],
                "Entrypoint": recipe.entrypoint,
                "User": recipe.user.clone().unwrap_or_default(),
            },
            "rootfs": { "type": "layers", "diff_ids": [layer.digest] },
            "history": [{ "created_by": "butler" }],
        });
        let config = self.write_blob(CONFIG, config.to_string().as_bytes())?;
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST.to_owned(),
            config,
            layers: vec![layer],
        };
        let text = json!(manifest).to_string();
        self.write_blob(MANIFEST, text.as_bytes())
    }

    fn write_layer(&self, recipe: &Recipe) -> Result<Descriptor, Error> {
        let blobs = self.folder.join("blobs/sha256");
        let file = NamedTempFile::new_in(&blobs).map_err(failed("write in", &blobs))?;
        let mut out = Hashing::new(BufWriter::with_capacity(1 << 20, file));
        layer::write(recipe, &mut out).map_err(failed("write a layer in", &blobs))?;
        let (file, digest, size) = out.end();
        let file = file
            .into_inner()
            .map_err(|error| failed("write in", &blobs)(error.into_error()))?;
        let digest = format!("sha256:{digest}");
        let blob = self.blob(&digest);
        file.persist(&blob)
            .map_err(|error| failed("write", &blob)(error.error))?;
        Ok(descriptor(LAYER, digest, size))
    }

    fn write_blob(&self, media_type: &str, content: &[u8]) -> Result<Descriptor, Error> {
        let digest = format!("sha256:{}", layer::sha256(content));
        self.write_file(&self.blob(&digest), content)?;
        Ok(descriptor(media_type, digest, content.len() as u64))
    }

    fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<(), Error> {
        self.write_file(path, json!(value).to_string().as_bytes())
    }

    /// All of it or nothing, also when we are killed.
    fn write_file(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let mut file =
            NamedTempFile::new_in(&self.folder).map_err(failed("write in", &self.folder))?;
        file.write_all(content).map_err(failed("write", path))?;
        let kept = file.persist(path);
        kept.map_err(|error| failed("write", path)(error.error))?;
        Ok(())
    }

    fn index(&self) -> Result<Index, Error> {
        let path = self.folder.join("index.json");
        if path.exists() {
            return read_json(&path);
        }
        Ok(Index {
            schema_version: 2,
            manifests: Vec::new(),
        })
    }
}

/// From what an image is made, without reading all of it: files of the toolchain never change under their name.
fn fingerprint(recipe: &Recipe) -> Result<String, Error> {
    let mut files = Vec::new();
    for file in &recipe.files {
        let metadata = fs::metadata(&file.source).map_err(failed("read", &file.source))?;
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        files.push(json!([file.target, file.source, metadata.len(), changed]));
    }
    let Recipe {
        names: _,
        files: _,
        links,
        entrypoint,
        user,
    } = recipe;
    let all = json!([files, links, entrypoint, user]).to_string();
    Ok(layer::sha256(all.as_bytes()))
}

fn descriptor(media_type: &str, digest: String, size: u64) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest,
        size,
        annotations: BTreeMap::new(),
    }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read(path).map_err(failed("read", path))?;
    serde_json::from_slice(&text).map_err(|source| Error::Damaged {
        path: path.to_owned(),
        source,
    })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File {
        action,
        path,
        source,
    }
}
