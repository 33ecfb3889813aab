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
/// What a virtio disk needs, each after what it needs itself.
const DISK_MODULES: [&str; 6] =
    ["virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"];
/// Where they are kept, and the image.
const MODULES: &str = "disk-modules";
const KERNEL: &str = "vmlinuz";
/// What the package of a kernel is called, as opposed to packages that only name the latest one.
const KERNEL_PREFIX: &str = "linux-image-";

/// The kernel image, fetched into `folder` if it is not there.
pub fn kernel(folder: &Path) -> Result<PathBuf, String> {
    let kept = folder.join(KERNEL);
    if kept.exists() {
        return Ok(kept);
    }
    fetch_kernel(folder).map_err(|problem| {
        format!("no kernel to boot: {problem}; give one with --kernel FILE, or have the network once")
    })
}

/// The kernel's modules for a virtio disk, in the order in which they are loaded; none where they are built in. They
/// belong to the image that [`kernel`] gives, so they are fetched with one if they are not there.
pub fn disk_modules(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let kept = folder.join(MODULES);
    if !kept.exists() {
        fetch_kernel(folder).map_err(|problem| format!("no kernel with a disk: {problem}; have the network once"))?;
    }
    let mut modules = files_of(&kept)?;
    modules.sort();
    Ok(modules)
}

fn fetch_kernel(folder: &Path) -> Result<PathBuf, String> {
    let package = KERNEL_PACKAGES.iter().find_map(|meta| {
        let answer = Command::new("apt-cache").args(["depends", meta]).output().ok()?;
        kernel_in(&String::from_utf8_lossy(&answer.stdout))
    });
    let package = package.unwrap_or_else(|| KERNEL_PACKAGES[0].to_owned());
    let kept = folder.join(KERNEL);
    let modules = folder.join(MODULES);
    fetch(folder, &package, &|unpacked| {
        let image = file_in(unpacked, &["boot"], |name| name.starts_with("vmlinuz"))?;
        let found = unpacked.join(MODULES);
        fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
        for (place, name) in DISK_MODULES.iter().enumerate() {
            if let Some(module) = module_in(unpacked, name) {
                let file = module.file_name().unwrap_or_default().to_string_lossy();
                moved(&module, &found.join(format!("{place}-{file}")))?;
            }
        }
        // Modules fit their own kernel only, so both are replaced; the image last, since it is what is looked for.
        let _ = fs::remove_dir_all(&modules);
        moved(&found, &modules)?;
        moved(&image, &kept)
    })?;
    Ok(kept)
}

/// A busybox that needs no library: the host's where it is one, else fetched into `folder`.
pub fn busybox(folder: &Path) -> Result<PathBuf, String> {
    let kept = folder.join("busybox");
    let hosts = [Path::new("/bin/busybox"), Path::new("/usr/bin/busybox")];
    let is_static = |path: &&Path| path.exists() && super::programs::libraries(path).is_ok_and(|list| list.is_empty());
    if let Some(path) = [kept.as_path()].into_iter().chain(hosts).find(is_static) {
        return Ok(path.to_owned());
    }
    fetch(folder, "busybox-static", &|unpacked| {
        moved(&file_in(unpacked, &["bin", "usr/bin"], |name| name == "busybox")?, &kept)
    })
    .map(|()| kept.clone())
    .map_err(|problem| format!("no shell for the machine: {problem}; install package busybox-static"))
}

/// Downloads `package` and unpacks it for `take`, which moves away what is wanted.
fn fetch(folder: &Path, package: &str, take: &dyn Fn(&Path) -> Result<(), String>) -> Result<(), String> {
    let work = folder.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    println!("vm: fetching package {package} (it is not installed)");
    let fetched = unpack_into(&work, package)
        .and_then(|unpacked| take(&unpacked).map_err(|problem| format!("package {package}: {problem}")));
    // Left over only if the folder is not writable, which is told by what comes next.
    let _ = fs::remove_dir_all(&work);
    fetched
}

fn unpack_into(work: &Path, package: &str) -> Result<PathBuf, String> {
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
    Ok(unpacked)
}

/// The file of a package that is wanted, from one of its folders.
fn file_in(unpacked: &Path, within: &[&str], wanted: impl Fn(&str) -> bool) -> Result<PathBuf, String> {
    let files = within.iter().flat_map(|folder| files_of(&unpacked.join(folder)).unwrap_or_default());
    let named = |path: &PathBuf| path.is_file() && path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted);
    files.into_iter().find(named).ok_or_else(|| format!("it does not hold the file in {}", within.join(" or ")))
}

/// A module of a kernel's package, compressed or not.
fn module_in(unpacked: &Path, name: &str) -> Option<PathBuf> {
    let begin = format!("{name}.ko");
    let mut folders: Vec<PathBuf> = ["lib/modules", "usr/lib/modules"].map(|folder| unpacked.join(folder)).into();
    while let Some(folder) = folders.pop() {
        for path in files_of(&folder).unwrap_or_default() {
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin)) {
                return Some(path);
            }
        }
    }
    None
}

fn moved(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| format!("{}: {error}", to.display()))
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
    fn modules_are_found_wherever_a_package_has_them() {
        let unpacked = std::env::temp_dir().join(format!("xtask-modules-{}", std::process::id()));
        let drivers = unpacked.join("usr/lib/modules/6.1/kernel/drivers/virtio");
        fs::create_dir_all(&drivers).unwrap();
        for name in ["virtio.ko.xz", "virtio_ring.ko"] {
            fs::write(drivers.join(name), name).unwrap();
        }
        let found = ["virtio", "virtio_ring", "virtio_blk"].map(|name| module_in(&unpacked, name));
        fs::remove_dir_all(&unpacked).unwrap();
        assert_eq!(found, [Some(drivers.join("virtio.ko.xz")), Some(drivers.join("virtio_ring.ko")), None]);
    }

    #[test]
    fn the_latest_kernel_is_read_from_its_package() {
        let answer = "linux-image-cloud-amd64\n  Depends: linux-base\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(kernel_in(answer).as_deref(), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(kernel_in(""), None);
    }
}
