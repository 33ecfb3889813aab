//! [`PreparedWrite`]: an INSERT, UPDATE or DELETE that waits for values.
//!
//! What writes one row by its key, or a new one, is planned once ([`KeptWrite`]). Each run of another statement, or
//! with values of other types, plans it anew and puts the values into the plan, as if they stood in the text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::TreeNode;
use datafusion_expr::{DmlStatement, Expr, LogicalPlan, Projection, Statement as PlanStatement, WriteOp};
use datafusion_sql::parser::Statement;
use parking_lot::Mutex;
use sqlparser::ast;

use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::plan::headers;
use crate::rewrite::chars::delivered;
use crate::run::config;
use crate::run::outcome::{Done, Outcome};
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, plan_statement, take_conflict, take_returning};
use crate::statements::dml::is_delete;
use crate::statements::kept::{KeptWrite, PlannedWrite};
use crate::statements::parameters::{fitting, parameter_types, with_type, with_values};
use crate::statements::transaction::by_keys::ByKeys;
use crate::statements::written_views::WrittenView;
use crate::statements::{conflict, dml, returning, write};

/// A statement that writes, as it was written.
#[derive(Debug)]
pub(crate) struct PreparedWrite {
    statement: Statement,
    /// What PREPARE named it.
    pub name: Option<String>,
    /// The types that PREPARE declares for the first parameters.
    pub declared: Vec<DataType>,
    kept: Mutex<Option<Kept>>,
}

/// What is kept from one run to the next: for which settings, names and columns, and the write, if it is of the kind.
type Kept = ((u64, u64), Option<Arc<KeptWrite>>);

impl PreparedWrite {
    /// The statement of a text, or within a PREPARE, if it writes.
    ///
    /// # Errors
    /// Types that there are not.
    pub(crate) fn of(statement: &Statement, running: &RunningStatement) -> Result<Option<PreparedWrite>> {
        let Statement::Statement(outer) = statement else { return Ok(None) };
        let ast::Statement::Prepare { name: _, data_types: _, statement: inner } = outer.as_ref() else {
            let statement = Statement::clone(statement);
            return Ok(writes(outer).then(|| PreparedWrite::new(statement, None, Vec::new())));
        };
        if !writes(inner) {
            return Ok(None);
        }
        let (name, declared) = declaration(outer, running)?;
        let statement = Statement::Statement(inner.clone());
        Ok(Some(PreparedWrite::new(statement, Some(name), declared)))
    }

    fn new(statement: Statement, name: Option<String>, declared: Vec<DataType>) -> PreparedWrite {
        PreparedWrite { statement, name, declared, kept: Mutex::default() }
    }

    /// The types of `$1`, `$2`, ..: those declared; else of the columns that they are written to or compared with, as
    /// far as the statement tells.
    ///
    /// # Errors
    /// Wrong SQL, unknown names, parameters with gaps.
    pub(crate) fn parameter_types(&self, running: &Arc<RunningStatement>) -> Result<Vec<Option<DataType>>> {
        let dml = self.planned(running)?;
        let table = running.catalog.table(&running.resolve(&dml.table_name)?)?;
        let mut plan = Arc::unwrap_or_clone(dml.input);
        if matches!(dml.op, WriteOp::Insert(_)) {
            one_column_type_each(&plan)?;
            plan = with_written_types(plan, &table.base.schema)?;
        }
        let mut plans = vec![plan];
        if let Some(conflict) = take_conflict(&mut self.statement.clone())? {
            plans.extend(
                conflict::update_plan(table, &conflict, self.view(running)?.as_ref(), running)?.map(|(plan, _)| plan),
            );
        }
        if let Some(returning) = take_returning(&mut self.statement.clone()) {
            plans.push(returning::planned(&returning, self.view(running)?.as_ref(), running)?);
        }
        let mut types = parameter_types(&plans)?;
        types.resize(types.len().max(self.declared.len()), None);
        for (known, declared) in types.iter_mut().zip(&self.declared) {
            *known = Some(declared.clone());
        }
        Ok(types)
    }

    /// Names and types of what RETURNING gives, where it has one.
    ///
    /// # Errors
    /// Those of the list.
    pub(crate) fn columns(&self, running: &RunningStatement) -> Result<Option<SchemaRef>> {
        let Some(returning) = take_returning(&mut self.statement.clone()) else { return Ok(None) };
        let view = self.view(running)?;
        Ok(Some(headers::columns(&delivered(
            returning::planned(&returning, view.as_ref(), running)?,
            running.planner.config_options(),
        )?)))
    }

    /// The view that it writes, if it writes one.
    fn view(&self, running: &RunningStatement) -> Result<Option<Arc<WrittenView>>> {
        WrittenView::of(&self.statement, running)
    }

    /// Runs it with these values, of which `types` says what they should be.
    ///
    /// # Errors
    /// Values that do not fit; otherwise those of the statement.
    pub(crate) fn run(
        &self,
        mut values: Vec<ScalarValue>,
        types: &[Option<DataType>],
        running: &Arc<RunningStatement>,
        settings: u64,
    ) -> Result<Outcome> {
        self.fit(&mut values, types, running)?;
        if let Some(kept) = self.kept(types, running, settings)?
            && let Some(done) = kept.run(&values, running)?
        {
            return Ok(Outcome::Done(done));
        }
        let dml = self.planned(running)?;
        dml::dml(self.statement.clone(), dml, &values, running)
    }

    /// The plan of the rows that it writes with these values.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn rows(
        &self,
        mut values: Vec<ScalarValue>,
        types: &[Option<DataType>],
        running: &Arc<RunningStatement>,
    ) -> Result<LogicalPlan> {
        self.fit(&mut values, types, running)?;
        let dml = self.planned(running)?;
        let table = running.catalog.table(&running.resolve(&dml.table_name)?)?;
        let schema = Arc::clone(&table.base.schema);
        let written = matches!(dml.op, WriteOp::Insert(_)) || dml.op == WriteOp::Update && !is_delete(&self.statement);
        with_values(Arc::unwrap_or_clone(dml.input), &values, written.then_some((&dml.op, &schema)))
    }

    /// As [`run`](Self::run), as a statement of a transaction, if it writes a row by its key.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn run_by_keys(
        &self,
        mut values: Vec<ScalarValue>,
        types: &[Option<DataType>],
        (running, settings): (&Arc<RunningStatement>, u64),
        of: &mut ByKeys<'_>,
    ) -> Result<Option<Done>> {
        let Some(kept) = self.kept(types, running, settings)? else { return Ok(None) };
        self.fit(&mut values, types, running)?;
        kept.run_by_keys(&values, running, of)
    }

    /// Makes values those of the parameters' types, where they fit.
    fn fit(
        &self,
        values: &mut [ScalarValue],
        types: &[Option<DataType>],
        running: &Arc<RunningStatement>,
    ) -> Result<()> {
        for (place, (value, data_type)) in values.iter_mut().zip(types).enumerate() {
            let is_declared = place < self.declared.len();
            if let Some(data_type) = data_type
                && value.data_type() != *data_type
                && let Some(fitted) = fitting(value, data_type, is_declared, running)?
            {
                *value = fitted;
            }
        }
        Ok(())
    }

    /// The write, where it is of a kind that is planned once.
    fn kept(
        &self,
        types: &[Option<DataType>],
        running: &Arc<RunningStatement>,
        settings: u64,
    ) -> Result<Option<Arc<KeptWrite>>> {
        if !config::nearside(running.planner.config_options()).plan_cache {
            return Ok(None);
        }
        let stamp = (settings, running.catalog.ddl_version);
        let mut kept = self.kept.lock();
        match &*kept {
            Some((of, write)) if *of == stamp => Ok(write.clone()),
            _ => {
                let write = self.to_keep(types, running)?.map(Arc::new);
                *kept = Some((stamp, write.clone()));
                Ok(write)
            }
        }
    }

    fn to_keep(&self, types: &[Option<DataType>], running: &Arc<RunningStatement>) -> Result<Option<KeptWrite>> {
        let Some(types) = types.iter().cloned().collect::<Option<Vec<DataType>>>() else { return Ok(None) };
        if take_returning(&mut self.statement.clone()).is_some() || self.view(running)?.is_some() {
            return Ok(None);
        }
        let dml = self.planned(running)?;
        let table = running.catalog.table(&running.resolve(&dml.table_name)?)?;
        let mut input = Arc::unwrap_or_clone(dml.input);
        if matches!(dml.op, WriteOp::Insert(_)) {
            input = with_written_types(input, &table.base.schema)?;
        }
        let conflict = take_conflict(&mut self.statement.clone())?;
        let deletes = dml::is_delete(&self.statement);
        let planned = PlannedWrite { op: &dml.op, deletes, input: &input, conflict: conflict.as_ref(), types: &types };
        write::check_assignments(&self.statement)?;
        KeptWrite::of(&planned, table, running)
    }

    fn planned(&self, running: &RunningStatement) -> Result<DmlStatement> {
        match dml::plan_of(self.statement.clone(), running)? {
            LogicalPlan::Dml(dml) if dml.op != WriteOp::Ctas => Ok(dml),
            _ => Err(Error::Internal("a statement that writes planned to something else".into())),
        }
    }
}

fn writes(statement: &ast::Statement) -> bool {
    matches!(statement, ast::Statement::Insert(_) | ast::Statement::Update(_) | ast::Statement::Delete(_))
}

/// The name that a PREPARE gives, and the types that it declares.
fn declaration(prepare: &ast::Statement, running: &RunningStatement) -> Result<(String, Vec<DataType>)> {
    let AnyStatement::Sql(query) = AnyStatement::one("PREPARE p AS SELECT 1")? else {
        return Err(Error::Internal("a PREPARE was parsed as something else".into()));
    };
    let mut query = *query;
    if let Statement::Statement(inner) = &mut query
        && let ast::Statement::Prepare { name, data_types, .. } = inner.as_mut()
        && let ast::Statement::Prepare { name: given, data_types: declared, .. } = prepare
    {
        *name = given.clone();
        *data_types = declared.clone();
    }
    match plan_statement(query, &running.plan_context())? {
        LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
            Ok((prepare.name, prepare.fields.iter().map(|field| field.data_type().clone()).collect()))
        }
        _ => Err(Error::Internal("a PREPARE planned to something else".into())),
    }
}

/// Refuses a parameter that VALUES gives to columns of several types: the planner knows of the last of them only.
fn one_column_type_each(plan: &LogicalPlan) -> Result<()> {
    let mut types: HashMap<&str, &DataType> = HashMap::new();
    let mut node = plan;
    while let LogicalPlan::Projection(Projection { input, .. }) = node {
        node = input;
    }
    let LogicalPlan::Values(values) = node else { return Ok(()) };
    for (value, field) in values.values.iter().flat_map(|row| row.iter().zip(values.schema.fields())) {
        let value = match value {
            Expr::Cast(cast) => cast.expr.as_ref(),
            other => other,
        };
        let Expr::Placeholder(parameter) = value else { continue };
        let known = *types.entry(&parameter.id).or_insert(field.data_type());
        if known != field.data_type() {
            let first = sql_type(known);
            let second = sql_type(field.data_type());
            let name = &parameter.id;
            return Err(Error::plan(
                SqlState::AmbiguousParameter,
                format!(
                    "parameter {name} is written to columns of the types {first} and {second}; cast it where it \
                     stands, or use two parameters"
                ),
            ));
        }
    }
    Ok(())
}

/// An INSERT's rows, in which parameters that are outputs of the query by themselves have the type of their column.
fn with_written_types(plan: LogicalPlan, schema: &SchemaRef) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(written) = &plan else { return Ok(plan) };
    let LogicalPlan::Projection(query) = written.input.as_ref() else { return Ok(plan) };
    let mut outputs = query.expr.clone();
    for (expr, field) in written.expr.iter().zip(schema.fields()) {
        let mut column = expr;
        while let Expr::Alias(_) | Expr::Cast(_) = column {
            column = match column {
                Expr::Alias(alias) => &alias.expr,
                Expr::Cast(cast) => &cast.expr,
                other => other,
            };
        }
        if let Expr::Column(column) = column
            && let Some(place) = query.schema.maybe_index_of_column(column)
            && let Some(output) = outputs.get_mut(place)
        {
            let of_parameter = |part: Expr| with_type(part, field);
            if matches!(output.clone().unalias(), Expr::Placeholder(_)) {
                *output = output.clone().transform_up(of_parameter)?.data;
            }
        }
    }
    let query = LogicalPlan::Projection(Projection::try_new(outputs, Arc::clone(&query.input))?);
    Ok(LogicalPlan::Projection(Projection::try_new(written.expr.clone(), Arc::new(query))?))
}
