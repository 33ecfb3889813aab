//! `OVERRIDING SYSTEM VALUE` and `OVERRIDING USER VALUE` of an INSERT, which the parser does not read: the words are
//! taken off, and kept as a setting of the statement that nobody can write.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, Expr, Ident, Setting, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, Result};

/// Whose values an INSERT puts into numbered columns where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overriding {
    /// Those that it gives, also where they are always numbered.
    System,
    /// The sequence's, whatever it gives.
    User,
}

const SETTING: &str = "__nearside_overriding";

/// The tokens of a statement without the words, and what they said.
///
/// # Errors
/// The words twice.
pub(super) fn without_words(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Option<Overriding>)> {
    let solid: Vec<usize> =
        (0..tokens.len()).filter(|place| !matches!(tokens[*place].token, Token::Whitespace(_))).collect();
    let is = |place: Option<&usize>, wanted: &str| {
        matches!(place.map(|place| &tokens[*place].token),
            Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    let mut found = None;
    for at in 0..solid.len() {
        let (first, second, third) = (solid.get(at), solid.get(at + 1), solid.get(at + 2));
        let which = if is(second, "system") { Overriding::System } else { Overriding::User };
        if is(first, "overriding") && (is(second, "system") || is(second, "user")) && is(third, "value") {
            if found.is_some() {
                return Err(Error::syntax("OVERRIDING stands twice; leave one out"));
            }
            found = Some((at, which));
        }
    }
    let Some((at, which)) = found else { return Ok((tokens, None)) };
    let cut = solid[at]..=solid[at + 2];
    let kept = tokens.into_iter().enumerate().filter(|(place, _)| !cut.contains(place)).map(|(_, token)| token);
    Ok((kept.collect(), Some(which)))
}

/// Puts what was said into the INSERT.
///
/// # Errors
/// It is none.
pub(super) fn put(statement: &mut Statement, said: Option<Overriding>) -> Result<()> {
    let Some(said) = said else { return Ok(()) };
    let Some(insert) = insert_of(statement) else {
        return Err(Error::syntax("OVERRIDING .. VALUE is for INSERT, behind its columns"));
    };
    let value = if said == Overriding::System { "system" } else { "user" };
    let value = Expr::Value(Value::SingleQuotedString(value.into()).into());
    insert.settings = Some(vec![Setting { key: Ident::new(SETTING), value }]);
    Ok(())
}

/// Takes what was said off an INSERT.
pub(super) fn take(insert: &mut ast::Insert) -> Option<Overriding> {
    let said = of(insert)?;
    insert.settings = None;
    Some(said)
}

/// What an INSERT says.
pub(super) fn of(insert: &ast::Insert) -> Option<Overriding> {
    let [setting] = insert.settings.as_deref()? else { return None };
    if setting.key.value != SETTING {
        return None;
    }
    match setting.value.to_string() == "'system'" {
        true => Some(Overriding::System),
        false => Some(Overriding::User),
    }
}

fn insert_of(statement: &mut Statement) -> Option<&mut ast::Insert> {
    match statement {
        Statement::Statement(inner) => in_statement(inner),
        Statement::Explain(explain) => insert_of(&mut explain.statement),
        _ => None,
    }
}

fn in_statement(statement: &mut ast::Statement) -> Option<&mut ast::Insert> {
    match statement {
        ast::Statement::Insert(insert) => Some(insert),
        ast::Statement::Prepare { statement, .. } | ast::Statement::Explain { statement, .. } => {
            in_statement(statement)
        }
        _ => None,
    }
}
