//! Public items that nothing outside their own file uses: they are private, or nobody needs them.
//!
//! Functions, constants and statics count, methods among them, and types that no public signature of their file speaks
//! of. Tests of other files are users; re-exports (`pub use`) are none. What the library gives to its own users is
//! used by them: public methods in files whose types [`LIBRARY`] exports.
//!
//! # Limits
//! Names, not paths: `len` of one type is used when any `len` is. Fields, variants and macros are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::exception::Exception;
use super::source::{SourceFile, matching_brace, words};
use super::tree::Tree;

/// What begins an item that is used where its name stands.
const VALUES: [&str; 3] = ["fn", "const", "static"];
/// What begins an item that is also used where a signature leads to it.
const TYPES: [&str; 5] = ["struct", "enum", "union", "type", "trait"];
/// Words between `pub` and one of those.
const BETWEEN: [&str; 4] = ["const", "unsafe", "async", "extern"];

/// The file that says what users of the library hold.
const LIBRARY: &str = "crates/nearside/src/lib.rs";

/// A finding per public item that no other file uses.
pub fn find(tree: &Tree) -> Vec<Exception> {
    let library = tree.sources.iter().find(|file| file.path == LIBRARY);
    let given: BTreeSet<&str> = library.map(exported).unwrap_or_default();
    let mut files_by_word: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &tree.sources {
        let exports = exports(&file.code);
        let of_file: BTreeSet<&str> = file
            .words()
            .filter(|(at, _)| !exports.iter().any(|range| range.contains(at)))
            .map(|(_, word)| word)
            .collect();
        for word in of_file {
            *files_by_word.entry(word).or_default() += 1;
        }
    }
    let is_used = |name: &str| files_by_word.get(name).copied().unwrap_or_default() > 1;
    let own = tree.sources.iter().filter(|file| !file.is_test_file());
    own.flat_map(|file| of_file(file, &is_used, is_of_library(file, &given))).collect()
}

/// The names that a file exports from others.
fn exported(file: &SourceFile) -> BTreeSet<&str> {
    exports(&file.code).into_iter().flat_map(|range| words(&file.code[range]).map(|(_, word)| word)).collect()
}

/// Whether a file of the library declares a type that the library exports.
fn is_of_library(file: &SourceFile, given: &BTreeSet<&str>) -> bool {
    let folder = LIBRARY.trim_end_matches("lib.rs");
    let mut items = public_items(file).into_iter();
    file.path.starts_with(folder) && items.any(|(_, kind, name)| TYPES.contains(&kind) && given.contains(name))
}

fn of_file(file: &SourceFile, is_used: &dyn Fn(&str) -> bool, of_library: bool) -> Vec<Exception> {
    let mut found: Vec<Exception> = Vec::new();
    for (at, kind, name) in public_items(file) {
        let is_given = of_library && kind == "fn" && !file.code[at + 3..].trim_start().starts_with('(');
        if is_given || is_used(name) || (TYPES.contains(&kind) && in_signatures(file, name)) {
            continue;
        }
        let message = format!("`{name}` is public, and no other file uses it: make it private or remove it");
        if let Some(twin) = found.iter_mut().find(|finding| finding.what == name) {
            twin.count += 1;
        } else {
            let path = file.path.clone();
            let line = file.line_of(at);
            found.push(Exception { rule: "unused", path, line, what: name.to_owned(), count: 1, message });
        }
    }
    found
}

/// Offset, kind and name of every public item outside of tests.
fn public_items(file: &SourceFile) -> Vec<(usize, &str, &str)> {
    let all: Vec<(usize, &str)> = file.words().collect();
    let mut items = Vec::new();
    for (index, (at, word)) in all.iter().enumerate() {
        if *word != "pub" || file.in_tests(*at) {
            continue;
        }
        let mut next = index + 1;
        if file.code[at + 3..].trim_start().starts_with('(') {
            let Some(close) = file.code[*at..].find(')') else { continue };
            while all.get(next).is_some_and(|(offset, _)| *offset < at + close) {
                next += 1;
            }
        }
        while all.get(next + 1).is_some_and(|(_, after)| is_item(after) || BETWEEN.contains(after))
            && all.get(next).is_some_and(|(_, word)| BETWEEN.contains(word))
        {
            next += 1;
        }
        if let (Some((_, kind)), Some((_, name))) = (all.get(next), all.get(next + 1))
            && is_item(kind)
            && *name != "_"
        {
            items.push((*at, *kind, *name));
        }
    }
    items
}

fn is_item(word: &str) -> bool {
    VALUES.contains(&word) || TYPES.contains(&word)
}

/// Whether a public signature, field, variant, alias or associated type of the file speaks of a type.
fn in_signatures(file: &SourceFile, name: &str) -> bool {
    file.words().filter(|(_, word)| matches!(*word, "pub" | "type")).any(|(at, _)| {
        let head = head(&file.code, at);
        let mentions = words(head).filter(|(_, word)| *word == name).count();
        mentions > usize::from(declares(head, name))
    })
}

/// An item from its first word to its body; with the body where that is public too.
fn head(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    let end = rest.find(['{', ';', '}']).unwrap_or(rest.len());
    let is_open = words(&rest[..end]).any(|(_, word)| matches!(word, "trait" | "enum"));
    if is_open && rest.as_bytes().get(end) == Some(&b'{') {
        return &rest[..matching_brace(rest.as_bytes(), end)];
    }
    &rest[..end]
}

/// Whether the head of an item declares `name`.
fn declares(head: &str, name: &str) -> bool {
    let all: Vec<&str> = words(head).map(|(_, word)| word).collect();
    all.windows(2).any(|pair| TYPES.contains(&pair[0]) && pair[1] == name)
}

/// Where `pub use` statements stand.
fn exports(code: &str) -> Vec<Range<usize>> {
    let all: Vec<(usize, &str)> = words(code).collect();
    let mut exports = Vec::new();
    for (index, (at, word)) in all.iter().enumerate().filter(|(_, (_, word))| *word == "use") {
        let is_public = all[..index]
            .iter()
            .rev()
            .take(3)
            .any(|(before, word)| *word == "pub" && !code[*before..*at].contains([';', '{', '}', ',']));
        if is_public {
            let end = code[*at..].find(';').map_or(code.len(), |length| at + length);
            exports.push(*at + word.len()..end);
        }
    }
    exports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add(path, text);
        }
        find(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn public_items_have_users_elsewhere() {
        let text = "pub fn lonely() {}\npub(crate) const ALONE: u8 = 1;\npub(in crate::x) static ONE: u8 = 1;\n\
                    pub const unsafe fn apart() {}\npub struct Hermit;\nfn private() { lonely(); }\n";
        assert_eq!(found(&[("a.rs", text)]), ["lonely", "ALONE", "ONE", "apart", "Hermit"]);
        let users = "fn f() { lonely(ALONE, ONE); unsafe { apart() } }\nfn g(hermit: Hermit) {}\n";
        assert_eq!(found(&[("a.rs", text), ("b.rs", users)]), Vec::<String>::new());
    }

    #[test]
    fn a_re_export_or_a_comment_is_no_user() {
        let text = "pub fn lonely() {}\n";
        assert_eq!(found(&[("a.rs", text), ("lib.rs", "pub use a::{b, lonely};\n// lonely\n")]), ["lonely"]);
        assert_eq!(found(&[("a.rs", text), ("lib.rs", "use a::lonely;\n")]), Vec::<String>::new());
    }

    #[test]
    fn what_the_library_gives_is_used() {
        let text = "pub struct Given;\nimpl Given { pub fn shown(&self) {}\npub(crate) fn hidden(&self) {} }\n";
        let library = (LIBRARY, "pub use a::Given;\n");
        assert_eq!(found(&[("crates/nearside/src/a.rs", text), library, ("b.rs", "fn f(_: Given) {}")]), ["hidden"]);
        assert_eq!(found(&[("crates/x/src/a.rs", text), library, ("b.rs", "fn f(_: Given) {}")]), ["shown", "hidden"]);
    }

    #[test]
    fn a_type_that_a_public_signature_speaks_of_is_used_through_it() {
        let text = "pub struct Outcome;\npub fn run() -> Outcome { Outcome }\npub struct Held;\npub struct Holder \
                    { pub held: Held }\n";
        assert_eq!(found(&[("a.rs", text), ("b.rs", "fn f(_: Holder) { run(); }")]), Vec::<String>::new());
        let text = "pub enum Fault { Of(Cause) }\npub struct Cause;\nimpl Iterator for A { type Item = Step; }\npub \
                    struct Step;\n";
        assert_eq!(found(&[("a.rs", text), ("b.rs", "fn f(_: Fault) {}")]), Vec::<String>::new());
        assert_eq!(found(&[("a.rs", "pub struct Hermit { pub a: u8 }\nimpl Hermit { fn f(&self) {} }")]), ["Hermit"]);
    }

    #[test]
    fn tests_are_users_and_have_none() {
        let text = "pub fn used() {}\n#[cfg(test)]\nmod tests { pub fn helper() {} }\n";
        assert_eq!(found(&[("a.rs", text), ("crates/x/tests/it/main.rs", "fn f() { used(); }")]), Vec::<String>::new());
    }
}
