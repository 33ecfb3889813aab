//! `RETURNING`, `UPDATE .. FROM` and `DELETE .. USING`: the planner takes none of them. What RETURNING lists is taken
//! off and planned as a query of the tables that the statement names; the tables of FROM and USING become joins of the
//! table that is written.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, FromTable, Join, JoinOperator, ObjectName, SelectItem, SetExpr, TableAlias, TableFactor, TableObject,
    TableWithJoins, UpdateTableFromKind,
};

use super::parsed;
use crate::error::Result;

/// What a statement that writes gives of the rows that it has written.
#[derive(Debug, Clone)]
pub(crate) struct Returning {
    items: Vec<SelectItem>,
    /// The table that is written, by the name that the statement gives it, and those that it is joined with.
    from: TableWithJoins,
}

impl Returning {
    /// The table that is written.
    pub(crate) fn table(&self) -> Option<&ObjectName> {
        match &self.from.relation {
            TableFactor::Table { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The query that gives it, of rows that are there.
    ///
    /// # Errors
    /// None that a statement which was parsed has.
    pub(crate) fn query(&self) -> Result<Statement> {
        let mut query = parsed::query("SELECT 1 FROM x")?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection.clone_from(&self.items);
            select.from = vec![self.from.clone()];
        }
        Ok(Statement::Statement(Box::new(ast::Statement::Query(Box::new(query)))))
    }
}

/// Takes RETURNING off a statement.
pub(crate) fn take_returning(statement: &mut Statement) -> Option<Returning> {
    let Statement::Statement(inner) = statement else { return None };
    match inner.as_mut() {
        ast::Statement::Insert(insert) => {
            let items = insert.returning.take()?;
            let TableObject::TableName(name) = &insert.table else { return None };
            let alias = insert.table_alias.as_ref().map(|alias| TableAlias {
                explicit: true,
                name: alias.alias.clone(),
                columns: Vec::new(),
                at: None,
            });
            let relation = TableFactor::Table {
                name: name.clone(),
                alias,
                args: None,
                with_hints: Vec::new(),
                version: None,
                with_ordinality: false,
                partitions: Vec::new(),
                json_path: None,
                sample: None,
                index_hints: Vec::new(),
            };
            Some(Returning { items, from: TableWithJoins { relation, joins: Vec::new() } })
        }
        ast::Statement::Update(update) => {
            let items = update.returning.take()?;
            Some(Returning { items, from: joined(&update.table, from_of(update.from.as_ref())) })
        }
        ast::Statement::Delete(delete) => {
            let items = delete.returning.take()?;
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            Some(Returning { items, from: joined(from.first()?, delete.using.as_deref().unwrap_or_default()) })
        }
        _ => None,
    }
}

/// The tables of an UPDATE's FROM.
pub(super) fn from_of(from: Option<&UpdateTableFromKind>) -> &[TableWithJoins] {
    match from {
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from,
        None => &[],
    }
}

/// The table that is written with all rows of others beside each of its own, which is what FROM and USING mean.
pub(super) fn joined(table: &TableWithJoins, others: &[TableWithJoins]) -> TableWithJoins {
    let mut joined = table.clone();
    joined.joins.extend(others.iter().map(|other| {
        let relation = match other.joins.is_empty() {
            true => other.relation.clone(),
            false => TableFactor::NestedJoin { table_with_joins: Box::new(other.clone()), alias: None },
        };
        Join { relation, global: false, join_operator: JoinOperator::CrossJoin(ast::JoinConstraint::None) }
    }));
    joined
}
