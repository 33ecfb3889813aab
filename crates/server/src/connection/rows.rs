//! Rows on their way to the client.

use arrow::array::ArrayRef;
use arrow::array::timezone::Tz;
use arrow::datatypes::{FieldRef, SchemaRef};
use futures::{FutureExt, StreamExt};
use nearside::{ResultStream, Session, pg_types as types};

use super::{Connection, Result, SEND_AT};
use crate::fault::{Fault, codes};
use crate::statement::Kind;
use crate::values::column::{Times, Values};
use crate::wire::Format;
use crate::wire::backend::Column;

/// Rows of a query that are not sent yet.
pub struct Rows {
    stream: ResultStream,
    batch: Option<Batch>,
    formats: Vec<Format>,
    times: Times,
}

struct Batch {
    columns: Vec<Values>,
    rows: usize,
    next: usize,
}

/// Whether there may be more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// All that there are.
    All(u64),
    /// As many as were asked for.
    Some,
}

/// How the columns of a result are told.
///
/// # Errors
/// There are too many.
pub fn columns_of(schema: &SchemaRef, formats: &[Format]) -> Result<Vec<Column>, Fault> {
    let count = schema.fields().len();
    if count > i16::MAX as usize {
        return Err(Fault::new(
            codes::LIMIT_EXCEEDED,
            format!("a result of {count} columns has too many for the wire"),
        ));
    }
    let column = |(place, field): (usize, &FieldRef)| {
        let of = types::of_field(field);
        let format = format_of(formats, place);
        Column { name: field.name().clone(), oid: of.oid, length: of.length, modifier: of.modifier, format }
    };
    Ok(schema.fields().iter().enumerate().map(column).collect())
}

/// One for all, or one each; none for text.
fn format_of(formats: &[Format], place: usize) -> Format {
    match formats {
        [] => Format::Text,
        [one] => *one,
        each => each.get(place).copied().unwrap_or(Format::Text),
    }
}

/// The zone that a session writes times in.
pub fn zone(session: &Session) -> Tz {
    const UTC: &str = "+00:00";
    let zone = session.client_setting("TimeZone").and_then(|zone| zone.parse().ok());
    // What is no zone SET has refused.
    zone.or_else(|| UTC.parse().ok()).unwrap_or_else(|| unreachable!("{UTC} is a zone"))
}

impl Rows {
    /// The rows of a result, whose columns the client was told as these, or is told now.
    ///
    /// # Errors
    /// They are of other types.
    pub fn new(
        stream: ResultStream,
        told: Option<&SchemaRef>,
        formats: &[Format],
        session: &Session,
    ) -> Result<Rows, Fault> {
        let schema = stream.schema();
        let mut formats: Vec<Format> = (0..schema.fields().len()).map(|place| format_of(formats, place)).collect();
        if let Some(told) = told {
            // Drivers that keep statements prepare this one anew, by the name of the routine.
            let changed = || {
                let fault = Fault::new(codes::FEATURE_NOT_SUPPORTED, "cached plan must not change result type");
                Err(fault.of_routine("RevalidateCachedQuery"))
            };
            if told.fields().len() != schema.fields().len() {
                return changed();
            }
            for ((now, told), format) in schema.fields().iter().zip(told.fields()).zip(&mut formats) {
                let (now, told) = (types::of_type(now.data_type()).oid, types::of_type(told.data_type()).oid);
                match told {
                    _ if now == told => {}
                    // A value of a parameter of which the statement tells nothing: its text is a text.
                    types::TEXT => *format = Format::Text,
                    _ => return changed(),
                }
            }
        }
        Ok(Rows { stream, batch: None, formats, times: Times { zone: zone(session), to_us: true } })
    }

    /// The same, whose times are written with all the digits that they have.
    pub fn with_all_digits(mut self) -> Rows {
        self.times.to_us = false;
        self
    }

    /// Writes rows of the batch at hand until `is_full`; how many.
    fn write(&mut self, most: u64, mut to: impl FnMut(&[Values], usize) -> Result<bool, Fault>) -> Result<u64, Fault> {
        let Some(batch) = &mut self.batch else { return Ok(0) };
        let mut written = 0;
        while batch.next < batch.rows && written < most {
            let is_full = to(&batch.columns, batch.next)?;
            batch.next += 1;
            written += 1;
            if is_full {
                break;
            }
        }
        if batch.next == batch.rows {
            self.batch = None;
        }
        Ok(written)
    }
}

impl Connection {
    /// Sends all rows of a result behind their columns; what the client is told when they are sent.
    pub(super) async fn send_all(&mut self, stream: ResultStream, kind: &Kind) -> Result<String> {
        self.output.columns(&columns_of(stream.schema(), &[])?);
        let written = stream.written().cloned();
        let mut rows = Rows::new(stream, None, &[], &self.session)?;
        let sent = match self.send(&mut rows, u64::MAX).await? {
            Sent::All(rows) => rows,
            Sent::Some => 0,
        };
        self.trace.rows(sent);
        Ok(written.map_or_else(|| kind.tag_of_rows(sent), |done| kind.tag_of(&done)))
    }

    /// Sends rows, `most` at most.
    pub(super) async fn send(&mut self, rows: &mut Rows, most: u64) -> Result<Sent> {
        let mut sent = 0;
        while sent < most {
            if rows.batch.is_none() && !self.next_batch(rows).await? {
                return Ok(Sent::All(sent));
            }
            let formats = std::mem::take(&mut rows.formats);
            let output = &mut self.output;
            let written = rows.write(most - sent, |columns, row| {
                let start = output.begin(b'D');
                output.0.extend((columns.len() as u16).to_be_bytes());
                for (column, format) in columns.iter().zip(&formats) {
                    if let Err(wrong) = column.write_sized(row, *format, &mut output.0) {
                        output.take_back(start);
                        return Err(wrong.into());
                    }
                }
                if output.0.len() - start > i32::MAX as usize {
                    output.take_back(start);
                    return Err(Fault::new(codes::LIMIT_EXCEEDED, "a row is longer than 2 GiB"));
                }
                output.end(start);
                Ok(output.0.len() >= SEND_AT)
            });
            rows.formats = formats;
            sent += written?;
            if self.output.0.len() >= SEND_AT {
                self.flush().await?;
            }
        }
        Ok(Sent::Some)
    }

    /// The next batch that has rows; what is buffered is sent where it is not there yet.
    async fn next_batch(&mut self, rows: &mut Rows) -> Result<bool> {
        loop {
            if self.registered.cancel.is_wanted() {
                self.cancels.cancel();
            }
            let batch = match StreamExt::next(&mut rows.stream).now_or_never() {
                Some(batch) => batch,
                None => {
                    self.flush().await?;
                    self.wait(StreamExt::next(&mut rows.stream), false).await?
                }
            };
            let Some(batch) = batch else { return Ok(false) };
            let batch = batch?;
            if batch.num_rows() > 0 {
                let fields = batch.schema_ref().fields();
                let of = |(column, field): (&ArrayRef, &FieldRef)| Values::of_field(column, field, rows.times);
                let values = batch.columns().iter().zip(fields).map(of);
                let columns = values.collect::<Result<Vec<_>, _>>()?;
                rows.batch = Some(Batch { columns, rows: batch.num_rows(), next: 0 });
                return Ok(true);
            }
        }
    }

    /// Sends rows as data of COPY, each as `write` writes it behind what is buffered; how many.
    pub(super) async fn send_data(
        &mut self,
        rows: &mut Rows,
        mut write: impl FnMut(&[Values], usize, &mut Vec<u8>) -> Result<(), Fault>,
    ) -> Result<u64> {
        let mut sent = 0;
        loop {
            if rows.batch.is_none() && !self.next_batch(rows).await? {
                return Ok(sent);
            }
            let output = &mut self.output;
            sent += rows.write(u64::MAX, |columns, row| {
                let start = output.begin(b'd');
                if let Err(fault) = write(columns, row, &mut output.0) {
                    output.take_back(start);
                    return Err(fault);
                }
                output.end(start);
                Ok(output.0.len() >= SEND_AT)
            })?;
            if self.output.0.len() >= SEND_AT {
                self.flush().await?;
            }
        }
    }
}
