//! Texts that are put into columns of UUIDs, as casts: the planner puts texts into columns of types that Arrow makes of
//! them, of which UUID is none.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, AssignmentTarget, Expr, ObjectName, SelectItem, SetExpr, TableFactor, TableObject, Value};

use super::normalised;
use crate::functions::texts::nested::element;
use crate::functions::uuids::UUID;

/// The columns of a table, if there is one.
pub(super) type Columns<'a> = &'a dyn Fn(&ObjectName) -> Option<SchemaRef>;

/// Writes the casts.
pub(super) fn write_out(statement: &mut Statement, tables: Columns<'_>) {
    match statement {
        Statement::Statement(inner) => in_statement(inner, tables),
        Statement::Explain(explain) => write_out(&mut explain.statement, tables),
        _ => {}
    }
}

fn in_statement(statement: &mut ast::Statement, tables: Columns<'_>) {
    match statement {
        ast::Statement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else { return };
            let (Some(schema), Some(source)) = (tables(name), insert.source.as_mut()) else { return };
            let of_column = |column: &ObjectName| of_type(schema.field_with_name(&last(column)?).ok()?.data_type());
            let goes_to: Vec<Option<ast::DataType>> = match insert.columns.is_empty() {
                true => schema.fields().iter().map(|field| of_type(field.data_type())).collect(),
                false => insert.columns.iter().map(of_column).collect(),
            };
            if goes_to.iter().any(Option::is_some) {
                in_rows(&mut source.body, &goes_to);
            }
        }
        ast::Statement::Update(update) => {
            let TableFactor::Table { name, .. } = &update.table.relation else { return };
            let Some(schema) = tables(name) else { return };
            for assignment in &mut update.assignments {
                if let AssignmentTarget::ColumnName(column) = &assignment.target
                    && let Some(column) = last(column)
                    && let Ok(field) = schema.field_with_name(&column)
                    && let Some(to) = of_type(field.data_type())
                {
                    cast_text(&mut assignment.value, &to);
                }
            }
        }
        ast::Statement::Prepare { statement, .. } | ast::Statement::Explain { statement, .. } => {
            in_statement(statement, tables);
        }
        _ => {}
    }
}

/// The type, if it is that of UUIDs or of lists of them.
fn of_type(data_type: &DataType) -> Option<ast::DataType> {
    if *data_type == UUID {
        return Some(ast::DataType::Uuid);
    }
    let inner = of_type(element(data_type)?)?;
    Some(ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(inner), None)))
}

fn in_rows(body: &mut SetExpr, goes_to: &[Option<ast::DataType>]) {
    match body {
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                for (value, to) in row.content.iter_mut().zip(goes_to) {
                    to.iter().for_each(|to| cast_text(value, to));
                }
            }
        }
        SetExpr::Select(select) => {
            for (item, to) in select.projection.iter_mut().zip(goes_to) {
                if let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }, Some(to)) =
                    (item, to)
                {
                    cast_text(value, to);
                }
            }
        }
        SetExpr::Query(query) => in_rows(&mut query.body, goes_to),
        SetExpr::SetOperation { left, right, .. } => {
            in_rows(left, goes_to);
            in_rows(right, goes_to);
        }
        _ => {}
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).cloned().map(normalised)
}

fn cast_text(value: &mut Expr, to: &ast::DataType) {
    if let Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(_), .. }) = value {
        let text = std::mem::replace(value, Expr::Value(Value::Null.into()));
        *value = Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(text),
            data_type: to.clone(),
            array: false,
            format: None,
        };
    }
}
