//! Texts that are put into columns of UUIDs, as casts: the planner puts texts into columns of types that Arrow makes of
//! them, of which UUID is none.

use arrow::datatypes::SchemaRef;
use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, AssignmentTarget, Expr, ObjectName, SelectItem, SetExpr, TableFactor, TableObject, Value};

use super::normalised;
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
            let is_uuid = |column: &str| schema.field_with_name(column).is_ok_and(|field| *field.data_type() == UUID);
            let goes_to: Vec<bool> = match insert.columns.is_empty() {
                true => schema.fields().iter().map(|field| *field.data_type() == UUID).collect(),
                false => insert.columns.iter().map(|column| last(column).is_some_and(|name| is_uuid(&name))).collect(),
            };
            if goes_to.contains(&true) {
                in_rows(&mut source.body, &goes_to);
            }
        }
        ast::Statement::Update(update) => {
            let TableFactor::Table { name, .. } = &update.table.relation else { return };
            let Some(schema) = tables(name) else { return };
            for assignment in &mut update.assignments {
                if let AssignmentTarget::ColumnName(column) = &assignment.target
                    && let Some(column) = last(column)
                    && schema.field_with_name(&column).is_ok_and(|field| *field.data_type() == UUID)
                {
                    cast_text(&mut assignment.value);
                }
            }
        }
        ast::Statement::Prepare { statement, .. } | ast::Statement::Explain { statement, .. } => {
            in_statement(statement, tables);
        }
        _ => {}
    }
}

fn in_rows(body: &mut SetExpr, goes_to: &[bool]) {
    match body {
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                row.content.iter_mut().zip(goes_to).filter(|(_, is)| **is).for_each(|(value, _)| cast_text(value));
            }
        }
        SetExpr::Select(select) => {
            for (item, _) in select.projection.iter_mut().zip(goes_to).filter(|(_, is)| **is) {
                if let SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } = item {
                    cast_text(value);
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

fn cast_text(value: &mut Expr) {
    if let Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(_), .. }) = value {
        let text = std::mem::replace(value, Expr::Value(Value::Null.into()));
        *value = Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(text),
            data_type: ast::DataType::Uuid,
            array: false,
            format: None,
        };
    }
}
