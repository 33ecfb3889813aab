//! Which module a path in code leads to: the modules of a crate by their files, and every `crate::`, `super::` and
//! `self::` in them.
//!
//! # Limits
//! Modules are files. A path through `*` ends where the star stands, and what macros write is not seen.

use std::collections::BTreeMap;

use super::source::{SourceFile, words};
use super::tree::Tree;

/// Names from the root of a crate on.
pub type ModulePath = Vec<String>;

/// Re-exports that lead to each other would be followed for ever.
const FOLLOWED_MAX: usize = 8;

/// One crate's modules.
pub struct Modules<'a> {
    /// The folder of its root, for example `crates/numa/src`.
    pub folder: &'a str,
    files: BTreeMap<ModulePath, &'a SourceFile>,
    /// What each module names by `use`, and where that leads.
    names: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
}

/// A path in a module's code that leads to another one.
#[derive(Debug, PartialEq, Eq)]
pub struct Import<'a> {
    /// The module it stands in.
    pub from: ModulePath,
    /// The module it leads to.
    pub to: ModulePath,
    /// The file it stands in.
    pub path: &'a str,
    /// Counted from 1.
    pub line: usize,
}

impl<'a> Modules<'a> {
    /// The modules of every crate, tests left out.
    pub fn of(tree: &'a Tree) -> Vec<Modules<'a>> {
        let mut crates: BTreeMap<&str, BTreeMap<ModulePath, &SourceFile>> = BTreeMap::new();
        for file in tree.sources.iter().filter(|file| !file.is_test_file()) {
            let Some(at) = file.path.find("/src/") else { continue };
            let folder = &file.path[..at + 4];
            let below = &file.path[at + 5..];
            crates.entry(folder).or_default().insert(module_path(below), file);
        }
        let all = crates.into_iter().map(|(folder, files)| {
            let mut modules = Modules { folder, files, names: BTreeMap::new() };
            modules.names = modules.files.iter().map(|(path, file)| (path.clone(), modules.used(path, file))).collect();
            modules
        });
        all.collect()
    }

    /// All imports outside of tests.
    pub fn imports(&self) -> Vec<Import<'a>> {
        let mut imports = Vec::new();
        for (module, file) in &self.files {
            for (at, word) in file.words().filter(|(at, _)| !file.in_tests(*at)) {
                if !matches!(word, "crate" | "super" | "self") || !file.code[at + word.len()..].starts_with("::") {
                    continue;
                }
                if file.code[..at].ends_with("::") {
                    continue;
                }
                for named in parse(&file.code[at..]) {
                    let to = self.resolve(self.absolute(module, &named.path));
                    imports.push(Import { from: module.clone(), to, path: &file.path, line: file.line_of(at) });
                }
            }
        }
        imports
    }

    /// The names that a module's `use` statements bring.
    fn used(&self, module: &ModulePath, file: &SourceFile) -> BTreeMap<String, ModulePath> {
        let uses = file.words().filter(|(at, word)| *word == "use" && !file.in_tests(*at));
        let named = uses.flat_map(|(at, _)| parse(&file.code[at + 3..]));
        named.map(|named| (named.name, self.absolute(module, &named.path))).collect()
    }

    /// A path as it stands in `module`, from the root of the crate on.
    fn absolute(&self, module: &ModulePath, path: &[String]) -> ModulePath {
        let mut base = module.clone();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => {
                base.clear();
                rest = &path[1..];
            }
            Some("self") => rest = &path[1..],
            _ => {}
        }
        while rest.first().is_some_and(|first| first == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        base
    }

    /// The module that holds what `path` names, re-exports followed.
    fn resolve(&self, mut path: ModulePath) -> ModulePath {
        for _ in 0..FOLLOWED_MAX {
            let mut module = path.clone();
            while !module.is_empty() && !self.files.contains_key(&module) {
                module.pop();
            }
            let exported = path.get(module.len()).and_then(|next| self.names.get(&module)?.get(next));
            // A name of another crate stays where it is brought in.
            let Some(exported) = exported.filter(|to| **to != path && self.is_inside(to)) else { return module };
            let mut followed = exported.clone();
            followed.extend(path[module.len() + 1..].iter().cloned());
            path = followed;
        }
        path.clear();
        path
    }

    /// Whether a path leads into a module of this crate other than the root.
    fn is_inside(&self, path: &ModulePath) -> bool {
        (1..=path.len()).any(|length| self.files.contains_key(&path[..length]))
    }
}

fn module_path(below: &str) -> ModulePath {
    let stem = below.strip_suffix(".rs").unwrap_or(below);
    let mut path: ModulePath = stem.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod") || (path.len() == 1 && matches!(stem, "lib" | "main")) {
        path.pop();
    }
    path
}

/// One leaf of a tree of paths.
#[derive(Debug, PartialEq, Eq)]
struct NamedPath {
    path: Vec<String>,
    /// The last name, or that after `as`.
    name: String,
}

/// The leaves of the tree of paths (`a::{b, c::d as e}`) that `code` begins with.
fn parse(code: &str) -> Vec<NamedPath> {
    let mut leaves = Vec::new();
    parse_into(code.trim_start(), &[], &mut leaves);
    leaves
}

/// Gives what stands behind the tree.
fn parse_into<'a>(mut code: &'a str, prefix: &[String], leaves: &mut Vec<NamedPath>) -> &'a str {
    let mut path = prefix.to_vec();
    code = code.strip_prefix("::").unwrap_or(code);
    loop {
        if let Some(group) = code.strip_prefix('{') {
            code = group.trim_start();
            while !code.is_empty() && !code.starts_with('}') {
                let rest = parse_into(code, &path, leaves).trim_start();
                let rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
                // What is no tree of paths after all ends here.
                if rest.len() == code.len() {
                    return rest;
                }
                code = rest;
            }
            return code.strip_prefix('}').unwrap_or(code);
        }
        let Some((_, word)) = words(code).next().filter(|(at, _)| *at == 0) else { break };
        // In a group `self` is the module before it.
        if word != "self" || path.is_empty() {
            path.push(word.to_owned());
        }
        code = &code[word.len()..];
        match code.strip_prefix("::") {
            Some(rest) if rest.starts_with(|c: char| c == '{' || c == '_' || c.is_alphanumeric()) => code = rest,
            _ => break,
        }
    }
    if let Some(name) = path.last().cloned().filter(|_| path.len() > prefix.len() || !prefix.is_empty()) {
        let alias = code.trim_start().strip_prefix("as ").and_then(|rest| words(rest).next());
        let (rest, name) = match alias {
            Some((at, alias)) => (&code[code.find("as ").unwrap_or(0) + 3 + at + alias.len()..], alias.to_owned()),
            None => (code, name),
        };
        leaves.push(NamedPath { path, name });
        return rest.strip_prefix("::*").unwrap_or(rest);
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(code: &str) -> Vec<String> {
        parse(code).into_iter().map(|named| format!("{} as {}", named.path.join("::"), named.name)).collect()
    }

    #[test]
    fn trees_of_paths_have_leaves() {
        assert_eq!(leaves("crate::a::b;"), ["crate::a::b as b"]);
        assert_eq!(
            leaves("crate::{a, b::{self, C as D, e::*}};"),
            ["crate::a as a", "crate::b as b", "crate::b::C as D", "crate::b::e as e"]
        );
        assert_eq!(leaves("super::f::<T>(x)"), ["super::f as f"]);
        assert_eq!(leaves("crate::x::Y { z: 1 }"), ["crate::x::Y as Y"]);
    }

    #[test]
    fn paths_lead_to_modules_through_re_exports() {
        let mut tree = Tree::default();
        for (path, text) in [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use b::Thing;\nuse arrow::Other;\n"),
            ("crates/x/src/a/mod.rs", "mod deep;\nuse crate::Thing;\nuse crate::Other;\n"),
            ("crates/x/src/a/deep.rs", "fn f() { super::super::b::g() }\n#[cfg(test)]\nmod tests { use crate::b; }\n"),
            ("crates/x/src/b.rs", "pub struct Thing;\n"),
        ] {
            tree.add(path, text);
        }
        let modules = Modules::of(&tree);
        let found: Vec<String> =
            modules[0].imports().iter().map(|i| format!("{} {}", i.from.join("/"), i.to.join("/"))).collect();
        assert_eq!(found, ["a b", "a ", "a/deep b"]);
    }
}
