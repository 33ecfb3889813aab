//! Who is at the memory of one node, and what the local curve makes of everybody there.

use crate::job::{Conditions, Job, JobStage};

/// What a job does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageShare {
    Sequential,
    Parallel,
    /// The average over both, in proportion to the time that each takes.
    Mean,
}

impl StageShare {
    pub(super) fn of(stage: JobStage) -> StageShare {
        match stage {
            JobStage::Sequential => StageShare::Sequential,
            JobStage::Parallel => StageShare::Parallel,
        }
    }
}

/// A job, its cpus per node, and what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Party<'a> {
    pub(super) job: &'a Job,
    pub(super) cpus: f64,
    pub(super) part: StageShare,
}

impl Party<'_> {
    /// Work per second, in seconds of one thread.
    pub(super) fn pace(&self, now: Conditions) -> f64 {
        match self.part {
            StageShare::Sequential => self.job.pace(JobStage::Sequential, self.cpus, now),
            StageShare::Parallel => self.job.pace(JobStage::Parallel, self.cpus, now),
            StageShare::Mean => self.job.mean_pace(self.cpus, now),
        }
    }

    pub(super) fn threads(&self, now: Conditions) -> f64 {
        match self.part {
            StageShare::Sequential => Job::threads(JobStage::Sequential, self.cpus),
            StageShare::Parallel => self.cpus,
            StageShare::Mean => self.job.mean_threads(self.cpus, now),
        }
    }

    /// How many times longer its transfers take, if local ones take `local` and those of each class `links`.
    pub(super) fn stretch(&self, local: f64, links: &[f64]) -> f64 {
        let remote = self.job.remote.iter().zip(links);
        remote.fold(local, |sum, (&share, &link)| sum + share * (local.max(link) - local))
    }
}

/// What the local curve makes of everybody.
pub(super) struct LocalDemand {
    pub(super) demand: f64,
    pub(super) stretches: Vec<f64>,
    pub(super) hog_stretch: f64,
}
