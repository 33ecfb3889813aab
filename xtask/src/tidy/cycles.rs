//! Imports within a crate: what lies side by side in one folder does not import each other in a circle, and the floors
//! of a crate are imported from above only.
//!
//! A folder `a/` with its `a.rs` or `a/mod.rs` is one thing in the folder that it lies in. What a folder's own file
//! says is part of no circle among its children: parents name their children, and children may use what the parent
//! itself defines.

use std::collections::{BTreeMap, BTreeSet};

use super::exception::Exception;
use super::imports::{Import, Modules};
use super::tree::Tree;

/// Crates whose files and folders have floors, the lowest first: ARCHITECTURE.md, *The map*.
const FLOORS: [(&str, &str); 6] = [
    ("crates/nearside/src", "catalog functions tables sql rewrite lower plan run views statements durable api"),
    ("crates/exec/src", "error charge mask plan codes tasks chunk eval keys pipe scan operators run"),
    (
        "crates/units/src",
        "primitive waiter arena versions tree request read routing journal balancer monitor unit store bench",
    ),
    (
        "crates/sched/src",
        "primitive panics counting settings affinity policy config sleep handover statement stats scope runtime \
         report inline scheduler calibrate parallel bench",
    ),
    (
        "crates/storage/src",
        "error types region_vec kernels mask predicate affine deleted parallel copies placement strings dictionary \
         coded plain column partition mover stage constant index segment table place build compact repartition",
    ),
    (
        "crates/numa/src",
        "ids id_set refusals svg error sys policy pool recycle topology attributes machines counters machine process \
         usage budget page_map moving region probe",
    ),
];

/// An arrow between two neighbours of a folder.
type Arrow = (String, String);

/// A finding per arrow that lies on a circle, and per arrow to a higher floor.
pub fn find(tree: &Tree) -> Vec<Exception> {
    let mut found = Vec::new();
    for modules in Modules::of(tree) {
        for (folder, arrows) in arrows(&modules) {
            for (arrow, import) in &arrows {
                let (from, to) = arrow;
                if reaches(&arrows, to, from) {
                    let said =
                        format!("`{from}` imports `{to}`, which leads back to it ({}:{})", import.path, import.line);
                    found.push(finding("cycle", &folder, arrow, said));
                }
                if let Some((low, high)) = floors_of(&folder, arrow).filter(|(low, high)| low < high) {
                    let said = format!(
                        "`{from}` (floor {low}) imports `{to}` (floor {high}) above it ({}:{})",
                        import.path, import.line
                    );
                    found.push(finding("floor", &folder, arrow, said));
                }
            }
        }
    }
    found
}

fn finding(rule: &'static str, folder: &str, (from, to): &Arrow, message: String) -> Exception {
    Exception { rule, path: folder.to_owned(), line: 0, what: format!("{from}->{to}"), count: 1, message }
}

/// The arrows among the children of each folder, each with one import that makes it.
fn arrows<'a>(modules: &Modules<'a>) -> BTreeMap<String, BTreeMap<Arrow, Import<'a>>> {
    let mut folders: BTreeMap<String, BTreeMap<Arrow, Import<'a>>> = BTreeMap::new();
    for import in modules.imports() {
        let common = import.from.iter().zip(&import.to).take_while(|(from, to)| from == to).count();
        if let (Some(from), Some(to)) = (import.from.get(common), import.to.get(common)) {
            let folder = std::iter::once(modules.folder).chain(import.from[..common].iter().map(String::as_str));
            let folder = folder.collect::<Vec<_>>().join("/");
            let arrow = (from.clone(), to.clone());
            folders.entry(folder).or_default().entry(arrow).or_insert(import);
        }
    }
    folders
}

/// Whether arrows lead from one to the other.
fn reaches(arrows: &BTreeMap<Arrow, Import>, from: &str, to: &str) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(arrows.keys().filter(|(begin, _)| begin == at).map(|(_, end)| end.as_str()));
        }
    }
    false
}

fn floors_of(folder: &str, (from, to): &Arrow) -> Option<(usize, usize)> {
    let (_, floors) = FLOORS.iter().find(|(of, _)| *of == folder)?;
    let floor = |name: &str| floors.split_whitespace().position(|floor| floor == name);
    Some((floor(from)?, floor(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add(&format!("crates/nearside/src/{path}"), text);
        }
        find(&tree).into_iter().map(|finding| format!("{} {} {}", finding.rule, finding.path, finding.what)).collect()
    }

    #[test]
    fn circles_of_neighbours_are_found() {
        let folder = "crates/nearside/src";
        let files = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn f() { crate::c::deep::g() }"),
            ("c/deep.rs", "use crate::a::A;"),
        ];
        let all = ["a->b", "b->c", "c->a"].map(|arrow| format!("cycle {folder} {arrow}"));
        assert_eq!(found(&files), all);
        assert_eq!(found(&files[..2]), Vec::<String>::new());
        let files = [
            ("x/mod.rs", "mod a;\nmod b;\npub use a::A;"),
            ("x/a.rs", "use super::b::B;"),
            ("x/b.rs", "use super::A;"),
        ];
        assert_eq!(found(&files), [format!("cycle {folder}/x a->b"), format!("cycle {folder}/x b->a")]);
    }

    #[test]
    fn parents_and_children_make_no_circle() {
        let files =
            [("x/mod.rs", "mod a;\npub struct X;\nfn f() { a::f() }"), ("x/a.rs", "use super::X;\nuse crate::x::X;")];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn floors_are_imported_from_above() {
        let folder = "crates/nearside/src";
        assert_eq!(
            found(&[("catalog/a.rs", "use crate::api::A;"), ("api/mod.rs", "")]),
            [format!("floor {folder} catalog->api")]
        );
        assert_eq!(found(&[("api/a.rs", "use crate::catalog::A;"), ("catalog/mod.rs", "")]), Vec::<String>::new());
    }
}
