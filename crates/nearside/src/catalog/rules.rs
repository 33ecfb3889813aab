//! What a table says of each row by itself: columns that are computed of others, and conditions that must not be false.
//!
//! Both are expressions over the columns of one row. They are kept as texts, in folders and in exported scripts, and
//! evaluated through a trait that who plans them implements, since the catalog knows no plan.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::catalog::Name;
use crate::catalog::defaults::ColumnDefault;
use crate::catalog::lengths::{Length, enforced_column};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// What conditions of a domain call the value.
pub(crate) const VALUE: &str = "value";

/// How many characters of a row a message shows at most.
const SHOWN_CHARS: usize = 200;

/// Evaluates an expression over rows.
pub(crate) trait OverRows: Debug + Send + Sync {
    /// Its values for `rows` rows of the columns that it was planned over.
    ///
    /// # Errors
    /// Those of evaluating it.
    fn of(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef>;
}

/// An expression over the columns of a row.
#[derive(Debug, Clone)]
pub(crate) struct RowExpression {
    /// As it is written, without the table's name.
    pub text: Arc<str>,
    /// The time zone that it was planned in, where it depends on one.
    pub zone: Option<Arc<str>>,
    /// The columns that it reads, in the order in which it is given them.
    pub columns: Vec<String>,
    /// What evaluates it.
    pub evaluated: Arc<dyn OverRows>,
}

impl PartialEq for RowExpression {
    fn eq(&self, other: &RowExpression) -> bool {
        self.text == other.text && self.zone == other.zone && self.columns == other.columns
    }
}

impl RowExpression {
    /// Whether it reads a column.
    pub(crate) fn reads(&self, column: &str) -> bool {
        self.columns.iter().any(|read| read == column)
    }

    /// Its values for rows of a table's columns.
    fn of(&self, rows: &RecordBatch, schema: &Schema) -> Result<ArrayRef> {
        let column = |name: &String| Ok(Arc::clone(rows.column(schema.index_of(name)?)));
        let columns = self.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        self.evaluated.of(&columns, rows.num_rows())
    }
}

/// A condition that is false for no row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Check {
    /// Its name, which no other constraint of the table has.
    pub name: String,
    /// What it says.
    pub condition: RowExpression,
    /// Whether all rows are known to keep it; else those that were written since it was added.
    pub is_valid: bool,
}

/// What becomes of rows that refer to a key which goes or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnChange {
    /// The statement fails where there are any once it has ended.
    #[default]
    NoAction,
    /// It fails, too.
    Restrict,
    /// They go with it, or get the key's new values.
    Cascade,
    /// Their columns become NULL.
    SetNull,
    /// Their columns get their defaults.
    SetDefault,
}

impl OnChange {
    /// As SQL writes it.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            OnChange::NoAction => "NO ACTION",
            OnChange::Restrict => "RESTRICT",
            OnChange::Cascade => "CASCADE",
            OnChange::SetNull => "SET NULL",
            OnChange::SetDefault => "SET DEFAULT",
        }
    }

    /// What SQL's words say.
    pub(crate) fn of(text: &str) -> Option<OnChange> {
        use OnChange::{Cascade, NoAction, Restrict, SetDefault, SetNull};
        [NoAction, Restrict, Cascade, SetNull, SetDefault].into_iter().find(|action| action.sql() == text)
    }
}

/// When it is looked at whether rows keep a key or a foreign key, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Deferral {
    /// At the end of each statement.
    #[default]
    Never,
    /// At the end of each statement, unless SET CONSTRAINTS says otherwise.
    Immediate,
    /// At COMMIT, unless SET CONSTRAINTS says otherwise.
    Deferred,
}

impl Deferral {
    /// As SQL writes it.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Deferral::Never => "NOT DEFERRABLE",
            Deferral::Immediate => "DEFERRABLE",
            Deferral::Deferred => "DEFERRABLE INITIALLY DEFERRED",
        }
    }

    /// The same behind a definition, which says nothing of what is usual.
    pub(crate) fn suffix(self) -> String {
        match self {
            Deferral::Never => String::new(),
            other => format!(" {}", other.sql()),
        }
    }

    /// What SQL's words say.
    pub(crate) fn of(text: &str) -> Option<Deferral> {
        [Deferral::Never, Deferral::Immediate, Deferral::Deferred].into_iter().find(|deferral| deferral.sql() == text)
    }
}

/// Rows of the table refer to rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignKey {
    /// Its name, which no other constraint of the table has.
    pub name: String,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub to: u64,
    /// Its columns, which are one of its keys, each for one that refers.
    pub to_columns: Vec<String>,
    /// What becomes of rows whose key is deleted.
    pub on_delete: OnChange,
    /// What becomes of rows whose key becomes another.
    pub on_update: OnChange,
    /// MATCH FULL: either all columns are NULL or none is.
    pub is_full: bool,
    /// When that is looked at.
    pub deferral: Deferral,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RowRules {
    /// Columns that are computed, by name. None reads another one.
    pub generated: BTreeMap<String, RowExpression>,
    /// Conditions, in the order in which they are looked at: that of their names.
    pub checks: Vec<Check>,
    /// Keys of other tables that columns have, in the order of their names.
    pub foreign_keys: Vec<ForeignKey>,
    /// Columns that are numbered by a sequence of theirs: whether no statement may give them other values.
    pub identities: BTreeMap<String, bool>,
    /// Columns that are of a domain, and what that says.
    pub domains: BTreeMap<String, Arc<DomainRules>>,
}

/// What a domain says of values, and the domains that it is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DomainRules {
    /// Which domain.
    pub id: u64,
    /// What a column gets that has no default of its own.
    pub default: Option<ColumnDefault>,
    length: Option<Length>,
    /// From the innermost out.
    layers: Vec<DomainLayer>,
}

/// What one domain says itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DomainLayer {
    /// Which.
    pub id: u64,
    /// What it is called.
    pub name: Name,
    /// Whether it allows no NULL.
    pub is_required: bool,
    /// Its conditions.
    pub checks: Vec<Check>,
}

impl DomainRules {
    /// Of a domain: its default, which texts its values are, and what it and those that it is over say, from the
    /// innermost out.
    pub(super) fn new(
        id: u64,
        default: Option<ColumnDefault>,
        length: Option<Length>,
        layers: Vec<DomainLayer>,
    ) -> DomainRules {
        DomainRules { id, default, length, layers }
    }

    /// Whether it is a domain, or is over it.
    pub(crate) fn is_of(&self, id: u64) -> bool {
        self.layers.iter().any(|layer| layer.id == id)
    }

    /// Values as they are kept, `None` where they are so already.
    ///
    /// # Errors
    /// One that the domain does not allow.
    pub(crate) fn enforced(&self, values: &ArrayRef) -> Result<Option<ArrayRef>> {
        let kept = match &self.length {
            Some(length) => enforced_column(values, length, VALUE)?,
            None => None,
        };
        self.check(kept.as_ref().unwrap_or(values))?;
        Ok(kept)
    }

    /// Looks at values.
    ///
    /// # Errors
    /// One that the domain does not allow.
    pub(crate) fn check(&self, values: &ArrayRef) -> Result<()> {
        let field = Field::new(VALUE, values.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let options = RecordBatchOptions::new().with_row_count(Some(values.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![Arc::clone(values)], &options)?;
        for layer in &self.layers {
            let shown = layer.name.shown();
            if layer.is_required && values.logical_null_count() > 0 {
                return Err(Error::execution(
                    SqlState::NotNullViolation,
                    format!("domain {shown} does not allow null values"),
                ));
            }
            for check in &layer.checks {
                if check.broken_by(&rows, &schema)?.is_some() {
                    return Err(Error::execution(
                        SqlState::CheckViolation,
                        format!(
                            "value for domain {shown} violates check constraint \"{}\", which says {}",
                            check.name, check.condition.text
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// What a statement may put into a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writable {
    /// Any value.
    Any,
    /// DEFAULT alone, unless it says OVERRIDING SYSTEM VALUE.
    NumberedAlways,
    /// Any value, unless it says OVERRIDING USER VALUE.
    NumberedByDefault,
    /// DEFAULT alone: it is computed.
    Computed,
}

impl RowRules {
    /// What a statement may put into a column.
    pub(crate) fn writable(&self, column: &str) -> Writable {
        match self.identities.get(column) {
            Some(true) => Writable::NumberedAlways,
            Some(false) => Writable::NumberedByDefault,
            None if self.generated.contains_key(column) => Writable::Computed,
            None => Writable::Any,
        }
    }

    /// Adds a foreign key.
    pub(crate) fn refer(&mut self, key: ForeignKey) {
        self.foreign_keys.push(key);
        self.foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Adds a condition.
    pub(crate) fn add(&mut self, check: Check) {
        self.checks.push(check);
        self.checks.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Rows of a table's columns with those that are computed; `None` where none is.
    ///
    /// # Errors
    /// Those of computing them.
    pub(crate) fn computed(&self, rows: &RecordBatch, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        if self.generated.is_empty() {
            return Ok(None);
        }
        let mut columns = rows.columns().to_vec();
        for (name, expression) in &self.generated {
            columns[schema.index_of(name)?] = expression.of(rows, schema)?;
        }
        // NULL may stand anywhere until rows are checked.
        let fields = schema.fields().iter().map(|field| Arc::new(Field::clone(field).with_nullable(true)));
        let nullable = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(Some(RecordBatch::try_new_with_options(nullable, columns, &options)?))
    }

    /// Looks at values of columns that are of domains.
    ///
    /// # Errors
    /// One that its domain does not allow.
    pub(crate) fn check_domains(&self, rows: &RecordBatch, schema: &Schema) -> Result<()> {
        let mut all = self.domains.iter();
        all.try_for_each(|(column, domain)| domain.check(rows.column(schema.index_of(column)?)))
    }

    /// Looks at rows as the table would keep them.
    ///
    /// # Errors
    /// A row for which a condition is false.
    pub(crate) fn check(&self, rows: &RecordBatch, schema: &Schema, table: &Name) -> Result<()> {
        self.check_domains(rows, schema)?;
        for check in &self.checks {
            if let Some(row) = check.broken_by(rows, schema)? {
                let without = format!(
                    "a row of table '{}' violates check constraint '{}', which says {}",
                    table.shown(),
                    check.name,
                    check.condition.text,
                );
                return Err(Error::of_rows(
                    SqlState::CheckViolation,
                    format!("{without}: ({})", shown(rows, row)),
                    (&table.schema, &table.table),
                    schema.fields().iter().map(|field| field.name().clone()),
                    without,
                )
                .of_constraint((&table.schema, &table.table), &check.name));
            }
        }
        Ok(())
    }
}

impl Check {
    /// The first row for which it is false.
    ///
    /// # Errors
    /// Those of evaluating it.
    pub(crate) fn broken_by(&self, rows: &RecordBatch, schema: &Schema) -> Result<Option<usize>> {
        let holds = self.condition.of(rows, schema)?;
        let holds = holds.as_boolean();
        let is_broken = |row: &usize| holds.is_valid(*row) && !holds.value(*row);
        Ok(match holds.false_count() {
            0 => None,
            _ => (0..holds.len()).find(is_broken),
        })
    }
}

/// A row's values as text, long ones cut.
fn shown(rows: &RecordBatch, row: usize) -> String {
    let value = |column: &ArrayRef| match column.is_null(row) {
        true => "NULL".into(),
        false => arrow::util::display::array_value_to_string(column, row).unwrap_or_else(|_| "?".into()),
    };
    let text = rows.columns().iter().map(value).collect::<Vec<_>>().join(", ");
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}
