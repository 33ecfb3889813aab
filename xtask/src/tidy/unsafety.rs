//! Where `unsafe` may stand, and that each use says why it is sound.
//!
//! The list is `xtask/unsafe-allow.txt`: one pattern per line with the reason after it. A pattern that allows nothing
//! is an error, so the list never grows beyond what is needed.
//!
//! # Limits
//! Whether a `SAFETY:` comment is true is for reviewers.

use super::Report;
use super::source::{SourceFile, words};
use super::tree::Tree;

/// The allow-list's place.
const ALLOW_LIST: &str = "xtask/unsafe-allow.txt";
/// Lines of code that may stand between the comment and the `unsafe` it explains (a statement may span several).
const CODE_LINES_BETWEEN_MAX: usize = 4;

/// A line of the allow-list.
struct AllowedFile<'a> {
    line: usize,
    pattern: &'a str,
}

/// The rule.
pub fn check(tree: &Tree, report: &mut Report) {
    let list = tree.text(ALLOW_LIST).unwrap_or_default();
    let allowed = read_list(list, report);
    let mut used = vec![false; allowed.len()];
    for file in &tree.sources {
        let uses: Vec<usize> = file.words().filter(|(_, word)| *word == "unsafe").map(|(at, _)| at).collect();
        let Some(&first) = uses.first() else { continue };
        let mut is_allowed = false;
        for (entry, used) in allowed.iter().zip(&mut used) {
            if matches(entry.pattern, &file.path) {
                *used = true;
                is_allowed = true;
            }
        }
        if !is_allowed {
            let message =
                format!("`unsafe` may not stand here: write it without, or add the file to {ALLOW_LIST} with a reason");
            report.error(&file.path, file.line_of(first), message);
        }
        for at in uses {
            check_comment(file, at, report);
        }
    }
    for (entry, used) in allowed.iter().zip(used) {
        if !used {
            let message = format!("{} has no `unsafe` (any more): remove the line", entry.pattern);
            report.error(ALLOW_LIST, entry.line, message);
        }
    }
}

/// Patterns with their lines; a pattern without a reason is reported.
fn read_list<'a>(list: &'a str, report: &mut Report) -> Vec<AllowedFile<'a>> {
    let mut allowed = Vec::new();
    for (index, line) in list.lines().enumerate() {
        let line_number = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (pattern, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if reason.trim().is_empty() {
            report.error(ALLOW_LIST, line_number, format!("{pattern} gives no reason"));
        }
        allowed.push(AllowedFile { line: line_number, pattern });
    }
    allowed
}

/// `*` stands for any characters of one folder or file name, `**` for any at all.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((head, tail)) => {
            let Some(rest) = path.strip_prefix(head) else { return false };
            let (deep, tail) = tail.strip_prefix('*').map_or((false, tail), |tail| (true, tail));
            let reach = if deep { rest.len() } else { rest.find('/').unwrap_or(rest.len()) };
            (0..=reach).any(|end| rest.is_char_boundary(end) && matches(tail, &rest[end..]))
        }
    }
}

/// Looks for the reason of the `unsafe` at `at`, upwards from its line.
fn check_comment(file: &SourceFile, at: usize, report: &mut Report) {
    let following = file.code[at + "unsafe".len()..].trim_start();
    let mut next = words(following).map(|(_, word)| word);
    let is_function = match next.next() {
        Some("fn") if following.starts_with("fn") => {
            // `unsafe fn(u8)` is a type and does nothing.
            if following["fn".len()..].trim_start().starts_with('(') {
                return;
            }
            true
        }
        Some("extern") if following.starts_with("extern") => {
            let block = following["extern".len()..].trim_start_matches([' ', '"']);
            if block.trim_start_matches("fn").trim_start().starts_with('(') {
                return;
            }
            block.starts_with("fn")
        }
        Some("trait") => following.starts_with("trait"),
        _ => false,
    };
    let explained = |line: &str| line.contains("SAFETY:") || (is_function && line.contains("# Safety"));
    let code: Vec<&str> = file.code.lines().collect();
    let comments: Vec<&str> = file.comments.lines().collect();
    let line = file.line_of(at);
    let mut code_lines = 0;
    for above in (0..line).rev() {
        if explained(comments[above]) {
            return;
        }
        let text = code[above].trim();
        let is_own_line = above + 1 == line;
        let is_blank = text.is_empty() && comments[above].trim().is_empty();
        // One comment explains one `unsafe`: a line with another one ends the search.
        let is_other_use = !is_own_line && words(text).any(|(_, word)| word == "unsafe");
        if is_blank || is_other_use {
            break;
        }
        let is_attribute = text.starts_with("#[");
        code_lines += usize::from(!is_own_line && !text.is_empty() && !is_attribute);
        if code_lines > CODE_LINES_BETWEEN_MAX {
            break;
        }
    }
    let wanted = if is_function { "a `# Safety` section or a `// SAFETY:` comment" } else { "a `// SAFETY:` comment" };
    report.error(&file.path, line, format!("this `unsafe` has no {} above it", &wanted[2..]));
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;

    const LIST: &str = "# reasons follow\ncrates/numa/src/sys* system calls\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        errors(
            check,
            &[("xtask/unsafe-allow.txt", LIST), ("crates/numa/src/sys.rs", "// SAFETY: x\nunsafe {}"), (path, text)],
        )
    }

    #[test]
    fn unsafe_stands_only_where_it_is_allowed() {
        let text = "fn f() {\n    // SAFETY: y\n    unsafe { g() }\n}\n";
        assert_eq!(found("crates/numa/src/sys_linux.rs", text), Vec::<String>::new());
        let outside = found("crates/exec/src/scan.rs", text);
        assert!(outside[0].starts_with("crates/exec/src/scan.rs:3: `unsafe` may not stand here"), "{outside:?}");
        assert_eq!(found("crates/exec/src/scan.rs", "// unsafe\nconst A: &str = \"unsafe\";"), Vec::<String>::new());
    }

    #[test]
    fn each_unsafe_has_its_own_comment() {
        let path = "crates/numa/src/sys2.rs";
        for bad in [
            "fn f() { unsafe { g() } }",
            "// SAFETY: far\n\nunsafe { g() }",
            "// SAFETY: one\nunsafe { g() }\nunsafe { h() }",
            "unsafe impl Send for T {}",
            "/// Adds.\nunsafe fn f() {}",
            "/// # Safety\n/// only functions may say it so\nunsafe impl Send for T {}",
        ] {
            let found = found(path, bad);
            assert!(found.iter().any(|error| error.contains("has no")), "{bad}: {found:?}");
        }
        for good in [
            "// SAFETY: it\n// holds\nlet x =\n    f(\n        unsafe { g() });",
            "unsafe { g() } // SAFETY: short",
            "/// # Safety\n/// aligned\n#[inline]\n#[target_feature(enable = \"avx2\")]\npub unsafe fn f() {}",
            "type F = unsafe fn(u8);\ntype G = unsafe extern \"C\" fn(u8);",
        ] {
            assert_eq!(found(path, good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn the_list_gives_reasons_and_allows_nothing_needless() {
        let list = "crates/a/src/x.rs\ncrates/b/** left over\n";
        let text = "// SAFETY: x\nunsafe {}";
        let found = errors(check, &[(ALLOW_LIST, list), ("crates/a/src/x.rs", text)]);
        assert!(found[0].contains("gives no reason"), "{found:?}");
        assert!(found[1].contains("crates/b/** has no `unsafe`"), "{found:?}");
    }

    #[test]
    fn patterns() {
        assert!(matches("crates/s/src/kernels/**", "crates/s/src/kernels/a/avx2.rs"));
        assert!(matches("crates/n/src/sys*", "crates/n/src/sys.rs"));
        assert!(!matches("crates/n/src/sys*", "crates/n/src/sys/linux.rs"));
        assert!(matches("crates/n/src/sys/*.rs", "crates/n/src/sys/linux.rs"));
        assert!(!matches("crates/n/src/sys.rs", "crates/n/src/system.rs"));
    }
}
