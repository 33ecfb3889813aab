//! [`Input`]: bytes as they arrive, cut into messages.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frontend::length_max;

/// How much is asked for at once, and how much a connection that waits may keep room for.
const CHUNK: usize = 16 << 10;
/// How much is read ahead of what was asked for while a statement runs.
const AHEAD: usize = 64 << 10;

/// Where a client's bytes come from.
pub type Source = Box<dyn AsyncRead + Send + Unpin>;

/// A message that cannot be skipped, since nobody knows where it ends, or that is too long to be read.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The connection is over.
    #[error("the connection is closed")]
    Gone,
    /// What is wrong.
    #[error("{0}")]
    Wrong(String),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Gone
    }
}

/// What arrives from a client.
pub struct Input {
    source: Source,
    buffer: BytesMut,
    length_max: usize,
}

impl Input {
    /// Nothing has come yet. Messages of a client that has begun may have `length_max` bytes.
    pub fn new(source: Source, length_max: usize) -> Input {
        Input { source, buffer: BytesMut::new(), length_max }
    }

    /// Waits for more bytes; false at the end. Where this is not waited for until it is done, nothing is lost.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn fill(&mut self) -> io::Result<bool> {
        // Room grows with what arrives, whatever length a message says it has.
        self.buffer.reserve(CHUNK);
        Ok(self.source.read_buf(&mut self.buffer).await? > 0)
    }

    /// Whether more may be read although nobody asks for it yet.
    pub fn has_room(&self) -> bool {
        self.buffer.len() < AHEAD
    }

    /// Whether bytes are there that nobody has taken.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next message if all of it is here: its type and its body.
    ///
    /// # Errors
    /// A type that there is not, a length that no message of the type has.
    pub fn message(&mut self) -> Result<Option<(u8, Bytes)>, Broken> {
        let Some(&tag) = self.buffer.first() else { return Ok(None) };
        let Some(most) = length_max(tag, self.length_max) else {
            return Err(Broken::Wrong(format!("invalid frontend message type {tag}")));
        };
        let Some(length) = self.length_at(1) else { return Ok(None) };
        if length < 4 || length > most {
            return Err(Broken::Wrong(format!("invalid length {length} of a message of type '{}'", char::from(tag))));
        }
        if self.buffer.len() < 1 + length {
            return Ok(None);
        }
        self.buffer.advance(5);
        let body = self.buffer.split_to(length - 4).freeze();
        self.give_back();
        Ok(Some((tag, body)))
    }

    /// The type of the next message, if all of it is here.
    pub fn peek(&self) -> Option<u8> {
        let length = self.length_at(1)?;
        (self.buffer.len() > length).then(|| self.buffer[0])
    }

    /// A message without a type, as the first one of a connection; `length_max` includes the length itself.
    ///
    /// # Errors
    /// The end of the connection, a length that is out of bounds.
    pub async fn untyped(&mut self, length_max: usize) -> Result<Bytes, Broken> {
        loop {
            if let Some(length) = self.length_at(0) {
                if length < 8 || length > length_max {
                    return Err(Broken::Wrong("invalid length of startup packet".into()));
                }
                if self.buffer.len() >= length {
                    self.buffer.advance(4);
                    return Ok(self.buffer.split_to(length - 4).freeze());
                }
            }
            if !self.fill().await? {
                return Err(Broken::Gone);
            }
        }
    }

    /// What a client answers while it logs in: the body of a message of type 'p'.
    ///
    /// # Errors
    /// The end of the connection, another message, one that is too long.
    pub async fn answer(&mut self) -> Result<Bytes, Broken> {
        /// The longest message of SASL that PostgreSQL takes, with its length.
        const LENGTH_MAX: usize = 1024 + 4;
        loop {
            if let Some(&tag) = self.buffer.first()
                && tag != b'p'
            {
                return Err(Broken::Wrong(format!("expected SASL response, got message type {tag}")));
            }
            if let Some(length) = self.length_at(1) {
                if !(4..=LENGTH_MAX).contains(&length) {
                    return Err(Broken::Wrong("invalid length of a SASL response".into()));
                }
                if self.buffer.len() > length {
                    self.buffer.advance(5);
                    return Ok(self.buffer.split_to(length - 4).freeze());
                }
            }
            if !self.fill().await? {
                return Err(Broken::Gone);
            }
        }
    }

    /// Where its bytes come from, for who makes others of them; nothing comes from here any more before it is given
    /// another source.
    pub fn take_source(&mut self) -> Source {
        std::mem::replace(&mut self.source, Box::new(tokio::io::empty()))
    }

    /// Its bytes come from there from now on.
    pub fn set_source(&mut self, source: Source) {
        self.source = source;
    }

    fn length_at(&self, at: usize) -> Option<usize> {
        let bytes = self.buffer.get(at..at + 4)?;
        // What is negative is too long.
        Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    }

    /// A connection that waits keeps no room for the long message that it once had.
    fn give_back(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > AHEAD {
            self.buffer = BytesMut::new();
        }
    }
}
