//! What moves as a whole, and how the parts of a table fall into it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use numa::{Allocator, NodeId, Policy, Region};

use super::{Replacements, Wish, address};
use crate::column::Column;
use crate::copies::Copies;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::index::Index;
use crate::mover::{MoveTarget, Mover, PlaceReport};
use crate::plain::PlainData;
use crate::segment::Part;

/// What moves as a whole.
pub(super) enum Unit<'a> {
    Codes(&'a Copies<Arc<Region>>, MoveTarget<'a>),
    Dictionary(&'a Arc<Dictionary>, MoveTarget<'a>),
    Values(&'a Copies<Arc<PlainData>>, MoveTarget<'a>),
    Index(&'a Arc<Index>, MoveTarget<'a>),
}

impl Unit<'_> {
    /// The node that placing it mostly writes.
    pub(super) fn node(&self) -> Option<NodeId> {
        let target = match self {
            Unit::Codes(_, target) | Unit::Dictionary(_, target) | Unit::Values(_, target) | Unit::Index(_, target) => {
                target
            }
        };
        match (&target.policy, target.replicas) {
            (Policy::Node(node), None) => Some(*node),
            _ => None,
        }
    }

    /// Places it; what is not the same memory any more is noted in `replaced`.
    pub(super) fn place(self, mover: &Mover<'_>, replaced: &Mutex<Replacements>) -> Result<PlaceReport, StoreError> {
        let mut report = PlaceReport::default();
        let replaced = || replaced.lock().unwrap_or_else(PoisonError::into_inner);
        match self {
            Unit::Codes(codes, target) => {
                if let Some(new) = mover.copies(codes, &target, &mut report)? {
                    replaced().codes.insert(address(codes.first()), new);
                }
            }
            Unit::Dictionary(dictionary, target) => {
                if let Some(new) = mover.copies(dictionary.copies(), &target, &mut report)? {
                    let new = Arc::new(dictionary.moved(new));
                    replaced().dictionaries.insert(address(dictionary), new);
                }
            }
            Unit::Values(values, target) => {
                if let PlainData::Array(_) = values.first().as_ref() {
                    report.stuck_bytes += values.first().bytes() as u64;
                } else if let Some(new) = mover.copies(values, &target, &mut report)? {
                    replaced().values.insert(address(values.first()), new);
                }
            }
            Unit::Index(index, target) => {
                if let Some(new) = mover.copies(index.copies(), &target, &mut report)? {
                    let new = Arc::new(index.moved(new));
                    replaced().indexes.insert(address(index), new);
                }
            }
        }
        Ok(report)
    }
}

/// The units of the parts' columns, each once.
pub(super) fn units_of<'a>(parts: &[(&'a Part, Vec<Wish<'a>>)]) -> Vec<Unit<'a>> {
    let mut seen = HashSet::new();
    let mut units = Vec::new();
    for (part, wishes) in parts {
        for (segment, version) in part.segments.iter().enumerate() {
            for (place, (index, wish)) in version.segment.indexes().iter().zip(wishes).enumerate() {
                let Some(wish) = *wish else { continue };
                push_units(&mut units, &mut seen, version.segment.column(place), wish, segment);
                if let Some(index) = index.as_ref().filter(|index| seen.insert(address(index))) {
                    let placement = &wish.0.index;
                    let allocator = wish.1;
                    let target =
                        MoveTarget { policy: placement.dictionary_policy(), replicas: placement.replicas(), allocator };
                    units.push(Unit::Index(index, target));
                }
            }
        }
    }
    units
}

fn push_units<'a>(
    units: &mut Vec<Unit<'a>>,
    seen: &mut HashSet<usize>,
    column: &'a Column,
    (placement, allocator): (&'a crate::ColumnPlacement, &'a Allocator),
    segment: usize,
) {
    match column {
        Column::Coded(coded) => {
            if let Some(codes) = coded.codes().filter(|codes| seen.insert(address(codes.first()))) {
                let policy = placement.codes.codes_policy(coded.len(), coded.bits(), segment);
                let target = MoveTarget { policy, replicas: placement.codes.replicas(), allocator };
                units.push(Unit::Codes(codes, target));
            }
            if seen.insert(address(coded.dictionary())) {
                let policy = placement.dictionary.dictionary_policy();
                let target = MoveTarget { policy, replicas: placement.dictionary.replicas(), allocator };
                units.push(Unit::Dictionary(coded.dictionary(), target));
            }
        }
        Column::Plain(plain) => {
            let granules = plain.len().div_ceil(crate::GRANULE_ROWS);
            for piece in plain.pieces() {
                if seen.insert(address(piece.data.first())) {
                    let granule = piece.start / crate::GRANULE_ROWS;
                    let policy = placement.codes.piece_policy(granules, segment, granule);
                    let target = MoveTarget { policy, replicas: placement.codes.replicas(), allocator };
                    units.push(Unit::Values(&piece.data, target));
                }
            }
        }
        Column::RowIds(_) => {}
    }
}
