//! A program with the shared libraries it needs, as `ldd` names them.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::recipe::File;

/// The files a program needs to run, at the places where it looks for them.
pub fn closure(program: &Path) -> io::Result<Vec<File>> {
    closure_of_all(&[program.to_owned()])
}

/// The same for several programs, or libraries that are loaded by name while a program runs.
pub fn closure_of_all(programs: &[PathBuf]) -> io::Result<Vec<File>> {
    let output = Command::new("ldd").args(programs).output()?;
    let shown = String::from_utf8_lossy(&output.stdout);
    let mut paths = libraries(&shown);
    paths.extend_from_slice(programs);
    paths.sort();
    paths.dedup();
    let file = |path: PathBuf| {
        Ok(File {
            target: path.display().to_string(),
            // Libraries are links to their versions; programs look for the link's name.
            source: path.canonicalize()?,
        })
    };
    paths.into_iter().map(file).collect()
}

/// Every path in what `ldd` prints: after an arrow, or alone for the loader. A static program has none.
fn libraries(shown: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let path = match words.as_slice() {
            // Of several programs, the one that follows.
            [path] if path.ends_with(':') => return None,
            [_, "=>", path, ..] | [path, ..] => *path,
            [] => return None,
        };
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    shown.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found_and_the_kernels_own_is_not() {
        let shown = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                     \tlibnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x0000)\n\
                     \tlibgone.so.2 => not found\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found = libraries(shown);
        let wanted = [
            "/lib/x86_64-linux-gnu/libnftables.so.1",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(found, wanted.map(PathBuf::from));
        let of_two =
            "/usr/a.so:\n\tlibm.so.6 => /lib/libm.so.6 (0x0)\n/usr/b.so:\n\tstatically linked\n";
        assert_eq!(libraries(of_two), [PathBuf::from("/lib/libm.so.6")]);
        assert_eq!(libraries("\tstatically linked\n"), Vec::<PathBuf>::new());
    }
}
