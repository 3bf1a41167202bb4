//! Filling a registry from a list of images, the way an air-gapped site does it.

use thiserror::Error;

use crate::{
    layout::{self, Entry, Layout},
    reference::{InvalidReference, Reference},
    registry::{Registry, RegistryError},
};

/// Why a registry could not be filled.
#[derive(Debug, Error)]
pub enum MirrorError {
    /// The layout could not be read.
    #[error("could not read the images")]
    Layout(#[from] layout::Error),
    /// Some of the list are nowhere; nothing was sent.
    #[error("not in the layout: {}; nothing was sent", names(.0))]
    Missing(Vec<Reference>),
    /// The registry did not take an image.
    #[error("could not send {name}")]
    Push {
        /// The image.
        name: Reference,
        /// Why.
        #[source]
        source: Box<RegistryError>,
    },
}

/// How one image went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The image.
    pub name: Reference,
    /// Whether it had to be sent: it may have been there.
    pub sent: bool,
}

/// The images of a list: one name a line; empty lines and what follows a `#` do not count.
pub fn parse_list(text: &str) -> Result<Vec<Reference>, InvalidReference> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(str::parse)
        .collect()
}

/// Sends every image of the list, or all of the layout without one, and tells about each.
///
/// What is missing is said before anything is sent. Sending again is quick, so this can be run again after a failure.
pub async fn mirror(
    layout: &Layout,
    list: Option<&[Reference]>,
    registry: &Registry,
    mut tell: impl FnMut(&Sent),
) -> Result<(), MirrorError> {
    let held = layout.images()?;
    for entry in choose(held, list)? {
        let sent = registry.push(layout, &entry).await;
        let name = entry.name;
        match sent {
            Ok(sent) => tell(&Sent { name, sent }),
            Err(source) => {
                let source = Box::new(source);
                return Err(MirrorError::Push { name, source });
            }
        }
    }
    Ok(())
}

fn choose(held: Vec<Entry>, list: Option<&[Reference]>) -> Result<Vec<Entry>, MirrorError> {
    let Some(list) = list else { return Ok(held) };
    let find = |name: &Reference| held.iter().find(|entry| entry.name == *name).cloned();
    let missing: Vec<_> = list
        .iter()
        .filter(|name| find(name).is_none())
        .cloned()
        .collect();
    if !missing.is_empty() {
        return Err(MirrorError::Missing(missing));
    }
    Ok(list.iter().filter_map(find).collect())
}

fn names(references: &[Reference]) -> String {
    let names: Vec<_> = references.iter().map(ToString::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_have_comments_and_empty_lines() {
        let text =
            "# core\nregistry.k8s.io/pause:3.10.1  # sandbox\n\nregistry.k8s.io/etcd:v3.6.16\n";
        let names: Vec<_> = parse_list(text)
            .unwrap()
            .iter()
            .map(Reference::to_string)
            .collect();
        let wanted = [
            "registry.k8s.io/pause:3.10.1",
            "registry.k8s.io/etcd:v3.6.16",
        ];
        assert_eq!(names, wanted);
        assert!(parse_list("pause").is_err());
    }

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let list = parse_list("a.io/one:1\na.io/two:2\na.io/three:3").unwrap();
        let entry = |name: &Reference| Entry {
            name: name.clone(),
            digest: String::new(),
            size: 0,
        };
        let error = choose(vec![entry(&list[1])], Some(&list)).unwrap_err();
        assert!(
            error.to_string().contains("a.io/one:1, a.io/three:3"),
            "{error}"
        );
        let chosen = choose(list.iter().map(entry).collect(), Some(&list[..1])).unwrap();
        assert_eq!(chosen, [entry(&list[0])]);
    }
}
