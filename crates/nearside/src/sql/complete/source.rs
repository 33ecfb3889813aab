//! FROM: tables, subqueries, functions and joins.

use sqlparser::ast::{
    ExprWithAlias, Join, JoinConstraint, JoinOperator, TableFactor, TableFunctionArgs, TableWithJoins,
};

use super::expression::{expr, exprs};
use super::{function, query, refuse, refused_text};
use crate::error::Result;

const ORDINALITY: &str = "WITH ORDINALITY behind what is no list and no series; number the rows with row_number()";

pub(super) fn with_joins(source: &TableWithJoins) -> Result<()> {
    let TableWithJoins { relation, joins } = source;
    factor(relation)?;
    joins.iter().try_for_each(join)
}

fn factor(factor: &TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table { .. } => table(factor),
        // What there is of TABLESAMPLE, PIVOT and UNPIVOT, `scope::pivots` says.
        TableFactor::Derived { lateral: _, subquery, alias, sample: _ } => {
            query::alias(alias.as_ref())?;
            query::query(subquery)
        }
        TableFactor::Function { lateral: _, name: _, args, with_ordinality, alias } => {
            refuse(&[(*with_ordinality, ORDINALITY)])?;
            query::alias(alias.as_ref())?;
            function::positional(args)
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality } => {
            let offset = *with_offset || with_offset_alias.is_some();
            refuse(&[
                (offset, "UNNEST .. WITH OFFSET; number the rows with row_number()"),
                (*with_ordinality, ORDINALITY),
            ])?;
            query::alias(alias.as_ref())?;
            exprs(array_exprs)
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            query::alias(alias.as_ref())?;
            with_joins(table_with_joins)
        }
        TableFactor::Pivot { table, aggregate_functions, value_column, value_source: _, default_on_null, alias } => {
            refuse(&[(default_on_null.is_some(), "DEFAULT ON NULL in PIVOT; use coalesce() around the column")])?;
            query::alias(alias.as_ref())?;
            aggregate_functions.iter().try_for_each(|ExprWithAlias { expr: call, alias: _ }| expr(call))?;
            exprs(value_column)?;
            self::factor(table)
        }
        TableFactor::Unpivot { table, value, name: _, columns, null_inclusion: _, alias } => {
            query::alias(alias.as_ref())?;
            expr(value)?;
            columns.iter().try_for_each(|ExprWithAlias { expr: column, alias: _ }| expr(column))?;
            self::factor(table)
        }
        other => Err(refused_text("this kind of source in FROM", other)),
    }
}

fn table(factor: &TableFactor) -> Result<()> {
    let TableFactor::Table {
        name: _,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample: _,
        index_hints,
    } = factor
    else {
        return Ok(());
    };
    refuse(&[
        (!with_hints.is_empty(), "WITH (hints) behind a table; leave it out"),
        (
            version.is_some(),
            "a version of a table (AS OF, VERSION, CHANGES); a statement reads what is there when it starts",
        ),
        (*with_ordinality, ORDINALITY),
        (!partitions.is_empty(), "PARTITION (..) behind a table; use WHERE"),
        (json_path.is_some(), "a path into JSON behind a table"),
        (!index_hints.is_empty(), "USE, IGNORE or FORCE INDEX; SET nearside.index_lookups = false has scans use none"),
    ])?;
    query::alias(alias.as_ref())?;
    if let Some(TableFunctionArgs { args, settings }) = args {
        refuse(&[(settings.is_some(), "SETTINGS in the call of a table function")])?;
        function::positional(args)?;
    }
    Ok(())
}

pub(super) fn join(join: &Join) -> Result<()> {
    let Join { relation, global, join_operator } = join;
    refuse(&[(*global, "GLOBAL JOIN; leave GLOBAL out")])?;
    factor(relation)?;
    match join_operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::LeftSemi(on)
        | JoinOperator::RightSemi(on)
        | JoinOperator::LeftAnti(on)
        | JoinOperator::RightAnti(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on) => constraint(on),
        JoinOperator::Semi(_) | JoinOperator::Anti(_) => {
            refuse(&[(true, "SEMI JOIN or ANTI JOIN without a side; write LEFT SEMI JOIN or LEFT ANTI JOIN")])
        }
        JoinOperator::CrossJoin(on) => {
            refuse(&[(!matches!(on, JoinConstraint::None), "CROSS JOIN with ON or USING; use JOIN")])
        }
        JoinOperator::CrossApply | JoinOperator::OuterApply => {
            refuse(&[(true, "CROSS APPLY or OUTER APPLY; use JOIN LATERAL (query) ON true")])
        }
        JoinOperator::AsOf { match_condition: _, constraint: _ } => {
            refuse(&[(true, "ASOF JOIN; join on the range and take the nearest row with row_number()")])
        }
        JoinOperator::StraightJoin(_) => refuse(&[(true, "STRAIGHT_JOIN; use JOIN")]),
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            refuse(&[(true, "ARRAY JOIN; use unnest()")])
        }
    }
}

fn constraint(constraint: &JoinConstraint) -> Result<()> {
    match constraint {
        JoinConstraint::On(condition) => expr(condition),
        JoinConstraint::Using(_) | JoinConstraint::Natural | JoinConstraint::None => Ok(()),
    }
}
