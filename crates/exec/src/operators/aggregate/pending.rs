//! [`Opaque`]: the state of a function that this crate does not know, which is given rows some thousands at a time,
//! and [`Distinct`], the different values of each group, which are given to their call at the end.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, PrimitiveArray, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;

use super::calls::{Calls, States};
use super::groups::{Groups, Pick, for_each_pair};
use super::state::{Distinct, Opaque, State};
use super::too_many;
use crate::ExecError;
use crate::chunk::{CHUNK_ROWS, Chunk};
use crate::keys::group::GroupCodec;
use crate::plan::GroupedRows;

/// Rows that an opaque function is given at a time, at least, unless there are no more.
const OPAQUE_ROWS: usize = 8192;

impl Opaque {
    pub(super) fn update(
        &mut self,
        arrays: Vec<ArrayRef>,
        groups: Groups<'_>,
        mask: Option<&[bool]>,
        total: usize,
    ) -> Result<(), ExecError> {
        self.total = total;
        let pending = &mut self.pending;
        pending.arguments.resize(arrays.len(), Vec::new());
        pending.arguments.iter_mut().zip(arrays).for_each(|(all, array)| all.push(array));
        let rows = groups.rows();
        pending.groups.extend((0..rows).map(|row| groups.of(row)));
        match mask {
            Some(mask) => pending.filter.extend_from_slice(mask),
            None => pending.filter.resize(pending.groups.len(), true),
        }
        if pending.groups.len() >= OPAQUE_ROWS { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), ExecError> {
        let pending = std::mem::take(&mut self.pending);
        if pending.groups.is_empty() {
            return Ok(());
        }
        let mut arguments = Vec::with_capacity(pending.arguments.len());
        for arrays in &pending.arguments {
            arguments.push(concat(&arrays.iter().map(|a| a.as_ref()).collect::<Vec<&dyn Array>>())?);
        }
        let filter = pending.filter.contains(&false).then(|| BooleanArray::from(pending.filter));
        self.fed = true;
        let rows = GroupedRows { groups: &pending.groups, filter: filter.as_ref(), total: self.total };
        self.groups.get_mut().update(&arguments, rows)
    }

    /// The results of all groups.
    pub(super) fn finish(&mut self, types: impl Iterator<Item = DataType>) -> Result<ArrayRef, ExecError> {
        let groups = self.groups.get_mut();
        if !self.fed && self.total > 0 {
            let none: Vec<ArrayRef> = types.map(|t| new_empty_array(&t)).collect();
            groups.update(&none, GroupedRows::none(self.total))?;
        }
        groups.finish()
    }

    pub(super) fn merge(
        &mut self,
        from: &[ArrayRef],
        pick: &Pick<'_>,
        to: Option<&[u32]>,
        total: usize,
    ) -> Result<(), ExecError> {
        self.total = total;
        if from.is_empty() || pick.len() == 0 {
            return Ok(());
        }
        let mut arrays = Vec::with_capacity(from.len());
        for array in from {
            arrays.push(match pick {
                Pick::Range(range) => array.slice(range.start, range.len()),
                Pick::List(list) => take(array, &PrimitiveArray::from(list.to_vec()), None)?,
            });
        }
        let groups: Vec<usize> = match to {
            Some(to) => to.iter().map(|&t| t as usize).collect(),
            None => (0..pick.len()).collect(),
        };
        self.fed = true;
        self.groups.get_mut().merge(&arrays, &groups, total)
    }
}

impl Distinct {
    pub(super) fn update(
        &mut self,
        coder: &GroupCodec,
        chunk: &mut Chunk,
        groups: Groups<'_>,
        mask: Option<&[bool]>,
    ) -> Result<(), ExecError> {
        coder.encode(chunk, &mut self.encoding, &mut self.numbers)?;
        too_many(self.pairs.len() + self.numbers.len())?;
        for (row, &number) in self.numbers.iter().enumerate() {
            if mask.is_none_or(|m| m[row]) {
                self.pairs.find_or_add((groups.of(row) as u128) << 64 | u128::from(number));
            }
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, from: &Distinct, pick: &Pick<'_>, to: Option<&[u32]>) -> Result<(), ExecError> {
        too_many(self.pairs.len() + from.pairs.len())?;
        let mut targets: Vec<u32> = Vec::new();
        for_each_pair(pick, to, |source, target| {
            if targets.len() <= source {
                targets.resize(source + 1, u32::MAX);
            }
            targets[source] = target as u32;
        });
        for &pair in from.pairs.keys() {
            if let Some(&target) = targets.get((pair >> 64) as usize)
                && target != u32::MAX
            {
                self.pairs.find_or_add(u128::from(target) << 64 | u128::from(pair as u64));
            }
        }
        Ok(())
    }

    /// The results of a call over the values of each group.
    pub(super) fn finish(&self, coder: &GroupCodec, call: &Calls, groups: usize) -> Result<States, ExecError> {
        let mut states = call.states(groups, self.pairs.len() as u64)?;
        for pairs in self.pairs.keys().chunks(CHUNK_ROWS) {
            let numbers: Vec<u64> = pairs.iter().map(|&p| p as u64).collect();
            let of: Vec<u32> = pairs.iter().map(|&p| (p >> 64) as u32).collect();
            let mut chunk = Chunk::empty(pairs.len());
            for (_, vector) in coder.decode(&numbers)? {
                chunk.push(Arc::new(vector));
            }
            call.update(&mut states, &mut chunk, Groups::Many(&of))?;
        }
        for state in &mut states.states {
            if let State::Opaque(opaque) = state {
                opaque.flush()?;
            }
        }
        Ok(states)
    }
}
