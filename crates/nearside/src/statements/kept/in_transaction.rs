//! A kept write as a statement of a transaction: see [`crate::statements::transaction::by_keys`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use datafusion_common::ScalarValue;

use super::{Action, KeptWrite};
use crate::error::Result;
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::statements::small::checked_rows;
use crate::statements::transaction::by_keys::{ByKeys, Keyed, KeyedRow, KeyedTable};

impl KeptWrite {
    /// Runs it with values as a statement of a transaction; `None` where it has done nothing and has to go the usual
    /// way, which is also who says that a key is taken.
    ///
    /// # Errors
    /// Those of the statement; another transaction is in the way.
    pub(crate) fn run_by_keys(
        &self,
        values: &[ScalarValue],
        running: &Arc<RunningStatement>,
        of: &mut ByKeys<'_>,
    ) -> Result<Option<Done>> {
        let Some(parameters) = self.parameters_of(values, running)? else { return Ok(None) };
        of.write(&self.table, running, |of, running| match running.catalog.ddl_version == self.ddl_version {
            true => self.by_keys(of, &parameters),
            false => Ok(Keyed::Otherwise),
        })
    }

    fn by_keys(&self, of: &mut KeyedTable<'_>, parameters: &[ArrayRef]) -> Result<Keyed> {
        match &self.action {
            Action::Insert { row, conflict } => {
                let row = checked_rows(of.table, &self.new_row(row, parameters)?)?;
                let taken = of.find_key_of(&row)?;
                let conflict = match (taken, conflict) {
                    (KeyedRow::None, _) => return of.add(row, "INSERT"),
                    (KeyedRow::Own(_) | KeyedRow::Shared(_), Some(conflict)) => conflict,
                    _ => return Ok(Keyed::Otherwise),
                };
                let is_of_key = conflict.indexes.iter().any(|(index, _)| *index == 0);
                let nothing = Ok(Keyed::Done(Done::rows("INSERT", 0)));
                let Some(update) = conflict.update.as_ref().filter(|_| is_of_key) else {
                    return if is_of_key { nothing } else { Ok(Keyed::Otherwise) };
                };
                if !update.row.keeps_key {
                    return Ok(Keyed::Otherwise);
                }
                let mut pair = of.columns(taken, &self.all)?;
                pair.extend(row.columns().iter().chain(parameters).cloned());
                if let Some(condition) = &update.condition {
                    let holds = condition.of(&pair)?;
                    let holds = holds.as_boolean();
                    if holds.is_null(0) || !holds.value(0) {
                        return nothing;
                    }
                }
                let new = checked_rows(of.table, &self.new_row(&update.row.values, &pair)?)?;
                of.change(taken, Some(new), "INSERT")
            }
            Action::Update { key, row } => {
                let values = key.values.iter().map(|value| value.of(parameters)).collect::<Result<Vec<_>>>()?;
                let found = of.find(key.index, &values)?;
                match found {
                    KeyedRow::None => return Ok(Keyed::Done(Done::rows("UPDATE", 0))),
                    KeyedRow::Unsure => return Ok(Keyed::Otherwise),
                    _ if !row.keeps_key => return Ok(Keyed::Otherwise),
                    KeyedRow::Own(_) | KeyedRow::Shared(_) => {}
                }
                let mut existing = of.columns(found, &self.all)?;
                existing.extend(parameters.iter().cloned());
                let new = checked_rows(of.table, &self.new_row(&row.values, &existing)?)?;
                of.change(found, Some(new), "UPDATE")
            }
            Action::Delete { key, none: _ } => {
                let values = key.values.iter().map(|value| value.of(parameters)).collect::<Result<Vec<_>>>()?;
                match of.find(key.index, &values)? {
                    KeyedRow::None => Ok(Keyed::Done(Done::rows("DELETE", 0))),
                    found => of.change(found, None, "DELETE"),
                }
            }
        }
    }
}
