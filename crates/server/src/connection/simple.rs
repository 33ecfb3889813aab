//! The simple protocol: statements in a text, one after the other, as one transaction.

use nearside::{Outcome, Position, ScriptPiece};

use super::extended::DEALLOCATED;
use super::{Connection, Failure, Result};
use crate::statement::Kind;

/// A text that is longer is not taken apart on a thread that others wait for.
const LONG: usize = 64 << 10;

const START: Position = Position { line: 1, column: 1 };

impl Connection {
    /// Runs the statements of a text up to the first that fails.
    pub(super) async fn simple(&mut self, text: &str) -> Result<()> {
        // What has no name is over.
        self.portals.remove("");
        self.statements.remove("");
        match self.pieces(text).await {
            Ok(pieces) if pieces.is_empty() => self.output.empty(b'I'),
            Ok(pieces) => {
                let last = pieces.len() - 1;
                for (place, piece) in pieces.iter().enumerate() {
                    match self.piece(piece, last == 0, place == last).await {
                        Ok(()) => {}
                        Err(Failure::Gone) => return Err(Failure::Gone),
                        Err(Failure::Fault(fault)) => {
                            self.failed(&fault, Some((text, piece.start))).await?;
                            break;
                        }
                    }
                }
            }
            Err(Failure::Gone) => return Err(Failure::Gone),
            Err(Failure::Fault(fault)) => self.failed(&fault, Some((text, START))).await?,
        }
        self.ready().await
    }

    /// The statements of a text.
    pub(super) async fn pieces(&mut self, text: &str) -> Result<Vec<ScriptPiece>> {
        if text.len() < LONG {
            return Ok(self.session.statements(text)?);
        }
        let text = text.to_string();
        Ok(self.blocking(move |session| session.statements(&text)).await??)
    }

    async fn piece(&mut self, piece: &ScriptPiece, is_alone: bool, is_last: bool) -> Result<()> {
        self.begin_trace(&piece.sql);
        let done = self.run_piece(piece, is_alone, is_last).await;
        self.end_trace(&done);
        done
    }

    async fn run_piece(&mut self, piece: &ScriptPiece, is_alone: bool, is_last: bool) -> Result<()> {
        let kind = Kind::of(&piece.sql)?;
        let tag = match self.begin(&kind, is_alone).await? {
            Some(done) => kind.tag_of(&done),
            None => match &kind {
                Kind::Copy(copy) => self.copy(copy, is_alone).await?,
                kind if self.gives_up(kind) => DEALLOCATED.into(),
                _ => {
                    let sql = piece.sql.clone();
                    let outcome = self.blocking(move |session| session.run(&sql)).await??;
                    self.trace.started();
                    match outcome {
                        Outcome::Done(done) => {
                            self.forget_with(&done);
                            self.trace.rows(done.rows.unwrap_or(0));
                            kind.tag_of(&done)
                        }
                        Outcome::Rows(rows) => self.send_all(rows, &kind).await?,
                    }
                }
            },
        };
        if is_last {
            self.commit_implicit().await?;
        }
        self.output.complete(&tag);
        Ok(())
    }
}
