//! A small world for installers: a cache folder, a PATH, fake programs and a file server, all temporary.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use butler_toolchain::{
    Error, GoModule, Installed, Manifest, Progress, Selection, Settings, Toolchain, progress::Event,
};
use sha2::{Digest, Sha256};

/// What the fake programs of the tests report.
pub(crate) const PINNED: &str = "#!/bin/sh\necho tool v1.2.3\n";
pub(crate) const OTHER: &str = "#!/bin/sh\necho tool v1.2.2\n";

/// Nothing listens on port 1 of the loopback address.
pub(crate) const NOBODY: &str = "http://127.0.0.1:1";

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) mirror: Option<String>,
    /// Where `tool` and `pack` are officially published.
    pub(crate) official: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        Self {
            folder,
            mirror: None,
            official: NOBODY.to_owned(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn toolchain(&self) -> Toolchain {
        Toolchain::with_settings(self.settings())
    }

    pub(crate) fn settings(&self) -> Settings {
        settings(self.folder.path(), &self.official, self.mirror.clone())
    }

    pub(crate) fn ensure(&self, name: &str) -> Result<Installed, Error> {
        self.toolchain().ensure(&named(name), &Recorder::default())
    }

    /// Puts a script on PATH.
    pub(crate) fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path("bin").join(name);
        script_at(&path, script);
        path
    }

    /// Puts a `go` on PATH that builds programs which print `reported`, and notes each call.
    pub(crate) fn fake_go(&self, reported: &str) {
        let log = self.path("go.log");
        self.program(
            "go",
            &format!(
                "#!/bin/sh\n\
                 echo \"$@\" >> {log}\n\
                 for last; do [ \"$previous\" = -o ] && out=$last; previous=$last; done\n\
                 if [ \"$1\" = mod ]; then echo '{{\"Dir\": \"{module}\"}}'; exit; fi\n\
                 printf '#!/bin/sh\\necho {reported}\\n' > \"$out\"; chmod +x \"$out\"\n",
                log = log.display(),
                module = self.path("module").display(),
            ),
        );
    }

    /// The calls of the fake `go`.
    pub(crate) fn go_calls(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("go.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

/// Settings of a world in `folder`; another process can have the same.
pub(crate) fn settings(folder: &Path, official: &str, mirror: Option<String>) -> Settings {
    let pins = format!(
        r#"
        [[component]]
        name = "tool"
        version = "v1.2.3"
        module = "m"
        ldflags = ["-X v={{version}}"]
        download = {{ url = "{official}/tool/{{version}}/{{binary}}", checksum = "{official}/tool/{{version}}/{{binary}}.sha256" }}
        binaries = [{{ name = "tool", group = "test", package = "example.org/tool", report = ["--version"] }}]

        [[component]]
        name = "pack"
        version = "v1.2.3"
        module = "m"
        download = {{ url = "{official}/pack.tar.gz", checksum = "{official}/SHA256SUMS", member = "pack/{{binary}}" }}
        binaries = [
            {{ name = "one", package = "example.org/one", report = ["--version"] }},
            {{ name = "two", package = "example.org/two" }},
        ]

        [[component]]
        name = "files"
        version = "v1.2.3"
        module = "m"
        trees = [{{ name = "tree", module = "example.org/files", paths = ["config", "more/config"] }}]
        "#
    );
    let module = GoModule {
        name: "m".into(),
        go_mod: "module m\n".into(),
        go_sum: "sums\n".into(),
        tools_go: "package tools\n".into(),
    };
    Settings {
        cache_dir: folder.join("cache"),
        // Scripts need the machine's own programs, none of which is called like one of ours.
        search_path: vec![folder.join("bin")],
        mirror,
        go_settings: Some(folder.join("go.env")),
        manifest: Manifest::parse(&pins, &[module]).unwrap(),
    }
}

pub(crate) fn named(name: &str) -> Selection {
    Selection::Named(vec![name.parse().unwrap()])
}

pub(crate) fn script_at(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn sha256(content: &[u8]) -> String {
    format!(
        "{:x}",
        bytes::Bytes::copy_from_slice(&Sha256::digest(content))
    )
}

/// Keeps everything it is told.
#[derive(Default)]
pub(crate) struct Recorder {
    events: Mutex<Vec<String>>,
}

impl Recorder {
    pub(crate) fn containing(&self, text: &str) -> Vec<String> {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .filter(|event| event.contains(text))
            .cloned()
            .collect()
    }
}

impl Progress for Recorder {
    fn tell(&self, event: &Event<'_>) {
        self.events.lock().unwrap().push(format!("{event:?}"));
    }
}
