//! `MERGE`: what each of its clauses does, as a statement of its own over the rows that are left to it.
//!
//! ```text
//! WHEN MATCHED AND p THEN UPDATE SET ..      UPDATE t SET .. FROM s WHERE (on) AND (p) AND left
//! WHEN MATCHED AND p THEN DELETE             DELETE FROM t USING s WHERE (on) AND (p) AND left
//! WHEN NOT MATCHED AND p THEN INSERT ..      INSERT INTO t (..) SELECT .. FROM s
//!                                            WHERE NOT EXISTS (SELECT 1 FROM t WHERE on) AND (p) AND left
//! WHEN NOT MATCHED BY SOURCE AND p THEN ..   UPDATE or DELETE of t WHERE NOT EXISTS (SELECT 1 FROM s WHERE on) AND ..
//! ```
//! *left* says that no earlier clause of the kind takes the row. `DO NOTHING`, which the parser does not know, is an
//! action with a name that no column has.
//!
//! # Limits
//! The source is read by each clause, so it must not give something else each time.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, BinaryOperator, Expr, Ident, Merge, MergeAction, MergeClauseKind, MergeInsertKind, ObjectName, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, UpdateTableFromKind,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};
use super::scope::{Tables, quoted};
use super::{parsed, text, written_with};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The column of an action that does nothing.
const NOTHING: &str = "__nearside_nothing";

/// What a clause of a MERGE does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergeStep {
    Update,
    Delete,
    Insert,
}

/// The tokens with an action that the parser knows for each `DO NOTHING` of a MERGE, and for `DEFAULT VALUES`.
///
/// # Errors
/// None that tokens have.
pub(super) fn with_actions(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let (places, words) = solid(&tokens);
    // WITH may stand before it.
    let begins = words.first().is_some_and(|first| is_word(first, "MERGE") || is_word(first, "WITH"));
    if !begins || !words.windows(2).any(|two| is_word(two[0], "MERGE") && is_word(two[1], "INTO")) {
        return Ok(tokens);
    }
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    let mut matched = true;
    for (at, word) in words.iter().enumerate() {
        let is = |offset: usize, text: &str| words.get(at + offset).is_some_and(|word| is_word(word, text));
        if is_word(word, "WHEN") && (is(1, "MATCHED") || is(1, "NOT") && is(2, "MATCHED")) {
            matched = is(1, "MATCHED") || is(3, "BY") && is(4, "SOURCE");
        }
        if is_word(word, "THEN") && is(1, "DO") && is(2, "NOTHING") {
            let action = match matched {
                true => format!(" UPDATE SET {NOTHING} = NULL"),
                false => format!(" INSERT ({NOTHING}) VALUES (NULL)"),
            };
            edits.push((places[at] + 1, places[at + 2] + 1, action));
        }
        if is_word(word, "INSERT") && is(1, "DEFAULT") && is(2, "VALUES") {
            edits.push((places[at] + 1, places[at + 2] + 1, " VALUES (DEFAULT)".into()));
        }
    }
    let mut all = Vec::with_capacity(tokens.len() + 16 * edits.len());
    let mut done = 0;
    for (from, to, action) in edits {
        all.extend_from_slice(&tokens[done..from]);
        let span = tokens[from - 1].span;
        all.extend(text::tokens(&action)?.into_iter().map(|token| TokenWithSpan { span, ..token }));
        done = to;
    }
    all.extend_from_slice(&tokens[done..]);
    all.retain(|token| token.token != Token::EOF);
    Ok(all)
}

/// The statements of a MERGE's clauses, in their order, each with what it does; and a query of all pairs of rows, whose
/// names have to be good.
///
/// # Errors
/// Clauses that are never reached, or that are not done.
pub(crate) fn merge_steps(merge: &Merge, tables: Tables<'_>) -> Result<(Statement, Vec<(MergeStep, Statement)>)> {
    let TableFactor::Table { name, .. } = &merge.table else {
        return Err(Error::Unsupported("MERGE into something else than a table".into()));
    };
    let of = Of { merge, name, columns: tables(name) };
    let mut steps = Vec::new();
    let mut taken: [Vec<Option<Expr>>; 3] = Default::default();
    for clause in &merge.clauses {
        let (kind, condition) = match clause.clause_kind {
            MergeClauseKind::Matched => (0, merge.on.as_ref().clone()),
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => (1, of.no(&merge.table)?),
            MergeClauseKind::NotMatchedBySource => (2, of.no(&merge.source)?),
        };
        if taken[kind].iter().any(Option::is_none) {
            return Err(Error::plan(
                SqlState::SyntaxError,
                format!(
                    "MERGE: WHEN {} comes behind one without a condition, and is never reached",
                    clause.clause_kind
                ),
            ));
        }
        if let Some(name) = clause.predicate.as_ref().and_then(written_with::volatile_call) {
            return Err(Error::Unsupported(format!(
                "{name}() in a condition of MERGE is not supported: each clause would ask it anew; make a column of \
                 the source of it"
            )));
        }
        let left = taken[kind].iter().flatten().map(|taken| Expr::IsNotTrue(Box::new(nested(taken.clone()))));
        let condition = clause.predicate.iter().cloned().map(nested).chain(left).fold(nested(condition), and);
        taken[kind].push(clause.predicate.clone());
        let with_source = kind == 0;
        match &clause.action {
            MergeAction::Update(update) if is_nothing(update.assignments.first().map(|first| &first.target)) => {}
            MergeAction::Insert(insert) if insert.columns.first().is_some_and(is_nothing_name) => {}
            MergeAction::Update(update) => {
                let mut step = of.parsed_update()?;
                step.table = TableWithJoins { relation: merge.table.clone(), joins: Vec::new() };
                step.assignments.clone_from(&update.assignments);
                step.from = with_source.then(|| UpdateTableFromKind::AfterSet(vec![of.source()]));
                step.selection = Some(condition);
                steps.push((MergeStep::Update, whole(ast::Statement::Update(step))));
            }
            MergeAction::Delete { .. } => {
                let mut step = of.parsed_delete()?;
                let from = vec![TableWithJoins { relation: merge.table.clone(), joins: Vec::new() }];
                step.from = ast::FromTable::WithFromKeyword(from);
                step.using = with_source.then(|| vec![of.source()]);
                step.selection = Some(condition);
                steps.push((MergeStep::Delete, whole(ast::Statement::Delete(step))));
            }
            MergeAction::Insert(insert) => {
                let MergeInsertKind::Values(values) = &insert.kind else {
                    return Err(Error::Unsupported("INSERT ROW in MERGE; use INSERT VALUES (..)".into()));
                };
                let [row] = values.rows.as_slice() else {
                    return Err(Error::plan(SqlState::SyntaxError, "INSERT of MERGE takes one row of VALUES"));
                };
                let (columns, values) = of.without_defaults(&insert.columns, &row.content)?;
                let mut step = of.parsed_insert()?;
                step.columns = columns;
                if let Some(query) = &mut step.source
                    && let SetExpr::Select(select) = query.body.as_mut()
                {
                    select.projection = values.into_iter().map(SelectItem::UnnamedExpr).collect();
                    select.from = vec![of.source()];
                    select.selection = Some(condition);
                }
                steps.push((MergeStep::Insert, whole(ast::Statement::Insert(step))));
            }
        }
    }
    Ok((of.pairs()?, steps))
}

struct Of<'a> {
    merge: &'a Merge,
    name: &'a ObjectName,
    columns: Option<Vec<String>>,
}

impl Of<'_> {
    fn source(&self) -> TableWithJoins {
        TableWithJoins { relation: self.merge.source.clone(), joins: Vec::new() }
    }

    /// That no row of a table matches.
    fn no(&self, table: &TableFactor) -> Result<Expr> {
        let mut query = parsed::query("SELECT 1 FROM x")?;
        let select = select_of(&mut query)?;
        select.from = vec![TableWithJoins { relation: table.clone(), joins: Vec::new() }];
        select.selection = Some(self.merge.on.as_ref().clone());
        Ok(Expr::Exists { subquery: Box::new(query), negated: true })
    }

    /// Both tables beside each other, with the condition that matches them.
    fn pairs(&self) -> Result<Statement> {
        let mut query = parsed::query("SELECT 1 FROM x")?;
        let select = select_of(&mut query)?;
        let target = TableWithJoins { relation: self.merge.table.clone(), joins: Vec::new() };
        select.from = vec![target, self.source()];
        select.selection = Some(self.merge.on.as_ref().clone());
        Ok(whole(ast::Statement::Query(Box::new(query))))
    }

    /// Columns and values without those that get their default, which columns get that nobody names.
    fn without_defaults(&self, columns: &[ObjectName], values: &[Expr]) -> Result<(Vec<ObjectName>, Vec<Expr>)> {
        let columns: Vec<ObjectName> = match (columns.is_empty(), &self.columns) {
            (false, _) => columns.to_vec(),
            (true, Some(all)) => {
                all.iter().take(values.len()).map(|column| ObjectName::from(vec![quoted(column)])).collect()
            }
            // The planner says that there is no such table.
            (true, None) => Vec::new(),
        };
        if self.columns.is_some() && columns.len() != values.len() {
            return Err(Error::plan(
                SqlState::SyntaxError,
                format!("INSERT of MERGE has {} columns and {} values", columns.len(), values.len()),
            ));
        }
        let is_default = |value: &Expr| {
            matches!(value, Expr::Identifier(name)
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
        };
        let kept: Vec<(ObjectName, Expr)> =
            columns.iter().cloned().zip(values.iter().cloned()).filter(|(_, value)| !is_default(value)).collect();
        if kept.is_empty() && !values.is_empty() {
            // A row of defaults: one column is named with what it would be anyway.
            return Err(Error::Unsupported(
                "a row of nothing but defaults in INSERT of MERGE; give one column a value".into(),
            ));
        }
        Ok(kept.into_iter().unzip())
    }

    fn parsed_update(&self) -> Result<ast::Update> {
        match parsed::statement(&format!("UPDATE {} SET x = 1", self.name))? {
            ast::Statement::Update(update) => Ok(update),
            _ => Err(parsed::other("UPDATE")),
        }
    }

    fn parsed_delete(&self) -> Result<ast::Delete> {
        match parsed::statement(&format!("DELETE FROM {}", self.name))? {
            ast::Statement::Delete(delete) => Ok(delete),
            _ => Err(parsed::other("DELETE")),
        }
    }

    fn parsed_insert(&self) -> Result<ast::Insert> {
        match parsed::statement(&format!("INSERT INTO {} SELECT 1 FROM x", self.name))? {
            ast::Statement::Insert(insert) => Ok(insert),
            _ => Err(parsed::other("INSERT")),
        }
    }
}

fn select_of(query: &mut ast::Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(parsed::other("SELECT")),
    }
}

fn whole(statement: ast::Statement) -> Statement {
    Statement::Statement(Box::new(statement))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

fn is_nothing(target: Option<&ast::AssignmentTarget>) -> bool {
    matches!(target, Some(ast::AssignmentTarget::ColumnName(name)) if is_nothing_name(name))
}

fn is_nothing_name(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident() == Some(&Ident::new(NOTHING)))
}
