//! Runs one statement or backslash command and writes what came of it.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt8Array, UInt64Array};
use arrow::error::ArrowError;
use nearside::{ColumnReport, Database, Error, IndexReport, Outcome, Session};

use super::completion::unquoted;
use super::output::{self, Format};
use super::script::Statement;
use tools::failure::Failure;
use tools::interrupt::Interrupts;

/// What `\?` prints.
const HELP: &str = "\
  \\d            tables and views, with rows and bytes
  \\d TABLE      a table's columns and indexes, how they are stored and what they take
  \\timing       show how long statements take, or stop showing it
  \\codes        show errors with their codes (SQLSTATE), or stop showing them
  \\q            quit (so does Ctrl-D)
  \\?            this help
A statement ends with ; and may span lines. Ctrl-C cancels a running statement, or clears the line.
";

/// The schema that names need not mention.
const DEFAULT_SCHEMA: &str = "public";

/// Where statements come from, for error messages.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// Someone at a prompt, who sees what was typed.
    Prompt,
    /// The text after `-c`.
    CommandLine,
    /// A file or standard input, by name.
    Script(&'a str),
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the next statement.
    Continue,
    /// No more.
    Quit,
}

/// A session and where its results go.
pub struct Shell {
    database: Database,
    session: Session,
    interrupts: Interrupts,
    format: Format,
    timing: bool,
    /// Whether errors are shown with their codes.
    codes: bool,
    terminal_width: Option<usize>,
    out: BufWriter<io::Stdout>,
}

impl Shell {
    /// A shell with a session of its own.
    pub fn new(database: Database, interrupts: Interrupts, format: Format) -> Shell {
        let session = database.session();
        let out = BufWriter::new(io::stdout());
        let mut shell =
            Shell { database, session, interrupts, format, timing: false, codes: false, terminal_width: None, out };
        if io::stdout().is_terminal() {
            shell.terminal_width = output::terminal_width();
        }
        shell
    }

    /// The database that statements run on.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Where Ctrl-C goes.
    pub fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// The terminal was resized.
    pub fn set_terminal_width(&mut self, columns: usize) {
        self.terminal_width = Some(columns);
    }

    /// Runs a statement or command and writes its result.
    pub fn run(&mut self, statement: &Statement, origin: Origin<'_>) -> Result<Next, Failure> {
        let next = if statement.command {
            self.command(statement.text.trim()).map_err(|failure| located(failure, statement, origin))?
        } else {
            self.sql(statement, origin)?;
            Next::Continue
        };
        self.out.flush()?;
        Ok(next)
    }

    fn sql(&mut self, statement: &Statement, origin: Origin<'_>) -> Result<(), Failure> {
        let started = Instant::now();
        let handle = self.session.cancel_handle();
        let _running = self.interrupts.during(move || {
            handle.cancel();
        });
        let outcome =
            self.session.run(&statement.text).map_err(|error| explained(error, self.codes, statement, origin))?;
        match outcome {
            Outcome::Rows(rows) => {
                // An object has a field once.
                let rows = if self.format == Format::Json { rows.with_names_apart() } else { rows };
                let (schema, done) = (rows.schema().clone(), rows.written().cloned());
                let codes = self.codes;
                let batches = rows.map(|batch| batch.map_err(|error| explained(error, codes, statement, origin)));
                let written = output::write_result(&mut self.out, self.format, self.terminal_width, &schema, batches);
                // The rows before an error were right; they come before its sentence.
                if !matches!(written, Err(Failure::BrokenPipe)) {
                    self.out.flush()?;
                }
                let count = written?;
                if self.format == Format::Table {
                    writeln!(self.out, "({count} row{})", if count == 1 { "" } else { "s" })?;
                    if let Some(done) = done {
                        writeln!(self.out, "{done}")?;
                    }
                }
            }
            Outcome::Done(done) => {
                if self.format == Format::Table {
                    writeln!(self.out, "{done}")?;
                }
            }
        }
        if self.timing && self.format == Format::Table {
            writeln!(self.out, "Time: {}", shown_time(started.elapsed()))?;
        }
        Ok(())
    }

    fn command(&mut self, text: &str) -> Result<Next, Failure> {
        let text = text.trim_end_matches(';').trim_end();
        let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match (name, argument.trim()) {
            ("\\q", "") => return Ok(Next::Quit),
            ("\\?", "") => self.out.write_all(HELP.as_bytes())?,
            ("\\timing", "") => self.set_timing(!self.timing)?,
            ("\\timing", "on") => self.set_timing(true)?,
            ("\\timing", "off") => self.set_timing(false)?,
            ("\\d", "") => self.list_tables()?,
            ("\\d", table) => self.describe(table)?,
            ("\\codes", "") => self.set_codes(!self.codes)?,
            ("\\codes", "on") => self.set_codes(true)?,
            ("\\codes", "off") => self.set_codes(false)?,
            ("\\q" | "\\?" | "\\timing" | "\\codes", other) => {
                return Err(Failure::new(format!("{name} does not take '{other}'; \\? lists the commands")));
            }
            _ => return Err(Failure::new(format!("unknown command {name}; \\? lists the commands"))),
        }
        Ok(Next::Continue)
    }

    fn set_timing(&mut self, on: bool) -> Result<(), Failure> {
        self.timing = on;
        if self.format == Format::Table {
            writeln!(self.out, "Timing is {}.", if on { "on" } else { "off" })?;
        }
        Ok(())
    }

    fn set_codes(&mut self, on: bool) -> Result<(), Failure> {
        self.codes = on;
        if self.format == Format::Table {
            writeln!(self.out, "Codes of errors are {}.", if on { "on" } else { "off" })?;
        }
        Ok(())
    }

    fn list_tables(&mut self) -> Result<(), Failure> {
        let names = self.database.table_names();
        let report = self.database.storage_report();
        let of = |name: &str| report.iter().filter(|column| shown_name(column) == name).collect::<Vec<_>>();
        let rows = names.iter().map(|name| of(name).first().map(|column| column.rows));
        let bytes = names.iter().map(|name| {
            let columns = of(name);
            (!columns.is_empty()).then(|| columns.iter().map(|column| bytes_of(column)).sum::<u64>())
        });
        let rows: ArrayRef = Arc::new(rows.collect::<UInt64Array>());
        let bytes: ArrayRef = Arc::new(bytes.collect::<UInt64Array>());
        let table: ArrayRef = Arc::new(StringArray::from_iter_values(&names));
        self.write(RecordBatch::try_from_iter([("table", table), ("rows", rows), ("bytes", bytes)])?)
    }

    /// A stored table's columns come with their storage; of anything else the names and types are told.
    fn describe(&mut self, table: &str) -> Result<(), Failure> {
        let name = unquoted(table);
        let report = self.database.storage_report();
        let columns: Vec<&ColumnReport> = report.iter().filter(|column| shown_name(column) == name).collect();
        if columns.is_empty() {
            let rows = match self.session.run(&format!("DESCRIBE {table}")) {
                Ok(Outcome::Rows(rows)) => rows.collect_all(),
                Ok(Outcome::Done(_)) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
            let rows = rows.map_err(|error| Failure::new(error.to_string()))?;
            return rows.into_iter().try_for_each(|batch| self.write(batch));
        }
        let text = |of: &dyn Fn(&ColumnReport) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(columns.iter().map(|column| of(column))))
        };
        let bits: ArrayRef = Arc::new(columns.iter().map(|column| column.bits).collect::<UInt8Array>());
        let bytes: ArrayRef = Arc::new(columns.iter().map(|column| Some(bytes_of(column))).collect::<UInt64Array>());
        self.write(RecordBatch::try_from_iter([
            ("column", text(&|column| column.column.clone())),
            ("type", text(&|column| column.data_type.clone())),
            ("encoding", text(&|column| column.encoding.clone())),
            ("bits", bits),
            ("bytes", bytes),
        ])?)?;
        self.list_indexes(&columns)
    }

    /// The indexes of the table whose columns these are, if it has any.
    fn list_indexes(&mut self, columns: &[&ColumnReport]) -> Result<(), Failure> {
        let is_of = |index: &IndexReport| columns.iter().any(|c| c.schema == index.schema && c.table == index.table);
        let mut indexes = self.database.index_report();
        indexes.retain(is_of);
        if indexes.is_empty() {
            return Ok(());
        }
        let text = |of: &dyn Fn(&IndexReport) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(indexes.iter().map(of)))
        };
        let unique: ArrayRef = Arc::new(indexes.iter().map(|index| Some(index.unique)).collect::<BooleanArray>());
        let bytes: ArrayRef = Arc::new(indexes.iter().map(|index| Some(index.bytes)).collect::<UInt64Array>());
        self.write(RecordBatch::try_from_iter([
            ("index", text(&|index| index.name.clone())),
            ("columns", text(&|index| index.columns.join(", "))),
            ("unique", unique),
            ("kinds", text(&|index| index.kinds.clone())),
            ("bytes", bytes),
        ])?)
    }

    fn write(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        let schema = batch.schema();
        let rows = [Ok::<_, ArrowError>(batch)].into_iter();
        let count = output::write_result(&mut self.out, self.format, self.terminal_width, &schema, rows)?;
        if self.format == Format::Table {
            writeln!(self.out, "({count} row{})", if count == 1 { "" } else { "s" })?;
        }
        Ok(())
    }
}

/// The table's name as `table_names` and statements have it.
fn shown_name(column: &ColumnReport) -> String {
    match column.schema.as_str() {
        DEFAULT_SCHEMA => column.table.clone(),
        schema => format!("{schema}.{}", column.table),
    }
}

fn bytes_of(column: &ColumnReport) -> u64 {
    column.codes_bytes + column.dictionary_bytes + column.index_bytes
}

fn shown_time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10_000.0 { format!("{ms:.3} ms") } else { format!("{:.3} s", ms / 1e3) }
}

/// The error's sentence, with its place in the script rather than in the statement, and its code if that is wanted.
fn explained(mut error: Error, codes: bool, statement: &Statement, origin: Origin<'_>) -> Failure {
    let mut placed = false;
    if let Error::Syntax { position: Some(position), .. } | Error::Plan { position: Some(position), .. } = &mut error {
        if position.line == 1 {
            position.column += statement.column as u64 - 1;
        }
        position.line += statement.line as u64 - 1;
        placed = true;
    }
    match origin {
        Origin::Script(name) if placed => Failure::new(format!("{name}: {}", sentence(&error, codes))),
        _ => located(Failure::new(sentence(&error, codes)), statement, origin),
    }
}

fn sentence(error: &Error, codes: bool) -> String {
    match codes {
        true => format!("{}: {error}", error.code()),
        false => error.to_string(),
    }
}

/// The failure with the line of the statement, for scripts.
fn located(failure: Failure, statement: &Statement, origin: Origin<'_>) -> Failure {
    match (failure, origin) {
        (Failure::Message(message), Origin::Script(name)) => {
            Failure::new(format!("{name}, line {}: {message}", statement.line))
        }
        (failure, _) => failure,
    }
}
