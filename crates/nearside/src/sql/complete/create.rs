//! CREATE and ALTER: tables, views, indexes and what stands in their columns.

use sqlparser::ast::{
    self, AlterColumnOperation, AlterTable, AlterTableOperation, CheckConstraint, ColumnDef, ColumnOption,
    ColumnOptionDef, ConstraintCharacteristics, ConstraintReferenceMatchKind, CreateIndex, CreateTable,
    CreateTableOptions, CreateView, DeferrableInitial, ForeignKeyConstraint, HiveDistributionStyle, HiveFormat,
    IndexColumn, NullsDistinctOption, OrderByExpr, OrderByOptions, PrimaryKeyConstraint, SqlOption, TableConstraint,
    UniqueConstraint, ViewColumnDef,
};

use super::expression::{expr, exprs};
use super::{query, refuse, refused, refused_text, types};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::sql::check_option;
use crate::sql::normalised;
use crate::sql::rules::{is_stored, serial};
use crate::sql::table_like::is_mark;

pub(super) fn table(create: &CreateTable) -> Result<()> {
    known_fields(create);
    refuse(&[
        (create.global == Some(true), "GLOBAL of temporary tables; each session has its own"),
        (create.external, "CREATE EXTERNAL TABLE in this form; write STORED AS format LOCATION 'file' behind the name"),
        (create.transient || create.volatile, "TRANSIENT or VOLATILE; leave them out, tables are in memory"),
        (create.dynamic || create.iceberg || create.snapshot, "DYNAMIC, ICEBERG or SNAPSHOT tables; use CREATE TABLE"),
        (create.without_rowid || create.strict, "WITHOUT ROWID or STRICT; leave them out"),
    ])?;
    clauses(create)?;
    of_other_systems(create)?;
    options(&create.table_options)?;
    create.columns.iter().try_for_each(column)?;
    create.constraints.iter().try_for_each(constraint)?;
    one_primary_key(create)?;
    key_columns(create)?;
    create.query.iter().try_for_each(|source| query::query(source))
}

fn one_primary_key(create: &CreateTable) -> Result<()> {
    let of_columns = create.columns.iter().flat_map(|column| column.options.iter());
    let of_columns = of_columns.filter(|option| matches!(option.option, ColumnOption::PrimaryKey(_))).count();
    let of_table = create.constraints.iter().filter(|key| matches!(key, TableConstraint::PrimaryKey(_))).count();
    if of_columns + of_table > 1 {
        return Err(Error::plan(
            SqlState::InvalidTableDefinition,
            format!(
                "table '{}' has {} primary keys; a table has one: write PRIMARY KEY (a, b) for a key of several \
                 columns, and UNIQUE for another key",
                create.name,
                of_columns + of_table
            ),
        ));
    }
    for column in &create.columns {
        let is = |wanted: fn(&ColumnOption) -> bool| column.options.iter().any(|option| wanted(&option.option));
        let is_null = is(|option| matches!(option, ColumnOption::Null));
        if is_null && is(|option| matches!(option, ColumnOption::PrimaryKey(_) | ColumnOption::NotNull)) {
            return Err(Error::plan(
                SqlState::SyntaxError,
                format!(
                    "column '{}' is declared NULL, and its key or NOT NULL does not allow that; leave NULL out",
                    column.name
                ),
            ));
        }
    }
    Ok(())
}

/// The columns of keys are among those that are declared.
fn key_columns(create: &CreateTable) -> Result<()> {
    let declared: Vec<String> = create.columns.iter().map(|column| normalised(column.name.clone())).collect();
    for constraint in &create.constraints {
        let columns = match constraint {
            TableConstraint::PrimaryKey(key) => &key.columns,
            TableConstraint::Unique(key) => &key.columns,
            _ => continue,
        };
        let mut names = columns.iter().filter_map(|column| match &column.column.expr {
            ast::Expr::Identifier(name) => Some(normalised(name.clone())),
            _ => None,
        });
        if let Some(name) = names.find(|name| !declared.contains(name)) {
            let nearest = nearest(&name, declared.iter().map(String::as_str));
            return Err(Error::NotFound { kind: "column", name, nearest });
        }
    }
    Ok(())
}

fn clauses(create: &CreateTable) -> Result<()> {
    let stored = create.file_format.is_some() || create.location.is_some();
    let cut = !matches!(create.hive_distribution, HiveDistributionStyle::NONE)
        || create.partition_by.is_some()
        || create.partition_of.is_some()
        || create.for_values.is_some();
    let spread = create.cluster_by.is_some()
        || create.clustered_by.is_some()
        || create.diststyle.is_some()
        || create.distkey.is_some();
    let ordered = create.order_by.is_some() || create.sortkey.is_some();
    refuse(&[
        (
            stored || create.hive_formats.as_ref().is_some_and(is_format),
            "ROW FORMAT, STORED AS or LOCATION; use CREATE EXTERNAL TABLE or COPY",
        ),
        (
            create.like.is_some() || create.clone.is_some(),
            "CREATE TABLE .. LIKE or CLONE; use CREATE TABLE .. AS SELECT * FROM table LIMIT 0",
        ),
        (create.version.is_some(), "a version of a table; a statement reads what is there when it starts"),
        (create.comment.is_some(), "COMMENT; leave it out"),
        (create.on_commit.is_some() && !create.temporary, "ON COMMIT of a table that is not temporary; leave it out"),
        (create.on_cluster.is_some(), "ON CLUSTER; leave it out"),
        (create.primary_key.is_some(), "PRIMARY KEY behind the columns; write it between the brackets"),
        (ordered, "the order of a stored table; write CREATE TABLE .. AS SELECT .. ORDER BY"),
        (cut, "PARTITION BY, PARTITION OF or SKEWED BY; use WITH (placement = '..')"),
        (spread, "CLUSTER BY, DISTSTYLE or DISTKEY; use WITH (placement = '..')"),
        (create.inherits.is_some(), "INHERITS; name the columns"),
        (create.default_ddl_collation.is_some(), "COLLATE; texts compare by their bytes"),
    ])
}

fn of_other_systems(create: &CreateTable) -> Result<()> {
    let there = [
        create.copy_grants,
        create.require_user,
        create.enable_schema_evolution.is_some(),
        create.change_tracking.is_some(),
        create.data_retention_time_in_days.is_some(),
        create.max_data_extension_time_in_days.is_some(),
        create.with_aggregation_policy.is_some(),
        create.with_row_access_policy.is_some(),
        create.with_storage_lifecycle_policy.is_some(),
        create.with_tags.is_some(),
        create.external_volume.is_some(),
        create.base_location.is_some(),
        create.catalog.is_some(),
        create.catalog_sync.is_some(),
        create.storage_serialization_policy.is_some(),
        create.target_lag.is_some(),
        create.warehouse.is_some(),
        create.refresh_mode.is_some(),
        create.initialize.is_some(),
        create.backup.is_some(),
    ];
    refuse(&[(
        there.contains(&true),
        "an option of another system's tables; leave it out, there is WITH (placement = '..')",
    )])
}

/// Every field of a CREATE TABLE: a parser with one more does not compile until it is dealt with below.
fn known_fields(create: &CreateTable) {
    let CreateTable {
        or_replace: _,
        temporary: _,
        external: _,
        dynamic: _,
        global: _,
        if_not_exists: _,
        transient: _,
        volatile: _,
        iceberg: _,
        snapshot: _,
        name: _,
        columns: _,
        constraints: _,
        hive_distribution: _,
        hive_formats: _,
        table_options: _,
        file_format: _,
        location: _,
        query: _,
        without_rowid: _,
        like: _,
        clone: _,
        version: _,
        comment: _,
        on_commit: _,
        on_cluster: _,
        primary_key: _,
        order_by: _,
        partition_by: _,
        cluster_by: _,
        clustered_by: _,
        inherits: _,
        partition_of: _,
        for_values: _,
        strict: _,
        copy_grants: _,
        enable_schema_evolution: _,
        change_tracking: _,
        data_retention_time_in_days: _,
        max_data_extension_time_in_days: _,
        default_ddl_collation: _,
        with_aggregation_policy: _,
        with_row_access_policy: _,
        with_storage_lifecycle_policy: _,
        with_tags: _,
        external_volume: _,
        base_location: _,
        catalog: _,
        catalog_sync: _,
        storage_serialization_policy: _,
        target_lag: _,
        warehouse: _,
        refresh_mode: _,
        initialize: _,
        require_user: _,
        diststyle: _,
        distkey: _,
        sortkey: _,
        backup: _,
    } = create;
}

/// The parser puts an empty one where nothing was said.
fn is_format(format: &HiveFormat) -> bool {
    let HiveFormat { row_format, serde_properties, storage, location } = format;
    row_format.is_some() || serde_properties.is_some() || storage.is_some() || location.is_some()
}

/// `take_placement` and the planner say which names they know.
fn options(options: &CreateTableOptions) -> Result<()> {
    match options {
        CreateTableOptions::None => Ok(()),
        CreateTableOptions::With(all) => all.iter().try_for_each(|option| match option {
            SqlOption::KeyValue { key: _, value: _ } => Ok(()),
            other => Err(refused_text("this option of WITH", other)),
        }),
        other => Err(refused_text("an option behind the columns (there is WITH (placement = '..'))", other)),
    }
}

pub(super) fn column(column: &ColumnDef) -> Result<()> {
    let ColumnDef { name: _, data_type, options } = column;
    if serial(data_type).is_none() && !is_mark(column) {
        types::of_column(data_type)?;
    }
    options.iter().try_for_each(|ColumnOptionDef { name: _, option }| column_option(option))
}

fn column_option(option: &ColumnOption) -> Result<()> {
    match option {
        ColumnOption::Null | ColumnOption::NotNull => Ok(()),
        ColumnOption::Default(value) => expr(value),
        ColumnOption::PrimaryKey(key) => primary_key(key),
        ColumnOption::Unique(key) => unique(key),
        ColumnOption::ForeignKey(key) => foreign_key(key),
        ColumnOption::Check(condition) => check(condition),
        ColumnOption::Generated {
            generated_as: _,
            sequence_options: _,
            generation_expr,
            generation_expr_mode,
            generated_keyword,
        } => {
            let is_computed = generation_expr.is_some();
            refuse(&[
                (!generated_keyword, "AS behind a column's type; write GENERATED ALWAYS AS (..) STORED"),
                (
                    is_computed && !is_stored(generation_expr_mode.as_ref()),
                    "a computed column that is not stored; write STORED behind it, or compute it in a view",
                ),
            ])?;
            generation_expr.iter().try_for_each(expr)
        }
        ColumnOption::Identity(_) => Err(refused("IDENTITY in this form; write GENERATED BY DEFAULT AS IDENTITY")),
        ColumnOption::Collation(_) | ColumnOption::CharacterSet(_) => {
            Err(refused("COLLATE or CHARACTER SET; texts are Unicode and compare by their bytes"))
        }
        ColumnOption::Comment(_) => Err(refused("COMMENT; leave it out")),
        ColumnOption::OnUpdate(_) => Err(refused("ON UPDATE; set the column in each UPDATE")),
        ColumnOption::OnConflict(_) => Err(refused("ON CONFLICT; use DELETE and INSERT")),
        other => Err(refused_text("this option of a column", other)),
    }
}

fn constraint(constraint: &TableConstraint) -> Result<()> {
    match constraint {
        TableConstraint::Unique(key) => unique(key),
        TableConstraint::PrimaryKey(key) => primary_key(key),
        TableConstraint::ForeignKey(key) => foreign_key(key),
        TableConstraint::Check(condition) => check(condition),
        TableConstraint::Index(_) | TableConstraint::FulltextOrSpatial(_) => {
            Err(refused("INDEX within CREATE TABLE; use CREATE INDEX"))
        }
        TableConstraint::PrimaryKeyUsingIndex(_) | TableConstraint::UniqueUsingIndex(_) => {
            Err(refused("USING INDEX; the key makes an index of its own"))
        }
    }
}

fn foreign_key(key: &ForeignKeyConstraint) -> Result<()> {
    let ForeignKeyConstraint {
        name: _,
        index_name,
        columns: _,
        foreign_table: _,
        referred_columns: _,
        on_delete: _,
        on_update: _,
        match_kind,
        characteristics,
    } = key;
    let is_partial = matches!(match_kind, Some(ConstraintReferenceMatchKind::Partial));
    refuse(&[
        (index_name.is_some(), "the index of a foreign key; leave it out"),
        (is_partial, "MATCH PARTIAL; write MATCH FULL, or leave it out"),
    ])?;
    characteristics.as_ref().map_or(Ok(()), of_key)
}

fn check(of: &CheckConstraint) -> Result<()> {
    let CheckConstraint { name: _, expr: condition, enforced } = of;
    refuse(&[(enforced.is_some(), "ENFORCED or NOT ENFORCED; leave it out, a CHECK is enforced")])?;
    expr(condition)
}

fn primary_key(key: &PrimaryKeyConstraint) -> Result<()> {
    let PrimaryKeyConstraint { name: _, index_name, index_type, columns, index_options, characteristics } = key;
    refuse(&[(
        index_name.is_some() || index_type.is_some() || !index_options.is_empty(),
        "the index of a key; leave it out",
    )])?;
    characteristics.as_ref().map_or(Ok(()), of_key)?;
    columns.iter().try_for_each(key_column)
}

fn unique(key: &UniqueConstraint) -> Result<()> {
    let UniqueConstraint {
        name: _,
        index_name,
        index_type_display: _,
        index_type,
        columns,
        index_options,
        characteristics,
        nulls_distinct,
    } = key;
    let together = matches!(nulls_distinct, NullsDistinctOption::NotDistinct);
    refuse(&[
        (index_name.is_some() || index_type.is_some() || !index_options.is_empty(), "the index of a key; leave it out"),
        (together, "NULLS NOT DISTINCT; rows with a NULL in a key are not compared"),
    ])?;
    characteristics.as_ref().map_or(Ok(()), of_key)?;
    columns.iter().try_for_each(key_column)
}

/// When a key is looked at.
pub(in crate::sql) fn of_key(characteristics: &ConstraintCharacteristics) -> Result<()> {
    let ConstraintCharacteristics { deferrable, initially, enforced } = characteristics;
    if *deferrable == Some(false) && matches!(initially, Some(DeferrableInitial::Deferred)) {
        return Err(Error::syntax("a constraint that is INITIALLY DEFERRED is DEFERRABLE; leave NOT out"));
    }
    refuse(&[(*enforced == Some(false), "NOT ENFORCED; leave the key out")])
}

fn key_column(column: &IndexColumn) -> Result<()> {
    let IndexColumn { column: OrderByExpr { expr: inner, options, with_fill }, operator_class } = column;
    let OrderByOptions { asc, nulls_first } = options;
    // ASC NULLS LAST is how an index is ordered.
    let ordered = *asc == Some(false) || *nulls_first == Some(true) || with_fill.is_some();
    refuse(&[
        (ordered, "DESC or NULLS FIRST in a key; leave them out"),
        (operator_class.is_some(), "an operator class in a key; leave it out"),
    ])?;
    expr(inner)
}

pub(super) fn view(create: &CreateView) -> Result<()> {
    let CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: source,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary: _,
        copy_grants,
        to,
        params,
    } = create;
    refuse(&[
        (*or_alter, "CREATE OR ALTER VIEW; use CREATE OR REPLACE VIEW"),
        (*materialized, "OR REPLACE or TEMPORARY of a MATERIALIZED VIEW; drop it first"),
        (
            *secure || params.is_some() || *copy_grants,
            "SECURE, ALGORITHM, DEFINER or the like of a view; leave them out",
        ),
        (!cluster_by.is_empty() || to.is_some(), "CLUSTER BY or TO of a view; leave them out"),
        (comment.is_some(), "COMMENT; leave it out"),
        (*with_no_schema_binding, "WITH NO SCHEMA BINDING; leave it out, views are planned when they are used"),
        (*if_not_exists, "CREATE VIEW IF NOT EXISTS; use CREATE OR REPLACE VIEW"),
    ])?;
    check_option::of(options)?;
    for ViewColumnDef { name, data_type, options } in columns {
        if data_type.is_some() || options.is_some() {
            return Err(refused_text("a type or an option of a view's column (use CAST in its query)", name));
        }
    }
    query::query(source)
}

/// What `statements::index::create` does not do it refuses itself; here nothing may be overlooked.
pub(super) fn index(create: &CreateIndex) -> Result<()> {
    let CreateIndex {
        name: _,
        table_name: _,
        using: _,
        columns,
        unique: _,
        concurrently: _,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with,
        predicate,
        index_options: _,
        alter_options: _,
    } = create;
    for IndexColumn { column: OrderByExpr { expr: inner, options: _, with_fill: _ }, operator_class: _ } in columns {
        expr(inner)?;
    }
    exprs(with)?;
    predicate.iter().try_for_each(expr)
}

pub(super) fn alter_table(alter: &AlterTable) -> Result<()> {
    // Tables inherit nothing, so ONLY says what is so anyway.
    let AlterTable { name: _, if_exists: _, only: _, operations, location, on_cluster, table_type, end_token: _ } =
        alter;
    refuse(&[
        (location.is_some(), "SET LOCATION; use ALTER TABLE .. SET PLACEMENT"),
        (on_cluster.is_some(), "ON CLUSTER; leave it out"),
        (table_type.is_some(), "ALTER of a table of another kind; use ALTER TABLE"),
    ])?;
    operations.iter().try_for_each(operation)
}

/// Operations that are not named here `ddl::alter_table` refuses.
fn operation(operation: &AlterTableOperation) -> Result<()> {
    match operation {
        AlterTableOperation::AddColumn { column_keyword: _, if_not_exists: _, column_def, column_position } => {
            refuse(&[(column_position.is_some(), "FIRST or AFTER; a new column is the last one")])?;
            column(column_def)
        }
        AlterTableOperation::DropColumn { has_column_keyword: _, column_names: _, if_exists: _, drop_behavior: _ } => {
            Ok(())
        }
        AlterTableOperation::RenameColumn { old_column_name: _, new_column_name: _ } => Ok(()),
        AlterTableOperation::RenameTable { table_name: _ } => Ok(()),
        AlterTableOperation::AlterColumn { column_name: _, op } => match op {
            AlterColumnOperation::SetDefault { value } => expr(value),
            AlterColumnOperation::SetDataType { data_type, using, had_set: _ } => {
                types::of_column(data_type)?;
                using.iter().try_for_each(expr)
            }
            AlterColumnOperation::SetNotNull
            | AlterColumnOperation::DropNotNull
            | AlterColumnOperation::DropDefault => Ok(()),
            // It is read before, where its options are in another order than the parser's.
            AlterColumnOperation::AddGenerated { .. } => {
                refuse(&[(true, "ADD GENERATED beside other operations; use a statement for it")])
            }
        },
        AlterTableOperation::AddConstraint { constraint: of, not_valid } => {
            let is_key = matches!(of, TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_));
            refuse(&[(is_key && *not_valid, "NOT VALID of a key; leave it out, its rows are looked at")])?;
            constraint(of)
        }
        AlterTableOperation::DropConstraint { if_exists: _, name: _, drop_behavior: _ } => Ok(()),
        AlterTableOperation::RenameConstraint { old_name: _, new_name: _ } => Ok(()),
        AlterTableOperation::ValidateConstraint { name: _ } => Ok(()),
        _ => Ok(()),
    }
}
