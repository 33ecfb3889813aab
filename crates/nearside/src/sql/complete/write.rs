//! INSERT, UPDATE, DELETE and TRUNCATE.

use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DoUpdate, FromTable, Insert, Merge, MergeAction, MergeClause,
    MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, OnConflict, OnConflictAction, OnInsert, OutputClause,
    TableAliasWithoutColumns, TableFactor, TableObject, TableWithJoins, Truncate, TruncateTableTarget, Update,
    UpdateTableFromKind,
};

use super::expression::expr;
use super::{query, refuse, refused, refused_text, source};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::sql::overriding;
use crate::sql::returning::from_of;

const OUTPUT: &str = "OUTPUT; use RETURNING";
const HINTS: &str = "a hint for an optimiser; leave it out";

pub(super) fn insert(insert: &Insert) -> Result<()> {
    let Insert {
        insert_token: _,
        optimizer_hints,
        or,
        ignore,
        into: _,
        table,
        table_alias,
        columns,
        overwrite,
        source,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword: _,
        on,
        returning,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    let several = multi_table_insert_type.is_some()
        || !multi_table_into_clauses.is_empty()
        || !multi_table_when_clauses.is_empty()
        || multi_table_else_clause.is_some();
    let words = matches!(table_alias, Some(TableAliasWithoutColumns { explicit: false, alias: _ }));
    refuse(&[
        (!optimizer_hints.is_empty() || priority.is_some(), HINTS),
        (*replace_into, "REPLACE INTO; use DELETE and INSERT"),
        (or.is_some() || *ignore, "OR or IGNORE in INSERT; use ON CONFLICT DO NOTHING, or ON CONFLICT .. DO UPDATE"),
        (*overwrite && on.is_some(), "ON CONFLICT in INSERT OVERWRITE; leave it out, the table is emptied first"),
        (output.is_some(), OUTPUT),
        (*overwrite && returning.is_some(), "RETURNING of INSERT OVERWRITE; query the rows after it"),
        (words, "an alias in INSERT without AS; write AS before it"),
        (insert_alias.is_some(), "an alias behind the rows of INSERT; ON CONFLICT calls the row excluded"),
        (!assignments.is_empty(), "INSERT .. SET; use INSERT INTO table (columns) VALUES (..)"),
        (partitioned.is_some() || !after_columns.is_empty(), "PARTITION in INSERT; rows find their part by themselves"),
        (
            settings.is_some() && overriding::of(insert).is_none() || format_clause.is_some(),
            "SETTINGS or FORMAT in INSERT; use COPY table FROM 'file'",
        ),
        (several, "INSERT into several tables; use a statement for each"),
        (source.is_none() && !columns.is_empty(), "columns before DEFAULT VALUES; leave them out"),
        (columns.iter().any(|column| column.0.len() > 1), "a table before a column of INSERT; write the column alone"),
    ])?;
    on.iter().try_for_each(on_insert)?;
    match table {
        TableObject::TableName(_) => {}
        TableObject::TableFunction(_) | TableObject::TableQuery(_) => {
            return Err(refused_text("INSERT into something else than a table", table));
        }
    }
    source.iter().try_for_each(|source| query::query(source))?;
    returning.iter().flatten().try_for_each(query::item)
}

fn on_insert(on: &OnInsert) -> Result<()> {
    let OnInsert::OnConflict(OnConflict { conflict_target, action }) = on else {
        return Err(refused("ON DUPLICATE KEY UPDATE; use ON CONFLICT (columns) DO UPDATE SET c = excluded.c"));
    };
    match conflict_target {
        None | Some(ConflictTarget::Columns(_) | ConflictTarget::OnConstraint(_)) => {}
    }
    match action {
        OnConflictAction::DoNothing => Ok(()),
        OnConflictAction::DoUpdate(DoUpdate { assignments, selection }) => {
            // Which rows may stand behind `SET (a, b) =`, `ordinary` says.
            let values = assignments.iter().map(|Assignment { target: _, value }| value);
            values.chain(selection).try_for_each(expr)
        }
    }
}

pub(super) fn update(update: &Update) -> Result<()> {
    let Update {
        update_token: _,
        optimizer_hints,
        table,
        assignments,
        from,
        selection,
        returning,
        output,
        or,
        order_by,
        limit,
    } = update;
    refuse(&[
        (!optimizer_hints.is_empty(), HINTS),
        (matches!(from, Some(UpdateTableFromKind::BeforeSet(_))), "FROM before SET of UPDATE; write it behind SET"),
        (!table.joins.is_empty(), "JOIN in UPDATE; use UPDATE .. SET .. FROM"),
        (output.is_some(), OUTPUT),
        (or.is_some(), "UPDATE OR; leave it out"),
        (!order_by.is_empty() || limit.is_some(), "ORDER BY or LIMIT in UPDATE; choose the rows by a key in WHERE"),
    ])?;
    source::with_joins(table)?;
    from_of(from.as_ref()).iter().try_for_each(source::with_joins)?;
    returning.iter().flatten().try_for_each(query::item)?;
    for Assignment { target, value } in assignments {
        if let AssignmentTarget::Tuple(_) = target {
            return Err(refused_text("SET of several columns at once (set each by itself)", target));
        }
        expr(value)?;
    }
    selection.iter().try_for_each(expr)
}

pub(super) fn delete(delete: &Delete) -> Result<()> {
    let Delete {
        delete_token: _,
        optimizer_hints: hints,
        tables,
        from,
        using,
        selection,
        returning,
        output,
        order_by,
        limit,
    } = delete;
    let all = match from {
        FromTable::WithFromKeyword(all) => all,
        FromTable::WithoutKeyword(_) => {
            return Err(Error::plan(SqlState::SyntaxError, "DELETE FROM names the table; FROM is missing"));
        }
    };
    refuse(&[
        (!hints.is_empty(), HINTS),
        (!tables.is_empty() || all.len() > 1, "DELETE of several tables; use a statement for each"),
        (all.iter().any(|table| !table.joins.is_empty()), "JOIN in DELETE; use DELETE .. USING"),
        (output.is_some(), OUTPUT),
        (!order_by.is_empty() || limit.is_some(), "ORDER BY or LIMIT in DELETE; choose the rows by a key in WHERE"),
    ])?;
    all.iter().chain(using.iter().flatten()).try_for_each(source::with_joins)?;
    returning.iter().flatten().try_for_each(query::item)?;
    selection.iter().try_for_each(expr)
}

pub(super) fn merge(merge: &Merge) -> Result<()> {
    let Merge { merge_token: _, optimizer_hints, into: _, table, source: of, on, clauses, output } = merge;
    let returns = matches!(output, Some(OutputClause::Returning { .. }));
    refuse(&[
        (!optimizer_hints.is_empty(), HINTS),
        (returns, "RETURNING of MERGE; query the rows after it"),
        (output.is_some(), OUTPUT),
        (!matches!(table, TableFactor::Table { .. }), "MERGE into something else than a table"),
    ])?;
    if clauses.is_empty() {
        return Err(Error::plan(SqlState::SyntaxError, "MERGE says with WHEN what becomes of rows; it has none"));
    }
    for source in [table, of] {
        source::with_joins(&TableWithJoins { relation: source.clone(), joins: Vec::new() })?;
    }
    expr(on)?;
    for MergeClause { when_token: _, clause_kind: _, predicate, action } in clauses {
        predicate.iter().try_for_each(expr)?;
        match action {
            MergeAction::Update(MergeUpdateExpr {
                update_token: _,
                assignments,
                update_predicate,
                delete_predicate,
            }) => {
                refuse(&[(
                    update_predicate.is_some() || delete_predicate.is_some(),
                    "WHERE behind an action of MERGE; write WHEN .. AND condition THEN",
                )])?;
                for Assignment { target, value } in assignments {
                    if let AssignmentTarget::Tuple(_) = target {
                        return Err(refused_text("SET of several columns at once (set each by itself)", target));
                    }
                    expr(value)?;
                }
            }
            MergeAction::Delete { delete_token: _ } => {}
            MergeAction::Insert(MergeInsertExpr {
                insert_token: _,
                columns,
                kind_token: _,
                kind,
                insert_predicate,
            }) => {
                refuse(&[
                    (insert_predicate.is_some(), "WHERE behind an action of MERGE; write WHEN .. AND condition THEN"),
                    (matches!(kind, MergeInsertKind::Row), "INSERT ROW in MERGE; use INSERT VALUES (..)"),
                    (
                        columns.iter().any(|column| column.0.len() > 1),
                        "a table before a column of INSERT; write the column alone",
                    ),
                ])?;
                if let MergeInsertKind::Values(values) = kind {
                    query::values(values)?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn truncate(truncate: &Truncate) -> Result<()> {
    let Truncate { table_names, partitions, table: _, if_exists, identity: _, cascade: _, on_cluster } = truncate;
    let only = table_names.iter().any(|TruncateTableTarget { name: _, only, has_asterisk }| *only || *has_asterisk);
    refuse(&[
        (only, "ONLY or * in TRUNCATE; leave them out, tables inherit nothing"),
        (partitions.is_some(), "PARTITION in TRUNCATE; use DELETE .. WHERE"),
        (*if_exists, "TRUNCATE IF EXISTS; leave it out"),
        (on_cluster.is_some(), "ON CLUSTER; leave it out"),
    ])
}
