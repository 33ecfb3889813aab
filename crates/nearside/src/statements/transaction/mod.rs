//! Statements of a transaction: what they see ([`view`]), what they lock of what they have written ([`locking`]), and
//! how all of it becomes everybody's ([`commit`]). docs/design/transactions.md says what a transaction is here, and
//! why; [`crate::run::transaction`] has what it consists of.

pub(crate) mod commit;
pub(crate) mod locking;
pub(crate) mod view;
