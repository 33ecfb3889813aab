//! What becomes of states at the end: values, checked once against the type that they surface as.
//!
//! Averages of decimals are rounded half away from zero, and errors have the words of `nearside`'s checked aggregates,
//! so that it does not matter which of the two computes.

use arrow::array::ArrayRef;
use arrow::row::RowConverter;

use super::calls::{Calls, Op, Output, States};
use super::column::{Column, Values};
use super::state::State;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind};
use crate::keys::float::of_ordered;
use crate::tasks::run::Run;

impl Calls {
    /// The results of all calls for every group; the states are of no more use.
    pub(super) fn finish(&self, states: &mut States, run: &Run<'_>) -> Result<Vec<Column>, ExecError> {
        for state in &mut states.states {
            if let State::Lists(lists) = state {
                lists.seal();
            }
        }
        let mut columns = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            columns.push(self.finish_one(output, states, run)?.bound());
        }
        Ok(columns)
    }

    fn finish_one(&self, output: &Output, states: &mut States, run: &Run<'_>) -> Result<Column, ExecError> {
        let counts = |states: &States, of: usize| match &states.states[of] {
            State::Count(counts) => counts.clone(),
            _ => unreachable!("a count has the state of one"),
        };
        let valid = |counts: Option<&[i64]>| {
            counts.filter(|c| c.contains(&0)).map(|c| c.iter().map(|&n| n > 0).collect::<Vec<bool>>())
        };
        Ok(match output {
            Output::Count { of, field } => {
                let values = Values::Int(counts(states, *of));
                Column::new(ColumnInfo::plain(field.clone()), values, None)
            }
            Output::Sum { of, counts: number, finish } => {
                let counts = number.map(|n| counts(states, n));
                let values = finish.values(&states.states[*of], None, false)?;
                Column::new(ColumnInfo::plain(finish.field.clone()), values, valid(counts.as_deref()))
            }
            Output::Avg { of, counts: number, finish } => {
                let counts = counts(states, *number);
                let values = finish.values(&states.states[*of], Some(&counts), true)?;
                Column::new(ColumnInfo::plain(finish.field.clone()), values, valid(Some(&counts)))
            }
            Output::Most { of, counts: number, info } => {
                let valid = valid(number.map(|n| counts(states, n)).as_deref());
                let values = self.most_values(*of, &states.states[*of], info, valid.as_deref())?;
                Column::new(info.clone(), values, valid)
            }
            Output::Opaque { of, field } => {
                let groups = states.groups;
                let State::Opaque(opaque) = &mut states.states[*of] else {
                    unreachable!("an opaque function has a state of its own")
                };
                let types = self.kept[*of].columns.iter().map(|&c| self.infos[c].data_type().clone());
                let array = opaque.finish(types)?;
                if array.len() != groups {
                    let name = field.name();
                    return Err(ExecError::Evaluation(format!(
                        "{name} gave {} results for {groups} groups",
                        array.len()
                    )));
                }
                Column::new(ColumnInfo::plain(field.clone()), Values::Arrow(array), None)
            }
            Output::Distinct { of } => {
                let (Op::Distinct { coder, call }, State::Distinct(distinct)) =
                    (&self.kept[*of].op, &states.states[*of])
                else {
                    unreachable!("a set has the state of one")
                };
                let mut inner = distinct.finish(coder, call, states.groups)?;
                call.finish(&mut inner, run)?.pop().expect("one call has one result")
            }
            Output::Ranked { .. } | Output::Best { .. } | Output::Ordered { .. } => {
                self.finish_ordered(output, states, run)?
            }
        })
    }

    fn finish_ordered(&self, output: &Output, states: &States, run: &Run<'_>) -> Result<Column, ExecError> {
        match output {
            Output::Ranked { of, finish } => {
                let State::Lists(lists) = &states.states[*of] else { unreachable!("numbers are lists") };
                finish.finish(lists, states.groups, run)
            }
            Output::Best { of, finish } => {
                let (Op::Best { store, .. }, State::Best(best)) = (&self.kept[*of].op, &states.states[*of]) else {
                    unreachable!("the best rows have the state of such")
                };
                finish.of_rows(&store.read(&self.infos), best.rows())
            }
            Output::Ordered { of, finish } => {
                let (Op::Rows(store), State::Lists(lists)) = (&self.kept[*of].op, &states.states[*of]) else {
                    unreachable!("rows are lists of locators")
                };
                finish.finish(&store.read(&self.infos), lists, states.groups, run)
            }
            _ => unreachable!("the caller has looked"),
        }
    }

    fn most_values(
        &self,
        of: usize,
        state: &State,
        info: &ColumnInfo,
        valid: Option<&[bool]>,
    ) -> Result<Values, ExecError> {
        Ok(match (&self.kept[of].op, state) {
            (Op::Bytes { converter, .. }, State::Bytes(rows)) => Values::Arrow(array_of_rows(converter, rows, info)?),
            (Op::Most { low, high, smallest }, State::Most(numbers)) => {
                let (low, high, smallest) = (*low, *high, *smallest);
                let is_value = |group: usize| valid.is_none_or(|v| v[group]);
                let number = |(group, &number): (usize, &u64)| {
                    let value =
                        if smallest { high.wrapping_sub(number as i64) } else { low.wrapping_add(number as i64) };
                    if is_value(group) { value } else { low }
                };
                let numbers = numbers.iter().enumerate();
                match &info.kind {
                    ColumnKind::Vid(_) => Values::Vid(numbers.map(|n| number(n) as u32).collect()),
                    ColumnKind::Float => Values::Float(
                        numbers
                            .map(|(group, &n)| match is_value(group) {
                                true => of_ordered(if smallest { !n } else { n }),
                                false => 0.0,
                            })
                            .collect(),
                    ),
                    _ => Values::Int(numbers.map(number).collect()),
                }
            }
            _ => unreachable!("a smallest or largest value has the state of one"),
        })
    }
}

/// An array of a value of one column per row; NULL where there is none.
fn array_of_rows(
    converter: &RowConverter,
    rows: &[Option<Box<[u8]>>],
    info: &ColumnInfo,
) -> Result<ArrayRef, ExecError> {
    let null = converter.convert_columns(&[arrow::array::new_null_array(info.data_type(), 1)])?;
    let parser = converter.parser();
    let parsed = rows.iter().map(|row| parser.parse(row.as_deref().unwrap_or(null.row(0).data())));
    Ok(converter.convert_rows(parsed)?.pop().expect("one column"))
}
