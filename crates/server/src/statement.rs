//! What kind of statement a text is, as far as the wire has to know: what begins and ends transactions, what COPY has
//! to do with the client, and what is called how when it is done. What a statement means, the session knows.

use nearside::Done;

use crate::copy::options::{CopyStatement, copy_statement};
use crate::fault::Fault;
use crate::tokens::{Token, Tokens};

/// What kind of statement a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// No statement.
    Empty,
    /// What a session prepares: a query, or what writes rows.
    Query,
    /// Begins a transaction; with these modes, if any are said.
    Begin {
        /// The text of the modes.
        modes: String,
        /// `START TRANSACTION`, not `BEGIN`.
        starts: bool,
    },
    /// Commits.
    Commit,
    /// Rolls back.
    Rollback,
    /// Commits, or rolls back, and begins the next transaction.
    EndAndChain {
        /// `COMMIT`, not `ROLLBACK`.
        commits: bool,
    },
    /// Goes back to a savepoint.
    RollbackTo,
    /// COPY with the client.
    Copy(Box<CopyStatement>),
    /// Runs what PREPARE has named.
    Execute(String),
    /// Gives up what PREPARE or a message has named.
    Deallocate(String),
    /// What does not go into a transaction, and commits by itself.
    Alone,
    /// Any other statement, by its first word.
    Other(String),
}

impl Kind {
    /// The kind of the one statement of a text.
    ///
    /// # Errors
    /// COPY with the client that is wrong, or not supported.
    pub fn of(sql: &str) -> Result<Kind, Fault> {
        let mut tokens = Tokens::new(sql).filter(|placed| placed.token != Token::Sign(';'));
        let Some(first) = tokens.next() else { return Ok(Kind::Empty) };
        let Token::Word(word) = &first.token else { return Ok(Kind::Query) };
        let mut second = || tokens.next();
        Ok(match word.as_str() {
            "select" | "with" | "values" | "table" | "insert" | "update" | "delete" => Kind::Query,
            "begin" => {
                let end = second()
                    .filter(|placed| placed.token.is("transaction") || placed.token.is("work"))
                    .map_or(first.end, |placed| placed.end);
                Kind::Begin { modes: modes(&sql[end..]), starts: false }
            }
            "start" => match second() {
                Some(placed) if placed.token.is("transaction") => {
                    Kind::Begin { modes: modes(&sql[placed.end..]), starts: true }
                }
                _ => Kind::Other(word.clone()),
            },
            "commit" | "end" | "rollback" | "abort" => {
                let words: Vec<Token> = tokens.map(|placed| placed.token).take(3).collect();
                let commits = word == "commit" || word == "end";
                let and = words.iter().position(|token| token.is("and"));
                match and.and_then(|and| words.get(and + 1)).is_some_and(|next| next.is("chain")) {
                    true => Kind::EndAndChain { commits },
                    false if commits => Kind::Commit,
                    false if words.iter().take(2).any(|token| token.is("to")) => Kind::RollbackTo,
                    false => Kind::Rollback,
                }
            }
            "copy" => match copy_statement(sql)? {
                Some(copy) => Kind::Copy(Box::new(copy)),
                None => Kind::Other(word.clone()),
            },
            "execute" => match second().map(|placed| placed.token) {
                Some(Token::Word(name) | Token::Quoted(name)) => Kind::Execute(name),
                _ => Kind::Other(word.clone()),
            },
            "deallocate" => {
                let words: Vec<Token> = tokens.map(|placed| placed.token).take(2).collect();
                let name = match words.as_slice() {
                    [prepare, name] if prepare.is("prepare") => Some(name),
                    [name, ..] => Some(name),
                    [] => None,
                };
                match name {
                    Some(Token::Word(name)) if name != "all" => Kind::Deallocate(name.clone()),
                    Some(Token::Quoted(name)) => Kind::Deallocate(name.clone()),
                    _ => Kind::Other(word.clone()),
                }
            }
            "checkpoint" | "vacuum" | "backup" | "export" | "import" => Kind::Alone,
            "alter" if second().is_some_and(|placed| placed.token.is("system")) => Kind::Alone,
            _ => Kind::Other(word.clone()),
        })
    }

    /// Whether it may run although a statement of the transaction has failed.
    pub fn ends_failed(&self) -> bool {
        matches!(self, Kind::Commit | Kind::Rollback | Kind::EndAndChain { .. } | Kind::RollbackTo)
    }

    /// What `CommandComplete` says of a statement that has given so many rows.
    pub fn tag_of_rows(&self, rows: u64) -> String {
        match self {
            Kind::Other(word) if word == "explain" || word == "show" => word.to_uppercase(),
            Kind::Other(word) if word == "fetch" => format!("FETCH {rows}"),
            _ => format!("SELECT {rows}"),
        }
    }

    /// What it says of a statement that has done this.
    pub fn tag_of(&self, done: &Done) -> String {
        let rows = done.rows.unwrap_or(0);
        match done.tag.as_str() {
            "INSERT" => format!("INSERT 0 {rows}"),
            "TRUNCATE" => "TRUNCATE TABLE".into(),
            // As of CREATE TABLE AS and its like, which alone have rows.
            "CREATE TABLE" | "CREATE MATERIALIZED VIEW" if done.rows.is_some() => format!("SELECT {rows}"),
            "BEGIN" if matches!(self, Kind::Begin { starts: true, .. }) => "START TRANSACTION".into(),
            tag if tag.starts_with("BACKUP") => "BACKUP DATABASE".into(),
            tag if tag.starts_with("EXPORT") => "EXPORT DATABASE".into(),
            tag if tag.starts_with("IMPORT") => "IMPORT DATABASE".into(),
            tag => match done.rows {
                Some(rows) => format!("{tag} {rows}"),
                None => tag.into(),
            },
        }
    }
}

fn modes(text: &str) -> String {
    text.trim().trim_end_matches(';').trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_the_first_words() {
        let of = |sql: &str| Kind::of(sql).unwrap();
        let deallocate = |name: &str| Kind::Deallocate(name.into());
        assert_eq!(of(" -- nothing\n /* /* at */ all */ ; "), Kind::Empty);
        assert_eq!(of("/* a */ (SELECT 1)"), Kind::Query);
        assert_eq!(of("BEGIN"), Kind::Begin { modes: String::new(), starts: false });
        let starts = Kind::Begin { modes: "READ ONLY".into(), starts: true };
        assert_eq!(of("start transaction READ ONLY;"), starts);
        assert_eq!(
            of("begin work isolation level serializable"),
            Kind::Begin { modes: "isolation level serializable".into(), starts: false }
        );
        assert_eq!((of("END"), of("abort"), of("rollback to a")), (Kind::Commit, Kind::Rollback, Kind::RollbackTo));
        assert_eq!(of("rollback transaction to savepoint a"), Kind::RollbackTo);
        assert_eq!(of("commit and chain"), Kind::EndAndChain { commits: true });
        assert_eq!(of("abort work and chain;"), Kind::EndAndChain { commits: false });
        assert_eq!((of("commit and no chain"), of("rollback to \"and\"")), (Kind::Commit, Kind::RollbackTo));
        assert_eq!(of("EXECUTE \"A b\" (1)"), Kind::Execute("A b".into()));
        assert_eq!(of("DEALLOCATE PREPARE \"A b\""), Kind::Deallocate("A b".into()));
        assert_eq!((of("deallocate B"), of("deallocate prepare")), (deallocate("b"), deallocate("prepare")));
        assert_eq!(
            (of("deallocate all"), of("deallocate \"all\"")),
            (Kind::Other("deallocate".into()), deallocate("all"))
        );
        assert_eq!((of("alter system reset all"), of("alter table t")), (Kind::Alone, Kind::Other("alter".into())));
        assert_eq!(of("COPY t FROM 'file'"), Kind::Other("copy".into()));
        assert!(matches!(of("COPY t FROM STDIN"), Kind::Copy(_)));
        assert_eq!(of("'"), Kind::Query);
    }
}
