//! Types that statements have made, as the planner takes them: casts to an enum are calls, and columns of one are
//! columns of texts, whose rule says what they are (`catalog::lengths`).

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, CastKind, DataType, Expr, Ident, ObjectName, Select, SelectItem,
    TypedString, Values, Visit, VisitorMut, visit_expressions,
};

use super::calls::call;
use super::normalised;
use super::scope::{output_name, quoted};
use super::walk::rewrite;
use crate::catalog::domains::DomainEntry;
use crate::catalog::user_types::EnumType;
use crate::error::{Error, Result};
use crate::functions::enums::READ;
use crate::functions::of_domains::function_of;
use crate::sql::{KnownTables, SqlDialect};

/// Tells the type that a name stands for; `None` for names of types that the planner knows.
pub(super) type MadeTypes<'a> = &'a dyn Fn(&ObjectName) -> Result<Option<Arc<EnumType>>>;

/// Tells the domain that a name stands for.
pub(super) type MadeDomains<'a> = &'a dyn Fn(&ObjectName) -> Option<Arc<DomainEntry>>;

/// Writes casts to enums and domains as calls, and columns of them as those of the types that they are over.
///
/// # Errors
/// Types that there are not, and TRY_CAST to one.
pub(super) fn write_out(statement: &mut Statement, made: MadeTypes<'_>, domains: MadeDomains<'_>) -> Result<()> {
    rewrite(statement, &mut Made { made, domains })
}

/// A type as SQL writes it.
///
/// # Errors
/// It is none.
pub(crate) fn data_type_of(text: &str) -> Result<DataType> {
    let parser = sqlparser::parser::Parser::new(&SqlDialect);
    let mut parser = parser.try_with_sql(text).map_err(datafusion_common::DataFusionError::from)?;
    Ok(parser.parse_data_type().map_err(datafusion_common::DataFusionError::from)?)
}

/// The type that a type is over, and the domain, where it is one.
///
/// # Errors
/// None that a domain has which was made.
pub(crate) fn base_of(
    data_type: &DataType,
    context: &impl KnownTables,
) -> Result<(DataType, Option<Arc<DomainEntry>>)> {
    match domain_of(data_type, &|name| context.made_domain(name)) {
        Some(domain) => Ok((data_type_of(&domain.base)?, Some(domain))),
        None => Ok((data_type.clone(), None)),
    }
}

fn domain_of(data_type: &DataType, domains: MadeDomains<'_>) -> Option<Arc<DomainEntry>> {
    match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => domains(name),
        _ => None,
    }
}

struct Made<'a> {
    made: MadeTypes<'a>,
    domains: MadeDomains<'a>,
}

impl Made<'_> {
    fn of(&self, data_type: &DataType) -> Result<Option<Arc<EnumType>>> {
        match data_type {
            DataType::Custom(name, modifiers) if modifiers.is_empty() && (self.domains)(name).is_some() => Ok(None),
            DataType::Custom(name, modifiers) if modifiers.is_empty() => (self.made)(name),
            DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(inner, _) | ast::ArrayElemTypeDef::AngleBracket(inner),
            ) if let Some(domain) = domain_of(inner, self.domains) => Err(Error::Unsupported(format!(
                "arrays of a domain ({}[]) are not supported; use {}[]",
                domain.of.name.shown(),
                domain.base
            ))),
            DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(inner, _) | ast::ArrayElemTypeDef::AngleBracket(inner),
            ) => match self.of(inner)? {
                Some(of) => Err(Error::Unsupported(format!(
                    "arrays of an enum ({}[]) are not supported; use TEXT[]",
                    of.shown()
                ))),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn column(&self, data_type: &mut DataType) -> Result<()> {
        if let Some(domain) = domain_of(data_type, self.domains) {
            *data_type = data_type_of(&domain.base)?;
        } else if self.of(data_type)?.is_some() {
            *data_type = DataType::Text;
        }
        Ok(())
    }

    fn expression(&self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Cast { kind, expr: inner, data_type, .. }
                if let Some(domain) = domain_of(data_type, self.domains) =>
            {
                if matches!(kind, CastKind::TryCast | CastKind::SafeCast) {
                    let message = "TRY_CAST to a domain is not supported; use CAST, which fails where a value is not \
                                   allowed, or TRY_CAST to the type that it is over";
                    return Err(Error::Unsupported(message.into()));
                }
                let inner = std::mem::replace(inner.as_mut(), Expr::Value(ast::Value::Null.into()));
                *expr = checked(inner, &domain)?;
            }
            Expr::TypedString(TypedString { data_type, value, .. })
                if let Some(domain) = domain_of(data_type, self.domains) =>
            {
                *expr = checked(Expr::Value(value.clone()), &domain)?;
            }
            Expr::Cast { kind, expr: inner, data_type, .. } => {
                let Some(of) = self.of(data_type)? else { return Ok(()) };
                if matches!(kind, CastKind::TryCast | CastKind::SafeCast) {
                    let message =
                        "TRY_CAST to an enum is not supported; use CAST, which fails where a text is no label";
                    return Err(Error::Unsupported(message.into()));
                }
                let inner = std::mem::replace(inner.as_mut(), Expr::Value(ast::Value::Null.into()));
                *expr = read(inner, &of);
            }
            Expr::TypedString(TypedString { data_type, value, .. }) => {
                let Some(of) = self.of(data_type)? else { return Ok(()) };
                *expr = read(Expr::Value(value.clone()), &of);
            }
            _ => {}
        }
        Ok(())
    }

    fn statement(&self, statement: &mut ast::Statement) -> Result<()> {
        match statement {
            ast::Statement::CreateTable(create) => {
                create.columns.iter_mut().try_for_each(|column| self.column(&mut column.data_type))
            }
            ast::Statement::AlterTable(alter) => {
                alter.operations.iter_mut().try_for_each(|operation| match operation {
                    AlterTableOperation::AddColumn { column_def, .. } => self.column(&mut column_def.data_type),
                    AlterTableOperation::AlterColumn {
                        op: AlterColumnOperation::SetDataType { data_type, .. },
                        ..
                    } => self.column(data_type),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        }
    }

    /// The name of an output that becomes a call: that of a column that is cast, else that of the type.
    fn name(&self, expr: &Expr) -> Result<Option<String>> {
        Ok(match expr {
            Expr::Cast { expr: inner, data_type, .. } if let Some(domain) = domain_of(data_type, self.domains) => {
                Some(match output_name(inner) {
                    Some(name) => name,
                    None => self.name(inner)?.unwrap_or_else(|| domain.of.name.table.clone()),
                })
            }
            Expr::TypedString(TypedString { data_type, .. })
                if let Some(domain) = domain_of(data_type, self.domains) =>
            {
                Some(domain.of.name.table.clone())
            }
            Expr::Nested(inner) => self.name(inner)?,
            Expr::Cast { expr: inner, data_type, .. } => match self.of(data_type)? {
                Some(of) => Some(match output_name(inner) {
                    Some(name) => name,
                    None => self.name(inner)?.unwrap_or_else(|| of.name.clone()),
                }),
                None => None,
            },
            Expr::TypedString(TypedString { data_type, .. }) => self.of(data_type)?.map(|of| of.name.clone()),
            _ => None,
        })
    }

    fn outputs(&self, select: &mut Select) -> Result<()> {
        let mut names = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            names.push(match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(normalised(alias.clone())),
                SelectItem::UnnamedExpr(expr) => match self.name(expr)? {
                    Some(name) => Some(name),
                    None => output_name(expr),
                },
                _ => None,
            });
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(name) = self.name(expr)?
                && names.iter().flatten().filter(|other| **other == name).count() == 1
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(&name) };
            }
        }
        Ok(())
    }

    /// Texts and NULLs below or above a cast to an enum in rows of values are of the enum.
    fn values(&self, values: &mut Values) -> Result<()> {
        let columns = values.rows.first().map_or(0, |row| row.content.len());
        for column in 0..columns {
            let mut to = None;
            for row in &values.rows {
                if let Some(Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) =
                    row.content.get(column)
                    && self.of(data_type)?.is_some()
                {
                    to.get_or_insert_with(|| data_type.clone());
                }
            }
            let Some(to) = to else { continue };
            for value in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
                if matches!(value, Expr::Value(_)) {
                    let (expr, data_type) = (Box::new(value.clone()), to.clone());
                    *value = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
                }
            }
        }
        Ok(())
    }
}

/// A value as one of a domain.
fn checked(value: Expr, domain: &DomainEntry) -> Result<Expr> {
    let data_type = data_type_of(&domain.base)?;
    let cast = Expr::Cast { kind: CastKind::Cast, expr: Box::new(value), data_type, array: false, format: None };
    Ok(call(&function_of(domain.id()), vec![cast]))
}

fn read(value: Expr, of: &EnumType) -> Expr {
    call(READ, vec![value, Expr::Value(ast::Value::SingleQuotedString(of.text()).into())])
}

fn flow(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Made<'_> {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        flow(self.statement(statement))
    }

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Error> {
        match query.body.as_mut() {
            ast::SetExpr::Values(values) => flow(self.values(values)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        flow(self.outputs(select))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        flow(self.expression(expr))
    }
}

/// Whether an expression of a statement, or of a part of one, casts to a type.
pub(crate) fn casts_to<N: Visit>(node: &N, is: &dyn Fn(&ObjectName) -> bool) -> bool {
    visit_expressions(node, |expr| match expr {
        Expr::Cast { data_type: DataType::Custom(name, _), .. }
        | Expr::TypedString(TypedString { data_type: DataType::Custom(name, _), .. })
            if is(name) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Names of types that are no statement's.
const OF_CATALOG: [&str; 3] = ["oid", "name", "jsonpath"];

/// Whether a name may be that of a type that a statement has made.
pub(crate) fn may_be_made(name: &ObjectName) -> bool {
    let plain = |ident: &Ident| match ident.quote_style {
        None => !OF_CATALOG.contains(&ident.value.to_lowercase().as_str()),
        Some(_) => ident.value != "char",
    };
    match name.0.as_slice() {
        [part] => part.as_ident().is_some_and(plain),
        [schema, _] => schema.as_ident().is_some_and(|schema| normalised(schema.clone()) != "pg_catalog"),
        [_, _, _] => true,
        _ => false,
    }
}
