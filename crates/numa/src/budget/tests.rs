//! Budgets against plain sums, alone and under threads.

use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;

use super::*;

#[test]
fn refuses_by_name_and_takes_all_or_nothing() {
    let database = Budget::new("the database", 1000);
    let statement = database.child("statement 7", Some(600));
    let free = database.child("a load", None);
    let held = free.reserve(500).expect("fits");
    let error = statement.reserve(550).expect_err("the database has 500 left");
    let MemoryError::OverBudget { budget, limit_bytes, used_bytes, requested_bytes } = &error else {
        panic!("wrong error: {error}");
    };
    assert_eq!((budget.as_str(), *limit_bytes, *used_bytes, *requested_bytes), ("the database", 1000, 500, 550));
    assert!(error.to_string().contains("the database") && error.to_string().contains("1000 B"), "{error}");
    assert_eq!((statement.used_bytes(), database.used_bytes()), (0, 500));
    assert_eq!(statement.available_bytes(), Some(500));
    drop(held);
    let error = statement.reserve(601).expect_err("over its own limit");
    assert!(error.to_string().contains("statement 7"), "{error}");
    assert_eq!(statement.reserve(600).expect("fits").bytes(), 600);
    assert_eq!((statement.used_bytes(), database.used_bytes()), (0, 0));
    assert_eq!((statement.peak_bytes(), database.peak_bytes()), (600, 600));
    assert_eq!(database.limit_bytes(), Some(1000));
    assert_eq!(free.limit_bytes(), None);
}

#[test]
fn sums_that_overflow_are_refused() {
    let all = Budget::unlimited();
    let held = all.reserve(u64::MAX).expect("unlimited");
    assert!(all.reserve(1).is_err());
    drop(held);
    assert_eq!(all.used_bytes(), 0);
    assert_eq!(all.available_bytes(), None);
}

#[test]
fn threads_never_reserve_more_than_the_limit() {
    const LIMIT: u64 = 10_000;
    const STEP: u64 = 900;
    let database = Budget::new("database", LIMIT);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..8u64 {
            let statement = database.child(format!("statement {worker}"), Some(LIMIT / 2));
            let database = &database;
            let over = &over;
            scope.spawn(move || {
                let mut held = Vec::new();
                for step in 0..20_000u64 {
                    match statement.reserve((step * 31 + worker * 17) % STEP) {
                        Ok(reservation) => held.push(reservation),
                        Err(_) => held.clear(),
                    }
                    if database.used_bytes() > LIMIT || statement.used_bytes() > LIMIT / 2 {
                        over.store(true, Ordering::Relaxed);
                    }
                }
                let sum: u64 = held.iter().map(Reservation::bytes).sum();
                assert_eq!(statement.used_bytes(), sum);
                drop(held);
                assert_eq!(statement.used_bytes(), 0);
            });
        }
    });
    assert!(!over.load(Ordering::Relaxed), "a budget was passed");
    assert_eq!(database.used_bytes(), 0);
    assert!(database.peak_bytes() <= LIMIT);
    // Threads that never meet stop at their own limit each; a refusal of either limit leaves less than a step free.
    assert!(database.peak_bytes() > LIMIT / 2 - STEP);
}

/// What a test does to a tree of three budgets: a root, its child and its grandchild.
#[derive(Clone, Debug)]
enum Step {
    Reserve { budget: usize, bytes: u64 },
    Grow { which: usize, bytes: u64 },
    Shrink { which: usize, bytes: u64 },
    Resize { which: usize, bytes: u64 },
    Split { which: usize, bytes: u64 },
    Drop { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0usize..8;
    let bytes = 0u64..120;
    prop_oneof![
        (0usize..3, bytes.clone()).prop_map(|(budget, bytes)| Step::Reserve { budget, bytes }),
        (which.clone(), bytes.clone()).prop_map(|(which, bytes)| Step::Grow { which, bytes }),
        (which.clone(), bytes.clone()).prop_map(|(which, bytes)| Step::Shrink { which, bytes }),
        (which.clone(), bytes.clone()).prop_map(|(which, bytes)| Step::Resize { which, bytes }),
        (which.clone(), bytes).prop_map(|(which, bytes)| Step::Split { which, bytes }),
        which.prop_map(|which| Step::Drop { which }),
    ]
}

proptest! {
    #[test]
    fn matches_plain_sums(
        steps in prop::collection::vec(step(), 0..60),
        limits in [100u64..400, 50u64..400, 50u64..400],
    ) {
        let root = Budget::new("root", limits[0]);
        let child = root.child("child", Some(limits[1]));
        let budgets = [root.clone(), child.clone(), child.child("grandchild", Some(limits[2]))];
        // The plain twin: which budget each reservation is of, and how large.
        let mut plain: Vec<(usize, u64)> = Vec::new();
        let mut real: Vec<Reservation> = Vec::new();
        let used = |plain: &[(usize, u64)], budget: usize| -> u64 {
            plain.iter().filter(|(of, _)| *of >= budget).map(|(_, b)| b).sum()
        };
        let fits = |plain: &[(usize, u64)], budget: usize, bytes: u64| {
            (0..=budget).all(|b| used(plain, b) + bytes <= limits[b])
        };
        let mut peaks = [0u64; 3];
        for step in steps {
            match step {
                Step::Reserve { budget, bytes } => {
                    let got = budgets[budget].reserve(bytes);
                    prop_assert_eq!(got.is_ok(), fits(&plain, budget, bytes));
                    if let Ok(reservation) = got {
                        real.push(reservation);
                        plain.push((budget, bytes));
                    }
                }
                Step::Grow { which, .. }
                | Step::Shrink { which, .. }
                | Step::Resize { which, .. }
                | Step::Split { which, .. }
                | Step::Drop { which }
                    if which >= real.len() => {}
                Step::Grow { which, bytes } => {
                    let (budget, held) = plain[which];
                    let grown = real[which].grow(bytes).is_ok();
                    prop_assert_eq!(grown, fits(&plain, budget, bytes));
                    if grown { plain[which].1 = held + bytes; }
                }
                Step::Shrink { which, bytes } => {
                    real[which].shrink(bytes);
                    plain[which].1 = plain[which].1.saturating_sub(bytes);
                }
                Step::Resize { which, bytes } => {
                    let (budget, held) = plain[which];
                    let expected = bytes <= held || fits(&plain, budget, bytes - held);
                    prop_assert_eq!(real[which].resize(bytes).is_ok(), expected);
                    if expected { plain[which].1 = bytes; }
                }
                Step::Split { which, bytes } => {
                    let off = real[which].split(bytes);
                    let (budget, held) = plain[which];
                    plain[which].1 = held - bytes.min(held);
                    plain.push((budget, bytes.min(held)));
                    real.push(off);
                }
                Step::Drop { which } => {
                    real.swap_remove(which);
                    plain.swap_remove(which);
                }
            }
            for (b, budget) in budgets.iter().enumerate() {
                peaks[b] = peaks[b].max(used(&plain, b));
                prop_assert_eq!(budget.used_bytes(), used(&plain, b));
                prop_assert_eq!(budget.peak_bytes(), peaks[b]);
            }
            for (reservation, (_, bytes)) in real.iter().zip(&plain) {
                prop_assert_eq!(reservation.bytes(), *bytes);
            }
        }
        drop(real);
        prop_assert!(budgets.iter().all(|b| b.used_bytes() == 0));
    }
}
