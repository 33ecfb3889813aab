//! Arguments that are given by name, `make_interval(days => 1)` and `make_interval(days := 1)`, put in order: for
//! functions whose parameters have names in PostgreSQL.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments, ObjectNamePart, Value,
};

use super::normalised;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// What a parameter is where nothing is given for it.
#[derive(Clone, Copy)]
enum Without {
    /// It has to be given.
    Nothing,
    /// A number.
    Number(&'static str),
    /// A truth value.
    Truth(bool),
    /// A text.
    Text(&'static str),
}

use Without::{Nothing, Number, Text, Truth};

/// Functions by their names, with the names of their parameters in order.
const FUNCTIONS: [(&str, &[(&str, Without)]); 17] = [
    (
        "make_interval",
        &[
            ("years", Number("0")),
            ("months", Number("0")),
            ("weeks", Number("0")),
            ("days", Number("0")),
            ("hours", Number("0")),
            ("mins", Number("0")),
            ("secs", Number("0")),
        ],
    ),
    ("make_date", &[("year", Nothing), ("month", Nothing), ("day", Nothing)]),
    ("make_time", &[("hour", Nothing), ("min", Nothing), ("sec", Nothing)]),
    ("make_timestamp", &MOMENT),
    (
        "make_timestamptz",
        &[
            ("year", Nothing),
            ("month", Nothing),
            ("mday", Nothing),
            ("hour", Nothing),
            ("min", Nothing),
            ("sec", Nothing),
            ("timezone", Nothing),
        ],
    ),
    ("parse_ident", &[("str", Nothing), ("strict", Truth(true))]),
    (
        "jsonb_set",
        &[("jsonb_in", Nothing), ("path", Nothing), ("replacement", Nothing), ("create_if_missing", Truth(true))],
    ),
    (
        "jsonb_set_lax",
        &[
            ("jsonb_in", Nothing),
            ("path", Nothing),
            ("replacement", Nothing),
            ("create_if_missing", Truth(true)),
            ("null_value_treatment", Text("use_json_null")),
        ],
    ),
    (
        "jsonb_insert",
        &[("jsonb_in", Nothing), ("path", Nothing), ("replacement", Nothing), ("insert_after", Truth(false))],
    ),
    ("jsonb_path_exists", &PATH),
    ("jsonb_path_match", &PATH),
    ("jsonb_path_query", &PATH),
    ("jsonb_path_query_array", &PATH),
    ("jsonb_path_query_first", &PATH),
    ("json_array_elements", &[("from_json", Nothing)]),
    ("jsonb_array_elements", &[("from_json", Nothing)]),
    ("jsonb_array_element", &[("from_json", Nothing), ("element_index", Nothing)]),
];

const MOMENT: [(&str, Without); 6] =
    [("year", Nothing), ("month", Nothing), ("mday", Nothing), ("hour", Nothing), ("min", Nothing), ("sec", Nothing)];

const PATH: [(&str, Without); 4] =
    [("target", Nothing), ("path", Nothing), ("vars", Text("{}")), ("silent", Truth(false))];

/// Puts the arguments of a call that has some by name in order.
///
/// # Errors
/// Functions without names for their parameters, names that they have not, arguments that are given twice or not at
/// all.
pub(super) fn in_order(call: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    let is_named = |arg: &FunctionArg| !matches!(arg, FunctionArg::Unnamed(_));
    if !list.args.iter().any(is_named) {
        return Ok(());
    }
    let function = match call.name.0.last() {
        Some(ObjectNamePart::Identifier(name)) => normalised(name.clone()),
        _ => call.name.to_string(),
    };
    let wrong = |code: SqlState, message: String| Err(Error::plan(code, message));
    let Some((_, parameters)) = FUNCTIONS.iter().find(|(name, _)| *name == function) else {
        // It may be one that a statement has made: who knows these looks.
        return Ok(());
    };
    let names: Vec<Option<&str>> = parameters.iter().map(|(name, _)| Some(*name)).collect();
    let given = named_in_order(&function, &names, std::mem::take(&mut list.args))?;
    // What stands behind the last one that is given is left to the function.
    let last = given.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let needed = parameters.iter().rposition(|(_, without)| matches!(without, Nothing)).map_or(0, |last| last + 1);
    let optional_zone = function == "make_timestamptz" && last < parameters.len();
    let end = if optional_zone { last.max(needed - 1) } else { last.max(needed) };
    for (slot, (name, without)) in given.into_iter().zip(*parameters).take(end) {
        let value = match (slot, without) {
            (Some(value), _) => value,
            (None, Number(number)) => constant(Value::Number((*number).into(), false)),
            (None, Truth(truth)) => constant(Value::Boolean(*truth)),
            (None, Text(text)) => constant(Value::SingleQuotedString((*text).into())),
            (None, Nothing) => {
                let message = format!("function {function}: an argument is missing, '{name}'");
                return wrong(SqlState::UndefinedFunction, message);
            }
        };
        list.args.push(FunctionArg::Unnamed(value));
    }
    Ok(())
}

/// Arguments by the places of parameters with these names; `None` for those that are not given.
///
/// # Errors
/// Names that there are not, arguments that are given twice, and too many.
pub(super) fn named_in_order(
    function: &str,
    names: &[Option<&str>],
    args: Vec<FunctionArg>,
) -> Result<Vec<Option<FunctionArgExpr>>> {
    let wrong = |code: SqlState, message: String| Err(Error::plan(code, message));
    let mut given: Vec<Option<FunctionArgExpr>> = vec![None; names.len()];
    let mut any_named = false;
    for (at, arg) in args.into_iter().enumerate() {
        let (place, value) = match arg {
            FunctionArg::Unnamed(_) if any_named => {
                let message = format!("{function}: an argument without a name cannot follow one with a name");
                return wrong(SqlState::SyntaxError, message);
            }
            FunctionArg::Unnamed(value) => (Some(at), value),
            FunctionArg::Named {
                name,
                arg,
                operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
            } => {
                any_named = true;
                let name = normalised(name);
                let place = names.iter().position(|known| *known == Some(name.as_str()));
                if place.is_none() {
                    let known: Vec<&str> = names.iter().flatten().copied().collect();
                    let message = format!("function {function} has no parameter '{name}'; it has {}", known.join(", "));
                    return wrong(SqlState::UndefinedFunction, message);
                }
                (place, arg)
            }
            other => {
                let message = format!("{function}({other}): write name => value");
                return wrong(SqlState::SyntaxError, message);
            }
        };
        match place.and_then(|place| given.get_mut(place)) {
            Some(slot @ None) => *slot = Some(value),
            Some(Some(_)) => {
                let name = place.and_then(|place| names[place]).unwrap_or("");
                return wrong(SqlState::SyntaxError, format!("{function}: argument '{name}' is given twice"));
            }
            None => {
                let message = format!("function {function} takes at most {} arguments", names.len());
                return wrong(SqlState::UndefinedFunction, message);
            }
        }
    }
    Ok(given)
}

fn constant(value: Value) -> FunctionArgExpr {
    FunctionArgExpr::Expr(Expr::Value(value.into()))
}

#[cfg(test)]
mod tests {
    use sqlparser::parser::Parser;

    use super::*;
    use crate::sql::SqlDialect;

    fn written(call: &str) -> String {
        let mut expr = Parser::new(&SqlDialect).try_with_sql(call).unwrap().parse_expr().unwrap();
        let Expr::Function(function) = &mut expr else { panic!("{expr}") };
        match in_order(function) {
            Ok(()) => function.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn arguments_come_in_the_order_of_the_parameters() {
        for (call, wanted) in [
            ("make_interval(days => 1)", "make_interval(0, 0, 0, 1)"),
            ("make_interval(1, hours := 2)", "make_interval(1, 0, 0, 0, 2)"),
            ("make_date(day => 3, year => 2024, month => 2)", "make_date(2024, 2, 3)"),
            ("parse_ident(strict => false, str => 'a')", "parse_ident('a', false)"),
            ("abs(-1)", "abs(-1)"),
        ] {
            assert_eq!(written(call), wanted);
        }
        for (call, wrong) in [
            ("make_interval(foo => 1)", "no parameter 'foo'"),
            ("make_interval(days => 1, 2)", "cannot follow"),
            ("make_interval(days => 1, days => 2)", "given twice"),
            ("make_interval(1, years => 2)", "given twice"),
            ("make_date(year => 2024)", "missing, 'month'"),
        ] {
            assert!(written(call).contains(wrong), "{call}: {}", written(call));
        }
    }
}
