//! Regular expressions and what replaces a match, in the meaning of PostgreSQL where the notation is the same and the
//! meaning another: `.` is also the end of a line, and in a replacement `\1` to `\9` are groups, `\&` is the match,
//! `\\` a backslash, and `$` itself.
//!
//! # Limits
//! Of alternatives that match, the first one is taken (`foo|foobar`), not the longest. `~ ANY (..)` is left as it is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Documentation, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, lit,
};
use datafusion_functions::regex;

/// What makes `.` the end of a line too.
const WHOLE: &str = "(?s)";

/// The functions of regular expressions, which take a text, a pattern and more.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let known = [
        (regex::regexp_like(), 2),
        (regex::regexp_match(), 2),
        (regex::regexp_count(), 3),
        (regex::regexp_instr(), 5),
        (regex::regexp_replace(), 3),
    ];
    known.map(|(known, flags)| Arc::new(ScalarUDF::from(Matching { known, flags }))).to_vec()
}

/// A function of DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Matching {
    known: Arc<ScalarUDF>,
    /// Where its flags stand among its arguments.
    flags: usize,
}

/// Sets the pattern of an operator right; true when it was another. What was set right is left as it is.
pub(crate) fn in_operator(binary: &mut BinaryExpr) -> bool {
    use Operator as O;
    if !matches!(binary.op, O::RegexMatch | O::RegexIMatch | O::RegexNotMatch | O::RegexNotIMatch) {
        return false;
    }
    let pattern = binary.right.as_mut();
    match pattern {
        Expr::Literal(value, _) => {
            let Some(new) = value.try_as_str().flatten().and_then(of_whole_texts) else { return false };
            *value = of_type(&value.data_type(), new);
            true
        }
        Expr::BinaryExpr(BinaryExpr { left, op: O::StringConcat, .. }) if **left == lit(WHOLE) => false,
        _ => {
            let own = Box::new(std::mem::take(pattern));
            *pattern = Expr::BinaryExpr(BinaryExpr::new(Box::new(lit(WHOLE)), O::StringConcat, own));
            true
        }
    }
}

/// The pattern in which `.` is also the end of a line; `None` where that makes no difference.
fn of_whole_texts(pattern: &str) -> Option<String> {
    (pattern.contains('.') && !pattern.starts_with(WHOLE)).then(|| format!("{WHOLE}{pattern}"))
}

/// The replacement in the notation of the function that replaces, where `$` begins a group; `None` where it is the
/// same.
fn replacement_of(text: &str) -> Option<String> {
    if !text.contains(['$', '\\']) {
        return None;
    }
    let mut new = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('$', _) => new.push_str("$$"),
            ('\\', Some(digit @ '0'..='9')) => {
                new.push_str(&format!("${{{digit}}}"));
                rest.next();
            }
            ('\\', Some('&')) => {
                new.push_str("${0}");
                rest.next();
            }
            ('\\', Some('\\')) => {
                // A group that there is not keeps the backslash from a digit behind it.
                new.push_str("\\${}");
                rest.next();
            }
            _ => new.push(c),
        }
    }
    Some(new)
}

fn of_type(data_type: &DataType, text: String) -> ScalarValue {
    match data_type {
        DataType::LargeUtf8 => ScalarValue::LargeUtf8(Some(text)),
        DataType::Utf8View => ScalarValue::Utf8View(Some(text)),
        _ => ScalarValue::Utf8(Some(text)),
    }
}

/// Texts of which some are others.
fn mapped(texts: &ColumnarValue, new: fn(&str) -> Option<String>) -> Result<ColumnarValue> {
    Ok(match texts {
        ColumnarValue::Scalar(value) => match value.try_as_str().flatten().and_then(new) {
            Some(new) => ColumnarValue::Scalar(of_type(&value.data_type(), new)),
            None => texts.clone(),
        },
        ColumnarValue::Array(array) => {
            let views = cast(array, &DataType::Utf8View)?;
            let views = views.as_string_view();
            if !views.iter().flatten().any(|text| new(text).is_some()) {
                return Ok(texts.clone());
            }
            let all = views.iter().map(|text| text.map(|text| new(text).unwrap_or_else(|| text.to_string())));
            let all: ArrayRef = Arc::new(all.collect::<StringViewArray>());
            ColumnarValue::Array(cast(&all, array.data_type())?)
        }
    })
}

impl ScalarUDFImpl for Matching {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn aliases(&self) -> &[String] {
        self.known.aliases()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.known.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.known.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.known.is_strict()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // With this flag, lines are told apart.
        let lines = |flags: &ColumnarValue| match flags {
            ColumnarValue::Scalar(value) => value.try_as_str().flatten().is_some_and(|flags| flags.contains('m')),
            ColumnarValue::Array(_) => false,
        };
        if args.args.len() > 1 && !args.args.get(self.flags).is_some_and(lines) {
            args.args[1] = mapped(&args.args[1], of_whole_texts)?;
        }
        if self.known.name() == "regexp_replace" && args.args.len() > 2 {
            args.args[2] = mapped(&args.args[2], replacement_of)?;
        }
        self.known.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_written_anew() {
        for (written, expected) in [
            (r"\1-\2", "${1}-${2}"),
            (r"\12", "${1}2"),
            (r"[\&]", "[${0}]"),
            (r"\\1", r"\${}1"),
            ("$1", "$$1"),
            (r"a\b\", r"a\b\"),
        ] {
            assert_eq!(replacement_of(written).as_deref(), Some(expected), "{written}");
        }
        assert_eq!(replacement_of("x"), None);
    }

    #[test]
    fn patterns_are_set_right_once() {
        assert_eq!(of_whole_texts("a.b").as_deref(), Some("(?s)a.b"));
        assert_eq!((of_whole_texts("ab"), of_whole_texts("(?s)a.b")), (None, None));
        let column = || Box::new(datafusion_expr::col("p"));
        let mut test = BinaryExpr::new(column(), Operator::RegexMatch, column());
        assert!(in_operator(&mut test) && !in_operator(&mut test));
    }
}
