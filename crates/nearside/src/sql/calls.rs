//! Calls of functions, as syntax trees have them.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// `name(arguments)`.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Whether a function's name is this one, without quotes and a schema.
pub(super) fn is_called(name: &ObjectName, wanted: &str) -> bool {
    match name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|i| i.quote_style.is_none() && i.value.eq_ignore_ascii_case(wanted)),
        _ => false,
    }
}
