//! `nearside sql` on a terminal.

use std::path::Path;

use crate::program::nearside;
use crate::pty::Terminal;
use crate::sql::ENDLESS;

const PROMPT: &str = "nearside> ";

fn start(state: &Path) -> Terminal {
    let mut command = nearside();
    command.arg("sql").env("XDG_STATE_HOME", state);
    let mut terminal = Terminal::start(command);
    terminal.expect("\\? for help");
    terminal.expect(PROMPT);
    terminal
}

#[test]
fn statements_commands_and_completion() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = start(state.path());
    // A statement over two lines.
    terminal.send("select 6 *\r");
    terminal.send("7 as answer;\r");
    terminal.expect("answer");
    terminal.expect("42");
    terminal.expect("(1 row)");
    terminal.send("create table zebra as select value as stripe from generate_series(1, 12345);\r");
    terminal.expect("CREATE TABLE");
    terminal.send("\\d\r");
    terminal.expect("zebra");
    terminal.expect("12345");
    terminal.send("\\d zebra\r");
    terminal.expect("stripe");
    terminal.expect("(1 row)");
    terminal.send("\\timing\r");
    terminal.expect("Timing is on.");
    // Keyword, column and table from their beginnings.
    terminal.send("sel\t max(stri\t) from zeb\t;\r");
    terminal.expect("12345");
    terminal.expect("Time: ");
    // An error does not end the prompt.
    terminal.send("select nonsense from zebra;\r");
    terminal.expect("error: ");
    terminal.send("\\nope\r");
    terminal.expect("error: unknown command \\nope");
    terminal.send("\\q\r");
    assert_eq!(terminal.ended(), 0);
    let history = std::fs::read_to_string(state.path().join("nearside/history")).expect("a history");
    assert!(history.contains("select 6 *\\n7 as answer;") && history.contains("\\\\d zebra"), "{history}");
}

#[test]
fn an_interrupt_cancels_the_statement_and_not_the_program() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = start(state.path());
    terminal.send(&format!("{ENDLESS};\r"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    terminal.send("\x03");
    terminal.expect("error: the statement was cancelled");
    terminal.expect(PROMPT);
    terminal.send("select 'still' || '-' || 'here' as words;\r");
    terminal.expect("still-here");
    terminal.expect(PROMPT);
    // At the prompt it clears the line, also one of several.
    terminal.send("select nonsense,\rmore nonsense");
    terminal.expect("more nonsense");
    terminal.send("\x03");
    terminal.expect(PROMPT);
    terminal.send("select 40 + 2 as n;\r");
    terminal.expect("42");
    terminal.expect(PROMPT);
    terminal.send("\x04");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn the_history_comes_back() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = start(state.path());
    terminal.send("select 'first' || '-' || 'session' as words;\r");
    terminal.expect("first-session");
    terminal.expect(PROMPT);
    terminal.send("\x04");
    assert_eq!(terminal.ended(), 0);
    let mut terminal = start(state.path());
    // Arrow up, then Enter.
    terminal.send("\x1b[A");
    terminal.expect("select 'first'");
    terminal.send("\r");
    terminal.expect("first-session");
}

#[test]
fn wide_values_are_cut_on_a_terminal_only() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = start(state.path());
    terminal.send("select repeat('wide', 100) as w;\r");
    let shown = terminal.expect("(1 row)");
    assert!(shown.contains('…') && !shown.contains(&"wide".repeat(100)), "{shown}");
    let piped = crate::program::run(&["sql", "-c", "select repeat('wide', 100) as w"]).ok();
    assert!(piped.contains(&"wide".repeat(100)));
}
