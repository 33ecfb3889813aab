//! Decisions broken on purpose: the checkers must find each of them.

mod tests;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canary {
    /// A task is not queued.
    LosesTasks,
    /// A task is queued twice.
    DoublesTasks,
    /// Tasks go to the next group.
    RoutesAstray,
    /// Thieves take from hard queues.
    StealsHardTasks,
    /// The youngest statement goes first.
    TurnsPrioritiesRound,
    /// A worker more at work than there is.
    Oversubscribes,
    /// Nobody is woken.
    LetsThemSleep,
}
