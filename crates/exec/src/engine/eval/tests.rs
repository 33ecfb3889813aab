//! Compiled expressions against slow ones.
