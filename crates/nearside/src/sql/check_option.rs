//! `WITH [LOCAL | CASCADED] CHECK OPTION` behind the query of a view, which the parser does not read: the words are
//! taken off, and kept as the option `check_option` of the view, which is another way to write it.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, CreateTableOptions, Expr, Ident, SqlOption, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};
use crate::catalog::check_option::CheckOption;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The option of a view.
const OPTION: &str = "check_option";

/// The tokens of a statement without the words at its end, and what they said.
pub(super) fn without_words(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<CheckOption>) {
    let (places, words) = solid(&tokens);
    let is_view = words.iter().take(5).any(|word| is_word(word, "VIEW"))
        && words.first().is_some_and(|first| is_word(first, "CREATE"));
    let end = words
        .iter()
        .rposition(|word| word.token != Token::SemiColon && word.token != Token::EOF)
        .map_or(0, |last| last + 1);
    let is = |back: usize, wanted: &str| end.checked_sub(back).is_some_and(|at| is_word(words[at], wanted));
    if !is_view || !is(1, "OPTION") || !is(2, "CHECK") {
        return (tokens, None);
    }
    let (back, check) = match (is(3, "WITH"), is(4, "WITH")) {
        (true, _) => (3, CheckOption::Cascaded),
        (false, true) if is(3, "CASCADED") => (4, CheckOption::Cascaded),
        (false, true) if is(3, "LOCAL") => (4, CheckOption::Local),
        _ => return (tokens, None),
    };
    let cut = places[end - back]..=places[end - 1];
    tokens.drain(cut);
    (tokens, Some(check))
}

/// Puts what was said into the CREATE VIEW.
///
/// # Errors
/// It says so twice.
pub(super) fn put(statement: &mut Statement, said: Option<CheckOption>) -> Result<()> {
    let (Some(said), Statement::Statement(inner)) = (said, statement) else { return Ok(()) };
    let ast::Statement::CreateView(create) = inner.as_mut() else {
        return Err(Error::syntax("WITH CHECK OPTION is for CREATE VIEW, behind its query"));
    };
    let option = SqlOption::KeyValue {
        key: Ident::new(OPTION),
        value: Expr::Value(Value::SingleQuotedString(said.sql().to_lowercase()).into()),
    };
    match &mut create.options {
        CreateTableOptions::With(options) => options.push(option),
        other => *other = CreateTableOptions::With(vec![option]),
    }
    Ok(())
}

/// What the options of a view say.
///
/// # Errors
/// Other options, one that stands twice, and values that there are not.
pub(super) fn of(options: &CreateTableOptions) -> Result<Option<CheckOption>> {
    let options = match options {
        CreateTableOptions::None => return Ok(None),
        CreateTableOptions::With(options) => options,
        other => return Err(Error::Unsupported(format!("'{other}' of a view is not supported; leave it out"))),
    };
    let mut found = None;
    for option in options {
        let (key, value) = match option {
            SqlOption::KeyValue { key, value } => (key.value.to_lowercase(), Some(value)),
            SqlOption::Ident(key) => (key.value.to_lowercase(), None),
            other => return Err(Error::syntax(format!("WITH ({other}): an option is name = value"))),
        };
        if key != OPTION {
            return Err(Error::Unsupported(format!(
                "the option {key} of a view is not supported; leave it out: a view reads as its owner may, and shows \
                 whoever may read it what it says"
            )));
        }
        let text = match value {
            Some(Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. })) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let check = CheckOption::of(&text).ok_or_else(|| {
            Error::plan(
                SqlState::InvalidParameterValue,
                format!("check_option is local or cascaded, and '{text}' is neither"),
            )
        })?;
        if found.replace(check).is_some() {
            return Err(Error::plan(SqlState::InvalidParameterValue, "check_option stands twice; leave one out"));
        }
    }
    Ok(found)
}

/// Takes the option off a CREATE VIEW, which the planner would refuse.
///
/// # Errors
/// As [`of`].
pub(crate) fn take_check_option(statement: &mut Statement) -> Result<Option<CheckOption>> {
    let Statement::Statement(inner) = statement else { return Ok(None) };
    let ast::Statement::CreateView(create) = inner.as_mut() else { return Ok(None) };
    let found = of(&create.options)?;
    create.options = CreateTableOptions::None;
    Ok(found)
}
