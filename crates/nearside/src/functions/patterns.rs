//! Regular expressions and what replaces a match, in the meaning of PostgreSQL ([`regular`](super::regular)), where
//! the engine that runs them has the same notation for something else: in a replacement `\1` to `\9` are groups, `\&`
//! is the match, `\\` a backslash, and `$` itself.
//!
//! `~` asks whether there is a match; the functions that ask which one refuse patterns whose match may be another here.
//!
//! # Limits
//! `~ ANY (..)` is left as it is.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Documentation, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion_functions::regex;

use super::regular;
use crate::error::value_err;

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

/// What a pattern is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    /// Whether there is a match.
    Any,
    /// Which one is the first.
    One,
    /// Which ones there are.
    All,
}

/// The pattern in the engine's notation.
///
/// # Errors
/// What PostgreSQL does not read, what is not supported, and a match that may be another here.
pub(super) fn written(pattern: &str, options: &str, asked: Asked) -> Result<String> {
    if pattern.starts_with(regular::WRITTEN) {
        return Ok(pattern.to_string());
    }
    let read = regular::read(pattern, options)?;
    if asked != Asked::Any && !read.finds_the_same() {
        return value_err!(
            FeatureNotSupported,
            "regular expression '{pattern}': SQL takes the longest match, or the shortest after a lazy quantifier, \
             which is not supported for alternatives of which one begins another, or for repetitions of what may also \
             be matched behind them; write it so that one character tells which part goes on, or end it with $"
        );
    }
    if asked == Asked::All && read.matches_nothing() {
        return value_err!(
            FeatureNotSupported,
            "regular expression '{pattern}': all its matches are asked for, and it also matches where there is \
             nothing, which is not supported; write + in place of *"
        );
    }
    Ok(read.written())
}

/// The regular expression that tells whether a text matches a pattern.
///
/// # Errors
/// As [`written`].
pub(super) fn expression(pattern: &str, options: &str) -> Result<::regex::Regex> {
    let written = written(pattern, options, Asked::Any)?;
    match ::regex::Regex::new(&written) {
        Ok(made) => Ok(made),
        Err(error) => value_err!(InvalidRegularExpression, "regular expression '{pattern}': {error}"),
    }
}

static PATTERN: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Pattern { signature: Signature::any(1, Volatility::Immutable) })));

/// The pattern of an operator, in the engine's notation. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Pattern {
    signature: Signature,
}

impl ScalarUDFImpl for Pattern {
    fn name(&self) -> &str {
        "pattern"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        mapped(&args.args[0], &|pattern| written(pattern, "", Asked::Any).map(Some))
    }
}

/// Sets the pattern of an operator right; true when it was another. What was set right is left as it is.
///
/// # Errors
/// Patterns that PostgreSQL does not read or that are not supported.
pub(crate) fn in_operator(binary: &mut BinaryExpr) -> Result<bool> {
    use Operator as O;
    if !matches!(binary.op, O::RegexMatch | O::RegexIMatch | O::RegexNotMatch | O::RegexNotIMatch) {
        return Ok(false);
    }
    let pattern = binary.right.as_mut();
    match pattern {
        Expr::Literal(value, _) => {
            let Some(text) = value.try_as_str().flatten() else { return Ok(false) };
            let new = written(text, "", Asked::Any)?;
            let changed = new != text;
            *value = of_type(&value.data_type(), new);
            Ok(changed)
        }
        Expr::ScalarFunction(call) if call.func.inner().is::<Pattern>() => Ok(false),
        _ => {
            *pattern = PATTERN.call(vec![std::mem::take(pattern)]);
            Ok(true)
        }
    }
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
fn mapped(texts: &ColumnarValue, new: &dyn Fn(&str) -> Result<Option<String>>) -> Result<ColumnarValue> {
    Ok(match texts {
        ColumnarValue::Scalar(value) => match value.try_as_str().flatten().map(new).transpose()?.flatten() {
            Some(new) => ColumnarValue::Scalar(of_type(&value.data_type(), new)),
            None => texts.clone(),
        },
        ColumnarValue::Array(array) => {
            let views = cast(array, &DataType::Utf8View)?;
            let views = views.as_string_view();
            let each = |text: &str| Ok::<_, DataFusionError>(new(text)?.unwrap_or_else(|| text.to_string()));
            let all = views.iter().map(|text| text.map(each).transpose()).collect::<Result<StringViewArray>>()?;
            let all: ArrayRef = Arc::new(all);
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
        let name = self.known.name();
        let flags = match args.args.get(self.flags) {
            None => "",
            Some(ColumnarValue::Scalar(value)) => value.try_as_str().flatten().unwrap_or(""),
            Some(ColumnarValue::Array(_)) => {
                return value_err!(FeatureNotSupported, "the flags of {name} have to be a constant");
            }
        };
        let everywhere = name == "regexp_replace" && flags.contains('g');
        let options: String = flags.chars().filter(|flag| !(everywhere && *flag == 'g')).collect();
        // Nothing in the place of nothing changes nothing.
        let removes = matches!(args.args.get(2), Some(ColumnarValue::Scalar(value))
            if name == "regexp_replace" && value.try_as_str().flatten() == Some(""));
        let asked = match name {
            "regexp_like" => Asked::Any,
            "regexp_count" | "regexp_instr" => Asked::All,
            _ if everywhere && !removes => Asked::All,
            _ => Asked::One,
        };
        if args.args.len() > 1 {
            args.args[1] = mapped(&args.args[1], &|pattern| written(pattern, &options, asked).map(Some))?;
        }
        if let Some(ColumnarValue::Scalar(value)) = args.args.get(self.flags)
            && !value.is_null()
        {
            // Some flag has to be left; this one says what the pattern says.
            let left = of_type(&value.data_type(), if everywhere { "g" } else { "s" }.to_string());
            args.args[self.flags] = ColumnarValue::Scalar(left);
        }
        if name == "regexp_replace" && args.args.len() > 2 {
            args.args[2] = mapped(&args.args[2], &|text| Ok(replacement_of(text)))?;
        }
        self.known.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use datafusion_expr::lit;

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
        let column = || Box::new(datafusion_expr::col("p"));
        let mut test = BinaryExpr::new(column(), Operator::RegexMatch, column());
        assert!(in_operator(&mut test).unwrap() && !in_operator(&mut test).unwrap());
        let mut test = BinaryExpr::new(column(), Operator::RegexMatch, Box::new(lit("a.b")));
        assert!(in_operator(&mut test).unwrap() && !in_operator(&mut test).unwrap());
    }
}
