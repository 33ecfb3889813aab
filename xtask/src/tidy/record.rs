//! What rules found when it was recorded, in `xtask/recorded.txt`: rules that came after the code refuse what is added,
//! and let stay what is written there until somebody touches it.
//!
//! # Limits
//! Findings are told apart by rule, file and a word (a name, an arrow), not by line, so a line may move.

use std::collections::BTreeMap;

use super::Report;
use super::exception::Exception;
use super::tree::Tree;
use super::{columns, cycles, unused};

/// The record: rule, file, word and count of each finding.
pub const RECORD: &str = "xtask/recorded.txt";

const RECORD_HEAD: &str = "\
# What `cargo xtask tidy` lets stay: rule, file, what, how often. It refuses more of it, and asks to remove what is \
gone.
# Written by `cargo xtask tidy --accept`; it should only ever get shorter.
";

/// Rule, file, word.
type Key = (String, String, String);

/// The rule: everything that is found is in the record, as often at least.
pub fn check(tree: &Tree, report: &mut Report) {
    let mut recorded = read(tree.text(RECORD).unwrap_or_default(), report);
    for finding in all(tree) {
        let before = recorded.remove(&key(&finding));
        if before.is_none_or(|before| finding.count > before) {
            report.error(&finding.path, finding.line, finding.message);
        } else if before.is_some_and(|before| finding.count < before) {
            let message =
                format!("{} {}: {} are left: `--accept` writes it", finding.path, finding.what, finding.count);
            report.warning(RECORD, 0, message);
        }
    }
    for (rule, path, what) in recorded.keys() {
        report.warning(RECORD, 0, format!("{rule} {path} {what} is gone: remove the line"));
    }
}

/// The content of the record for the repository as it is.
pub fn record(tree: &Tree) -> String {
    let mut lines: Vec<String> =
        all(tree).into_iter().map(|f| format!("{} {} {} {}\n", f.rule, f.path, f.what, f.count)).collect();
    lines.sort();
    std::iter::once(RECORD_HEAD.to_owned()).chain(lines).collect()
}

fn all(tree: &Tree) -> Vec<Exception> {
    [cycles::find(tree), unused::find(tree), columns::find(tree)].into_iter().flatten().collect()
}

fn key(finding: &Exception) -> Key {
    (finding.rule.to_owned(), finding.path.clone(), finding.what.clone())
}

/// Reads the record; a line that is no entry is an error.
fn read(text: &str, report: &mut Report) -> BTreeMap<Key, usize> {
    let mut recorded = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match (fields.as_slice(), fields.last().and_then(|count| count.parse().ok())) {
            ([rule, path, what, _], Some(count)) => {
                recorded.insert(((*rule).to_owned(), (*path).to_owned(), (*what).to_owned()), count);
            }
            _ => report.error(RECORD, index + 1, "is not `rule file what count`"),
        }
    }
    recorded
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;

    const WIDE: &str = "crates/a/src/lib.rs";

    fn found(record: &str, wide_lines: usize) -> (Vec<String>, Vec<String>) {
        let mut tree = Tree::default();
        tree.add(WIDE, &format!("// {}\n", "x ".repeat(70)).repeat(wide_lines));
        tree.add(RECORD, record);
        let mut report = Report::default();
        check(&tree, &mut report);
        let text = |findings: &[super::super::Finding]| findings.iter().map(ToString::to_string).collect();
        (text(&report.errors), text(&report.warnings))
    }

    #[test]
    fn what_is_recorded_may_stay_and_more_may_not() {
        let record = format!("wide {WIDE} lines 2\n");
        assert_eq!(found(&record, 2), (vec![], vec![]));
        assert!(found(&record, 3).0[0].contains("3 lines of more than 120"));
        assert!(found(&record, 1).1[0].contains("1 are left"));
        assert!(found(&record, 0).1[0].contains("remove the line"));
        assert_eq!(found("", 1).0.len(), 1);
    }

    #[test]
    fn the_record_is_what_it_reads() {
        let mut tree = Tree::default();
        tree.add(WIDE, &format!("// {}\n", "x ".repeat(70)));
        let written = record(&tree);
        assert!(written.ends_with(&format!("wide {WIDE} lines 1\n")), "{written}");
        tree.add(RECORD, &written);
        let mut report = Report::default();
        check(&tree, &mut report);
        assert!(report.errors.is_empty() && report.warnings.is_empty());
        assert!(errors(check, &[(RECORD, "wide many\n")])[0].contains("is not"));
    }
}
