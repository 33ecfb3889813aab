//! What a server needs of a session beside statements: what it is told of settings, of prepared statements and of
//! types, and rows that a client sends for a table.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use chrono::Utc;
use datafusion_common::{DFSchema, ScalarValue, TableReference};
use datafusion_expr::{Expr, ExprSchemable};
use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, visit_expressions};

use crate::api::parsed::key as parsed_key;
use crate::api::prepared::{QuerySource, Template};
use crate::api::session::{Prepared, Session, label, not_on_a_worker, told_of};
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::functions::reading::read_one;
use crate::plan::system::OfSession;
use crate::run::outcome::{Done, Outcome};
use crate::run::prepare::constants;
use crate::run::statement::RunningStatement;
use crate::run::{client, config};
use crate::sql::{AnyStatement, CursorStatement};
use crate::statements::{allowed, copy, types};

/// A table by its name, in a schema or in the one that names without one are looked up in; as they are, without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The schema, if one is named.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
}

impl TableName {
    fn reference(&self) -> TableReference {
        match &self.schema {
            Some(schema) => TableReference::partial(schema.as_str(), self.table.as_str()),
            None => TableReference::bare(self.table.as_str()),
        }
    }
}

impl Session {
    /// Which of the process's sessions it is, as `pg_backend_pid()` says; never 0 or less.
    pub fn number(&self) -> i32 {
        self.shared.number
    }

    /// A number that is another one once a setting of the session has changed.
    pub fn settings_version(&self) -> u64 {
        self.planner().1
    }

    /// A setting that clients of PostgreSQL know, as SHOW shows it, whatever state the transaction is in; `None` for
    /// others, and for those of the transaction.
    pub fn client_setting(&self, name: &str) -> Option<String> {
        let is_of_transaction = name.to_lowercase().starts_with("transaction_");
        let planner = self.planner().0;
        let who = planner.who();
        let state = self.inner.catalog.state();
        let role = |id: u32| state.roles().by_id(id).map_or_else(String::new, |(name, _)| name.to_string());
        let of = OfSession {
            number: self.shared.number,
            user: role(who.user),
            session_user: role(who.session),
            user_id: who.user,
            role: if who.user == who.session { "none".into() } else { role(who.user) },
            is_superuser: state.roles().is_superuser(who.user),
            path: Vec::new(),
            level: String::new(),
            is_read_only: false,
            started: Utc::now(),
        };
        let shown = client::shown(name, planner.config_options(), &of)?;
        (!is_of_transaction).then_some(shown.value)
    }

    /// As [`Session::prepare`], with the types of the parameters as far as a client declares them. What neither it nor
    /// the statement tells is a text, where the statement takes one.
    ///
    /// # Errors
    /// As there. `SELECT .. FOR UPDATE` knows its types itself.
    pub fn prepare_as(&self, sql: &str, declared: &[Option<DataType>]) -> Result<Prepared> {
        let template = Cell::new(None);
        self.carry_out("PREPARE", None, &|running, settings| {
            // Drivers send a text anew for each run.
            let key = parsed_key(sql, declared, running, settings);
            let known = self.shared.parsed.0.get(&key);
            template.set(Some(match known {
                Some(known) => known,
                None => {
                    let made = Arc::new(prepared_as(sql, declared, running, settings)?);
                    if config::nearside(running.planner.config_options()).plan_cache {
                        self.shared.parsed.0.put(key, Arc::clone(&made));
                    }
                    made
                }
            }));
            Ok(Outcome::Done(Done::new("PREPARE")))
        })?;
        let template = template.take().ok_or_else(|| Error::Internal("a statement that was not prepared".into()))?;
        Ok(Prepared { session: self.clone(), template })
    }

    /// Whether [`prepare_as`](Self::prepare_as) knows the statement, so that it waits for nothing.
    pub fn is_parsed(&self, sql: &str, declared: &[Option<DataType>]) -> bool {
        if self.transaction().is_some() {
            return false;
        }
        let (running, settings) = self.started("");
        self.shared.parsed.0.get(&parsed_key(sql, declared, &running, settings)).is_some()
    }

    /// Has the session's transaction fail, if it has one that goes on: what a client was told has failed was part of
    /// it.
    pub fn fail_transaction(&self) {
        let open = self.shared.transaction.0.lock().clone();
        if let Some(transaction) = open {
            transaction.state.lock().has_failed = true;
            transaction.open.set_failed(true);
        }
    }

    /// The statement that PREPARE has given a name.
    pub fn prepared(&self, name: &str) -> Option<Prepared> {
        let template = self.shared.prepared.lock().get(name).cloned()?;
        Some(Prepared { session: self.clone(), template })
    }

    /// The query of a DECLARE, whose parameters have values when it runs; `None` for other statements.
    pub fn declared_query(&self, sql: &str) -> Option<String> {
        match AnyStatement::one(sql).ok()? {
            AnyStatement::Cursor(CursorStatement::Declare(declared)) => Some(declared.sql),
            _ => None,
        }
    }

    /// Runs a DECLARE whose query, [prepared](Self::declared_query), has these values.
    ///
    /// # Errors
    /// As [`Session::run`] and [`Prepared::run`].
    pub fn declare_with(&self, sql: &str, query: &Prepared, values: &[ScalarValue]) -> Result<Outcome> {
        not_on_a_worker()?;
        self.inner.statements.count(|| {
            self.carry_out(&label(sql), None, &|running, settings| {
                told_of(running, || sql.to_string());
                let parsed = AnyStatement::one(sql)?;
                allowed::check(&parsed, running)?;
                let AnyStatement::Cursor(of) = parsed else {
                    return Err(Error::Internal("a DECLARE that is none".into()));
                };
                self.cursor(of, |_, _| query.template.start(values, Arc::clone(running), settings))
            })
        })
    }

    /// The value of a text, read as SQL's `CAST('text' AS type)` does.
    ///
    /// # Errors
    /// A text that is no value of the type.
    pub fn value_of(&self, text: &str, to: &DataType) -> Result<ScalarValue> {
        if to.is_string() {
            return Ok(ScalarValue::Utf8View(Some(text.into())).cast_to(to)?);
        }
        // Times of a zone are read by the session's settings; spans by the rewriting of casts.
        if !matches!(to, DataType::Timestamp(_, Some(_)) | DataType::Interval(_)) {
            return read_one(text, to);
        }
        let running = self.running();
        let written = Expr::Literal(ScalarValue::Utf8View(Some(text.into())), None);
        let values = constants(vec![written.cast_to(to, &DFSchema::empty())?], &running)?;
        values.into_iter().next().ok_or_else(|| Error::Internal("a text without a value".into()))
    }

    /// Names and types of the columns of a table that rows of a client go to, in order; all where none are named.
    ///
    /// # Errors
    /// Unknown names, one that stands twice.
    pub fn columns_to_fill(&self, table: &TableName, columns: &[String]) -> Result<SchemaRef> {
        let found = Cell::new(None);
        self.carry_out("COPY", None, &|running, _| {
            let name = running.resolve(&table.reference())?;
            found.set(Some(copy::columns_to_fill(&name, columns, running)?));
            Ok(Outcome::Done(Done::new("COPY")))
        })?;
        found.take().map(Arc::new).ok_or_else(|| Error::Internal("a table without columns".into()))
    }

    /// Adds rows to a table as one statement; texts are read as the types of their columns. Returns how many.
    ///
    /// # Errors
    /// Unknown names, values that do not fit, constraints; otherwise as [`Session::run`].
    pub fn append(&self, table: &TableName, columns: &[String], batches: &[RecordBatch]) -> Result<u64> {
        not_on_a_worker()?;
        let outcome = self.carry_out("COPY", None, &|running, _| {
            let name = running.resolve(&table.reference())?;
            copy::append_batches(&name, columns, batches.to_vec(), running).map(Outcome::Done)
        })?;
        match outcome {
            Outcome::Done(done) => Ok(done.rows.unwrap_or(0)),
            Outcome::Rows(_) => Err(Error::Internal("rows of a COPY".into())),
        }
    }
}

impl Prepared {
    /// As [`Prepared::run`], if it reads a row by its key and has to wait for nothing; else it has done nothing. So who
    /// serves many sessions on few threads needs no other one for it.
    ///
    /// # Errors
    /// As there.
    pub fn run_at_once(&self, values: &[ScalarValue]) -> Result<Option<Outcome>> {
        let session = &self.session;
        if session.transaction().is_some() || !session.shared.on_commit.is_empty() || !session.runs_by_itself() {
            return Ok(None);
        }
        not_on_a_worker()?;
        session.may_work()?;
        let (running, settings) = session.started("");
        if running.rows_left().is_some() {
            return Ok(None);
        }
        running.take_turn()?;
        told_of(&running, || self.template.text());
        let Some(rows) = self.template.start_at_once(values, &running, settings)? else { return Ok(None) };
        session.inner.statements.count(|| Ok(Some(Outcome::Rows(rows))))
    }

    /// The same statement, run by this session: a [part](Session::part) of the one that has prepared it.
    pub fn run_by(&self, session: &Session) -> Prepared {
        Prepared { session: session.clone(), template: Arc::clone(&self.template) }
    }

    /// Names and types of the rows that the statement gives; `None` where it gives none.
    ///
    /// # Errors
    /// Names that are gone since it was prepared.
    pub fn columns(&self) -> Result<Option<SchemaRef>> {
        let found = Cell::new(None);
        self.session.carry_out("PREPARE", None, &|running, _| {
            found.set(self.template.columns(running)?);
            Ok(Outcome::Done(Done::new("PREPARE")))
        })?;
        Ok(found.take())
    }
}

/// The statement with types that are declared, told by itself, or those of texts.
fn prepared_as(
    sql: &str,
    declared: &[Option<DataType>],
    running: &Arc<RunningStatement>,
    settings: u64,
) -> Result<Template> {
    let plain = Template::new(QuerySource::Text(sql.to_string()), running, settings).map(|(template, _)| template);
    let types: Vec<DataType> = match &plain {
        Ok(template) => {
            let inferred = template.parameter_types();
            let is_known = |(place, inferred): (usize, &Option<DataType>)| match declared.get(place) {
                // A text that is declared is one, whatever the statement would make of it.
                Some(Some(declared)) => inferred.as_ref() == Some(declared) && !declared.is_string(),
                _ => inferred.is_some(),
            };
            if inferred.iter().enumerate().all(is_known) {
                return plain;
            }
            let cast = types_of_casts(sql, running)?;
            let of = |(place, inferred): (usize, &Option<DataType>)| {
                let declared = declared.get(place).cloned().flatten();
                let told = declared.or_else(|| inferred.clone()).or_else(|| cast.get(&place).cloned());
                told.unwrap_or(DataType::Utf8View)
            };
            inferred.iter().enumerate().map(of).collect()
        }
        // It may be that its types were all that was missing.
        Err(_) => {
            let cast = types_of_casts(sql, running)?;
            let count = declared.len().max(cast.keys().max().map_or(0, |last| last + 1));
            let of = |place: usize| declared.get(place).cloned().flatten().or_else(|| cast.get(&place).cloned());
            match (0..count).map(of).collect::<Option<Vec<_>>>() {
                Some(types) if !types.is_empty() => types,
                _ => return plain,
            }
        }
    };
    let names = types.iter().map(sql_type).collect::<Vec<_>>().join(", ");
    match AnyStatement::one(&format!("PREPARE nearside_prepared ({names}) AS {sql}")) {
        Ok(AnyStatement::Sql(statement)) => {
            let typed = Template::new(QuerySource::Statement(statement), running, settings);
            // What a statement says by itself is about its own text.
            typed.map(|(template, _)| template).or(plain)
        }
        _ => plain,
    }
}

/// The types that parameters are cast to where they stand, `$1::int`, by their places from 0. One that is cast to
/// several has none by that.
fn types_of_casts(sql: &str, running: &Arc<RunningStatement>) -> Result<HashMap<usize, DataType>> {
    let Ok(AnyStatement::Sql(statement)) = AnyStatement::one(sql) else { return Ok(HashMap::new()) };
    let Statement::Statement(statement) = *statement else { return Ok(HashMap::new()) };
    let mut found: HashMap<usize, Option<DataType>> = HashMap::new();
    let walked = visit_expressions(&*statement, |expression| {
        let ast::Expr::Cast { expr, data_type, .. } = expression else { return ControlFlow::Continue(()) };
        let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) = expr.as_ref() else {
            return ControlFlow::Continue(());
        };
        let Some(place) = name.trim_start_matches('$').parse::<usize>().ok().and_then(|n| n.checked_sub(1)) else {
            return ControlFlow::Continue(());
        };
        let text = data_type.to_string();
        let parsed = match text.eq_ignore_ascii_case("oid") {
            true => Ok(DataType::UInt32),
            false => types::parse(&text, running),
        };
        match parsed {
            Ok(data_type) => {
                let known = found.entry(place).or_insert_with(|| Some(data_type.clone()));
                known.take_if(|known| *known != data_type);
                ControlFlow::Continue(())
            }
            // Who plans the statement says what is wrong with it.
            Err(stopped @ (Error::Cancelled | Error::Timeout)) => ControlFlow::Break(stopped),
            Err(_) => ControlFlow::Continue(()),
        }
    });
    match walked {
        ControlFlow::Break(stopped) => Err(stopped),
        ControlFlow::Continue(()) => Ok(found.into_iter().filter_map(|(place, of)| Some((place, of?))).collect()),
    }
}
