//! `*` of a query that is kept, as the columns that it shows now: those of a view are those that it had when it was
//! made, whatever comes to its tables.
//!
//! # Limits
//! A `*` of sources whose columns are not known before planning (functions, files) stays, and follows them.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use super::names::Tables;
use super::sources::{Names, Scope, ShownColumn};
use super::stars::{each_column, has_columns};
use super::{chosen, starred};
use crate::error::{Error, Result};

/// Writes every `*` of a query out.
///
/// # Errors
/// Names of columns that there are not.
pub(crate) fn without_stars(query: &mut Query, tables: Tables<'_>) -> Result<()> {
    match VisitMut::visit(query, &mut Stars { names: vec![Names::new(tables)] }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Stars<'a> {
    names: Vec<Names<'a>>,
}

impl VisitorMut for Stars<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let names = self.names.last().map(|names| names.within(query.with.as_ref()));
        self.names.extend(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.names.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.names.last().map_or(Ok(()), |names| written_out(select, names)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn written_out(select: &mut Select, names: &Names<'_>) -> Result<()> {
    let is_star = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)) || has_columns(item)
    };
    if !select.projection.iter().any(is_star) {
        return Ok(());
    }
    // Reading the sources writes their joins out, which the text is not to have.
    let scope = Scope::read(&mut select.from.clone(), names)?;
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match (item, &scope.shown) {
            (SelectItem::Wildcard(options), Some(shown)) if is_plain(&options) => {
                items.extend(starred(options, shown, &scope)?);
            }
            (SelectItem::Wildcard(options), Some(shown)) => items.extend(chosen(&options, shown)?),
            (SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options), _) => {
                match scope.shown_of(&table) {
                    Some(shown) if is_plain(&options) => items.extend(starred(options, &shown, &scope)?),
                    Some(shown) => items.extend(chosen(&options, &shown)?),
                    None => items.push(SelectItem::QualifiedWildcard(
                        SelectItemQualifiedWildcardKind::ObjectName(table),
                        options,
                    )),
                }
            }
            (item, Some(shown)) if has_columns(&item) => items.extend(each_column(&item, &of_each(shown))?),
            (item, _) => items.push(item),
        }
    }
    select.projection = items;
    Ok(())
}

fn of_each(shown: &[ShownColumn]) -> Vec<(String, sqlparser::ast::Expr)> {
    shown.iter().map(|column| (column.name.clone(), column.expr.clone())).collect()
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    options.opt_rename.is_none() && options.opt_ilike.is_none()
}
