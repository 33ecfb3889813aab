//! `WITH .. INSERT`, `UPDATE`, `DELETE` and `MERGE`: the parser takes them for queries, and the planner knows WITH in
//! queries alone. So the queries of WITH go to where they are read: to the query of an INSERT, to each query within the
//! others, and in the place of tables in FROM and USING that name one of them.
//!
//! # Limits
//! What is read in several places is evaluated for each, so what gives something else each time is refused in UPDATE,
//! DELETE and MERGE.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Cte, Expr, Ident, ObjectName, Query, SetExpr, TableAlias, TableFactor, VisitMut, VisitorMut, With,
    visit_expressions,
};

use super::scope::quoted;
use super::{normalised, parsed};
use crate::error::{Error, Result};

/// Functions that give something else each time.
const VOLATILE: [&str; 5] = ["random", "uuid", "gen_random_uuid", "nextval", "setval"];

/// Makes a query whose body writes the statement that it is.
///
/// # Errors
/// What cannot be written so, by name.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    let Statement::Statement(outer) = statement else { return Ok(()) };
    in_statement(outer)
}

fn in_statement(statement: &mut ast::Statement) -> Result<()> {
    match statement {
        ast::Statement::Prepare { statement: inner, .. } | ast::Statement::Explain { statement: inner, .. } => {
            return in_statement(inner);
        }
        _ => {}
    }
    let ast::Statement::Query(query) = statement else { return Ok(()) };
    let is_alone = query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let with = query.with.take();
    let (SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner)) =
        query.body.as_mut()
    else {
        query.with = with;
        return Ok(());
    };
    if !is_alone {
        return Err(Error::Unsupported("ORDER BY or LIMIT behind a statement that writes".into()));
    }
    let mut inner = inner.clone();
    if let Some(with) = with {
        put(&mut inner, with)?;
    }
    *statement = inner;
    Ok(())
}

fn put(statement: &mut ast::Statement, with: With) -> Result<()> {
    let names = with.cte_tables.iter().map(|table| normalised(table.alias.name.clone())).collect();
    let mut put = Put { with, names, depth: 0 };
    if let ast::Statement::Insert(insert) = statement {
        if let Some(source) = &mut insert.source {
            put.within(source)?;
        }
        // What ON CONFLICT and RETURNING ask has them too.
        let flow = insert.on.visit(&mut put);
        let flow = if flow.is_continue() { insert.returning.visit(&mut put) } else { flow };
        return flow_of(flow);
    }
    if let Some(name) = volatile_call(&put.with) {
        return Err(Error::Unsupported(format!(
            "{name}() in WITH before a statement that changes rows is not supported: it would be called for each place \
             that reads it; make a table of it first"
        )));
    }
    // The table that is written is none of WITH, whatever its name.
    let flow = match statement {
        ast::Statement::Update(update) => [
            update.from.visit(&mut put),
            update.assignments.visit(&mut put),
            update.selection.visit(&mut put),
            update.returning.visit(&mut put),
        ],
        ast::Statement::Delete(delete) => [
            delete.using.visit(&mut put),
            delete.selection.visit(&mut put),
            delete.returning.visit(&mut put),
            ControlFlow::Continue(()),
        ],
        ast::Statement::Merge(merge) => [
            merge.source.visit(&mut put),
            merge.on.visit(&mut put),
            merge.clauses.visit(&mut put),
            ControlFlow::Continue(()),
        ],
        other => return Err(Error::Unsupported(format!("WITH before this statement is not supported: {other}"))),
    };
    flow.into_iter().try_for_each(flow_of)
}

fn flow_of(flow: ControlFlow<Error>) -> Result<()> {
    match flow {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A call within something that gives something else each time.
pub(super) fn volatile_call<V: ast::Visit>(within: &V) -> Option<String> {
    let found = visit_expressions(within, |expr: &Expr| match expr {
        Expr::Function(call) => {
            let name = call.name.to_string().to_lowercase();
            match VOLATILE.contains(&name.as_str()) {
                true => ControlFlow::Break(name),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    found.break_value()
}

struct Put {
    with: With,
    names: HashSet<String>,
    /// How many queries there are around the place.
    depth: usize,
}

impl Put {
    /// Gives a query those of WITH before its own.
    fn within(&self, query: &mut Query) -> Result<()> {
        if query.with.as_ref() == Some(&self.with) {
            return Ok(());
        }
        let Some(own) = &mut query.with else {
            query.with = Some(self.with.clone());
            return Ok(());
        };
        let twice = own.cte_tables.iter().map(|table| normalised(table.alias.name.clone()));
        if let Some(name) = twice.into_iter().find(|name| self.names.contains(name)) {
            return Err(Error::Unsupported(format!(
                "two queries of WITH called '{name}', one within the other, in a statement that writes"
            )));
        }
        own.recursive |= self.with.recursive;
        let all: Vec<Cte> = self.with.cte_tables.iter().chain(&own.cte_tables).cloned().collect();
        own.cte_tables = all;
        Ok(())
    }

    /// A query of WITH in the place of its name.
    fn derived(&self, name: &Ident, alias: Option<TableAlias>) -> Result<TableFactor> {
        let mut subquery = parsed::query("SELECT * FROM x")?;
        subquery.with = Some(self.with.clone());
        if let SetExpr::Select(select) = subquery.body.as_mut()
            && let Some(TableFactor::Table { name: from, .. }) = select.from.first_mut().map(|from| &mut from.relation)
        {
            *from = ObjectName::from(vec![name.clone()]);
        }
        let own = || TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None };
        Ok(TableFactor::Derived {
            lateral: false,
            subquery: Box::new(subquery),
            alias: Some(alias.unwrap_or_else(own)),
            sample: None,
        })
    }
}

impl VisitorMut for Put {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        match self.depth == 1 {
            true => self.within(query).map_or_else(ControlFlow::Break, ControlFlow::Continue),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let Some(named) = part.as_ident().filter(|named| self.names.contains(&normalised((*named).clone()))) else {
            return ControlFlow::Continue(());
        };
        match self.derived(&quoted(&normalised(named.clone())), alias.clone()) {
            Ok(derived) => {
                *factor = derived;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}
