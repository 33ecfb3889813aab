//! The prompt: line editing, history, completion; statements over several lines.
//!
//! Enter runs the text when every statement in it has its `;` and starts another line otherwise, so that a whole
//! statement can be edited and comes back whole from the history. Ctrl-C clears the line, or cancels the statement that
//! runs; Ctrl-D on an empty line quits. The history lies in `nearside/history` of the user's state folder
//! (`XDG_STATE_HOME`, else `~/.local/state`).

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use nearside::Database;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::completion::{self, Names};
use super::script;
use super::shell::{Next, Origin, Shell};
use tools::failure::Failure;

const PROMPT: &str = "nearside> ";
/// What every database has beside the user's tables.
const SYSTEM_VIEWS: [&str; 13] = [
    "nearside.nodes",
    "nearside.cpus",
    "nearside.links",
    "nearside.columns",
    "nearside.indexes",
    "nearside.pages",
    "nearside.memory",
    "nearside.placement_changes",
    "nearside.workers",
    "nearside.thread_groups",
    "nearside.statements",
    "nearside.tasks",
    "nearside.settings",
];
const HISTORY_ENTRIES_MAX: usize = 10_000;

/// Reads and runs until `\q` or Ctrl-D.
pub fn run(mut shell: Shell) -> Result<(), Failure> {
    let config = Config::builder().max_history_size(HISTORY_ENTRIES_MAX).map_err(broken)?;
    let config = config.completion_type(CompletionType::List).auto_add_history(false).build();
    let mut editor: Editor<Assistant, FileHistory> = Editor::with_config(config).map_err(broken)?;
    editor.set_helper(Some(Assistant { database: shell.database().clone() }));
    let history = history_path();
    if let Some(path) = &history {
        // The first session has no file yet.
        let _ = editor.load_history(path);
    }
    shell.interrupts().at_prompt();
    writeln!(io::stdout(), "Nearside {}. \\? for help, \\q to quit.", tools::VERSION)?;
    loop {
        let text = match editor.readline(PROMPT) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(broken(error)),
        };
        remember(&mut editor, history.as_ref(), &text);
        if let Some((columns, _)) = editor.dimensions() {
            shell.set_terminal_width(columns.into());
        }
        for statement in script::split(&text) {
            match shell.run(&statement, Origin::Prompt) {
                Ok(Next::Continue) => {}
                Ok(Next::Quit) => return Ok(()),
                Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
                Err(failure) => {
                    crate::report(&failure);
                    break;
                }
            }
        }
    }
}

fn broken(error: ReadlineError) -> Failure {
    Failure::new(format!("the terminal cannot be used: {error}"))
}

/// Adds to the history and its file; a file that cannot be written costs the history, not the session.
fn remember(editor: &mut Editor<Assistant, FileHistory>, path: Option<&PathBuf>, text: &str) {
    let text = text.trim();
    if text.is_empty() || !editor.add_history_entry(text).unwrap_or(false) {
        return;
    }
    if let Some(path) = path {
        if let Some(folder) = path.parent() {
            let _ = fs::create_dir_all(folder);
        }
        let _ = editor.append_history(path);
    }
}

fn history_path() -> Option<PathBuf> {
    let absolute = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("nearside").join("history"))
}

/// What the line editor asks: is it complete, what could this word become.
struct Assistant {
    database: Database,
}

impl Names for Assistant {
    fn tables(&self) -> Vec<String> {
        let mut names = self.database.table_names();
        names.extend(SYSTEM_VIEWS.map(String::from));
        names
    }

    fn columns(&self, table: &str) -> Vec<String> {
        self.database.column_names(table)
    }
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(completion::complete(line, cursor, self))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match script::is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}
