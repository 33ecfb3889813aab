//! Whether a statement has names that the planner would not take as SQL has them.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, SelectItem, TableFactor, Visitor,
};

use super::super::normalised;
use super::names::{alias_columns, output_name};
use super::sources::{merged_by, repeats};
use super::stars::{has_columns, is_written_out};

/// Breaks where a name may be one of a merged column, of a function in FROM, or of several columns.
#[derive(Default)]
pub(super) struct Looking {
    /// How many queries there are around the place.
    depth: usize,
    /// What the sources of the SELECTs around the place are called, the innermost last.
    sources: Vec<Vec<String>>,
}

impl Visitor for Looking {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let merges = select.from.iter().flat_map(|from| &from.joins).any(|j| merged_by(&j.join_operator).is_some());
        let written_out = select.projection.iter().any(|item| match item {
            SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => is_written_out(options),
            item => has_columns(item),
        });
        self.sources.push(called(select));
        found(merges || written_out || repeats(&names(select)) || (self.depth > 1 && shows_much(select)))
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.sources.pop();
        ControlFlow::Continue(())
    }

    /// A column of a SELECT around may be one whose source is called like a column, and a source's name a row of it.
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let parts = match expr {
            Expr::CompoundIdentifier(parts) => parts,
            Expr::Identifier(name) => {
                let name = normalised(name.clone());
                return found(self.sources.iter().flatten().any(|source| *source == name));
            }
            Expr::Function(function) => return found(has_star_of_source(function)),
            _ => return ControlFlow::Continue(()),
        };
        let [.., table, _] = parts.as_slice() else { return ControlFlow::Continue(()) };
        let table = normalised(table.clone());
        found(self.sources.last().is_some_and(|sources| !sources.contains(&table)))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let alias = match factor {
            TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => alias.as_ref(),
            _ => None,
        };
        found(match factor {
            TableFactor::Table { args: Some(_), .. } | TableFactor::UNNEST { .. } => true,
            TableFactor::NestedJoin { table_with_joins, alias } => {
                alias.is_some() || table_with_joins.joins.iter().any(|join| merged_by(&join.join_operator).is_some())
            }
            _ => alias.is_some_and(|alias| repeats(&alias_columns(alias))),
        })
    }
}

/// Whether an argument is `t.*`.
fn has_star_of_source(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let is = |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)));
    list.args.iter().any(is)
}

/// The names of a SELECT's sources, as far as they stand there.
fn called(select: &Select) -> Vec<String> {
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let name = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(normalised(alias.name.clone()))
        }
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident().cloned()).map(normalised),
        _ => None,
    };
    factors.filter_map(name).collect()
}

fn found(is: bool) -> ControlFlow<()> {
    if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The names of the outputs that are no `*`.
fn names(select: &Select) -> Vec<String> {
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => normalised(alias.clone()),
        SelectItem::UnnamedExpr(expr) => output_name(expr).unwrap_or_default(),
        _ => String::new(),
    };
    select.projection.iter().map(name).collect()
}

/// Whether `*` may show two columns of one name, or one that another output has too.
fn shows_much(select: &Select) -> bool {
    let is_star = |item: &&SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    let stars = select.projection.iter().filter(is_star).count();
    let sources = select.from.iter().map(|from| 1 + from.joins.len()).sum::<usize>();
    stars > 0 && (sources > 1 || select.projection.len() > 1)
}
