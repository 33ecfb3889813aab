//! [`Planner`]: what statements are planned with: functions, rules and settings.
//!
//! One is kept for all sessions, and a session that changes a setting has one of its own; they share functions and
//! rules. It answers DataFusion's SQL planner and optimiser; nothing of it executes anything.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion_common::alias::AliasGenerator;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result as DfResult, plan_datafusion_err};
use datafusion_expr::planner::ExprPlanner;
use datafusion_expr::registry::FunctionRegistry;
use datafusion_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion_functions::core::planner::CoreFunctionPlanner;
use datafusion_functions::datetime::planner::DatetimeFunctionPlanner;
use datafusion_functions::unicode::planner::UnicodeFunctionPlanner;
use datafusion_functions_aggregate::planner::AggregateFunctionPlanner;
use datafusion_functions_nested::planner::{FieldAccessPlanner, NestedFunctionPlanner};
use datafusion_functions_window::planner::WindowFunctionPlanner;
use datafusion_optimizer::{AnalyzerRule, OptimizerRule};

use crate::catalog::roles::FIRST;
use crate::error::Result;
use crate::functions::any_of_list;
use crate::functions::arguments;
use crate::functions::arrays;
use crate::functions::asked;
use crate::functions::bins;
use crate::functions::bytes;
use crate::functions::calendar;
use crate::functions::catalog_asked;
use crate::functions::checked;
use crate::functions::clock;
use crate::functions::domains;
use crate::functions::enums;
use crate::functions::flat;
use crate::functions::idents;
use crate::functions::json;
use crate::functions::like_escape;
use crate::functions::matches;
use crate::functions::numbers;
use crate::functions::overlaps;
use crate::functions::parts;
use crate::functions::patterns;
use crate::functions::round;
use crate::functions::sequences;
use crate::functions::session;
use crate::functions::sleep;
use crate::functions::spelled;
use crate::functions::templates;
use crate::functions::truncation;
use crate::functions::uuids;
use crate::functions::{quoting, ranks};
use crate::functions::{whole_rows, zones};
use crate::rewrite::choices;
use crate::rewrite::coerce;
use crate::rewrite::literals;
use crate::rewrite::optimizer;
use crate::rewrite::set_types;
use crate::rewrite::{casts, numerics};

/// Functions by name; those with aliases stand under each of their names.
pub(crate) type ByName<F> = HashMap<String, Arc<F>>;

/// A rule that gives a plan its types and meaning.
pub(crate) type MeaningRule = Arc<dyn AnalyzerRule + Send + Sync>;

/// A rule that makes a plan cheaper.
pub(crate) type CostRule = Arc<dyn OptimizerRule + Send + Sync>;

/// As whom statements run: the numbers of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    /// The session's, by SET SESSION AUTHORIZATION or as it has logged in.
    pub session: u32,
    /// The current one, by SET ROLE: the one that has to be allowed what is done.
    pub user: u32,
}

/// What statements are planned with.
#[derive(Clone)]
pub(crate) struct Planner {
    options: Arc<ConfigOptions>,
    scalars: Arc<ByName<ScalarUDF>>,
    higher_order: Arc<ByName<HigherOrderUDF>>,
    aggregates: Arc<ByName<AggregateUDF>>,
    windows: Arc<ByName<WindowUDF>>,
    expressions: Arc<[Arc<dyn ExprPlanner>]>,
    analyzer: Arc<[MeaningRule]>,
    optimizer: Arc<[CostRule]>,
    aliases: Arc<AliasGenerator>,
    who: Who,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

impl Planner {
    /// With these settings, all rules and all functions: ours stand in the place of DataFusion's of the same name.
    pub(crate) fn new(options: ConfigOptions) -> Planner {
        let mut scalars = datafusion_functions::all_default_functions();
        scalars.extend(datafusion_functions_nested::all_default_nested_functions());
        scalars.extend(any_of_list::functions());
        scalars.extend(arrays::functions());
        scalars.extend(json::functions());
        scalars.extend(enums::functions());
        scalars.extend(patterns::functions());
        scalars.extend(matches::functions());
        scalars.extend(bytes::functions());
        scalars.extend(spelled::functions());
        scalars.extend(uuids::functions());
        scalars.extend(clock::functions());
        scalars.extend(templates::functions());
        scalars.extend(calendar::functions());
        scalars.extend(numbers::functions());
        scalars.extend(domains::functions());
        scalars.extend(asked::functions());
        scalars.extend(catalog_asked::functions());
        scalars.extend([arguments::function(), like_escape::function(), overlaps::function(), sleep::function()]);
        scalars.extend(quoting::functions());
        scalars.push(idents::function());
        scalars.extend(session::functions());
        scalars.extend(sequences::functions());
        scalars.extend(choices::functions());
        scalars.extend(
            [
                flat::function(),
                set_types::function(),
                casts::function(),
                numerics::function(),
                round::function(),
                parts::function(),
                truncation::function(),
                bins::function(),
                zones::function(),
                whole_rows::function(),
            ]
            .map(Arc::new),
        );
        let higher_order = datafusion_functions_nested::all_default_higher_order_functions();
        let mut aggregates = datafusion_functions_aggregate::all_default_aggregate_functions();
        aggregates.extend(checked::own_aggregates());
        let windows = datafusion_functions_window::all_default_window_functions().into_iter().map(ranks::counting);
        // The first one that knows an expression plans it.
        let expressions: [Arc<dyn ExprPlanner>; 11] = [
            json::planner::planner(),
            arrays::planner(),
            literals::planner(),
            spelled::planner(),
            Arc::new(CoreFunctionPlanner::default()),
            Arc::new(NestedFunctionPlanner),
            Arc::new(FieldAccessPlanner),
            Arc::new(DatetimeFunctionPlanner),
            Arc::new(UnicodeFunctionPlanner),
            Arc::new(AggregateFunctionPlanner),
            Arc::new(WindowFunctionPlanner),
        ];
        let mut planner = Planner {
            options: Arc::new(options),
            scalars: by_name(scalars, |f| (f.name(), f.aliases())),
            higher_order: by_name(higher_order, |f| (f.name(), f.aliases())),
            aggregates: by_name(aggregates, |f| (f.name(), f.aliases())),
            windows: by_name(windows.collect(), |f| (f.name(), f.aliases())),
            expressions: Arc::new(expressions),
            analyzer: coerce::analyzer_rules().into(),
            optimizer: optimizer::optimizer_rules().into(),
            aliases: Arc::default(),
            who: Who { session: FIRST, user: FIRST },
        };
        planner.follow_options();
        planner
    }

    /// The settings.
    pub(crate) fn config_options(&self) -> &Arc<ConfigOptions> {
        &self.options
    }

    /// As whom statements run.
    pub(crate) fn who(&self) -> Who {
        self.who
    }

    /// The same for others.
    pub(crate) fn run_as(&self, who: Who) -> Planner {
        Planner { who, ..self.clone() }
    }

    /// The same functions and rules with settings changed.
    ///
    /// # Errors
    /// Those of `change`.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut ConfigOptions) -> Result<()>) -> Result<Planner> {
        let mut planner = self.clone();
        change(Arc::make_mut(&mut planner.options))?;
        planner.follow_options();
        Ok(planner)
    }

    /// Functions that depend on settings (`now()` on the time zone) keep a copy of them.
    fn follow_options(&mut self) {
        for function in Arc::make_mut(&mut self.scalars).values_mut() {
            if let Some(changed) = function.inner().with_updated_config(&self.options) {
                *function = Arc::new(changed);
            }
        }
    }

    /// Functions of one row.
    pub(crate) fn scalar_functions(&self) -> &ByName<ScalarUDF> {
        &self.scalars
    }

    /// Functions that take functions.
    pub(crate) fn higher_order_functions(&self) -> &ByName<HigherOrderUDF> {
        &self.higher_order
    }

    /// Functions of many rows.
    pub(crate) fn aggregate_functions(&self) -> &ByName<AggregateUDF> {
        &self.aggregates
    }

    /// Functions of a row among others.
    pub(crate) fn window_functions(&self) -> &ByName<WindowUDF> {
        &self.windows
    }

    /// What makes functions of operators, literals and special forms of SQL.
    pub(crate) fn expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expressions
    }

    /// Rules that give a plan its types and meaning, in order.
    pub(crate) fn analyzer_rules(&self) -> &[MeaningRule] {
        &self.analyzer
    }

    /// Rules that make a plan cheaper, in order.
    pub(crate) fn optimizer_rules(&self) -> &[CostRule] {
        &self.optimizer
    }

    /// Names that rules make up.
    pub(crate) fn alias_generator(&self) -> &Arc<AliasGenerator> {
        &self.aliases
    }
}

/// Later ones take the place of earlier ones of the same name.
fn by_name<F>(functions: Vec<Arc<F>>, names: impl Fn(&F) -> (&str, &[String])) -> Arc<ByName<F>> {
    let mut all = HashMap::new();
    for function in functions {
        let (name, aliases) = names(&function);
        for alias in aliases {
            all.insert(alias.clone(), Arc::clone(&function));
        }
        all.insert(name.to_string(), Arc::clone(&function));
    }
    Arc::new(all)
}

fn known<F>(functions: &ByName<F>) -> HashSet<String> {
    functions.keys().cloned().collect()
}

fn found<F>(functions: &ByName<F>, name: &str) -> DfResult<Arc<F>> {
    functions.get(name).cloned().ok_or_else(|| plan_datafusion_err!("function '{name}' does not exist"))
}

/// The optimiser's rules ask for functions by name.
impl FunctionRegistry for Planner {
    fn udfs(&self) -> HashSet<String> {
        known(&self.scalars)
    }

    fn higher_order_function_names(&self) -> HashSet<String> {
        known(&self.higher_order)
    }

    fn udafs(&self) -> HashSet<String> {
        known(&self.aggregates)
    }

    fn udwfs(&self) -> HashSet<String> {
        known(&self.windows)
    }

    fn udf(&self, name: &str) -> DfResult<Arc<ScalarUDF>> {
        found(&self.scalars, name)
    }

    fn higher_order_function(&self, name: &str) -> DfResult<Arc<HigherOrderUDF>> {
        found(&self.higher_order, name)
    }

    fn udaf(&self, name: &str) -> DfResult<Arc<AggregateUDF>> {
        found(&self.aggregates, name)
    }

    fn udwf(&self, name: &str) -> DfResult<Arc<WindowUDF>> {
        found(&self.windows, name)
    }

    fn expr_planners(&self) -> Vec<Arc<dyn ExprPlanner>> {
        self.expressions.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion_expr::ReturnFieldArgs;

    use super::*;
    use crate::functions::checked::{CheckedAvg, CheckedSum};

    fn zone(planner: &Planner, function: &str) -> String {
        let now = planner.udf(function).unwrap();
        let field = now.return_field_from_args(ReturnFieldArgs { arg_fields: &[], scalar_arguments: &[] }).unwrap();
        match field.data_type() {
            DataType::Timestamp(_, zone) => zone.as_deref().unwrap_or("none").to_string(),
            other => panic!("{function} is {other}"),
        }
    }

    #[test]
    fn functions_follow_the_settings_under_each_of_their_names() {
        let mut options = ConfigOptions::new();
        options.execution.time_zone = Some("+00:00".into());
        let planner = Planner::new(options);
        let changed = planner.changed(|options| {
            options.execution.time_zone = Some("+02:00".into());
            Ok(())
        });
        let changed = changed.unwrap();
        for function in ["now", "current_timestamp"] {
            assert_eq!(zone(&planner, function), "+00:00", "{function}");
            assert_eq!(zone(&changed, function), "+02:00", "{function}");
        }
        assert_eq!(changed.config_options().execution.time_zone.as_deref(), Some("+02:00"));
        assert!(planner.changed(|_| Err(crate::Error::plan(crate::SqlState::SyntaxError, "refused"))).is_err());
    }

    #[test]
    fn our_functions_stand_in_the_place_of_datafusions() {
        let planner = Planner::new(ConfigOptions::new());
        assert!(planner.udaf("sum").unwrap().inner().is::<CheckedSum>());
        for name in ["avg", "mean"] {
            assert!(planner.udaf(name).unwrap().inner().is::<CheckedAvg>(), "{name}");
        }
        let error = planner.udaf("summ").unwrap_err().to_string();
        assert!(error.contains("function 'summ' does not exist"), "{error}");
    }

    #[test]
    fn what_is_registered_is_found_under_its_names() {
        let planner = Planner::new(ConfigOptions::new());
        for name in planner.udfs() {
            let function = planner.udf(&name).unwrap();
            assert!(function.name() == name || function.aliases().contains(&name), "{name} is {}", function.name());
        }
        for name in planner.udafs() {
            let function = planner.udaf(&name).unwrap();
            assert!(function.name() == name || function.aliases().contains(&name), "{name} is {}", function.name());
        }
    }
}
