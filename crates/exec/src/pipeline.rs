//! Compiling: a [`Plan`] becomes [`Pipeline`]s.
//!
//! A pipeline is a source, stages over the source's batches, and a limit over what comes out. Over a scan, consecutive
//! filters become one conjunction, filters move below projections whose columns they read are plain, and projections are
//! composed, so that most plans are a scan without any stage. What lies above a limit, or reads a computed column, stays a
//! stage or becomes a pipeline over the pipeline below it.
//!
//! Invariant: no rewrite evaluates an expression that may fail for a row that the plan as written would not evaluate it
//! for. So a predicate that may fail never moves ahead of one that it was written after and that cannot move, and a
//! projection that may fail never moves below a limit.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, SchemaRef};

use crate::ExecError;
use crate::engine::Streamed;
use crate::expression::{Expression, Remapped};
use crate::mask::Mask;
use crate::operators::filter::{Bound, Filter};
use crate::operators::limit::Limit;
use crate::operators::project::Projection;
use crate::operators::scan::Scan;
use crate::operators::{BatchInput, Rows};
use crate::plan::{Output, Plan};
use crate::predicate::Predicate;
use crate::profile::Profile;

/// What one [`Execution`](crate::Execution) runs.
pub(crate) struct Pipeline {
    /// Schema of what comes out.
    pub(crate) schema: SchemaRef,
    /// Where batches come from.
    pub(crate) source: Source,
    /// What each batch goes through, in order.
    pub(crate) stages: Vec<Stage>,
    /// Over the batches in their order.
    pub(crate) limit: Option<Limit>,
}

/// Where a pipeline's batches come from.
pub(crate) enum Source {
    /// Morsels of a scan.
    Scan(Arc<Scan>),
    /// What another pipeline hands out.
    Pipeline(Box<Pipeline>),
    /// A plan with operators that look at more than one row.
    Engine(Arc<Streamed>),
}

/// An operator over batches.
pub(crate) enum Stage {
    /// Keeps the rows that pass.
    Filter(Bound),
    /// Makes other columns.
    Project(Projection),
}

impl Stage {
    /// Applies it to a batch.
    pub(crate) fn run(&self, batch: RecordBatch) -> Result<RecordBatch, ExecError> {
        match self {
            Stage::Filter(bound) => {
                let mut mask = Mask::full(batch.num_rows());
                bound.evaluate(&BatchInput(&batch), &mut mask)?;
                if mask.count() == batch.num_rows() {
                    return Ok(batch);
                }
                let passing = BooleanArray::new(mask.into_boolean_buffer(), None);
                Ok(filter_record_batch(&batch, &passing)?)
            }
            Stage::Project(projection) => {
                projection.evaluate(&BatchInput(&batch), &Rows::Range(0..batch.num_rows()), &|_| None)
            }
        }
    }
}

/// Compiles a plan that has been validated. With a profile everything is the engine's, which counts.
pub(crate) fn compile(plan: &Plan, profile: Option<&Profile>) -> Result<Pipeline, ExecError> {
    if !streams(plan) || profile.is_some() {
        // Limits on top are the window's, which stops the last pipeline as soon as it has enough.
        let (mut below, mut limit, mut limits) = (plan, None, 0);
        while let Plan::Limit { input, skip, fetch } = below {
            let inner = Limit::new(*skip, *fetch);
            limit = Some(limit.map_or(inner, |outer| inner.then(outer)));
            below = input;
            limits += 1;
        }
        let streamed = Streamed::new(below.clone());
        let streamed = match profile {
            Some(profile) => streamed.counting(profile, limits),
            None => streamed,
        };
        let source = Source::Engine(Arc::new(streamed));
        return Ok(Pipeline { schema: plan.schema(), source, stages: Vec::new(), limit });
    }
    Draft::of(plan).build(plan.schema())
}

/// Is it a chain of operators over a scan that look at one row at a time?
fn streams(plan: &Plan) -> bool {
    match plan {
        Plan::Scan { .. } => true,
        Plan::Filter { input, .. } | Plan::Project { input, .. } | Plan::Limit { input, .. } => streams(input),
        _ => false,
    }
}

/// A pipeline while operators are added on top.
struct Draft<'a> {
    source: DraftSource<'a>,
    stages: Vec<DraftStage>,
    limit: Option<Limit>,
    schema: SchemaRef,
}

enum DraftSource<'a> {
    Scan { plan: &'a Plan, conjuncts: Vec<Predicate>, outputs: Vec<Output> },
    Draft(Box<Draft<'a>>),
}

enum DraftStage {
    Filter(Vec<Predicate>, SchemaRef),
    Project(Vec<Output>, SchemaRef),
}

impl<'a> Draft<'a> {
    fn of(plan: &'a Plan) -> Draft<'a> {
        let draft = match plan {
            Plan::Scan { snapshot, columns, .. } => {
                let field = |c: usize| snapshot.schema.fields()[c].clone();
                let outputs = columns.iter().map(|&column| Output::Column { column, field: field(column) }).collect();
                Draft {
                    source: DraftSource::Scan { plan, conjuncts: Vec::new(), outputs },
                    stages: Vec::new(),
                    limit: None,
                    schema: plan.schema(),
                }
            }
            Plan::Filter { input, predicate } => Draft::of(input).filter(predicate),
            Plan::Project { input, outputs } => Draft::of(input).project(outputs),
            Plan::Limit { input, skip, fetch } => {
                let mut draft = Draft::of(input);
                let outer = Limit::new(*skip, *fetch);
                draft.limit = Some(draft.limit.map_or(outer, |inner| inner.then(outer)));
                draft
            }
            _ => unreachable!("operators that look at several rows are the engine's"),
        };
        Draft { schema: plan.schema(), ..draft }
    }

    /// This draft as the source of a new one.
    fn nested(self) -> Draft<'a> {
        let schema = self.schema.clone();
        Draft { source: DraftSource::Draft(Box::new(self)), stages: Vec::new(), limit: None, schema }
    }

    fn filter(self, predicate: &Predicate) -> Draft<'a> {
        let mut draft = if self.limit.is_some() { self.nested() } else { self };
        let conjuncts = match predicate.without_not() {
            Predicate::And(parts) => parts,
            other => vec![other],
        };
        let mut kept = Vec::new();
        for conjunct in conjuncts {
            // Not past a part that stays here, nor past a stage (whose filter was written earlier), if it may fail.
            let movable = !fallible(&conjunct) || (kept.is_empty() && draft.stages.is_empty());
            match draft.pushed(&conjunct) {
                Some(moved) if movable => {
                    if let DraftSource::Scan { conjuncts, .. } = &mut draft.source {
                        conjuncts.push(moved);
                    }
                }
                _ => kept.push(conjunct),
            }
        }
        if !kept.is_empty() {
            draft.stages.push(DraftStage::Filter(kept, draft.schema.clone()));
        }
        draft
    }

    /// The conjunct over the table's columns, where the scan's plain columns are all that it reads.
    fn pushed(&self, conjunct: &Predicate) -> Option<Predicate> {
        let DraftSource::Scan { outputs, .. } = &self.source else { return None };
        // Through every projection on the way: what a column of the top is at the bottom.
        let mut places: Vec<Option<usize>> = (0..self.schema.fields().len()).map(Some).collect();
        let levels = self.stages.iter().rev().filter_map(|stage| match stage {
            DraftStage::Project(outputs, _) => Some(outputs),
            DraftStage::Filter(..) => None,
        });
        for outputs in levels.chain(std::iter::once(outputs)) {
            for place in &mut places {
                *place = place.and_then(|p| plain(&outputs[p]));
            }
        }
        conjunct
            .columns()
            .iter()
            .all(|&c| places[c].is_some())
            .then(|| conjunct.map_columns(&|c| places[c].expect("checked for every column it reads")))
    }

    fn project(self, outputs: &[Output]) -> Draft<'a> {
        let may_fail =
            outputs.iter().any(|o| matches!(o, Output::Expression { expression, .. } if expression.fallible()));
        let mut draft = if self.limit.is_some() && may_fail { self.nested() } else { self };
        let below = match (draft.stages.last_mut(), &mut draft.source) {
            (Some(DraftStage::Project(below, _)), _) => Some(below),
            (None, DraftSource::Scan { outputs, .. }) => Some(outputs),
            _ => None,
        };
        match below.and_then(|below| compose(below, outputs).map(|composed| (below, composed))) {
            Some((below, composed)) => *below = composed,
            None => draft.stages.push(DraftStage::Project(outputs.to_vec(), draft.schema.clone())),
        }
        draft
    }

    fn build(self, schema: SchemaRef) -> Result<Pipeline, ExecError> {
        let stages = self.stages.into_iter().map(|stage| match stage {
            DraftStage::Filter(conjuncts, input) => Ok(Stage::Filter(Filter::new(&conjuncts, &input)?.bind(&|_| None))),
            DraftStage::Project(outputs, input) => Ok(Stage::Project(Projection::new(&outputs, &input))),
        });
        let stages = stages.collect::<Result<Vec<_>, ExecError>>()?;
        let source = match self.source {
            DraftSource::Scan { plan, conjuncts, outputs } => {
                let Plan::Scan { snapshot, .. } = plan else { unreachable!("a scan draft is made of a scan") };
                let filter = Filter::new(&conjuncts, &snapshot.schema)?;
                let projection = Projection::new(&outputs, &snapshot.schema);
                let keeps_rows = !stages.iter().any(|s| matches!(s, Stage::Filter(_)));
                let needed = if keeps_rows { self.limit.and_then(|l| l.rows_needed()) } else { None };
                Source::Scan(Arc::new(Scan::new(snapshot.clone(), filter, projection, needed)))
            }
            DraftSource::Draft(inner) => {
                let schema = inner.schema.clone();
                Source::Pipeline(Box::new(inner.build(schema)?))
            }
        };
        Ok(Pipeline { schema, source, stages, limit: self.limit })
    }
}

/// May some leaf fail?
fn fallible(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Compare { .. } | Predicate::In { .. } | Predicate::IsNull { .. } => false,
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(fallible),
        Predicate::Not(inner) => fallible(inner),
        // What a volatile expression returns depends on which rows it has seen: it stays where it was written.
        Predicate::Boolean(expression) => expression.fallible() || expression.volatile(),
    }
}

/// The input column that an output is, if it is one.
fn plain(output: &Output) -> Option<usize> {
    match output {
        Output::Column { column, .. } => Some(*column),
        Output::Expression { .. } => None,
    }
}

/// `upper` over the input of `lower`, in one step; `None` where an expression reads a computed column, or a computed column
/// would be computed more than once.
fn compose(lower: &[Output], upper: &[Output]) -> Option<Vec<Output>> {
    let mut computed_uses = vec![0u32; lower.len()];
    let mut composed = Vec::with_capacity(upper.len());
    for output in upper {
        composed.push(match output {
            Output::Column { column, field } => match &lower[*column] {
                Output::Column { column, .. } => Output::Column { column: *column, field: field.clone() },
                Output::Expression { expression, .. } => {
                    computed_uses[*column] += 1;
                    Output::Expression { expression: expression.clone(), field: field.clone() }
                }
            },
            Output::Expression { expression, field } => remapped(lower, expression, field)?,
        });
    }
    computed_uses.iter().all(|&uses| uses <= 1).then_some(composed)
}

fn remapped(lower: &[Output], expression: &Arc<dyn Expression>, field: &FieldRef) -> Option<Output> {
    let places: Vec<Option<usize>> = lower.iter().map(plain).collect();
    if !expression.columns().iter().all(|&c| places[c].is_some()) {
        return None;
    }
    let expression = Remapped::over(expression.clone(), &|c| places[c].expect("checked for every column it reads"));
    Some(Output::Expression { expression, field: field.clone() })
}
