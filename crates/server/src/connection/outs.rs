//! Parameters that stand for what a function gives: drivers that call `{? = call f(?)}` send `f($1, $2)` and declare
//! `$1` as `void`. As in PostgreSQL such an argument is none.

use std::borrow::Cow;

use nearside::pg_types::VOID;

use crate::fault::{Fault, codes};
use crate::tokens::{Placed, Token, Tokens};

/// A statement without the parameters that are declared as `void`, the others being counted without them.
///
/// # Errors
/// One of them is no argument.
pub(super) fn without_outs<'a>(sql: &'a str, types: &[u32]) -> Result<Cow<'a, str>, Fault> {
    if !types.contains(&VOID) {
        return Ok(Cow::Borrowed(sql));
    }
    let tokens: Vec<Placed> = Tokens::new(sql).collect();
    let is_comma = |token: &Token| *token == Token::Sign(',');
    // Tokens with the blanks before them.
    let mut kept: Vec<(&Token, Cow<'_, str>)> = Vec::with_capacity(tokens.len());
    let (mut end, mut at) = (0, 0);
    while let Some(placed) = tokens.get(at) {
        let blanks = &sql[end..placed.start];
        let Some((number, behind)) = parameter(sql, &tokens, at) else {
            kept.push((&placed.token, Cow::Borrowed(&sql[end..placed.end])));
            (end, at) = (placed.end, at + 1);
            continue;
        };
        (end, at) = (tokens[behind - 1].end, behind);
        if types.get(number - 1) != Some(&VOID) {
            let outs = types.iter().take(number - 1).filter(|of| **of == VOID).count();
            kept.push((&placed.token, Cow::Owned(format!("{blanks}${}", number - outs))));
            continue;
        }
        let before = kept.last().map(|(token, _)| *token);
        let next = tokens.get(behind).map(|placed| &placed.token);
        let is_argument = before.is_some_and(|token| is_comma(token) || *token == Token::Sign('('))
            && next.is_some_and(|token| is_comma(token) || *token == Token::Sign(')'));
        if !is_argument {
            let message = format!("${number} is declared as void, and is no argument of a function by itself");
            return Err(Fault::new(codes::FEATURE_NOT_SUPPORTED, message));
        }
        if next.is_some_and(is_comma) {
            (end, at) = (tokens[behind].end, behind + 1);
        } else if before.is_some_and(is_comma) {
            kept.pop();
        }
    }
    Ok(Cow::Owned(kept.into_iter().map(|(_, text)| text).collect::<String>() + &sql[end..]))
}

/// The number of the parameter that begins at a token, and the token behind it.
fn parameter(sql: &str, tokens: &[Placed], at: usize) -> Option<(usize, usize)> {
    if tokens.get(at)?.token != Token::Sign('$') {
        return None;
    }
    let mut behind = at + 1;
    while let Some(Placed { token: Token::Sign(digit), start, .. }) = tokens.get(behind)
        && digit.is_ascii_digit()
        && *start == tokens[behind - 1].end
    {
        behind += 1;
    }
    let number: usize = sql.get(tokens[at].end..tokens[behind - 1].end)?.parse().ok()?;
    (number > 0).then_some((number, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_void_are_left_out() {
        let of = |sql: &str, types: &[u32]| without_outs(sql, types).map(Cow::into_owned).map_err(|fault| fault.code);
        assert_eq!(of("select * from f($1,$2) as result", &[VOID, 23]).unwrap(), "select * from f($1) as result");
        assert_eq!(of("call f( $1, $2 , $3)", &[23, VOID, VOID]).unwrap(), "call f( $1)");
        assert_eq!(of("select f($1, $2, $3);", &[VOID, VOID, VOID]).unwrap(), "select f();");
        assert_eq!(of("select f($1, $2), '$1', $3", &[23, VOID, 25]).unwrap(), "select f($1), '$1', $2");
        assert_eq!(of("select $1", &[23]).unwrap(), "select $1");
        assert_eq!(of("select $1", &[VOID]), Err("0A000"));
        assert_eq!(of("select f(1 + $1)", &[VOID]), Err("0A000"));
    }
}
