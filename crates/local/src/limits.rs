//! Limits of the whole host that the platform raises, and puts back.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{platform::Platform, settings::write};

/// Kernel settings of the whole host that the platform needs more of; they are put back by `down`.
const LIMITS: [(&str, u64); 2] = [
    ("fs/inotify/max_user_instances", 4096),
    ("fs/inotify/max_user_watches", 524_288),
];

impl Platform {
    /// Raises limits, and remembers what they were.
    pub(crate) fn raise_limits(&self) -> io::Result<()> {
        for (name, wanted) in LIMITS {
            let file = Path::new("/proc/sys").join(name);
            let held = fs::read_to_string(&file)?;
            if held.trim().parse::<u64>().unwrap_or(0) < wanted {
                let note = self.limit_note(name);
                if !note.exists() {
                    write(&note, held.trim())?;
                }
                fs::write(&file, wanted.to_string())?;
            }
        }
        Ok(())
    }

    pub(crate) fn restore_limits(&self) -> io::Result<()> {
        for (name, _) in LIMITS {
            let note = self.limit_note(name);
            if let Ok(held) = fs::read_to_string(&note) {
                fs::write(Path::new("/proc/sys").join(name), held)?;
                fs::remove_file(&note)?;
            }
        }
        Ok(())
    }

    fn limit_note(&self, name: &str) -> PathBuf {
        self.paths.run.join(name.replace('/', "."))
    }
}
