//! Users of a machine: numbers of names, and making new ones with the tools of the host's system.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Command, Stdio},
};

use super::{super::configuration::lines, reaper::Reaper, services::Services};
use crate::bootstrap::User;

/// The number of a user (`/etc/passwd`) or group (`/etc/group`); a number is one already.
pub(super) fn number(file: &str, name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let accounts = fs::read_to_string(file)?;
    let found = find(&accounts, name).and_then(|fields| fields.get(2)?.parse().ok());
    found.ok_or_else(|| io::Error::other(format!("there is no {name} in {file}")))
}

fn find<'a>(accounts: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = accounts
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields.first() == Some(&name))
}

/// Makes a user, unless it exists.
pub(super) fn make(user: &User, reaper: &Reaper, services: &Services) -> io::Result<()> {
    let run = |command: &mut Command| {
        let name = command.get_program().to_string_lossy().into_owned();
        match reaper.run(command.stdin(Stdio::null()).stdout(Stdio::null()))? {
            0 => Ok(()),
            code => Err(io::Error::other(format!("{name} ended with {code}"))),
        }
    };
    for group in user.groups.iter().chain(&user.primary_group) {
        run(services.program("groupadd").args(["--force", group]))?;
    }
    let accounts = fs::read_to_string("/etc/passwd")?;
    if find(&accounts, &user.name).is_none() {
        run(services.program("useradd").args(arguments(user)))?;
    }
    if let Some(hash) = &user.password_hash {
        set_password(user, hash, reaper, services)?;
    }
    authorize(user)?;
    if !user.sudo.is_empty() {
        let rules = user.sudo.iter().map(|rule| format!("{} {rule}", user.name));
        fs::create_dir_all("/etc/sudoers.d")?;
        let path = Path::new("/etc/sudoers.d").join(&user.name);
        fs::write(&path, lines(rules))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440))?;
    }
    Ok(())
}

fn arguments(user: &User) -> Vec<String> {
    let User {
        name,
        gecos,
        home,
        shell,
        primary_group,
        groups,
        // Not for a command line, or not for this program.
        sudo: _,
        locked: _,
        password_hash: _,
        authorized_keys: _,
    } = user;
    let mut words = vec!["--create-home".to_owned()];
    let mut option = |flag: &str, value: Option<&String>| {
        words.extend(
            value
                .into_iter()
                .flat_map(|value| [flag.to_owned(), value.clone()]),
        );
    };
    option("--comment", gecos.as_ref());
    option("--home-dir", home.as_ref());
    option("--shell", shell.as_ref());
    option("--gid", primary_group.as_ref());
    let groups = groups.join(",");
    option("--groups", (!groups.is_empty()).then_some(&groups));
    words.push(name.clone());
    words
}

/// A hash goes by a pipe: command lines are seen by everybody.
fn set_password(user: &User, hash: &str, reaper: &Reaper, services: &Services) -> io::Result<()> {
    let (output, mut writer) = io::pipe()?;
    // A locked account keeps its hash behind a mark that no password matches.
    let mark = if user.locked { "!" } else { "" };
    writeln!(writer, "{}:{mark}{hash}", user.name)?;
    drop(writer);
    let mut command = services.program("chpasswd");
    match reaper.run(
        command
            .arg("--encrypted")
            .stdin(output)
            .stdout(Stdio::null()),
    )? {
        0 => Ok(()),
        code => Err(io::Error::other(format!("chpasswd ended with {code}"))),
    }
}

fn authorize(user: &User) -> io::Result<()> {
    if user.authorized_keys.is_empty() {
        return Ok(());
    }
    let accounts = fs::read_to_string("/etc/passwd")?;
    let home = find(&accounts, &user.name).and_then(|fields| fields.get(5).copied());
    let home = home.ok_or_else(|| io::Error::other("the user has no home"))?;
    let owner = Some(number("/etc/passwd", &user.name)?);
    let folder = Path::new(home).join(".ssh");
    fs::create_dir_all(&folder)?;
    let keys = folder.join("authorized_keys");
    fs::write(&keys, lines(user.authorized_keys.iter()))?;
    for (path, mode) in [(&folder, 0o700), (&keys, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        chown(path, owner, None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_numbers_are_taken_as_they_are() {
        let accounts = "root:x:0:0::/root:/bin/sh\nann:x:1001:1001::/home/ann:/bin/sh\n";
        assert_eq!(find(accounts, "ann").unwrap()[2], "1001");
        assert!(find(accounts, "an").is_none());
        assert_eq!(number("/does/not/exist", "42").unwrap(), 42);
    }

    #[test]
    fn a_password_is_never_an_argument() {
        let user = User {
            name: "ann".to_owned(),
            groups: vec!["wheel".to_owned(), "users".to_owned()],
            password_hash: Some("secret".to_owned()),
            ..User::default()
        };
        assert_eq!(
            arguments(&user),
            ["--create-home", "--groups", "wheel,users", "ann"]
        );
    }
}
