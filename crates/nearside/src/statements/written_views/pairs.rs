//! ON CONFLICT of an INSERT into a view: its keys are those of the table, and DO UPDATE names columns of the view, in
//! the row that is there and in the proposed one.

use std::sync::Arc;

use datafusion_expr::{Expr, LogicalPlan, TableScanBuilder, TableSource};

use super::{Verb, WrittenView, spine};
use crate::catalog::TableEntry;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Thing;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::sql::{Target, Writes, fresh_name};
use crate::statements::pairs::{PAIRS_ID, names_of_pairs};
use crate::tables::stored::StoredSource;

impl WrittenView {
    /// Which keys of the table a clause is about.
    ///
    /// # Errors
    /// Columns of the view that are none of the table, constraints, which a view has none of.
    pub(crate) fn target_of(&self, target: &Target) -> Result<Target> {
        let shown = self.as_table.name.shown();
        match target {
            Target::Any => Ok(Target::Any),
            Target::Columns(columns) => {
                let columns = columns.iter().map(|column| {
                    if self.as_table.base.schema.field_with_name(column).is_err() {
                        let nearest = crate::error::names::nearest(
                            column,
                            self.as_table.base.schema.fields().iter().map(|field| field.name().as_str()),
                        );
                        return Err(Error::NotFound { kind: "column", name: column.clone(), nearest });
                    }
                    self.of.column(column).ok_or_else(|| {
                        Error::plan(
                            SqlState::InvalidColumnReference,
                            format!(
                                "ON CONFLICT ({column}): column '{column}' of view '{shown}' is no column of a table"
                            ),
                        )
                    })
                });
                Ok(Target::Columns(columns.collect::<Result<_>>()?))
            }
            Target::Constraint(constraint) => Err(Error::plan(
                SqlState::UndefinedObject,
                format!(
                    "ON CONFLICT ON CONSTRAINT {constraint}: view '{shown}' has no constraints; name the columns of \
                     the key: ON CONFLICT (columns)"
                ),
            )),
        }
    }

    /// The view as if it were a table whose rows are changed: it has no defaults.
    pub(crate) fn changed_row(&self) -> TableEntry {
        TableEntry { defaults: Arc::default(), ..TableEntry::clone(&self.as_table) }
    }

    /// Fails where the role may not read the columns of the view that ON CONFLICT names.
    ///
    /// # Errors
    /// So it is.
    pub(crate) fn may_look_up(&self, target: &Target, running: &RunningStatement) -> Result<()> {
        match target {
            Target::Columns(columns) => running.may().need_columns(
                &Thing::named(&self.as_table.name),
                Privileges::SELECT,
                &columns.iter().cloned().collect(),
            ),
            _ => Ok(()),
        }
    }

    /// What DO UPDATE comes to over pairs of rows of the table, as planned over pairs of rows of the view: the table's
    /// row as it is to be, and the number of the pair.
    ///
    /// # Errors
    /// Columns that cannot be written, what the view's owner must not do.
    pub(crate) fn pairs_updated(
        &self,
        plan: LogicalPlan,
        writes: &Writes,
        pairs: &TableEntry,
        running: &RunningStatement,
    ) -> Result<LogicalPlan> {
        let given = self.given(writes);
        self.are_writable(&given, Verb::Update)?;
        self.owners_may(&given, Verb::Update, true, running)?;
        let LogicalPlan::Projection(top) = plan else {
            return Err(Error::Internal("an UPDATE without a projection".into()));
        };
        let number = fresh_name("number");
        let carried: Vec<String> = self.kept.iter().cloned().chain([number.clone()]).collect();
        let rows = self.pairs(pairs, &number)?;
        let input = spine::in_place_of(LogicalPlan::clone(&top.input), PAIRS_ID, &rows, &carried)?;
        let mut outputs = Vec::new();
        for (field, kept) in self.of.table.base.schema.fields().iter().zip(&self.kept) {
            let value = match self.place_of(field.name(), &given) {
                Some(place) => top.expr[place].clone().unalias(),
                None => Expr::Column(spine::column(&input, kept)?),
            };
            outputs.push(value.alias(field.name()));
        }
        outputs.push(Expr::Column(spine::column(&input, &number)?));
        self.with_views(spine::projected(outputs, input)?)
    }

    /// Pairs of rows of the view, made of those of the table: columns of the view in the row that is there, in the
    /// proposed one, the number, then the table's row as it is kept.
    fn pairs(&self, pairs: &TableEntry, number: &str) -> Result<LogicalPlan> {
        let source: Arc<dyn TableSource> = Arc::new(StoredSource::new(pairs));
        let scan = LogicalPlan::TableScan(TableScanBuilder::new(super::reference(&pairs.name), source).build()?);
        let columns = scan.schema().columns();
        let width = self.kept.len();
        let own = &columns[..width];
        let proposed: Vec<String> = own.iter().map(|_| fresh_name("proposed")).collect();
        let named = |column: &datafusion_common::Column, name: &str| Expr::Column(column.clone()).alias(name);
        let mut outputs: Vec<Expr> = own.iter().cloned().map(Expr::Column).collect();
        outputs.extend(own.iter().zip(&self.kept).map(|(column, kept)| named(column, kept)));
        outputs.extend(columns[width..2 * width].iter().zip(&proposed).map(|(column, name)| named(column, name)));
        outputs.push(named(&columns[2 * width], number));
        let leaf = spine::projected(outputs, scan)?;
        let mut carried: Vec<String> = self.kept.iter().chain(&proposed).cloned().chain([number.to_string()]).collect();
        let there = spine::through(&self.plan, &leaf, &carried, false)?;
        // Once more for the proposed row, behind which stands what was made of the other.
        let of_view = self.as_table.base.schema.fields();
        let seen: Vec<String> = of_view.iter().map(|_| fresh_name("seen")).collect();
        let fields = self.of.table.base.schema.fields();
        let mut outputs = Vec::new();
        for (field, name) in fields.iter().zip(&proposed) {
            outputs.push(named(&spine::column(&there, name)?, field.name()));
        }
        outputs.extend(there.schema().columns().iter().zip(&seen).map(|(column, seen)| named(column, seen)));
        for name in carried.iter().filter(|name| !proposed.contains(name)) {
            outputs.push(named(&spine::column(&there, name)?, name));
        }
        let leaf = spine::projected(outputs, there)?;
        carried.retain(|name| !proposed.contains(name));
        let carried: Vec<String> = seen.iter().chain(&carried).cloned().collect();
        let both = spine::through(&self.plan, &leaf, &carried, false)?;
        let mut outputs = Vec::new();
        let (names, excluded) = names_of_pairs(&self.as_table);
        for (name, seen) in names.iter().zip(&seen) {
            outputs.push(named(&spine::column(&both, seen)?, name));
        }
        outputs.extend(both.schema().columns().iter().zip(&excluded).map(|(column, name)| named(column, name)));
        for name in self.kept.iter().map(String::as_str).chain([number]) {
            outputs.push(named(&spine::column(&both, name)?, name));
        }
        spine::projected(outputs, both)
    }
}
