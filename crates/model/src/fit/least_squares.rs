//! Least squares for a few parameters that enter as they please: Levenberg-Marquardt with bounds.
//!
//! The matrix of derivatives is taken by differences; a step solves `(J'J + damping diag(J'J)) step = -J'r` and is cut
//! at the bounds; a parameter that lies at a bound and would leave it takes no part. A step that does not lower the sum
//! of squares, or leads to something that is no number, raises the damping.
//!
//! # Limits
//! Finds a minimum near the start, not the deepest one: callers start from several places. Dense, for tens of
//! parameters at most.
//!
//! Source: Marquardt, 1963 (scaling by the diagonal).

use crate::linear::{inverse, solve};

/// What is minimised.
pub(crate) struct Problem<'a> {
    /// Appends the residuals at these parameters; as many each time.
    pub(crate) residuals: &'a dyn Fn(&[f64], &mut Vec<f64>),
    /// The least and the greatest value of each parameter.
    pub(crate) bounds: &'a [(f64, f64)],
}

/// A minimum.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    pub(crate) values: Vec<f64>,
    /// The sum of squared residuals.
    pub(crate) squares: f64,
    /// `(J'J)^-1` there, of the parameters that are not at a bound; rows and columns of the others are 0. None where
    /// singular.
    pub(crate) inverse: Option<Vec<Vec<f64>>>,
}

/// Where damping begins, and the range in which it stays: beyond the upper end steps are too small to change a double.
const DAMPING: (f64, f64, f64) = (1e-3, 1e-12, 1e12);
/// Accepted steps after which it is the problem that does not converge; small ones take about ten.
const STEPS_MAX: usize = 200;
/// A step that lowers the sum of squares by a smaller share than this is the last: far below what noise makes of it.
const SETTLED: f64 = 1e-9;

impl Problem<'_> {
    /// The minimum that `start` leads to; none where the residuals there are no numbers.
    pub(crate) fn minimise(&self, start: &[f64]) -> Option<Solution> {
        let mut values: Vec<f64> =
            start.iter().zip(self.bounds).map(|(&value, &(low, high))| value.clamp(low, high)).collect();
        let mut residuals = self.at(&values)?;
        let mut squares = sum_of_squares(&residuals);
        let mut damping = DAMPING.0;
        for _ in 0..STEPS_MAX {
            let jacobian = self.jacobian(&values, &residuals);
            let (normal, gradient) = normal_equations(&jacobian, &residuals);
            let before = squares;
            let mut moved = false;
            while damping <= DAMPING.2 {
                let trial = self.step(&values, &normal, &gradient, damping);
                if let Some((trial, new, lower)) = trial.and_then(|trial| {
                    let new = self.at(&trial)?;
                    let lower = sum_of_squares(&new);
                    (lower < squares).then_some((trial, new, lower))
                }) {
                    (values, residuals, squares) = (trial, new, lower);
                    damping = (damping / 10.0).max(DAMPING.1);
                    moved = true;
                    break;
                }
                damping *= 10.0;
            }
            if !moved || before - squares <= SETTLED * before {
                break;
            }
        }
        let inverse = self.inverse_at(&values, &residuals);
        Some(Solution { values, squares, inverse })
    }

    fn at(&self, values: &[f64]) -> Option<Vec<f64>> {
        let mut residuals = Vec::new();
        (self.residuals)(values, &mut residuals);
        residuals.iter().all(|residual| residual.is_finite()).then_some(residuals)
    }

    /// Derivatives of every residual, a row per parameter; central differences, one-sided at a bound.
    fn jacobian(&self, values: &[f64], residuals: &[f64]) -> Vec<Vec<f64>> {
        let mut moved = values.to_vec();
        let mut rows = Vec::with_capacity(values.len());
        for (index, &(low, high)) in self.bounds.iter().enumerate() {
            let width = f64::EPSILON.cbrt() * values[index].abs().max(1e-2);
            let mut side = |to: f64| {
                moved[index] = to.clamp(low, high);
                let at = moved[index];
                let found = self.at(&moved);
                moved[index] = values[index];
                found.map_or((values[index], residuals.to_vec()), |found| (at, found))
            };
            let ((low, below), (high, above)) = (side(values[index] - width), side(values[index] + width));
            let gap = high - low;
            let slope = |(above, below): (&f64, &f64)| if gap > 0.0 { (above - below) / gap } else { 0.0 };
            rows.push(above.iter().zip(&below).map(slope).collect());
        }
        rows
    }

    fn step(&self, values: &[f64], normal: &[Vec<f64>], gradient: &[f64], damping: f64) -> Option<Vec<f64>> {
        let free: Vec<usize> = (0..values.len()).filter(|&i| self.is_free(i, values[i], gradient[i])).collect();
        if free.is_empty() {
            return None;
        }
        let damped = |&i: &usize, &j: &usize| normal[i][j] * if i == j { 1.0 + damping } else { 1.0 };
        let matrix = free.iter().map(|i| free.iter().map(|j| damped(i, j)).collect()).collect();
        let step = solve(matrix, free.iter().map(|&i| -gradient[i]).collect())?;
        let mut trial = values.to_vec();
        for (&index, step) in free.iter().zip(step) {
            let (low, high) = self.bounds[index];
            trial[index] = (values[index] + step).clamp(low, high);
        }
        (trial != values).then_some(trial)
    }

    /// Whether going downhill keeps a parameter within its bounds.
    fn is_free(&self, index: usize, value: f64, gradient: f64) -> bool {
        let (low, high) = self.bounds[index];
        gradient != 0.0 && !(value <= low && gradient > 0.0) && !(value >= high && gradient < 0.0)
    }

    fn inverse_at(&self, values: &[f64], residuals: &[f64]) -> Option<Vec<Vec<f64>>> {
        let (normal, _) = normal_equations(&self.jacobian(values, residuals), residuals);
        let inside = |&i: &usize| values[i] > self.bounds[i].0 && values[i] < self.bounds[i].1;
        let free: Vec<usize> = (0..values.len()).filter(inside).collect();
        let small: Vec<Vec<f64>> = free.iter().map(|&i| free.iter().map(|&j| normal[i][j]).collect()).collect();
        let small = inverse(&small)?;
        let mut whole = vec![vec![0.0; values.len()]; values.len()];
        for (&i, row) in free.iter().zip(small) {
            for (&j, value) in free.iter().zip(row) {
                whole[i][j] = value;
            }
        }
        Some(whole)
    }
}

fn normal_equations(jacobian: &[Vec<f64>], residuals: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let normal = jacobian.iter().map(|row| jacobian.iter().map(|other| dot(row, other)).collect()).collect();
    (normal, jacobian.iter().map(|row| dot(row, residuals)).collect())
}

fn sum_of_squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum()
}
