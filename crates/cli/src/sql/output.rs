//! Results on standard output: as a table for people, as CSV or JSON for programs. All three stream.
//!
//! - `table`: column widths come from the first [`WIDTH_ROWS`] rows, a later wider value pushes its line out. NULL
//!   reads `NULL`; control characters are escaped, so that no value can steer the terminal or break a line. On a
//!   terminal, and only there, wide columns are cut so that a row fits its width.
//! - `csv`: RFC 4180 with a header line; NULL is an empty field, an empty string is `""`.
//! - `json`: one array of row objects per statement; NULL is `null`, decimals are numbers with all their digits.
//!
//! In tables and CSV values are written as a cast to text writes them: `2024-01-31 10:00:00+02`, `{1,NULL}`, `1 day`.
//! In JSON dates and times are ISO 8601, with a `T`, and lists and rows are those of JSON.
//!
//! # Limits
//! The width of a character is estimated from its Unicode block, not from the terminal's font.

use std::io::Write;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use arrow::json::writer::{JsonArray, WriterBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::texts_of_values;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use tools::failure::Failure;

/// How many rows decide the widths of a table's columns.
pub const WIDTH_ROWS: usize = 1000;

/// A column is never cut below this width.
const WIDTH_MIN: usize = 8;

/// What results look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Columns for people, with a row count.
    Table,
    /// RFC 4180 with a header line.
    Csv,
    /// One array of row objects per statement.
    Json,
}

/// How many columns the terminal on standard output has.
pub fn terminal_width() -> Option<usize> {
    let mut editor: Editor<(), FileHistory> = Editor::with_config(Config::default()).ok()?;
    editor.dimensions().map(|(columns, _)| columns.into())
}

/// Writes one result; returns its number of rows. `terminal_width` is the number of columns of the terminal that `out`
/// is, if it is one.
pub fn write_result<E>(
    out: &mut dyn Write,
    format: Format,
    terminal_width: Option<usize>,
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
) -> Result<u64, Failure>
where
    Failure: From<E>,
{
    match format {
        Format::Table => write_table(out, terminal_width, schema, batches),
        Format::Csv => write_csv(out, schema, batches),
        Format::Json => write_json(out, batches),
    }
}

fn formatters<'a>(batch: &'a RecordBatch, null: &'a str) -> Result<Vec<ArrayFormatter<'a>>, Failure> {
    let options = FormatOptions::new().with_null(null).with_display_error(false);
    let columns = batch.columns().iter();
    Ok(columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options)).collect::<Result<_, _>>()?)
}

/// The batch with texts in the place of values that Arrow writes otherwise than SQL does; of JSON's types if `all` is
/// false.
fn with_texts(batch: RecordBatch, all: bool) -> Result<RecordBatch, Failure> {
    use DataType as T;
    let is_written = |of: &DataType| all || matches!(of, T::Interval(_) | T::Duration(_) | T::FixedSizeBinary(16));
    let text = |column: &ArrayRef| match is_written(column.data_type()) {
        true => texts_of_values(column),
        false => Ok(None),
    };
    let texts = batch.columns().iter().map(text).collect::<Result<Vec<_>, _>>()?;
    if texts.iter().all(Option::is_none) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().zip(texts).map(|(column, texts)| texts.unwrap_or_else(|| column.clone()));
    let names = batch.schema();
    let columns = columns.zip(names.fields()).map(|(column, field)| (field.name().clone(), column, true));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

// --- JSON ---

fn write_json<E>(out: &mut dyn Write, batches: impl Iterator<Item = Result<RecordBatch, E>>) -> Result<u64, Failure>
where
    Failure: From<E>,
{
    let mut rows = 0;
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(&mut *out);
    for batch in batches {
        let batch = with_texts(batch?, false)?;
        rows += batch.num_rows() as u64;
        writer.write(&batch)?;
    }
    writer.finish()?;
    writeln!(out)?;
    Ok(rows)
}

// --- CSV ---

fn write_csv<E>(
    out: &mut dyn Write,
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
) -> Result<u64, Failure>
where
    Failure: From<E>,
{
    let mut line = String::new();
    for (i, field) in schema.fields().iter().enumerate() {
        line.push_str(if i > 0 { "," } else { "" });
        push_csv(&mut line, field.name());
    }
    writeln!(out, "{line}")?;
    let mut rows = 0;
    let mut value = String::new();
    for batch in batches {
        let batch = with_texts(batch?, true)?;
        let formatters = formatters(&batch, "")?;
        // Also of columns of the type of NULL, which have no bitmap.
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        for row in 0..batch.num_rows() {
            line.clear();
            for (i, formatter) in formatters.iter().enumerate() {
                line.push_str(if i > 0 { "," } else { "" });
                if nulls[i].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    continue;
                }
                value.clear();
                formatter.value(row).write(&mut value)?;
                push_csv(&mut line, &value);
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

fn push_csv(line: &mut String, value: &str) {
    let quote = value.is_empty() || value.contains([',', '"', '\n', '\r']);
    if !quote {
        line.push_str(value);
        return;
    }
    line.push('"');
    line.push_str(&value.replace('"', "\"\""));
    line.push('"');
}

// --- table ---

fn write_table<E>(
    out: &mut dyn Write,
    terminal_width: Option<usize>,
    schema: &Schema,
    mut batches: impl Iterator<Item = Result<RecordBatch, E>>,
) -> Result<u64, Failure>
where
    Failure: From<E>,
{
    if schema.fields().is_empty() {
        let mut rows = 0;
        for batch in batches {
            rows += batch?.num_rows() as u64;
        }
        return Ok(rows);
    }
    let mut head = Vec::new();
    let mut head_rows = 0;
    while head_rows < WIDTH_ROWS {
        match batches.next() {
            Some(batch) => head.push(with_texts(batch?, true)?),
            None => break,
        }
        head_rows += head.last().map_or(0, RecordBatch::num_rows);
    }
    let layout = Layout::new(schema, &head, terminal_width)?;
    layout.write_header(out, schema)?;
    let mut rows = 0;
    for batch in head.into_iter().map(Ok).chain(batches) {
        let batch = with_texts(batch?, true)?;
        layout.write_rows(out, &batch)?;
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

/// The widths and sides of a table's columns.
struct Layout {
    widths: Vec<usize>,
    /// Numbers stand to the right.
    right: Vec<bool>,
    /// Wider texts are cut; numbers never are.
    most: Vec<usize>,
}

impl Layout {
    fn new(schema: &Schema, head: &[RecordBatch], terminal_width: Option<usize>) -> Result<Layout, Failure> {
        let mut widths: Vec<usize> = schema.fields().iter().map(|f| display_width(&escaped(f.name()))).collect();
        let mut value = String::new();
        for batch in head {
            for (formatter, width) in formatters(batch, "NULL")?.iter().zip(&mut widths) {
                for row in 0..batch.num_rows().min(WIDTH_ROWS) {
                    value.clear();
                    formatter.value(row).write(&mut value)?;
                    *width = (*width).max(display_width(&escaped(&value)));
                }
            }
        }
        if let Some(terminal_width) = terminal_width {
            fit(&mut widths, terminal_width);
        }
        let right: Vec<bool> = schema.fields().iter().map(|f| is_number(f.data_type())).collect();
        // What a row leaves of the terminal's width a text may have that comes later and is wider than those that were
        // seen.
        let taken = widths.iter().sum::<usize>() + 3 * widths.len();
        let spare = terminal_width.map(|terminal_width| (terminal_width + 1).saturating_sub(taken));
        let most = |(width, number): (&usize, &bool)| match spare {
            Some(spare) if !number => width + spare,
            _ => usize::MAX,
        };
        let most = widths.iter().zip(&right).map(most).collect();
        Ok(Layout { widths, right, most })
    }

    fn write_header(&self, out: &mut dyn Write, schema: &Schema) -> Result<(), Failure> {
        let mut line = String::new();
        let mut rule = String::new();
        for (i, field) in schema.fields().iter().enumerate() {
            line.push_str(if i > 0 { "|" } else { "" });
            rule.push_str(if i > 0 { "+" } else { "" });
            self.push_cell(&mut line, i, &escaped(field.name()));
            rule.push_str(&"-".repeat(self.widths[i] + 2));
        }
        writeln!(out, "{}\n{rule}", line.trim_end())?;
        Ok(())
    }

    fn write_rows(&self, out: &mut dyn Write, batch: &RecordBatch) -> Result<(), Failure> {
        let formatters = formatters(batch, "NULL")?;
        let mut line = String::new();
        let mut value = String::new();
        for row in 0..batch.num_rows() {
            line.clear();
            for (i, formatter) in formatters.iter().enumerate() {
                line.push_str(if i > 0 { "|" } else { "" });
                value.clear();
                formatter.value(row).write(&mut value)?;
                self.push_cell(&mut line, i, &escaped(&value));
            }
            line.truncate(line.trim_end().len());
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn push_cell(&self, line: &mut String, column: usize, value: &str) {
        let width = self.widths[column];
        let taken = display_width(value);
        let cut;
        let (value, taken) = if taken > self.most[column] {
            cut = cut_to(value, self.most[column]);
            (cut.as_str(), display_width(&cut))
        } else {
            (value, taken)
        };
        let pad = " ".repeat(width.saturating_sub(taken));
        let (before, after) = if self.right[column] { (pad.as_str(), "") } else { ("", pad.as_str()) };
        for piece in [" ", before, value, after, " "] {
            line.push_str(piece);
        }
    }
}

/// Narrows the widest columns until a row fits `terminal_width`, as far as [`WIDTH_MIN`] allows.
fn fit(widths: &mut [usize], terminal_width: usize) {
    let frame = 3 * widths.len();
    loop {
        let total: usize = widths.iter().sum::<usize>() + frame;
        let Some(over) = total.checked_sub(terminal_width + 1).filter(|&over| over > 0) else { return };
        let widest = widths.iter().copied().max().unwrap_or(0);
        // Down to the next narrower column at most, so that equals shrink together.
        let next = widths.iter().copied().filter(|&w| w < widest).max().unwrap_or(0).max(WIDTH_MIN);
        let equals = widths.iter().filter(|&&w| w == widest).count();
        if widest <= WIDTH_MIN {
            return;
        }
        let target = widest.saturating_sub(over.div_ceil(equals)).max(next).max(WIDTH_MIN);
        for width in widths.iter_mut().filter(|w| **w == widest) {
            *width = target;
        }
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// `text` without anything that moves a cursor.
fn escaped(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// The start of `text` with `…`, `width` wide at most.
fn cut_to(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut taken = 0;
    for c in text.chars() {
        let next = char_width(c);
        if taken + next + 1 > width {
            break;
        }
        taken += next;
        out.push(c);
    }
    out.push('…');
    out
}

/// How many terminal cells `text` takes.
pub fn display_width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char_width).sum() }
}

/// Two cells for East Asian wide and fullwidth characters and emoji, none for combining marks (Unicode blocks).
fn char_width(c: char) -> usize {
    match c as u32 {
        0..0x300 => 1,
        0x300..=0x36F | 0x483..=0x489 | 0x591..=0x5BD | 0x610..=0x61A | 0x64B..=0x65F => 0,
        0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x200B..=0x200F | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F => 0,
        0x1100..=0x115F | 0x2E80..=0x303E | 0x3041..=0x33FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF => 2,
        0xA000..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 => 2,
        0x1F300..=0x1F64F | 0x1F680..=0x1F6FF | 0x1F900..=0x1F9FF | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
