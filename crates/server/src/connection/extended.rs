//! The extended protocol: statements and portals by their names.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use futures::FutureExt;
use nearside::pg_types::{self as types, Declared, VOID};
use nearside::{Done, Outcome, Position, Prepared, ScalarValue, Session};

use super::outs::without_outs;
use super::rows::{Rows, Sent, columns_of};
use super::transactions::in_failed;
use super::{Connection, Failure, Result};
use crate::fault::{Fault, codes};
use crate::statement::Kind;
use crate::values::read::Parameter;
use crate::wire::Format;
use crate::wire::frontend::{Bind, Frontend, Parse, Target};

/// How many statements and portals with names a connection may have.
const NAMED_MAX: usize = 4096;
/// What is said of what a message has prepared, where DEALLOCATE names it.
pub(super) const DEALLOCATED: &str = "DEALLOCATE";

/// A prepared statement.
pub struct Statement {
    sql: String,
    kind: Kind,
    /// Of what a session prepares.
    prepared: Option<Prepared>,
    parameters: Vec<Parameter>,
    columns: Columns,
}

/// What is known of a statement's rows.
#[derive(Debug, Clone)]
enum Columns {
    /// It gives none.
    None,
    /// It gives these.
    Known(SchemaRef),
    /// Who runs it sees them; running it twice does no harm.
    WhenRun,
}

/// A statement with values.
pub struct Portal {
    statement: Arc<Statement>,
    values: Vec<ScalarValue>,
    formats: Vec<Format>,
    state: State,
}

enum State {
    New,
    /// Rows are left.
    Open(Box<Rows>),
    /// All is done; true where it gave rows.
    Done(bool),
}

/// What a session tells of a statement.
struct Told {
    prepared: Option<Prepared>,
    parameters: Vec<Parameter>,
    columns: Columns,
}

impl Connection {
    /// Works on a message of the extended protocol.
    pub(super) async fn extended(&mut self, message: Frontend) -> Result<()> {
        match message {
            Frontend::Parse(parse) => self.parse(parse).await,
            Frontend::Bind(bind) => self.bind(bind),
            Frontend::Describe(Target::Statement, name) => self.describe_statement(&name).await,
            Frontend::Describe(Target::Portal, name) => self.describe_portal(&name).await,
            Frontend::Execute(name, rows) => self.execute(&name, rows).await,
            Frontend::Close(Target::Statement, name) => {
                self.statements.remove(&name);
                self.output.empty(b'3');
                Ok(())
            }
            Frontend::Close(Target::Portal, name) => {
                self.portals.remove(&name);
                self.output.empty(b'3');
                Ok(())
            }
            _ => Err(Fault::new(codes::INTERNAL_ERROR, "a message of the simple protocol").into()),
        }
    }

    /// What belongs together ends.
    pub(super) async fn sync(&mut self) -> Result<()> {
        self.skips = false;
        self.has_executed = false;
        match self.commit_implicit().await {
            Err(Failure::Fault(fault)) => self.failed(&fault, None).await?,
            done => done?,
        }
        if self.session.transaction().is_none() {
            self.portals.clear();
        }
        self.ready().await
    }

    async fn parse(&mut self, parse: Parse) -> Result<()> {
        let Parse { name, sql, types } = parse;
        let mut start = Position { line: 1, column: 1 };
        match self.parse_text(name, &sql, &types, &mut start).await {
            Err(Failure::Fault(fault)) => {
                // What is not planned is never run, so it has its span here.
                self.begin_trace(&sql);
                let failed = Err(fault.placed(&sql, start).into());
                self.end_trace(&failed);
                failed
            }
            done => done,
        }
    }

    /// Has `start` be where the statement begins.
    async fn parse_text(&mut self, name: String, sql: &str, types: &[u32], start: &mut Position) -> Result<()> {
        if !name.is_empty() {
            if self.statements.contains_key(&name) {
                let message = format!("prepared statement \"{name}\" already exists");
                return Err(Fault::new(codes::DUPLICATE_PREPARED_STATEMENT, message).into());
            }
            check_limit(self.statements.len(), "prepared statements")?;
        }
        self.statements.remove("");
        let mut pieces = self.pieces(sql).await?;
        if pieces.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Fault::new(codes::SYNTAX_ERROR, message).into());
        }
        let sql = pieces.pop().map_or_else(String::new, |piece| {
            *start = piece.start;
            piece.sql
        });
        let sql = without_outs(&sql, types)?.into_owned();
        let outs: Vec<bool> = types.iter().map(|of| *of == VOID).collect();
        let types: Vec<u32> = types.iter().copied().filter(|of| *of != VOID).collect();
        let types = types.as_slice();
        let kind = Kind::of(&sql)?;
        self.check_usable(&kind)?;
        let told = match kind == Kind::Query && self.session.is_parsed(&sql, &declared(types)?) {
            true => told_of(&self.session, &sql, &kind, types)?,
            false => {
                let (text, of, types) = (sql.clone(), kind.clone(), types.to_vec());
                self.blocking(move |session| told_of(session, &text, &of, &types)).await??
            }
        };
        let Told { prepared, mut parameters, columns } = told;
        for place in outs.iter().enumerate().filter_map(|(place, is_out)| is_out.then_some(place)) {
            parameters.insert(place.min(parameters.len()), Parameter::out());
        }
        let statement = Statement { sql, kind, prepared, parameters, columns };
        self.statements.insert(name, Arc::new(statement));
        self.output.empty(b'1');
        Ok(())
    }

    /// Fails where a transaction has failed that the statement does not end.
    fn check_usable(&self, kind: &Kind) -> Result<()> {
        match self.session.transaction() == Some(false) && !kind.ends_failed() && *kind != Kind::Empty {
            true => Err(in_failed()),
            false => Ok(()),
        }
    }

    fn statement(&self, name: &str) -> Result<Arc<Statement>> {
        match self.statements.get(name) {
            Some(statement) => Ok(Arc::clone(statement)),
            None => {
                let message = match name {
                    "" => "unnamed prepared statement does not exist".to_string(),
                    name => format!("prepared statement \"{name}\" does not exist"),
                };
                Err(Fault::new(codes::INVALID_SQL_STATEMENT_NAME, message).into())
            }
        }
    }

    fn portal(&mut self, name: &str) -> Result<&mut Portal> {
        self.portals
            .get_mut(name)
            .ok_or_else(|| Fault::new(codes::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist")).into())
    }

    fn bind(&mut self, bind: Bind) -> Result<()> {
        let statement = self.statement(&bind.statement)?;
        self.check_usable(&statement.kind)?;
        if !bind.portal.is_empty() {
            if self.portals.contains_key(&bind.portal) {
                let message = format!("cursor \"{}\" already exists", bind.portal);
                return Err(Fault::new(codes::DUPLICATE_CURSOR, message).into());
            }
            check_limit(self.portals.len(), "portals")?;
        }
        let (found, expected) = (bind.values.len(), statement.parameters.len());
        if found != expected {
            let message = format!(
                "bind message supplies {found} parameters, but prepared statement \"{}\" requires {expected}",
                bind.statement
            );
            return Err(Fault::new(codes::PROTOCOL_VIOLATION, message).into());
        }
        let format = |place: usize| match bind.formats.as_slice() {
            [] => Format::Text,
            [one] => *one,
            each => each.get(place).copied().unwrap_or(Format::Text),
        };
        let mut values = Vec::new();
        let each = statement.parameters.iter().zip(&bind.values).enumerate();
        for (place, (parameter, bytes)) in each.filter(|(_, (parameter, _))| !parameter.is_out()) {
            let value = parameter.value(bytes.as_deref(), format(place), &self.session).map_err(|fault| {
                let name = if bind.portal.is_empty() {
                    "unnamed portal".into()
                } else {
                    format!("portal \"{}\"", bind.portal)
                };
                Fault { context: Some(format!("{name} parameter ${}", place + 1).into()), ..fault }
            });
            values.push(value?);
        }
        let columns = match &statement.columns {
            Columns::Known(schema) => Some(schema.fields().len()),
            Columns::None => Some(0),
            Columns::WhenRun => None,
        };
        let formats = bind.result_formats;
        if formats.len() > 1 && columns.is_some_and(|columns| columns != formats.len()) {
            let message = format!(
                "bind message has {} result formats but query has {} columns",
                formats.len(),
                columns.unwrap_or(0)
            );
            return Err(Fault::new(codes::PROTOCOL_VIOLATION, message).into());
        }
        self.portals.insert(bind.portal, Portal { statement, values, formats, state: State::New });
        self.output.empty(b'2');
        Ok(())
    }

    async fn describe_statement(&mut self, name: &str) -> Result<()> {
        let statement = self.statement(name)?;
        let oids: Vec<u32> = statement.parameters.iter().map(|parameter| parameter.oid).collect();
        self.output.parameters(&oids);
        self.describe(&statement, &[]).await
    }

    async fn describe_portal(&mut self, name: &str) -> Result<()> {
        // A cursor that DECLARE made is a portal, too.
        if !self.portals.contains_key(name)
            && let Some(schema) = self.session.cursor_columns(name)
        {
            self.output.columns(&columns_of(&schema, &[])?);
            return Ok(());
        }
        let portal = self.portal(name)?;
        let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
        self.describe(&statement, &formats).await
    }

    async fn describe(&mut self, statement: &Statement, formats: &[Format]) -> Result<()> {
        self.check_usable(&statement.kind)?;
        let schema = match &statement.columns {
            Columns::None => None,
            Columns::Known(schema) => Some(Arc::clone(schema)),
            Columns::WhenRun => {
                let sql = statement.sql.clone();
                match self.blocking(move |session| session.run(&sql)).await?? {
                    Outcome::Rows(rows) => Some(Arc::clone(rows.schema())),
                    Outcome::Done(_) => None,
                }
            }
        };
        match schema {
            Some(schema) => self.output.columns(&columns_of(&schema, formats)?),
            None => self.output.empty(b'n'),
        }
        Ok(())
    }

    /// Runs a portal for so many rows, 0 for all.
    async fn execute(&mut self, name: &str, most: u32) -> Result<()> {
        if self.shared.traces.is_some()
            && let Some(portal) = self.portals.get(name)
        {
            let statement = Arc::clone(&portal.statement);
            self.begin_trace(&statement.sql);
        }
        let done = self.execute_portal(name, most).await;
        self.end_trace(&done);
        done
    }

    async fn execute_portal(&mut self, name: &str, most: u32) -> Result<()> {
        // The portal may be one of those that the statement ends.
        let portal = self.portal(name)?;
        let state = std::mem::replace(&mut portal.state, State::Done(false));
        let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
        let kind = &statement.kind;
        self.check_usable(kind)?;
        let most = if most == 0 { u64::MAX } else { u64::from(most) };
        let (mut rows, written) = match state {
            State::Done(true) => {
                self.portal(name)?.state = State::Done(true);
                self.output.complete(&kind.tag_of_rows(0));
                return Ok(());
            }
            State::Done(false) => {
                let message = format!("portal \"{name}\" cannot be run anymore");
                return Err(Fault::new(codes::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
            }
            State::Open(rows) => (rows, None),
            State::New => {
                let is_alone = self.is_alone();
                self.has_executed = true;
                let values = std::mem::take(&mut self.portal(name)?.values);
                match self.start(&statement, values, is_alone).await? {
                    Started::Rows(stream) => {
                        let told = match &statement.columns {
                            Columns::Known(schema) => Some(schema),
                            _ => None,
                        };
                        let written = stream.written().cloned();
                        (Box::new(Rows::new(*stream, told, &formats, &self.session)?), written)
                    }
                    Started::Done(tag) => {
                        self.output.complete(&tag);
                        return Ok(());
                    }
                    Started::Empty => {
                        self.output.empty(b'I');
                        return Ok(());
                    }
                }
            }
        };
        let sent = self.send(&mut rows, most).await?;
        let portal = self.portals.get_mut(name);
        match sent {
            Sent::Some => {
                if let Some(portal) = portal {
                    portal.state = State::Open(rows);
                }
                self.output.empty(b's');
            }
            Sent::All(sent) => {
                self.trace.rows(sent);
                if let Some(portal) = portal {
                    portal.state = State::Done(true);
                }
                self.output.complete(&written.map_or_else(|| kind.tag_of_rows(sent), |done| kind.tag_of(&done)));
            }
        }
        Ok(())
    }

    /// Whether the statement that comes is all that there is up to the next Sync.
    fn is_alone(&mut self) -> bool {
        if self.has_executed {
            return false;
        }
        if self.input.peek().is_none() {
            // It may be here by now. An end of the connection shows when it is read the next time.
            let _ = self.input.fill().now_or_never();
        }
        self.input.peek() == Some(b'S')
    }

    async fn start(&mut self, statement: &Statement, values: Vec<ScalarValue>, is_alone: bool) -> Result<Started> {
        let kind = &statement.kind;
        if let Some(done) = self.begin(kind, is_alone).await? {
            return Ok(Started::Done(kind.tag_of(&done)));
        }
        let outcome = match (kind, &statement.prepared) {
            (Kind::Empty, _) => return Ok(Started::Empty),
            (Kind::Copy(copy), _) => return Ok(Started::Done(self.copy(copy, is_alone).await?)),
            (kind, _) if self.gives_up(kind) => return Ok(Started::Done(DEALLOCATED.into())),
            (Kind::Query, Some(prepared)) => match prepared.run_at_once(&values)? {
                Some(outcome) => outcome,
                None => {
                    let prepared = prepared.clone();
                    self.blocking(move |_| prepared.run(&values)).await??
                }
            },
            // A DECLARE, whose query was prepared.
            (Kind::Other(_), Some(query)) => {
                let (sql, query) = (statement.sql.clone(), query.clone());
                self.blocking(move |session| session.declare_with(&sql, &query, &values)).await??
            }
            _ => {
                let sql = statement.sql.clone();
                self.blocking(move |session| session.run(&sql)).await??
            }
        };
        self.trace.started();
        Ok(match outcome {
            Outcome::Rows(stream) => Started::Rows(Box::new(stream)),
            Outcome::Done(done) => {
                self.forget_with(&done);
                self.trace.rows(done.rows.unwrap_or(0));
                Started::Done(kind.tag_of(&done))
            }
        })
    }

    /// Gives up a statement that a message has prepared, where DEALLOCATE names it; what PREPARE has named is the
    /// session's affair. They have one name space in PostgreSQL, and drivers give up in the one way what they have
    /// prepared in the other.
    pub(super) fn gives_up(&mut self, kind: &Kind) -> bool {
        match kind {
            Kind::Deallocate(name) if self.session.transaction() != Some(false) => {
                self.statements.remove(name).is_some()
            }
            _ => false,
        }
    }

    /// Forgets all that messages have prepared, where a statement gives up all that is prepared.
    pub(super) fn forget_with(&mut self, done: &Done) {
        if ["DEALLOCATE ALL", "DISCARD ALL"].contains(&done.tag.as_str()) {
            self.statements.clear();
        }
    }
}

/// What came of a statement.
enum Started {
    Rows(Box<nearside::ResultStream>),
    /// What the client is told.
    Done(String),
    Empty,
}

fn check_limit(count: usize, what: &str) -> Result<()> {
    match count < NAMED_MAX {
        true => Ok(()),
        false => Err(Fault::new(codes::LIMIT_EXCEEDED, format!("a connection has {NAMED_MAX} {what} at most")).into()),
    }
}

/// Prepares a statement, as far as its kind is prepared. Blocks.
fn told_of(session: &Session, sql: &str, kind: &Kind, types: &[u32]) -> Result<Told, Fault> {
    let without = |columns: Columns| Told { prepared: None, parameters: Vec::new(), columns };
    Ok(match kind {
        Kind::Query => return told_of_query(session, sql, types),
        Kind::Execute(name) => match session.prepared(name) {
            Some(prepared) => without(prepared.columns()?.map_or(Columns::None, Columns::Known)),
            // Who runs it says that there is none.
            None => without(Columns::None),
        },
        Kind::Other(word) if word == "fetch" => {
            without(session.fetched_columns(sql).map_or(Columns::None, Columns::Known))
        }
        Kind::Other(word) if word == "declare" => match session.declared_query(sql) {
            Some(query) => {
                let told = told_of_query(session, &query, types)?;
                match told.parameters.is_empty() {
                    true => without(Columns::None),
                    false => Told { columns: Columns::None, ..told },
                }
            }
            None => without(Columns::None),
        },
        Kind::Other(word) if ["show", "explain", "describe", "desc"].contains(&word.as_str()) => {
            without(Columns::WhenRun)
        }
        _ => without(Columns::None),
    })
}

/// The types that a client declares, as far as it does. Unknown numbers are refused before anything is planned.
fn declared(types: &[u32]) -> Result<Vec<Option<DataType>>, Fault> {
    let of = |oid: &u32| {
        Parameter::of(*oid, None)?;
        Ok(match types::declared(*oid) {
            Some(Declared::Type(data_type)) => Some(data_type),
            _ => None,
        })
    };
    types.iter().map(of).collect()
}

fn told_of_query(session: &Session, sql: &str, types: &[u32]) -> Result<Told, Fault> {
    let prepared = session.prepare_as(sql, &declared(types)?)?;
    if calls_set_config(sql) && prepared.parameter_types().is_empty() {
        let columns = prepared.columns()?.map_or(Columns::None, Columns::Known);
        return Ok(Told { prepared: None, parameters: Vec::new(), columns });
    }
    let parameter = |(place, inferred): (usize, &Option<DataType>)| {
        Parameter::of(types.get(place).copied().unwrap_or(0), inferred.as_ref())
    };
    let parameters = prepared.parameter_types().iter().enumerate().map(parameter).collect::<Result<Vec<_>, Fault>>()?;
    let columns = prepared.columns()?.map_or(Columns::None, Columns::Known);
    Ok(Told { prepared: Some(prepared), parameters, columns })
}

/// `SELECT .., set_config('name', 'value', false)`, which a session runs from its text.
fn calls_set_config(sql: &str) -> bool {
    crate::tokens::Tokens::new(sql).any(|placed| placed.token.is("set_config"))
}
