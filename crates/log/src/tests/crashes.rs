//! Crashes before every call that changes something, with every legal outcome: what was promised is there, of the rest
//! a beginning, and the folder goes on.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::Serial;

use super::world::{BUFFER_BYTES, PATH, Progress, Step, World, recovered, shared};
use crate::Folder;
use crate::files::sim::{All, Chooser, Drawn, Each, OnlySynced, Planted, SimFiles};

/// The disk and what was promised, before each call of a run.
type Moments = Vec<(SimFiles, Progress)>;

fn moments(steps: &[Step], planted: Option<Planted>, buffer_bytes: usize) -> Moments {
    let files = SimFiles::new();
    if let Some(fault) = planted {
        files.plant(fault);
    }
    let progress: Arc<Mutex<Progress>> = Arc::default();
    let moments: Arc<Mutex<Moments>> = Arc::default();
    let (of_hook, known) = (Arc::clone(&moments), Arc::clone(&progress));
    files.before_changes(move |files| of_hook.lock().push((files.copied(), known.lock().clone())));
    let mut world = World::create(&files, &progress, buffer_bytes).unwrap();
    for step in steps {
        world.step(*step).unwrap();
    }
    files.before_changes(|_| {});
    let last = (files.copied(), progress.lock().clone());
    let mut moments = std::mem::take(&mut *moments.lock());
    moments.push(last);
    moments
}

/// What is wrong with what a crash left, if anything is.
fn verdict(crashed: &SimFiles, progress: &Progress) -> Result<usize, String> {
    if !Folder::exists(crashed, Path::new(PATH)).map_err(|error| error.to_string())? {
        return if progress.exists { Err("the folder is gone".into()) } else { Ok(0) };
    }
    let (folder, _, numbers) = recovered(crashed, PATH, None).map_err(|error| error.to_string())?;
    let count = numbers.len();
    if !progress.numbers.starts_with(&numbers) || count < progress.durable {
        return Err(format!("{numbers:?} of {progress:?}"));
    }
    // It goes on, and what it does then is not mixed up with what was lost.
    let lsn = folder.log().append(1, &1000_i64.to_le_bytes()).map_err(|error| error.to_string())?;
    folder.log().wait_durable(lsn).map_err(|error| error.to_string())?;
    drop(folder);
    let again = crashed.crashed(&mut OnlySynced);
    let (_, _, after) = recovered(&again, PATH, None).map_err(|error| format!("again: {error}"))?;
    if after[..count] != numbers || after[count..] != [1000] {
        return Err(format!("{numbers:?}, then {after:?}"));
    }
    if let Some(backup) = progress.backup {
        let (_, _, of_backup) =
            recovered(crashed, &format!("backup {backup}"), None).map_err(|error| format!("backup: {error}"))?;
        if !progress.numbers.starts_with(&of_backup) {
            return Err(format!("backup: {of_backup:?} of {:?}", progress.numbers));
        }
    }
    Ok(count)
}

/// Looks at outcomes of each moment: at every one where there are no more than `each_max`, else at some.
/// What was appended survives the end of the process where nothing is buffered.
fn first_fault(moments: &Moments, each_max: usize, drawn: u64, buffer_bytes: usize) -> Result<usize, String> {
    let mut looked = 0;
    for (number, (files, progress)) in moments.iter().enumerate() {
        // The process ends and the machine goes on, for a while: what is done then rests on what was not synced.
        let killed = verdict(&files.killed(), progress);
        let kept = killed.map_err(|fault| format!("moment {number}, killed: {fault}"))?;
        if buffer_bytes == 0 && kept < progress.numbers.len().saturating_sub(1) {
            return Err(format!("moment {number}, killed: what was appended is gone"));
        }
        let mut look = |chooser: &mut dyn Chooser, what: &str| {
            looked += 1;
            verdict(&files.crashed(chooser), progress).map_err(|fault| format!("moment {number}, {what}: {fault}"))
        };
        look(&mut OnlySynced, "only synced")?;
        look(&mut All, "all")?;
        let mut each = Each::default();
        let mut is_each = false;
        for outcome in 0..each_max {
            look(&mut each, &format!("outcome {outcome}"))?;
            is_each = !each.advance();
            if is_each {
                break;
            }
        }
        for seed in 0..if is_each { 0 } else { drawn } {
            look(&mut Drawn::new(seed ^ (number as u64 * 1009)), &format!("seed {seed}"))?;
        }
    }
    Ok(looked)
}

const SHORT: [Step; 8] = [
    Step::Commit(10),
    Step::Lazy(3),
    Step::Lazy(500),
    Step::Commit(300),
    Step::Checkpoint,
    Step::Commit(5),
    Step::Lazy(200),
    Step::Lazy(700),
];

fn long(seed: u64) -> Vec<Step> {
    let mut random = random::Random::new(seed);
    let step = |_| match random.below(20) {
        0..7 => Step::Commit(random.below(400)),
        7..13 => Step::Lazy(random.below(300)),
        13 => Step::Lazy(2500),
        14 => Step::Flush,
        15 | 16 => Step::Checkpoint,
        17 => Step::Backup,
        18 => Step::Close,
        _ => Step::Reopen,
    };
    (0..40).map(step).collect()
}

#[test]
fn every_outcome_of_a_short_run_opens_right() {
    for buffer_bytes in BUFFER_BYTES {
        let looked = first_fault(&moments(&SHORT, None, buffer_bytes), 600, 50, buffer_bytes).unwrap();
        assert!(looked > 500, "{looked}");
    }
}

#[test]
fn outcomes_of_long_runs_open_right() {
    let mut looked = 0;
    for (seed, buffer_bytes) in (0..6).zip(BUFFER_BYTES.into_iter().cycle()) {
        let moments = moments(&long(seed), None, buffer_bytes);
        looked += first_fault(&moments, 2, 3, buffer_bytes).unwrap_or_else(|fault| panic!("run {seed}: {fault}"));
    }
    assert!(looked > 2000, "{looked}");
}

/// That the checker is worth something: it finds what is planted.
#[test]
fn planted_faults_are_found() {
    for fault in [Planted::NoFolderSync, Planted::NoFileSync] {
        for buffer_bytes in BUFFER_BYTES {
            let found = first_fault(&moments(&SHORT, Some(fault), buffer_bytes), 600, 50, buffer_bytes);
            assert!(found.is_err(), "{fault:?}");
        }
    }
}

/// A check agrees: what crashes leave is whole.
#[test]
fn what_a_crash_leaves_passes_the_check() {
    let moments = moments(&long(7), None, 0);
    let mut checked = 0;
    for (number, (files, progress)) in moments.iter().enumerate().step_by(3) {
        let crashed = files.crashed(&mut Drawn::new(number as u64));
        if progress.exists {
            let report = Folder::check(&shared(&crashed), Path::new(PATH), &Serial).unwrap();
            assert!(report.last.0 as usize >= progress.durable);
            checked += 1;
        }
    }
    assert!(checked > 20);
}
