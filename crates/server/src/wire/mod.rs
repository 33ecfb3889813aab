//! PostgreSQL's messages, as bytes and as values; nothing here knows of sessions.
//!
//! The codec is ours, and small: what a peer sends is untrusted until it has been read here.
//!
//! # Invariants
//! No message is read beyond its end, and none with bytes left over. Nothing is allocated because a length or count
//! says so: only for bytes that have arrived. Texts are UTF-8 or refused.

pub mod backend;
pub mod frontend;
pub mod input;

/// The version 3.0 of the protocol, in the high and the low half.
pub const VERSION_3_0: u32 = 3 << 16;
/// The newest minor version of 3 that this server speaks.
pub const NEWEST_MINOR: u16 = 2;
/// What a client sends in the place of a version to ask for TLS.
pub const SSL_REQUEST: u32 = 1234 << 16 | 5679;
/// What a client sends in the place of a version to ask for encryption by GSSAPI.
pub const GSS_REQUEST: u32 = 1234 << 16 | 5680;
/// What a client sends in the place of a version to cancel another connection's statement.
pub const CANCEL_REQUEST: u32 = 1234 << 16 | 5678;

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As text.
    Text,
    /// As PostgreSQL's send functions do.
    Binary,
}

impl Format {
    /// The number that stands for it.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}
