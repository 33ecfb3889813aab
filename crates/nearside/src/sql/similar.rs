//! `a SIMILAR TO 'pattern'` as the regular expression that it means.

use sqlparser::ast::{BinaryOperator, Expr, Value};

use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The pattern, if it is written as a text.
pub(super) fn pattern_of(pattern: &Expr) -> Option<&str> {
    match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Writes it with `~`.
///
/// # Errors
/// An escape that is no character.
pub(super) fn write_out(expr: &mut Expr) -> Result<()> {
    let Expr::SimilarTo { negated, expr: value, pattern, escape_char } = expr else { return Ok(()) };
    let Some(text) = pattern_of(pattern) else { return Ok(()) };
    let escape = match escape_char.as_ref().map(|escape| &escape.value) {
        None => Some('\\'),
        Some(Value::SingleQuotedString(text)) if text.chars().count() <= 1 => text.chars().next(),
        Some(_) => return Err(Error::plan(SqlState::InvalidEscapeSequence, "ESCAPE takes one character")),
    };
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let right = Box::new(Expr::Value(Value::SingleQuotedString(as_regular(text, escape)?).into()));
    *expr = Expr::Nested(Box::new(Expr::BinaryOp { left: value.clone(), op, right }));
    Ok(())
}

fn as_regular(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut regular = String::from("^(?:");
    let mut is_class = false;
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            c if Some(c) == escape => {
                let Some(next) = rest.next() else {
                    let message = format!("the pattern '{pattern}' ends with its escape character");
                    return Err(Error::plan(SqlState::InvalidEscapeSequence, message));
                };
                // A letter behind a backslash is a class of characters.
                if !next.is_alphanumeric() {
                    regular.push('\\');
                }
                regular.push(next);
            }
            '\\' => regular.push_str("\\\\"),
            ']' if is_class => {
                is_class = false;
                regular.push(c);
            }
            c if is_class => regular.push(c),
            '[' => {
                is_class = true;
                regular.push(c);
            }
            '%' => regular.push_str(".*"),
            '_' => regular.push('.'),
            '(' => regular.push_str("(?:"),
            '.' | '^' | '$' => {
                regular.push('\\');
                regular.push(c);
            }
            c => regular.push(c),
        }
    }
    regular.push_str(")$");
    Ok(regular)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_regular_expressions() {
        for (pattern, expected) in [
            ("a%", "^(?:a.*)$"),
            ("(a|b_)[%_]+", "^(?:(?:a|b.)[%_]+)$"),
            ("a.b^", "^(?:a\\.b\\^)$"),
            ("\\%\\d", "^(?:\\%d)$"),
        ] {
            assert_eq!(as_regular(pattern, Some('\\')).unwrap(), expected);
        }
        assert_eq!(as_regular("a\\%", Some('x')).unwrap(), "^(?:a\\\\.*)$");
        assert!(as_regular("a\\", Some('\\')).is_err());
    }
}
