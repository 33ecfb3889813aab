//! The kernel's automatic NUMA balancing: read, set for a run where that is allowed, and put back.
//!
//! Invariant: what was changed is put back when the value goes, whatever happened in between.
//!
//! # Limits
//! A process that is killed puts nothing back: `sysctl kernel.numa_balancing` shows and sets it.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel has its setting. Anybody may read it, root may write it.
pub const SETTING: &str = "/proc/sys/kernel/numa_balancing";

/// Balancing as a run wants it.
#[derive(Debug)]
pub struct Balancing {
    path: PathBuf,
    /// What to put back; `None` where nothing was changed.
    before: Option<String>,
    note: String,
}

impl Balancing {
    /// Switches it as wanted. A kernel that does not have it counts as off.
    ///
    /// # Errors
    /// It is off and wanted, and the setting may not be written.
    pub fn set(path: &Path, wanted: bool) -> Result<Balancing, String> {
        let before = fs::read_to_string(path).ok();
        // Bits: 1 is balancing between nodes, 2 is tiering, which stays as it is.
        let bits = before.as_deref().and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0);
        let is_on = bits & 1 == 1;
        let word = |on| if on { "on" } else { "off" };
        let unchanged = |note: String| Balancing { path: path.to_path_buf(), before: None, note };
        if is_on == wanted {
            return Ok(unchanged(format!("automatic NUMA balancing is {}", word(is_on))));
        }
        match fs::write(path, (bits ^ 1).to_string()) {
            Ok(()) => {
                let note = format!("automatic NUMA balancing was switched {} for this run", word(wanted));
                Ok(Balancing { path: path.to_path_buf(), before, note })
            }
            Err(error) if wanted => Err(format!(
                "numa_balancing = true: it is off here, and {} cannot be written ({error}); run as root, or have it \
                 switched on with sysctl kernel.numa_balancing=1",
                path.display()
            )),
            Err(error) => {
                Ok(unchanged(format!("automatic NUMA balancing is on and could not be switched off ({error})")))
            }
        }
    }

    /// What a record says of it.
    pub fn note(&self) -> &str {
        &self.note
    }
}

impl Drop for Balancing {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        if let Err(error) = fs::write(&self.path, before.trim()) {
            let path = self.path.display();
            let before = before.trim();
            eprintln!("warning: {path} could not be put back to {before}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numa_balancing");
        let text = || fs::read_to_string(&path).unwrap();
        fs::write(&path, "3\n").unwrap();
        {
            let same = Balancing::set(&path, true).unwrap();
            assert_eq!((same.note(), text().as_str()), ("automatic NUMA balancing is on", "3\n"));
        }
        {
            let off = Balancing::set(&path, false).unwrap();
            // Tiering stays on.
            assert_eq!((off.note(), text().as_str()), ("automatic NUMA balancing was switched off for this run", "2"));
        }
        assert_eq!(text(), "3");
        fs::write(&path, "2").unwrap();
        {
            let on = Balancing::set(&path, true).unwrap();
            assert_eq!((on.note(), text().as_str()), ("automatic NUMA balancing was switched on for this run", "3"));
        }
        assert_eq!(text(), "2");
    }

    #[test]
    fn what_cannot_be_set_is_told() {
        let nowhere = Path::new("/no/such/folder/numa_balancing");
        assert!(Balancing::set(nowhere, true).unwrap_err().contains("run as root"));
        assert_eq!(Balancing::set(nowhere, false).unwrap().note(), "automatic NUMA balancing is off");
        let folder = tempfile::tempdir().unwrap();
        // A folder can be neither read nor written, as a setting that is another's.
        assert!(Balancing::set(folder.path(), true).is_err());
    }
}
