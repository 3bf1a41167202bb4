//! An installer that is killed in the middle of its work.

use std::{
    env,
    fs::{self, File},
    io::Read,
    path::Path,
    process::{Command, Stdio},
};

use butler_toolchain::{Toolchain, progress::Quiet};

use crate::support::{NOBODY, World, named, settings};

/// Set for the process that is killed: the folder of its world.
const VICTIM: &str = "BUTLER_TOOLCHAIN_TEST_VICTIM";

/// Not a test of its own: what the process does that [`a_killed_installer_leaves_nothing_trusted`] kills.
#[test]
fn victim() {
    if let Some(folder) = env::var_os(VICTIM) {
        let toolchain = Toolchain::with_settings(settings(Path::new(&folder), NOBODY, None));
        let _ = toolchain.ensure(&named("tool"), &Quiet);
    }
}

#[test]
fn a_killed_installer_leaves_nothing_trusted_and_the_next_one_finishes() {
    let world = World::new();
    let (reached, release) = (world.path("reached"), world.path("release"));
    for fifo in [&reached, &release] {
        assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    world.program(
        "go",
        &format!(
            "#!/bin/sh\nfor last; do [ \"$p\" = -o ] && out=$last; p=$last; done\n\
             printf '#!/bin/sh\\necho tool v1.2' > \"$out\"; chmod +x \"$out\"\n\
             echo \"$out\" > {}\ncat {}\n",
            reached.display(),
            release.display()
        ),
    );
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed::victim"])
        .env(VICTIM, world.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Opening blocks until the build has written half of its program.
    let mut half_written = String::new();
    File::open(&reached)
        .unwrap()
        .read_to_string(&mut half_written)
        .unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    // The build that lost its parent waits for a writer, and ends with it.
    drop(File::options().write(true).open(&release).unwrap());

    let half_written = Path::new(half_written.trim());
    assert!(
        half_written.exists(),
        "the killed installer could not tidy up"
    );
    assert!(world.toolchain().binary("tool", None).is_err());

    world.fake_go("tool v1.2.3");
    let installed = world.ensure("tool").unwrap();
    let content = fs::read_to_string(&installed.artifacts[0].path).unwrap();
    assert_eq!(content, "#!/bin/sh\necho tool v1.2.3\n");
    assert!(
        !half_written.exists(),
        "what the killed one left is swept away"
    );
}
