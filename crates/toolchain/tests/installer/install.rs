//! PATH, builds, trust, and several installers at once.

use std::{fs, thread};

use butler_toolchain::{Group, Origin, Selection, State, progress::Quiet};

use crate::{
    server::FileServer,
    support::{OTHER, PINNED, Recorder, World, named, script_at},
};

const TOOL: &str = "/tool/v1.2.3/tool";

#[test]
fn a_program_on_path_of_the_pinned_version_is_linked() {
    let world = World::new();
    let program = world.program("tool", PINNED);
    let installed = world.ensure("tool").unwrap();
    let tool = &installed.artifacts[0];
    assert_eq!(
        tool.origin,
        Origin::Path {
            path: program.clone()
        }
    );
    assert_eq!(fs::read_link(&tool.path).unwrap(), program);
}

#[test]
fn a_program_on_path_of_another_version_is_left_alone() {
    let world = World::new();
    world.program("tool", OTHER);
    world.fake_go("tool v1.2.3");
    let installed = world.ensure("tool").unwrap();
    let package = "example.org/tool".to_owned();
    assert_eq!(installed.artifacts[0].origin, Origin::GoBuild { package });
}

#[test]
fn a_linked_program_that_was_upgraded_is_replaced() {
    let world = World::new();
    let program = world.program("tool", PINNED);
    world.ensure("tool").unwrap();
    script_at(&program, "#!/bin/sh\necho tool is now v2.0.0\n");
    assert!(world.toolchain().binary("tool", None).is_err());
    world.fake_go("tool v1.2.3");
    let installed = world.ensure("tool").unwrap();
    assert!(matches!(
        installed.artifacts[0].origin,
        Origin::GoBuild { .. }
    ));
    assert!(
        fs::read_to_string(program).unwrap().contains("v2.0.0"),
        "the machine's own stays"
    );
}

#[test]
fn a_build_is_told_the_pinned_version_and_stays_in_the_cache_folder() {
    let world = World::new();
    world.program(
        "go",
        &format!(
            "#!/bin/sh\nenv > {}\npwd >> {0}\nfor last; do [ \"$p\" = -o ] && out=$last; p=$last; done\n\
             printf '#!/bin/sh\\necho v1.2.3' > $out; chmod +x $out; echo \"$@\" > {}\n",
            world.path("env").display(),
            world.path("args").display()
        ),
    );
    world.ensure("tool").unwrap();
    let environment = fs::read_to_string(world.path("env")).unwrap();
    let cache = world.path("cache/toolchain").display().to_string();
    for name in [
        "GOPATH",
        "GOMODCACHE",
        "GOCACHE",
        "GOTMPDIR",
        "TMPDIR",
        "XDG_CONFIG_HOME",
    ] {
        let line = environment
            .lines()
            .find(|line| line.starts_with(&format!("{name}=")));
        assert!(
            line.is_some_and(|line| line.contains(&cache)),
            "{name}: {line:?}"
        );
    }
    assert!(environment.lines().any(|line| line == "CGO_ENABLED=0"));
    let settings = format!("GOENV={}", world.path("go.env").display());
    assert!(
        environment.lines().any(|line| line == settings),
        "the user's settings still count"
    );
    let arguments = fs::read_to_string(world.path("args")).unwrap();
    for argument in ["-mod=readonly", "-modcacherw", "-trimpath", "-X v=v1.2.3"] {
        assert!(arguments.contains(argument), "{arguments}");
    }
}

#[test]
fn a_failing_build_says_what_go_said() {
    let world = World::new();
    world.program(
        "go",
        "#!/bin/sh\necho 'package x: cannot find it' >&2\nexit 1\n",
    );
    let error = world.ensure("tool").unwrap_err().to_string();
    assert!(error.contains("package x: cannot find it"), "{error}");
    assert!(error.contains("could not install tool@v1.2.3"), "{error}");
}

#[test]
fn a_build_that_reports_another_version_is_not_installed() {
    let world = World::new();
    world.fake_go("tool v9.9.9");
    let error = world.ensure("tool").unwrap_err().to_string();
    assert!(error.contains("does not report v1.2.3"), "{error}");
    assert!(world.toolchain().binary("tool", None).is_err());
}

#[test]
fn files_are_taken_out_of_a_module() {
    let world = World::new();
    world.fake_go("unused");
    for (file, content) in [
        ("config/a/b.yaml", "b"),
        ("more/config/c.yaml", "c"),
        ("other/d", "d"),
    ] {
        let path = world.path("module").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let installed = world.ensure("tree").unwrap();
    let tree = &installed.artifacts[0].path;
    assert_eq!(
        fs::read_to_string(tree.join("config/a/b.yaml")).unwrap(),
        "b"
    );
    assert_eq!(
        fs::read_to_string(tree.join("more/config/c.yaml")).unwrap(),
        "c"
    );
    assert!(!tree.join("other").exists());
    assert_eq!(
        world.go_calls(),
        ["mod download -modcacherw -json example.org/files"]
    );
    fs::remove_file(tree.join("config/a/b.yaml")).unwrap();
    world.ensure("tree").unwrap();
    assert!(
        tree.join("config/a/b.yaml").exists(),
        "an incomplete tree is replaced"
    );
}

#[test]
fn a_truncated_binary_is_replaced() {
    let world = World::new();
    world.fake_go("tool v1.2.3");
    let path = world.ensure("tool").unwrap().artifacts[0].path.clone();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5)
        .unwrap();
    let error = world
        .toolchain()
        .binary("tool", None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("5 bytes instead of"), "{error}");
    world.ensure("tool").unwrap();
    assert!(fs::metadata(path).unwrap().len() > 5);
    assert_eq!(world.go_calls().len(), 2);
}

#[test]
fn a_changed_byte_is_found_by_verification_and_replaced_by_the_next_installation() {
    let world = World::new();
    world.fake_go("tool v1.2.3");
    let path = world.ensure("tool").unwrap().artifacts[0].path.clone();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("tool", "evil")).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let toolchain = world.toolchain();
    assert!(
        toolchain.binary("tool", None).is_ok(),
        "the quick look does not read it"
    );
    let verified = toolchain.verify().unwrap();
    let tool = verified.iter().find(|it| it.name == "tool").unwrap();
    assert!(matches!(&tool.state, State::Untrusted(reason) if reason.contains("content")));
    assert!(toolchain.binary("tool", None).is_err());
    world.ensure("tool").unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), text);
}

#[test]
fn two_installers_at_once_install_once() {
    let server = FileServer::start();
    server.publish(TOOL, PINNED.as_bytes());
    let world = World {
        official: server.url(),
        ..World::new()
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| world.ensure("tool").unwrap());
        }
    });
    assert_eq!(
        server.requests(&format!("GET {TOOL}")).len(),
        2,
        "the checksum and the file"
    );
}

#[test]
fn only_the_group_that_was_asked_for_is_installed() {
    let world = World::new();
    world.fake_go("tool v1.2.3");
    let installed = world
        .toolchain()
        .ensure(&Selection::Group(Group::Test), &Quiet)
        .unwrap();
    assert_eq!(installed.artifacts.len(), 1);
    let missing = |it: &&butler_toolchain::ArtifactStatus| it.state == State::Missing;
    let status = world.toolchain().status();
    let missing: Vec<_> = status
        .iter()
        .filter(missing)
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(missing, ["one", "two", "tree"]);
}

#[test]
fn one_component_that_fails_does_not_stop_the_others() {
    let world = World::new();
    world.program("tool", PINNED);
    let told = Recorder::default();
    let error = world
        .toolchain()
        .ensure(&Selection::All, &told)
        .unwrap_err()
        .to_string();
    assert_eq!(error.lines().count(), 3, "one, two and tree: {error}");
    assert!(world.toolchain().binary("tool", None).is_ok());
    assert_eq!(told.containing("Failed").len(), 3);
}

#[test]
fn names_that_are_not_pinned_are_refused_with_those_that_are() {
    let world = World::new();
    for name in ["nothing", "tool@v9.9.9"] {
        let error = world
            .toolchain()
            .ensure(&named(name), &Quiet)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(name) && error.contains("two@v1.2.3"),
            "{error}"
        );
    }
    assert!(
        world.toolchain().binary("tree", None).is_err(),
        "a tree is no program"
    );
}

#[test]
fn pruning_keeps_what_is_installed() {
    let world = World::new();
    world.fake_go("tool v1.2.3");
    world.ensure("tool").unwrap();
    let toolchain = world.toolchain();
    assert!(toolchain.build_folder().exists());
    toolchain.prune().unwrap();
    assert!(!toolchain.build_folder().exists());
    toolchain.prune().unwrap();
    assert!(toolchain.binary("tool", None).is_ok());
}

#[tokio::test]
async fn it_may_be_called_from_asynchronous_code() {
    let world = World::new();
    world.program("tool", PINNED);
    world.ensure("tool").unwrap();
}
