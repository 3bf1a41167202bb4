//! `kubeconfig --merge`: the access to a cluster as one more context of the file that kubectl reads.
//!
//! That file is somebody's way to all their clusters. What cannot be read is left as it is, and nobody ever finds half a
//! file.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::super::failure::{Code, Failure};

/// The lists of a kubeconfig, and what each entry holds beside its name.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// The file that kubectl writes to: the first of `$KUBECONFIG`, else the one of the person.
pub(super) fn usual_file() -> Result<PathBuf, Failure> {
    let named = env::var_os("KUBECONFIG").unwrap_or_default();
    let first = env::split_paths(&named).find(|path| !path.as_os_str().is_empty());
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".kube/config"));
    first.or_else(home).ok_or_else(|| {
        Failure::usage("there is no $KUBECONFIG and no home: name a file with --output".to_owned())
    })
}

/// Puts the access of a cluster into a file, as a context of this name.
pub(super) fn into_file(file: &Path, access: &[u8], name: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        let text = format!("could not change {}: {error}", file.display());
        Failure::new(Code::Failed, text)
    };
    let access = read("the kubeconfig of the cluster", access)?;
    // A link stays one.
    let place = match fs::canonicalize(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        found => found.map_err(failed)?,
    };
    if let Some(folder) = place.parent().filter(|it| !it.as_os_str().is_empty()) {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder);
        made.map_err(failed)?;
    }
    let _lock = Lock::of(&place)?;
    let held = match fs::read(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        held => held.map_err(failed)?,
    };
    let held = read(&place.display().to_string(), &held)?;
    let merged = merge(held, &access, name).map_err(|reason| {
        Failure::usage(format!(
            "{} was left as it is: {reason}; repair it, or name another file with --output",
            file.display()
        ))
    })?;
    let text = serde_saphyr::to_string(&merged).map_err(|error| failed(io::Error::other(error)))?;
    replace(&place, text.as_bytes()).map_err(failed)
}

/// A kubeconfig. What it holds is never repeated in a message, for there are secrets in it.
fn read(what: &str, bytes: &[u8]) -> Result<Value, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "{what} is no YAML, so that nothing was changed; `kubectl config view` says where it is broken"
        ))
    };
    let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|_| wrong())
}

/// Adds the current context of a kubeconfig to another one, or replaces the one of that name. Whatever else is there
/// stays, and so does the context that people are in: it may be their management cluster.
fn merge(held: Value, access: &Value, name: &str) -> Result<Value, String> {
    let mut held = match held {
        Value::Null => Map::new(),
        Value::Object(fields) => fields,
        _ => return Err("it is no kubeconfig but a list or a text".to_owned()),
    };
    if let Some(kind) = held.get("kind").filter(|kind| **kind != "Config") {
        return Err(format!("its kind is {kind} and not Config"));
    }
    held.entry("apiVersion").or_insert_with(|| "v1".into());
    held.entry("kind").or_insert_with(|| "Config".into());
    for ((list, part), content) in LISTS.into_iter().zip(parts(access, name)?) {
        let entries = held.entry(list).or_insert(Value::Null);
        if entries.is_null() {
            *entries = json!([]);
        }
        let entries = entries.as_array_mut();
        let entries = entries.ok_or_else(|| format!("its {list} are no list"))?;
        let entry = json!({ "name": name, part: content });
        match entries.iter_mut().find(|held| is_named(held, name)) {
            Some(held) => *held = entry,
            None => entries.push(entry),
        }
    }
    let current = held.entry("current-context").or_insert(Value::Null);
    if current.as_str().is_none_or(str::is_empty) {
        *current = name.into();
    }
    Ok(Value::Object(held))
}

/// Cluster, user and context that a kubeconfig leads to, under another name.
fn parts(access: &Value, name: &str) -> Result<[Value; 3], String> {
    let find = |list: &str, part: &str, name: Option<&Value>| {
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let entries = access.get(list).and_then(Value::as_array);
        let mut entries = entries.into_iter().flatten();
        let found = entries.find(|entry| is_named(entry, name));
        let content = found.and_then(|entry| entry.get(part)).cloned();
        content.ok_or_else(|| format!("the kubeconfig of the cluster has no {part} {name:?}"))
    };
    let mut context = find("contexts", "context", access.get("current-context"))?;
    let cluster = find("clusters", "cluster", context.get("cluster"))?;
    let user = find("users", "user", context.get("user"))?;
    if let Some(context) = context.as_object_mut() {
        context.insert("cluster".to_owned(), name.into());
        context.insert("user".to_owned(), name.into());
    }
    Ok([cluster, user, context])
}

fn is_named(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(Value::as_str) == Some(name)
}

/// Keeps kubectl, which takes the same lock, from writing at the same time.
struct Lock(PathBuf);

impl Lock {
    fn of(file: &Path) -> Result<Self, Failure> {
        let mut path = file.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => Ok(Self(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::refused(format!(
                    "somebody else is changing {}: repeat the command, and remove {} if nobody is",
                    file.display(),
                    path.display()
                )))
            }
            Err(error) => {
                let text = format!("could not lock {}: {error}", file.display());
                Err(Failure::new(Code::Failed, text))
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The next one says so.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes beside the file first, for its owner only, and puts that in its place at once.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut out: File = options.open(&beside)?;
        out.write_all(content)?;
        out.sync_all()?;
        fs::rename(&beside, file)
    };
    let written = write();
    if written.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn access(server: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "admin@demo",
            "clusters": [{"name": "demo", "cluster": {"server": server}}],
            "users": [{"name": "admin", "user": {"token": "t"}}],
            "contexts": [{"name": "admin@demo", "context": {"cluster": "demo", "user": "admin", "namespace": "x"}}],
        })
    }

    fn names(config: &Value, list: &str) -> Vec<String> {
        let entries = config[list].as_array().unwrap().iter();
        entries
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn others_stay_as_they_are_and_the_same_cluster_is_renewed() {
        let held = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "mine", "preferences": {"colors": true},
            "clusters": [{"name": "mine", "cluster": {"server": "https://mine"}, "extra": 1}],
            "users": null,
            "contexts": [{"name": "mine", "context": {"cluster": "mine", "user": "me"}}],
        });
        let once = merge(held.clone(), &access("https://one"), "team/demo").unwrap();
        let twice = merge(once.clone(), &access("https://two"), "team/demo").unwrap();
        assert_eq!(
            twice["current-context"], "mine",
            "nobody is moved elsewhere"
        );
        assert_eq!(twice["preferences"], held["preferences"]);
        assert_eq!(twice["clusters"][0], held["clusters"][0]);
        for list in ["clusters", "contexts"] {
            assert_eq!(names(&twice, list), ["mine", "team/demo"]);
        }
        assert_eq!(names(&twice, "users"), ["team/demo"]);
        assert_eq!(once["clusters"][1]["cluster"]["server"], "https://one");
        assert_eq!(twice["clusters"][1]["cluster"]["server"], "https://two");
        let context = json!({"cluster": "team/demo", "user": "team/demo", "namespace": "x"});
        assert_eq!(twice["contexts"][1]["context"], context);
    }

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_leads_to_the_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/er/config");
        into_file(
            &file,
            access("https://one").to_string().as_bytes(),
            "team/demo",
        )
        .unwrap();
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let written = read("it", &fs::read(&file).unwrap()).unwrap();
        assert_eq!(written["current-context"], "team/demo");
        let beside: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
        assert_eq!(beside.len(), 1, "no lock and no half file: {beside:?}");
    }

    #[test]
    fn a_link_stays_a_link_and_what_was_open_to_all_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real"), folder.path().join("config"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        into_file(
            &link,
            access("https://one").to_string().as_bytes(),
            "team/demo",
        )
        .unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_broken_or_locked_is_left_as_it_is_and_its_secrets_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let access = access("https://one").to_string();
        for broken in [
            "users: [{name: me, user: {token: s3cret}\n",
            "- s3cret\n",
            "kind: Secret\nstringData: {a: s3cret}\n",
            "clusters: {s3cret: 1}\n",
        ] {
            fs::write(&file, broken).unwrap();
            let failure = into_file(&file, access.as_bytes(), "team/demo").unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            let said = failure.to_string();
            assert!(
                said.contains("config") && !said.contains("s3cret"),
                "{said}"
            );
            assert_eq!(fs::read_to_string(&file).unwrap(), broken);
        }
        fs::write(&file, "").unwrap();
        let lock = folder.path().join("config.lock");
        fs::write(&lock, "").unwrap();
        let failure = into_file(&file, access.as_bytes(), "team/demo").unwrap_err();
        assert!(failure.to_string().contains("config.lock"), "{failure}");
        assert!(lock.exists(), "it is somebody else's");
    }
}
