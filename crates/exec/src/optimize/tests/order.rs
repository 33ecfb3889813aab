//! The search for an order, over numbers.

use crate::optimize::cost::{Cost, Lookup};
use crate::optimize::order::{Class, Graph, Relation, Semi, Tree, order};

fn relation(rows: f64, base_rows: f64) -> Relation {
    Relation { rows, base_rows, columns: 2, cost: Cost { fixed: 0.3 * base_rows, work: 4.0 * rows } }
}

/// A relation of facts and dimensions of given rows and shares that pass.
fn star(facts: f64, dimensions: &[(f64, f64)]) -> Graph {
    let mut relations = vec![relation(facts, facts)];
    let mut classes = Vec::new();
    for (number, &(rows, share)) in dimensions.iter().enumerate() {
        relations.push(relation(rows * share, rows));
        classes.push(Class { members: vec![(0, rows), (number + 1, rows)], array: true });
    }
    Graph { relations, classes, semis: Vec::new(), conditions: Vec::new() }
}

fn leaves(tree: &Tree, into: &mut Vec<usize>) {
    match tree {
        Tree::Leaf(relation) => into.push(*relation),
        Tree::Join { probe, build } => {
            leaves(probe, into);
            leaves(build, into);
        }
        Tree::Semi { kept, .. } => leaves(kept, into),
    }
}

#[test]
fn facts_stream_past_dimensions() {
    for dimensions in 1..14 {
        let sizes: Vec<(f64, f64)> = (0..dimensions).map(|d| (10.0 * (d + 1) as f64, 0.5)).collect();
        let found = order(&star(1e6, &sizes));
        let mut all = Vec::new();
        leaves(&found.tree, &mut all);
        // Beyond that few facts are left, and keeping those costs less than testing all for one more dimension.
        assert!(all[0] == 0 || dimensions > 6, "the facts are at the end of all probe sides: {:?}", found.tree);
        all.sort_unstable();
        assert_eq!(all, (0..=dimensions).collect::<Vec<_>>());
        assert!((found.rows / (1e6 * 0.5f64.powi(dimensions as i32)) - 1.0).abs() < 1e-6, "{}", found.rows);
    }
}

#[test]
fn relations_without_a_key_are_joined_too() {
    let relations = vec![relation(100.0, 100.0), relation(1.0, 1.0), relation(7.0, 7.0)];
    let found = order(&Graph { relations, ..Graph::default() });
    assert!((found.rows - 700.0).abs() < 1e-6);
}

#[test]
fn a_few_rows_look_for_matches_in_many() {
    // Few rows of 0 are left by 1; then the other side of the semi join is scanned for those only.
    let mut graph = star(1e6, &[(1e4, 0.01)]);
    graph.relations.push(relation(6e6, 6e6));
    graph.semis.push(Semi {
        relation: 2,
        needs: 1,
        share: 0.9,
        anti: true,
        lookup: Lookup::Hash,
        choices: 1.5e6,
        filters: true,
    });
    let Tree::Semi { kept, builds_kept: true, .. } = order(&graph).tree else { panic!("{:?}", order(&graph).tree) };
    assert!(matches!(*kept, Tree::Join { .. }), "{kept:?}");
    // Without the dimension the other side is no larger than what it would be scanned for.
    let mut graph = star(1e6, &[]);
    graph.relations.push(relation(1e3, 1e3));
    let semi =
        Semi { relation: 1, needs: 1, share: 0.01, anti: false, lookup: Lookup::Array, choices: 1e3, filters: true };
    graph.semis.push(semi);
    assert!(matches!(order(&graph).tree, Tree::Semi { builds_kept: false, .. }));
}
