//! COPY with the client: its statement, and its three formats.

pub mod binary;
pub mod options;
pub mod rows;
pub mod text;
