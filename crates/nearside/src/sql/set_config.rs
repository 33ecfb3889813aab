//! `SELECT .., set_config('name', 'value', is_local)` without FROM: a SET that gives a row.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Query, Select,
    SelectItem, SetExpr, Value,
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

/// What a statement sets, and the query with the values in the place of the calls, if it is such a query. Settings are
/// asked for before any is set, so none may be asked for behind a call.
pub(crate) fn set_config(statement: &Statement) -> Option<(Vec<SetConfig>, Statement)> {
    let Statement::Statement(inner) = statement else { return None };
    let ast::Statement::Query(query) = inner.as_ref() else { return None };
    let mut select = plain_select(query)?.clone();
    let mut sets = Vec::new();
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else { return None };
        match call_of(expr) {
            Some(set) => {
                let alias = match &*item {
                    SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                    _ => Ident::with_quote('"', "set_config"),
                };
                let expr = Expr::value(Value::SingleQuotedString(set.value.clone()));
                *item = SelectItem::ExprWithAlias { expr, alias };
                sets.push(set);
            }
            None if !sets.is_empty() && !matches!(expr, Expr::Value(_)) => return None,
            None => {}
        }
    }
    if sets.is_empty() {
        return None;
    }
    let query = Query { body: Box::new(SetExpr::Select(Box::new(select))), ..query.as_ref().clone() };
    Some((sets, Statement::Statement(Box::new(ast::Statement::Query(Box::new(query))))))
}

fn call_of(expr: &Expr) -> Option<SetConfig> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), filter: None, over: None, .. }) = expr
    else {
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

/// The outputs of a query without rows of its own.
fn plain_select(query: &Query) -> Option<&Select> {
    let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let filters = select.selection.is_some() || select.having.is_some() || select.qualify.is_some() || groups;
    let others = query.fetch.is_some() || select.distinct.is_some() || select.into.is_some();
    (is_plain && !filters && !others && select.from.is_empty()).then_some(select)
}
