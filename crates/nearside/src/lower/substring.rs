//! `substr` of stored texts by constants, without decoding what is not asked for.
//!
//! A view holds a text's length and its first four bytes, so the first characters of most texts are told without
//! reading them. DataFusion's function, which looks at every text character by character, takes everything else: other
//! types, places that differ from row to row, errors; it is also the slow twin in the tests.
//!
//! # Limits
//! Places are constants, the first character is at 1 or later, and the last one among the first [`BYTES_MAX`] bytes, so
//! that results are copied in no time.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use crate::functions::spelled::plain;

/// Results are not longer than what a view holds in itself.
const BYTES_MAX: usize = 12;
/// Bytes of a text that are in its view wherever the rest is.
const PREFIX_BYTES: usize = 4;

/// Our function in the place of DataFusion's.
static SUBSTRING: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Substring::default())));

/// The same expression with our function.
pub(crate) fn with_substring(expr: Expr) -> Result<Expr> {
    let is_substr = |part: &Expr| matches!(part, Expr::ScalarFunction(call) if plain(&call.func).name() == "substr");
    if !expr.exists(|part| Ok(is_substr(part)))? {
        return Ok(expr);
    }
    let replaced = expr.transform_up(|part| match part {
        Expr::ScalarFunction(call) if plain(&call.func).name() == "substr" => {
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&SUBSTRING), args: call.args })))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(replaced?.data)
}

/// The function: DataFusion's but for what [`first_characters`] does.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Substring {
    plain: Arc<ScalarUDF>,
}

impl Default for Substring {
    fn default() -> Self {
        Substring { plain: datafusion_functions::unicode::substr() }
    }
}

impl ScalarUDFImpl for Substring {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Array(texts), ColumnarValue::Scalar(start), ColumnarValue::Scalar(count)] =
            &args.args[..]
            && let Some(texts) = texts.as_string_view_opt()
            && let (ScalarValue::Int64(Some(start)), ScalarValue::Int64(Some(count))) = (start, count)
            && let (Ok(from), Ok(count)) = (usize::try_from(start.saturating_sub(1)), usize::try_from(*count))
            && let Some(to) = from.checked_add(count).filter(|to| *to <= BYTES_MAX)
        {
            return Ok(ColumnarValue::Array(first_characters(texts, from, to)));
        }
        self.plain.invoke_with_args(args)
    }
}

/// The characters from the one at `from` to the one before `to`, counted from 0, of each text.
fn first_characters(texts: &StringViewArray, from: usize, to: usize) -> ArrayRef {
    let mut results = StringViewBuilder::with_capacity(texts.len());
    for (row, view) in texts.views().iter().enumerate() {
        if texts.is_null(row) {
            results.append_null();
            continue;
        }
        let view = view.to_le_bytes();
        let len = u32::from_le_bytes([view[0], view[1], view[2], view[3]]) as usize;
        let end = to.min(len);
        let inside = if len <= BYTES_MAX { BYTES_MAX } else { PREFIX_BYTES };
        // ASCII as far as it matters: a byte is a character.
        let short = if end <= inside { Some(&view[4..4 + end]) } else { None };
        match short.filter(|bytes| bytes.is_ascii()).and_then(|bytes| std::str::from_utf8(bytes).ok()) {
            Some(text) => results.append_value(&text[from.min(end)..]),
            None => results.append_value(characters(texts.value(row), from, to)),
        }
    }
    Arc::new(results.finish())
}

/// The same of one text.
fn characters(text: &str, from: usize, to: usize) -> &str {
    let bytes = text.as_bytes();
    let end = to.min(bytes.len());
    // What follows ASCII is the beginning of a character, or the end.
    if bytes[..end].is_ascii() {
        return &text[from.min(end)..end];
    }
    let place = |number: usize| text.char_indices().nth(number).map_or(text.len(), |(place, _)| place);
    &text[place(from)..place(to.max(from))]
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::Field;
    use datafusion_common::config::ConfigOptions;
    use proptest::prelude::*;

    use super::*;

    fn call(function: &ScalarUDF, texts: &ArrayRef, start: i64, count: i64) -> std::result::Result<ArrayRef, String> {
        let number = |n: i64| ColumnarValue::Scalar(ScalarValue::Int64(Some(n)));
        let field = |t: &DataType| Arc::new(Field::new("x", t.clone(), true));
        let types = [texts.data_type().clone(), DataType::Int64, DataType::Int64];
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(Arc::clone(texts)), number(start), number(count)],
            arg_fields: types.iter().map(field).collect(),
            number_rows: texts.len(),
            return_field: field(texts.data_type()),
            config_options: Arc::new(ConfigOptions::default()),
        };
        let result = function.invoke_with_args(args).and_then(|value| value.into_array(texts.len()));
        result.map_err(|error| error.to_string())
    }

    fn check(texts: Vec<Option<String>>, start: i64, count: i64) {
        let plain = datafusion_functions::unicode::substr();
        let views: ArrayRef = Arc::new(texts.iter().cloned().collect::<StringViewArray>());
        let strings: ArrayRef = Arc::new(texts.iter().cloned().collect::<StringArray>());
        let of = |texts: &ArrayRef| (call(&SUBSTRING, texts, start, count), call(&plain, texts, start, count));
        for (ours, theirs) in
            [of(&views), of(&strings), of(&views.slice(texts.len() / 2, texts.len() - texts.len() / 2))]
        {
            assert_eq!(ours, theirs, "{texts:?} from {start}, {count}");
        }
    }

    #[test]
    fn edges_are_datafusions() {
        let texts = [
            "",
            "a",
            "ab",
            "13-989-741-2988",
            "äöüß",
            "aä",
            "abcä and a long text",
            "日本語のテキスト",
            "abcdefghijklm",
        ];
        let texts: Vec<Option<String>> = texts.into_iter().map(|t| Some(t.to_string())).chain([None]).collect();
        for start in [i64::MIN, -3, 0, 1, 2, 3, 4, 5, 12, 13, 14, i64::MAX] {
            for count in [-1, 0, 1, 2, 3, 4, 11, 12, 13, i64::MAX] {
                check(texts.clone(), start, count);
            }
        }
    }

    proptest! {
        #[test]
        fn ours_is_datafusions(
            texts in prop::collection::vec(prop::option::of("[a-cä€日]{0,5}[a-c]{0,16}"), 1..20),
            start in -2i64..16,
            count in -1i64..16,
        ) {
            check(texts, start, count);
        }
    }
}
