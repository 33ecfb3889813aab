//! Tables of several schemas that have one name, and names of tables with their schemas before `*`: the planner takes
//! `t.id` for a column of either, also where it says `s.t.id`, and `t.*` for nothing where the table is `s.t`.
//!
//! So of tables in FROM whose names are alike each with a schema gets an alias that nothing else has, and what stands
//! before columns names that. As in SQL, a name means the innermost query that has a table of it; of several there it
//! is ambiguous. The table that a statement writes keeps its name.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Expr, FromTable, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, TableWithJoins, Visitor, VisitorMut,
};

use super::normalised;
use super::scope::quoted;
use super::walk::{rewrite, visit};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::sql::named_otherwise;

/// The schema of tables without one, and what may stand before a schema.
const SCHEMA: &str = "public";
const CATALOG: &str = "nearside";

/// Tells tables of one name apart.
///
/// # Errors
/// A name of several tables of one FROM.
pub(super) fn tell_apart(statement: &mut Statement) -> Result<()> {
    let mut found = Found::default();
    let _ = visit(statement, &mut found);
    let alike: HashSet<String> =
        found.paths.iter().filter(|(_, paths)| paths.len() > 1).map(|(n, _)| n.clone()).collect();
    if alike.is_empty() && !found.stars {
        return Ok(());
    }
    rewrite(statement, &mut Apart { alike, of_with: found.of_with, scopes: Vec::new(), selects: Vec::new() })
}

/// Schema and name of a table; a query of WITH has no schema.
type Path = (Option<String>, String);

fn path_of(name: &ObjectName, of_with: &HashSet<String>) -> Option<Path> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().cloned().map(normalised)).collect();
    match parts?.as_slice() {
        [table] if of_with.contains(table) => Some((None, table.clone())),
        [table] => Some((Some(SCHEMA.into()), table.clone())),
        [.., schema, table] => Some((Some(schema.clone()), table.clone())),
        [] => None,
    }
}

#[derive(Default)]
struct Found {
    /// Tables without an alias, by their names alone.
    paths: HashMap<String, HashSet<Path>>,
    /// Names of queries of WITH.
    of_with: HashSet<String>,
    /// Whether `name.*` stands somewhere.
    stars: bool,
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let of_with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.of_with.extend(of_with.map(|table| normalised(table.alias.name.clone())));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.stars |= select.projection.iter().any(|item| matches!(item, SelectItem::QualifiedWildcard(..)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias: None, args: None, .. } = factor
            && let Some(path) = path_of(name, &self.of_with)
        {
            self.paths.entry(path.1.clone()).or_default().insert(path);
        }
        ControlFlow::Continue(())
    }
}

/// A table in FROM.
struct Source {
    /// `None` where it has an alias.
    path: Option<Path>,
    /// The name that stands before its columns.
    name: String,
    /// What stands before its columns for the planner.
    known_as: Vec<Ident>,
    /// Whether that is another name.
    renamed: bool,
}

impl Source {
    fn is(&self, qualifier: &[String]) -> bool {
        match (qualifier, &self.path) {
            ([name], _) => *name == self.name,
            ([schema, name], Some(path)) => path.0.as_ref() == Some(schema) && *name == path.1,
            _ => false,
        }
    }
}

struct Apart {
    alike: HashSet<String>,
    of_with: HashSet<String>,
    scopes: Vec<Vec<Source>>,
    /// Of the queries around: whether the body is one SELECT, whose scope is the query's.
    selects: Vec<bool>,
}

impl Apart {
    fn read(&self, from: &mut TableWithJoins, renames: bool, sources: &mut Vec<Source>) {
        self.read_factor(&mut from.relation, renames, sources);
        for join in &mut from.joins {
            self.read_factor(&mut join.relation, renames, sources);
        }
    }

    fn read_factor(&self, factor: &mut TableFactor, renames: bool, sources: &mut Vec<Source>) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.read(table_with_joins, renames, sources),
            TableFactor::Table { name, alias: alias @ None, args: None, .. } => {
                let Some(path) = path_of(name, &self.of_with) else { return };
                let own = path.1.clone();
                let mut known_as: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                let renamed = renames && name.0.len() > 1 && self.alike.contains(&own);
                if renamed {
                    let other = quoted(&named_otherwise(&own));
                    known_as = vec![other.clone()];
                    *alias = Some(TableAlias { explicit: true, name: other, columns: Vec::new(), at: None });
                }
                sources.push(Source { path: Some(path), name: own, known_as, renamed });
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => {
                let Some(alias) = alias else { return };
                let known_as = vec![alias.name.clone()];
                let name = normalised(alias.name.clone());
                sources.push(Source { path: None, name, known_as, renamed: false });
            }
            _ => {}
        }
    }

    /// The table that a qualifier means.
    fn source(&self, qualifier: &[String]) -> Result<Option<&Source>> {
        for scope in self.scopes.iter().rev() {
            let mut named = scope.iter().filter(|source| source.is(qualifier));
            match (named.next(), named.next()) {
                (Some(one), None) => return Ok(Some(one)),
                (Some(one), Some(other)) if one.path != other.path => {
                    return Err(Error::plan(
                        SqlState::AmbiguousAlias,
                        format!(
                            "'{}' is ambiguous: several tables in FROM have that name; write the schema before it",
                            qualifier.join(".")
                        ),
                    ));
                }
                // A name that stands twice is for the planner.
                (Some(_), Some(_)) => return Ok(None),
                (None, _) => {}
            }
        }
        Ok(None)
    }

    fn open(&mut self, select: &mut Select) -> Result<()> {
        let mut sources = Vec::new();
        for from in &mut select.from {
            self.read(from, true, &mut sources);
        }
        self.scopes.push(sources);
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
                let parts: Option<Vec<String>> =
                    name.0.iter().map(|part| part.as_ident().cloned().map(normalised)).collect();
                let Some(parts) = parts else { continue };
                if let Some(source) = self.source(without_catalog(&parts))? {
                    *name = ObjectName::from(source.known_as.clone());
                }
            }
        }
        Ok(())
    }

    /// A column behind a table that got another name.
    fn renamed(&self, names: &[Ident]) -> Result<Option<Vec<Ident>>> {
        let all: Vec<String> = names.iter().cloned().map(normalised).collect();
        let skipped = all.len() - without_catalog(&all).len();
        for length in (1..=2).rev().filter(|length| all.len() > length + skipped) {
            let (qualifier, rest) = (&all[skipped..skipped + length], &names[skipped + length..]);
            if length == 1 && !self.alike.contains(&qualifier[0]) {
                continue;
            }
            if let Some(source) = self.source(qualifier)? {
                let known = source.known_as.iter().chain(rest).cloned();
                return Ok(source.renamed.then(|| known.collect()));
            }
        }
        Ok(None)
    }
}

/// A qualifier without the name of the database.
fn without_catalog(parts: &[String]) -> &[String] {
    match parts {
        [catalog, rest @ ..] if rest.len() > 1 && catalog == CATALOG => rest,
        all => all,
    }
}

fn flow(result: Result<()>) -> ControlFlow<Error> {
    result.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

impl VisitorMut for Apart {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        let mut sources = Vec::new();
        match statement {
            ast::Statement::Update(update) => {
                self.read(&mut update.table, false, &mut sources);
                if let Some(ast::UpdateTableFromKind::BeforeSet(from) | ast::UpdateTableFromKind::AfterSet(from)) =
                    &mut update.from
                {
                    from.iter_mut().for_each(|from| self.read(from, true, &mut sources));
                }
            }
            ast::Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &mut delete.from;
                from.iter_mut().for_each(|from| self.read(from, false, &mut sources));
                delete.using.iter_mut().flatten().for_each(|from| self.read(from, true, &mut sources));
            }
            _ => {}
        }
        self.scopes.push(sources);
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, _: &mut ast::Statement) -> ControlFlow<Error> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let select = match query.body.as_mut() {
            SetExpr::Select(select) => Some(select),
            _ => None,
        };
        self.selects.push(select.is_some());
        select.map_or(ControlFlow::Continue(()), |select| flow(self.open(select)))
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        if self.selects.pop() == Some(true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.selects.last() {
            Some(true) => ControlFlow::Continue(()),
            _ => flow(self.open(select)),
        }
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        if self.selects.last() != Some(&true) {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::CompoundIdentifier(names) = expr else { return ControlFlow::Continue(()) };
        match self.renamed(names) {
            Ok(Some(renamed)) => {
                *names = renamed;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
