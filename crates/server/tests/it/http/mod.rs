//! HTTP, as programs, pages and strangers see it.

pub mod client;
mod hostile;
mod pages;
mod playing;
mod queries;
