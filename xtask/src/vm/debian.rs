//! The kernel and the shell of the machine, from packages of Debian or Ubuntu that are fetched and unpacked, but not
//! installed: the host keeps its own kernel, and nobody has to be root.
//!
//! What was fetched is kept in the build folder, so only the first machine needs the network.
//!
//! # Limits
//! A kernel that was fetched once is kept until its folder is removed; security updates of it are not looked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages whose dependency is a kernel for virtual machines: Debian's, then Ubuntu's.
const KERNEL_PACKAGES: [&str; 3] = ["linux-image-cloud-amd64", "linux-image-kvm", "linux-image-virtual"];
/// What the package of a kernel is called, as opposed to packages that only name the latest one.
const KERNEL_PREFIX: &str = "linux-image-";

/// The kernel image, fetched into `folder` if it is not there.
pub fn kernel(folder: &Path) -> Result<PathBuf, String> {
    let kept = folder.join("vmlinuz");
    if kept.exists() {
        return Ok(kept);
    }
    let package = KERNEL_PACKAGES.iter().find_map(|meta| {
        let answer = Command::new("apt-cache").args(["depends", meta]).output().ok()?;
        kernel_in(&String::from_utf8_lossy(&answer.stdout))
    });
    let package = package.unwrap_or_else(|| KERNEL_PACKAGES[0].to_owned());
    let wanted = |name: &str| name.starts_with("vmlinuz");
    fetch(folder, &package, &["boot"], wanted, &kept).map_err(|problem| {
        format!(
            "no kernel to boot: {problem}; give one with --kernel FILE, or fetch package {package} once with the \
                 network"
        )
    })
}

/// A busybox that needs no library: the host's where it is one, else fetched into `folder`.
pub fn busybox(folder: &Path) -> Result<PathBuf, String> {
    let kept = folder.join("busybox");
    let hosts = [Path::new("/bin/busybox"), Path::new("/usr/bin/busybox")];
    let is_static = |path: &&Path| path.exists() && super::programs::libraries(path).is_ok_and(|list| list.is_empty());
    if let Some(path) = [kept.as_path()].into_iter().chain(hosts).find(is_static) {
        return Ok(path.to_owned());
    }
    fetch(folder, "busybox-static", &["bin", "usr/bin"], |name| name == "busybox", &kept)
        .map_err(|problem| format!("no shell for the machine: {problem}; install package busybox-static"))
}

/// Downloads `package`, unpacks it, and moves the file that is wanted from one of its folders to `to`.
fn fetch(
    folder: &Path,
    package: &str,
    within: &[&str],
    wanted: impl Fn(&str) -> bool,
    to: &Path,
) -> Result<PathBuf, String> {
    let work = folder.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    println!("vm: fetching package {package} (it is not installed)");
    let fetched = fetch_into(&work, package, within, wanted).and_then(|file| {
        fs::rename(&file, to).map(|()| to.to_owned()).map_err(|error| format!("{}: {error}", to.display()))
    });
    // Left over only if the folder is not writable, which is told by what comes next.
    let _ = fs::remove_dir_all(&work);
    fetched
}

fn fetch_into(work: &Path, package: &str, within: &[&str], wanted: impl Fn(&str) -> bool) -> Result<PathBuf, String> {
    let download = || run(Command::new("apt-get").args(["download", package]).current_dir(work));
    // Lists of packages are stale or missing on machines that have just been set up; only root may renew them.
    if download().is_err() {
        let updated = run(Command::new("apt-get").arg("update"));
        download().map_err(|problem| match &updated {
            Ok(()) => problem,
            Err(update) => format!("{problem} (and {update})"),
        })?;
    }
    let archive = files_of(work)?.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb"));
    let archive = archive.ok_or_else(|| format!("apt-get download {package} left no file"))?;
    let unpacked = work.join("unpacked");
    run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&unpacked))?;
    for folder in within {
        let files = files_of(&unpacked.join(folder)).unwrap_or_default();
        let named =
            |path: &PathBuf| path.is_file() && path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted);
        if let Some(file) = files.into_iter().find(named) {
            return Ok(file);
        }
    }
    Err(format!("package {package} does not hold the file in {}", within.join(" or ")))
}

/// The kernel package that `apt-cache depends` of a package for the latest kernel names.
fn kernel_in(answer: &str) -> Option<String> {
    let names = answer.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with(KERNEL_PREFIX)).map(str::to_owned)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
}

/// Runs a command quietly; what it said is in the error.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| line.starts_with("E:")).or(said.lines().next_back()).unwrap_or("");
    Err(format!("{name} failed: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_kernel_is_read_from_its_package() {
        let answer = "linux-image-cloud-amd64\n  Depends: linux-base\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(kernel_in(answer).as_deref(), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(kernel_in(""), None);
    }
}
