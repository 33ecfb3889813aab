use proptest::prelude::*;

use super::*;
use crate::linear::solve;
use crate::thesis::System;

fn points() -> impl Strategy<Value = Vec<[f64; 2]>> {
    prop::collection::vec((0.2f64..3.0, 0.1f64..5.0), 1..9).prop_map(|steps| {
        let mut threads = 0.0;
        let mut points: Vec<[f64; 2]> = Vec::new();
        for (index, (step, bandwidth)) in steps.into_iter().enumerate() {
            threads = if index == 0 { 1.0 } else { threads + step };
            points.push([threads, bandwidth]);
        }
        points
    })
}

/// The spline's conditions written down one by one, all unknowns at once.
fn dense_spline(points: &[[f64; 2]]) -> Vec<[f64; 4]> {
    let pieces = points.len() - 1;
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut right = Vec::new();
    let mut add = |entries: &[(usize, f64)], value: f64| {
        let mut row = vec![0.0; 4 * pieces];
        for &(column, entry) in entries {
            row[column] += entry;
        }
        rows.push(row);
        right.push(value);
    };
    for i in 0..pieces {
        let w = points[i + 1][0] - points[i][0];
        add(&[(4 * i, 1.0)], points[i][1]);
        add(&[(4 * i, 1.0), (4 * i + 1, w), (4 * i + 2, w * w), (4 * i + 3, w * w * w)], points[i + 1][1]);
        if i + 1 < pieces {
            let next = 4 * (i + 1);
            add(&[(4 * i + 1, 1.0), (4 * i + 2, 2.0 * w), (4 * i + 3, 3.0 * w * w), (next + 1, -1.0)], 0.0);
            add(&[(4 * i + 2, 2.0), (4 * i + 3, 6.0 * w), (next + 2, -2.0)], 0.0);
        }
    }
    // The third derivative of the cubic through four points, by its coefficients in powers of x.
    let third = |four: &[[f64; 2]]| {
        let matrix: Vec<Vec<f64>> = four.iter().map(|p| (0..4).map(|power| p[0].powi(power)).collect()).collect();
        6.0 * solve(matrix, four.iter().map(|p| p[1]).collect()).expect("distinct points")[3]
    };
    match pieces {
        1 => {
            add(&[(2, 1.0)], 0.0);
            add(&[(3, 1.0)], 0.0);
        }
        2 => {
            add(&[(3, 1.0)], 0.0);
            add(&[(7, 1.0)], 0.0);
        }
        _ => {
            add(&[(3, 6.0)], third(&points[..4]));
            add(&[(4 * pieces - 1, 6.0)], third(&points[points.len() - 4..]));
        }
    }
    let solved = solve(rows, right).expect("as many conditions as unknowns");
    solved.chunks(4).map(|c| [c[0], c[1], c[2], c[3]]).collect()
}

proptest! {
    #![proptest_config(crate::noise::cases(256))]

    #[test]
    fn the_spline_is_what_its_conditions_say(points in points()) {
        let curve = Curve::new(CurveSpec {
            points: points.clone(), unit: Some(1.0), interpolation: Interpolation::Spline, outside: Outside::Extend,
        }).expect("good points");
        let mut all = vec![[0.0, 0.0]];
        all.extend(points);
        let twin = dense_spline(&all);
        for (piece, twin) in curve.pieces.iter().zip(twin) {
            for (mine, theirs) in [piece.y, piece.slope, piece.square, piece.cube].into_iter().zip(twin) {
                prop_assert!((mine - theirs).abs() <= 1e-6 * (1.0 + theirs.abs()), "{piece:?} {twin:?}");
            }
        }
    }

    #[test]
    fn curves_go_through_their_points(points in points(), spline: bool, hold: bool) {
        let interpolation = if spline { Interpolation::Spline } else { Interpolation::Linear };
        let outside = if hold { Outside::Hold } else { Outside::Extend };
        let curve = Curve::new(CurveSpec { points: points.clone(), unit: None, interpolation, outside }).expect("good \
            points");
        let one = points[0][1];
        for [threads, bandwidth] in points {
            let got = curve.bandwidth(threads);
            prop_assert!((got - bandwidth / one).abs() <= 1e-9 * (1.0 + got), "h({threads}) = {got}");
        }
        prop_assert_eq!(curve.bandwidth(0.0), 0.0);
    }

    #[test]
    fn held_lines_are_safe_everywhere(points in points(), demand in -10.0f64..100.0) {
        let curve = Curve::new(CurveSpec {
            points: points.clone(), unit: None, interpolation: Interpolation::Linear, outside: Outside::Hold,
        }).expect("good points");
        prop_assert!(curve.stretch(demand) > 0.0 && curve.stretch(demand).is_finite());
        let (low, high) = points.iter().fold((f64::MAX, 0.0f64), |(l, h), p| (l.min(p[1]), h.max(p[1])));
        if demand >= points[0][0] {
            let got = curve.bandwidth(demand) * points[0][1];
            prop_assert!(got >= low * (1.0 - 1e-12) && got <= high * (1.0 + 1e-12));
        }
    }

    #[test]
    fn demand_is_found_again(points in points(), share in 0.01f64..0.999) {
        let curve = Curve::new(CurveSpec {
            points, unit: None, interpolation: Interpolation::Linear, outside: Outside::Hold,
        }).expect("good points");
        let bandwidth = share * curve.roof();
        let demand = curve.demand_at(bandwidth);
        prop_assert!((curve.bandwidth(demand) - bandwidth).abs() < 1e-9);
        // No smaller demand yields it: a slow walk below stays below.
        for step in 0..200 {
            let less = demand * f64::from(step) / 200.0;
            prop_assert!(curve.bandwidth(less) <= bandwidth + 1e-9);
        }
    }
}

#[test]
fn figures_of_r() {
    // splinefun(c(0, 1, 2, 3, 4), c(0, 1, 4, 9, 16)): four points of a parabola give the parabola, extended too.
    let parabola =
        Curve::of_threads(&[1.0, 4.0, 9.0, 16.0], Interpolation::Spline, Outside::Extend).expect("good points");
    for x in [-1.5, 0.5, 2.25, 7.0] {
        assert!((parabola.bandwidth(x) - x * x).abs() < 1e-12, "{x}");
    }
    // And a cubic the cubic: the end conditions are what makes it so.
    let cube = |x: f64| x * x * x - 2.0 * x * x + 2.0 * x;
    let cubic = Curve::of_threads(
        &[cube(1.0), cube(2.0), cube(3.0), cube(4.0), cube(5.0)],
        Interpolation::Spline,
        Outside::Extend,
    );
    let cubic = cubic.expect("good points");
    for x in [-1.0, 0.3, 3.7, 6.0] {
        assert!((cubic.bandwidth(x) - cube(x)).abs() < 1e-11, "{x}");
    }
}

#[test]
fn the_thesis_spline_breaks_its_own_demands_where_it_says() {
    let xeon = System::Xeon.curve().expect("a curve");
    assert!(xeon.share(0.0) > 1.04 && xeon.share(0.5) > 1.0, "steeper than 1 below one thread");
    assert!(xeon.breaches().iter().any(|breach| matches!(breach, Breach::TooSteep(x) if *x < 1.0)));
    let opteron = System::Opteron.curve().expect("a curve");
    assert!(opteron.share(0.0) > 1.5);
    let lines = Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve");
    // 9.820, 9.839, 9.861: Table 2.4 itself is not concave there.
    assert_eq!(lines.breaches(), [Breach::Convex(7.0)]);
    let points = System::Xeon.remote_gib_s()[0].iter().zip(1..).map(|(&g, n)| [f64::from(n), g]).collect();
    let remote = Curve::new(CurveSpec { points, unit: Some(lines.unit()), ..lines.spec().clone() }).expect("a curve");
    assert!(
        remote.breaches().iter().any(|breach| matches!(breach, Breach::Falling(x) if *x >= 4.0)),
        "Table 2.5 falls"
    );
    assert!((remote.bandwidth(1.0) - 3.267 / 4.270).abs() < 1e-12, "in units of local threads");
}

#[test]
fn breaches_are_found_inside_pieces() {
    let dented = Curve::of_threads(&[1.0, 1.2, 2.5, 2.6], Interpolation::Linear, Outside::Hold).expect("good points");
    assert!(dented.breaches().contains(&Breach::Convex(2.0)));
    assert!(dented.breaches().contains(&Breach::TooSteep(2.0)));
}

#[test]
fn bad_points_are_refused() {
    let of = |points: Vec<[f64; 2]>| {
        Curve::new(CurveSpec { points, unit: None, interpolation: Interpolation::Linear, outside: Outside::Hold })
    };
    assert_eq!(of(vec![]), Err(CurveError::Empty));
    assert_eq!(of(vec![[2.0, 3.0]]), Err(CurveError::NoUnit));
    assert!(matches!(of(vec![[1.0, f64::NAN]]), Err(CurveError::BadPoint { index: 0, .. })));
    assert!(matches!(of(vec![[1.0, 1.0], [2.0, 0.0]]), Err(CurveError::BadPoint { index: 1, .. })));
    assert!(matches!(of(vec![[1.0, 1.0], [1.0, 2.0]]), Err(CurveError::NotAscending { index: 1, .. })));
    let bad = CurveSpec {
        points: vec![[1.0, 1.0]],
        unit: Some(-1.0),
        ..CurveSpec { points: vec![], unit: None, interpolation: Interpolation::Linear, outside: Outside::Hold }
    };
    assert!(matches!(Curve::new(bad), Err(CurveError::BadUnit { .. })));
}

#[test]
fn stored_curves_are_read_back() {
    let local = System::Xeon.curve().expect("a curve");
    let points = vec![[1.0, 3.267], [2.0, 5.430]];
    let remote = Curve::new(CurveSpec { points, unit: Some(local.unit()), ..local.spec().clone() });
    let remote = remote.expect("good points");
    for curve in [local, remote] {
        let text = serde_json::to_string(&curve).expect("plain data");
        assert_eq!(serde_json::from_str::<Curve>(&text).expect("as written"), curve);
    }
    let refused = serde_json::from_str::<Curve>(r#"{"points": [[2, 3]]}"#).expect_err("no unit");
    assert!(refused.to_string().contains("one thread"), "{refused}");
}
