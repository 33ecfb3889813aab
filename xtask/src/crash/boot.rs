//! One boot of the machine that is switched off: kernel, archive and disk are put together, QEMU is started, what the
//! machine says is heard, and its power goes at a moment that was planned.
//!
//! The moment is the flush behind a number of requests that change the disk, counted from an acknowledgement or from
//! the beginning: time would nearly always hit a processor that computes, and a disk with nothing in its cache.
//!
//! # Limits
//! Emulated, as all machines of [`crate::vm`]: slow, and how long anything takes means nothing.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::disk::{BLOCK_BYTES, Disk};
use super::guest::{self, Heard, Task, WRITE};
use super::nbd::{self, Plug};
use crate::programs;
use crate::vm::archive::Archive;
use crate::vm::emulator::{self, Follow, QEMU};
use crate::vm::machine::{Files, Machine};
use crate::vm::{self, debian};

/// Memory of the machine: the archive lies in it twice for a moment, and a debug build is large.
pub const MEMORY_MIB: u32 = 1024;
/// What is enough for the databases that are written; only blocks that are written take memory here.
const DISK_BYTES: u64 = 1 << 30;
/// A boot that is not switched off by then hangs. A usual one takes 15 s, and minutes where others use the processor.
const BOOT_LIMIT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(5);
/// How much of the kernel's console is shown when something went wrong.
const TAIL_LINES: usize = 20;
/// The kernel flushes it after each write that is to be forced. QEMU's NVMe disk (7.2) would be told to force it
/// instead, and does not do so.
const DEVICE: &str = "virtio-blk-pci,drive=disk,logical_block_size=4096,physical_block_size=4096";

/// What all boots have in common.
pub struct Setup {
    folder: PathBuf,
    kernel: PathBuf,
    /// The part of the archive that is the same each time.
    base: PathBuf,
}

/// What a boot does, and when its power goes.
#[derive(Debug)]
pub struct Plan {
    /// Before it writes.
    pub task: Task,
    /// How the file system is mounted.
    pub mounted: &'static str,
    /// Statements that it writes with; nothing, where it ends after the task.
    pub script: String,
    /// When the power goes.
    pub off: Off,
}

/// When the power goes; at the latest when everything was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// After so many requests that change the disk, counted from the beginning.
    Early(usize),
    /// After so many transactions were acknowledged, and so many requests more.
    Acknowledged(usize, usize),
    /// When everything was done.
    Done,
}

impl Display for Off {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Off::Early(requests) => write!(f, "{requests} requests after the beginning"),
            Off::Acknowledged(number, requests) => write!(f, "{requests} requests after acknowledgement {number}"),
            Off::Done => f.write_str("when all was done"),
        }
    }
}

impl Setup {
    /// Fetches and packs what a machine needs for this program. `home` keeps the kernel, `folder` is for this run.
    pub fn made(program: &Path, home: &Path, folder: &Path) -> Result<Setup, String> {
        let modules = debian::disk_modules(home)?;
        let kernel = debian::kernel(home)?;
        let busybox = debian::busybox(home)?;
        let stripped = folder.join("nearside");
        programs::strip(program, &stripped)?;
        let base = folder.join("base");
        let libraries = programs::libraries(program)?;
        pack(&base, &busybox, &stripped, &libraries, &modules)
            .map_err(|error| format!("the archive of the machine cannot be written: {error}"))?;
        vm::remove(&stripped);
        Ok(Setup { folder: folder.to_owned(), kernel, base })
    }

    /// A disk with an empty file system.
    pub fn formatted(&self) -> Result<Disk, String> {
        let path = self.folder.join("empty.img");
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        File::create(&path).and_then(|file| file.set_len(DISK_BYTES)).map_err(failed)?;
        // Nothing is left for the kernel to do in the background, so what is written is the program's.
        let words = ["-q", "-F", "-N", "2048", "-J", "size=16", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        let block = BLOCK_BYTES.to_string();
        // Users who are not root do not look in /sbin.
        let tried = ["mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"];
        let output = tried
            .iter()
            .find_map(|mkfs| Command::new(mkfs).args(["-b", &block]).args(words).arg(&path).output().ok())
            .ok_or("mkfs.ext4 is not installed; on Debian and Ubuntu: apt-get install e2fsprogs")?;
        if !output.status.success() {
            return Err(format!("mkfs.ext4 failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let disk = Disk::read(&path).map_err(failed)?;
        vm::remove(&path);
        Ok(disk)
    }

    /// Boots with this disk until the power goes; what was heard, and the disk with what its cache has. An error is one
    /// of the machine, not of the program in it.
    pub fn boot(&self, disk: Disk, plan: &Plan) -> Result<(Heard, Disk), String> {
        let init = guest::init(plan.task, plan.mounted, !plan.script.is_empty());
        let initramfs = self.folder.join("initramfs");
        fs::copy(&self.base, &initramfs)
            .and_then(|_| {
                let file = File::options().append(true).open(&initramfs)?;
                // The kernel unpacks one archive after the other.
                let mut archive = Archive::new(BufWriter::new(file));
                archive.file("/init", 0o755, init.as_bytes())?;
                archive.file(guest::SCRIPT, 0o644, plan.script.as_bytes())?;
                archive.finish()
            })
            .map_err(|error| format!("{}: {error}", initramfs.display()))?;
        let socket = std::env::temp_dir().join(format!("nearside-disk-{}", std::process::id()));
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(|error| format!("{}: {error}", socket.display()))?;
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        let results = self.results();
        let _ = fs::remove_file(&results);
        let mut child = emulator::start(&self.arguments(&initramfs, &socket))?;
        let plug = Plug::new(disk);
        let heard = thread::scope(|scope| {
            let heard = watch(&mut child, &results, plan, &plug, &mut || match listener.accept() {
                Ok((stream, _)) => {
                    let plug = &plug;
                    scope.spawn(move || match stream.set_nonblocking(false).and_then(|()| nbd::serve(stream, plug)) {
                        Ok(()) => {}
                        Err(error) => eprintln!("crash: the disk: {error}"),
                    });
                    true
                }
                Err(_) => false,
            });
            // It may have ended by itself; either way it is gone afterwards, and the disk's line with it.
            let _ = child.kill();
            let _ = child.wait();
            heard
        });
        let _ = fs::remove_file(&socket);
        let heard = heard.map_err(|problem| format!("{problem}{}", self.console_tail()))?;
        Ok((heard, plug.into_disk()))
    }

    fn arguments(&self, initramfs: &Path, socket: &Path) -> Vec<String> {
        let machine = Machine { nodes: 1, cpus_per_node: 2, node_mib: MEMORY_MIB, ..Machine::default() };
        let (console, results) = (self.folder.join("console.txt"), self.results());
        let files = Files { kernel: &self.kernel, initramfs, console: &console, results: &results };
        let mut arguments = machine.qemu_arguments(files);
        // Nothing between the machine and the disk keeps what is written: flushes are passed on.
        let disk = format!("driver=nbd,node-name=disk,server.type=unix,server.path={}", socket.display());
        arguments.extend(["-blockdev".to_owned(), disk, "-device".to_owned(), DEVICE.to_owned()]);
        arguments
    }

    fn results(&self) -> PathBuf {
        self.folder.join("results.txt")
    }

    fn console_tail(&self) -> String {
        let console = fs::read(self.folder.join("console.txt")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| format!("\n  | {line}"));
        format!("; the end of the kernel's console:{}", tail.collect::<String>())
    }
}

/// Hears the machine until its power is gone.
fn watch(
    child: &mut Child,
    results: &Path,
    plan: &Plan,
    plug: &Plug,
    connect: &mut dyn FnMut() -> bool,
) -> Result<Heard, String> {
    let begun = Instant::now();
    let mut follow = Follow::default();
    let mut heard = Heard::default();
    let mut connected = false;
    if let Off::Early(requests) = plan.off {
        plug.off_after(requests);
    }
    loop {
        connected = connected || connect();
        let off = plug.is_off();
        if off {
            // What it says from here on it cannot have waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
        follow.read(results, &mut |line| heard.line(line));
        if off {
            return Ok(heard);
        }
        match plan.off {
            _ if heard.failed().is_some() || heard.has_done(last_step(plan)) => plug.off(),
            Off::Acknowledged(number, requests) if heard.acknowledged().count() >= number => plug.off_after(requests),
            _ => {}
        }
        if let Some(status) = child.try_wait().map_err(|error| format!("{QEMU} cannot be waited for: {error}"))? {
            return Err(format!("{QEMU} ended with {status} (heard of: {})", heard.last()));
        }
        if begun.elapsed() > BOOT_LIMIT {
            return Err(format!("the machine hangs (heard of: {})", heard.last()));
        }
        thread::sleep(POLL);
    }
}

/// The step after whose good end nothing comes.
fn last_step(plan: &Plan) -> &'static str {
    if plan.script.is_empty() { plan.task.last_step() } else { WRITE }
}

/// Writes what is the same in all boots.
fn pack(to: &Path, busybox: &Path, program: &Path, libraries: &[PathBuf], modules: &[PathBuf]) -> io::Result<()> {
    let mut archive = Archive::new(BufWriter::new(File::create(to)?));
    for folder in ["bin", "dev", "proc", "sys", "tmp", guest::DISK, guest::MODULES] {
        archive.folder(folder)?;
    }
    archive.copy("/bin/busybox", busybox)?;
    archive.copy(guest::PROGRAM, program)?;
    for library in libraries {
        archive.copy(&library.display().to_string(), library)?;
    }
    for module in modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.copy(&format!("{}/{name}", guest::MODULES), module)?;
    }
    archive.finish()?;
    Ok(())
}
