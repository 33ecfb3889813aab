//! Words that may not stand in code: what is unfinished, and what a crate or module has promised not to use.
//!
//! Each promise is one of the invariants of `ARCHITECTURE.md`; where the guarded files are gone, the promise itself is
//! reported, so that it cannot rot.
//!
//! # Limits
//! Words of the text: what a macro of another crate expands to, or a function calls elsewhere, is not seen.

use super::Report;
use super::source::SourceFile;
use super::tree::Tree;

/// A promise about some files.
struct Promise {
    /// The files: those whose path begins with one of these.
    prefixes: &'static [&'static str],
    /// Words that stand in none of them; `Atomic*` means all that begin so.
    words: &'static [&'static str],
    /// Whether tests are bound by it too.
    in_tests: bool,
    /// What is promised.
    reason: &'static str,
}

/// What plain functions of plain data have no use for.
const IMPURE: [&str; 23] = [
    "Instant",
    "SystemTime",
    "thread",
    "thread_local",
    "spawn",
    "sleep",
    "Mutex",
    "RwLock",
    "Condvar",
    "Once",
    "OnceLock",
    "LazyLock",
    "parking_lot",
    "Atomic*",
    "atomic",
    "rand",
    "RandomState",
    "HashMap",
    "HashSet",
    "libc",
    "fs",
    "env",
    "unsafe",
];

const PROMISES: [Promise; 5] = [
    Promise {
        prefixes: &["crates/storage/src/"],
        words: &["thread", "thread_local", "spawn", "tokio", "rayon"],
        in_tests: false,
        reason: "`storage` never starts a thread; the caller lends its own through `Parallel`",
    },
    Promise {
        prefixes: &["crates/sched/src/policy.rs", "crates/sched/src/policy/"],
        words: &IMPURE,
        in_tests: true,
        reason: "`sched::policy` is a pure function of plain data: no clock, thread, lock, system call or random order",
    },
    Promise {
        prefixes: &["crates/units/src/balancer.rs", "crates/units/src/balancer/"],
        words: &IMPURE,
        in_tests: true,
        reason: "`units::balancer` is a pure function of plain data, as `sched::policy` is",
    },
    Promise {
        prefixes: &["crates/placer/src/"],
        words: &IMPURE,
        in_tests: true,
        reason: "`placer` decides by pure functions of plain data, as `sched::policy` does",
    },
    Promise {
        prefixes: &["crates/exec/src/"],
        words: &["datafusion*", "sqlparser", "tokio"],
        in_tests: true,
        reason: "`exec` does not know SQL; `nearside` lowers it to `exec::Plan`",
    },
];

/// System calls that move threads or pages between nodes.
const NUMA_CALLS: [&str; 11] = [
    "mbind",
    "move_pages",
    "migrate_pages",
    "set_mempolicy",
    "get_mempolicy",
    "set_mempolicy_home_node",
    "sched_setaffinity",
    "sched_getaffinity",
    "sched_getcpu",
    "getcpu",
    "pthread_setaffinity_np",
];
const NUMA_CALLS_HOME: &str = "crates/numa/";

/// Macros that stand for work not done.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// The rule.
pub fn check(tree: &Tree, report: &mut Report) {
    for promise in &PROMISES {
        let mut guarded = tree.sources.iter().filter(|file| is_guarded(promise, file)).peekable();
        if guarded.peek().is_none() {
            let message = format!("no such file, yet it is promised that {}", promise.reason);
            report.error(promise.prefixes[0], 0, message);
        }
        for file in guarded {
            check_promise(promise, file, report);
        }
    }
    for file in &tree.sources {
        check_numa_calls(file, report);
        check_unfinished(file, report);
        check_attributes(file, report);
    }
}

fn is_guarded(promise: &Promise, file: &SourceFile) -> bool {
    promise.prefixes.iter().any(|prefix| file.path.starts_with(prefix)) && (promise.in_tests || !file.is_test_file())
}

fn check_promise(promise: &Promise, file: &SourceFile, report: &mut Report) {
    for (at, word) in file.words() {
        let is_forbidden = |forbidden: &&str| {
            forbidden.strip_suffix('*').map_or(word == *forbidden, |prefix| word.starts_with(prefix))
        };
        if promise.words.iter().any(is_forbidden) && (promise.in_tests || !file.in_tests(at)) {
            report.error(&file.path, file.line_of(at), format!("`{word}`: {}", promise.reason));
        }
    }
}

fn check_numa_calls(file: &SourceFile, report: &mut Report) {
    if file.path.starts_with(NUMA_CALLS_HOME) {
        return;
    }
    for (at, word) in file.words() {
        let call = word.strip_prefix("SYS_").unwrap_or(word);
        if NUMA_CALLS.contains(&call) {
            report.error(&file.path, file.line_of(at), format!("`{word}`: only `numa` makes NUMA system calls"));
        }
    }
}

fn check_unfinished(file: &SourceFile, report: &mut Report) {
    for (at, word) in file.words() {
        if UNFINISHED.contains(&word) && file.code[at + word.len()..].starts_with('!') {
            report.error(&file.path, file.line_of(at), format!("`{word}!` may not stay: finish it"));
        }
    }
}

/// Attributes that hide something: a test that does not run, code that nothing uses.
fn check_attributes(file: &SourceFile, report: &mut Report) {
    for (at, word) in file.words() {
        let line = file.line_of(at);
        let before = file.code[..at].trim_end();
        let after = file.code[at + word.len()..].trim_start();
        if word == "ignore" && before.ends_with("#[") {
            report.error(&file.path, line, "an ignored test tests nothing: make it run, or skip visibly at run time");
        }
        let hides = matches!(word, "allow" | "expect") && before.ends_with(['[', ',']) && after.starts_with('(');
        let list = after.split(')').next().unwrap_or_default();
        if hides && ["dead_code", "unused"].iter().any(|lint| super::source::words(list).any(|(_, word)| word == *lint))
        {
            report.error(&file.path, line, "code that nothing uses goes, it is not allowed to stay");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;

    /// What is found in a repository that keeps every promise but for one more file.
    fn found(path: &str, text: &str) -> Vec<String> {
        let good = [
            "crates/storage/src/lib.rs",
            "crates/sched/src/policy.rs",
            "crates/units/src/balancer.rs",
            "crates/placer/src/lib.rs",
            "crates/exec/src/lib.rs",
        ];
        let mut files: Vec<(&str, &str)> = good.iter().map(|path| (*path, "//! Good.\n")).collect();
        files.push((path, text));
        errors(check, &files)
    }

    #[test]
    fn storage_starts_no_thread() {
        let text = "fn f() {\n    std::thread::spawn(|| {});\n}\n";
        let errors = found("crates/storage/src/load.rs", text);
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].starts_with("crates/storage/src/load.rs:2: `thread`"), "{errors:?}");
        assert!(found("crates/storage/src/load.rs", "use std::{cmp, thread};")[0].contains("`thread`"));
        let in_tests = "/// A thread.\nfn f() {}\n#[cfg(test)]\nmod tests { use std::thread; }\n";
        assert_eq!(found("crates/storage/src/load.rs", in_tests), Vec::<String>::new());
        assert_eq!(found("crates/storage/src/load/tests.rs", text), Vec::<String>::new());
    }

    #[test]
    fn policy_is_pure() {
        for word in
            ["std::time::Instant", "AtomicU64", "parking_lot::Mutex", "rand::random", "std::collections::HashMap"]
        {
            let text = format!("use {word};\n");
            assert!(!found("crates/sched/src/policy/steal.rs", &text).is_empty(), "{word}");
            assert!(!found("crates/units/src/balancer/tests.rs", &text).is_empty(), "{word}");
            assert!(!found("crates/placer/src/plan.rs", &text).is_empty(), "{word}");
            assert_eq!(found("crates/sched/src/worker.rs", &text), Vec::<String>::new(), "{word}");
        }
    }

    #[test]
    fn exec_knows_no_sql() {
        assert!(found("crates/exec/src/a.rs", "use datafusion_expr::Expr;")[0].contains("does not know SQL"));
    }

    #[test]
    fn a_promise_about_nothing_is_reported() {
        let errors = errors(check, &[("crates/storage/src/lib.rs", ""), ("crates/exec/src/lib.rs", "")]);
        assert!(errors[0].starts_with("crates/sched/src/policy.rs: no such file"), "{errors:?}");
    }

    #[test]
    fn numa_calls_are_made_by_numa() {
        let text = "fn f() { libc::syscall(libc::SYS_mbind); }";
        assert!(found("crates/sched/src/pin.rs", text)[0].contains("`SYS_mbind`"));
        assert_eq!(found("crates/numa/src/sys.rs", text), Vec::<String>::new());
        assert!(found("crates/cli/src/a.rs", "use libc::sched_setaffinity;")[0].contains("only `numa`"));
    }

    #[test]
    fn nothing_unfinished_stays() {
        for bad in ["fn f() { todo!() }", "fn f() { unimplemented!(\"x\") }", "fn f() { dbg!(1); }"] {
            assert!(found("crates/cli/src/a.rs", bad)[0].contains("may not stay"), "{bad}");
        }
        assert_eq!(found("crates/cli/src/a.rs", "// todo!()\nfn todo() { todo() }"), Vec::<String>::new());
    }

    #[test]
    fn nothing_is_hidden() {
        assert!(
            found("crates/cli/src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}")[0].contains(":2: an ignored test")
        );
        assert!(found("crates/cli/src/a.rs", "#[allow(dead_code)]\nfn f() {}")[0].contains("nothing uses"));
        assert!(found("crates/cli/src/a.rs", "#![expect(missing_docs, dead_code)]")[0].contains("nothing uses"));
        assert!(found("crates/cli/src/a.rs", "#[cfg_attr(unix, allow(unused))]")[0].contains("nothing uses"));
        assert_eq!(
            found("crates/cli/src/a.rs", "#[allow(clippy::x)]\nfn f() { x.expect(\"dead_code\") }"),
            Vec::<String>::new()
        );
    }
}
