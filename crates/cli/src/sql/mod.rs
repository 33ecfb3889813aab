//! `nearside sql`: statements from a prompt, standard input, a file or the command line.
//!
//! Statements run in order and results stream. At a prompt an error is shown and the next statement awaited; anywhere
//! else the first error ends the program with exit code 1 and says on which line of the script it happened.

pub mod completion;
pub mod output;
pub mod prompt;
pub mod script;
pub mod shell;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use clap::error::ErrorKind;
use nearside::{Database, LoadOptions, LoadProgress};

use output::Format;
use script::Splitter;
use shell::{Next, Origin, Shell};
use tools::failure::Failure;
use tools::interrupt::Interrupts;
use tools::machine::with_machine;
use tools::progress::Progress;
use tools::recording::Recording;
use tools::size::Size;

/// Arguments of `nearside sql`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside sql                                                   a prompt; \\? lists its commands
  nearside sql --load trips='trips/*.parquet'                    the same with a table
  nearside sql --database shop                                   tables last in the folder 'shop'
  nearside sql --load t=t.csv --types t.zip=varchar -c 'SELECT * FROM t'
  nearside sql -f report.sql --format csv > report.csv
  echo 'SELECT 1 + 1' | nearside sql --format json

Without a terminal and without -c or -f, statements are read from standard input.
A result in JSON is one array of row objects per statement; NULL is null there and an empty field in CSV.")]
pub struct Arguments {
    /// Keep everything in this folder, which is made where it is not there, and have what it holds
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
    /// Load a Parquet, CSV, TSV, JSON lines or Arrow IPC file, a folder or a glob of them into a table
    #[arg(long, value_name = "TABLE=PATH", value_parser = parse_load)]
    load: Vec<Load>,
    /// Give the SQL type of a column instead of the inferred one (CSV, TSV and JSON lines)
    #[arg(long, value_name = "TABLE.COLUMN=TYPE", value_parser = parse_column_type)]
    types: Vec<ColumnType>,
    /// Run these statements, then end
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "file")]
    command: Vec<String>,
    /// Run the statements of this file, then end
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// What results look like
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Where loaded tables lie, as in CREATE TABLE .. WITH (placement = '..'): rr, ivp, pp(4, hash(k)), ..
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<String>,
    /// How tasks are scheduled: os, target or bound [default: soft affinities, hard ones for memory-intensive tasks]
    #[arg(long, value_name = "STRATEGY")]
    scheduling: Option<sched::Preset>,
    /// This machine's figures, as `nearside probe --json` wrote them
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// Write what the queries read and compute to this file, for 'nearside whatif --workload'
    #[arg(long, value_name = "FILE")]
    record_workload: Option<PathBuf>,
    /// Memory for tables and statements, like 512MB, 4GiB or 80% [default: 80%]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
}

/// `TABLE=PATH`.
#[derive(Clone, Debug)]
struct Load {
    table: String,
    path: String,
}

/// `TABLE.COLUMN=TYPE`.
#[derive(Clone, Debug)]
struct ColumnType {
    table: String,
    column: String,
    sql_type: String,
}

fn parse_load(text: &str) -> Result<Load, String> {
    match text.split_once('=') {
        Some((table, path)) if !table.trim().is_empty() && !path.is_empty() => {
            Ok(Load { table: table.trim().to_string(), path: path.to_string() })
        }
        _ => Err("write it as TABLE=PATH, for example orders=data/orders.parquet".to_string()),
    }
}

fn parse_column_type(text: &str) -> Result<ColumnType, String> {
    let parts = text.split_once('=').and_then(|(path, sql_type)| Some((path.rsplit_once('.')?, sql_type.trim())));
    match parts {
        Some(((table, column), sql_type)) if !table.is_empty() && !column.is_empty() && !sql_type.is_empty() => {
            Ok(ColumnType { table: table.to_string(), column: column.to_string(), sql_type: sql_type.to_string() })
        }
        _ => Err("write it as TABLE.COLUMN=TYPE, for example orders.zip=varchar".to_string()),
    }
}

impl Arguments {
    /// What clap cannot know: types belong to tables that are loaded.
    fn check(&self) -> Result<(), String> {
        for (i, load) in self.load.iter().enumerate() {
            if self.load[..i].iter().any(|other| other.table == load.table) {
                return Err(format!("--load names table '{}' twice", load.table));
            }
        }
        match self.types.iter().find(|of| !self.load.iter().any(|load| load.table == of.table)) {
            Some(of) => Err(format!("--types names table '{}', which no --load loads", of.table)),
            None => Ok(()),
        }
    }
}

/// Loads the tables, then runs the statements.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let Err(message) = arguments.check() {
        clap::Error::raw(ErrorKind::ValueValidation, format!("{message}\n")).exit();
    }
    let interrupts = Interrupts::install().map_err(|e| Failure::new(format!("cannot listen for Ctrl-C: {e}")))?;
    let mut builder = Database::builder();
    if let Some(threads) = arguments.threads {
        builder = builder.threads(usize::from(threads));
    }
    if let Some(size) = arguments.memory {
        let topology = numa::Topology::discover().map_err(|e| Failure::new(e.to_string()))?;
        builder = builder.memory_bytes(size.resolve(topology.memory_bytes())).topology(topology);
    }
    if let Some(preset) = arguments.scheduling {
        builder = builder.scheduling(sched::Settings::preset(preset));
    }
    if let Some(folder) = &arguments.database {
        builder = builder.folder(folder);
    }
    let database = with_machine(builder, arguments.machine.as_deref())?.build()?;
    for load in &arguments.load {
        load_table(&database, load, arguments)?;
    }
    let recording = Recording::begin(&database, arguments.record_workload.as_deref())?;
    let ran = run_statements(Shell::new(database, interrupts, arguments.format), arguments);
    // What ran before a failure was recorded too; the failure is what is told.
    let written = recording.map_or(Ok(()), Recording::write);
    ran.and(written)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs what the arguments name, or what comes.
fn run_statements(mut shell: Shell, arguments: &Arguments) -> Result<(), Failure> {
    match (&arguments.file, arguments.command.is_empty()) {
        (Some(path), _) => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|e| Failure::new(format!("cannot open {name}: {e}")))?;
            run_script(&mut shell, BufReader::new(file), &name)
        }
        (None, false) => run_commands(&mut shell, &arguments.command),
        (None, true) if io::stdin().is_terminal() && io::stdout().is_terminal() => prompt::run(shell),
        (None, true) => run_script(&mut shell, io::stdin().lock(), "standard input"),
    }
}

fn load_table(database: &Database, load: &Load, arguments: &Arguments) -> Result<(), Failure> {
    let progress = Progress::new(None, load.table.clone());
    let bar = progress.clone();
    let types = arguments.types.iter().filter(|of| of.table == load.table);
    let options = LoadOptions {
        types: types.map(|of| (of.column.clone(), of.sql_type.clone())).collect(),
        progress: Some(Arc::new(move |at: LoadProgress| bar.set(at.bytes, at.total_bytes))),
        placement: arguments.placement.clone(),
        ..LoadOptions::default()
    };
    let loaded = database.load(&load.table, &load.path, &options);
    progress.clear();
    loaded?;
    Ok(())
}

/// Runs statements as they arrive; `name` is what errors call the source.
fn run_script(shell: &mut Shell, mut source: impl BufRead, name: &str) -> Result<(), Failure> {
    let origin = Origin::Script(name);
    let mut splitter = Splitter::default();
    let mut line = String::new();
    for number in 1_u64.. {
        line.clear();
        let read = source.read_line(&mut line).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Failure::new(format!("{name}, line {number}: the text is not UTF-8")),
            _ => Failure::new(format!("cannot read {name}: {error}")),
        })?;
        if read == 0 {
            break;
        }
        // A file that an editor marked as UTF-8.
        let text = if number == 1 { line.trim_start_matches('\u{feff}') } else { &line };
        splitter.push(text);
        while let Some(statement) = splitter.next_complete() {
            if shell.run(&statement, origin)? == Next::Quit {
                return Ok(());
            }
        }
    }
    while let Some(statement) = splitter.finish() {
        if shell.run(&statement, origin)? == Next::Quit {
            return Ok(());
        }
    }
    Ok(())
}

fn run_commands(shell: &mut Shell, commands: &[String]) -> Result<(), Failure> {
    for statement in commands.iter().flat_map(|command| script::split(command)) {
        if shell.run(&statement, Origin::CommandLine)? == Next::Quit {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_types_are_taken_apart() {
        let load = parse_load("t=a=b.csv").unwrap();
        assert_eq!((load.table.as_str(), load.path.as_str()), ("t", "a=b.csv"));
        for wrong in ["t", "=x", "t=", ""] {
            assert!(parse_load(wrong).is_err(), "{wrong}");
        }
        let of = parse_column_type("t.c=decimal(15, 2)").unwrap();
        assert_eq!((of.table.as_str(), of.column.as_str(), of.sql_type.as_str()), ("t", "c", "decimal(15, 2)"));
        for wrong in ["t=int", "t.c", "t.c=", ".c=int", "t.=int"] {
            assert!(parse_column_type(wrong).is_err(), "{wrong}");
        }
    }
}
