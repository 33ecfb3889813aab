//! LIKE with several wildcards, made cheaper: Arrow runs `x LIKE '%a%b%'` as a regular expression, but finds the one text of
//! `x LIKE '%a%'` several times faster.
//!
//! So the pieces between wildcards are looked for first, and the whole pattern is matched only where they occur: as
//! `x LIKE '%a%' AND x LIKE '%b%' AND x LIKE '%a%b%'`, of which DataFusion evaluates what follows only for the rows that are left
//! when few are. It is what is evaluated, not what EXPLAIN shows.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, Like, and, not};

/// Pieces shorter than this are found nearly everywhere.
const PIECE_BYTES_MIN: usize = 3;

/// `expr` with cheap tests before LIKEs that are regular expressions.
pub(crate) fn eased(expr: Expr) -> Result<Expr> {
    let eased = expr.transform_up(|e| {
        let Expr::Like(like) = e else { return Ok(Transformed::no(e)) };
        Ok(match pieces_of(&like) {
            Some(pieces) => Transformed::yes(with_pieces(like, pieces)),
            None => Transformed::no(Expr::Like(like)),
        })
    })?;
    Ok(eased.data)
}

/// The patterns of the pieces, of a pattern that only a regular expression matches.
fn pieces_of(like: &Like) -> Option<Vec<ScalarValue>> {
    let Expr::Literal(pattern, _) = like.pattern.as_ref() else { return None };
    let text = pattern.try_as_str()??;
    // Anything else would be computed several times.
    if !matches!(like.expr.as_ref(), Expr::Column(_))
        || like.case_insensitive
        || like.escape_char.is_some()
        || text.contains('\\')
    {
        return None;
    }
    let inner = text.strip_prefix('%').unwrap_or(text);
    let inner = inner.strip_suffix('%').unwrap_or(inner);
    if !inner.contains(['%', '_']) {
        return None;
    }
    let pieces = inner.split(['%', '_']).filter(|piece| piece.len() >= PIECE_BYTES_MIN);
    let patterns: Vec<ScalarValue> = pieces
        .filter_map(|piece| {
            let pattern = Some(format!("%{piece}%"));
            match pattern_type(&like.pattern)? {
                Text::Utf8 => Some(ScalarValue::Utf8(pattern)),
                Text::LargeUtf8 => Some(ScalarValue::LargeUtf8(pattern)),
                Text::View => Some(ScalarValue::Utf8View(pattern)),
            }
        })
        .collect();
    (!patterns.is_empty()).then_some(patterns)
}

/// How a pattern is held.
enum Text {
    Utf8,
    LargeUtf8,
    View,
}

fn pattern_type(pattern: &Expr) -> Option<Text> {
    match pattern {
        Expr::Literal(ScalarValue::Utf8(_), _) => Some(Text::Utf8),
        Expr::Literal(ScalarValue::LargeUtf8(_), _) => Some(Text::LargeUtf8),
        Expr::Literal(ScalarValue::Utf8View(_), _) => Some(Text::View),
        _ => None,
    }
}

fn with_pieces(like: Like, pieces: Vec<ScalarValue>) -> Expr {
    let negated = like.negated;
    let has = |pattern| {
        let pattern = Box::new(Expr::Literal(pattern, None));
        Expr::Like(Like {
            negated: false,
            expr: like.expr.clone(),
            pattern,
            escape_char: None,
            case_insensitive: false,
        })
    };
    let tests: Vec<Expr> = pieces.into_iter().map(has).collect();
    let whole = Expr::Like(Like { negated: false, ..like });
    let all = tests.into_iter().chain([whole]).reduce(and).expect("the pattern itself at least");
    if negated { not(all) } else { all }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn pieces_come_first() {
        for (pattern, expected) in [
            ("%special%requests%", vec!["%special%", "%requests%", "%special%requests%"]),
            ("a%green_b%", vec!["%green%", "a%green_b%"]),
            ("PROMO%", vec!["PROMO%"]),
            ("%green%", vec!["%green%"]),
            ("a%b%c", vec!["a%b%c"]),
            ("100\\%%more%less", vec!["100\\%%more%less"]),
        ] {
            let tests = expected.into_iter().map(|pattern| col("x").like(lit(pattern)));
            assert_eq!(eased(col("x").like(lit(pattern))).unwrap(), tests.reduce(and).unwrap());
        }
        let negated = eased(col("x").not_like(lit("%abc%def%"))).unwrap();
        let inner = eased(col("x").like(lit("%abc%def%"))).unwrap();
        assert_eq!(negated, not(inner));
    }
}
