//! The forms of rows: JSON, CSV, Arrow's stream, Parquet, piece by piece as batches come.

use arrow::array::RecordBatch;
use arrow::array::timezone::Tz;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use files::ParquetBytes;
use serde_json::json;

use super::answer::error_of;
use super::value::{Shape, text, type_name};
use crate::copy::options::{CopyFormat, CopyOptions, Header};
use crate::copy::text::write_value;
use crate::fault::{Fault, codes};
use crate::values::column::{Times, Values};

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `{"columns": [..], "rows": [[..], ..], ..}`.
    Json,
    /// Lines, the names of the columns first.
    Csv,
    /// Arrow's stream of messages.
    Arrow,
    /// A file of Parquet.
    Parquet,
}

/// Names, and kinds of bodies, the one that is sent first.
const FORMS: [(Form, &str, &[&str]); 4] = [
    (Form::Json, "json", &["application/json"]),
    (Form::Csv, "csv", &["text/csv"]),
    (Form::Arrow, "arrow", &["application/vnd.apache.arrow.stream"]),
    (Form::Parquet, "parquet", &["application/vnd.apache.parquet", "application/x-parquet"]),
];

impl Form {
    /// The form that a name in an address means.
    pub fn named(name: &str) -> Option<Form> {
        FORMS.iter().find(|(_, known, _)| *known == name).map(|(form, ..)| *form)
    }

    /// The form that is accepted, the dearest first; JSON where anything is; `None` where there is none.
    pub fn accepted(accept: &str) -> Option<Form> {
        let mut wanted: Vec<(f32, &str)> = accept
            .split(',')
            .filter(|one| !one.trim().is_empty())
            .map(|one| {
                let mut parts = one.split(';').map(str::trim);
                let kind = parts.next().unwrap_or_default();
                let quality = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse::<f32>().ok());
                (quality.filter(|q| q.is_finite()).unwrap_or(1.0), kind)
            })
            .filter(|(quality, _)| *quality > 0.0)
            .collect();
        if accept.trim().is_empty() {
            return Some(Form::Json);
        }
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0));
        wanted.iter().find_map(|(_, kind)| {
            let kind = kind.to_ascii_lowercase();
            let is = |(_, _, kinds): &&(Form, &str, &[&str])| kinds.contains(&kind.as_str());
            match kind.as_str() {
                "*/*" | "application/*" => Some(Form::Json),
                "text/*" => Some(Form::Csv),
                _ => FORMS.iter().find(is).map(|(form, ..)| *form),
            }
        })
    }

    /// The kind of its body.
    pub fn kind(self) -> &'static str {
        let of = FORMS.iter().find(|(form, ..)| *form == self).and_then(|(_, _, kinds)| kinds.first());
        match (self, of) {
            (Form::Csv, _) => "text/csv; charset=utf-8; header=present",
            (_, Some(kind)) => kind,
            (_, None) => unreachable!("every form has a kind"),
        }
    }

    /// What writes rows of these columns, and what stands before them.
    ///
    /// # Errors
    /// The form has no type for a column.
    pub fn begin(self, schema: &SchemaRef, zone: Tz, to: &mut Vec<u8>) -> Result<Box<dyn Writes>, Fault> {
        match self {
            Form::Json => Ok(Box::new(Json::begin(schema, zone, to))),
            Form::Csv => Ok(Box::new(Csv::begin(schema, zone, to))),
            Form::Arrow => {
                let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(unwritable)?;
                to.append(writer.get_mut());
                Ok(Box::new(writer))
            }
            Form::Parquet => {
                let writer = ParquetBytes::new(schema).map_err(unwritable)?;
                writer.take(to);
                Ok(Box::new(writer))
            }
        }
    }
}

fn unwritable(error: impl std::fmt::Display) -> Fault {
    Fault::new(codes::FEATURE_NOT_SUPPORTED, error.to_string())
}

/// What writes rows.
pub trait Writes: Send {
    /// Writes rows.
    ///
    /// # Errors
    /// A value that the form does not have.
    fn batch(&mut self, batch: &RecordBatch, to: &mut Vec<u8>) -> Result<(), Fault>;

    /// Writes what stands behind them; `tag` says what was done.
    ///
    /// # Errors
    /// As [`Writes::batch`].
    fn end(&mut self, tag: &str, to: &mut Vec<u8>) -> Result<(), Fault>;

    /// Ends with an error, if the form can tell one.
    fn fail(&mut self, _fault: &Fault, _to: &mut Vec<u8>) -> bool {
        false
    }
}

fn columns(batch: &RecordBatch, times: Times) -> Result<Vec<Values>, Fault> {
    let schema = batch.schema_ref();
    let of = batch.columns().iter().zip(schema.fields()).map(|(column, field)| Values::of_field(column, field, times));
    Ok(of.collect::<Result<_, _>>()?)
}

/// Rows as JSON.
struct Json {
    shapes: Vec<Shape>,
    times: Times,
    rows: u64,
}

impl Json {
    fn begin(schema: &SchemaRef, zone: Tz, to: &mut Vec<u8>) -> Json {
        to.extend(b"{\"columns\":[");
        for (place, field) in schema.fields().iter().enumerate() {
            to.extend(if place > 0 { &b","[..] } else { b"" });
            to.extend(b"{\"name\":");
            text(field.name(), to);
            to.extend(b",\"type\":");
            text(&type_name(field), to);
            to.push(b'}');
        }
        to.extend(b"],\"rows\":[");
        let shapes = schema.fields().iter().map(|field| Shape::of(field)).collect();
        Json { shapes, times: Times { zone, to_us: false }, rows: 0 }
    }
}

impl Writes for Json {
    fn batch(&mut self, batch: &RecordBatch, to: &mut Vec<u8>) -> Result<(), Fault> {
        let columns = columns(batch, self.times)?;
        let mut shown = Vec::new();
        for row in 0..batch.num_rows() {
            let start = to.len();
            to.extend(if self.rows > 0 { &b",\n["[..] } else { b"\n[" });
            for (place, (column, shape)) in columns.iter().zip(&self.shapes).enumerate() {
                if place > 0 {
                    to.push(b',');
                }
                if column.is_null(row) {
                    to.extend(b"null");
                    continue;
                }
                shown.clear();
                if let Err(wrong) = column.write_text(row, &mut shown) {
                    // What was written of the row is taken back, so that an error can stand behind the last one.
                    to.truncate(start);
                    return Err(wrong.into());
                }
                shape.write(&shown, to);
            }
            to.push(b']');
            self.rows += 1;
        }
        Ok(())
    }

    fn end(&mut self, tag: &str, to: &mut Vec<u8>) -> Result<(), Fault> {
        to.extend(format!("],\"row_count\":{},\"command\":{}}}\n", self.rows, json!(tag)).bytes());
        Ok(())
    }

    fn fail(&mut self, fault: &Fault, to: &mut Vec<u8>) -> bool {
        to.extend(format!("],\"error\":{}}}\n", error_of(fault, None)["error"]).bytes());
        true
    }
}

/// Rows as CSV, as COPY writes it.
struct Csv {
    options: CopyOptions,
    times: Times,
}

impl Csv {
    fn begin(schema: &SchemaRef, zone: Tz, to: &mut Vec<u8>) -> Csv {
        let (format, header) = (CopyFormat::Csv, Header::Names);
        let options = CopyOptions { format, delimiter: b',', null: String::new(), header, quote: b'"', escape: b'"' };
        let is_only = schema.fields().len() == 1;
        for (place, field) in schema.fields().iter().enumerate() {
            to.extend(if place > 0 { &b","[..] } else { b"" });
            write_value(Some(field.name().as_bytes()), is_only, &options, to);
        }
        to.push(b'\n');
        Csv { options, times: Times { zone, to_us: false } }
    }
}

impl Writes for Csv {
    fn batch(&mut self, batch: &RecordBatch, to: &mut Vec<u8>) -> Result<(), Fault> {
        let columns = columns(batch, self.times)?;
        let mut shown = Vec::new();
        for row in 0..batch.num_rows() {
            for (place, column) in columns.iter().enumerate() {
                if place > 0 {
                    to.push(b',');
                }
                shown.clear();
                let value = match column.is_null(row) {
                    true => None,
                    false => {
                        column.write_text(row, &mut shown)?;
                        Some(&shown[..])
                    }
                };
                write_value(value, columns.len() == 1, &self.options, to);
            }
            to.push(b'\n');
        }
        Ok(())
    }

    fn end(&mut self, _tag: &str, _to: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }
}

impl Writes for StreamWriter<Vec<u8>> {
    fn batch(&mut self, batch: &RecordBatch, to: &mut Vec<u8>) -> Result<(), Fault> {
        self.write(batch).map_err(unwritable)?;
        to.append(self.get_mut());
        Ok(())
    }

    fn end(&mut self, _tag: &str, to: &mut Vec<u8>) -> Result<(), Fault> {
        self.finish().map_err(unwritable)?;
        to.append(self.get_mut());
        Ok(())
    }
}

impl Writes for ParquetBytes {
    fn batch(&mut self, batch: &RecordBatch, to: &mut Vec<u8>) -> Result<(), Fault> {
        self.write(batch).map_err(unwritable)?;
        self.take(to);
        Ok(())
    }

    fn end(&mut self, _tag: &str, to: &mut Vec<u8>) -> Result<(), Fault> {
        self.finish().map_err(unwritable)?;
        self.take(to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_form_that_there_is_is_taken() {
        assert_eq!(Form::accepted(""), Some(Form::Json));
        assert_eq!(Form::accepted("*/*"), Some(Form::Json));
        assert_eq!(Form::accepted("text/html, */*;q=0.1"), Some(Form::Json));
        assert_eq!(Form::accepted("application/json;q=0.5, text/csv"), Some(Form::Csv));
        assert_eq!(Form::accepted("Application/Vnd.Apache.Arrow.Stream"), Some(Form::Arrow));
        assert_eq!(Form::accepted("application/vnd.apache.parquet;q=0"), None);
        assert_eq!(Form::accepted("image/png"), None);
        assert_eq!(Form::accepted("text/csv;q=nan, application/json;q=0.9"), Some(Form::Csv));
        assert_eq!(Form::named("parquet"), Some(Form::Parquet));
        assert_eq!(Form::named("xml"), None);
    }
}
