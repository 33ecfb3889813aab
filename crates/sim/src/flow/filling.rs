//! The slow, obvious twin of [`super::Solver`]: all flows rise together, one event at a time.
//!
//! # Limits
//! Quadratic in flows; for tests.

use super::{Class, Resource};

/// The rate of a flow of each class. Every flow is handled by itself.
pub fn rates(resources: &[Resource], classes: &[Class<'_>]) -> Vec<f64> {
    let mut rates = vec![0.0; classes.len()];
    let mut rising: Vec<bool> = classes.iter().map(|class| class.flows > 0.0).collect();
    while rising.contains(&true) {
        // How much further all that rise can rise together.
        let mut step = f64::INFINITY;
        for (class, rate) in classes.iter().zip(&rates).zip(&rising).filter(|(_, rises)| **rises).map(|(of, _)| of) {
            step = step.min(class.cap - rate);
        }
        let room = |place: usize, rates: &[f64]| resources[place].capacity - used(classes, rates, place, None);
        for place in 0..resources.len() {
            let slope = used(classes, &vec![1.0; classes.len()], place, Some(&rising));
            if slope > 0.0 {
                step = step.min(room(place, &rates) / slope);
            }
        }
        for (rate, _) in rates.iter_mut().zip(&rising).filter(|(_, rises)| **rises) {
            *rate += step.max(0.0);
        }
        // Whoever is at its cap or crosses something full stops.
        let before = rising.clone();
        for (place, class) in classes.iter().enumerate() {
            let crosses = |full: &(usize, f64)| room(full.0, &rates) <= resources[full.0].capacity * 1e-9;
            if rates[place] >= class.cap * (1.0 - 1e-9) || class.uses.iter().any(crosses) {
                rising[place] = false;
            }
        }
        assert!(before != rising, "every step stops somebody");
    }
    rates
}

/// What classes use of a resource at these rates; only those that rise, if given.
fn used(classes: &[Class<'_>], rates: &[f64], resource: usize, rising: Option<&[bool]>) -> f64 {
    let mut sum = 0.0;
    for (place, class) in classes.iter().enumerate() {
        if rising.is_none_or(|rising| rising[place]) {
            for (_, amount) in class.uses.iter().filter(|(of, _)| *of == resource) {
                sum += class.flows * amount * rates[place];
            }
        }
    }
    sum
}
