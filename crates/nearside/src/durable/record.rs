//! What stands in a record of the commit log, and in a checkpoint.
//!
//! A record is of one of two kinds. A *state* says what a commit has put, changed and taken away in the catalog: names
//! and definitions. A checkpoint is a state that puts everything, with the segments and deltas of all tables; a commit
//! that brings segments is one. *Rows* are what a statement has added to a table's delta and which rows died, by the
//! numbers that rows have while the log lasts: see [`storage::TableRow`].
//!
//! A state is JSON and, behind it, what JSON cannot hold: arrow schemas and batches, lists of deleted rows. Rows are
//! numbers and, where there are few, their values (`values`), else arrow batches.
//!
//! # Invariants
//! What is read back is what was written; bytes that are not such a record are an error, never a panic, and nothing is
//! allocated by a length that they claim.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use files::{Compression, FileFormat};
use serde::{Deserialize, Serialize};
use storage::TableRow;

use crate::catalog::check_option::CheckOption;
use crate::catalog::journal::Position;
use crate::catalog::journal::WrittenRows;
use crate::catalog::made_functions::MadeFunction;
use crate::catalog::rights::AllRights;
use crate::catalog::roles::Roles;
use crate::catalog::user_types::EnumType;
use crate::durable::rest::{Rest, malformed};
use crate::durable::values;
use crate::error::{Error, Result};

const STATE: u8 = 1;
/// Rows as arrow batches: written before there was [`ROWS`].
const BATCHES: u8 = 2;
/// The same of several tables.
const SEVERAL_BATCHES: u8 = 3;
const ROWS: u8 = 4;
/// The rows of several tables, each with its length before it.
const SEVERAL_ROWS: u8 = 5;
/// Where a sequence may be by now.
const SEQUENCE: u8 = 6;
/// How rows are written: as an arrow stream, as [`values`].
const AS_ARROW: u8 = 0;
const AS_VALUES: u8 = 1;
/// The segment of a row of the delta.
const OF_DELTA: u32 = u32::MAX;

/// Bytes behind the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Blob {
    at: u64,
    len: u64,
}

/// What a commit has changed in the catalog.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// All of the users' schemas, where they are others than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schemas: Option<Vec<String>>,
    /// Names that stand for nothing any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<NameOf>,
    /// Names and what they stand for from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<Put>,
    /// All settings of the database that are not at their defaults, where they are others than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<BTreeMap<String, String>>,
    /// All roles, where they are others than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Roles>,
    /// All rights that are told, where they are others than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<AllRights>,
    /// Of the database: what new tables begin with.
    pub next: Next,
}

/// Numbers that go on where they were.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Next {
    /// Of tables.
    pub table: u64,
    /// Of columns and tables in turn.
    pub turns: (usize, usize),
}

/// A full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct NameOf {
    pub schema: String,
    pub name: String,
}

/// A name and what it stands for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Put {
    pub name: NameOf,
    pub what: What,
    /// What was said of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<CommentOf>,
}

/// What was said of something, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommentOf {
    /// `COLUMN`, `CONSTRAINT` or `INDEX`, and its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<(String, String)>,
    pub text: String,
}

/// What a name stands for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    Table(Box<Table>),
    View {
        sql: String,
        columns: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<CheckOption>,
    },
    External(External),
    Sequence(Sequence),
    Enum(EnumType),
    Function(MadeFunction),
    Domain(Domain),
}

/// A domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Domain {
    pub id: u64,
    /// The type that it is over, as SQL writes it.
    pub base: String,
    /// The domain that it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Rule>,
    #[serde(default)]
    pub is_required: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckOf>,
}

/// A sequence.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sequence {
    pub id: u64,
    /// `BIGINT`.
    pub data_type: String,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cache: i64,
    pub cycle: bool,
    /// The table and the column that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(u64, String)>,
    /// Its last value, and whether that was given out.
    pub last: (i64, bool),
}

/// An expression over the columns of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub text: String,
    /// The time zone that it was planned in, where it depends on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A key of another table that columns have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForeignKeyOf {
    pub name: String,
    pub columns: Vec<String>,
    /// The other table's number.
    pub to: u64,
    pub to_columns: Vec<String>,
    /// `NO ACTION`, `CASCADE` and so on.
    pub on_delete: String,
    pub on_update: String,
    pub is_full: bool,
    /// `DEFERRABLE` and so on, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferral: Option<String>,
}

/// A condition that rows keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckOf {
    pub name: String,
    pub condition: Rule,
    /// Whether all rows are known to keep it.
    pub is_valid: bool,
}

/// A table that stays in files, and how they are read; see [`files::ReadOptions`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct External {
    pub path: String,
    pub format: Option<FileFormat>,
    pub compression: Option<Compression>,
    pub delimiter: Option<u8>,
    pub quote: Option<u8>,
    pub header: Option<bool>,
    pub null: Option<String>,
    /// Types of columns, as a schema.
    pub types: Blob,
    pub columns: Option<Vec<String>>,
}

/// A table.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub id: u64,
    /// Its arrow schema.
    pub schema: Blob,
    /// Default values as SQL, by column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<(String, String)>,
    /// The time zones of those that depend on one, by column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<(String, String)>,
    /// `VARCHAR(3)`, by column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<(String, String)>,
    /// Columns that are computed of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generated: Vec<(String, Rule)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckOf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKeyOf>,
    /// Columns that take their values from a sequence: whether they always do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<(String, bool)>,
    /// Columns of domains, and which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<(String, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// The query of a materialized view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<QueryOf>,
    pub placement: Placement,
    /// Its rows, where they are others than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Content>,
}

/// The query of a materialized view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryOf {
    pub sql: String,
    /// Whether the rows are those that it gave.
    pub is_populated: bool,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    pub name: String,
    pub columns: Vec<String>,
    pub unique: bool,
    /// `primary key`, `unique` or `created`.
    pub origin: String,
    /// `DEFERRABLE` and so on, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferral: Option<String>,
}

/// Where a table's columns and parts lie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Placement {
    /// As a user writes it.
    pub text: String,
    /// Columns dealt out before its first one, and tables before it.
    pub first_turn: (usize, usize),
    /// Columns in the order in which they came.
    pub turns: Vec<(String, usize)>,
    /// Columns that the placer has placed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_placer: Vec<String>,
    /// Bounds of parts by range, as one column of arrow, and whether they are another table's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<(Blob, bool)>,
}

/// A table's rows.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    /// By part.
    pub parts: Vec<Vec<SegmentOf>>,
    /// Rows of the delta that are not dead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delta: Vec<DeltaPiece>,
}

/// A segment by its number in the checkpoint, and which of its rows are deleted.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SegmentOf {
    pub number: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Blob>,
}

/// Rows of a delta. Which part they were of is not told: where they are loaded they get one anew.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeltaPiece {
    /// The rows' numbers, each of four bytes.
    pub numbers: Blob,
    /// The rows as arrow.
    pub rows: Blob,
}

/// What a statement has added to a delta, and which rows died.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows {
    pub table: u64,
    /// Rows, and the number of the first of them; the others follow.
    pub added: Vec<(u32, RecordBatch)>,
    pub dead: Vec<TableRow>,
}

/// A record that was read.
#[derive(Debug)]
pub(super) enum Record<'a> {
    State(State, Blobs<'a>),
    /// Of each table once.
    Rows(Vec<Rows>),
    /// The number of a sequence, and where it is.
    Sequence(u64, Position),
}

/// Bytes behind JSON, to be written.
#[derive(Debug, Default)]
pub(super) struct BlobsWriter(Vec<u8>);

/// Bytes behind JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blobs<'a>(&'a [u8]);

impl BlobsWriter {
    /// Adds some.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Blob {
        let blob = Blob { at: self.0.len() as u64, len: bytes.len() as u64 };
        self.0.extend_from_slice(bytes);
        blob
    }

    /// Adds a schema, as a stream of arrow without a batch.
    pub(super) fn add_schema(&mut self, schema: &Schema) -> Result<Blob> {
        let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
        writer.finish()?;
        Ok(self.add(&writer.into_inner()?))
    }

    /// Adds a batch with its schema.
    pub(super) fn add_batch(&mut self, batch: &RecordBatch) -> Result<Blob> {
        Ok(self.add(&ipc(batch)?))
    }

    /// Adds an array.
    pub(super) fn add_array(&mut self, array: &ArrayRef) -> Result<Blob> {
        let schema = Arc::new(Schema::new(vec![Field::new("values", array.data_type().clone(), true)]));
        self.add_batch(&RecordBatch::try_new(schema, vec![Arc::clone(array)])?)
    }
}

impl Blobs<'_> {
    /// The bytes of one.
    pub(super) fn get(&self, blob: Blob) -> Result<&[u8]> {
        let range = usize::try_from(blob.at).ok().zip(usize::try_from(blob.len).ok());
        let bytes = range.and_then(|(at, len)| self.0.get(at..at.checked_add(len)?));
        bytes.ok_or_else(|| malformed("it refers to bytes that it does not have"))
    }

    /// A schema.
    pub(super) fn schema(&self, blob: Blob) -> Result<SchemaRef> {
        Ok(StreamReader::try_new(Cursor::new(self.get(blob)?), None)?.schema())
    }

    /// A batch.
    pub(super) fn batch(&self, blob: Blob) -> Result<RecordBatch> {
        batch_of(self.get(blob)?)
    }

    /// An array.
    pub(super) fn array(&self, blob: Blob) -> Result<ArrayRef> {
        Ok(Arc::clone(self.batch(blob)?.columns().first().ok_or_else(|| malformed("a batch has no column"))?))
    }

    /// Numbers of four bytes.
    pub(super) fn numbers(&self, blob: Blob) -> Result<Vec<u32>> {
        let bytes = self.get(blob)?;
        match bytes.len() % 4 {
            0 => Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()),
            _ => Err(malformed("numbers of four bytes have a rest")),
        }
    }
}

/// A state as bytes.
pub(super) fn write_state(state: &State, blobs: &BlobsWriter) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(state).map_err(|e| Error::Internal(format!("a commit cannot be written: {e}")))?;
    let mut bytes = Vec::with_capacity(9 + json.len() + blobs.0.len());
    bytes.push(STATE);
    bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(&blobs.0);
    Ok(bytes)
}

/// Rows as bytes.
pub(super) fn write_rows<'a>(
    table: u64,
    added: impl ExactSizeIterator<Item = (u32, &'a RecordBatch)>,
    dead: &[TableRow],
) -> Result<Vec<u8>> {
    let mut bytes = vec![ROWS];
    put_rows(&mut bytes, table, added, dead)?;
    Ok(bytes)
}

/// The rows of several tables, as [`write_rows`] has each of them, as bytes.
pub(super) fn write_several(rows: &[WrittenRows<'_>]) -> Result<Vec<u8>> {
    let mut bytes = vec![SEVERAL_ROWS];
    bytes.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    for of_table in rows {
        let mut piece = Vec::new();
        let added = of_table.added.iter().map(|(first, batch)| (*first, *batch));
        put_rows(&mut piece, of_table.table, added, of_table.dead)?;
        bytes.extend_from_slice(&(piece.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn put_rows<'a>(
    bytes: &mut Vec<u8>,
    table: u64,
    added: impl ExactSizeIterator<Item = (u32, &'a RecordBatch)>,
    dead: &[TableRow],
) -> Result<()> {
    bytes.reserve(64 + 8 * dead.len());
    bytes.extend_from_slice(&table.to_le_bytes());
    bytes.extend_from_slice(&(dead.len() as u32).to_le_bytes());
    for row in dead {
        let (segment, row) = match row {
            TableRow::Base { segment, row } => (*segment, *row),
            TableRow::Delta { row } => (OF_DELTA, *row),
        };
        bytes.extend_from_slice(&segment.to_le_bytes());
        bytes.extend_from_slice(&row.to_le_bytes());
    }
    bytes.extend_from_slice(&(added.len() as u32).to_le_bytes());
    for (first, batch) in added {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.push(AS_VALUES);
        if values::put(batch, bytes) {
            continue;
        }
        bytes.pop();
        bytes.push(AS_ARROW);
        let batch = ipc(batch)?;
        bytes.extend_from_slice(&(batch.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&batch);
    }
    Ok(())
}

/// A sequence's place as bytes.
pub(super) fn write_sequence(id: u64, at: Position) -> Vec<u8> {
    let mut bytes = vec![SEQUENCE];
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&at.last.to_le_bytes());
    bytes.push(u8::from(at.is_called));
    bytes
}

/// The schema of the table of a number.
pub(super) type SchemaOf<'a> = dyn Fn(u64) -> Option<SchemaRef> + 'a;

/// What [`write_state`], [`write_rows`], [`write_several`] and [`write_sequence`] wrote; tables have these schemas when
/// it is told.
pub(super) fn read<'a>(bytes: &'a [u8], schema_of: &SchemaOf<'_>) -> Result<Record<'a>> {
    let mut rest = Rest(bytes);
    let kind = rest.u8()?;
    let has_values = matches!(kind, ROWS | SEVERAL_ROWS);
    let of_table = |rest| read_rows(rest, has_values, schema_of);
    match kind {
        STATE => {
            let len = rest.len()?;
            let json = rest.take(len)?;
            let state = serde_json::from_slice(json).map_err(|e| malformed(&e.to_string()))?;
            Ok(Record::State(state, Blobs(rest.0)))
        }
        SEQUENCE => {
            let id = rest.u64()?;
            let last = rest.u64()?.cast_signed();
            let is_called = match rest.u8()? {
                0 => false,
                1 => true,
                _ => return Err(malformed("a sequence has given out its value, or has not")),
            };
            match rest.0 {
                [] => Ok(Record::Sequence(id, Position { last, is_called })),
                _ => Err(malformed("bytes are left")),
            }
        }
        ROWS | BATCHES => Ok(Record::Rows(vec![of_table(rest)?])),
        SEVERAL_ROWS | SEVERAL_BATCHES => {
            let mut rows = Vec::new();
            for _ in 0..rest.u32()? {
                let len = rest.len()?;
                rows.push(of_table(Rest(rest.take(len)?))?);
            }
            match rest.0 {
                [] => Ok(Record::Rows(rows)),
                _ => Err(malformed("bytes are left")),
            }
        }
        _ => Err(malformed("it is of no known kind")),
    }
}

fn read_rows(mut rest: Rest<'_>, has_values: bool, schema_of: &SchemaOf<'_>) -> Result<Rows> {
    let table = rest.u64()?;
    let schema = schema_of(table).ok_or_else(|| malformed("a table that is not there is written"))?;
    let mut dead = Vec::new();
    for _ in 0..rest.u32()? {
        let (segment, row) = (rest.u32()?, rest.u32()?);
        dead.push(if segment == OF_DELTA { TableRow::Delta { row } } else { TableRow::Base { segment, row } });
    }
    let mut added = Vec::new();
    for _ in 0..rest.u32()? {
        let first = rest.u32()?;
        let batch = match if has_values { rest.u8()? } else { AS_ARROW } {
            AS_ARROW => {
                let len = rest.len()?;
                batch_of(rest.take(len)?)?
            }
            AS_VALUES => values::read(&mut rest, &schema)?,
            _ => return Err(malformed("rows are written in no known way")),
        };
        added.push((first, batch));
    }
    match rest.0 {
        [] => Ok(Rows { table, added, dead }),
        _ => Err(malformed("bytes are left")),
    }
}

fn ipc(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

fn batch_of(bytes: &[u8]) -> Result<RecordBatch> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None)?;
    reader.next().ok_or_else(|| malformed("a batch is missing"))?.map_err(Error::from)
}
