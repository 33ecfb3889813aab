//! Tables, views, indexes and sequences, and their columns.

use super::layout::{Row, Value};
use super::numbers::{INDEX_METHOD, TABLE_METHOD};
use super::types;
use super::world::{Of, Relation, World, acl_value, columns_of, place, places};
use crate::catalog::TableEntry;
use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::lengths::told;
use crate::catalog::pg_types::{innermost, of_field};
use crate::functions::quoting::ident;
use crate::plan::system::Descriptions;
use crate::sql::parts_of_text;

/// The number of `pg_class` itself.
const PG_CLASS: u32 = 1259;

/// `pg_class`.
pub(super) fn pg_class(world: &World<'_>, all: &Descriptions) -> Vec<Row> {
    world.relations().iter().map(|of| class(of, world, all)).collect()
}

/// How many rows there are; -1 where that is not known.
pub(super) fn rows_of(of: &Relation<'_>) -> i64 {
    match of.of {
        // What was written last is not counted, as it is not in PostgreSQL.
        Of::Table(table) | Of::Index(table, _) => table.base.rows() as i64,
        Of::Sequence(_) => 1,
        _ => -1,
    }
}

fn class(of: &Relation<'_>, world: &World<'_>, all: &Descriptions) -> Row {
    let method = match of.of {
        Of::Table(_) => TABLE_METHOD,
        Of::Index(..) => INDEX_METHOD,
        _ => 0,
    };
    let (checks, has_index, has_triggers) = match of.of {
        Of::Table(table) => {
            let is_referred_to = || world.state.tables().any(|other| refers(other, table.id));
            let has_triggers = !table.rules.foreign_keys.is_empty() || is_referred_to();
            (table.rules.checks.len() as i64, !table.indexes.is_empty(), has_triggers)
        }
        _ => (0, false, false),
    };
    let rows = rows_of(of);
    let is_populated = !matches!(of.of, Of::Table(table) if table.is_readable().is_err());
    let persistence = if of.schema.starts_with("pg_temp") { "t" } else { "p" };
    vec![
        ("oid", of.oid.into()),
        ("relname", of.name.into()),
        ("relnamespace", world.numbers.schema(of.schema).into()),
        ("reltype", 0_u32.into()),
        ("reloftype", 0_u32.into()),
        ("relowner", world.state.owner_of(&of.thing()).into()),
        ("relam", method.into()),
        ("relfilenode", of.oid.into()),
        ("reltablespace", 0_u32.into()),
        ("relpages", 0_i64.into()),
        ("reltuples", rows.into()),
        ("relallvisible", 0_i64.into()),
        ("reltoastrelid", 0_u32.into()),
        ("relhasindex", has_index.into()),
        ("relisshared", false.into()),
        ("relpersistence", persistence.into()),
        ("relkind", of.kind().into()),
        ("relnatts", (columns_of(of, all).fields().len() as i64).into()),
        ("relchecks", checks.into()),
        ("relhasrules", ["v", "m"].contains(&of.kind()).into()),
        ("relhastriggers", has_triggers.into()),
        ("relhassubclass", false.into()),
        ("relrowsecurity", false.into()),
        ("relforcerowsecurity", false.into()),
        ("relispopulated", is_populated.into()),
        ("relreplident", if matches!(of.of, Of::Table(_)) { "d" } else { "n" }.into()),
        ("relispartition", false.into()),
        ("relrewrite", 0_u32.into()),
        ("relacl", if matches!(of.of, Of::Index(..)) { Value::Null } else { world.acl(&of.thing()) }),
        ("reloptions", options(of)),
        ("relfrozenxid", Value::Null),
        ("relminmxid", Value::Null),
    ]
}

/// What is said of a view that is written.
fn options(of: &Relation<'_>) -> Value {
    match of.of {
        Of::View(view) => match view.check {
            Some(check) => Value::Texts(vec![format!("check_option={}", check.sql().to_lowercase())]),
            None => Value::Null,
        },
        _ => Value::Null,
    }
}

fn refers(table: &TableEntry, to: u64) -> bool {
    table.rules.foreign_keys.iter().any(|key| key.to == to)
}

/// `pg_attribute`.
pub(super) fn pg_attribute(world: &World<'_>, all: &Descriptions) -> Vec<Row> {
    world.relations().iter().flat_map(|of| attributes(of, world, all)).collect()
}

fn attributes(of: &Relation<'_>, world: &World<'_>, all: &Descriptions) -> Vec<Row> {
    let columns = columns_of(of, all);
    let rights = world.state.rights_to(&of.thing()).filter(|_| !matches!(of.of, Of::Index(..)));
    let acl = |name: &str| acl_value(rights.and_then(|rights| rights.columns.get(name)), world.state);
    let table = match of.of {
        Of::Table(table) => Some(table),
        _ => None,
    };
    let row = |(at, field): (usize, &arrow::datatypes::FieldRef)| {
        let name = field.name();
        let told = of_field(field);
        let known = types::of(told.oid);
        let identity = table.and_then(|table| table.rules.identities.get(name));
        let is_computed = table.is_some_and(|table| table.rules.generated.contains_key(name));
        let has_default = identity.is_none() && table.is_some_and(|table| table.defaults.contains_key(name));
        let is_array = known.is_some_and(|(_, is_array)| is_array);
        let domain = table.and_then(|table| table.rules.domains.get(name));
        let domain = domain.and_then(|rules| world.state.domain_of(rules.id)).map(|(_, domain)| domain.oid());
        vec![
            ("attrelid", of.oid.into()),
            ("attname", name.as_str().into()),
            ("atttypid", domain.unwrap_or(told.oid).into()),
            ("attstattarget", (-1_i64).into()),
            ("attlen", i64::from(told.length).into()),
            ("attnum", (at as i64 + 1).into()),
            ("attndims", i64::from(innermost(field.data_type()).is_some()).into()),
            ("attcacheoff", (-1_i64).into()),
            ("atttypmod", domain.map_or(i64::from(told.modifier), |_| -1).into()),
            ("attbyval", known.is_some_and(|(known, is_array)| known.by_value && !is_array).into()),
            ("attalign", known.map_or("i", |(known, _)| known.align).into()),
            ("attstorage", known.map_or("p", |(known, _)| if is_array { "x" } else { known.storage }).into()),
            ("attcompression", "".into()),
            ("attnotnull", (table.is_some() && !field.is_nullable()).into()),
            ("atthasdef", (has_default || is_computed).into()),
            ("atthasmissing", false.into()),
            ("attidentity", identity.map_or("", |always| if *always { "a" } else { "d" }).into()),
            ("attgenerated", if is_computed { "s" } else { "" }.into()),
            ("attisdropped", false.into()),
            ("attislocal", true.into()),
            ("attinhcount", 0_i64.into()),
            ("attacl", acl(name)),
            ("attcollation", known.map_or(0, |(known, _)| known.collation).into()),
        ]
    };
    columns.fields().iter().enumerate().map(row).collect()
}

/// `pg_attrdef`: defaults, and what computes columns.
pub(super) fn pg_attrdef(world: &World<'_>) -> Vec<Row> {
    let of_table = |table: &std::sync::Arc<TableEntry>| {
        let defaults = table.defaults.iter().filter(|(column, _)| !table.rules.identities.contains_key(*column));
        let defaults = defaults.map(|(column, default)| (column, as_shown(&default.text, world)));
        let computed = table.rules.generated.iter().map(|(column, of)| (column, of.text.to_string()));
        let row = |(column, text): (&String, String)| {
            vec![
                ("oid", world.numbers.default(table, column).into()),
                ("adrelid", world.numbers.table(table).into()),
                ("adnum", place(table, column).into()),
                ("adbin", text.into()),
            ]
        };
        defaults.chain(computed).map(row).collect::<Vec<Row>>()
    };
    world.state.tables().flat_map(of_table).collect()
}

/// A default as PostgreSQL shows it: by `regclass` clients tell columns that are numbered. The sequence has its schema
/// where its name alone would not find it.
fn as_shown(text: &str, world: &World<'_>) -> String {
    let Some(name) = text.strip_prefix("nextval('").and_then(|rest| rest.strip_suffix("')")) else {
        return text.to_string();
    };
    let found = match parts_of_text(&name.replace("''", "'")).as_deref() {
        Ok([name]) => world.named(None, name),
        Ok([schema, name]) => world.named(Some(schema), name),
        _ => None,
    };
    let shown = found.map_or_else(|| name.to_string(), |of| world.shown(&of).replace('\'', "''"));
    format!("nextval('{shown}'::regclass)")
}

/// `pg_index`.
pub(super) fn pg_index(world: &World<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in world.state.tables() {
        for index in table.indexes.iter() {
            let keys = places(table, &index.columns);
            let zeros = Value::Numbers(vec![0; keys.len()]);
            let schema = told(&table.base.schema, &table.lengths);
            let class = |column: &String| {
                let field = schema.field_with_name(column).ok()?;
                Some(i64::from(types::class_of(of_field(field).oid)))
            };
            let classes = index.columns.iter().map(|column| class(column).unwrap_or(0)).collect();
            rows.push(vec![
                ("indexrelid", world.numbers.relation(&table.name.schema, &index.name).into()),
                ("indrelid", world.numbers.table(table).into()),
                ("indnatts", (keys.len() as i64).into()),
                ("indnkeyatts", (keys.len() as i64).into()),
                ("indisunique", (index.unique || index.is_deferrable()).into()),
                ("indnullsnotdistinct", false.into()),
                ("indisprimary", (index.origin == Origin::PrimaryKey).into()),
                ("indisexclusion", false.into()),
                ("indimmediate", (!index.is_deferrable()).into()),
                ("indisclustered", false.into()),
                ("indisvalid", true.into()),
                ("indcheckxmin", false.into()),
                ("indisready", true.into()),
                ("indislive", true.into()),
                ("indisreplident", false.into()),
                ("indkey", Value::Numbers(keys)),
                ("indcollation", zeros.clone()),
                ("indclass", Value::Numbers(classes)),
                ("indoption", zeros),
            ]);
        }
    }
    rows
}

/// The statement that would make an index; the table's name without its schema where that is not needed and `is_short`.
pub(super) fn index_definition(
    table: &std::sync::Arc<TableEntry>,
    index: &IndexEntry,
    world: &World<'_>,
    is_short: bool,
) -> String {
    let unique = if index.unique || index.is_deferrable() { "UNIQUE " } else { "" };
    let columns = index.columns.iter().map(|column| ident(column)).collect::<Vec<_>>().join(", ");
    let of = match is_short {
        true => world.shown_table(table),
        false => format!("{}.{}", ident(&table.name.schema), ident(&table.name.table)),
    };
    format!("CREATE {unique}INDEX {} ON {of} USING btree ({columns})", ident(&index.name))
}

/// `pg_indexes`.
pub(super) fn pg_indexes(world: &World<'_>) -> Vec<Row> {
    let row = |of: &Relation<'_>| match of.of {
        Of::Index(table, index) => Some(vec![
            ("schemaname", of.schema.into()),
            ("tablename", table.name.table.as_str().into()),
            ("indexname", of.name.into()),
            ("indexdef", index_definition(table, index, world, false).into()),
        ]),
        _ => None,
    };
    world.relations().iter().filter_map(row).collect()
}

/// `pg_tables`.
pub(super) fn pg_tables(world: &World<'_>) -> Vec<Row> {
    let row = |of: &Relation<'_>| {
        let (has_indexes, has_triggers) = match of.of {
            Of::Table(table) if table.materialized.is_none() => {
                let is_referred_to = world.state.tables().any(|other| refers(other, table.id));
                (!table.indexes.is_empty(), is_referred_to || !table.rules.foreign_keys.is_empty())
            }
            Of::System("r") => (false, false),
            _ => return None,
        };
        Some(vec![
            ("schemaname", of.schema.into()),
            ("tablename", of.name.into()),
            ("tableowner", world.owner_name(of.schema, of.name).into()),
            ("hasindexes", has_indexes.into()),
            ("hasrules", false.into()),
            ("hastriggers", has_triggers.into()),
            ("rowsecurity", false.into()),
        ])
    };
    world.relations().iter().filter_map(row).collect()
}

/// `pg_views`.
pub(super) fn pg_views(world: &World<'_>) -> Vec<Row> {
    let row = |of: &Relation<'_>| {
        let definition = match of.of {
            Of::View(view) => Value::from(format!("{};", view.sql)),
            Of::System("v") => Value::Null,
            _ => return None,
        };
        Some(vec![
            ("schemaname", of.schema.into()),
            ("viewname", of.name.into()),
            ("viewowner", world.owner_name(of.schema, of.name).into()),
            ("definition", definition),
        ])
    };
    world.relations().iter().filter_map(row).collect()
}

/// `pg_matviews`.
pub(super) fn pg_matviews(world: &World<'_>) -> Vec<Row> {
    let row = |of: &Relation<'_>| {
        let Of::Table(table) = of.of else { return None };
        let query = table.materialized.as_ref()?;
        Some(vec![
            ("schemaname", of.schema.into()),
            ("matviewname", of.name.into()),
            ("matviewowner", world.owner_name(of.schema, of.name).into()),
            ("hasindexes", (!table.indexes.is_empty()).into()),
            ("ispopulated", query.is_populated.into()),
            ("definition", format!("{};", query.sql).into()),
        ])
    };
    world.relations().iter().filter_map(row).collect()
}

/// `pg_sequence`.
pub(super) fn pg_sequence(world: &World<'_>) -> Vec<Row> {
    let row = |of: &Relation<'_>| match of.of {
        Of::Sequence(sequence) => {
            let spec = &sequence.spec;
            Some(vec![
                ("seqrelid", of.oid.into()),
                ("seqtypid", types::by_name(spec.data_type.sql()).unwrap_or(0).into()),
                ("seqstart", spec.start.into()),
                ("seqincrement", spec.increment.into()),
                ("seqmax", spec.max.into()),
                ("seqmin", spec.min.into()),
                ("seqcache", spec.cache.into()),
                ("seqcycle", spec.cycle.into()),
            ])
        }
        _ => None,
    };
    world.relations().iter().filter_map(row).collect()
}

/// `pg_sequences`.
pub(super) fn pg_sequences(world: &World<'_>) -> Vec<Row> {
    let row = |of: &Relation<'_>| match of.of {
        Of::Sequence(sequence) => {
            let spec = &sequence.spec;
            let at = sequence.values.position();
            Some(vec![
                ("schemaname", of.schema.into()),
                ("sequencename", of.name.into()),
                ("sequenceowner", world.owner_name(of.schema, of.name).into()),
                ("data_type", spec.data_type.sql().to_lowercase().into()),
                ("start_value", spec.start.into()),
                ("min_value", spec.min.into()),
                ("max_value", spec.max.into()),
                ("increment_by", spec.increment.into()),
                ("cycle", spec.cycle.into()),
                ("cache_size", spec.cache.into()),
                ("last_value", at.is_called.then_some(at.last).into()),
            ])
        }
        _ => None,
    };
    world.relations().iter().filter_map(row).collect()
}

/// `pg_depend`: which columns sequences belong to.
pub(super) fn pg_depend(world: &World<'_>) -> Vec<Row> {
    let row = |of: &Relation<'_>| {
        let Of::Sequence(sequence) = of.of else { return None };
        let owner = sequence.owner.as_ref()?;
        let table = world.state.by_id(owner.table)?;
        let is_identity = table.rules.identities.contains_key(&owner.column);
        Some(vec![
            ("classid", PG_CLASS.into()),
            ("objid", of.oid.into()),
            ("objsubid", 0_i64.into()),
            ("refclassid", PG_CLASS.into()),
            ("refobjid", world.numbers.table(table).into()),
            ("refobjsubid", place(table, &owner.column).into()),
            ("deptype", if is_identity { "i" } else { "a" }.into()),
        ])
    };
    world.relations().iter().filter_map(row).collect()
}
