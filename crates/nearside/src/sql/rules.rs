//! What CREATE TABLE and ALTER TABLE say of rows and keys and the planner does not read: CHECK, columns that are
//! computed or numbered, the names of keys and when these are looked at.
//!
//! It is taken off the statement before that is planned; who makes the table puts it into effect.

use std::sync::Arc;

use sqlparser::ast::{
    self, CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, ConstraintCharacteristics,
    ConstraintReferenceMatchKind, CreateTable, DataType, DeferrableInitial, Expr, ForeignKeyConstraint, GeneratedAs,
    GeneratedExpressionMode, Ident, IndexColumn, ObjectName, PrimaryKeyConstraint, ReferentialAction,
    SequenceOptions as ParsedOptions, TableConstraint, UnaryOperator, UniqueConstraint, Value,
};

use super::normalised;
use crate::catalog::domains::DomainEntry;
use crate::catalog::rules::{Deferral, OnChange};
use crate::catalog::sequences::{SequenceOptions, SequenceType};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// A condition that rows are to keep.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WrittenCheck {
    /// Its name, where it was given one.
    pub name: Option<String>,
    /// The column whose definition has it.
    pub column: Option<String>,
    /// What it says.
    pub condition: Expr,
    /// Whether rows that are there have to keep it.
    pub is_valid: bool,
}

/// A column that takes its values from a sequence.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numbered {
    /// The column.
    pub column: String,
    /// Whether it is an identity, and then whether it always takes them; `None` for SERIAL.
    pub is_always: Option<bool>,
    /// What the sequence is to be like.
    pub options: SequenceOptions,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WrittenForeignKey {
    /// Its name, where it was given one.
    pub name: Option<String>,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub to: ObjectName,
    /// Its columns; none for its primary key.
    pub to_columns: Vec<String>,
    pub on_delete: OnChange,
    pub on_update: OnChange,
    pub is_full: bool,
    pub deferral: Deferral,
}

impl WrittenForeignKey {
    /// As the parser has it; of a column, where that is given.
    pub(crate) fn of(key: &ForeignKeyConstraint, name: Option<Ident>, column: Option<&str>) -> WrittenForeignKey {
        let action = |action: Option<ReferentialAction>| match action {
            None | Some(ReferentialAction::NoAction) => OnChange::NoAction,
            Some(ReferentialAction::Restrict) => OnChange::Restrict,
            Some(ReferentialAction::Cascade) => OnChange::Cascade,
            Some(ReferentialAction::SetNull) => OnChange::SetNull,
            Some(ReferentialAction::SetDefault) => OnChange::SetDefault,
        };
        let columns = match column {
            Some(column) => vec![column.to_string()],
            None => key.columns.iter().cloned().map(normalised).collect(),
        };
        WrittenForeignKey {
            name: name.or(key.name.clone()).map(normalised),
            columns,
            to: key.foreign_table.clone(),
            to_columns: key.referred_columns.iter().cloned().map(normalised).collect(),
            on_delete: action(key.on_delete),
            on_update: action(key.on_update),
            is_full: matches!(key.match_kind, Some(ConstraintReferenceMatchKind::Full)),
            deferral: deferral(key.characteristics.as_ref()),
        }
    }
}

/// What is said of when a key is looked at; what contradicts itself was refused before.
pub(crate) fn deferral(said: Option<&ConstraintCharacteristics>) -> Deferral {
    match said {
        Some(ConstraintCharacteristics { initially: Some(DeferrableInitial::Deferred), .. }) => Deferral::Deferred,
        Some(ConstraintCharacteristics { deferrable: Some(true), .. }) => Deferral::Immediate,
        _ => Deferral::Never,
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct WrittenRules {
    /// CHECK.
    pub checks: Vec<WrittenCheck>,
    /// Columns and what they are computed by.
    pub generated: Vec<(String, Expr)>,
    /// SERIAL and IDENTITY.
    pub numbered: Vec<Numbered>,
    /// REFERENCES and FOREIGN KEY.
    pub foreign_keys: Vec<WrittenForeignKey>,
    /// Names of keys, by their columns.
    pub key_names: Vec<(Vec<String>, String)>,
    /// When keys are looked at, by their columns.
    pub key_deferrals: Vec<(Vec<String>, Deferral)>,
    /// Columns of domains.
    pub domains: Vec<(String, Arc<DomainEntry>)>,
}

/// Takes what CREATE TABLE says of its rows off the statement.
///
/// # Errors
/// What contradicts itself.
pub(crate) fn take_rules(statement: &mut datafusion_sql::parser::Statement) -> Result<WrittenRules> {
    let datafusion_sql::parser::Statement::Statement(inner) = statement else { return Ok(WrittenRules::default()) };
    match inner.as_mut() {
        ast::Statement::CreateTable(create) => of_table(create),
        _ => Ok(WrittenRules::default()),
    }
}

fn of_table(create: &mut CreateTable) -> Result<WrittenRules> {
    let mut rules = WrittenRules::default();
    for column in &mut create.columns {
        of_column(column, &mut rules)?;
    }
    for constraint in std::mem::take(&mut create.constraints) {
        match constraint {
            TableConstraint::Check(CheckConstraint { name, expr, enforced: _ }) => rules.checks.push(WrittenCheck {
                name: name.map(normalised),
                column: None,
                condition: *expr,
                is_valid: true,
            }),
            TableConstraint::ForeignKey(key) => rules.foreign_keys.push(WrittenForeignKey::of(&key, None, None)),
            mut other => {
                rules.key_names.extend(key_name(&other));
                rules.key_deferrals.extend(take_key_deferral(&mut other));
                create.constraints.push(other);
            }
        }
    }
    let mut names: Vec<&String> = Vec::new();
    let checks = rules.checks.iter().filter_map(|check| check.name.as_ref());
    let foreign = rules.foreign_keys.iter().filter_map(|key| key.name.as_ref());
    for name in rules.key_names.iter().map(|(_, name)| name).chain(checks).chain(foreign) {
        if names.contains(&name) {
            return Err(Error::plan(
                SqlState::DuplicateObject,
                format!("two constraints of the table are called '{name}'; give one of them another name"),
            ));
        }
        names.push(name);
    }
    Ok(rules)
}

/// The columns and the name of a key that was given one.
fn key_name(constraint: &TableConstraint) -> Option<(Vec<String>, String)> {
    let (name, columns) = match constraint {
        TableConstraint::PrimaryKey(key) => (&key.name, &key.columns),
        TableConstraint::Unique(key) => (&key.name, &key.columns),
        _ => return None,
    };
    Some((names_of(columns), normalised(name.clone()?)))
}

/// The columns of a key, and when it is looked at, which the planner does not read.
fn take_key_deferral(constraint: &mut TableConstraint) -> Option<(Vec<String>, Deferral)> {
    let (columns, said) = match constraint {
        TableConstraint::PrimaryKey(key) => (&key.columns, &mut key.characteristics),
        TableConstraint::Unique(key) => (&key.columns, &mut key.characteristics),
        _ => return None,
    };
    Some((names_of(columns), deferral(said.take().as_ref())))
}

fn names_of(columns: &[IndexColumn]) -> Vec<String> {
    let columns = columns.iter().filter_map(|column| match &column.column.expr {
        Expr::Identifier(name) => Some(normalised(name.clone())),
        _ => None,
    });
    columns.collect()
}

/// Takes off a column's definition what the planner does not read of it.
///
/// # Errors
/// What contradicts itself.
pub(crate) fn of_column(column: &mut ColumnDef, rules: &mut WrittenRules) -> Result<()> {
    let name = normalised(column.name.clone());
    let wrong = |text: String| Err(Error::plan(SqlState::SyntaxError, text));
    let mut is_numbered = None;
    if let Some(of) = serial(&column.data_type) {
        column.data_type = match of {
            SequenceType::Small => DataType::SmallInt(None),
            SequenceType::Int => DataType::Integer(None),
            SequenceType::Big => DataType::BigInt(None),
        };
        is_numbered = Some((None, SequenceOptions { data_type: Some(of), ..SequenceOptions::default() }));
    }
    let mut computed = None;
    let mut kept: Vec<ColumnOptionDef> = Vec::new();
    for mut option in std::mem::take(&mut column.options) {
        match option.option {
            ColumnOption::Check(CheckConstraint { name: inner, expr, enforced: _ }) => {
                rules.checks.push(WrittenCheck {
                    name: option.name.or(inner).map(normalised),
                    column: Some(name.clone()),
                    condition: *expr,
                    is_valid: true,
                })
            }
            ColumnOption::ForeignKey(key) => {
                rules.foreign_keys.push(WrittenForeignKey::of(&key, option.name, Some(&name)));
            }
            ColumnOption::Generated { generation_expr: Some(expression), .. } => {
                if computed.replace(expression).is_some() {
                    return wrong(format!("column '{name}' is computed twice; leave one out"));
                }
            }
            ColumnOption::Generated { generated_as, sequence_options, .. } => {
                let options = sequence_options.iter().flatten().try_fold(SequenceOptions::default(), option_of)?;
                let data_type = Some(integer_type(&column.data_type).ok_or_else(|| {
                    Error::plan(
                        SqlState::InvalidParameterValue,
                        format!("identity column '{name}' must be SMALLINT, INTEGER or BIGINT"),
                    )
                })?);
                let is_always = matches!(generated_as, GeneratedAs::Always);
                let options = SequenceOptions { data_type, ..options };
                if is_numbered.replace((Some(is_always), options)).is_some() {
                    return wrong(format!("column '{name}' is numbered twice; leave one out"));
                }
            }
            ColumnOption::PrimaryKey(PrimaryKeyConstraint { characteristics: ref mut said, .. })
            | ColumnOption::Unique(UniqueConstraint { characteristics: ref mut said, .. }) => {
                rules.key_deferrals.push((vec![name.clone()], deferral(said.take().as_ref())));
                rules.key_names.extend(option.name.clone().map(|given| (vec![name.clone()], normalised(given))));
                kept.push(option);
            }
            _ => kept.push(option),
        }
    }
    let has_default = kept.iter().any(|option| matches!(option.option, ColumnOption::Default(_)));
    if has_default && (is_numbered.is_some() || computed.is_some()) {
        return wrong(format!("column '{name}' has a DEFAULT and is computed or numbered as well; leave one out"));
    }
    if is_numbered.is_some() && computed.is_some() {
        return wrong(format!("column '{name}' is computed and numbered; leave one out"));
    }
    if let Some((is_always, options)) = is_numbered {
        if kept.iter().any(|option| matches!(option.option, ColumnOption::Null)) {
            return wrong(format!("column '{name}' is numbered, which gives no NULL; leave NULL out"));
        }
        if !kept.iter().any(|option| matches!(option.option, ColumnOption::NotNull)) {
            kept.push(ColumnOptionDef { name: None, option: ColumnOption::NotNull });
        }
        rules.numbered.push(Numbered { column: name.clone(), is_always, options });
    }
    rules.generated.extend(computed.map(|expression| (name, expression)));
    column.options = kept;
    Ok(())
}

/// The type of a column that is SERIAL.
pub(crate) fn serial(data_type: &DataType) -> Option<SequenceType> {
    let DataType::Custom(name, modifiers) = data_type else { return None };
    let [part] = name.0.as_slice() else { return None };
    let Ident { value, quote_style: None, .. } = part.as_ident()? else { return None };
    match value.to_ascii_lowercase().as_str() {
        _ if !modifiers.is_empty() => None,
        "smallserial" | "serial2" => Some(SequenceType::Small),
        "serial" | "serial4" => Some(SequenceType::Int),
        "bigserial" | "serial8" => Some(SequenceType::Big),
        _ => None,
    }
}

fn integer_type(data_type: &DataType) -> Option<SequenceType> {
    SequenceType::of(&data_type.to_string())
}

/// Whether a computed column is one as there is: its values are stored.
pub(super) fn is_stored(mode: Option<&GeneratedExpressionMode>) -> bool {
    matches!(mode, Some(GeneratedExpressionMode::Stored))
}

fn option_of(mut options: SequenceOptions, option: &ParsedOptions) -> Result<SequenceOptions> {
    match option {
        ParsedOptions::IncrementBy(by, _) => options.increment = Some(whole(by)?),
        ParsedOptions::MinValue(value) => options.min = Some(value.as_ref().map(whole).transpose()?),
        ParsedOptions::MaxValue(value) => options.max = Some(value.as_ref().map(whole).transpose()?),
        ParsedOptions::StartWith(value, _) => options.start = Some(whole(value)?),
        ParsedOptions::Cache(value) => options.cache = Some(whole(value)?),
        // The parser's flag says NO CYCLE.
        ParsedOptions::Cycle(is_not) => options.cycle = Some(!is_not),
    }
    Ok(options)
}

fn whole(value: &Expr) -> Result<i64> {
    let text = match value {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => expr.to_string(),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    };
    text.parse().map_err(|_| {
        Error::plan(SqlState::SyntaxError, format!("{text} is not a whole number of 64 bits, as a sequence has them"))
    })
}
