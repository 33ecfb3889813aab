//! `SELECT set_config('name', 'value', is_local)` alone: a SET that gives a row.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query, SelectItem, SetExpr,
    Value,
};

/// What it sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetConfig {
    /// The setting.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether it is for the transaction alone.
    pub is_local: bool,
}

/// What a statement sets, if it is such a query and nothing else.
pub(crate) fn set_config(statement: &Statement) -> Option<SetConfig> {
    let Statement::Statement(inner) = statement else { return None };
    let ast::Statement::Query(query) = inner.as_ref() else { return None };
    let Function { name, args: FunctionArguments::List(list), filter: None, over: None, .. } = only_call(query)? else {
        return None;
    };
    let [part] = name.0.as_slice() else { return None };
    if !part.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("set_config")) {
        return None;
    }
    let value = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => Some(value.value.clone()),
        _ => None,
    };
    let values: Option<Vec<Value>> = list.args.iter().map(value).collect();
    match values?.as_slice() {
        [Value::SingleQuotedString(name), Value::SingleQuotedString(value), Value::Boolean(is_local)] => {
            Some(SetConfig { name: name.clone(), value: value.clone(), is_local: *is_local })
        }
        _ => None,
    }
}

/// The one call that a query without rows of its own consists of.
fn only_call(query: &Query) -> Option<&Function> {
    let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let filters = select.selection.is_some() || select.having.is_some() || select.qualify.is_some() || groups;
    let others = query.fetch.is_some() || select.distinct.is_some() || select.into.is_some();
    if !is_plain || filters || others || !select.from.is_empty() {
        return None;
    }
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(Expr::Function(call))] => Some(call),
        _ => None,
    }
}
