//! Calls of functions that statements have made: what they stand for is put in their place before the statement is
//! planned.
//!
//! # Invariants
//! - An argument is computed as often as its parameter stands in the text; one that gives another value each time only
//!   where that is once, and not within a query.
//! - A name of an argument means what it means where the call stands, and one of the text what it means there: where
//!   they would meet, the call is refused.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion_common::DataFusionError;
use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableFunctionArgs, Value, Visit, VisitMut, Visitor,
    VisitorMut, visit_expressions,
};
use sqlparser::parser::Parser;

use super::calls::call;
use super::function_statements::query_of_text;
use super::named_arguments::named_in_order;
use super::normalised;
use super::parsed;
use super::scope::{output_name, quoted};
use super::walk::rewrite;
use crate::catalog::made_functions::{Body, MadeFunction, Parameter, Returns, TypeName};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::arguments::ARGUMENT;
use crate::sql::dialect::SqlDialect;

/// How deep functions may call each other.
const DEPTH_MAX: usize = 32;

/// How many calls of functions a statement may come to.
const CALLS_MAX: usize = 10_000;

/// What a statement is written out with.
pub(super) struct Known<'a> {
    /// The function that a name stands for.
    pub made: &'a dyn Fn(&ObjectName) -> Result<Option<Arc<MadeFunction>>>,
    /// The columns of a table or view.
    pub columns: &'a dyn Fn(&ObjectName) -> Option<Vec<String>>,
    /// Whether a function of a name gives another value each time.
    pub is_volatile: &'a dyn Fn(&str) -> bool,
}

/// Writes calls out; whether there were any.
///
/// # Errors
/// Arguments that a function does not take, calls that cannot be written out.
pub(super) fn write_out(statement: &mut Statement, known: &Known<'_>) -> Result<bool> {
    let calls = Cell::new(0);
    rewrite(statement, &mut Expander { known, stack: Vec::new(), calls: &calls })?;
    Ok(calls.get() > 0)
}

/// Whether a statement, or a part of one, calls a function.
pub(crate) fn calls_function<N: Visit>(node: &N, is: &dyn Fn(&ObjectName) -> bool) -> bool {
    struct Calls<'a>(&'a dyn Fn(&ObjectName) -> bool);

    impl Visitor for Calls<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if (self.0)(&call.name) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }
                    if (self.0)(name) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }

    node.visit(&mut Calls(is)).is_break()
}

struct Expander<'a> {
    known: &'a Known<'a>,
    /// The functions whose texts are being written out, from the outermost in.
    stack: Vec<String>,
    calls: &'a Cell<usize>,
}

fn flow(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Expander<'_> {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        flow(self.outputs(select))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        match (self.known.made)(&function.name) {
            Ok(Some(made)) => flow(self.value(function, &made).map(|value| *expr = value)),
            Ok(None) => flow(without_names(function)),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        flow(self.factor(factor))
    }
}

/// Refuses names of arguments of functions that have none.
fn without_names(function: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    match list.args.iter().all(|arg| matches!(arg, FunctionArg::Unnamed(_))) {
        true => Ok(()),
        false => Err(Error::plan(
            SqlState::UndefinedFunction,
            format!(
                "the parameters of function {} have no names; give its arguments in order",
                last_name(&function.name)
            ),
        )),
    }
}

fn last_name(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).cloned().map_or_else(|| name.to_string(), normalised)
}

impl Expander<'_> {
    /// Outputs that are calls keep the function's name.
    fn outputs(&self, select: &mut Select) -> Result<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr @ Expr::Function(_)) = item
                && let Expr::Function(function) = &*expr
                && (self.known.made)(&function.name)?.is_some()
            {
                let alias = quoted(&last_name(&function.name));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        Ok(())
    }

    fn begin(&self, name: &str) -> Result<Expander<'_>> {
        if self.stack.iter().any(|known| known == name) {
            return Err(Error::plan(
                SqlState::InvalidRecursion,
                format!("function {name} calls itself, which is not supported; use WITH RECURSIVE"),
            ));
        }
        self.calls.set(self.calls.get() + 1);
        if self.stack.len() >= DEPTH_MAX || self.calls.get() > CALLS_MAX {
            return Err(Error::plan(
                SqlState::StatementTooComplex,
                format!(
                    "functions call each other more than {DEPTH_MAX} deep or {CALLS_MAX} times in a statement; create \
                     tables of parts of it"
                ),
            ));
        }
        let stack = self.stack.iter().cloned().chain([name.to_string()]).collect();
        Ok(Expander { known: self.known, stack, calls: self.calls })
    }

    /// The value that a call stands for.
    fn value(&self, function: &Function, made: &MadeFunction) -> Result<Expr> {
        let name = last_name(&function.name);
        let (args, has_clauses) = match &function.args {
            FunctionArguments::List(list) => {
                (list.args.clone(), list.duplicate_treatment.is_some() || !list.clauses.is_empty())
            }
            FunctionArguments::None => (Vec::new(), false),
            FunctionArguments::Subquery(_) => (Vec::new(), true),
        };
        if has_clauses
            || function.over.is_some()
            || function.filter.is_some()
            || function.null_treatment.is_some()
            || !function.within_group.is_empty()
        {
            return Err(Error::plan(
                SqlState::WrongObjectType,
                format!("function {name} takes arguments alone: it is no aggregate and no window function"),
            ));
        }
        if made.gives_rows() {
            return Err(Error::Unsupported(format!(
                "function {name} gives rows; write it in FROM, SELECT * FROM {name}(..)"
            )));
        }
        let args = arguments(&name, made, args)?;
        self.expression(&name, made, args)
    }

    fn expression(&self, name: &str, made: &MadeFunction, args: Vec<Expr>) -> Result<Expr> {
        let mut inner = self.begin(name)?;
        let strict = made.is_strict.then(|| args.clone()).filter(|args| !args.is_empty());
        let mut body = match &made.body {
            Body::Expression(text) => value_of_text(text)?,
            Body::Query(text) => Expr::Subquery(Box::new(first_row(query_of_text(text)?)?)),
        };
        let is_query = matches!(made.body, Body::Query(_));
        let names = names_within(&body, self.known);
        broken(VisitMut::visit(&mut body, &mut inner))?;
        let mut parameters = Parameters::new(name, made, args, names);
        broken(VisitMut::visit(&mut body, &mut parameters))?;
        parameters.are_computed_once(is_query || strict.is_some(), self.known)?;
        let args = parameters.args;
        if strict.is_some() {
            let is_null = |arg: Expr| Expr::IsNull(Box::new(nested(arg)));
            let any = args.into_iter().map(is_null).reduce(|left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: ast::BinaryOperator::Or,
                right: Box::new(right),
            });
            if let Some(condition) = any {
                body = unless(condition, body)?;
            }
        }
        Ok(match &made.returns {
            Returns::Value(of) | Returns::Values(of) => cast(nested(body), of)?,
            _ => nested(body),
        })
    }

    /// A call in FROM.
    fn factor(&self, factor: &mut TableFactor) -> Result<()> {
        let (name, args, alias, is_lateral) = match &*factor {
            TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), alias, .. } => {
                (name, args, alias, false)
            }
            TableFactor::Function { name, args, alias, lateral, .. } => (name, args, alias, *lateral),
            _ => return Ok(()),
        };
        let Some(made) = (self.known.made)(name)? else { return Ok(()) };
        let called = last_name(name);
        let args = arguments(&called, &made, args.clone())?;
        // As in PostgreSQL, a function may name what stands before it.
        let lateral = is_lateral || args.iter().any(has_names);
        let shown = alias.as_ref().map_or_else(|| called.clone(), |alias| normalised(alias.name.clone()));
        let query = self.rows(&called, &shown, &made, args)?;
        let alias = alias.clone().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: quoted(&called),
            columns: Vec::new(),
            at: None,
        });
        *factor = TableFactor::Derived { lateral, subquery: Box::new(query), alias: Some(alias), sample: None };
        Ok(())
    }

    /// The rows of a call; the one column of values is `shown`.
    fn rows(&self, name: &str, shown: &str, made: &MadeFunction, args: Vec<Expr>) -> Result<Query> {
        let columns: Vec<(String, Option<&TypeName>)> = match &made.returns {
            Returns::Rows(columns) => columns.iter().map(|(name, of)| (name.clone(), Some(of))).collect(),
            Returns::Values(of) => vec![(shown.to_string(), Some(of))],
            Returns::Value(_) | Returns::Any => {
                let value = self.expression(name, made, args)?;
                let mut query = parsed::query("SELECT 1")?;
                put_outputs(&mut query, vec![SelectItem::ExprWithAlias { expr: value, alias: quoted(shown) }]);
                return Ok(query);
            }
            Returns::AnyRows => Vec::new(),
        };
        let mut inner = self.begin(name)?;
        let mut query = match &made.body {
            Body::Query(text) => query_of_text(text)?,
            Body::Expression(text) => query_of_text(&format!("SELECT {text}"))?,
        };
        let names = names_within(&query, self.known);
        broken(VisitMut::visit(&mut query, &mut inner))?;
        let mut parameters = Parameters::new(name, made, args, names);
        broken(VisitMut::visit(&mut query, &mut parameters))?;
        parameters.are_computed_once(true, self.known)?;
        if columns.is_empty() {
            return Ok(query);
        }
        let places: Vec<String> = (1..=columns.len()).map(|place| format!("c{place}")).collect();
        let mut outer = parsed::from_query(query, &places)?;
        let outputs = columns.into_iter().zip(&places).map(|((name, of), place)| {
            let column = Expr::Identifier(quoted(place));
            let expr = of.map_or(Ok(column.clone()), |of| cast(column, of))?;
            Ok(SelectItem::ExprWithAlias { expr, alias: quoted(&name) })
        });
        put_outputs(&mut outer, outputs.collect::<Result<Vec<_>>>()?);
        Ok(outer)
    }
}

fn broken(flow: ControlFlow<Error>) -> Result<()> {
    match flow {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn put_outputs(query: &mut Query, outputs: Vec<SelectItem>) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = outputs;
    }
}

fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(_) | Expr::Value(_) | Expr::Subquery(_) | Expr::Cast { .. } => expr,
        other => Expr::Nested(Box::new(other)),
    }
}

/// A type as it is written.
fn data_type(text: &str) -> Result<DataType> {
    let parsed = Parser::new(&SqlDialect).try_with_sql(text).and_then(|mut parser| parser.parse_data_type());
    Ok(parsed.map_err(DataFusionError::from)?)
}

fn cast(expr: Expr, of: &TypeName) -> Result<Expr> {
    let data_type = data_type(&of.text)?;
    Ok(Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None })
}

/// `CASE WHEN condition THEN NULL ELSE value END`.
fn unless(condition: Expr, value: Expr) -> Result<Expr> {
    match value_of_text("CASE WHEN true THEN NULL ELSE 1 END")? {
        Expr::Case { case_token, end_token, operand, mut conditions, .. } => {
            if let Some(first) = conditions.first_mut() {
                first.condition = condition;
            }
            Ok(Expr::Case { case_token, end_token, operand, conditions, else_result: Some(Box::new(nested(value))) })
        }
        other => Ok(other),
    }
}

/// The expression of a text.
fn value_of_text(text: &str) -> Result<Expr> {
    let query = query_of_text(&format!("SELECT {text}"))?;
    match *query.body {
        SetExpr::Select(select) => match select.projection.into_iter().next() {
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => Ok(expr),
            _ => Err(Error::syntax("a value is expected")),
        },
        _ => Err(Error::syntax("a value is expected")),
    }
}

/// The first row of a query.
fn first_row(query: Query) -> Result<Query> {
    let mut outer = parsed::from_query(query, &["c1".to_string()])?;
    put_outputs(&mut outer, vec![SelectItem::UnnamedExpr(Expr::Identifier(quoted("c1")))]);
    outer.limit_clause = parsed::query("SELECT 1 LIMIT 1")?.limit_clause;
    Ok(outer)
}

/// The arguments of a call in the order of a function's parameters.
fn arguments(name: &str, made: &MadeFunction, args: Vec<FunctionArg>) -> Result<Vec<Expr>> {
    let names: Vec<Option<&str>> = made.parameters.iter().map(|parameter| parameter.name.as_deref()).collect();
    let given = named_in_order(name, &names, args)?;
    let value = |(parameter, given): (&Parameter, Option<FunctionArgExpr>)| {
        let value = match (given, &parameter.default) {
            (Some(FunctionArgExpr::Expr(value)), _) => value,
            (Some(other), _) => {
                return Err(Error::plan(
                    SqlState::UndefinedFunction,
                    format!("function {name} takes values, and {other} is none"),
                ));
            }
            (None, Some(default)) => value_of_text(default)?,
            (None, None) => {
                return Err(Error::plan(
                    SqlState::UndefinedFunction,
                    format!("function {name} takes {} arguments, and too few are given", made.parameters.len()),
                ));
            }
        };
        typed(value, parameter, name)
    };
    made.parameters.iter().zip(given).map(value).collect()
}

/// An argument in its parameter's type. Whether that may be is looked at when types are known.
fn typed(value: Expr, parameter: &Parameter, function: &str) -> Result<Expr> {
    let Some(of) = &parameter.of else { return Ok(nested(value)) };
    let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.into()).into());
    let is_open = match &value {
        Expr::Value(value) => {
            matches!(value.value, Value::SingleQuotedString(_) | Value::Null | Value::Placeholder(_))
        }
        _ => false,
    };
    match is_open {
        true => cast(value, of),
        false => cast(call(ARGUMENT, vec![value, text(&of.text), text(function)]), of),
    }
}

fn has_names(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Names that mean something in a text: of tables, their columns, and outputs.
fn names_within<N: Visit>(node: &N, known: &Known<'_>) -> BTreeSet<String> {
    struct Names<'a> {
        known: &'a Known<'a>,
        found: BTreeSet<String>,
    }

    impl Names<'_> {
        fn alias(&mut self, alias: &TableAlias) {
            self.found.insert(normalised(alias.name.clone()));
            self.found.extend(alias.columns.iter().map(|column| normalised(column.name.clone())));
        }
    }

    impl Visitor for Names<'_> {
        type Break = ();

        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            self.found.insert(last_name(name));
            self.found.extend((self.known.columns)(name).unwrap_or_default());
            ControlFlow::Continue(())
        }

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let with = query.with.iter().flat_map(|with| &with.cte_tables);
            with.for_each(|cte| self.alias(&cte.alias));
            ControlFlow::Continue(())
        }

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            for item in &select.projection {
                match item {
                    SelectItem::ExprWithAlias { alias, .. } => drop(self.found.insert(normalised(alias.clone()))),
                    SelectItem::UnnamedExpr(expr) if !matches!(expr, Expr::Identifier(_)) => {
                        self.found.extend(output_name(expr));
                    }
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table { alias, .. }
                | TableFactor::Derived { alias, .. }
                | TableFactor::Function { alias, .. }
                | TableFactor::UNNEST { alias, .. } => alias.iter().for_each(|alias| self.alias(alias)),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }

    let mut names = Names { known, found: BTreeSet::new() };
    let _ = node.visit(&mut names);
    names.found
}

/// Puts arguments in the places of parameters.
struct Parameters<'a> {
    name: &'a str,
    made: &'a MadeFunction,
    args: Vec<Expr>,
    used: Vec<usize>,
    names: BTreeSet<String>,
}

impl<'a> Parameters<'a> {
    fn new(name: &'a str, made: &'a MadeFunction, args: Vec<Expr>, names: BTreeSet<String>) -> Parameters<'a> {
        let used = vec![0; args.len()];
        Parameters { name, made, args, used, names }
    }

    fn of_name(&self, name: &str) -> Option<usize> {
        self.made.parameters.iter().position(|parameter| parameter.name.as_deref() == Some(name))
    }

    /// Which parameter an expression is.
    fn place(&self, expr: &Expr) -> Result<Option<usize>> {
        Ok(match expr {
            Expr::Identifier(name) => {
                let name = normalised(name.clone());
                let Some(place) = self.of_name(&name) else { return Ok(None) };
                if self.names.contains(&name) {
                    return Err(Error::plan(
                        SqlState::AmbiguousColumn,
                        format!(
                            "function {}: '{name}' is a parameter, and something in its query too; write ${} for the \
                             parameter",
                            self.name,
                            place + 1
                        ),
                    ));
                }
                Some(place)
            }
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [of, name] if normalised(Ident::clone(of)) == self.name && !self.names.contains(self.name) => {
                    self.of_name(&normalised(name.clone()))
                }
                _ => None,
            },
            Expr::Value(value) => match &value.value {
                Value::Placeholder(text) if !self.made.is_macro() => {
                    let number = text.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
                    match number.and_then(|number| number.checked_sub(1)).filter(|place| *place < self.args.len()) {
                        Some(place) => Some(place),
                        None => {
                            return Err(Error::plan(
                                SqlState::UndefinedParameter,
                                format!("function {} has no parameter {text}", self.name),
                            ));
                        }
                    }
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// Fails where a name of an argument would mean something else in the function's query.
    fn keeps_its_names(&self, place: usize) -> Result<()> {
        let mut met = None;
        let _ = visit_expressions(&self.args[place], |part| {
            let name = match part {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => parts.first(),
                _ => None,
            };
            met = name.cloned().map(normalised).filter(|name| self.names.contains(name));
            match met.is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        match met {
            Some(name) => Err(Error::Unsupported(format!(
                "function {} has '{name}' in its query, and so has an argument of this call, which is not supported; \
                 give the latter another name, FROM (SELECT {name} AS other ..)",
                self.name
            ))),
            None => Ok(()),
        }
    }

    /// Fails where an argument that gives another value each time would be computed more often than once.
    fn are_computed_once(&self, is_repeated: bool, known: &Known<'_>) -> Result<()> {
        for (arg, used) in self.args.iter().zip(&self.used) {
            if *used == 1 && !is_repeated {
                continue;
            }
            let is_volatile = visit_expressions(arg, |part| match part {
                Expr::Function(function) if (known.is_volatile)(&last_name(&function.name)) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            if is_volatile.is_break() {
                return Err(Error::Unsupported(format!(
                    "an argument of function {} that gives another value each time is not supported; compute it in a \
                     query in FROM first",
                    self.name
                )));
            }
        }
        Ok(())
    }
}

impl VisitorMut for Parameters<'_> {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match self.place(expr) {
            Ok(Some(place)) => {
                if let Err(error) = self.keeps_its_names(place) {
                    return ControlFlow::Break(error);
                }
                self.used[place] += 1;
                *expr = self.args[place].clone();
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
