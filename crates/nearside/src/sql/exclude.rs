//! `EXCLUDE CURRENT ROW`, `EXCLUDE GROUP`, `EXCLUDE TIES` and `EXCLUDE NO OTHERS` of window frames, which neither the
//! parser nor the planner knows.
//!
//! The words are taken out of the text, and the window gets a PARTITION BY of a constant that stands for them. A
//! constant tells no rows apart, so it changes nothing
//! until [`exclusion_of`] reads it when the window is bound.

use std::borrow::Cow;

use datafusion_common::ScalarValue;
use exec::FrameExclusion;
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::text::{Cursor, tokens};
use crate::error::Result;

/// Ends the constants: a character that no text has a use for.
const MARK: char = '\u{E000}';

const EXCLUSIONS: [(&[&str], FrameExclusion); 4] = [
    (&["NO", "OTHERS"], FrameExclusion::NoOthers),
    (&["CURRENT", "ROW"], FrameExclusion::CurrentRow),
    (&["GROUP"], FrameExclusion::Group),
    (&["TIES"], FrameExclusion::Ties),
];

/// The statement with constants in the place of what its frames exclude.
///
/// # Errors
/// What the tokeniser refuses.
pub(super) fn without_exclusions(sql: &str) -> Result<Cow<'_, str>> {
    if !sql.to_ascii_uppercase().contains("EXCLUDE") {
        return Ok(Cow::Borrowed(sql));
    }
    let tokens = tokens(sql)?;
    let solid: Vec<&TokenWithSpan> = tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    // Places in the text with what stands there from then on; the former are cut out up to the latter.
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    let starts: Vec<usize> = {
        let mut cursor = Cursor::new(sql);
        solid.iter().map(|token| cursor.byte_at(token.span.start)).collect()
    };
    let mut open = Vec::new();
    for (place, token) in solid.iter().enumerate() {
        match &token.token {
            Token::LParen => open.push(place),
            Token::RParen => drop(open.pop()),
            Token::Word(_) if is_word(token, "EXCLUDE") && place > 0 && ends_bound(solid[place - 1]) => {
                let Some((words, _)) = EXCLUSIONS.iter().find(|(words, _)| follow(&solid[place + 1..], words)) else {
                    continue;
                };
                let Some(&bracket) = open.last() else { continue };
                let end = starts.get(place + 1 + words.len()).copied().unwrap_or(sql.len());
                edits.push((starts[place], end, String::new()));
                let constant = format!("CAST('EXCLUDE {}{MARK}' AS VARCHAR)", words.join(" "));
                edits.push(partition(&solid, &starts, bracket, &constant));
            }
            _ => {}
        }
    }
    edits.sort();
    let (mut text, mut done) = (String::with_capacity(sql.len() + 64 * edits.len()), 0);
    for (from, to, instead) in edits {
        text.push_str(&sql[done..from]);
        text.push_str(&instead);
        done = to;
    }
    text.push_str(&sql[done..]);
    Ok(Cow::Owned(text))
}

/// Puts a key into the PARTITION BY of the window that begins with a bracket.
fn partition(solid: &[&TokenWithSpan], starts: &[usize], bracket: usize, key: &str) -> (usize, usize, String) {
    let begins = |place: usize, words: &[&str]| solid.get(place..).is_some_and(|rest| follow(rest, words));
    let mut place = bracket + 1;
    let named = !["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"].iter().any(|word| begins(place, &[word]));
    if named {
        place += 1;
    }
    if begins(place, &["PARTITION", "BY"]) {
        return (starts[place + 2], starts[place + 2], format!("{key}, "));
    }
    (starts[place], starts[place], format!("PARTITION BY {key} "))
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// True for the last word of a bound of a frame.
fn ends_bound(token: &TokenWithSpan) -> bool {
    let keyword = match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => return false,
    };
    matches!(keyword, Keyword::PRECEDING | Keyword::FOLLOWING | Keyword::ROW)
}

fn follow(tokens: &[&TokenWithSpan], words: &[&str]) -> bool {
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| is_word(token, word))
}

/// What a constant of a PARTITION BY says of the frame, if it is one of ours.
pub(crate) fn exclusion_of(value: &ScalarValue) -> Option<FrameExclusion> {
    let text = value.try_as_str().flatten()?.strip_prefix("EXCLUDE ")?.strip_suffix(MARK)?;
    EXCLUSIONS.iter().find(|(words, _)| words.join(" ") == text).map(|(_, exclusion)| *exclusion)
}

/// True for a key of a PARTITION BY that is one of ours.
pub(super) fn is_exclusion(key: &ast::Expr) -> bool {
    matches!(key, ast::Expr::Cast { expr, .. } if matches!(expr.as_ref(), ast::Expr::Value(value)
        if matches!(&value.value, ast::Value::SingleQuotedString(text) if text.ends_with(MARK))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(sql: &str) -> String {
        without_exclusions(sql).unwrap().replace(MARK, "")
    }

    #[test]
    fn exclusions_become_keys() {
        for (sql, expected) in [
            (
                "sum(a) OVER (ORDER BY b ROWS 1 PRECEDING EXCLUDE TIES)",
                "sum(a) OVER (PARTITION BY CAST('EXCLUDE TIES' AS VARCHAR) ORDER BY b ROWS 1 PRECEDING )",
            ),
            (
                "sum(a) OVER (partition by (c), d rows between 1 preceding and current row exclude current row)",
                "sum(a) OVER (partition by CAST('EXCLUDE CURRENT ROW' AS VARCHAR), (c), d rows between 1 preceding \
                 and current row )",
            ),
            (
                "sum(a) OVER (w GROUPS 1 PRECEDING EXCLUDE NO OTHERS), 'ä EXCLUDE TIES'",
                "sum(a) OVER (w PARTITION BY CAST('EXCLUDE NO OTHERS' AS VARCHAR) GROUPS 1 PRECEDING ), 'ä EXCLUDE \
                 TIES'",
            ),
            ("SELECT * EXCLUDE (a) FROM t", "SELECT * EXCLUDE (a) FROM t"),
            ("SELECT exclude, \"EXCLUDE\" FROM t", "SELECT exclude, \"EXCLUDE\" FROM t"),
        ] {
            assert_eq!(taken(sql), expected);
        }
    }

    #[test]
    fn keys_are_read_again() {
        for (words, exclusion) in EXCLUSIONS {
            let text = ScalarValue::Utf8View(Some(format!("EXCLUDE {}{MARK}", words.join(" "))));
            assert_eq!(exclusion_of(&text), Some(exclusion));
        }
        assert_eq!(exclusion_of(&ScalarValue::Utf8(Some("EXCLUDE TIES".into()))), None);
        assert_eq!(exclusion_of(&ScalarValue::Int64(Some(1))), None);
    }
}
