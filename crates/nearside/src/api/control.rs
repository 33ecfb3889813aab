//! What a session knows of its transaction, and which statements are about transactions.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion_sql::parser::Statement;
use parking_lot::Mutex;
use sqlparser::ast;

use crate::error::Result;
use crate::run::outcome::Outcome;
use crate::run::statement::RunningStatement;
use crate::run::transaction::Transaction;
use crate::sql::{AnyStatement, SetConstraints};
use crate::statements::lasting;

/// The transaction of a session, if it has begun one.
#[derive(Debug, Default)]
pub(super) struct OfSession(pub(super) Mutex<Option<Arc<Transaction>>>);

impl OfSession {
    /// It, if there is one.
    pub(super) fn open(&self) -> Option<Arc<Transaction>> {
        self.0.lock().clone()
    }
}

/// A statement about transactions.
pub(super) enum Control {
    /// BEGIN and its like.
    Transaction(Box<ast::Statement>),
    /// SET CONSTRAINTS.
    Constraints(SetConstraints),
}

/// The statement of a text, if it is about transactions.
pub(super) fn control(sql: &str) -> Result<Option<Control>> {
    const WORDS: [&str; 9] = ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "set"];
    let text = sql.trim_start();
    let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    let may_be = text.starts_with("--") || text.starts_with("/*") || WORDS.contains(&word.to_lowercase().as_str());
    if !may_be {
        return Ok(None);
    }
    let sql = in_known_words(sql);
    // What is wrong with another kind of statement, who runs it says.
    let statement = match AnyStatement::one(&sql) {
        Ok(AnyStatement::Sql(statement)) => statement,
        Ok(AnyStatement::SetConstraints(of)) => return Ok(Some(Control::Constraints(of))),
        _ => return Ok(None),
    };
    let Statement::Statement(inner) = *statement else { return Ok(None) };
    let is_one = matches!(
        *inner,
        ast::Statement::StartTransaction { .. }
            | ast::Statement::Commit { .. }
            | ast::Statement::Rollback { .. }
            | ast::Statement::Savepoint { .. }
            | ast::Statement::ReleaseSavepoint { .. }
            | ast::Statement::Set(ast::Set::SetTransaction { .. })
    );
    Ok(is_one.then_some(Control::Transaction(inner)))
}

/// PostgreSQL's words that the parser does not know. ABORT is ROLLBACK; DEFERRABLE is about serializable transactions
/// that are read only, which never fail and never wait here, and changes nothing.
fn in_known_words(sql: &str) -> Cow<'_, str> {
    let words: Vec<String> = sql.split_whitespace().map(str::to_lowercase).collect();
    let is =
        |place: usize, word: &str| words.get(place).is_some_and(|known| known.trim_end_matches([',', ';']) == word);
    if is(0, "abort") {
        return Cow::Owned(format!("ROLLBACK{}", &sql.trim_start()["abort".len()..]));
    }
    let begins = is(0, "begin") || is(0, "start") || is(0, "set");
    if !begins || !(0..words.len()).any(|place| is(place, "deferrable")) {
        return Cow::Borrowed(sql);
    }
    let goes = |place: &usize| is(*place, "deferrable") || is(*place, "not") && is(place + 1, "deferrable");
    let kept: Vec<&str> = (0..words.len()).filter(|place| !goes(place)).map(|place| words[place].as_str()).collect();
    Cow::Owned(kept.join(" ").trim_end_matches([',', ';', ' ']).to_string())
}

/// What came of a statement, once what it has committed is where its session wants it.
pub(super) fn settled(outcome: Outcome, running: &RunningStatement) -> Result<Outcome> {
    if outcome.has_written() {
        lasting::settle(running)?;
    }
    Ok(outcome)
}
