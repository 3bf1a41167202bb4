//! Official releases and mirrors, against a file server on the loopback address.

use std::fs;

use butler_toolchain::Origin;
use flate2::{Compression, write::GzEncoder};

use crate::{
    server::FileServer,
    support::{NOBODY, OTHER, PINNED, Recorder, World, named, sha256},
};

const TOOL: &str = "/tool/v1.2.3/tool";

fn world_with(server: &FileServer) -> World {
    World {
        official: server.url(),
        ..World::new()
    }
}

/// A program that reports the pinned version and is larger than one packet.
fn large_program() -> Vec<u8> {
    let mut content = format!("{PINNED}exit\n").into_bytes();
    content.extend((0_u32..200_000).flat_map(u32::to_le_bytes));
    content
}

fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, name, content.as_bytes())
            .unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn a_release_with_its_checksum_is_installed() {
    let server = FileServer::start();
    server.publish(TOOL, PINNED.as_bytes());
    let world = world_with(&server);
    let installed = world.ensure("tool").unwrap();
    let tool = &installed.artifacts[0];
    assert_eq!(
        tool.origin,
        Origin::Download {
            url: format!("{}{TOOL}", server.url())
        }
    );
    assert_eq!(world.toolchain().binary("tool", None).unwrap(), tool.path);
    let output = std::process::Command::new(&tool.path).output().unwrap();
    assert_eq!(output.stdout, b"tool v1.2.3\n");
}

#[test]
fn what_is_installed_is_not_asked_for_again() {
    let server = FileServer::start();
    server.publish(TOOL, PINNED.as_bytes());
    let world = world_with(&server);
    world.ensure("tool").unwrap();
    let before = server.requests("").len();
    world.ensure("tool").unwrap();
    assert_eq!(server.requests("").len(), before);
}

#[test]
fn a_file_with_another_checksum_is_refused_and_built_instead() {
    let server = FileServer::start();
    server.put(TOOL, PINNED);
    server.put(&format!("{TOOL}.sha256"), sha256(b"something else"));
    let world = world_with(&server);
    world.fake_go("tool v1.2.3");
    let told = Recorder::default();
    let installed = world.toolchain().ensure(&named("tool"), &told).unwrap();
    assert!(matches!(
        installed.artifacts[0].origin,
        Origin::GoBuild { .. }
    ));
    assert_eq!(told.containing("was refused: its SHA-256 is").len(), 1);
}

#[test]
fn a_file_with_another_checksum_is_never_installed() {
    let server = FileServer::start();
    server.put(TOOL, PINNED);
    server.put(&format!("{TOOL}.sha256"), sha256(b"something else"));
    let world = world_with(&server);
    let error = world.ensure("tool").unwrap_err().to_string();
    assert!(error.contains("was refused"), "{error}");
    assert!(error.contains("no go on PATH"), "{error}");
    let error = world
        .toolchain()
        .binary("tool", None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cargo xtask toolchain install tool@v1.2.3"),
        "{error}"
    );
}

#[test]
fn a_file_without_a_published_checksum_is_not_even_downloaded() {
    let server = FileServer::start();
    server.put(TOOL, PINNED);
    let error = world_with(&server).ensure("tool").unwrap_err().to_string();
    assert!(error.contains("404"), "{error}");
    assert!(
        server
            .requests(&format!("GET {TOOL}"))
            .iter()
            .all(|it| it.ends_with(".sha256"))
    );
}

#[test]
fn a_release_of_another_version_is_refused() {
    let server = FileServer::start();
    server.publish(TOOL, OTHER.as_bytes());
    let error = world_with(&server).ensure("tool").unwrap_err().to_string();
    assert!(error.contains("does not report v1.2.3"), "{error}");
}

#[test]
fn an_interrupted_download_goes_on_where_it_broke() {
    let server = FileServer::start();
    let content = large_program();
    server.publish(TOOL, &content);
    server.break_after(TOOL, &[300_000, 200_000]);
    let world = world_with(&server);
    let installed = world.ensure("tool").unwrap();
    assert_eq!(fs::read(&installed.artifacts[0].path).unwrap(), content);
    let ranges = server.requests(&format!("GET {TOOL} bytes="));
    assert_eq!(ranges.len(), 2, "{ranges:?}");
}

#[test]
fn a_part_left_by_a_killed_installer_is_completed_by_range() {
    let server = FileServer::start();
    let content = large_program();
    server.publish(TOOL, &content);
    let world = world_with(&server);
    let downloads = world.path("cache/toolchain/build/downloads");
    fs::create_dir_all(&downloads).unwrap();
    let part = downloads.join(format!("{}.part", sha256(&content)));
    fs::write(&part, &content[..500_000]).unwrap();
    let installed = world.ensure("tool").unwrap();
    assert_eq!(fs::read(&installed.artifacts[0].path).unwrap(), content);
    assert_eq!(
        server.requests(&format!("GET {TOOL} bytes=500000-")).len(),
        1
    );
    assert!(!part.exists());
}

#[test]
fn a_damaged_part_is_thrown_away() {
    let server = FileServer::start();
    let content = large_program();
    server.publish(TOOL, &content);
    let world = world_with(&server);
    let downloads = world.path("cache/toolchain/build/downloads");
    fs::create_dir_all(&downloads).unwrap();
    let part = downloads.join(format!("{}.part", sha256(&content)));
    fs::write(&part, vec![0; 1000]).unwrap();
    let error = world.ensure("tool").unwrap_err().to_string();
    assert!(error.contains("was refused"), "{error}");
    assert!(!part.exists());
    world.ensure("tool").unwrap();
}

#[test]
fn a_part_longer_than_the_file_is_thrown_away_at_once() {
    let server = FileServer::start();
    server.publish(TOOL, PINNED.as_bytes());
    let world = world_with(&server);
    let downloads = world.path("cache/toolchain/build/downloads");
    fs::create_dir_all(&downloads).unwrap();
    let part = downloads.join(format!("{}.part", sha256(PINNED.as_bytes())));
    fs::write(&part, vec![0; 100_000]).unwrap();
    world.ensure("tool").unwrap();
}

#[test]
fn a_server_that_never_gets_anywhere_is_given_up() {
    let server = FileServer::start();
    server.publish(TOOL, &large_program());
    server.break_after(TOOL, &[0, 0, 0]);
    let error = world_with(&server).ensure("tool").unwrap_err().to_string();
    assert!(error.contains("could not download"), "{error}");
}

#[test]
fn a_mirror_is_asked_before_the_official_host() {
    let server = FileServer::start();
    server.publish(&format!("/copies/127.0.0.1{TOOL}"), PINNED.as_bytes());
    let world = World {
        mirror: Some(format!("{}/copies", server.url())),
        ..World::new()
    };
    let installed = world.ensure("tool").unwrap();
    let url = format!("{}/copies/127.0.0.1{TOOL}", server.url());
    assert_eq!(installed.artifacts[0].origin, Origin::Download { url });
}

#[test]
fn what_the_mirror_lacks_comes_from_the_official_host() {
    let mirror = FileServer::start();
    let server = FileServer::start();
    server.publish(TOOL, PINNED.as_bytes());
    let world = World {
        mirror: Some(mirror.url()),
        ..world_with(&server)
    };
    let installed = world.ensure("tool").unwrap();
    let url = format!("{}{TOOL}", server.url());
    assert_eq!(installed.artifacts[0].origin, Origin::Download { url });
}

#[test]
fn from_an_unreachable_host_everything_falls_through_to_builds_and_is_told_once() {
    let world = World {
        official: NOBODY.to_owned(),
        ..World::new()
    };
    world.fake_go("tool v1.2.3");
    let told = Recorder::default();
    let installed = world.toolchain().ensure(&named("pack"), &told).unwrap();
    assert_eq!(installed.artifacts.len(), 2);
    assert!(
        installed
            .artifacts
            .iter()
            .all(|it| matches!(it.origin, Origin::GoBuild { .. }))
    );
    assert_eq!(told.containing("cannot be reached").len(), 1);
}

#[test]
fn an_archive_is_downloaded_once_for_all_its_binaries() {
    let server = FileServer::start();
    let content = archive(&[
        ("pack/README", "no"),
        ("./pack/one", PINNED),
        ("pack/two", PINNED),
    ]);
    server.put("/pack.tar.gz", content.clone());
    server.put(
        "/SHA256SUMS",
        format!("{}  pack.tar.gz\n", sha256(&content)),
    );
    let world = world_with(&server);
    let installed = world.ensure("pack").unwrap();
    for artifact in &installed.artifacts {
        assert_eq!(fs::read_to_string(&artifact.path).unwrap(), PINNED);
    }
    assert_eq!(server.requests("GET /pack.tar.gz").len(), 1);
    let left = fs::read_dir(world.path("cache/toolchain/build/downloads"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "the archive is not kept");
}

#[test]
fn an_archive_without_the_binary_is_not_enough() {
    let server = FileServer::start();
    let content = archive(&[("pack/README", "no")]);
    server.put("/pack.tar.gz", content.clone());
    server.put(
        "/SHA256SUMS",
        format!("{}  pack.tar.gz\n", sha256(&content)),
    );
    let error = world_with(&server).ensure("one").unwrap_err().to_string();
    assert!(error.contains("has no file \"pack/one\""), "{error}");
}
