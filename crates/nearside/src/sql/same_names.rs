//! Tables of several schemas that have one name: the planner takes `t.id` for a column of either, also where it says
//! `s.t.id`, so such a statement is refused unless one of them has an alias.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{Expr, Ident, Query, TableFactor, Visitor};

use super::normalised;
use super::walk::visit;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Refuses columns behind a name that two tables of the statement have.
///
/// # Errors
/// Which tables.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let mut found = Found::default();
    let _ = visit(statement, &mut found);
    let ambiguous = found.qualifiers.iter().find_map(|(name, has_schema)| {
        let tables = found.tables.get(name)?;
        // `WITH t AS (SELECT .. FROM s.t)` has the name in different places, unless the schema says otherwise.
        if found.of_with.contains(name) && !has_schema {
            return None;
        }
        let first = tables.first()?;
        tables.iter().find(|table| *table != first).map(|other| (first.join("."), other.join(".")))
    });
    match ambiguous {
        Some((one, other)) => Err(Error::plan(
            SqlState::DuplicateAlias,
            format!("tables '{one}' and '{other}' have one name in this statement; give one of them another with AS"),
        )),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Found {
    /// Tables without an alias, by their names alone.
    tables: HashMap<String, Vec<Vec<String>>>,
    /// What stands before columns, and whether a schema stands before that.
    qualifiers: Vec<(String, bool)>,
    /// Names of queries of WITH.
    of_with: HashSet<String>,
}

impl Found {
    fn qualifier(&mut self, names: &[Ident]) {
        if let [.., table, _] = names {
            self.qualifiers.push((normalised(table.clone()), names.len() > 2));
        }
    }
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let of_with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.of_with.extend(of_with.map(|table| normalised(table.alias.name.clone())));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias: None, args: None, .. } = factor {
            let parts: Option<Vec<String>> =
                name.0.iter().map(|part| part.as_ident().cloned().map(normalised)).collect();
            if let Some(parts) = parts
                && let Some(table) = parts.last()
            {
                self.tables.entry(table.clone()).or_default().push(parts);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr {
            self.qualifier(names);
        }
        ControlFlow::Continue(())
    }
}
