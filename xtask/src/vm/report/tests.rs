//! Reports of runs that went well and of every way in which one can go wrong.

use super::*;

const GOOD: &str = "\
@vm machine 0-1 0-1 4.07
@vm begin 0

running 3 tests
test region::a ... ok
test region::b - should panic ... ok
test region::c ... ok

successes:

---- region::c stdout ----
skipped: NEARSIDE_TEST_FILL_NODES is not set

successes:
    region::a
    region::b
    region::c

test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.61s


@vm end 0 0
@vm done
";

fn machine() -> Machine {
    Machine { nodes: 2, ..Machine::default() }
}

fn read(text: &str) -> Report {
    let mut report = Report::of(1);
    for line in text.lines() {
        report.line(&format!("{line}\r"));
    }
    report
}

fn faults(text: &str) -> Vec<String> {
    let report = read(text);
    let mut faults = report.runs[0].faults(ProgramKind::Tests, &machine());
    faults.extend(machine_faults(&report, "", &machine()));
    faults
}

#[test]
fn a_good_run_is_good() {
    assert_eq!(faults(GOOD), Vec::<String>::new());
    let report = read(GOOD);
    let names: Vec<&str> = report.runs[0].tests.iter().map(|test| test.0.as_str()).collect();
    assert_eq!(names, ["region::a", "region::b", "region::c"]);
    assert_eq!(report.runs[0].counted, Some((3, 0)));
    assert_eq!(report.runs[0].took.as_deref(), Some("0.61s"));
    assert_eq!(report.booted_s, Some(4.07));
    assert_eq!(report.runs[0].skipped[0].0, "region::c");
}

/// Every line of a good run matters: without it, or with another in its place, there is a fault that says so.
#[test]
fn nothing_passes_by_being_silent() {
    for (line, instead, says) in [
        ("@vm machine 0-1 0-1 4.07\n", "", "did not come up"),
        ("machine 0-1 0-1", "machine 0-1 0", "cpus on nodes 0, not on"),
        ("machine 0-1 0-1", "machine 0 0-1", "memory on nodes 0 "),
        ("@vm begin 0\n", "", "did not begin"),
        ("running 3 tests\n", "", "no list of tests"),
        ("running 3 tests", "running 4 tests", "has 4 tests, of which 3 ended"),
        ("test region::a ... ok\n", "", "has 3 tests, of which 2 ended"),
        ("test region::a ... ok", "test region::a ... FAILED", "region::a failed"),
        ("test region::a ... ok", "test region::a ... ignored, why", "counts (3, 0)"),
        ("NEARSIDE_TEST_FILL_NODES is not set", "this machine has one memory node", "region::c was skipped"),
        ("test result: ok. 3 passed", "test result: ok. 2 passed", "counts (2, 0)"),
        ("test result: ok. 3 passed", "nothing", "printed no result"),
        ("@vm end 0 0", "@vm end 0 101", "exit status 101"),
        ("@vm end 0 0", "@vm end 0 134", "signal 6"),
        ("@vm end 0 0\n", "", "did not end"),
        ("@vm done\n", "", "stopped before"),
    ] {
        assert!(GOOD.contains(line), "{line}");
        let faults = faults(&GOOD.replacen(line, instead, 1));
        assert!(faults.iter().any(|fault| fault.contains(says)), "{line:?} -> {instead:?}: {faults:?}");
    }
}

#[test]
fn output_between_name_and_verdict_is_survived() {
    let text = "@vm begin 0\nrunning 2 tests\ntest a ... child says hello\nmore\nok\ntest b ... \nok\n";
    let report = read(text);
    let passed = |name: &str| (name.to_owned(), Verdict::Passed);
    assert_eq!(report.runs[0].tests, [passed("a"), passed("b")]);
    let report = read("@vm begin 0\nrunning 1 test\ntest stuck ... ");
    assert_eq!(report.runs[0].faults(ProgramKind::Tests, &machine())[0], "did not end, while stuck ran");
}

#[test]
fn what_may_be_skipped_depends_on_the_machine() {
    let two = machine();
    let one = Machine { nodes: 1, ..machine() };
    let cpuless = Machine { cpuless: true, ..machine() };
    for (reason, on_one, on_two, on_cpuless) in [
        ("this machine has one memory node", true, false, false),
        ("this machine has no node without cpus", true, true, false),
        ("needs a machine of one node", false, true, true),
        ("snc2 is not recorded here", true, true, true),
        ("the kernel refuses move_pages here", false, false, false),
    ] {
        let found = [&one, &two, &cpuless].map(|machine| may_be_skipped(reason, machine));
        assert_eq!(found, [on_one, on_two, on_cpuless], "{reason}");
    }
    let packages = |nodes, packages| Machine { nodes, packages: Some(packages), ..machine() };
    for (machine, skipped) in [(two, true), (packages(4, 1), true), (packages(4, 4), true), (packages(4, 2), false)] {
        let reason = "this machine has no package of several nodes beside another one";
        assert_eq!(may_be_skipped(reason, &machine), skipped, "{machine:?}");
    }
}

#[test]
fn bad_news_of_the_kernel_are_faults() {
    let report = read(GOOD);
    for line in [
        "[   12.3] Kernel panic - not syncing: Attempted to kill init!",
        "[    9.1] Out of memory: Killed process 71 (numa) total-vm:1kB",
    ] {
        assert_eq!(machine_faults(&report, &format!("fine\n{line}\nfine"), &machine()), [line]);
    }
    assert!(machine_faults(&report, "[    1.0] random: crng init done", &machine()).is_empty());
}

#[test]
fn programs_are_judged_by_their_status() {
    let report = read("@vm begin 0\n a | b\n@vm end 0 0\n");
    assert!(report.runs[0].faults(ProgramKind::Program, &machine()).is_empty());
    let report = read("@vm begin 0\nerror: no\n@vm end 0 1\n");
    assert_eq!(report.runs[0].faults(ProgramKind::Program, &machine()), ["ended with exit status 1"]);
}
