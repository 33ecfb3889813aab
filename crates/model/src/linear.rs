//! Small dense systems of equations: Gaussian elimination with the greatest pivot.
//!
//! # Limits
//! For a few unknowns; nothing here is blocked or sparse.

/// `x` with `matrix * x = right`; none where the matrix is singular, or not square, or holds what is no number.
pub(crate) fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    if matrix.len() != n || matrix.iter().any(|row| row.len() != n) {
        return None;
    }
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        if !matrix[pivot][column].is_normal() {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (upper, lower) = matrix.split_at_mut(column + 1);
        let pivot = &upper[column];
        let pivot_right = right[column];
        for (row, right) in lower.iter_mut().zip(&mut right[column + 1..]) {
            let factor = row[column] / pivot[column];
            for (entry, above) in row.iter_mut().zip(pivot).skip(column) {
                *entry -= factor * above;
            }
            *right -= factor * pivot_right;
        }
    }
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|at| matrix[row][at] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right.iter().all(|value| value.is_finite()).then_some(right)
}

/// The inverse, column by column.
pub(crate) fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let columns: Option<Vec<Vec<f64>>> = (0..n)
        .map(|column| solve(matrix.to_vec(), (0..n).map(|row| if row == column { 1.0 } else { 0.0 }).collect()))
        .collect();
    let columns = columns?;
    Some((0..n).map(|row| columns.iter().map(|column| column[row]).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_and_its_inverse() {
        // The first pivot is 0: rows have to be exchanged.
        let matrix = vec![vec![0.0, 2.0, 1.0], vec![1.0, -1.0, 3.0], vec![4.0, 0.5, -2.0]];
        let x = solve(matrix.clone(), vec![7.0, 8.0, -1.0]).expect("regular");
        for (row, right) in matrix.iter().zip([7.0, 8.0, -1.0]) {
            assert!((row.iter().zip(&x).map(|(a, b)| a * b).sum::<f64>() - right).abs() < 1e-12);
        }
        let inverse = inverse(&matrix).expect("regular");
        for (i, row) in matrix.iter().enumerate() {
            for j in [0, 1, 2] {
                let product: f64 = row.iter().zip(&inverse).map(|(entry, other)| entry * other[j]).sum();
                assert!((product - if i == j { 1.0 } else { 0.0 }).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn what_cannot_be_solved_is_none() {
        assert_eq!(solve(vec![vec![1.0, 2.0], vec![2.0, 4.0]], vec![1.0, 1.0]), None);
        assert_eq!(solve(vec![vec![1.0]], vec![1.0, 1.0]), None);
        assert_eq!(solve(vec![vec![f64::NAN]], vec![1.0]), None);
    }
}
