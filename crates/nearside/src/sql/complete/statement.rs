//! Statements by their kind, and the small ones whole: SET, SHOW, DROP, EXPLAIN, PREPARE, transactions, schemas.

use sqlparser::ast::{
    ContextModifier, DescribeAlias, ExprWithAlias, Lock, LockTableTarget, ObjectType, SchemaName, Set, ShowStatementIn,
    ShowStatementOptions, Statement, UtilityOption,
};

use super::expression::{expr, exprs};
use super::{create, query, refuse, refused, refused_text, types, write};
use crate::error::Result;

pub(super) fn statement(of: &Statement) -> Result<()> {
    match of {
        Statement::Query(inner) => query::query(inner),
        Statement::Insert(insert) => write::insert(insert),
        Statement::Update(update) => write::update(update),
        Statement::Delete(delete) => write::delete(delete),
        Statement::Merge(merge) => write::merge(merge),
        Statement::Truncate(truncate) => write::truncate(truncate),
        Statement::CreateTable(table) => create::table(table),
        Statement::CreateView(view) => create::view(view),
        Statement::CreateIndex(index) => create::index(index),
        Statement::AlterTable(alter) => create::alter_table(alter),
        Statement::Set(inner) => set(inner),
        Statement::Prepare { name: _, data_types, statement: inner } => {
            data_types.iter().try_for_each(types::data_type)?;
            statement(inner)
        }
        Statement::Deallocate { name: _, prepare: _ } => Ok(()),
        Statement::Execute { name: _, parameters, has_parentheses: _, immediate, into, using, output, default } => {
            refuse(&[
                (*immediate, "EXECUTE IMMEDIATE; use PREPARE and EXECUTE"),
                (!into.is_empty(), "EXECUTE .. INTO; leave it out"),
                (*output || *default, "OUTPUT or DEFAULT in EXECUTE; leave them out"),
            ])?;
            let named = using.iter().map(|ExprWithAlias { expr, alias: _ }| expr);
            refuse(&[(!using.is_empty(), "EXECUTE .. USING; write the values into brackets")])?;
            exprs(named.chain(parameters))
        }
        Statement::Lock(Lock { tables, lock_mode: _, nowait: _ }) => tables.iter().try_for_each(|target| {
            let LockTableTarget { name: _, only, has_asterisk } = target;
            refuse(&[(*only || *has_asterisk, "ONLY or * in LOCK TABLE; leave it out, tables have no descendants")])
        }),
        Statement::Explain { .. } | Statement::ExplainTable { .. } => described(of),
        Statement::Drop { .. } => drop_statement(of),
        Statement::CreateSchema { schema_name, if_not_exists: _, with, options, default_collate_spec, clone } => {
            // Whose it is to be, `ddl::create_schema_for` says.
            let (SchemaName::Simple(_) | SchemaName::UnnamedAuthorization(_) | SchemaName::NamedAuthorization(..)) =
                schema_name;
            refuse(&[
                (with.is_some() || options.is_some(), "WITH or OPTIONS of a schema; leave them out"),
                (default_collate_spec.is_some(), "COLLATE; texts compare by their bytes"),
                (clone.is_some(), "CLONE; use CREATE TABLE .. AS for each table"),
            ])
        }
        _ => shown(of),
    }
}

/// `SHOW ..`, transactions, and statements that whoever runs or plans them refuses with a sentence of their own.
fn shown(of: &Statement) -> Result<()> {
    match of {
        Statement::ShowVariable { variable: _ } => Ok(()),
        Statement::ShowFunctions { filter: _ } => Ok(()),
        Statement::ShowCreate { obj_type: _, obj_name: _ } => Ok(()),
        Statement::ShowColumns { extended: _, full: _, show_options: inner } => show_options(inner, true),
        Statement::ShowTables { terse, history, extended, full, external, show_options: inner } => {
            let more = *terse || *history || *extended || *full || *external;
            refuse(&[(more, "SHOW FULL TABLES or the like; query information_schema.tables")])?;
            show_options(inner, false)
        }
        // `transactions` reads all of them, and refuses what it does not do.
        Statement::StartTransaction { .. } | Statement::Commit { .. } | Statement::Rollback { .. } => Ok(()),
        Statement::Savepoint { name: _ } | Statement::ReleaseSavepoint { name: _ } => Ok(()),
        // `ddl` refuses them, and says what there is instead.
        Statement::CreateDatabase { .. } | Statement::CreateFunction(_) | Statement::DropFunction(_) => Ok(()),
        Statement::CreateDomain(_) | Statement::DropDomain(_) => {
            Err(refused("CREATE or DROP DOMAIN; give columns its type, with NOT NULL, DEFAULT and CHECK"))
        }
        Statement::CreateCollation(_) | Statement::AlterCollation(_) => {
            Err(refused("CREATE or ALTER COLLATION; texts compare by their bytes, or without case by COLLATE NOCASE"))
        }
        Statement::CreateMacro { .. } => Err(refused("CREATE MACRO; write what it stands for where it is called")),
        other => Err(refused_text("this statement", other)),
    }
}

fn show_options(options: &ShowStatementOptions, has_table: bool) -> Result<()> {
    let ShowStatementOptions { show_in, starts_with, limit, limit_from, filter_position } = options;
    let cut = starts_with.is_some() || limit.is_some() || limit_from.is_some() || filter_position.is_some();
    refuse(&[(cut, "LIKE, WHERE or LIMIT of SHOW; query information_schema")])?;
    match show_in {
        Some(ShowStatementIn { clause: _, parent_type, parent_name: _ }) => refuse(&[
            (!has_table, "SHOW TABLES FROM; query information_schema.tables"),
            (parent_type.is_some(), "the kind of what SHOW COLUMNS is about; give the table's name only"),
        ]),
        None => Ok(()),
    }
}

fn described(of: &Statement) -> Result<()> {
    match of {
        Statement::Explain {
            describe_alias,
            analyze,
            verbose,
            query_plan,
            estimate,
            statement: inner,
            format,
            options,
        } => {
            let describes = !matches!(describe_alias, DescribeAlias::Explain);
            let options = options.iter().flatten().map(|UtilityOption { name: _, arg: _ }| ()).count() > 0;
            refuse(&[
                (describes && (*analyze || *verbose), "ANALYZE or VERBOSE of DESCRIBE; use EXPLAIN"),
                (*query_plan || *estimate, "QUERY PLAN or ESTIMATE of EXPLAIN; leave them out"),
                (
                    format.is_some() || options,
                    "FORMAT or other options of EXPLAIN; leave them out, the plan comes as rows",
                ),
            ])?;
            statement(inner)
        }
        Statement::ExplainTable { describe_alias, hive_format, has_table_keyword: _, table_name: _ } => {
            let explains = matches!(describe_alias, DescribeAlias::Explain);
            refuse(&[
                (explains, "EXPLAIN of a table; use DESCRIBE"),
                (hive_format.is_some(), "EXTENDED or FORMATTED of DESCRIBE; query nearside.columns"),
            ])
        }
        other => Err(refused_text("this statement", other)),
    }
}

fn drop_statement(of: &Statement) -> Result<()> {
    let Statement::Drop { object_type, if_exists: _, names, cascade, restrict: _, purge, temporary, table: _ } = of
    else {
        return Ok(());
    };
    let several = matches!(object_type, ObjectType::Table | ObjectType::View | ObjectType::Index);
    let cascades = matches!(object_type, ObjectType::Table | ObjectType::View | ObjectType::Schema);
    // RESTRICT is what DROP does anyway: it fails where something depends.
    refuse(&[
        // `statements::index::drop_index` says so itself.
        (names.len() > 1 && !several, "DROP of several at once; use a statement for each"),
        (*cascade && !cascades, "CASCADE of this DROP; leave it out"),
        (*purge, "PURGE; leave it out"),
        (*temporary, "DROP TEMPORARY; leave TEMPORARY out"),
    ])
}

fn set(of: &Set) -> Result<()> {
    match of {
        Set::SingleAssignment { scope, hivevar, variable, values } => {
            let elsewhere = matches!(scope, Some(ContextModifier::Global));
            let is_list =
                ["datestyle", "search_path"].iter().any(|name| variable.to_string().eq_ignore_ascii_case(name));
            refuse(&[
                (elsewhere, "SET GLOBAL; write ALTER SYSTEM SET"),
                (*hivevar, "SET HIVEVAR; leave HIVEVAR out"),
                (values.len() != 1 && !is_list, "SET to several values; write one text"),
            ])?;
            exprs(values)
        }
        Set::SetTimeZone { local: _, value } => expr(value),
        Set::SetNames { charset_name: _, collation_name } => {
            refuse(&[(collation_name.is_some(), "COLLATE in SET NAMES; leave it out, texts compare by their bytes")])
        }
        // As BEGIN and COMMIT.
        Set::SetTransaction { modes: _, snapshot: _, session: _ } => Ok(()),
        other => Err(refused_text("this form of SET", other)),
    }
}
