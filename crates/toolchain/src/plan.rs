//! Where an artifact is taken from: the order of the sources, written once.
//!
//! Pure. Facts go in, the next step comes out; whoever asks carries the step out, adds what was learned and asks
//! again, until the step is [`Step::Keep`], a source has delivered, or nothing is left to try.

use std::path::PathBuf;

/// Something that may be known, and may be so or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// Nobody has looked yet.
    Unknown,
    /// It is there.
    Present(T),
    /// It is not, or cannot be used, because of this.
    Absent(String),
}

/// A place an official release can be downloaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub url: String,
    /// The file with its SHA-256.
    pub checksum_url: String,
}

/// A place, and why it did not deliver if it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The place.
    pub place: Place,
    /// Why it failed, once it has.
    pub failed: Option<String>,
}

/// What is known about one artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether the cache holds it and its receipt matches.
    pub cached: bool,
    /// A program of that name and version on PATH.
    pub on_path: Fact<PathBuf>,
    /// Places to download from, best first.
    pub offers: Vec<Offer>,
    /// The `go` command.
    pub go: Fact<PathBuf>,
    /// Why building failed, once it has.
    pub build_failed: Option<String>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is installed.
    Keep,
    /// Find out whether PATH has it.
    SearchPath,
    /// Link this program into the cache.
    Link(PathBuf),
    /// Download it from here.
    Download(Place),
    /// Find out whether there is a `go` command.
    FindGo,
    /// Build it with this `go`.
    Build(PathBuf),
    /// No source is left; why each of them could not deliver.
    GiveUp(Vec<String>),
}

/// The next step for an artifact of which `facts` are known.
pub fn next_step(facts: &Facts) -> Step {
    let Facts {
        cached,
        on_path,
        offers,
        go,
        build_failed,
    } = facts;
    if *cached {
        return Step::Keep;
    }
    match on_path {
        Fact::Unknown => return Step::SearchPath,
        Fact::Present(program) => return Step::Link(program.clone()),
        Fact::Absent(_) => {}
    }
    if let Some(offer) = offers.iter().find(|offer| offer.failed.is_none()) {
        return Step::Download(offer.place.clone());
    }
    match (go, build_failed) {
        (Fact::Unknown, _) => Step::FindGo,
        (Fact::Present(go), None) => Step::Build(go.clone()),
        (Fact::Present(_) | Fact::Absent(_), _) => Step::GiveUp(reasons(facts)),
    }
}

fn reasons(facts: &Facts) -> Vec<String> {
    let Facts {
        cached: _,
        on_path,
        offers,
        go,
        build_failed,
    } = facts;
    let absent = |fact: &Fact<PathBuf>| match fact {
        Fact::Absent(reason) => Some(reason.clone()),
        Fact::Unknown | Fact::Present(_) => None,
    };
    absent(on_path)
        .into_iter()
        .chain(offers.iter().filter_map(|offer| offer.failed.clone()))
        .chain(absent(go))
        .chain(build_failed.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(host: &str, failed: Option<&str>) -> Offer {
        Offer {
            place: place(host),
            failed: failed.map(str::to_owned),
        }
    }

    fn place(host: &str) -> Place {
        Place {
            url: format!("https://{host}/f"),
            checksum_url: format!("https://{host}/f.sha256"),
        }
    }

    fn absent(reason: &str) -> Fact<PathBuf> {
        Fact::Absent(reason.to_owned())
    }

    fn present(path: &str) -> Fact<PathBuf> {
        Fact::Present(path.into())
    }

    /// Nothing looked at yet, two places to download from.
    fn unknown() -> Facts {
        Facts {
            cached: false,
            on_path: Fact::Unknown,
            offers: vec![offer("mirror", None), offer("official", None)],
            go: Fact::Unknown,
            build_failed: None,
        }
    }

    #[test]
    fn sources_are_used_in_their_order() {
        let no_path = Facts {
            on_path: absent("no etcd on PATH"),
            ..unknown()
        };
        let no_download = Facts {
            offers: vec![
                offer("mirror", Some("404")),
                offer("official", Some("unreachable")),
            ],
            ..no_path.clone()
        };
        let table = [
            (
                "the cache comes first",
                Facts {
                    cached: true,
                    ..unknown()
                },
                Step::Keep,
            ),
            (
                "even when PATH has it too",
                Facts {
                    cached: true,
                    on_path: present("/bin/etcd"),
                    ..unknown()
                },
                Step::Keep,
            ),
            ("then PATH is searched", unknown(), Step::SearchPath),
            (
                "what PATH has is linked",
                Facts {
                    on_path: present("/bin/etcd"),
                    ..unknown()
                },
                Step::Link("/bin/etcd".into()),
            ),
            (
                "then the first place is asked",
                no_path.clone(),
                Step::Download(place("mirror")),
            ),
            (
                "then the next",
                Facts {
                    offers: vec![offer("mirror", Some("404")), offer("official", None)],
                    ..no_path.clone()
                },
                Step::Download(place("official")),
            ),
            ("then go is looked for", no_download.clone(), Step::FindGo),
            (
                "what nobody publishes is built at once",
                Facts {
                    offers: vec![],
                    ..no_path
                },
                Step::FindGo,
            ),
            (
                "and used",
                Facts {
                    go: present("/go"),
                    ..no_download.clone()
                },
                Step::Build("/go".into()),
            ),
            (
                "without go every reason is told",
                Facts {
                    go: absent("no go"),
                    ..no_download.clone()
                },
                Step::GiveUp(
                    ["no etcd on PATH", "404", "unreachable", "no go"]
                        .map(str::to_owned)
                        .into(),
                ),
            ),
            (
                "a build that failed is not tried again",
                Facts {
                    go: present("/go"),
                    build_failed: Some("exit 1".into()),
                    ..no_download
                },
                Step::GiveUp(
                    ["no etcd on PATH", "404", "unreachable", "exit 1"]
                        .map(str::to_owned)
                        .into(),
                ),
            ),
        ];
        for (case, facts, expected) in table {
            assert_eq!(next_step(&facts), expected, "{case}");
        }
    }

    #[test]
    fn a_failing_world_ends_after_a_bounded_number_of_steps() {
        let mut facts = unknown();
        for _ in 0..10 {
            match next_step(&facts) {
                Step::SearchPath => facts.on_path = present("/bin/etcd"),
                Step::Link(_) => facts.on_path = absent("cannot link"),
                Step::Download(place) => {
                    let tried = facts
                        .offers
                        .iter_mut()
                        .find(|it| it.place == place)
                        .unwrap();
                    tried.failed = Some("down".into());
                }
                Step::FindGo => facts.go = present("/go"),
                Step::Build(_) => facts.build_failed = Some("exit 1".into()),
                Step::GiveUp(reasons) => return assert_eq!(reasons.len(), 4),
                Step::Keep => panic!("nothing was installed"),
            }
        }
        panic!("no end");
    }
}
