//! `WINDOW` clauses: every `OVER w` and `OVER (w ..)` gets what `w` says, and calls of volatile functions in windows
//! are told apart.
//!
//! The planner knows `OVER w` in the select list only, and leaves the name in `OVER (w ORDER BY ..)` out. As in
//! PostgreSQL, what refers to a window by its name in
//! brackets takes over its PARTITION BY, and its ORDER BY unless it has none itself; one with a frame cannot be
//! referred to that way.
//!
//! The planner also takes window functions that are written alike for one: two of `random()` would be the same value.
//! So the second is written
//! otherwise, with the same meaning.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, CaseWhen, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByKind, SetExpr, Value, VisitMut, VisitorMut,
    WindowSpec, WindowType,
};

use super::exclude::is_exclusion;
use super::normalised;
use super::walk::{outside, rewrite};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Functions that give another value with every call.
const VOLATILE: [&str; 2] = ["random", "uuid"];

/// Puts what the windows of a statement say in the place of their names.
///
/// # Errors
/// Names that no window has or two have, and what PostgreSQL refuses to take over.
pub(super) fn resolve_windows(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Queries)
}

/// Meets every query of a statement.
struct Queries;

impl VisitorMut for Queries {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Error> {
        let order_by = match (query.body.as_ref(), &mut query.order_by) {
            (SetExpr::Select(_), Some(order_by)) => Some(&mut order_by.kind),
            _ => None,
        };
        match in_body(&mut query.body, order_by) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// In every SELECT of a query; one in brackets is a query by itself.
fn in_body(body: &mut SetExpr, order_by: Option<&mut OrderByKind>) -> Result<()> {
    match body {
        SetExpr::Select(select) => in_select(select, order_by),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left, None)?;
            in_body(right, None)
        }
        _ => Ok(()),
    }
}

fn in_select(select: &mut ast::Select, order_by: Option<&mut OrderByKind>) -> Result<()> {
    let mut windows: HashMap<String, WindowSpec> = HashMap::new();
    for NamedWindowDefinition(name, definition) in std::mem::take(&mut select.named_window) {
        let spec = match definition {
            NamedWindowExpr::NamedWindow(other) => find(&windows, &other)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => completed(spec, &windows)?,
        };
        if windows.insert(normalised(name.clone()), spec).is_some() {
            return Err(Error::plan(SqlState::WindowingError, format!("window {name} is defined twice")));
        }
    }
    let mut known = HashMap::new();
    let mut result = Ok(());
    let mut each = |expr: &mut ast::Expr| {
        if result.is_ok() {
            result = in_call(expr, &windows, &mut known);
        }
    };
    // Queries that are part of it have windows of their own.
    if let Some(kind) = order_by {
        outside(kind, &mut each);
    }
    outside(select, &mut each);
    result
}

fn find<'w>(windows: &'w HashMap<String, WindowSpec>, name: &Ident) -> Result<&'w WindowSpec> {
    windows.get(&normalised(name.clone())).ok_or_else(|| {
        let names = windows.keys().map(String::as_str);
        let nearest = crate::error::names::nearest(&name.value, names);
        Error::NotFound { kind: "window", name: name.value.clone(), nearest }
    })
}

/// A specification with what the window says that it refers to.
fn completed(mut spec: WindowSpec, windows: &HashMap<String, WindowSpec>) -> Result<WindowSpec> {
    let Some(name) = spec.window_name.take() else { return Ok(spec) };
    let base = find(windows, &name)?;
    let problem = match () {
        () if spec.partition_by.iter().any(|key| !is_exclusion(key)) => "its PARTITION BY cannot be replaced",
        () if !spec.order_by.is_empty() && !base.order_by.is_empty() => "its ORDER BY cannot be replaced",
        () if base.window_frame.is_some() => "it has a frame; write OVER with the name alone",
        () => {
            spec.partition_by.extend(base.partition_by.iter().cloned());
            if spec.order_by.is_empty() {
                spec.order_by.clone_from(&base.order_by);
            }
            return Ok(spec);
        }
    };
    Err(Error::plan(SqlState::WindowingError, format!("a window cannot be made of window {name}: {problem}")))
}

/// Gives a window function its window. `known`: volatile calls, and how often each has been met.
fn in_call(
    expr: &mut ast::Expr,
    windows: &HashMap<String, WindowSpec>,
    known: &mut HashMap<String, usize>,
) -> Result<()> {
    let ast::Expr::Function(function) = expr else { return Ok(()) };
    let Some(over) = function.over.take() else { return Ok(()) };
    let spec = match over {
        WindowType::NamedWindow(name) => find(windows, &name)?.clone(),
        WindowType::WindowSpec(spec) => completed(spec, windows)?,
    };
    function.over = Some(WindowType::WindowSpec(spec));
    tell_apart(expr, known);
    Ok(())
}

/// Writes a window function otherwise that was met before and has a volatile function in it.
fn tell_apart(expr: &mut ast::Expr, known: &mut HashMap<String, usize>) {
    let text = expr.to_string();
    // Equal windows are one order, whatever it is by.
    let over = match expr {
        ast::Expr::Function(function) => function.over.take(),
        _ => None,
    };
    let mut found = Volatile { wrap: 0, found: false };
    let _ = expr.visit(&mut found);
    if found.found {
        let again = known.entry(text).or_default();
        *again += 1;
        let _ = expr.visit(&mut Volatile { wrap: *again - 1, found: false });
    }
    if let ast::Expr::Function(function) = expr {
        function.over = over;
    }
}

/// Puts as many a `CASE` that changes nothing around volatile functions.
struct Volatile {
    wrap: usize,
    found: bool,
}

impl VisitorMut for Volatile {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Function(function) = expr
            && function.over.is_none()
            && VOLATILE.contains(&function.name.to_string().to_lowercase().as_str())
        {
            self.found = true;
            for _ in 0..self.wrap {
                let condition = ast::Expr::Value(Value::Boolean(true).into());
                let result = std::mem::replace(expr, ast::Expr::Value(Value::Null.into()));
                *expr = ast::Expr::Case {
                    case_token: ast::helpers::attached_token::AttachedToken::empty(),
                    end_token: ast::helpers::attached_token::AttachedToken::empty(),
                    operand: None,
                    conditions: vec![CaseWhen { condition, result }],
                    else_result: None,
                };
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::AnyStatement;

    fn resolved(sql: &str) -> Result<String, String> {
        let AnyStatement::Sql(statement) = AnyStatement::one(sql).map_err(|e| e.to_string())? else {
            panic!("it is SQL")
        };
        Ok(statement.to_string())
    }

    #[test]
    fn windows_stand_where_they_are_named() {
        for (sql, expected) in [
            (
                "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY c ROWS 1 PRECEDING)",
                "SELECT sum(a) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING) FROM t",
            ),
            (
                "SELECT sum(a) OVER (W ROWS 2 PRECEDING) FROM t WINDOW v AS (PARTITION BY b), w AS (v ORDER BY c)",
                "SELECT sum(a) OVER (PARTITION BY b ORDER BY c ROWS 2 PRECEDING) FROM t",
            ),
            (
                "SELECT a FROM t WINDOW w AS (ORDER BY c) QUALIFY rank() OVER w = 1 ORDER BY rank() OVER w",
                "SELECT a FROM t QUALIFY rank() OVER (ORDER BY c) = 1 ORDER BY rank() OVER (ORDER BY c)",
            ),
            (
                "SELECT (SELECT max(rank() OVER w) FROM u WINDOW w AS (ORDER BY e)) FROM t WINDOW w AS (ORDER BY c)",
                "SELECT (SELECT max(rank() OVER (ORDER BY e)) FROM u) FROM t",
            ),
        ] {
            assert_eq!(resolved(sql).unwrap(), expected);
        }
    }

    #[test]
    fn what_cannot_be_taken_over_is_refused() {
        for (sql, expected) in [
            ("SELECT sum(a) OVER x FROM t WINDOW w AS (ORDER BY c)", "x"),
            ("SELECT sum(a) OVER (w ORDER BY a) FROM t WINDOW w AS (ORDER BY c)", "ORDER BY cannot be replaced"),
            (
                "SELECT sum(a) OVER (w PARTITION BY a) FROM t WINDOW w AS (ORDER BY c)",
                "PARTITION BY cannot be replaced",
            ),
            ("SELECT sum(a) OVER (w) FROM t WINDOW w AS (ROWS 1 PRECEDING)", "has a frame"),
            ("SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY c), w AS (ORDER BY a)", "defined twice"),
            ("SELECT (SELECT sum(a) OVER w FROM u) FROM t WINDOW w AS (ORDER BY c)", "window"),
        ] {
            let error = resolved(sql).unwrap_err();
            assert!(error.contains(expected), "{sql}: {error}");
        }
    }

    #[test]
    fn volatile_functions_are_told_apart() {
        let sql = "SELECT max(random()) OVER (), max(random()) OVER (), max(a) OVER (), max(a) OVER () FROM t";
        let expected = "SELECT max(random()) OVER (), max(CASE WHEN true THEN random() END) OVER (), max(a) OVER (), \
                        max(a) OVER () FROM t";
        assert_eq!(resolved(sql).unwrap(), expected);
    }
}
