//! What the user's environment says about the toolchain. The only place that reads environment variables.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::manifest::Manifest;

/// The environment does not say where the cache folder is.
#[derive(Debug, thiserror::Error)]
#[error("there is no folder for the toolchain: set BUTLER_CACHE, XDG_CACHE_HOME or HOME")]
pub struct NoCacheFolder;

/// Everything an installation depends on besides the files themselves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Butler's cache folder; the toolchain is the folder `toolchain` in it.
    pub cache_dir: PathBuf,
    /// The folders of PATH.
    pub search_path: Vec<PathBuf>,
    /// A server that holds copies of the official releases, as `<mirror>/<host>/<path>`; asked before the hosts.
    pub mirror: Option<String>,
    /// Go's settings file of the user.
    pub go_settings: Option<PathBuf>,
    /// The pins.
    pub manifest: Manifest,
}

impl Settings {
    /// What the environment of this process says, with the built-in pins.
    pub fn from_env() -> Result<Self, NoCacheFolder> {
        let cache_dir = cache_folder(|name| env::var_os(name)).ok_or(NoCacheFolder)?;
        Ok(Self::in_folder(cache_dir))
    }

    /// As [`Settings::from_env`], with another cache folder.
    pub fn in_folder(cache_dir: PathBuf) -> Self {
        let variable = |name: &str| env::var_os(name);
        Self {
            cache_dir,
            search_path: variable("PATH").iter().flat_map(env::split_paths).collect(),
            mirror: env::var("BUTLER_TOOLCHAIN_MIRROR")
                .ok()
                .filter(|it| !it.is_empty()),
            go_settings: go_settings(variable),
            manifest: Manifest::builtin(),
        }
    }
}

/// An unset and an empty variable mean the same.
fn folder(variable: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    variable(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    folder(&variable, "BUTLER_CACHE")
        .and_then(|path| std::path::absolute(path).ok())
        .or_else(|| {
            // The XDG rules: a relative path is to be ignored.
            let caches = folder(&variable, "XDG_CACHE_HOME").filter(absolute);
            caches.map(|path| path.join("butler"))
        })
        .or_else(|| Some(folder(&variable, "HOME")?.join(".cache/butler")))
}

fn go_settings(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    folder(&variable, "GOENV").or_else(|| {
        let configs = folder(&variable, "XDG_CONFIG_HOME")
            .or_else(|| Some(folder(&variable, "HOME")?.join(".config")))?;
        Some(configs.join(Path::new("go/env")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        let set: Vec<_> = set
            .iter()
            .map(|(k, v)| ((*k).to_owned(), OsString::from(v)))
            .collect();
        move |name| {
            set.iter()
                .find(|(k, _)| k == name)
                .map(|(_, value)| value.clone())
        }
    }

    #[test]
    fn the_cache_folder_is_the_most_specific_one_that_is_set() {
        let (own, xdg, home) = (
            ("BUTLER_CACHE", "/own"),
            ("XDG_CACHE_HOME", "/xdg"),
            ("HOME", "/home/me"),
        );
        for (set, expected) in [
            (vec![own, xdg, home], Some("/own")),
            (vec![xdg, home], Some("/xdg/butler")),
            (vec![home], Some("/home/me/.cache/butler")),
            (
                vec![("BUTLER_CACHE", ""), ("XDG_CACHE_HOME", "relative"), home],
                Some("/home/me/.cache/butler"),
            ),
            (vec![], None),
        ] {
            assert_eq!(
                cache_folder(environment(&set)),
                expected.map(PathBuf::from),
                "{set:?}"
            );
        }
    }

    #[test]
    fn the_settings_file_of_go_is_found_where_go_would_find_it() {
        for (set, expected) in [
            (vec![("GOENV", "off"), ("HOME", "/h")], Some("off")),
            (
                vec![("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")],
                Some("/c/go/env"),
            ),
            (vec![("HOME", "/h")], Some("/h/.config/go/env")),
            (vec![], None),
        ] {
            assert_eq!(
                go_settings(environment(&set)),
                expected.map(PathBuf::from),
                "{set:?}"
            );
        }
    }
}
