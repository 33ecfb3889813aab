//! How long a file and a function may be.
//!
//! A file above the limit is an error. Long functions are a ratchet: those in `xtask/long-functions.txt` may stay as
//! they are, and one that is new or has grown is warned about, so the rule bites on what is touched and never forces a
//! rewrite.
//!
//! # Limits
//! Two functions of one name in one file share a line of the record; the longest counts.

use std::collections::BTreeMap;

use super::Report;
use super::tree::Tree;

/// Lines that a `.rs` file may have; 150 to 500 are comfortable. Tests may be longer.
const FILE_LINES_MAX: usize = 800;
/// Lines that a function may have, signature and closing brace counted.
const FUNCTION_LINES_MAX: usize = 70;
/// The record of long functions: lines, file and name of each.
pub const BASELINE: &str = "xtask/long-functions.txt";

const BASELINE_HEAD: &str = "\
# Functions above 70 lines when this was written: lines, file, name. `cargo xtask tidy` warns about new and grown ones.
# Written by `cargo xtask tidy --accept-long-functions`; it should only ever get shorter.
";

/// File and function name.
type Key = (String, String);

/// The rule.
pub fn check(tree: &Tree, report: &mut Report) {
    for file in tree.sources.iter().filter(|file| !file.is_test_file()) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let message = format!("{lines} lines, more than {FILE_LINES_MAX}: split it by what it does");
            report.error(&file.path, 0, message);
        }
    }
    let recorded = read_baseline(tree.text(BASELINE).unwrap_or_default(), report);
    let long = long_functions(tree);
    for ((path, name), &(line, lines)) in &long {
        let before = recorded.get(&(path.clone(), name.clone())).copied();
        if before.is_none_or(|before| lines > before) {
            let grown = before.map(|before| format!(", {before} when it was recorded")).unwrap_or_default();
            report.warning(
                path,
                line,
                format!("fn {name} has {lines} lines{grown}; {FUNCTION_LINES_MAX} are the limit"),
            );
        }
    }
    for (path, name) in recorded.keys().filter(|key| !long.contains_key(*key)) {
        report.warning(BASELINE, 0, format!("{path} {name} is no longer long: remove the line"));
    }
}

/// The content of the record for the repository as it is.
pub fn baseline(tree: &Tree) -> String {
    let lines = long_functions(tree).into_iter().map(|((path, name), (_, lines))| format!("{lines} {path} {name}\n"));
    std::iter::once(BASELINE_HEAD.to_owned()).chain(lines).collect()
}

/// Line and length of every function above the limit, tests left out.
fn long_functions(tree: &Tree) -> BTreeMap<Key, (usize, usize)> {
    let mut long: BTreeMap<Key, (usize, usize)> = BTreeMap::new();
    for file in &tree.sources {
        for function in file.functions() {
            if function.lines > FUNCTION_LINES_MAX && !function.is_test {
                let longest = long.entry((file.path.clone(), function.name)).or_default();
                if function.lines > longest.1 {
                    *longest = (function.line, function.lines);
                }
            }
        }
    }
    long
}

/// Reads the record; a line that is no entry is an error.
fn read_baseline(text: &str, report: &mut Report) -> BTreeMap<Key, usize> {
    let mut recorded = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match (fields.as_slice(), fields.first().and_then(|lines| lines.parse().ok())) {
            ([_, path, name], Some(lines)) => {
                recorded.insert(((*path).to_owned(), (*name).to_owned()), lines);
            }
            _ => report.error(BASELINE, index + 1, "is not `lines file name`"),
        }
    }
    recorded
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;

    #[test]
    fn files_have_a_limit_and_tests_have_none() {
        let long = "//! x\n".repeat(801);
        assert!(errors(check, &[("crates/a/src/lib.rs", &long)])[0].contains("801 lines"));
        assert_eq!(errors(check, &[("crates/a/src/lib.rs", &long[6..])]), Vec::<String>::new());
        assert_eq!(errors(check, &[("crates/a/src/b/tests.rs", &long)]), Vec::<String>::new());
    }

    fn warnings(record: &str, body_lines: usize) -> Vec<String> {
        let mut tree = Tree::default();
        tree.add("a.rs", &format!("fn short() {{}}\nfn f() {{\n{}}}\n", "    g();\n".repeat(body_lines)));
        tree.add(BASELINE, record);
        let mut report = Report::default();
        check(&tree, &mut report);
        assert!(report.errors.is_empty());
        report.warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn new_and_grown_functions_are_warned_about() {
        assert_eq!(warnings("", 68), Vec::<String>::new());
        assert_eq!(warnings("", 69), ["a.rs:2: fn f has 71 lines; 70 are the limit"]);
        assert_eq!(warnings("80 a.rs f\n", 78), Vec::<String>::new());
        assert!(warnings("80 a.rs f\n", 79)[0].contains("81 lines, 80 when it was recorded"));
        assert!(warnings("# head\n80 a.rs f\n", 5)[0].contains("remove the line"));
    }

    #[test]
    fn the_record_is_what_it_reads() {
        let mut tree = Tree::default();
        tree.add("a.rs", &format!("fn f() {{\n{}}}\n", "    g();\n".repeat(90)));
        let record = baseline(&tree);
        assert!(record.ends_with("92 a.rs f\n"), "{record}");
        tree.add(BASELINE, &record);
        let mut report = Report::default();
        check(&tree, &mut report);
        assert!(report.warnings.is_empty() && report.errors.is_empty());
        assert!(errors(check, &[(BASELINE, "many a.rs f\n")])[0].contains("is not"));
    }
}
