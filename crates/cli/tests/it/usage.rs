//! Help, version and wrong use.

use crate::program::run;

#[test]
fn every_command_explains_itself_with_examples() {
    for arguments in [
        &["--help"][..],
        &["tpch", "--help"],
        &["sql", "--help"],
        &["topology", "--help"],
        &["bench", "sched", "--help"],
        &["bench", "scan", "--help"],
        &["bench", "kernels", "--help"],
        &["bench", "point", "--help"],
        &["bench", "writes", "--help"],
        &["bench", "plan", "--help"],
        &["bench", "load", "--help"],
        &["bench", "queries", "--help"],
    ] {
        let help = run(arguments).ok();
        assert!(help.contains("Usage: nearside") && help.contains("Examples:"), "{arguments:?}: {help}");
    }
}

#[test]
fn the_version_names_the_revision() {
    let version = run(&["--version"]).ok();
    let rest = version.trim().strip_prefix(concat!("nearside ", env!("CARGO_PKG_VERSION"), " (")).expect("a version");
    let revision = rest.strip_suffix(')').expect("a revision");
    let hash = revision.strip_suffix("-dirty").unwrap_or(revision);
    assert!(hash == "unknown" || hash.len() >= 7, "{revision}");
}

#[test]
fn wrong_use_ends_with_2() {
    for arguments in [
        &[][..],
        &["nonsense"],
        &["sql", "--format", "xml"],
        &["sql", "--memory", "lots"],
        &["sql", "--memory", "0%"],
        &["sql", "--threads", "0"],
        &["sql", "--load", "no-path"],
        &["sql", "--types", "t.c=int"],
        &["sql", "--load", "t=a.csv", "--load", "t=b.csv"],
        &["sql", "-c", "SELECT 1", "-f", "x.sql"],
        &["tpch", "--scale", "0"],
        &["tpch", "--scale", "many"],
        &["tpch", "--queries", "23"],
        &["tpch", "--runs", "0"],
        &["topology", "--format", "yaml"],
        &["bench"],
        &["bench", "sched", "--clients", "0"],
        &["bench", "sched", "--seconds", "-1"],
        &["bench", "sched", "--rows", "many"],
        &["bench", "scan", "--selectivity", "2"],
        &["bench", "scan", "--rows", "1"],
        &["bench", "kernels", "--bits", "0,33"],
        &["bench", "kernels", "--data", "lots"],
        &["bench", "point", "--seconds", "0"],
        &["bench", "writes", "--write-rate", "0"],
        &["bench", "plan", "--runs", "0"],
        &["bench", "load", "--scale", "0"],
        &["bench", "queries", "folder"],
    ] {
        let run = run(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {run:?}");
        assert!(run.out.is_empty() && !run.err.is_empty(), "{arguments:?}: {run:?}");
        assert!(!run.err.contains("panicked"), "{arguments:?}: {run:?}");
    }
}
