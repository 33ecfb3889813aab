//! `cargo xtask vm`: runs tests in an emulated machine of several nodes, where binding, moving and filling memory
//! happens for real.
//!
//! Asked for on the command line ([`request`]), built by cargo ([`programs`]), packed with a shell into an archive
//! ([`archive`], [`init`]) that a kernel ([`debian`]) unpacks as its root in the machine ([`machine`]); QEMU runs it
//! ([`emulator`]), and what the tests print is judged ([`report`]). `docs/design/vm.md` says why each is as it is.
//!
//! # Limits
//! x86-64. Emulated time means nothing: no speed is measured here.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub mod archive;
mod canary;
pub mod debian;
pub mod emulator;
pub mod init;
pub mod machine;
mod report;
mod request;

use crate::command;
use crate::programs::{self, Artifact, SEED, Workspace};
use archive::Archive;
use emulator::End;
use init::Run;
use machine::Files;
use report::{ProgramKind, Report, Verdict};
use request::{Request, What};

pub use request::USAGE;

/// How much of an output is shown when something went wrong.
const TAIL_LINES: usize = 60;
/// Tells tests that nothing else needs memory, so that they may fill nodes.
const FILL_NODES: (&str, &str) = ("NEARSIDE_TEST_FILL_NODES", "1");

/// Programs and where they run, before the machine is booted.
struct Load {
    /// Files for the archive: path in the machine, file of the host.
    files: Vec<(String, PathBuf)>,
    runs: Vec<Run>,
}

/// What came out.
struct Outcome {
    report: Report,
    console: String,
    end: End,
    took_s: f64,
}

/// The command. Exit code 0: all passed; 1: something failed; 2: used wrongly.
pub fn command(root: &Path, words: &[&str]) -> ExitCode {
    command::run("vm", USAGE, words, Request::parse, |request| run(root, request))
}

/// Builds, boots, judges; whether all is well.
fn run(root: &Path, request: &Request) -> Result<bool, String> {
    enough_memory(request.machine.memory_mib(), "use fewer --nodes or less --memory")?;
    let workspace = Workspace::read(root)?;
    let built = build(root, &workspace, request)?;
    let home = workspace.target.join("vm");
    remove_old_runs(&home);
    let folder = home.join(format!("run-{}", std::process::id()));
    create(&folder)?;
    let outcome = prepare(request, &built, &folder).and_then(|load| Ok((boot(request, &load, &home, &folder)?, load)));
    let well = outcome.map(|(outcome, load)| match request.self_check {
        true => judge_canaries(request, &outcome, &load.runs),
        false => judge(request, &outcome, &load.runs, &folder),
    });
    match well {
        // What a person may want to read stays when something failed; the archive is large and can be made again.
        Ok(false) => remove(&folder.join("initramfs")),
        _ => remove(&folder),
    }
    well
}

/// The executables that the request needs.
fn build(root: &Path, workspace: &Workspace, request: &Request) -> Result<Vec<Artifact>, String> {
    let mut folders: Vec<&str> = Vec::new();
    if request.self_check {
        folders.push("xtask");
    }
    for test in &request.tests {
        match &test.what {
            What::Package { folder, .. } => folders.push(folder),
            What::Sql(_) if request.nearside.is_none() => folders.push("cli"),
            _ => {}
        }
    }
    folders.sort_unstable();
    folders.dedup();
    if folders.is_empty() { Ok(Vec::new()) } else { workspace.build(root, &folders, request.workspace) }
}

/// Strips the programs into `folder` and says what to run of them.
fn prepare(request: &Request, built: &[Artifact], folder: &Path) -> Result<Load, String> {
    let mut load = Load { files: Vec::new(), runs: Vec::new() };
    if request.self_check {
        let tester = built.iter().find(|artifact| artifact.test && artifact.folder() == "xtask");
        let tester = tester.ok_or("cargo has built no tests of xtask")?;
        let program = load.program(&tester.path, folder)?;
        load.runs = canary::runs(&program);
    }
    for (index, test) in request.tests.iter().enumerate() {
        let binaries = match &test.what {
            What::Package { folder, target } => binaries(built, folder, target.as_deref())?,
            What::Binary(path) => vec![(test.text.clone(), path.clone(), None)],
            What::Sql(file) => {
                load.sql(request, built, index, file, folder)?;
                continue;
            }
        };
        for (name, path, package) in binaries {
            let program = load.program(&path, folder)?;
            let mut arguments = test.libtest_arguments();
            let threads = if test.fill { 1 } else { request.test_threads };
            arguments.push(format!("--test-threads={threads}"));
            let mut environment = test_seed();
            environment.extend(request.environment.iter().cloned());
            environment.extend(test.fill.then(|| (FILL_NODES.0.to_owned(), FILL_NODES.1.to_owned())));
            let mut start = "/tmp".to_owned();
            if let Some(package) = package {
                // Tests look for their files where the package lay when they were compiled.
                load.data(&package.join("tests"))?;
                start = package.display().to_string();
                environment.push(("CARGO_MANIFEST_DIR".to_owned(), start.clone()));
            }
            load.runs.push(Run {
                name,
                test: index,
                kind: ProgramKind::Tests,
                program,
                arguments,
                environment,
                folder: start,
            });
        }
    }
    Ok(load)
}

/// A test binary: a name for people, the file, and the package's folder when it is one of ours.
type Binary = (String, PathBuf, Option<PathBuf>);

/// What makes the random tests in the machine the ones that run outside: the seed that `.cargo/config.toml` or the user
/// set.
fn test_seed() -> Vec<(String, String)> {
    std::env::var(SEED).map(|seed| (SEED.to_owned(), seed)).into_iter().collect()
}

/// Test binaries of a package by the folder's name.
fn binaries(built: &[Artifact], folder: &str, target: Option<&str>) -> Result<Vec<Binary>, String> {
    let of_package: Vec<&Artifact> = built.iter().filter(|a| a.test && a.folder() == folder).collect();
    let found: Vec<_> = of_package
        .iter()
        .filter(|artifact| target.is_none_or(|target| artifact.target == target))
        .map(|artifact| {
            let name = match artifact.target == folder {
                true => folder.to_owned(),
                false => format!("{folder}/{}", artifact.target),
            };
            (name, artifact.path.clone(), Some(artifact.package.clone()))
        })
        .collect();
    if found.is_empty() {
        let targets: Vec<&str> = of_package.iter().map(|artifact| artifact.target.as_str()).collect();
        return Err(format!("{folder} has no tests `{}`; it has {}", target.unwrap_or(folder), targets.join(", ")));
    }
    Ok(found)
}

impl Load {
    /// Takes a program aboard; gives its path in the machine. One program is taken once.
    fn program(&mut self, path: &Path, folder: &Path) -> Result<String, String> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| format!("{} names no file", path.display()))?;
        let to = format!("{}/{name}", init::PROGRAMS);
        let stripped = folder.join(name);
        if !stripped.exists() {
            programs::strip(path, &stripped)?;
            for library in programs::libraries(path)? {
                self.file(library.display().to_string(), library);
            }
            self.file(format!("{}/{name}", init::UNPACKED), stripped);
        }
        Ok(to)
    }

    fn file(&mut self, to: String, from: PathBuf) {
        if !self.files.iter().any(|(have, _)| *have == to) {
            self.files.push((to, from));
        }
    }

    /// Takes the files below a folder that are not Rust, at the path that they have here.
    fn data(&mut self, folder: &Path) -> Result<(), String> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            if path.is_dir() {
                self.data(&path)?;
            } else if path.extension().is_none_or(|end| end != "rs") {
                self.file(path.display().to_string(), path);
            }
        }
        Ok(())
    }

    /// A run of the program `nearside` with a file of SQL.
    fn sql(
        &mut self,
        request: &Request,
        built: &[Artifact],
        test: usize,
        file: &Path,
        folder: &Path,
    ) -> Result<(), String> {
        let built = built.iter().find(|a| !a.test && a.folder() == "cli" && a.target == "nearside").map(|a| &a.path);
        let path = request.nearside.as_ref().or(built).ok_or("cargo has built no program nearside")?;
        if !file.is_file() {
            return Err(format!("there is no file {}", file.display()));
        }
        let program = self.program(path, folder)?;
        let script = format!("/sql/{test}.sql");
        self.file(script.clone(), file.to_owned());
        self.runs.push(Run {
            name: format!("sql {}", file.display()),
            test,
            kind: ProgramKind::Program,
            program,
            arguments: vec!["sql".to_owned(), "--file".to_owned(), script],
            environment: request.environment.clone(),
            folder: "/tmp".to_owned(),
        });
        Ok(())
    }
}

/// Packs the archive, runs the machine, and tells each test as it ends.
fn boot(request: &Request, load: &Load, home: &Path, folder: &Path) -> Result<Outcome, String> {
    let kernel = request.kernel.clone().map_or_else(|| debian::kernel(home), Ok)?;
    let busybox = debian::busybox(home)?;
    let initramfs = folder.join("initramfs");
    let bytes = pack(request, load, &busybox, &initramfs)
        .map_err(|error| format!("the archive of the machine cannot be written: {error}"))?;
    let console = folder.join("console.txt");
    let results = folder.join("results.txt");
    let files = Files { kernel: &kernel, initramfs: &initramfs, console: &console, results: &results };
    println!("vm: booting {}, programs and libraries are {} MiB", request.machine.describe(), bytes >> 20);
    let begin = Instant::now();
    let mut child = emulator::start(&request.machine.qemu_arguments(files))?;
    let mut report = Report::of(load.runs.len());
    let end = emulator::wait(&mut child, &results, begin + request.timeout, &mut |line| {
        if let Some(words) = line.strip_prefix("@vm begin ")
            && let Some(run) = words.trim().parse::<usize>().ok().and_then(|index| load.runs.get(index))
        {
            println!("vm: {} after {:.0} s", shown(run), begin.elapsed().as_secs_f64());
        } else if request.verbose && !line.starts_with("@vm") {
            println!("{line}");
        }
        if let Some((name, verdict)) = report.line(line)
            && !request.verbose
        {
            println!("  {} {name}", verdict_word(&verdict));
        }
    })?;
    let console = fs::read(&console).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    Ok(Outcome { report, console, end, took_s: begin.elapsed().as_secs_f64() })
}

/// Writes the archive; gives its size.
fn pack(request: &Request, load: &Load, busybox: &Path, to: &Path) -> std::io::Result<u64> {
    let mut archive = Archive::new(BufWriter::new(fs::File::create(to)?));
    for folder in ["bin", "dev", "proc", "sys", "tmp", "etc", init::UNPACKED, init::PROGRAMS] {
        archive.folder(folder)?;
    }
    archive.file("/init", 0o755, init::script(&load.runs, request.self_check).as_bytes())?;
    archive.file("/etc/passwd", 0o644, b"root:x:0:0:root:/tmp:/bin/sh\n")?;
    archive.copy("/bin/busybox", busybox)?;
    for run in &load.runs {
        archive.folder(&carried(&run.folder))?;
    }
    for (path, from) in &load.files {
        archive.copy(&carried(path), from)?;
    }
    archive.finish()?;
    Ok(fs::metadata(to)?.len())
}

/// Where the archive holds what shall be at this path in the machine.
fn carried(path: &str) -> String {
    if path.starts_with(init::UNPACKED) { path.to_owned() } else { format!("{}{path}", init::CARRIED) }
}

/// Prints what is wrong, and the sum; whether all is well.
fn judge(request: &Request, outcome: &Outcome, runs: &[Run], folder: &Path) -> bool {
    let report = &outcome.report;
    let mut well = true;
    for (index, (run, found)) in runs.iter().zip(&report.runs).enumerate() {
        let mut faults = found.faults(run.kind, &request.machine);
        // A filter may match in one binary of a package only, but it has to match somewhere.
        let first = runs.iter().position(|other| other.test == run.test) == Some(index);
        if first && run.kind == ProgramKind::Tests && nothing_ran(runs, report, run.test) {
            faults.push(canary::NOTHING_RAN.to_owned());
        }
        println!("vm: {}: {}", shown(run), sum(run, found));
        for (test, reason) in &found.skipped {
            println!("  skipped {test}: {reason}");
        }
        if run.kind == ProgramKind::Program && faults.is_empty() && !request.verbose {
            found.lines.iter().for_each(|line| println!("  {line}"));
        }
        if !faults.is_empty() {
            well = false;
            found.evidence(TAIL_LINES).iter().for_each(|line| println!("  | {line}"));
            faults.iter().for_each(|fault| println!("vm: FAILED: {}: {fault}", shown(run)));
        }
    }
    let mut faults = report::machine_faults(report, &outcome.console, &request.machine);
    match &outcome.end {
        End::TimedOut => faults.push(format!("the time of {} s (--timeout) was over", request.timeout.as_secs())),
        End::Ended(status) if !status.success() => faults.push(format!("{} ended with {status}", emulator::QEMU)),
        End::Ended(_) => {}
    }
    if !faults.is_empty() {
        well = false;
        let lines: Vec<&str> = outcome.console.lines().collect();
        println!("vm: the end of the kernel's console:");
        lines[lines.len().saturating_sub(TAIL_LINES)..].iter().for_each(|line| println!("  | {line}"));
        faults.iter().for_each(|fault| println!("vm: FAILED: {fault}"));
    }
    if !well {
        println!("vm: console.txt and results.txt are in {}", folder.display());
    }
    let passed: usize = report.runs.iter().map(|run| run.count(&Verdict::Passed)).sum();
    let skipped: usize = report.runs.iter().map(|run| run.skipped.len()).sum();
    let programs = runs
        .iter()
        .zip(&report.runs)
        .filter(|(run, found)| run.kind == ProgramKind::Program && found.status == Some(0));
    println!(
        "vm: {}: {passed} tests ({skipped} of them skipped) and {} programs passed on {} in {:.0} s, {:.0} s of that \
         to boot",
        if well { "all is well" } else { "FAILED" },
        programs.count(),
        request.machine.describe(),
        outcome.took_s,
        report.booted_s.unwrap_or(f64::NAN),
    );
    well
}

/// Whether every canary was seen to fail in its way, the eaten memory and the panic of the kernel too, and nothing else
/// is amiss.
fn judge_canaries(request: &Request, outcome: &Outcome, runs: &[Run]) -> bool {
    let mut missed = Vec::new();
    for (run, canary) in runs.iter().zip(&canary::CANARIES) {
        let found = &outcome.report.runs[run.test];
        let mut faults = found.faults(run.kind, &request.machine);
        if nothing_ran(runs, &outcome.report, run.test) {
            faults.push(canary::NOTHING_RAN.to_owned());
        }
        if !faults.iter().any(|fault| fault.contains(canary.fault)) {
            missed.push(format!("{} should have `{}`, but has {faults:?}", run.name, canary.fault));
        }
    }
    let faults = report::machine_faults(&outcome.report, &outcome.console, &request.machine);
    for news in ["Out of memory", "Kernel panic", "stopped before all tests had run"] {
        if !faults.iter().any(|fault| fault.contains(news)) {
            missed.push(format!("`{news}` was not noticed among {faults:?}"));
        }
    }
    if let End::TimedOut = outcome.end {
        missed.push("the machine did not end".to_owned());
    }
    missed.iter().for_each(|missed| println!("vm: FAILED: self-check: {missed}"));
    if missed.is_empty() {
        println!("vm: self-check: every failure was seen, in {:.0} s", outcome.took_s);
    }
    missed.is_empty()
}

fn nothing_ran(runs: &[Run], report: &Report, test: usize) -> bool {
    runs.iter().zip(&report.runs).filter(|(run, _)| run.test == test).all(|(_, found)| found.tests.is_empty())
}

fn sum(run: &Run, found: &report::RunReport) -> String {
    let status = found.status.map_or("no exit status".to_owned(), |status| format!("exit status {status}"));
    if run.kind == ProgramKind::Program {
        return status;
    }
    let count = |verdict| found.count(&verdict);
    format!(
        "{} passed, {} failed, {} ignored, {} skipped in {}; {status}",
        count(Verdict::Passed),
        count(Verdict::Failed),
        count(Verdict::Ignored),
        found.skipped.len(),
        found.took.as_deref().unwrap_or("an unknown time"),
    )
}

/// A run's name, with what was chosen of it.
fn shown(run: &Run) -> String {
    if run.name.starts_with("canary") || run.kind == ProgramKind::Program {
        return run.name.clone();
    }
    let chosen = run.arguments.iter().skip_while(|word| *word != "--show-output").skip(1);
    let chosen: Vec<&str> = chosen.map(String::as_str).filter(|word| *word != "--test-threads=1").collect();
    if run.kind == ProgramKind::Program || chosen.is_empty() {
        run.name.clone()
    } else {
        format!("{} ({})", run.name, chosen.join(" "))
    }
}

fn verdict_word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed ",
        Verdict::Failed => "FAILED ",
        Verdict::Ignored => "ignored",
    }
}

/// QEMU takes memory as the machine touches it; on a host that has too little, something else would be killed for it.
pub fn enough_memory(wanted_mib: u32, advice: &str) -> Result<(), String> {
    let wanted = u64::from(wanted_mib);
    let text = fs::read_to_string("/proc/meminfo")
        .map_err(|error| format!("the machine needs Linux: /proc/meminfo: {error}"))?;
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    match available.map(|kib| kib >> 10) {
        Some(mib) if mib < wanted => {
            Err(format!("the machine would have {wanted} MiB, but {mib} MiB are free here; {advice}"))
        }
        _ => Ok(()),
    }
}

/// Removes what failed and interrupted runs have left, but no run that is under way.
pub fn remove_old_runs(home: &Path) {
    let entries = fs::read_dir(home).into_iter().flatten().filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let process = name.strip_prefix("run-").or(name.strip_prefix("fetch-"));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            remove(&path);
        }
    }
}

/// Makes a folder and those above it.
pub fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Removes a file or folder of ours; what cannot be removed is told, since it is large.
pub fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    if let Err(error) = removed {
        eprintln!("vm: {} is left over: {error}", path.display());
    }
}
