//! The cubic spline through measured points that R calls `fmm`.
//!
//! Between two neighbours a cubic; value, slope and curvature continuous. At each end the cubic's third derivative is
//! that of the one cubic through the four outermost points, where the natural spline would set the curvature there to
//! nothing. Three points give a parabola, two a line. Points come sorted and distinct: `Curve` has checked that.
//!
//! Source: Forsythe, Malcolm, Moler: Computer Methods for Mathematical Computations, 1977 (the conditions); the default
//! of R's `spline` and `splinefun`, which Seidel 2011, section 5.1 used.

use super::CurvePiece;

/// The pieces of the spline, one per gap between neighbours.
pub(super) fn pieces(points: &[[f64; 2]]) -> Vec<CurvePiece> {
    let curvatures = curvatures(points);
    points
        .windows(2)
        .zip(curvatures.windows(2))
        .map(|(ends, bent)| {
            let [[x, y], [x_next, y_next]] = [ends[0], ends[1]];
            let width = x_next - x;
            CurvePiece {
                x,
                y,
                slope: (y_next - y) / width - width * (2.0 * bent[0] + bent[1]) / 6.0,
                square: bent[0] / 2.0,
                cube: (bent[1] - bent[0]) / (6.0 * width),
            }
        })
        .collect()
}

/// The second derivative at every point, by elimination in a tridiagonal system.
fn curvatures(points: &[[f64; 2]]) -> Vec<f64> {
    let last = points.len() - 1;
    if last < 2 {
        return vec![0.0; points.len()];
    }
    let widths: Vec<f64> = points.windows(2).map(|ends| ends[1][0] - ends[0][0]).collect();
    let slopes: Vec<f64> =
        points.windows(2).map(|ends| (ends[1][1] - ends[0][1]) / (ends[1][0] - ends[0][0])).collect();
    // Rows: `width * (M[1] - M[0]) = width^2 * third derivative` at the ends, continuity of the slope between.
    let (first_third, last_third) =
        if last < 3 { (0.0, 0.0) } else { (third_derivative(&points[..4]), third_derivative(&points[last - 3..])) };
    let mut diagonal = vec![0.0; last + 1];
    let mut right = vec![0.0; last + 1];
    diagonal[0] = -widths[0];
    right[0] = widths[0] * widths[0] * first_third;
    diagonal[last] = -widths[last - 1];
    right[last] = -widths[last - 1] * widths[last - 1] * last_third;
    for i in 1..last {
        diagonal[i] = 2.0 * (widths[i - 1] + widths[i]);
        right[i] = 6.0 * (slopes[i] - slopes[i - 1]);
    }
    for i in 1..=last {
        let factor = widths[i - 1] / diagonal[i - 1];
        diagonal[i] -= factor * widths[i - 1];
        right[i] -= factor * right[i - 1];
    }
    right[last] /= diagonal[last];
    for i in (0..last).rev() {
        right[i] = (right[i] - widths[i] * right[i + 1]) / diagonal[i];
    }
    right
}

/// Of the cubic through four points: six times their third divided difference.
fn third_derivative(points: &[[f64; 2]]) -> f64 {
    let mut differences: Vec<f64> = points.iter().map(|point| point[1]).collect();
    for order in 1..4 {
        for i in 0..4 - order {
            differences[i] = (differences[i + 1] - differences[i]) / (points[i + order][0] - points[i][0]);
        }
    }
    6.0 * differences[0]
}
