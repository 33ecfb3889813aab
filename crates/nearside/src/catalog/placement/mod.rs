//! Where a table's columns and parts lie: what was asked for, resolved for this machine's nodes, and changed while
//! queries run.
//!
//! A [`TablePlacement`] belongs to a table's catalog entry. It says for each part and column where codes, dictionary
//! and index go, for what is there and for rows that come later. [`spec`] reads what users write, [`change`] carries it
//! out.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.2.

pub(crate) mod changes;
pub(crate) mod spec;
mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use numa::{Allocator, NodeId, Topology};
use storage::{ColumnAllocator, ColumnPlacement, DELTA_PARTS_MAX, Partitioner, Placement};

use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use spec::{By, ColumnSpec, Deal, Nodes, PartsSpec, Spec, TableSpec, Where, wrong};

/// A table's placement on this machine.
#[derive(Debug, Clone)]
pub(crate) struct TablePlacement {
    spec: Spec,
    first_turn: FirstTurn,
    /// Each column's place in the order of turns, which it keeps when others go.
    turns: Arc<HashMap<String, usize>>,
    nodes: Arc<MachineNodes>,
    /// Where one part by range ends and the next begins; absent until there are rows to learn it from.
    bounds: Option<Bounds>,
    /// Columns that lie where they do since the placer said so, and no user.
    by_placer: Arc<BTreeSet<String>>,
}

/// Whose turn a table is, in the two ways in which RR deals.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FirstTurn {
    /// Columns dealt out before the table's first one.
    pub column: usize,
    /// Tables dealt out before.
    pub table: usize,
}

/// The nodes of this machine that a placement may name, both ascending.
#[derive(Debug, Default)]
pub(crate) struct MachineNodes {
    /// Those that `all` means: with memory for this process and cpus beside it.
    pub usual: Vec<NodeId>,
    /// Those whose memory this process may use: memory without cpus (CXL, HBM, ..) has to be named.
    pub allowed: Vec<NodeId>,
    /// Where each unit's memory is.
    pub units: Vec<NodeId>,
}

impl MachineNodes {
    /// Of a machine.
    pub(crate) fn of(topology: &Topology) -> MachineNodes {
        let allowed = topology.usable_memory_nodes().to_vec();
        let has_cpus = |node: &&NodeId| topology.node(**node).is_some_and(|n| !n.cpus.is_empty());
        let usual: Vec<NodeId> = allowed.iter().filter(has_cpus).copied().collect();
        MachineNodes { usual: if usual.is_empty() { allowed.clone() } else { usual }, allowed, units: Vec::new() }
    }

    /// With units on these nodes; one on no node in particular has its memory on the first.
    pub(crate) fn with_units(self, units: impl Iterator<Item = Option<NodeId>>) -> MachineNodes {
        let units = units.filter_map(|node| node.or(self.usual.first().copied())).collect();
        MachineNodes { units, ..self }
    }
}

/// What of a placement lasts, in whatever process.
#[derive(Debug, Clone)]
pub(crate) struct KeptPlacement {
    /// As a user writes it.
    pub text: String,
    /// Columns that were dealt out before its first one, and tables before it.
    pub first_turn: (usize, usize),
    /// Columns with their places in the order of turns, by name.
    pub turns: Vec<(String, usize)>,
    /// Columns that lie where the placer wanted them.
    pub by_placer: Vec<String>,
    /// Bounds of parts by range, and whether they are another table's.
    pub bounds: Option<(ArrayRef, bool)>,
}

/// The bounds of parts by range.
#[derive(Debug, Clone)]
struct Bounds {
    values: ArrayRef,
    /// Whether they are another table's, and stay when the rows that they were learned from go.
    shared: bool,
}

impl TablePlacement {
    /// A placement for a table of this schema.
    ///
    /// # Errors
    /// [`Error::Setting`] and [`Error::NotFound`] for nodes that this process may not use and for columns that are not
    /// there.
    pub(crate) fn new(
        spec: Spec,
        first_turn: FirstTurn,
        nodes: &Arc<MachineNodes>,
        schema: &SchemaRef,
    ) -> Result<TablePlacement> {
        let turns = schema.fields().iter().enumerate().map(|(i, field)| (field.name().clone(), i));
        let turns = Arc::new(turns.collect());
        let (nodes, by_placer) = (Arc::clone(nodes), Arc::default());
        let placement = TablePlacement { spec, first_turn, turns, nodes, bounds: None, by_placer };
        placement.check(schema)?;
        Ok(placement)
    }

    /// What of it lasts.
    pub(crate) fn kept(&self) -> KeptPlacement {
        let mut turns: Vec<(String, usize)> = self.turns.iter().map(|(name, turn)| (name.clone(), *turn)).collect();
        turns.sort();
        KeptPlacement {
            text: self.spec.to_string(),
            first_turn: (self.first_turn.column, self.first_turn.table),
            turns,
            by_placer: self.by_placer.iter().cloned().collect(),
            bounds: self.bounds.as_ref().map(|bounds| (Arc::clone(&bounds.values), bounds.shared)),
        }
    }

    /// Whether the same lasts of both.
    pub(crate) fn is_kept_alike(&self, other: &TablePlacement) -> bool {
        let bounds = |placement: &TablePlacement| placement.bounds.as_ref().map(|b| (Arc::clone(&b.values), b.shared));
        self.spec == other.spec
            && self.turns == other.turns
            && self.by_placer == other.by_placer
            && bounds(self) == bounds(other)
    }

    /// What [`kept`](Self::kept) told of; nodes that are named and not here are the usual ones.
    ///
    /// # Errors
    /// As [`TablePlacement::new`], and a text that is none.
    pub(crate) fn restored(kept: &KeptPlacement, nodes: &Arc<MachineNodes>, schema: &SchemaRef) -> Result<Self> {
        let spec = Spec::parse(&kept.text)?;
        let spec = match spec.named_nodes().iter().all(|node| nodes.allowed.contains(node)) {
            true => spec,
            false => {
                let placement = &kept.text;
                tracing::warn!(placement, "a placement names nodes that are not here; the table is placed as usual");
                Spec::default()
            }
        };
        let first_turn = FirstTurn { column: kept.first_turn.0, table: kept.first_turn.1 };
        let placement = TablePlacement::new(spec, first_turn, nodes, schema)?;
        let bounds = kept.bounds.clone().map(|(values, shared)| Bounds { values, shared });
        let has = |column: &&String| placement.spec.columns.contains_key(*column);
        let by_placer = Arc::new(kept.by_placer.iter().filter(has).cloned().collect());
        Ok(TablePlacement { turns: Arc::new(kept.turns.iter().cloned().collect()), bounds, by_placer, ..placement })
    }

    /// What was asked for.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What holds for one column, as a user would write it.
    pub(crate) fn column_text(&self, column: &str) -> String {
        match self.spec.columns.get(column) {
            Some(spec) => spec.to_string(),
            None => self.spec.table.to_string(),
        }
    }

    /// Another request for the same table, on the same turn.
    ///
    /// # Errors
    /// As [`TablePlacement::new`].
    pub(crate) fn changed(&self, spec: Spec, schema: &SchemaRef) -> Result<TablePlacement> {
        let changed = TablePlacement::new(spec, self.first_turn, &self.nodes, schema)?;
        Ok(TablePlacement { turns: Arc::clone(&self.turns), ..changed })
    }

    /// The placement with parts cut as another table's are: by these columns of ours, with its bounds, on its nodes.
    pub(crate) fn like(
        &self,
        other: &TablePlacement,
        columns: &[String],
        schema: &SchemaRef,
    ) -> Result<TablePlacement> {
        let in_turn = "the table after 'like' is cut in turn, so no row has its place by a key";
        let theirs = match &other.spec.table {
            TableSpec::Parts(theirs) => theirs,
            TableSpec::Units => return Err(wrong(in_turn)),
            _ => return Err(wrong("the table after 'like' is not in parts")),
        };
        let (by, wanted) = match &theirs.by {
            By::Hash(names) => (By::Hash(columns.to_vec()), names.len()),
            By::Range(_) => (By::Range(columns.first().cloned().unwrap_or_default()), 1),
            By::RoundRobin => return Err(wrong(in_turn)),
            By::Like { .. } => return Err(Error::Internal("a stored placement refers to another".into())),
        };
        if columns.len() != wanted {
            return Err(wrong(format!("the other table is cut by {wanted} columns, not {}", columns.len())));
        }
        if other.bounds.is_none() && matches!(by, By::Range(_)) {
            return Err(wrong("the table after 'like' has no rows yet, so its ranges are not known; load it first"));
        }
        // Parts begin at the same node in every table, so the same request puts them on the same nodes.
        let table = TableSpec::Parts(PartsSpec { parts: Some(other.parts()), by, nodes: theirs.nodes.clone() });
        let placement = self.changed(Spec { table, columns: self.spec.columns.clone() }, schema)?;
        if let (Some(bounds), Some(column)) = (&other.bounds, columns.first()) {
            let own = schema.field_with_name(column).map(|f| f.data_type());
            if own.is_ok_and(|t| t != bounds.values.data_type()) {
                return Err(wrong(format!("column '{column}' is not of the type of the other table's bounds")));
            }
        }
        let bounds = other.bounds.as_ref().map(|b| Bounds { values: Arc::clone(&b.values), shared: true });
        Ok(TablePlacement { bounds, ..placement })
    }

    /// How many parts the table has; 1 where its rows are not cut.
    pub(crate) fn parts(&self) -> usize {
        match &self.spec.table {
            TableSpec::Parts(parts) => parts.parts.unwrap_or_else(|| self.pick(&parts.nodes).len().max(1)),
            TableSpec::Units => self.nodes.units.len().clamp(1, DELTA_PARTS_MAX),
            _ => 1,
        }
    }

    /// Where the parts of a table in units are, by unit.
    pub(crate) fn units(&self) -> Option<&[NodeId]> {
        match &self.spec.table {
            TableSpec::Units => self.nodes.units.get(..self.parts()),
            _ => None,
        }
    }

    /// The column whose ranges are not known yet.
    pub(crate) fn unbounded(&self) -> Option<&str> {
        match &self.spec.table {
            TableSpec::Parts(PartsSpec { by: By::Range(column), .. }) if self.bounds.is_none() && self.parts() > 1 => {
                Some(column)
            }
            _ => None,
        }
    }

    /// With the bounds of its ranges.
    pub(crate) fn with_bounds(&self, values: ArrayRef) -> TablePlacement {
        TablePlacement { bounds: Some(Bounds { values, shared: false }), ..self.clone() }
    }

    /// As the table is without rows: bounds that its own rows told are forgotten.
    pub(crate) fn emptied(&self) -> TablePlacement {
        TablePlacement { bounds: self.bounds.clone().filter(|bounds| bounds.shared), ..self.clone() }
    }

    /// Which rows go to which part; `None` where there is one part, or where the bounds are not known yet.
    pub(crate) fn partitioner(&self, schema: &SchemaRef) -> Result<Option<Partitioner>> {
        let parts = self.parts();
        let spec = match &self.spec.table {
            TableSpec::Parts(spec) => spec,
            TableSpec::Units if parts > 1 => return Ok(Some(Partitioner::RoundRobin { parts })),
            _ => return Ok(None),
        };
        let index = |name: &String| column_index(schema, name);
        Ok(match &spec.by {
            _ if parts == 1 => None,
            By::RoundRobin => Some(Partitioner::RoundRobin { parts }),
            By::Hash(columns) => {
                let columns = columns.iter().map(index).collect::<Result<Vec<_>>>()?;
                Some(Partitioner::Hash { columns, parts })
            }
            By::Range(column) => {
                let column = index(column)?;
                self.bounds.as_ref().map(|b| Partitioner::Range { column, bounds: Arc::clone(&b.values) })
            }
            By::Like { .. } => return Err(Error::Internal("a stored placement refers to another".into())),
        })
    }

    /// Where the columns of a part go, in the schema's order.
    pub(crate) fn columns(&self, part: usize, schema: &SchemaRef) -> Vec<ColumnPlacement> {
        schema.fields().iter().map(|field| self.column(part, field.name())).collect()
    }

    /// Allocators for the columns of a part, for segments from the `segment`-th on.
    pub(crate) fn allocators(
        &self,
        part: usize,
        segment: usize,
        schema: &SchemaRef,
        allocator: &Allocator,
    ) -> Vec<ColumnAllocator> {
        schema.fields().iter().map(|field| self.allocator(part, segment, field.name(), allocator)).collect()
    }

    /// The allocator of one column.
    pub(crate) fn allocator(
        &self,
        part: usize,
        segment: usize,
        column: &str,
        allocator: &Allocator,
    ) -> ColumnAllocator {
        let placement = self.column(part, column);
        // What is appended goes on with the turn of those before it.
        let placement = ColumnPlacement { codes: placement.codes.turned(segment), ..placement };
        ColumnAllocator { placement, allocator: allocator.clone() }
    }

    /// With a further column, whose turn is behind the others'.
    pub(crate) fn with_column(&self, column: &str) -> TablePlacement {
        let mut turns = HashMap::clone(&self.turns);
        turns.insert(column.to_string(), self.turn_count());
        TablePlacement { turns: Arc::new(turns), ..self.clone() }
    }

    /// With a column's new name wherever the old one stood.
    pub(crate) fn renamed(&self, from: &str, to: &str) -> TablePlacement {
        let mut renamed = self.clone();
        let mut turns = HashMap::clone(&self.turns);
        if let Some(turn) = turns.remove(from) {
            turns.insert(to.to_string(), turn);
        }
        renamed.turns = Arc::new(turns);
        if let Some(spec) = renamed.spec.columns.remove(from) {
            renamed.spec.columns.insert(to.to_string(), spec);
        }
        if self.by_placer.contains(from) {
            let by_placer = Arc::make_mut(&mut renamed.by_placer);
            by_placer.remove(from);
            by_placer.insert(to.to_string());
        }
        if let TableSpec::Parts(parts) = &mut renamed.spec.table {
            let rename = |name: &mut String| {
                if name == from {
                    *name = to.to_string();
                }
            };
            match &mut parts.by {
                By::Range(column) => rename(column),
                By::Hash(columns) | By::Like { columns, .. } => columns.iter_mut().for_each(rename),
                By::RoundRobin => {}
            }
        }
        renamed
    }

    /// Without a column.
    ///
    /// # Errors
    /// The column decides which part a row lies in.
    pub(crate) fn without(&self, column: &str) -> Result<TablePlacement> {
        if let TableSpec::Parts(parts) = &self.spec.table {
            let decides = match &parts.by {
                By::Range(name) => name == column,
                By::Hash(names) | By::Like { columns: names, .. } => names.iter().any(|n| n == column),
                By::RoundRobin => false,
            };
            if decides {
                return Err(Error::plan(
                    SqlState::DependentObjectsStillExist,
                    format!(
                        "column '{column}' decides in which part a row lies; choose another placement first \
                         (ALTER TABLE .. SET PLACEMENT)"
                    ),
                ));
            }
        }
        Ok(self.without_column_spec(column))
    }

    /// With something of its own for a column.
    ///
    /// # Errors
    /// As [`TablePlacement::new`].
    pub(crate) fn with_column_spec(
        &self,
        column: &str,
        spec: ColumnSpec,
        schema: &SchemaRef,
    ) -> Result<TablePlacement> {
        let mut with = self.spec.clone();
        with.columns.insert(column.to_string(), spec);
        let bounds = self.bounds.clone();
        let mut by_placer = BTreeSet::clone(&self.by_placer);
        by_placer.remove(column);
        Ok(TablePlacement { bounds, by_placer: Arc::new(by_placer), ..self.changed(with, schema)? })
    }

    /// With a column placed as the table says.
    pub(crate) fn without_column_spec(&self, column: &str) -> TablePlacement {
        let mut without = self.clone();
        without.spec.columns.remove(column);
        Arc::make_mut(&mut without.by_placer).remove(column);
        without
    }

    /// With a column where the placer wants it; `None` for as the table says.
    ///
    /// # Errors
    /// As [`TablePlacement::new`].
    pub(crate) fn placed(&self, column: &str, spec: Option<ColumnSpec>, schema: &SchemaRef) -> Result<TablePlacement> {
        let Some(spec) = spec else { return Ok(self.without_column_spec(column)) };
        let mut placed = self.with_column_spec(column, spec, schema)?;
        Arc::make_mut(&mut placed.by_placer).insert(column.to_string());
        Ok(placed)
    }

    /// Whether a user said where a column lies: for it, or for the whole table.
    pub(crate) fn is_by_user(&self, column: &str) -> bool {
        let of_column = self.spec.columns.contains_key(column) && !self.by_placer.contains(column);
        of_column || self.spec.table != TableSpec::default()
    }

    /// What a column has of its own.
    pub(crate) fn own_spec(&self, column: &str) -> Option<&ColumnSpec> {
        self.spec.columns.get(column)
    }

    /// A number of a column that it keeps for as long as it is there, whatever it is called.
    pub(crate) fn number_of(&self, column: &str) -> Option<u64> {
        self.turns.get(column).map(|turn| *turn as u64)
    }

    /// Whether rows lie in the same parts under both, so that nothing has to be rewritten.
    pub(crate) fn cuts_like(&self, other: &TablePlacement) -> bool {
        let rule = |placement: &TablePlacement| match &placement.spec.table {
            TableSpec::Parts(parts) if placement.parts() > 1 => Some((placement.parts(), parts.by.clone())),
            TableSpec::Units if placement.parts() > 1 => Some((placement.parts(), By::RoundRobin)),
            _ => None,
        };
        let same_bounds = match (&self.bounds, &other.bounds) {
            (Some(ours), Some(theirs)) => ours.values.as_ref() == theirs.values.as_ref(),
            // The same ranges asked for again are learned again.
            (None, Some(_)) => self.unbounded().is_none(),
            (_, None) => true,
        };
        rule(self) == rule(other) && same_bounds
    }

    /// With part `part` on `node`.
    pub(crate) fn with_part_on(&self, part: usize, node: NodeId, schema: &SchemaRef) -> Result<TablePlacement> {
        let parts = match &self.spec.table {
            TableSpec::Parts(parts) => parts,
            TableSpec::Units => return Err(wrong("each part of a table in units stays where its unit is")),
            _ => return Err(wrong("the table is not in parts")),
        };
        let mut nodes = self.part_nodes(parts);
        let count = nodes.len();
        *nodes
            .get_mut(part)
            .ok_or_else(|| wrong(format!("there is no part {part}; the parts are 0 to {}", count - 1)))? = node;
        let mut spec = self.spec.clone();
        spec.table = TableSpec::Parts(PartsSpec { parts: Some(count), nodes: Nodes::These(nodes), ..parts.clone() });
        let bounds = self.bounds.clone();
        let by_placer = Arc::clone(&self.by_placer);
        Ok(TablePlacement { bounds, by_placer, ..self.changed(spec, schema)? })
    }

    /// The node of each part.
    fn part_nodes(&self, spec: &PartsSpec) -> Vec<NodeId> {
        let nodes = match &spec.nodes {
            Nodes::These(list) => list.clone(),
            // Parts of tables that are cut alike lie alike, so no table begins at its own turn.
            nodes => self.pick_from(nodes, 0),
        };
        (0..self.parts()).map(|part| nodes[part % nodes.len()]).collect()
    }

    fn pick(&self, nodes: &Nodes) -> Vec<NodeId> {
        self.pick_from(nodes, self.first_turn.column)
    }

    /// These nodes; `n` of them from a turn on, at most as many as there are.
    fn pick_from(&self, nodes: &Nodes, turn: usize) -> Vec<NodeId> {
        let all = &self.nodes.usual;
        match nodes {
            Nodes::All => all.to_vec(),
            Nodes::These(list) => list.clone(),
            Nodes::Count(count) => (0..(*count).min(all.len())).map(|i| all[(turn + i) % all.len()]).collect(),
        }
    }

    /// How many turns were given out.
    fn turn_count(&self) -> usize {
        self.turns.values().max().map_or(0, |last| last + 1)
    }

    fn column(&self, part: usize, name: &str) -> ColumnPlacement {
        let column = self.turns.get(name).copied().unwrap_or(0);
        let own = match &self.spec.table {
            TableSpec::RoundRobin { deal, nodes } => {
                let nodes = match deal {
                    // A count is of the same nodes for all tables, or some would get no table.
                    Deal::Tables => self.pick_from(nodes, 0),
                    Deal::Columns | Deal::Blocks => self.pick(nodes),
                };
                let turn = match deal {
                    Deal::Columns => self.first_turn.column + column,
                    Deal::Blocks => self.first_turn.column + column * nodes.len() / self.turn_count().max(1),
                    Deal::Tables => self.first_turn.table,
                };
                match nodes.len() {
                    // Of one node nothing has to be asked.
                    0 | 1 if self.nodes.allowed.len() <= 1 => Placement::Local,
                    n => Placement::One(nodes[turn % n]),
                }
            }
            TableSpec::Parts(parts) => Placement::One(self.part_nodes(parts)[part]),
            TableSpec::Units => match self.nodes.units.get(part) {
                Some(node) => Placement::One(*node),
                None => Placement::Local,
            },
            TableSpec::Columns(spec) => {
                let turn = self.turn(column);
                let whole = self.column_spec(spec, &turn);
                return match self.spec.columns.get(name) {
                    Some(special) => self.column_spec(special, &turn),
                    None => whole,
                };
            }
        };
        match self.spec.columns.get(name) {
            Some(special) => self.column_spec(special, &own),
            None => ColumnPlacement { codes: own.clone(), dictionary: own.clone(), index: own },
        }
    }

    /// Where RR would put a column.
    fn turn(&self, column: usize) -> Placement {
        match self.nodes.usual.len() {
            0 | 1 => Placement::Local,
            n => Placement::One(self.nodes.usual[(self.first_turn.column + column) % n]),
        }
    }

    fn column_spec(&self, spec: &ColumnSpec, otherwise: &Placement) -> ColumnPlacement {
        match spec {
            ColumnSpec::Ivp(nodes) => {
                let nodes = self.pick(nodes);
                ColumnPlacement {
                    codes: Placement::Striped(nodes.clone()),
                    dictionary: Placement::Interleaved(nodes.clone()),
                    index: Placement::Interleaved(nodes),
                }
            }
            ColumnSpec::All(place) => {
                let place = self.place(place);
                ColumnPlacement { codes: place.clone(), dictionary: place.clone(), index: place }
            }
            ColumnSpec::Components { codes, dictionary, index } => {
                let place = |p: &Option<Where>| p.as_ref().map_or_else(|| otherwise.clone(), |p| self.place(p));
                ColumnPlacement { codes: place(codes), dictionary: place(dictionary), index: place(index) }
            }
        }
    }

    fn place(&self, place: &Where) -> Placement {
        match place {
            Where::Local => Placement::Local,
            Where::Node(node) => Placement::One(*node),
            Where::Striped(nodes) => Placement::Striped(self.pick(nodes)),
            Where::Interleaved(nodes) => Placement::Interleaved(self.pick(nodes)),
            Where::Replicated(nodes) => Placement::Replicated(self.pick(nodes)),
        }
    }

    fn check(&self, schema: &SchemaRef) -> Result<()> {
        for (column, spec) in &self.spec.columns {
            column_index(schema, column)?;
            self.check_column(spec)?;
        }
        match &self.spec.table {
            TableSpec::RoundRobin { nodes, .. } => self.check_nodes(nodes),
            TableSpec::Columns(spec) => self.check_column(spec),
            TableSpec::Units => Ok(()),
            TableSpec::Parts(spec) => {
                self.check_nodes(&spec.nodes)?;
                let columns = match &spec.by {
                    By::Range(column) => std::slice::from_ref(column),
                    By::Hash(columns) | By::Like { columns, .. } => columns,
                    By::RoundRobin => return Ok(()),
                };
                let columns = columns.iter().map(|c| column_index(schema, c)).collect::<Result<Vec<_>>>()?;
                let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
                // Whatever can be hashed can be ordered.
                Ok(Partitioner::Hash { columns, parts: self.parts() }.check(&types)?)
            }
        }
    }

    fn check_column(&self, spec: &ColumnSpec) -> Result<()> {
        let place = |place: &Where| match place {
            Where::Local => Ok(()),
            Where::Node(node) => self.check_nodes(&Nodes::These(vec![*node])),
            Where::Striped(nodes) | Where::Interleaved(nodes) | Where::Replicated(nodes) => self.check_nodes(nodes),
        };
        match spec {
            ColumnSpec::Ivp(nodes) => self.check_nodes(nodes),
            ColumnSpec::All(all) => place(all),
            ColumnSpec::Components { codes, dictionary, index } => {
                [codes, dictionary, index].into_iter().flatten().try_for_each(place)
            }
        }
    }

    fn check_nodes(&self, nodes: &Nodes) -> Result<()> {
        let Nodes::These(list) = nodes else { return Ok(()) };
        match list.iter().find(|n| !self.nodes.allowed.contains(n)) {
            None => Ok(()),
            Some(node) => {
                let known: Vec<String> = self.nodes.allowed.iter().map(|n| n.to_string()).collect();
                Err(wrong(format!(
                    "node {node} is not one whose memory this process may use; those are {}",
                    known.join(", ")
                )))
            }
        }
    }
}

/// The place of a column by name, or the error that there is none.
pub(crate) fn column_index(schema: &SchemaRef, column: &str) -> Result<usize> {
    schema.index_of(column).map_err(|_| Error::NotFound {
        kind: "column",
        name: column.into(),
        nearest: nearest(column, schema.fields().iter().map(|f| f.name().as_str())),
    })
}
