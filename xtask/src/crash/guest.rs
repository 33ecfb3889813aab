//! What the machine does that is switched off, and how it says so: a first program that mounts the disk and takes one
//! step after the other, each between two lines that begin with `@vm `.
//!
//! What the machine says passes a serial port, so it is heard later than it was said, never earlier; a line that is not
//! whole when the power goes is not heard.
//!
//! # Limits
//! No answer of the program may have a line that begins with `@vm `.

use std::fmt::Write as _;

use super::judge::{DONE, sums};
use super::writer;
use crate::vm::init::quoted;

/// The program's place in the machine.
pub const PROGRAM: &str = "/programs/nearside";
/// The statements that it writes with.
pub const SCRIPT: &str = "/script.sql";
/// What the kernel needs for the disk, in the order of their names.
pub const MODULES: &str = "/modules";
/// Where the disk is mounted, and the database on it.
pub const DISK: &str = "/disk";
const DATABASE: &str = "/disk/database";

/// The step that finds the disk.
const FIND: &str = "find";
/// The step that makes the tables.
const MAKE: &str = "make";
/// The step that answers [`DONE`] and then [`sums`].
const ASK: &str = "ask";
/// The step that writes until the power goes.
pub const WRITE: &str = "write";

/// How the file system is mounted: as usual, or so that it keeps less order than programs are used to.
pub const MOUNTED: [&str; 2] = ["data=ordered", "data=writeback,noauto_da_alloc"];

/// What is done between mounting and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The disk is empty: tables are made.
    Make,
    /// What is there is verified and asked for.
    Ask,
}

impl Task {
    /// The step with which it ends.
    pub fn last_step(self) -> &'static str {
        match self {
            Task::Make => MAKE,
            Task::Ask => ASK,
        }
    }
}

/// The first program. It writes at last if it is to.
pub fn init(task: Task, mounted: &str, writes: bool) -> String {
    let mut script = String::from(HEAD);
    let sql = |words: &str| format!("{PROGRAM} sql --database {DATABASE} --format csv {words}");
    let mut step = |name: &str, command: &str| {
        // The empty line ends a last line that a program left open.
        let _ = writeln!(
            script,
            "echo; echo '@vm begin {name}'; drain\n{command}\nstatus=$?; echo; echo \"@vm end {name} $status\"\n\
             [ $status = 0 ] || stop"
        );
    };
    step(FIND, "find_disk");
    step("mount", &format!("mount -t ext4 -o {mounted} $disk {DISK}"));
    match task {
        Task::Make => step(MAKE, &sql(&format!("-c {}", quoted(&writer::tables())))),
        Task::Ask => {
            step("check", &format!("{PROGRAM} check {DATABASE}"));
            step(ASK, &sql(&format!("-c {}", quoted(&format!("{DONE}; {}", sums())))));
        }
    }
    if writes {
        step(WRITE, &sql(&format!("<{SCRIPT}")));
    }
    script += "stop\n";
    script
}

/// The disk has to have a cache that is flushed, and no other way to make a write last: see [`super::boot`]. `stty`
/// waits until everything was sent, so whoever has not heard that a step begins knows that it has not begun. A machine
/// that stops waits for its power to go: it does not unmount, nor does it write what it has in memory.
const HEAD: &str = "\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp TMPDIR=/tmp TERM=dumb RUST_BACKTRACE=0
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
exec >/dev/ttyS1 2>&1
disk=/dev/vda
drain() { stty -echo </dev/ttyS1; }
stop() { drain; while :; do sleep 1000; done; }
find_disk() {
    for module in /modules/*; do [ ! -e $module ] || insmod $module; done
    for try in 1 2 3 4 5 6 7 8 9 10; do
        [ -b $disk ] && break
        sleep 0.5
    done
    cd /sys/block/vda/queue || { echo the kernel has no driver of virtio disks; return 1; }
    [ \"$(cat write_cache)\" = 'write back' ] || { echo the disk has no write cache; return 1; }
    [ \"$(cat fua)\" = 0 ] || { echo the disk is not flushed after forced writes; return 1; }
    cd /
}
";

/// What a machine has said.
#[derive(Debug, Default)]
pub struct Heard {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: String,
    lines: Vec<String>,
    status: Option<u32>,
}

impl Heard {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_end_matches(['\r', '\n']);
        let words: Vec<&str> = line.split(' ').collect();
        match (words.as_slice(), self.steps.last_mut()) {
            (["@vm", "begin", name], _) => {
                self.steps.push(Step { name: (*name).to_owned(), lines: Vec::new(), status: None });
            }
            (["@vm", "end", name, status], Some(step)) if step.name == *name => {
                step.status = Some(status.parse().unwrap_or(u32::MAX));
            }
            (_, Some(step)) if !line.is_empty() => step.lines.push(line.to_owned()),
            _ => {}
        }
    }

    /// Whether this step began.
    pub fn has_begun(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step.name == name)
    }

    /// Whether this step came to a good end.
    pub fn has_done(&self, name: &str) -> bool {
        self.answer(name).is_some()
    }

    /// The answers to [`DONE`] and [`sums`], once both are heard, without the names of columns.
    pub fn answers(&self) -> Option<(&[String], &str)> {
        let lines = self.answer(ASK)?;
        // Names, one row, at the end; names and many rows before.
        let (sums, lines) = lines.split_last()?;
        let (_, lines) = lines.split_last()?;
        Some((lines.get(1..)?, sums))
    }

    /// Numbers of the transactions that were acknowledged.
    pub fn acknowledged(&self) -> impl Iterator<Item = usize> {
        let lines = self.steps.iter().filter(|step| step.name == WRITE).flat_map(|step| &step.lines);
        lines.filter_map(|line| writer::acknowledged(line))
    }

    /// A step that failed, and the last lines that it said.
    pub fn failed(&self) -> Option<(&str, String)> {
        let step = self.steps.iter().find(|step| step.status.is_some_and(|status| status != 0))?;
        Some((&step.name, step.lines[step.lines.len().saturating_sub(5)..].join("; ")))
    }

    /// The step that was heard of last, for people.
    pub fn last(&self) -> &str {
        self.steps.last().map_or("nothing", |step| &step.name)
    }

    fn answer(&self, name: &str) -> Option<&[String]> {
        let step = self.steps.iter().find(|step| step.name == name && step.status == Some(0))?;
        Some(&step.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Heard {
        let mut heard = Heard::default();
        text.lines().for_each(|line| heard.line(line));
        heard
    }

    const GOOD: &str = "\
noise

@vm begin check

@vm end check 0
@vm begin ask
n,kind
0,load
2,transfer
a,b
1,true

@vm end ask 0
@vm begin write
said
acknowledged 3
said
acknowledged 5\r
";

    #[test]
    fn answers_and_acknowledgements_are_heard() {
        let heard = heard(GOOD);
        let (done, sums) = heard.answers().unwrap();
        assert_eq!((done, sums), (&["0,load".to_owned(), "2,transfer".to_owned()][..], "1,true"));
        assert_eq!(heard.acknowledged().collect::<Vec<_>>(), [3, 5]);
        assert!(heard.has_begun(WRITE) && !heard.has_done(WRITE) && heard.has_done("check"));
        assert!(heard.failed().is_none());
        assert_eq!(heard.last(), "write");
    }

    #[test]
    fn nothing_is_heard_before_it_ends_well() {
        let end = "@vm end ask 0";
        assert!(heard(&GOOD.replace(end, "")).answers().is_none());
        let failed = heard(&GOOD.replace(end, "@vm end ask 101"));
        assert!(failed.answers().is_none() && failed.failed().is_some());
        let short = heard("@vm begin ask\nn,kind\n@vm end ask 0\n");
        assert!(short.has_done(ASK) && short.answers().is_none());
        let failed = heard("@vm begin mount\nno such\ndevice\n@vm end mount 255\n");
        assert_eq!(failed.failed(), Some(("mount", "no such; device".to_owned())));
        // What another step says is no acknowledgement.
        assert_eq!(heard("@vm begin check\nacknowledged 3\n").acknowledged().count(), 0);
    }

    #[test]
    fn the_script_is_one_that_a_shell_can_read() {
        for (task, writes, steps) in [(Task::Make, true, 4), (Task::Ask, true, 5), (Task::Ask, false, 4)] {
            let script = init(task, MOUNTED[1], writes);
            assert_eq!(script.matches("@vm begin").count(), steps, "{script}");
            assert_eq!(script.contains(SCRIPT), writes);
            let read = std::process::Command::new("sh").args(["-n", "-c", &script]).status().expect("a shell");
            assert!(read.success(), "{script}");
        }
    }

    /// A shell runs the steps, with other commands in their places.
    #[test]
    fn what_a_shell_says_is_understood() {
        let script = init(Task::Ask, MOUNTED[0], false);
        let steps = &script[HEAD.len()..];
        let head = "drain() { :; }\nstop() { exit; }\nfind_disk() { disk=/dev/x; }\nmount() { :; }\n";
        let shell = |program: &str| {
            let steps = steps.replace(PROGRAM, program);
            let output = std::process::Command::new("sh").args(["-c", &format!("{head}{steps}")]).output().unwrap();
            heard(&String::from_utf8_lossy(&output.stdout))
        };
        let good = shell("printf 'n\\nx\\nm\\ny' #");
        assert_eq!(good.answers(), Some((&["x".to_owned()][..], "y")));
        let failed = shell("{ printf no; false; } #");
        assert_eq!(failed.failed(), Some(("check", "no".to_owned())));
        assert!(!failed.has_begun(ASK));
    }
}
