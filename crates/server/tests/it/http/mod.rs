//! HTTP, as programs, pages and strangers see it.

mod client;
mod hostile;
mod pages;
mod playing;
mod queries;
