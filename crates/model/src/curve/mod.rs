//! The bandwidth function `h`: how much bandwidth a node's memory gives, by how much is asked of it.
//!
//! Demand and bandwidth are counted in *units*: what one thread alone gets, so that `h(1) = 1`. Between measured points
//! the curve is a cubic spline or straight lines ([`Interpolation`]); what it is outside them, [`Outside`] says.
//! `h(x) / x`, the share of what it asks for that a thread gets, is [`Curve::share`]; its inverse, how many times
//! longer a transfer takes, [`Curve::stretch`].
//!
//! The thesis demands that `h` is non-negative, concave, bounded and no steeper than 1. Measured curves and splines
//! through them break that (its own spline is steeper than 1 below one thread, where `share` then exceeds 1); nothing
//! is bent to fit here, [`Curve::breaches`] tells where.
//!
//! Invariants: positions strictly ascend from 0, where there is no bandwidth; elsewhere measured bandwidths are
//! positive.
//!
//! # Limits
//! One curve per kind of access: a mix of reads and writes has one of its own, which has to be measured.
//!
//! Source: Seidel 2011, sections 2.1 and 5.1.

mod spline;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How a curve runs between measured points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interpolation {
    /// Cubic pieces, R's default (`fmm`); what the thesis' tables were computed with. Overshoots where measurements
    /// bend sharply.
    Spline,
    /// Straight lines: never above or below the neighbouring measurements.
    #[default]
    Linear,
}

/// What a curve does beyond its last point and below zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// The outermost pieces go on, as in R. A negative demand is then what the thesis' negative `q` made of it; far
    /// beyond the last point bandwidth may become anything, negative too.
    Extend,
    /// Beyond the last point no more and no less than there; below zero in proportion. Always safe.
    #[default]
    Hold,
}

/// Why points make no curve.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CurveError {
    /// Nothing to interpolate.
    #[error("a bandwidth curve needs a measurement with one thread at least; measure 1, 2, .. threads of one node")]
    Empty,
    /// Not a number, or not positive.
    #[error("point {index} of the bandwidth curve is ({threads}, {bandwidth}); both must be positive and finite")]
    BadPoint {
        /// Which, from 0.
        index: usize,
        /// Its number of threads.
        threads: f64,
        /// Its bandwidth.
        bandwidth: f64,
    },
    /// Two measurements with as many threads, or out of order.
    #[error(
        "point {index} of the bandwidth curve has {threads} threads, not more than the one before; sort them, and keep \
         one of each"
    )]
    NotAscending {
        /// Which, from 0.
        index: usize,
        /// Its number of threads.
        threads: f64,
    },
    /// The unit is missing.
    #[error("the bandwidth curve has no measurement with one thread, which is the unit of all others; measure it too")]
    NoUnit,
    /// Not a bandwidth.
    #[error("the bandwidth curve's unit is {unit}; give what one thread gets, or leave it out")]
    BadUnit {
        /// What was given.
        unit: f64,
    },
}

/// What a curve is made from; the form in which it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurveSpec {
    /// Threads of one node, and what they get together, in any one unit; ascending.
    pub points: Vec<[f64; 2]>,
    /// What counts as one unit of bandwidth; absent: what one thread got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<f64>,
    /// Between the points.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Outside of them.
    #[serde(default)]
    pub outside: Outside,
}

/// Where a curve is not what the thesis asks of a bandwidth function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Breach {
    /// It bends upwards at this demand.
    Convex(f64),
    /// It rises by more than one unit per unit at this demand: two threads get more than twice what one gets, or the
    /// spline overshoots.
    TooSteep(f64),
    /// It falls: more demand, less bandwidth. The thesis saw that for foreign memory (Table 2.5).
    Falling(f64),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Convex(at) => write!(f, "it bends upwards at a demand of {at:.2}"),
            Breach::TooSteep(at) => write!(f, "at a demand of {at:.2} a thread more brings more than one thread gets"),
            Breach::Falling(at) => write!(f, "it falls at a demand of {at:.2}"),
        }
    }
}

/// A bandwidth function in units; see the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "CurveSpec", into = "CurveSpec")]
pub struct Curve {
    spec: CurveSpec,
    /// One per gap; the first begins at 0.
    pieces: Vec<CurvePiece>,
    /// The last measured demand and its bandwidth.
    end: [f64; 2],
}

/// `y + slope w + square w^2 + cube w^3`, where `w` is the distance from `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CurvePiece {
    x: f64,
    y: f64,
    slope: f64,
    square: f64,
    cube: f64,
}

impl CurvePiece {
    fn line(from: [f64; 2], to: [f64; 2]) -> CurvePiece {
        let slope = (to[1] - from[1]) / (to[0] - from[0]);
        CurvePiece { x: from[0], y: from[1], slope, square: 0.0, cube: 0.0 }
    }

    fn at(&self, x: f64) -> f64 {
        let w = x - self.x;
        self.y + w * (self.slope + w * (self.square + w * self.cube))
    }

    fn slope_at(&self, x: f64) -> f64 {
        let w = x - self.x;
        self.slope + w * (2.0 * self.square + w * 3.0 * self.cube)
    }
}

impl TryFrom<CurveSpec> for Curve {
    type Error = CurveError;

    fn try_from(spec: CurveSpec) -> Result<Curve, CurveError> {
        Curve::new(spec)
    }
}

impl From<Curve> for CurveSpec {
    fn from(curve: Curve) -> CurveSpec {
        curve.spec
    }
}

impl Curve {
    /// The curve through `spec`'s points and (0, 0), scaled to one thread.
    pub fn new(spec: CurveSpec) -> Result<Curve, CurveError> {
        if spec.points.is_empty() {
            return Err(CurveError::Empty);
        }
        let mut before = 0.0;
        for (index, &[threads, bandwidth]) in spec.points.iter().enumerate() {
            let is_good = |value: f64| value.is_finite() && value > 0.0;
            if !is_good(threads) || !is_good(bandwidth) {
                return Err(CurveError::BadPoint { index, threads, bandwidth });
            }
            if threads <= before {
                return Err(CurveError::NotAscending { index, threads });
            }
            before = threads;
        }
        let unit = spec.unit.or_else(|| one_thread(&spec.points)).ok_or(CurveError::NoUnit)?;
        if !(unit.is_finite() && unit > 0.0) {
            return Err(CurveError::BadUnit { unit });
        }
        Ok(Curve::of_units(spec, unit))
    }

    /// The curve through what 1, 2, .. threads of a node got together (any unit; e.g. a row of Table 2.4).
    pub fn of_threads(bandwidths: &[f64], interpolation: Interpolation, outside: Outside) -> Result<Curve, CurveError> {
        let points = bandwidths.iter().enumerate().map(|(index, &bandwidth)| [(index + 1) as f64, bandwidth]);
        Curve::new(CurveSpec { points: points.collect(), unit: None, interpolation, outside })
    }

    /// What one unit of bandwidth is, in the unit of the points it was made from.
    pub fn unit(&self) -> f64 {
        self.spec.unit.or_else(|| one_thread(&self.spec.points)).unwrap_or(1.0)
    }

    fn of_units(spec: CurveSpec, unit: f64) -> Curve {
        let mut points = vec![[0.0, 0.0]];
        points.extend(spec.points.iter().map(|&[threads, bandwidth]| [threads, bandwidth / unit]));
        let pieces = match spec.interpolation {
            Interpolation::Spline => spline::pieces(&points),
            Interpolation::Linear => points.windows(2).map(|ends| CurvePiece::line(ends[0], ends[1])).collect(),
        };
        let end = points[points.len() - 1];
        Curve { spec, pieces, end }
    }

    /// `h(demand)`: the bandwidth that all threads get together, in units.
    pub fn bandwidth(&self, demand: f64) -> f64 {
        if self.spec.outside == Outside::Hold {
            if demand >= self.end[0] {
                return self.end[1];
            }
            if demand < 0.0 {
                return demand * self.pieces[0].slope;
            }
        }
        let after = self.pieces.partition_point(|piece| piece.x <= demand);
        self.pieces[after.saturating_sub(1)].at(demand)
    }

    /// `f(demand)`: the share of what it asks for that a thread gets; at no demand the limit, `h'(0)`. Exceeds 1 where
    /// the curve is above the diagonal, and is no share at all where an extended curve has fallen below zero.
    pub fn share(&self, demand: f64) -> f64 {
        if demand == 0.0 { self.pieces[0].slope } else { self.bandwidth(demand) / demand }
    }

    /// `1 / f(demand)`: how many times longer a transfer takes than it takes one thread alone.
    pub fn stretch(&self, demand: f64) -> f64 {
        1.0 / self.share(demand)
    }

    /// The least demand that yields this bandwidth (units), by halving; the last measured demand where none does: a
    /// bandwidth at the roof says nothing about how much more is wanted.
    pub fn demand_at(&self, bandwidth: f64) -> f64 {
        if bandwidth.is_nan() || bandwidth <= 0.0 {
            return 0.0;
        }
        let ends = self.pieces.iter().skip(1).map(|piece| piece.x).chain([self.end[0]]);
        let mut low = 0.0;
        for high in ends {
            if self.bandwidth(high) >= bandwidth {
                return self.halve(low, high, bandwidth);
            }
            low = high;
        }
        self.end[0]
    }

    fn halve(&self, mut low: f64, mut high: f64, bandwidth: f64) -> f64 {
        // As many halvings as a double has digits.
        for _ in 0..f64::MANTISSA_DIGITS {
            let middle = (low + high) / 2.0;
            if self.bandwidth(middle) >= bandwidth {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// The most bandwidth at a measured point, in units.
    pub fn roof(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.y).fold(self.end[1], f64::max)
    }

    /// What it was made from.
    pub fn spec(&self) -> &CurveSpec {
        &self.spec
    }

    /// Where the curve breaks the thesis' demands on `h`, one of each kind and piece, within the measured range.
    pub fn breaches(&self) -> Vec<Breach> {
        // Differences of measured figures carry rounding.
        const SLACK: f64 = 1e-9;
        let mut found = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let next = self.pieces.get(index + 1);
            let to = next.map_or(self.end[0], |next| next.x);
            let bends = [2.0 * piece.square, 2.0 * piece.square + 6.0 * piece.cube * (to - piece.x)];
            let turns_up = next.is_some_and(|next| next.slope > piece.slope_at(to) + SLACK);
            if bends.iter().any(|&bend| bend > SLACK) || turns_up {
                found.push(Breach::Convex(if bends[0] > SLACK { piece.x } else { to }));
            }
            // The slope is extreme at the ends or where the curvature vanishes.
            let flat = piece.x - piece.square / (3.0 * piece.cube);
            let mut places = vec![piece.x, to];
            if flat > piece.x && flat < to {
                places.push(flat);
            }
            let steep = places.iter().find(|&&x| piece.slope_at(x) > 1.0 + SLACK);
            found.extend(steep.map(|&x| Breach::TooSteep(x)));
            found.extend(places.iter().find(|&&x| piece.slope_at(x) < -SLACK).map(|&x| Breach::Falling(x)));
        }
        found
    }
}

fn one_thread(points: &[[f64; 2]]) -> Option<f64> {
    points.iter().find(|point| point[0] == 1.0).map(|point| point[1])
}
