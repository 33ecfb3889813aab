//! The lab: the published experiments, repeated on virtual machines, by the model and on the machine at hand, and how
//! close that came.
//!
//! - [`declaration`]: experiments as declared files. [`engine`]: what runs a point: simulator, model, or whoever
//!   measures.
//! - [`run`]: many points, with progress, interrupted and gone on with. [`result`]: figures with their origin, kept as
//!   files.
//! - [`assumption`]: what no paper prints and is simulated all the same, by name.
//! - [`claims`]: every published claim against what was obtained. [`sensitivity`]: which verdicts hang on a constant.
//!   [`variation`]: whether what is named as the reason of a miss is one.
//! - [`report`]: one HTML page. [`command`]: what `nearside lab` does.
//!
//! Invariants: a figure never loses its origin; simulated and measured figures are never one series; simulated results
//! are a function of settings, constants and seed. The lab depends on no part of the database: what measures comes in
//! through [`engine::Measure`].
//!
//! # Limits
//! What is left is listed in `docs/design/lab.md`.

pub mod assumption;
pub mod claims;
pub mod command;
pub mod declaration;
pub mod engine;
pub mod placer;
pub mod report;
pub mod result;
pub mod run;
pub mod sensitivity;
pub mod series;
pub mod variation;
pub mod whatif;
