//! LIKE without regular expressions: [`text_test`] tells `exec` which conditions are LIKE over a column of text, so
//! that it searches texts as they are stored (`exec::TextTest`). What DataFusion makes of the same expression stays the
//! twin that tests compare with.
//!
//! # Limits
//! ILIKE, patterns that are no literals, and LIKE over anything but a column are DataFusion's.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, ExprSchema};
use datafusion_expr::{Expr, Like};
use exec::TextTest;

/// What `expr` asks of a text, if it is LIKE or NOT LIKE over a column of `schema`.
pub(crate) fn text_test(expr: &Expr, schema: &DFSchema) -> Option<TextTest> {
    match expr {
        Expr::Alias(alias) => text_test(&alias.expr, schema),
        Expr::Not(inner) => of_like(inner, schema, true),
        other => of_like(other, schema, false),
    }
}

fn of_like(expr: &Expr, schema: &DFSchema, not: bool) -> Option<TextTest> {
    let Expr::Like(Like { negated, expr, pattern, escape_char: None | Some('\\'), case_insensitive: false }) = expr
    else {
        return None;
    };
    let (Expr::Column(column), Expr::Literal(pattern, _)) = (expr.as_ref(), pattern.as_ref()) else { return None };
    let text = schema.field_from_column(column).is_ok_and(|field| *field.data_type() == DataType::Utf8View);
    let pattern = pattern.try_as_str()??;
    text.then(|| TextTest::like(pattern, *negated != not))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
    use arrow::datatypes::{Field, Schema};
    use datafusion_common::ScalarValue;
    use datafusion_expr::execution_props::ExecutionProps;
    use datafusion_expr::{col, lit, not};
    use exec::Expression;

    use super::*;
    use crate::lower::PhysicalExpression;

    fn schema(data_type: DataType) -> DFSchema {
        DFSchema::try_from(Schema::new(vec![Field::new("x", data_type, true)])).unwrap()
    }

    #[test]
    fn what_is_searched_is_what_datafusion_says() {
        let texts = ["", "special", "special requests", "requests special", "a%c", "abc", "aéc", "Special Requests\n"];
        let column: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().copied().map(Some).chain([None])));
        let schema = schema(DataType::Utf8View);
        let batch = RecordBatch::try_new(schema.inner().clone(), vec![column]).unwrap();
        for pattern in ["%special%requests%", "a_c", "a\\%c", "spec%", "%quests", "%", "", "_%", "%e%e%", "special"] {
            let like = ScalarValue::Utf8View(Some(pattern.into()));
            for expr in [
                col("x").like(lit(like.clone())),
                col("x").not_like(lit(like.clone())),
                not(col("x").like(lit(like.clone()))),
            ] {
                let test = text_test(&expr, &schema).expect("LIKE over a column");
                let planned = PhysicalExpression::new(&expr, &schema, &ExecutionProps::new()).unwrap();
                assert!(planned.text_test().is_some());
                let expected = planned.evaluate(&batch).unwrap();
                let found = test.evaluate(batch.column(0)).unwrap();
                let answers = |array: &arrow::array::BooleanArray| array.iter().collect::<Vec<_>>();
                assert_eq!(answers(&found), answers(expected.as_boolean()), "{expr}");
                assert!(found.is_null(texts.len()));
            }
        }
    }

    #[test]
    fn the_rest_is_datafusions() {
        let text = schema(DataType::Utf8View);
        assert!(text_test(&col("x").ilike(lit("a%")), &text).is_none());
        assert!(text_test(&col("x").like(col("x")), &text).is_none());
        assert!(text_test(&lit("abc").like(lit("a%")), &text).is_none());
        assert!(text_test(&col("x").eq(lit("a%")), &text).is_none());
        assert!(text_test(&col("x").like(lit("a%")), &schema(DataType::Utf8)).is_none());
    }
}
