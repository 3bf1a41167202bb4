//! The volumes of a pod as folders of this machine.
//!
//! Secrets and `ConfigMap`s are read once, when the pod starts: what changes later reaches a new pod only.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Component, Path, PathBuf},
};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection};

use super::sources::{Data, Refusal, Sources};

/// One volume, ready to be mounted.
pub(super) struct Ready {
    pub(super) folder: PathBuf,
    pub(super) read_only: bool,
}

/// Volumes by name.
pub(super) type Volumes = BTreeMap<String, Ready>;

/// One file of a volume.
struct Content {
    bytes: Vec<u8>,
    mode: u32,
}

type Files = BTreeMap<String, Content>;

const DEFAULT_MODE: i32 = 0o644;

/// Writes every volume of the pod below `folder`, readable by the pod's group if it has one.
pub(super) async fn materialise(sources: &Sources<'_>, folder: &Path) -> Result<Volumes, Refusal> {
    let spec = sources.pod.spec.as_ref();
    let group = spec
        .and_then(|spec| spec.security_context.as_ref()?.fs_group)
        .and_then(|group| u32::try_from(group).ok());
    let mut ready = Volumes::new();
    for volume in spec
        .and_then(|spec| spec.volumes.as_ref())
        .into_iter()
        .flatten()
    {
        let path = folder.join(&volume.name);
        let files = contents(sources, volume).await?;
        let written = write(&path, files.as_ref(), group);
        written.map_err(Refusal::run(&format!("write volume {:?}", volume.name)))?;
        let volume_ready = Ready {
            folder: path,
            read_only: files.is_some(),
        };
        ready.insert(volume.name.clone(), volume_ready);
    }
    Ok(ready)
}

/// The files of a volume, or nothing for one that starts empty and is written by the containers.
async fn contents(sources: &Sources<'_>, volume: &Volume) -> Result<Option<Files>, Refusal> {
    if volume.empty_dir.is_some() {
        return Ok(None);
    }
    let mut files = Files::new();
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        let data = sources.secret(name, secret.optional == Some(true)).await?;
        let mode = secret.default_mode.unwrap_or(DEFAULT_MODE);
        select(&mut files, &data, secret.items.as_deref(), mode, name)?;
    } else if let Some(map) = &volume.config_map {
        let data = sources
            .config_map(&map.name, map.optional == Some(true))
            .await?;
        let mode = map.default_mode.unwrap_or(DEFAULT_MODE);
        select(&mut files, &data, map.items.as_deref(), mode, &map.name)?;
    } else if let Some(downward) = &volume.downward_api {
        let mode = downward.default_mode.unwrap_or(DEFAULT_MODE);
        let items = downward.items.iter().flatten();
        fields(sources, &mut files, items, mode)?;
    } else if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(DEFAULT_MODE);
        for source in projected.sources.iter().flatten() {
            project(sources, &mut files, source, mode).await?;
        }
    } else {
        let message = format!("volume {:?} is of a kind this runner lacks", volume.name);
        return Err(Refusal::config(message));
    }
    Ok(Some(files))
}

async fn project(
    sources: &Sources<'_>,
    files: &mut Files,
    source: &VolumeProjection,
    mode: i32,
) -> Result<(), Refusal> {
    if let Some(secret) = &source.secret {
        let data = sources
            .secret(&secret.name, secret.optional == Some(true))
            .await?;
        select(files, &data, secret.items.as_deref(), mode, &secret.name)?;
    }
    if let Some(map) = &source.config_map {
        let data = sources
            .config_map(&map.name, map.optional == Some(true))
            .await?;
        select(files, &data, map.items.as_deref(), mode, &map.name)?;
    }
    if let Some(downward) = &source.downward_api {
        fields(sources, files, downward.items.iter().flatten(), mode)?;
    }
    if let Some(token) = &source.service_account_token {
        let bytes = sources.token(token).await?;
        put(files, &token.path, bytes, mode)?;
    }
    if source.cluster_trust_bundle.is_some() || source.pod_certificate.is_some() {
        let message = "trust bundles and pod certificates are not projected by this runner";
        return Err(Refusal::config(message));
    }
    Ok(())
}

/// Every key, or those that are listed, at the paths that are listed.
fn select(
    files: &mut Files,
    data: &Data,
    items: Option<&[KeyToPath]>,
    mode: i32,
    name: &str,
) -> Result<(), Refusal> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return data
            .iter()
            .try_for_each(|(key, bytes)| put(files, key, bytes.clone(), mode));
    };
    for item in items {
        let Some(bytes) = data.get(&item.key) else {
            let message = format!("{name:?} has no key {:?}", item.key);
            return Err(Refusal::creating(message));
        };
        put(files, &item.path, bytes.clone(), item.mode.unwrap_or(mode))?;
    }
    Ok(())
}

fn fields<'a>(
    sources: &Sources<'_>,
    files: &mut Files,
    items: impl Iterator<Item = &'a DownwardAPIVolumeFile>,
    mode: i32,
) -> Result<(), Refusal> {
    for item in items {
        let Some(field) = &item.field_ref else {
            let message = format!(
                "{:?}: resource fields are not read by this runner",
                item.path
            );
            return Err(Refusal::config(message));
        };
        let text = sources.field(&field.field_path)?;
        put(
            files,
            &item.path,
            text.into_bytes(),
            item.mode.unwrap_or(mode),
        )?;
    }
    Ok(())
}

fn put(files: &mut Files, path: &str, bytes: Vec<u8>, mode: i32) -> Result<(), Refusal> {
    let stays = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !stays {
        return Err(Refusal::config(format!("{path:?} leads out of its volume")));
    }
    let mode = u32::try_from(mode).unwrap_or_default();
    files.insert(path.to_owned(), Content { bytes, mode });
    Ok(())
}

/// Writes a volume: the given files, or an empty folder for everybody.
fn write(folder: &Path, files: Option<&Files>, group: Option<u32>) -> std::io::Result<()> {
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    fs::create_dir_all(folder)?;
    mode(folder, if files.is_some() { 0o755 } else { 0o777 })?;
    for (name, content) in files.into_iter().flatten() {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &content.bytes)?;
        let readable = if group.is_some() { 0o440 } else { 0 };
        mode(&path, content.mode | readable)?;
        owned(&path, group)?;
    }
    owned(folder, group)
}

/// Gives a file to a group, where this process may: as a mapped root it knows no group but its own.
fn owned(path: &Path, group: Option<u32>) -> std::io::Result<()> {
    match group {
        Some(group) if super::is_real_root() => chown(path, None, Some(group)),
        _ => Ok(()),
    }
}
