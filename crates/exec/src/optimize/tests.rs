//! Tests of the optimiser.
