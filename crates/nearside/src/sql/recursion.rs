//! Recursive queries: which of them there are, as PostgreSQL has it, and what the types of a step are.
//!
//! The planner takes the body of a recursive query and leaves what stands around it (ORDER BY, LIMIT, WITH), lets a
//! step read itself wherever a table may stand, and casts the step's columns to those of the first part. So the forms
//! that PostgreSQL refuses are refused here, and each output of a step is put into a call of [`STEP`], below which the
//! type is seen that it had (`set_types`).

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Cte, Expr, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier,
    TableFactor, TableWithJoins, VisitorMut, visit_relations,
};

use super::calls::call;
use super::complete::is_aggregate;
use super::materialized::in_from;
use super::normalised;
use super::walk::{is_any_outside, rewrite};
use crate::error::{Error, Result};

/// The function that the outputs of a recursive step are put into: it gives its argument.
pub(crate) const STEP: &str = "__nearside_step";

/// Refuses recursive queries that SQL does not have, and marks the steps of the others.
///
/// # Errors
/// A reference of a query to itself in a place where there is none.
pub(super) fn mark_steps(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Recursions)
}

struct Recursions;

impl VisitorMut for Recursions {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(with) = query.with.as_ref().filter(|with| with.recursive)
            && let Err(error) = in_order(&with.cte_tables)
        {
            return ControlFlow::Break(error);
        }
        for cte in query.with.iter_mut().filter(|with| with.recursive).flat_map(|with| &mut with.cte_tables) {
            if let Err(error) = common_table(cte) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

/// WITH RECURSIVE lets a query read one that stands behind it; the planner would take a table of that name.
fn in_order(ctes: &[Cte]) -> Result<()> {
    for (place, cte) in ctes.iter().enumerate() {
        for later in &ctes[place + 1..] {
            let name = normalised(later.alias.name.clone());
            if names(cte.query.as_ref(), &name) {
                let reader = normalised(cte.alias.name.clone());
                return Err(Error::Unsupported(format!(
                    "query '{reader}' reads '{name}', which stands behind it in the same WITH; write '{name}' first"
                )));
            }
        }
    }
    Ok(())
}

fn common_table(cte: &mut Cte) -> Result<()> {
    let name = normalised(cte.alias.name.clone());
    let Cte { query, .. } = cte;
    let surrounded =
        query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some();
    if !names(query.as_ref(), &name) {
        if surrounded && matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
            in_from(query, &crate::sql::fresh_name("union"));
        }
        return Ok(());
    }
    let shadowed = |with: &ast::With| with.cte_tables.iter().any(|inner| normalised(inner.alias.name.clone()) == name);
    if query.with.as_ref().is_some_and(shadowed) {
        return Ok(());
    }
    let refused = |what: &str| Err(Error::Unsupported(format!("recursive query '{name}': {what}")));
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = query.body.as_mut() else {
        return refused("it reads itself and has not the form first part UNION [ALL] step");
    };
    if matches!(set_quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName) {
        return refused("UNION BY NAME is not supported there; write the columns in order");
    }
    if query.with.is_some() {
        return refused("WITH within it is not supported; write it before, in the same WITH");
    }
    if query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return refused(
            "ORDER BY, LIMIT and OFFSET are not supported within it; write them in the query that reads it",
        );
    }
    if names(left.as_ref(), &name) {
        return refused("it reads itself in its first part; only the last part of the UNION may");
    }
    let mut step = StepWalk { name: &name, references: 0 };
    step.body(right, None)?;
    if step.references > 1 {
        return refused("it reads itself more than once; join with a table instead, or number the rows");
    }
    mark(right);
    Ok(())
}

/// Whether a part of a statement reads a table of that name.
fn names<N: ast::Visit>(part: &N, name: &str) -> bool {
    visit_relations(part, |relation| match is(relation, name) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
}

fn is(relation: &ObjectName, name: &str) -> bool {
    match relation.0.as_slice() {
        [part] => part.as_ident().is_some_and(|ident| normalised(ident.clone()) == name),
        _ => false,
    }
}

/// A walk over the step, which looks for references to the query itself.
struct StepWalk<'a> {
    name: &'a str,
    references: usize,
}

impl StepWalk<'_> {
    /// `within`: what keeps a reference from standing here.
    fn body(&mut self, body: &SetExpr, within: Option<&'static str>) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select, within),
            SetExpr::Query(query) => self.query(query, within),
            SetExpr::SetOperation { op, left, right, set_quantifier } => {
                let all = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
                let (of_left, of_right) = match op {
                    SetOperator::Union => (None, None),
                    SetOperator::Intersect if all => (Some("INTERSECT ALL"), Some("INTERSECT ALL")),
                    SetOperator::Intersect => (None, None),
                    _ if all => (Some("EXCEPT ALL"), Some("EXCEPT ALL")),
                    _ => (None, Some("the right side of EXCEPT")),
                };
                self.body(left, within.or(of_left))?;
                self.body(right, within.or(of_right))
            }
            _ => Ok(()),
        }
    }

    fn query(&mut self, query: &Query, within: Option<&'static str>) -> Result<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            if normalised(cte.alias.name.clone()) == self.name {
                return Ok(());
            }
            self.query(&cte.query, within)?;
        }
        let before = self.references;
        self.body(&query.body, within)?;
        if let (SetExpr::Select(select), Some(order_by)) = (query.body.as_ref(), &query.order_by)
            && before < self.references
            && self.reads_itself(select)
            && aggregates(order_by)
        {
            return Err(self.no_aggregates());
        }
        let sorted = query.order_by.as_ref().is_some_and(|part| names(part, self.name));
        let limited = query.limit_clause.as_ref().is_some_and(|part| names(part, self.name));
        if sorted || limited { self.refused("a subquery") } else { Ok(()) }
    }

    fn select(&mut self, select: &Select, within: Option<&'static str>) -> Result<()> {
        for from in &select.from {
            self.with_joins(from, within)?;
        }
        let without_from = Select { from: Vec::new(), ..select.clone() };
        if names(&without_from, self.name) {
            return self.refused("a subquery");
        }
        if self.reads_itself(select) && aggregates(&without_from) {
            return Err(self.no_aggregates());
        }
        Ok(())
    }

    fn with_joins(&mut self, from: &TableWithJoins, within: Option<&'static str>) -> Result<()> {
        use JoinOperator as J;
        let outer = Some("the side of an outer join that may be NULL");
        let nulls_left = |op: &JoinOperator| matches!(op, J::Right(_) | J::RightOuter(_) | J::FullOuter(_));
        let hides_left = |op: &JoinOperator| matches!(op, J::RightSemi(_) | J::RightAnti(_));
        let later = |joins: &[ast::Join]| {
            if joins.iter().any(|join| nulls_left(&join.join_operator)) {
                outer
            } else if joins.iter().any(|join| hides_left(&join.join_operator)) {
                Some("a semi or anti join")
            } else {
                None
            }
        };
        self.factor(&from.relation, within.or(later(&from.joins)))?;
        for (place, join) in from.joins.iter().enumerate() {
            let own = match &join.join_operator {
                J::Left(_) | J::LeftOuter(_) | J::FullOuter(_) => outer,
                J::Semi(_) | J::LeftSemi(_) | J::Anti(_) | J::LeftAnti(_) => Some("a semi or anti join"),
                _ => None,
            };
            if names(&join.join_operator, self.name) {
                return self.refused("a subquery");
            }
            self.factor(&join.relation, within.or(own).or(later(&from.joins[place + 1..])))?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, within: Option<&'static str>) -> Result<()> {
        match factor {
            TableFactor::Table { name, .. } if is(name, self.name) => {
                self.references += 1;
                within.map_or(Ok(()), |within| self.refused(within))
            }
            TableFactor::Derived { subquery, .. } => self.query(subquery, within),
            TableFactor::NestedJoin { table_with_joins, .. } => self.with_joins(table_with_joins, within),
            other if names(other, self.name) => self.refused("a function in FROM"),
            _ => Ok(()),
        }
    }

    /// Whether the query itself stands in the FROM of this SELECT, and not within a query there.
    fn reads_itself(&self, select: &Select) -> bool {
        fn within(from: &TableWithJoins, name: &str) -> bool {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)).any(|factor| {
                match factor {
                    TableFactor::Table { name: table, .. } => is(table, name),
                    TableFactor::NestedJoin { table_with_joins, .. } => within(table_with_joins, name),
                    _ => false,
                }
            })
        }
        select.from.iter().any(|from| within(from, self.name))
    }

    fn no_aggregates(&self) -> Error {
        Error::Unsupported(format!(
            "recursive query '{}': an aggregate in its step is not supported; aggregate in the query that reads it",
            self.name
        ))
    }

    fn refused(&self, within: &str) -> Result<()> {
        Err(Error::Unsupported(format!(
            "recursive query '{}': it reads itself within {within}, which is not supported; read it in FROM of its \
             step",
            self.name
        )))
    }
}

/// Whether aggregates are called here, and not in a query within.
fn aggregates<N: ast::Visit>(part: &N) -> bool {
    is_any_outside(part, &|expr| match expr {
        Expr::Function(call) => call.over.is_none() && is_aggregate(&call.name),
        _ => false,
    })
}

/// Puts each output of a step into a call of [`STEP`].
fn mark(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                match item {
                    SelectItem::UnnamedExpr(expr) => {
                        let marked = call(STEP, vec![expr.clone()]);
                        *item = match super::scope::name_of(expr) {
                            Some(name) => {
                                SelectItem::ExprWithAlias { expr: marked, alias: ast::Ident::with_quote('"', name) }
                            }
                            None => SelectItem::UnnamedExpr(marked),
                        };
                    }
                    SelectItem::ExprWithAlias { expr, .. } => *expr = call(STEP, vec![expr.clone()]),
                    _ => {}
                }
            }
        }
        SetExpr::Query(query) => mark(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            mark(left);
            mark(right);
        }
        _ => {}
    }
}
