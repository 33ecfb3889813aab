//! Placements resolved on machines of one and of four nodes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use numa::NodeId;
use storage::{Partitioner, Placement};

use super::spec::Spec;
use super::{FirstTurn, MachineNodes, TablePlacement};

fn schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(["a", "b", "c", "d", "e", "f"].map(field).to_vec()))
}

fn nodes(ids: &[u32]) -> Arc<MachineNodes> {
    Arc::new(MachineNodes { usual: list(ids), allowed: list(ids), units: list(ids) })
}

fn list(ids: &[u32]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

fn placed(text: &str, turn: usize, ids: &[u32]) -> TablePlacement {
    TablePlacement::new(Spec::parse(text).unwrap(), FirstTurn { column: turn, table: turn }, &nodes(ids), &schema())
        .unwrap()
}

fn codes(placement: &TablePlacement, part: usize) -> Vec<Placement> {
    placement.columns(part, &schema()).into_iter().map(|c| c.codes).collect()
}

fn ones(ids: &[u32]) -> Vec<Placement> {
    ids.iter().map(|id| Placement::One(NodeId(*id))).collect()
}

#[test]
fn columns_take_turns() {
    assert_eq!(codes(&placed("rr", 3, &[0, 1, 4, 5]), 0), ones(&[5, 0, 1, 4, 5, 0]));
    assert_eq!(codes(&placed("rr(nodes 1,4)", 0, &[0, 1, 4, 5]), 0), ones(&[1, 4, 1, 4, 1, 4]));
    assert_eq!(codes(&placed("rr(blocks)", 0, &[0, 1, 4]), 0), ones(&[0, 0, 1, 1, 4, 4]));
    assert_eq!(codes(&placed("rr", 3, &[0]), 0), vec![Placement::Local; 6]);
}

#[test]
fn tables_take_turns() {
    for turn in 0..5 {
        assert_eq!(codes(&placed("rr_tables", turn, &[0, 1, 4, 5]), 0), ones(&[[0, 1, 4, 5][turn % 4]; 6]));
    }
    assert_eq!(codes(&placed("rr_tables(nodes 1,4)", 1, &[0, 1, 4, 5]), 0), ones(&[4; 6]));
    assert_eq!(codes(&placed("rr_tables", 3, &[0]), 0), vec![Placement::Local; 6]);
    for turn in 0..5 {
        assert_eq!(codes(&placed("rr_tables(2)", turn, &[0, 1, 4, 5]), 0), ones(&[[0, 1][turn % 2]; 6]));
    }
    let special = placed("rr_tables; c: node(5)", 2, &[0, 1, 4, 5]);
    assert_eq!(codes(&special, 0), ones(&[4, 4, 5, 4, 4, 4]));
}

#[test]
fn ivp_splits_codes_and_interleaves_the_rest() {
    let columns = placed("ivp(2)", 3, &[0, 1, 2, 3]).columns(0, &schema());
    for column in columns {
        assert_eq!(column.codes, Placement::Striped(list(&[3, 0])));
        assert_eq!(column.dictionary, Placement::Interleaved(list(&[3, 0])));
        assert_eq!(column.index, Placement::Interleaved(list(&[3, 0])));
    }
    // More than there are is as many as there are.
    assert_eq!(codes(&placed("ivp(9)", 0, &[0, 1]), 0)[0], Placement::Striped(list(&[0, 1])));
}

#[test]
fn a_column_may_differ() {
    let columns = placed("rr; c: ivp; b: dictionary = replicated", 0, &[0, 1]).columns(0, &schema());
    assert_eq!(columns[0].dictionary, Placement::One(NodeId(0)));
    assert_eq!(columns[1].dictionary, Placement::Replicated(list(&[0, 1])));
    assert_eq!(columns[1].codes, Placement::One(NodeId(1)));
    assert_eq!(columns[2].codes, Placement::Striped(list(&[0, 1])));
    let columns = placed("ivp; a: node(1)", 0, &[0, 1]).columns(0, &schema());
    assert_eq!(columns[0].codes, Placement::One(NodeId(1)));
    assert_eq!(columns[1].codes, Placement::Striped(list(&[0, 1])));
}

#[test]
fn parts_lie_on_nodes_in_turn() {
    let placement = placed("pp(5, hash(b))", 1, &[0, 1, 4]);
    assert_eq!(placement.parts(), 5);
    let first: Vec<Placement> = (0..5).map(|p| codes(&placement, p)[0].clone()).collect();
    assert_eq!(first, ones(&[0, 1, 4, 0, 1]));
    assert!(matches!(placement.partitioner(&schema()).unwrap(), Some(Partitioner::Hash { parts: 5, .. })));
    assert_eq!(placed("pp", 0, &[0, 1, 4]).parts(), 3);
    assert_eq!(placed("pp", 0, &[0]).parts(), 1);
    assert!(placed("pp", 0, &[0]).partitioner(&schema()).unwrap().is_none());
    let moved = placement.with_part_on(3, NodeId(4), &schema()).unwrap();
    assert_eq!(codes(&moved, 3)[0], Placement::One(NodeId(4)));
    assert_eq!(moved.parts(), 5);
    assert!(placement.with_part_on(5, NodeId(4), &schema()).is_err());
}

#[test]
fn ranges_wait_for_their_bounds_and_are_shared() {
    let placement = placed("pp(2, range(a))", 0, &[0, 1]);
    assert_eq!(placement.unbounded(), Some("a"));
    assert!(placement.partitioner(&schema()).unwrap().is_none());
    let other = placed("rr", 0, &[0, 1]);
    assert!(other.like(&placement, &["b".into()], &schema()).is_err());
    let bounds: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let placement = placement.with_bounds(bounds);
    assert_eq!(placement.unbounded(), None);
    let like = other.like(&placement, &["b".into()], &schema()).unwrap();
    assert!(matches!(like.partitioner(&schema()).unwrap(), Some(Partitioner::Range { column: 1, .. })));
    assert_eq!(like.spec().to_string(), "pp(2, range(b))");
    assert!(placement.emptied().unbounded().is_some() && like.emptied().unbounded().is_none());
    assert!(other.like(&placement, &["b".into(), "c".into()], &schema()).is_err());
    assert!(other.like(&other, &["b".into()], &schema()).is_err());
}

#[test]
fn names_follow_the_columns() {
    let placement = placed("pp(2, hash(a, b)); c: local", 0, &[0, 1]);
    let renamed = placement.renamed("a", "x").renamed("c", "y");
    assert_eq!(renamed.spec().to_string(), "pp(2, hash(x, b)); y: local");
    assert!(placement.without("b").is_err());
    assert_eq!(placement.without("c").unwrap().spec().to_string(), "pp(2, hash(a, b))");
}

#[test]
fn memory_without_cpus_has_to_be_named() {
    let nodes = Arc::new(MachineNodes { usual: list(&[0, 1]), allowed: list(&[0, 1, 2]), units: Vec::new() });
    let placed =
        |text: &str| TablePlacement::new(Spec::parse(text).unwrap(), FirstTurn::default(), &nodes, &schema()).unwrap();
    assert_eq!(codes(&placed("rr"), 0), ones(&[0, 1, 0, 1, 0, 1]));
    assert_eq!(codes(&placed("ivp"), 0)[0], Placement::Striped(list(&[0, 1])));
    assert_eq!(codes(&placed("node(2)"), 0)[0], Placement::One(NodeId(2)));
    assert_eq!(codes(&placed("rr(nodes 0-2)"), 0), ones(&[0, 1, 2, 0, 1, 2]));
}

#[test]
fn columns_keep_their_turn_when_others_come_and_go() {
    let placement = placed("rr", 0, &[0, 1, 2, 3]).without("b").unwrap().with_column("g").renamed("c", "z");
    let names = ["a", "z", "d", "g"];
    let found: Vec<Placement> = names.iter().map(|name| placement.column(0, name).codes).collect();
    assert_eq!(found, ones(&[0, 2, 3, 2]));
}

#[test]
fn keys_of_types_without_order_are_refused() {
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
    let schema = Arc::new(Schema::new(vec![Field::new("l", list, true)]));
    for text in ["pp(2, hash(l))", "pp(2, range(l))"] {
        let error = TablePlacement::new(Spec::parse(text).unwrap(), FirstTurn::default(), &nodes(&[0, 1]), &schema)
            .unwrap_err();
        assert!(error.to_string().contains("choose a number or text column"), "{text}: {error}");
    }
}

#[test]
fn unknown_nodes_and_columns_are_refused() {
    for (text, said) in [
        ("node(7)", "those are 0, 1"),
        ("ivp(nodes 0,2)", "node 2"),
        ("rr; a: replicated(3)", "node 3"),
        ("pp(2, nodes 5)", "node 5"),
        ("rr; z: local", "'z'"),
        ("pp(2, hash(z))", "'z'"),
    ] {
        let error = TablePlacement::new(Spec::parse(text).unwrap(), FirstTurn::default(), &nodes(&[0, 1]), &schema())
            .unwrap_err();
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
}
