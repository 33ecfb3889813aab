//! What the parser or the planner would take otherwise than SQL has it, or not at all, set right in the syntax tree.
//!
//! # Limits
//! Two outputs have the same name where their expressions are written alike: `a` and `t.a` are told apart, and the planner refuses them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Ident, ObjectName, SelectItem, SetExpr, Value, VisitMut, VisitorMut};

/// Sets a statement right.
pub(super) fn mend(statement: &mut Statement) {
    match statement {
        Statement::Statement(inner) => {
            let _ = inner.visit(&mut Mend);
        }
        Statement::Explain(explain) => mend(&mut explain.statement),
        _ => {}
    }
}

struct Mend;

impl VisitorMut for Mend {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
        if let ast::Statement::Set(set) = statement {
            assign_time_zone(set);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        name_outputs_apart(&mut query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        bind_distinct_tightly(expr);
        read_exponents_as_doubles(expr);
        ControlFlow::Continue(())
    }
}

/// `SET TIME ZONE '+02:00'`, as the standard has it, is `SET TIMEZONE = '+02:00'`.
fn assign_time_zone(set: &mut ast::Set) {
    if let ast::Set::SetTimeZone { local: false, value } = set {
        let variable = ObjectName::from(vec![Ident::new("TIMEZONE")]);
        *set = ast::Set::SingleAssignment { scope: None, hivevar: false, variable, values: vec![value.clone()] };
    }
}

/// Numbers with an exponent are DOUBLEs: as decimals, which other numbers with a point are, most would not fit.
fn read_exponents_as_doubles(expr: &mut ast::Expr) {
    if let ast::Expr::Value(value) = expr
        && let Value::Number(text, _) = &value.value
        && text.contains(['e', 'E'])
    {
        let span = value.span;
        let text = Value::SingleQuotedString(text.to_string());
        *expr = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(ast::Expr::Value(ast::ValueWithSpan { value: text, span })),
            data_type: ast::DataType::Double(ast::ExactNumberInfo::None),
            array: false,
            format: None,
        };
    }
}

/// What the planner makes an output's name of.
#[derive(Clone, PartialEq, Eq, Hash)]
enum OutputName<'a> {
    Alias(&'a str),
    Expression(&'a ast::Expr),
}

impl<'a> OutputName<'a> {
    fn of(item: &'a SelectItem) -> Option<OutputName<'a>> {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(OutputName::Alias(&alias.value)),
            SelectItem::UnnamedExpr(expr) => Some(OutputName::Expression(bare(expr))),
            _ => None,
        }
    }

    /// The column's name as people see it.
    fn text(&self) -> String {
        match self {
            OutputName::Alias(name) => name.to_string(),
            OutputName::Expression(ast::Expr::Identifier(name)) => name.value.clone(),
            OutputName::Expression(ast::Expr::CompoundIdentifier(names)) => {
                names.last().map_or_else(String::new, |name| name.value.clone())
            }
            OutputName::Expression(expr) => expr.to_string(),
        }
    }
}

/// Without brackets and casts around it, which names of outputs do not tell.
fn bare(mut expr: &ast::Expr) -> &ast::Expr {
    loop {
        expr = match expr {
            ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => inner,
            ast::Expr::AtTimeZone { timestamp, .. } => timestamp,
            expr => return expr,
        }
    }
}

/// `SELECT a, a` gives the columns `a` and `a_1`: the planner wants names to be different.
fn name_outputs_apart(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for (place, name) in repeated(&select.projection) {
                let item = &mut select.projection[place];
                if let SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) = item {
                    let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_outputs_apart(left);
            name_outputs_apart(right);
        }
        // A query in brackets is visited by itself.
        _ => {}
    }
}

/// Where names come again, and what to call the columns there.
fn repeated(items: &[SelectItem]) -> Vec<(usize, String)> {
    let mut seen = HashSet::new();
    let mut again = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if let Some(name) = OutputName::of(item)
            && !seen.insert(name.clone())
        {
            again.push((place, name));
        }
    }
    if again.is_empty() {
        return Vec::new();
    }
    let mut taken: HashSet<String> = items.iter().filter_map(|item| Some(OutputName::of(item)?.text())).collect();
    let free = |(place, name): (usize, OutputName<'_>)| {
        let text = name.text();
        let numbered = (1..).map(|number| format!("{text}_{number}"));
        let free = numbered.skip_while(|name| taken.contains(name)).take(1).collect::<String>();
        taken.insert(free.clone());
        (place, free)
    };
    again.into_iter().map(free).collect()
}

/// `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`; the parser takes all of `b AND c` to the right of FROM.
fn bind_distinct_tightly(expr: &mut ast::Expr) {
    let (ast::Expr::IsDistinctFrom(_, right) | ast::Expr::IsNotDistinctFrom(_, right)) = &mut *expr else { return };
    if !is_logic(right) {
        return;
    }
    let mut outer = std::mem::replace(right.as_mut(), ast::Expr::Value(Value::Null.into()));
    let mut test = std::mem::replace(expr, ast::Expr::Value(Value::Null.into()));
    // The leftmost operand below the ANDs and ORs is what FROM is about.
    let mut place = &mut outer;
    while is_logic(place) {
        let ast::Expr::BinaryOp { left, .. } = place else { return };
        place = left.as_mut();
    }
    if let ast::Expr::IsDistinctFrom(_, right) | ast::Expr::IsNotDistinctFrom(_, right) = &mut test {
        std::mem::swap(right.as_mut(), place);
    }
    *place = test;
    *expr = outer;
}

fn is_logic(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::BinaryOp { op: ast::BinaryOperator::And | ast::BinaryOperator::Or, .. })
}
