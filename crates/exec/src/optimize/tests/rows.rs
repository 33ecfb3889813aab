//! An optimised plan gives the rows of the plan: random joins over random tables, by the reference executor.
