//! [`Template`]: the text or statement that a prepared statement is made from, and of a query the plan that was made
//! last.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion_sql::parser::Statement;
use parking_lot::Mutex;
use sqlparser::ast;

use crate::api::prepared_write::PreparedWrite;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::floats::with_one_nan;
use crate::lower::{LoweredPlan, Slots};
use crate::plan::{headers, planning};
use crate::rewrite::chars::delivered;
use crate::run::config;
use crate::run::outcome::Outcome;
use crate::run::planned::PlannedQuery;
use crate::run::prepare::params;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::sql::{AnyStatement, LockingSelect, normalised, plan_statement};
use crate::statements::locked_select;
use crate::statements::parameters::{fitting, parameter_types};
use crate::statements::transaction::by_keys::ByKeys;

/// A statement that waits for values, as it was written, and of a query the plan that was made last.
#[derive(Debug)]
pub(crate) struct Template {
    source: QuerySource,
    /// What it is if it writes.
    write: Option<PreparedWrite>,
    /// What it is if it locks the rows that it gives.
    locking: Option<Box<LockingSelect>>,
    parameter_types: Vec<Option<DataType>>,
    /// How many of these were declared, in PREPARE name (types): values become of them, whatever they were.
    declared: usize,
    planned: Mutex<Option<(Stamp, Arc<PlannedQuery>)>>,
}

/// What a statement was written as.
#[derive(Debug)]
pub(crate) enum QuerySource {
    /// The statement's text.
    Text(String),
    /// `PREPARE name AS statement`.
    Statement(Box<Statement>),
}

/// What a plan is good for: settings, names and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    /// Which settings it was planned with.
    pub settings: u64,
    /// Which names and columns it was planned with.
    pub ddl_version: u64,
}

impl QuerySource {
    /// How many types of parameters the statement declares.
    fn declared(&self) -> usize {
        match self {
            QuerySource::Statement(statement) => match statement.as_ref() {
                Statement::Statement(inner) => match inner.as_ref() {
                    ast::Statement::Prepare { data_types, .. } => data_types.len(),
                    _ => 0,
                },
                _ => 0,
            },
            QuerySource::Text(_) => 0,
        }
    }

    /// The statement if it writes.
    fn write(&self, running: &RunningStatement) -> Result<Option<PreparedWrite>> {
        match self {
            QuerySource::Text(sql) => match AnyStatement::one(sql)? {
                AnyStatement::Sql(statement) => PreparedWrite::of(&statement, running),
                _ => Ok(None),
            },
            QuerySource::Statement(statement) => PreparedWrite::of(statement, running),
        }
    }

    /// The query's plan over what exists now, and its name if it has one.
    fn plan(&self, running: &RunningStatement) -> Result<(LogicalPlan, Option<String>)> {
        let context = running.plan_context();
        let (plan, name) = match self {
            QuerySource::Text(sql) => (AnyStatement::one(sql)?.plan(&context)?, None),
            // A PREPARE that declares no types is what it names: the planner's would have one type in each place.
            QuerySource::Statement(statement) if let Some((inner, name)) = undeclared(statement) => {
                (plan_statement(inner, &context)?, Some(name))
            }
            QuerySource::Statement(statement) => match plan_statement(Statement::clone(statement), &context)? {
                LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
                    (LogicalPlan::clone(&prepare.input), Some(prepare.name))
                }
                _ => return Err(Error::Internal("a PREPARE planned to something else".into())),
            },
        };
        match plan {
            LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Statement(_) => Err(Error::Unsupported(
                "only queries, INSERT, UPDATE and DELETE can be prepared; run this statement as it is".into(),
            )),
            plan => Ok((delivered(plan, running.planner.config_options())?, name)),
        }
    }
}

/// What a PREPARE without types of parameters names, and its name.
fn undeclared(statement: &Statement) -> Option<(Statement, String)> {
    let Statement::Statement(prepare) = statement else { return None };
    match prepare.as_ref() {
        ast::Statement::Prepare { name, data_types, statement } if data_types.is_empty() => {
            Some((Statement::Statement(statement.clone()), normalised(name.clone())))
        }
        _ => None,
    }
}

impl Template {
    /// Plans a statement for the first time; with its name if it has one.
    ///
    /// # Errors
    /// Wrong SQL, unknown names, a statement of another kind, parameters with gaps.
    pub(crate) fn new(
        source: QuerySource,
        running: &Arc<RunningStatement>,
        settings: u64,
    ) -> Result<(Template, Option<String>)> {
        if let QuerySource::Text(sql) = &source
            && let AnyStatement::Locking(select) = AnyStatement::one(sql)?
        {
            let parameter_types = parameter_types(&[locked_select::plan_of(&select, running)?])?;
            let locking = Some(select);
            let planned = Mutex::default();
            return Ok((Template { source, write: None, locking, parameter_types, declared: 0, planned }, None));
        }
        if let Some(write) = source.write(running)? {
            let parameter_types = write.parameter_types(running)?;
            let declared = write.declared.len();
            let name = write.name.clone();
            let write = Some(write);
            let planned = Mutex::default();
            return Ok((Template { source, write, locking: None, parameter_types, declared, planned }, name));
        }
        let (plan, name) = source.plan(running)?;
        let parameter_types = parameter_types(std::slice::from_ref(&plan))?;
        let declared = source.declared();
        let planned = Mutex::default();
        let template = Template { source, write: None, locking: None, parameter_types, declared, planned };
        template.keep(plan, running, settings)?;
        Ok((template, name))
    }

    /// What it was written as.
    pub(crate) fn text(&self) -> String {
        match &self.source {
            QuerySource::Text(sql) => sql.clone(),
            QuerySource::Statement(statement) => match statement.as_ref() {
                Statement::Statement(inner) => match inner.as_ref() {
                    ast::Statement::Prepare { statement, .. } => statement.to_string(),
                    other => other.to_string(),
                },
                other => other.to_string(),
            },
        }
    }

    /// Names and types of the rows that it gives; `None` where it gives none.
    ///
    /// # Errors
    /// Names that are gone since it was prepared.
    pub(crate) fn columns(&self, running: &Arc<RunningStatement>) -> Result<Option<SchemaRef>> {
        if let Some(write) = &self.write {
            return write.columns(running);
        }
        if let Some(select) = &self.locking {
            return Ok(Some(headers::columns(&locked_select::plan_of(select, running)?)));
        }
        let known = self.planned.lock().as_ref().and_then(|(_, planned)| planned.columns());
        if known.is_some() {
            return Ok(known);
        }
        let plan = self.source.plan(running)?.0;
        let names = headers::names(&plan);
        // Values may be needed to know more; then it has the types that the planner gives it.
        Ok(Some(match planning::analyse(plan.clone(), running.as_ref()) {
            Ok(analysed) => headers::named(analysed.schema().as_arrow(), &names),
            Err(stopped @ (Error::Cancelled | Error::Timeout)) => return Err(stopped),
            Err(_) => headers::columns(&plan),
        }))
    }

    /// The types of `$1`, `$2`, .. as far as the statement tells them.
    pub(crate) fn parameter_types(&self) -> &[Option<DataType>] {
        &self.parameter_types
    }

    /// Runs the statement with these values.
    ///
    /// # Errors
    /// Another number of values than parameters, values that do not fit, what went wrong since it was planned.
    pub(crate) fn start(
        &self,
        values: &[ScalarValue],
        running: Arc<RunningStatement>,
        settings: u64,
    ) -> Result<Outcome> {
        self.count(values)?;
        // As SQL writes it: a client's NaN may have a sign.
        let values: Vec<ScalarValue> = values.iter().cloned().map(with_one_nan).collect();
        match (&self.write, &self.locking) {
            (Some(write), _) => write.run(values, &self.parameter_types, &running, settings),
            (None, Some(select)) => self.start_locking(select, values, &running),
            (None, None) => self.start_query(&values, running, settings).map(Outcome::Rows),
        }
    }

    /// As [`start`](Self::start), as a statement of a transaction, if it writes or reads a row by its key.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn start_by_keys(
        &self,
        values: &[ScalarValue],
        (running, settings): (&Arc<RunningStatement>, u64),
        of: &mut ByKeys<'_>,
    ) -> Result<Option<Outcome>> {
        if values.len() != self.parameter_types.len() {
            return Ok(None);
        }
        let values: Vec<ScalarValue> = values.iter().cloned().map(with_one_nan).collect();
        if self.locking.is_some() {
            return Ok(None);
        }
        if let Some(write) = &self.write {
            let done = write.run_by_keys(values, &self.parameter_types, (running, settings), of)?;
            return Ok(done.map(Outcome::Done));
        }
        let is_plain = |(value, known): (&ScalarValue, &Option<DataType>)| {
            known.as_ref().is_none_or(|data_type| value.data_type() == *data_type)
        };
        let stamp = Stamp { settings, ddl_version: running.catalog.ddl_version };
        match self.planned.lock().clone() {
            Some((of_plan, planned)) if of_plan == stamp && values.iter().zip(&self.parameter_types).all(is_plain) => {
                let read =
                    |index: (u64, usize), key: &[ArrayRef], columns: &[usize]| of.read(index, key, columns, running);
                Ok(planned.start_by_keys(&values, running, &read)?.map(Outcome::Rows))
            }
            _ => Ok(None),
        }
    }

    /// As [`start`](Self::start), if it reads a row by its key and has to wait for nothing; else it has done nothing.
    ///
    /// # Errors
    /// A cancelled statement.
    pub(crate) fn start_at_once(
        &self,
        values: &[ScalarValue],
        running: &RunningStatement,
        settings: u64,
    ) -> Result<Option<ResultStream>> {
        if self.write.is_some() || self.locking.is_some() || values.len() != self.parameter_types.len() {
            return Ok(None);
        }
        let values: Vec<ScalarValue> = values.iter().cloned().map(with_one_nan).collect();
        let is_typed =
            values.iter().zip(&self.parameter_types).all(|(v, known)| known.as_ref() == Some(&v.data_type()));
        let stamp = Stamp { settings, ddl_version: running.catalog.ddl_version };
        match self.planned.lock().clone() {
            Some((of, planned)) if of == stamp && is_typed => planned.start_at_once(&values, running),
            _ => Ok(None),
        }
    }

    /// It is planned for each run, as most statements that write are.
    fn start_locking(
        &self,
        select: &LockingSelect,
        mut values: Vec<ScalarValue>,
        running: &Arc<RunningStatement>,
    ) -> Result<Outcome> {
        for (value, data_type) in values.iter_mut().zip(&self.parameter_types) {
            if let Some(data_type) = data_type
                && value.data_type() != *data_type
                && let Some(fitted) = fitting(value, data_type, false, running)?
            {
                *value = fitted;
            }
        }
        let plan = locked_select::plan_of(select, running)?.with_param_values(params(&values))?;
        locked_select::run(select, plan, running)
    }

    /// The plan of a run with these values, and those that are left to its parameters; of a statement that writes, that
    /// of the rows that it writes.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn lowered(
        &self,
        values: &[ScalarValue],
        running: &Arc<RunningStatement>,
        settings: u64,
    ) -> Result<(LoweredPlan, Slots)> {
        self.count(values)?;
        let values: Vec<ScalarValue> = values.iter().cloned().map(with_one_nan).collect();
        let plan = match (&self.write, &self.locking) {
            (Some(write), _) => Some(write.rows(values.clone(), &self.parameter_types, running)?),
            (None, Some(select)) => {
                let values = self.fitted(&values, running)?.unwrap_or_else(|| values.clone());
                Some(locked_select::plan_of(select, running)?.with_param_values(params(&values))?)
            }
            (None, None) => None,
        };
        if let Some(plan) = plan {
            return Ok((query::prepare(plan, running)?, Slots::new()));
        }
        match self.fitted(&values, running)? {
            Some(values) => self.planned(running, settings)?.lowered_with(&values, running),
            None => Ok((query::prepare(self.replanned(&values, running)?, running)?, Slots::new())),
        }
    }

    /// Whether it writes.
    pub(crate) fn is_write(&self) -> bool {
        self.write.is_some()
    }

    fn start_query(
        &self,
        values: &[ScalarValue],
        running: Arc<RunningStatement>,
        settings: u64,
    ) -> Result<ResultStream> {
        match self.fitted(values, &running)? {
            Some(values) => self.planned(&running, settings)?.start(&values, running),
            None => query::run(self.replanned(values, &running)?, running, false),
        }
    }

    /// The values in the parameters' types; `None` where one is of a type that makes it another statement.
    fn fitted(&self, values: &[ScalarValue], running: &Arc<RunningStatement>) -> Result<Option<Vec<ScalarValue>>> {
        let mut fitted = Vec::with_capacity(values.len());
        for (place, (value, data_type)) in values.iter().zip(&self.parameter_types).enumerate() {
            match data_type {
                Some(data_type) if value.data_type() != *data_type => {
                    match fitting(value, data_type, place < self.declared, running)? {
                        Some(value) => fitted.push(value),
                        None => return Ok(None),
                    }
                }
                _ => fitted.push(value.clone()),
            }
        }
        Ok(Some(fitted))
    }

    /// The statement planned anew, with these values where its parameters stand.
    fn replanned(&self, values: &[ScalarValue], running: &RunningStatement) -> Result<LogicalPlan> {
        Ok(self.source.plan(running)?.0.with_param_values(params(values))?)
    }

    /// # Errors
    /// Another number of values than parameters.
    fn count(&self, values: &[ScalarValue]) -> Result<()> {
        if values.len() == self.parameter_types.len() {
            return Ok(());
        }
        Err(Error::plan(
            SqlState::SyntaxError,
            format!(
                "the statement has {} parameters, and {} values were given",
                self.parameter_types.len(),
                values.len()
            ),
        ))
    }

    fn planned(&self, running: &RunningStatement, settings: u64) -> Result<Arc<PlannedQuery>> {
        let stamp = Stamp { settings, ddl_version: running.catalog.ddl_version };
        let known = self.planned.lock().clone();
        match known {
            Some((of, planned)) if of == stamp && config::nearside(running.planner.config_options()).plan_cache => {
                Ok(planned)
            }
            _ => self.keep(self.source.plan(running)?.0, running, settings),
        }
    }

    fn keep(&self, plan: LogicalPlan, running: &RunningStatement, settings: u64) -> Result<Arc<PlannedQuery>> {
        let stamp = Stamp { settings, ddl_version: running.catalog.ddl_version };
        // Of other types than the client was told, its values go in before anything is made of the types.
        let planned = match parameter_types(std::slice::from_ref(&plan)) {
            Ok(types) if types == self.parameter_types => PlannedQuery::new(plan, types.len(), running)?,
            _ => PlannedQuery::unoptimised(plan),
        };
        let planned = Arc::new(planned);
        // What names system views or files holds their rows as of now, and a plan that was not optimised costs all of
        // its time again.
        *self.planned.lock() = planned.is_optimised().then(|| (stamp, Arc::clone(&planned)));
        Ok(planned)
    }
}
