//! COPY with the client.
//!
//! Rows of a client go into the table some at a time, as statements of one transaction: what is kept of them here is
//! bounded, and they are there together or not at all.

use std::sync::Arc;

use nearside::{Outcome, TableName};

use super::rows::Rows;
use super::{Connection, Failure, Result};
use crate::copy::binary::{self, BinaryReader};
use crate::copy::options::{CopyFormat, CopyOptions, CopyStatement, CopyWhat, Header, query_of};
use crate::copy::rows::Collected;
use crate::copy::text::{Row, RowReader, write_value};
use crate::fault::{Fault, codes};
use crate::statement::Kind;
use crate::wire::Format;
use crate::wire::frontend::{Frontend, decode};

/// Rows as they arrive.
enum Reader {
    Rows(RowReader),
    Binary(BinaryReader),
}

impl Connection {
    /// Runs a COPY; what the client is told when it is done.
    pub(super) async fn copy(&mut self, copy: &CopyStatement, is_alone: bool) -> Result<String> {
        let rows = match &copy.what {
            CopyWhat::To(query) => self.copy_to(query.clone(), &copy.options).await?,
            CopyWhat::Whole(table) => {
                let of = table.clone();
                let filled = self.blocking(move |session| session.columns_to_fill(&of, &[])).await??;
                let names = filled.fields().iter().map(|field| field.name().clone());
                let query = query_of(table, &names.collect::<Vec<_>>());
                self.copy_to(query, &copy.options).await?
            }
            CopyWhat::From(table, columns) => {
                // Its parts belong together.
                self.begin(&Kind::Other("copy".into()), false).await?;
                let rows = self.copy_from(table, columns, &copy.options).await?;
                if is_alone {
                    self.commit_implicit().await?;
                }
                rows
            }
        };
        Ok(format!("COPY {rows}"))
    }

    async fn copy_to(&mut self, query: String, options: &CopyOptions) -> Result<u64> {
        let stream = match self.blocking(move |session| session.run(&query)).await?? {
            Outcome::Rows(stream) => stream,
            Outcome::Done(_) => {
                return Err(Fault::new(codes::FEATURE_NOT_SUPPORTED, "COPY query must have a RETURNING clause").into());
            }
        };
        let names: Vec<String> = stream.schema().fields().iter().map(|field| field.name().clone()).collect();
        let is_binary = options.format == CopyFormat::Binary;
        let format = if is_binary { Format::Binary } else { Format::Text };
        let mut rows = Rows::new(stream, None, &[format], &self.session)?.with_all_digits();
        self.output.copy(b'H', format, names.len());
        let mut first = Vec::new();
        match (is_binary, options.header) {
            (true, _) => binary::write_header(&mut first),
            (false, Header::None) => {}
            (false, _) => {
                for (place, name) in names.iter().enumerate() {
                    first.extend((place > 0).then_some(options.delimiter));
                    write_value(Some(name.as_bytes()), names.len() == 1, options, &mut first);
                }
                first.push(b'\n');
            }
        }
        // A client may look for the signature and the first row in one message, where PostgreSQL sends them.
        if !is_binary && !first.is_empty() {
            self.data(&std::mem::take(&mut first));
        }
        let mut value = Vec::new();
        let sent = self
            .send_data(&mut rows, |columns, row, to| {
                if is_binary {
                    to.append(&mut first);
                    to.extend((columns.len() as i16).to_be_bytes());
                    return Ok(columns.iter().try_for_each(|column| column.write_sized(row, format, to))?);
                }
                for (place, column) in columns.iter().enumerate() {
                    to.extend((place > 0).then_some(options.delimiter));
                    value.clear();
                    let is_null = column.is_null(row);
                    if !is_null {
                        column.write_text(row, &mut value)?;
                    }
                    write_value((!is_null).then_some(value.as_slice()), columns.len() == 1, options, to);
                }
                to.push(b'\n');
                Ok(())
            })
            .await?;
        if is_binary {
            binary::write_trailer(&mut first);
            self.data(&first);
        }
        self.output.empty(b'c');
        Ok(sent)
    }

    fn data(&mut self, bytes: &[u8]) {
        let start = self.output.begin(b'd');
        self.output.0.extend(bytes);
        self.output.end(start);
    }

    async fn copy_from(&mut self, table: &TableName, columns: &[String], options: &CopyOptions) -> Result<u64> {
        let (of, names) = (table.clone(), columns.to_vec());
        let schema = self.blocking(move |session| session.columns_to_fill(&of, &names)).await??;
        let is_binary = options.format == CopyFormat::Binary;
        let format = if is_binary { Format::Binary } else { Format::Text };
        self.output.copy(b'G', format, schema.fields().len());
        let mut reader = match is_binary {
            true => Reader::Binary(BinaryReader::default()),
            false => Reader::Rows(RowReader::new(options.clone())),
        };
        let mut header = if is_binary { Header::None } else { options.header };
        let mut collected = Collected::new(Arc::clone(&schema));
        let mut count = 0;
        loop {
            let (tag, body) = self.next_message(false).await?;
            if self.registered.cancel.is_wanted() {
                return Err(super::cancelled());
            }
            let (data, is_end) = match decode(tag, body)? {
                Frontend::CopyData(data) => (data, false),
                Frontend::CopyDone => (Default::default(), true),
                Frontend::CopyFail(why) => {
                    return Err(Fault::new(codes::QUERY_CANCELED, format!("COPY from stdin failed: {why}")).into());
                }
                Frontend::Flush | Frontend::Sync => continue,
                Frontend::Terminate => return Err(Failure::Gone),
                _ => {
                    let message = format!("unexpected message type 0x{tag:02X} during COPY from stdin");
                    return Err(Fault::new(codes::PROTOCOL_VIOLATION, message).into());
                }
            };
            // A message has many rows at most, which are read piece by piece.
            let mut rest = &data[..];
            loop {
                let piece = rest.split_off(..rest.len().min(super::SEND_AT)).unwrap_or_default();
                let is_last = is_end && rest.is_empty();
                self.read(&mut reader, piece, is_last, &mut header, &mut collected, table)?;
                if collected.is_full() || is_last && !collected.is_empty() {
                    count += self.put(table, columns, &mut collected).await?;
                }
                if rest.is_empty() {
                    break;
                }
            }
            if is_end {
                if let Reader::Binary(reader) = &reader {
                    reader.end()?;
                }
                return Ok(count);
            }
        }
    }

    /// Reads the rows that are whole with some bytes more.
    fn read(
        &self,
        reader: &mut Reader,
        bytes: &[u8],
        is_last: bool,
        header: &mut Header,
        collected: &mut Collected,
        table: &TableName,
    ) -> Result<(), Fault> {
        let at = |line: u64, fault: Fault| Fault {
            context: Some(format!("COPY {}, line {line}", table.table).into()),
            ..fault
        };
        match reader {
            Reader::Rows(reader) => {
                reader.push(bytes)?;
                loop {
                    let line = reader.line();
                    let Some(row) = reader.next(is_last).map_err(|fault| at(line, fault))? else { return Ok(()) };
                    match std::mem::replace(header, Header::None) {
                        Header::Names => {}
                        Header::Match => collected.check_header(&row).map_err(|fault| at(line, fault))?,
                        Header::None => collected.add_texts(row, &self.session).map_err(|fault| at(line, fault))?,
                    }
                }
            }
            Reader::Binary(reader) => {
                reader.push(bytes)?;
                let mut row = reader.rows;
                while let Some(values) = reader.next()? {
                    row += 1;
                    collected.add_binary(&values).map_err(|fault| at(row, fault))?;
                }
                Ok(())
            }
        }
    }

    /// Gives the table the rows that were collected; how many.
    async fn put(&mut self, table: &TableName, columns: &[String], collected: &mut Collected) -> Result<u64> {
        let taken = collected.take()?;
        let (of, names) = (table.clone(), columns.to_vec());
        let put = self.blocking(move |session| {
            let batch = taken.batch.clone();
            session.append(&of, &names, std::slice::from_ref(&batch)).map_err(|error| {
                let mut fault = Fault::from(error);
                if fault.code.starts_with("22") {
                    fault.context = taken.first_unreadable(session).map(|(line, column, text)| {
                        format!("COPY {}, line {line}, column {column}: \"{text}\"", of.table).into()
                    });
                }
                fault
            })
        });
        Ok(put.await??)
    }
}

impl Collected {
    /// Fails where a row does not have the names of the columns.
    fn check_header(&self, row: &Row) -> Result<(), Fault> {
        let names = self.names();
        match row.values.len() == names.len()
            && row.values.iter().zip(&names).all(|(found, name)| found.as_ref() == Some(name))
        {
            true => Ok(()),
            false => Err(Fault::new(
                codes::BAD_COPY_FILE_FORMAT,
                format!("the first line has other names than the columns {}", names.join(", ")),
            )),
        }
    }
}
