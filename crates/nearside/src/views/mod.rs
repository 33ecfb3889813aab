//! System views: `nearside.nodes`, `nearside.cpus`, `nearside.links`, `nearside.columns`, `nearside.indexes`,
//! `nearside.pages`, `nearside.memory`, `nearside.placement_changes`, `nearside.workers`, `nearside.thread_groups`,
//! `nearside.statements`, `nearside.tasks`, `nearside.settings`, `nearside.workload`, `nearside.traffic`,
//! `nearside.task_shapes`, `nearside.units`, `nearside.deltas`, `nearside.partitions`, `nearside.routing`,
//! `nearside.balancing`, `nearside.admission`, `nearside.placement_log`, `nearside.advice`,
//! `nearside.durability`.
//!
//! Each is filled when a statement names it, from the machine, the kernel, the scheduler and the catalog as they are
//! then.

mod balancing;
mod constraints;
mod deltas;
mod durability;
mod field;
mod functions;
mod information;
mod memory;
mod pg_catalog;
mod placing;
mod privileges;
mod rows;
mod scheduling;
mod task_shapes;
mod traffic;
mod transactions;
mod workload;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray, UInt32Array};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::config::ConfigEntry;
use datafusion_expr::{ScalarUDF, TableSource};
use numa::counters::{Counter, MemoryCounters};
use numa::{Attributes, NodeId};
use sqlparser::ast;

use crate::catalog::report;
use crate::catalog::{CATALOG, CatalogState, Name};
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::functions::catalog_asked::Answers;
use crate::functions::session;
use crate::plan::planner::Planner;
use crate::plan::system::{Descriptions, OfSession, SystemTables};
use crate::run::client::{self, Shown};
use crate::run::config;
use crate::run::inner::Inner;
use crate::run::stream::ResultStream;
use crate::run::system;
use crate::tables::sources::GivenSource;

const NODES: &str = "nodes";
const CPUS: &str = "cpus";
const LINKS: &str = "links";
const COLUMNS: &str = "columns";
const INDEXES: &str = "indexes";
const PAGES: &str = "pages";
const MEMORY: &str = "memory";
const CHANGES: &str = "placement_changes";
const WORKERS: &str = "workers";
const GROUPS: &str = "thread_groups";
const STATEMENTS: &str = "statements";
const TASKS: &str = "tasks";
const SETTINGS: &str = "settings";
const WORKLOAD: &str = "workload";
const ADMISSION: &str = "admission";
const TRAFFIC: &str = "traffic";
const TASK_SHAPES: &str = "task_shapes";
const UNITS: &str = "units";
const DELTAS: &str = "deltas";
const PARTITIONS: &str = "partitions";
const ROUTING: &str = "routing";
const BALANCING: &str = "balancing";
const PLACEMENT_LOG: &str = "placement_log";
const ADVICE: &str = "advice";
const DURABILITY: &str = "durability";
const TRANSACTIONS: &str = "transactions";

/// The system views of a database.
struct Views(Arc<Inner>);

/// The system views of a database, as the planner asks for them.
pub(crate) fn system_tables(inner: &Arc<Inner>) -> Arc<dyn SystemTables> {
    Arc::new(Views(Arc::clone(inner)))
}

impl SystemTables for Views {
    fn schemas(&self) -> Vec<(&'static str, SchemaRef)> {
        schemas()
    }

    fn view(&self, name: &Name, catalog: &CatalogState, planner: &Planner) -> Result<Arc<dyn TableSource>> {
        system_table(name, &self.0, catalog, planner)
    }

    fn settings(&self, planner: &Planner) -> Result<Arc<dyn TableSource>> {
        Ok(GivenSource::table(RecordBatch::try_new(schema(SETTINGS), settings(&self.0, planner))?))
    }

    fn session_function(&self, name: &str, planner: &Planner, of: &OfSession) -> Option<Arc<ScalarUDF>> {
        let settings = || {
            let full = all_settings(&self.0, planner).into_iter().map(|entry| (entry.key, entry.value));
            let shown = client::all(planner.config_options(), of).into_iter();
            full.chain(shown.map(|shown| (shown.name.to_lowercase(), Some(shown.value)))).collect()
        };
        session::function(name, |asks_for_settings| {
            let settings = if asks_for_settings { settings() } else { Default::default() };
            session::Answers {
                session: of.number,
                user: of.user.clone(),
                session_user: of.session_user.clone(),
                database: CATALOG,
                schemas: of.path.clone(),
                settings,
            }
        })
    }

    fn pg_catalog(
        &self,
        table: &str,
        (all, state): (&Descriptions, &CatalogState),
        planner: &Planner,
        of: &OfSession,
    ) -> Result<Option<Arc<dyn TableSource>>> {
        let (path, system, sessions) = (&of.path, &names(), &|| self.0.sessions.report());
        let made = pg_catalog::Made { state, all, planner, path, system, sessions, user: of.user_id };
        pg_catalog::table(table, &made, || {
            let mut entries = all_settings(&self.0, planner);
            entries.extend(client::all(planner.config_options(), of).into_iter().map(|shown| ConfigEntry {
                key: shown.name.into(),
                value: Some(shown.value),
                description: shown.description,
            }));
            entries.sort_by_key(|entry| entry.key.to_lowercase());
            entries
        })
    }

    fn is_in_pg_catalog(&self, table: &str) -> bool {
        pg_catalog::has(table)
    }

    fn names_in_pg_catalog(&self) -> Vec<&'static str> {
        pg_catalog::names().collect()
    }

    fn answers(&self, state: &Arc<CatalogState>, planner: &Planner, of: &OfSession) -> Arc<dyn Answers> {
        pg_catalog::answers(state, planner, of, names())
    }

    fn information(
        &self,
        view: &str,
        all: (&Descriptions, &CatalogState),
        planner: &Planner,
        of: &OfSession,
    ) -> Result<Option<Arc<dyn TableSource>>> {
        information::table(view, all, (planner, of.user_id))
    }
}

/// Names of all system views.
fn names() -> Vec<&'static str> {
    schemas().into_iter().map(|(name, _)| name).collect()
}

/// Names and columns of all system views.
fn schemas() -> Vec<(&'static str, SchemaRef)> {
    [
        NODES,
        CPUS,
        LINKS,
        COLUMNS,
        INDEXES,
        PAGES,
        MEMORY,
        CHANGES,
        WORKERS,
        GROUPS,
        STATEMENTS,
        TASKS,
        SETTINGS,
        WORKLOAD,
        ADMISSION,
        TRAFFIC,
        TASK_SHAPES,
        UNITS,
        DELTAS,
        PARTITIONS,
        ROUTING,
        BALANCING,
        PLACEMENT_LOG,
        ADVICE,
        DURABILITY,
        TRANSACTIONS,
    ]
    .into_iter()
    .map(|n| (n, schema(n)))
    .collect()
}

fn schema(view: &str) -> SchemaRef {
    let fields = match view {
        NODES => vec![
            field::id("node"),
            field::id("package"),
            field::text("cpus"),
            field::number("memory_bytes"),
            field::flag("usable"),
            field::text("distances"),
            field::number("stored_bytes"),
            field::number("llc_misses"),
            field::number("instructions"),
            field::number("cycles"),
            field::number("memory_read_bytes"),
            field::number("memory_written_bytes"),
        ],
        CPUS => {
            vec![field::id("cpu"), field::id("node"), field::id("package"), field::id("core"), field::flag("usable")]
        }
        LINKS => vec![
            field::id("from_node"),
            field::id("to_node"),
            field::id("distance"),
            field::text("hops"),
            field::decimal("latency_ns"),
            field::decimal("read_bytes_per_second"),
            field::decimal("write_bytes_per_second"),
            field::decimal("copy_bytes_per_second"),
        ],
        COLUMNS => vec![
            field::text("schema"),
            field::text("table"),
            field::text("column"),
            field::text("type"),
            field::text("encoding"),
            field::id("bits"),
            field::number("rows"),
            field::number("segments"),
            field::number("codes_bytes"),
            field::number("dictionary_bytes"),
            field::id("node"),
            field::text("bytes_by_node"),
            field::text("placement"),
            field::number("parts"),
            field::number("index_bytes"),
        ],
        INDEXES => vec![
            field::text("schema"),
            field::text("table"),
            field::text("name"),
            field::text("columns"),
            field::flag("unique"),
            field::text("origin"),
            field::text("indexed_column"),
            field::text("kinds"),
            field::number("segments"),
            field::number("distinct_values"),
            field::number("bytes"),
        ],
        PAGES | MEMORY | CHANGES => memory::fields(view),
        WORKERS | GROUPS | STATEMENTS | TASKS => scheduling::fields(view),
        WORKLOAD => workload::fields(),
        ADMISSION => workload::admission_fields(),
        DURABILITY => durability::fields(),
        TRANSACTIONS => transactions::fields(),
        TRAFFIC => traffic::fields(),
        TASK_SHAPES => task_shapes::fields(),
        UNITS | DELTAS => deltas::fields(view),
        PARTITIONS | ROUTING | BALANCING => balancing::fields(view),
        PLACEMENT_LOG | ADVICE => placing::fields(view),
        _ => vec![field::text("name"), field::text("value"), field::text("description")],
    };
    Arc::new(Schema::new(fields))
}

/// The rows of a system view now.
fn system_table(
    name: &Name,
    inner: &Arc<Inner>,
    catalog: &CatalogState,
    planner: &Planner,
) -> Result<Arc<dyn TableSource>> {
    let columns = match name.table.as_str() {
        NODES => nodes(inner, catalog),
        CPUS => cpus(inner),
        LINKS => links(inner),
        COLUMNS => columns(catalog),
        INDEXES => indexes(catalog),
        PAGES => memory::pages(catalog),
        MEMORY => memory::memory(),
        CHANGES => memory::changes(inner),
        WORKERS => scheduling::workers(inner),
        GROUPS => scheduling::groups(inner),
        STATEMENTS => scheduling::statements(inner),
        TASKS => scheduling::tasks(inner),
        SETTINGS => settings(inner, planner),
        WORKLOAD => workload::workload(inner),
        ADMISSION => workload::admission(inner),
        DURABILITY => durability::durability(inner),
        TRANSACTIONS => transactions::transactions(inner),
        TRAFFIC => traffic::traffic(inner),
        TASK_SHAPES => task_shapes::task_shapes(inner, planner)?,
        UNITS => deltas::units(inner),
        DELTAS => deltas::deltas(catalog),
        PARTITIONS => balancing::partitions(catalog),
        ROUTING => balancing::routing(catalog),
        BALANCING => balancing::balancing(inner),
        PLACEMENT_LOG => placing::log(inner),
        ADVICE => placing::advice(inner),
        other => {
            let views = schemas();
            return Err(Error::NotFound {
                kind: "system view",
                name: name.shown(),
                nearest: nearest(other, views.iter().map(|(n, _)| *n)).map(|n| format!("nearside.{n}")),
            });
        }
    };
    let schema = schema(&name.table);
    Ok(GivenSource::table(RecordBatch::try_new(schema, columns)?))
}

/// `SHOW nearside.name`: the setting and its value.
pub(crate) fn show(variable: &[ast::Ident], inner: &Inner, planner: &Planner) -> Result<ResultStream> {
    let name = config::full_name(&variable.iter().map(|i| i.value.clone()).collect::<Vec<_>>().join("."));
    let entries = all_settings(inner, planner);
    let Some(entry) = entries.iter().find(|e| e.key == name) else {
        let found = nearest(&name, entries.iter().map(|e| e.key.as_str()));
        return Err(Error::NotFound { kind: "setting", name, nearest: found });
    };
    let schema = Arc::new(Schema::new(vec![field::text("name"), field::text("value")]));
    let columns = vec![text(std::iter::once(Some(&entry.key))), text(std::iter::once(entry.value.as_ref()))];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(ResultStream::ready(schema, vec![batch]))
}

/// `SHOW name` of a setting that clients know: its value, under its name.
pub(crate) fn show_client(shown: &Shown) -> Result<ResultStream> {
    let schema = Arc::new(Schema::new(vec![field::text(shown.name)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![text(std::iter::once(Some(&shown.value)))])?;
    Ok(ResultStream::ready(schema, vec![batch]))
}

/// `SHOW ALL`: every setting by its name.
pub(crate) fn show_all(inner: &Inner, planner: &Planner, of: &OfSession) -> Result<ResultStream> {
    let known = all_settings(inner, planner).into_iter().map(|entry| (entry.key, entry.value, entry.description));
    let shown = client::all(planner.config_options(), of).into_iter();
    let shown = shown.map(|shown| (shown.name.to_string(), Some(shown.value), shown.description));
    let mut all: Vec<(String, Option<String>, &str)> = known.chain(shown).collect();
    all.sort_by_key(|(name, ..)| name.to_lowercase());
    let schema = Arc::new(Schema::new(["name", "setting", "description"].map(field::text).to_vec()));
    let columns = vec![
        text(all.iter().map(|(name, ..)| Some(name))),
        text(all.iter().map(|(_, value, _)| value.as_ref())),
        text(all.iter().map(|(.., description)| Some(description))),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(ResultStream::ready(schema, vec![batch]))
}

fn text<S: AsRef<str>>(values: impl Iterator<Item = Option<S>>) -> ArrayRef {
    Arc::new(values.collect::<StringViewArray>())
}

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(values.map(|v| Some(i64::try_from(v).unwrap_or(i64::MAX))).collect::<Int64Array>())
}

/// Counts that are not always known.
fn known_numbers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.map(|v| v.map(|v| i64::try_from(v).unwrap_or(i64::MAX))).collect::<Int64Array>())
}

fn ids(values: impl Iterator<Item = Option<u32>>) -> ArrayRef {
    Arc::new(values.collect::<UInt32Array>())
}

fn decimals(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<Float64Array>())
}

fn flags(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

fn pairs<K: std::fmt::Display, V: std::fmt::Display>(values: impl Iterator<Item = (K, V)>) -> String {
    values.map(|(k, v)| format!("{k}:{v}")).collect::<Vec<_>>().join(" ")
}

fn nodes(inner: &Arc<Inner>, catalog: &CatalogState) -> Vec<ArrayRef> {
    let topology = &inner.topology;
    let nodes = topology.nodes();
    let columns = report::columns(catalog);
    let stored = |node| columns.iter().filter_map(|c| c.bytes_by_node.get(&node)).sum::<u64>();
    let cpus = |n: &numa::Node| n.cpus.iter().map(|c| c.to_string()).collect::<Vec<_>>().join(",");
    let stats = inner.scheduler.stats().nodes;
    let counted = |counter| {
        let of = |n: &numa::Node| stats.iter().find(|s| s.node == n.id)?.counts.get(counter);
        known_numbers(nodes.iter().map(of))
    };
    // Controllers are told by package: what passed them is known of a node that is alone in its own.
    let alone = |n: &numa::Node| nodes.iter().filter(|other| other.package == n.package).count() == 1;
    let controllers = inner.memory_counters.get_or_init(|| MemoryCounters::open(topology));
    let passed = controllers.as_ref().map(MemoryCounters::read).unwrap_or_default();
    let traffic = |n: &numa::Node| passed.iter().find(|t| Some(t.package) == n.package && alone(n));
    vec![
        ids(nodes.iter().map(|n| Some(n.id.0))),
        ids(nodes.iter().map(|n| n.package.map(|p| p.0))),
        text(nodes.iter().map(|n| Some(cpus(n)))),
        numbers(nodes.iter().map(|n| n.memory_bytes)),
        flags(nodes.iter().map(|n| topology.usable_memory_nodes().contains(&n.id))),
        text(nodes.iter().map(|n| Some(pairs(n.distances.iter())))),
        numbers(nodes.iter().map(|n| stored(n.id))),
        counted(Counter::LlcMisses),
        counted(Counter::Instructions),
        counted(Counter::Cycles),
        known_numbers(nodes.iter().map(|n| traffic(n).map(|t| t.read_bytes))),
        known_numbers(nodes.iter().map(|n| traffic(n).map(|t| t.written_bytes))),
    ]
}

fn cpus(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let topology = &inner.topology;
    let cpus = topology.online_cpus();
    let core = |cpu| topology.cores().iter().position(|c| c.cpus.contains(&cpu));
    vec![
        ids(cpus.iter().map(|c| Some(c.0))),
        ids(cpus.iter().map(|c| topology.node_of_cpu(*c).map(|n| n.0))),
        ids(cpus.iter().map(|c| core(*c).and_then(|i| topology.cores()[i].package).map(|p| p.0))),
        ids(cpus.iter().map(|c| core(*c).map(|i| i as u32))),
        flags(cpus.iter().map(|c| topology.usable_cpus().contains(c))),
    ]
}

/// From every node with cpus to every node: what the firmware says, and what was measured where `--machine` gave it.
fn links(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let nodes = inner.topology.nodes();
    let from = nodes.iter().filter(|n| !n.cpus.is_empty());
    let all: Vec<_> = from.flat_map(|f| nodes.iter().map(|t| (f.id, t.id))).collect();
    let figure = |of: fn(&Attributes, NodeId, NodeId) -> Option<f64>| -> ArrayRef {
        let figures = all.iter().map(|(f, t)| inner.attributes.as_ref().and_then(|a| of(a, *f, *t)));
        Arc::new(figures.collect::<Float64Array>())
    };
    vec![
        ids(all.iter().map(|(f, _)| Some(f.0))),
        ids(all.iter().map(|(_, t)| Some(t.0))),
        ids(all.iter().map(|(f, t)| Some(inner.topology.distance(*f, *t)))),
        text(all.iter().map(|(f, t)| inner.topology.hop_class(*f, *t).map(|class| &class.name))),
        figure(Attributes::latency_ns),
        figure(Attributes::read_bytes_per_second),
        figure(Attributes::write_bytes_per_second),
        figure(Attributes::copy_bytes_per_second),
    ]
}

fn columns(catalog: &CatalogState) -> Vec<ArrayRef> {
    let all = report::columns(catalog);
    let majority = |c: &report::ColumnReport| c.bytes_by_node.iter().max_by_key(|(_, b)| **b).map(|(n, _)| n.0);
    vec![
        text(all.iter().map(|c| Some(&c.schema))),
        text(all.iter().map(|c| Some(&c.table))),
        text(all.iter().map(|c| Some(&c.column))),
        text(all.iter().map(|c| Some(&c.data_type))),
        text(all.iter().map(|c| Some(&c.encoding))),
        ids(all.iter().map(|c| c.bits.map(u32::from))),
        numbers(all.iter().map(|c| c.rows)),
        numbers(all.iter().map(|c| c.segments)),
        numbers(all.iter().map(|c| c.codes_bytes)),
        numbers(all.iter().map(|c| c.dictionary_bytes)),
        ids(all.iter().map(majority)),
        text(all.iter().map(|c| Some(pairs(c.bytes_by_node.iter())))),
        text(all.iter().map(|c| Some(&c.placement))),
        numbers(all.iter().map(|c| c.parts)),
        numbers(all.iter().map(|c| c.index_bytes)),
    ]
}

fn indexes(catalog: &CatalogState) -> Vec<ArrayRef> {
    let all = report::indexes(catalog);
    vec![
        text(all.iter().map(|i| Some(&i.schema))),
        text(all.iter().map(|i| Some(&i.table))),
        text(all.iter().map(|i| Some(&i.name))),
        text(all.iter().map(|i| Some(i.columns.join(", ")))),
        flags(all.iter().map(|i| i.unique)),
        text(all.iter().map(|i| Some(i.origin))),
        text(all.iter().map(|i| Some(&i.indexed_column))),
        text(all.iter().map(|i| Some(&i.kinds))),
        numbers(all.iter().map(|i| i.segments)),
        numbers(all.iter().map(|i| i.distinct_values)),
        numbers(all.iter().map(|i| i.bytes)),
    ]
}

/// The session's settings and the database's.
fn all_settings(inner: &Inner, planner: &Planner) -> Vec<ConfigEntry> {
    let mut entries = system::entries(inner);
    entries.extend(config::entries(planner.config_options()));
    entries
}

fn settings(inner: &Inner, planner: &Planner) -> Vec<ArrayRef> {
    let entries = all_settings(inner, planner);
    vec![
        text(entries.iter().map(|e| Some(&e.key))),
        text(entries.iter().map(|e| e.value.as_ref())),
        text(entries.iter().map(|e| Some(e.description))),
    ]
}
