//! The first program of the machine: a shell script that mounts what programs expect, runs what is asked for, and
//! powers off.
//!
//! What it says goes to the second serial port, in lines that begin with `@vm ` (read by [`super::report`]); the first
//! one belongs to the kernel.

use std::fmt::Write;

use super::report::ProgramKind;

/// Where the archive holds the programs until they are spread over the nodes.
pub const UNPACKED: &str = "/unpacked";
/// Where they run from.
pub const PROGRAMS: &str = "/programs";
/// Where the archive holds all other files and folders below, until what hides them in their place is mounted: a
/// package that lies below `/tmp` here has to lie there in the machine too.
pub const CARRIED: &str = "/carried";

/// One program that is started in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// For people: `numa`, `sched/it`.
    pub name: String,
    /// The TEST of the request that it comes from.
    pub test: usize,
    /// How to read its output.
    pub kind: ProgramKind,
    /// The program's path in the machine.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Set for it.
    pub environment: Vec<(String, String)>,
    /// Where it is started.
    pub folder: String,
}

/// The script. `crash` makes the kernel panic when all has run, which only a check of this tool wants.
pub fn script(runs: &[Run], crash: bool) -> String {
    let mut script = String::from(HEAD);
    for (index, run) in runs.iter().enumerate() {
        let mut command = format!("cd {}", quoted(&run.folder));
        for (name, value) in &run.environment {
            let _ = write!(command, " && export {name}={}", quoted(value));
        }
        let _ = write!(command, " && exec {}", quoted(&run.program));
        for argument in &run.arguments {
            let _ = write!(command, " {}", quoted(argument));
        }
        // The empty line ends a last line that a program left open.
        let _ = writeln!(
            script,
            "echo; echo '@vm begin {index}'\n( {command} )\nstatus=$?; echo; echo \"@vm end {index} $status\""
        );
    }
    if crash {
        script += "sync; echo c >/proc/sysrq-trigger\n";
    }
    script += "echo '@vm done'\npoweroff -f\n";
    script
}

/// What packages and libraries brought goes to its place once nothing more is mounted. Programs are moved to memory
/// that is interleaved over the nodes: unpacked, they all lie on one, which tests want to use. A loopback device,
/// terminals and cgroups are there for the tests that need them.
const HEAD: &str = "\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp TMPDIR=/tmp TERM=dumb RUST_BACKTRACE=0
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
mount -t tmpfs -o mpol=interleave programs /programs || mount -t tmpfs programs /programs
mv /unpacked/* /programs/
cp -a /carried/. / && rm -rf /carried
exec >/dev/ttyS1 2>&1
read -r uptime rest </proc/uptime
echo; echo \"@vm machine $(cat /sys/devices/system/node/has_memory) $(cat /sys/devices/system/node/has_cpu) $uptime\"
";

/// `text` as one word of a shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_commands_that_a_shell_reads_back() {
        let run = Run {
            name: "numa".to_owned(),
            test: 0,
            kind: ProgramKind::Tests,
            program: "/programs/0".to_owned(),
            arguments: vec!["--color".to_owned(), "it's $HOME; x".to_owned()],
            environment: vec![("A".to_owned(), "b c".to_owned())],
            folder: "/tmp".to_owned(),
        };
        let script = script(&[run.clone(), run], false);
        let command = r"( cd '/tmp' && export A='b c' && exec '/programs/0' '--color' 'it'\''s $HOME; x' )";
        assert_eq!(script.matches(command).count(), 2, "{script}");
        assert!(script.contains("@vm begin 1") && script.contains("@vm end 1 $status"));
        assert!(script.ends_with("echo '@vm done'\npoweroff -f\n") && !script.contains("sysrq"));
    }

    #[test]
    fn what_is_quoted_is_one_word() {
        for text in ["", "a b", "'", "$(false)", "a\\b\"c"] {
            let output = std::process::Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {}", quoted(text)))
                .output()
                .expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
    }
}
