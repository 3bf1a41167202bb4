use std::{io::Write as _, net::Ipv4Addr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};

use super::*;

/// As the kubeadm bootstrap provider writes it for a worker.
const JOIN: &str = include_str!("../../tests/data/kubeadm-join.txt");

fn metadata() -> Metadata {
    Metadata {
        instance_id: "team/demo-x7k2p".to_owned(),
        hostname: "demo-x7k2p".to_owned(),
        address: Ipv4Addr::new(10, 40, 0, 7).into(),
    }
}

fn planned(text: &str) -> Result<Plan, Error> {
    plan(text.as_bytes(), None, &metadata())
}

fn file(step: &Step) -> &File {
    match step {
        Step::File(file) => file,
        other => panic!("{other:?} is no file"),
    }
}

fn files(text: &str) -> Vec<File> {
    let plan = planned(text).unwrap();
    plan.steps.iter().map(|step| file(step).clone()).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[test]
fn what_the_kubeadm_provider_writes_becomes_two_files_and_one_script() {
    let plan = planned(JOIN).unwrap();
    let [join, placeholder, Step::Script(script)] = plan.steps.as_slice() else {
        panic!("{:?}", plan.steps);
    };
    let join = file(join);
    assert_eq!(join.path, "/run/kubeadm/kubeadm-join-config.yaml");
    assert_eq!((join.mode, join.owner.as_str()), (0o640, "root"));
    let content = std::str::from_utf8(&join.content).unwrap();
    assert!(
        content.contains("value: local://team/demo-x7k2p"),
        "{content}"
    );
    assert_eq!(file(placeholder).path, "/run/cluster-api/placeholder");
    assert_eq!(script.name, "runcmd");
    assert!(script.text.contains("kubeadm join --config"));
    assert!(plan.writes_sentinel);
    assert_eq!(plan.ignored, Vec::<String>::new());
}

#[test]
fn every_encoding_is_decoded_under_each_of_its_names() {
    let (plain, packed) = (STANDARD.encode("hello"), STANDARD.encode(gzip("hello")));
    let rows = [
        ("b64", &plain),
        ("base64", &plain),
        ("gz", &packed),
        ("gzip", &packed),
        ("gz+b64", &packed),
        ("gz+base64", &packed),
        ("gzip+b64", &packed),
        ("GZIP+BASE64", &packed),
    ];
    for (encoding, content) in rows {
        let text = format!(
            "#cloud-config\nwrite_files: [{{path: /a, encoding: {encoding}, content: {content}}}]"
        );
        assert_eq!(files(&text)[0].content, b"hello", "{encoding}");
    }
}

#[test]
fn folded_base64_is_read() {
    let text = "#cloud-config\nwrite_files:\n- path: /a\n  encoding: b64\n  content: |\n    aGVs\n    bG8=\n";
    assert_eq!(files(text)[0].content, b"hello");
}

#[test]
fn permissions_are_octal_however_they_are_written() {
    for (written, mode) in [
        ("'0640'", 0o640),
        ("\"755\"", 0o755),
        ("0600", 0o600),
        ("0o400", 0o400),
        ("'0o400'", 0o400),
    ] {
        let text = format!("#cloud-config\nwrite_files: [{{path: /a, permissions: {written}}}]");
        assert_eq!(files(&text)[0].mode, mode, "{written}");
    }
}

#[test]
fn owners_have_the_group_of_their_own_name_unless_another_is_said() {
    let text = "#cloud-config\nwrite_files: [{path: /a}, {path: /b, owner: www}, {path: /c, owner: 'www:data', append: true}]";
    let owners: Vec<_> = files(text)
        .into_iter()
        .map(|file| (file.owner, file.group, file.append))
        .collect();
    let owner = |user: &str, group: &str, append| (user.to_owned(), group.to_owned(), append);
    assert_eq!(
        owners,
        [
            owner("root", "root", false),
            owner("www", "www", false),
            owner("www", "data", true)
        ]
    );
}

#[test]
fn commands_become_one_script_and_lists_are_safe_from_the_shell() {
    let text =
        "#cloud-config\nruncmd:\n- cd /tmp\n- [echo, \"it's $HOME\", 3]\n- |\n  one\n  two\n";
    let plan = planned(text).unwrap();
    let [Step::Script(script)] = plan.steps.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(
        script.text,
        "cd /tmp\n'echo' 'it'\\''s $HOME' '3'\none\ntwo\n\n"
    );
    assert!(!plan.writes_sentinel);
}

#[test]
fn steps_come_in_cloud_inits_order_whatever_the_order_of_the_keys() {
    let text = "#cloud-config\nruncmd: [b]\nusers: [{name: ann}]\nwrite_files: [{path: /late, defer: true}, {path: /early}]\nbootcmd: [a]\n";
    let plan = planned(text).unwrap();
    let told: Vec<_> = plan
        .steps
        .iter()
        .map(|step| match step {
            Step::File(file) => file.path.as_str(),
            Step::User(user) => &user.name,
            Step::Script(script) => &script.name,
        })
        .collect();
    assert_eq!(told, ["bootcmd", "/early", "ann", "/late", "runcmd"]);
}

#[test]
fn users_are_read_and_what_they_cannot_have_is_noted() {
    let text = "#cloud-config\nusers:\n- default\n- name: ann\n  groups: wheel, users\n  sudo: ALL=(ALL) NOPASSWD:ALL\n  lock_passwd: false\n  passwd: $6$x\n  ssh_authorized_keys: [ssh-ed25519 AAA a@b]\n  inactive: true\n";
    let plan = planned(text).unwrap();
    let [Step::User(user)] = plan.steps.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(user.groups, ["wheel", "users"]);
    assert_eq!(user.sudo, ["ALL=(ALL) NOPASSWD:ALL"]);
    assert_eq!(user.authorized_keys, ["ssh-ed25519 AAA a@b"]);
    assert!(!user.locked);
    assert_eq!(
        plan.ignored,
        [
            "users[0]: there is no default user",
            "users[1].inactive: not supported"
        ]
    );
}

#[test]
fn what_is_ignored_is_said_with_the_reason() {
    let text = "#cloud-config\nntp: {enabled: true}\nmounts: []\nfrobnicate: 1\n";
    let ignored = planned(text).unwrap().ignored;
    assert_eq!(
        ignored,
        [
            "frobnicate: not known to this platform",
            "mounts: the machine's disk is a folder of its host",
            "ntp: the machine has the clock of its host",
        ]
    );
}

#[test]
fn data_may_be_packed_as_a_whole() {
    let packed = gzip("#cloud-config\nruncmd: [a]\n");
    assert_eq!(
        plan(&packed, Some("cloud-config"), &metadata())
            .unwrap()
            .steps
            .len(),
        1
    );
}

#[test]
fn a_plan_survives_being_stored() {
    let plan = planned(JOIN).unwrap();
    let stored = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
}

#[test]
fn garbage_is_refused_with_the_place_and_without_the_content() {
    let rows = [
        ("", "is empty"),
        ("#!/bin/sh\nsecret", "is a script"),
        ("{\"ignition\": \"secret\"}", "is JSON, as for Ignition"),
        ("MIME-Version: 1.0\nsecret", "is a multi-part message"),
        ("secret: 1", "without #cloud-config in its first line"),
        ("#cloud-config\nsecret: [1", "is not YAML"),
        (
            "#cloud-config\n- secret",
            "at the top: it must be keys with values",
        ),
        (
            "#cloud-config\nwrite_files: secret",
            "at write_files: it must be a list",
        ),
        (
            "#cloud-config\nwrite_files: [secret]",
            "at write_files[0]: it must be a file",
        ),
        (
            "#cloud-config\nwrite_files: [{path: secret}]",
            "at write_files[0].path: it must be an absolute path",
        ),
        (
            "#cloud-config\nwrite_files: [{path: /a/../secret}]",
            "at write_files[0].path",
        ),
        (
            "#cloud-config\nwrite_files: [{path: /a, encoding: secret}]",
            "at write_files[0].encoding: it must be base64",
        ),
        (
            "#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: '*secret*'}]",
            "the content is not base64",
        ),
        (
            "#cloud-config\nwrite_files: [{path: /a, encoding: gz+b64, content: c2VjcmV0}]",
            "the content is not gzip",
        ),
        (
            "#cloud-config\nwrite_files: [{path: /a, permissions: secret}]",
            "at write_files[0].permissions: it must be octal",
        ),
        (
            "#cloud-config\nwrite_files: [{path: /a, permissions: '77777'}]",
            "at write_files[0].permissions",
        ),
        (
            "#cloud-config\nruncmd: [{secret: 1}]",
            "at runcmd[0]: it must be a line",
        ),
        (
            "#cloud-config\nruncmd: [[a, [secret]]]",
            "at runcmd[0]: it must be a list of words",
        ),
        (
            "#cloud-config\nusers: [{name: '-secret'}]",
            "at users[0].name: it must be a user name",
        ),
        (
            "## template: secret\n#cloud-config",
            "names another engine than jinja",
        ),
        (
            "## template: jinja\n#cloud-config\nruncmd: ['{{ ds.secret.x }}']",
            "line 3: undefined value",
        ),
        (
            "## template: jinja\n#cloud-config\nruncmd: ['{{ ']",
            "cannot be filled in: line 3",
        ),
    ];
    for (text, expected) in rows {
        let error = planned(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(!error.contains("secret"), "{text:?}: {error}");
    }
    let ignition = plan(b"{}", Some("ignition"), &metadata()).unwrap_err();
    assert!(ignition.to_string().contains("for Ignition"), "{ignition}");
    assert_eq!(plan(&[0xff, 0xfe], None, &metadata()), Err(Error::Binary));
}

#[test]
fn nothing_that_may_be_secret_is_printed_for_debugging() {
    let printed = format!("{:?}", planned(JOIN).unwrap());
    assert!(!printed.contains("abcdef"), "{printed}");
}
