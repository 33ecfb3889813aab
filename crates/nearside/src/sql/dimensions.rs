//! Casts of what has several dimensions to a list's type: `'{{1,2},{3,4}}'::INT[]` and `ARRAY[[1, 2]]::TEXT[]`. In
//! PostgreSQL the type says nothing of dimensions; here it has a pair of brackets for each, which are added.

use sqlparser::ast::{ArrayElemTypeDef, CastKind, DataType, Expr, Value};

/// Gives the type of a cast as many dimensions as what is cast has, where that is written.
pub(super) fn give(expr: &mut Expr) {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } = expr else { return };
    let wanted = of_value(inner);
    for _ in of_type(data_type).max(1)..wanted {
        if of_type(data_type) == 0 {
            return;
        }
        let inner = std::mem::replace(data_type, DataType::Unspecified);
        *data_type = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(inner), None));
    }
}

/// How many dimensions a type has.
fn of_type(data_type: &DataType) -> usize {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(of, _)) => 1 + of_type(of),
        _ => 0,
    }
}

/// How many a value has as it is written; 0 where that is not known.
fn of_value(expr: &Expr) -> usize {
    match expr {
        Expr::Nested(inner) => of_value(inner),
        Expr::Cast { data_type, .. } => of_type(data_type),
        Expr::Array(array) => 1 + array.elem.first().map_or(0, of_value_within),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => {
                text.chars().filter(|c| !c.is_whitespace()).take_while(|c| *c == '{').count()
            }
            _ => 0,
        },
        _ => 0,
    }
}

/// A text within a list is an element.
fn of_value_within(expr: &Expr) -> usize {
    match expr {
        Expr::Value(_) => 0,
        expr => of_value(expr),
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::parser::Parser;

    use super::*;
    use crate::sql::dialect::SqlDialect;

    #[test]
    fn types_have_the_dimensions_of_what_is_written() {
        for (sql, expected) in [
            ("'{{1,2},{3,4}}'::INT[]", "'{{1,2},{3,4}}'::INT[][]"),
            ("'{1,2}'::INT[]", "'{1,2}'::INT[]"),
            ("'{{1}}'::INT[][]", "'{{1}}'::INT[][]"),
            ("'{{1}}'::TEXT", "'{{1}}'::TEXT"),
            ("ARRAY[['a', '{b}']]::TEXT[]", "ARRAY[['a', '{b}']]::TEXT[][]"),
            ("ARRAY['{{a}}']::TEXT[]", "ARRAY['{{a}}']::TEXT[]"),
        ] {
            let mut parser = Parser::new(&SqlDialect).try_with_sql(sql).unwrap();
            let mut expr = parser.parse_expr().unwrap();
            give(&mut expr);
            assert_eq!(expr.to_string(), expected);
        }
    }
}
