//! The placements of the experiments in the words of `CREATE TABLE .. WITH (placement = '..')`.
//!
//! Invariant: every node is named, so that a point on a part of the machine stays there.

use lab::declaration::{Columns, LayoutOrder, Placement};
use lab::engine::RunError;
use numa::NodeId;

/// Where the columns of a table lie on these nodes.
///
/// # Errors
/// [`RunError::Refused`]: more ranges than nodes.
pub fn placement(asked: &Columns, columns: usize, nodes: &[NodeId]) -> Result<String, RunError> {
    let partitions = if asked.partitions == 0 { nodes.len() } else { asked.partitions as usize };
    let all = named(nodes.iter());
    match asked.placement {
        Placement::Rr if asked.order == LayoutOrder::Blocks => Ok(format!("rr(blocks {all})")),
        Placement::Rr => Ok(format!("rr({all})")),
        Placement::Placer => Err(RunError::Refused(
            "placement = placer: simulated only; ALTER SYSTEM SET nearside.placer = on".to_string(),
        )),
        Placement::Pp => Ok(format!("pp({partitions}, round robin, {all})")),
        Placement::Ivp if partitions > nodes.len() => Err(RunError::Refused(format!(
            "partitions = {partitions}: a column is cut into one range per node at most, and {} of this machine are \
             used",
            nodes.len()
        ))),
        Placement::Ivp if partitions == nodes.len() => Ok(format!("ivp({all})")),
        Placement::Ivp => {
            // As the simulator deals them: in turn, and one node further for a column that would begin where another
            // one did.
            let of_column = |column: usize| {
                let first = column * partitions + column * partitions / nodes.len();
                named((first..first + partitions).map(|place| &nodes[place % nodes.len()]))
            };
            let own: Vec<String> =
                (0..columns).map(|column| format!("c{column}: ivp({})", of_column(column))).collect();
            Ok(format!("ivp({all}); {}", own.join("; ")))
        }
    }
}

/// `nodes 0, 2`, ascending.
fn named<'a>(nodes: impl Iterator<Item = &'a NodeId>) -> String {
    let mut ids: Vec<NodeId> = nodes.copied().collect();
    ids.sort_unstable();
    format!("nodes {}", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use numa::Topology;

    use super::*;

    fn asked(placement: Placement, partitions: u32, order: LayoutOrder) -> Columns {
        Columns { placement, partitions, order, ..Columns::default() }
    }

    #[test]
    fn placements_are_those_that_tables_take() {
        let topology = Topology::synthetic(4, 1, 1, 1);
        let nodes = [0, 1, 2, 3].map(NodeId);
        let database = nearside::Database::builder().topology(topology).memory_bytes(1 << 28).build().unwrap();
        let text = |of: &Columns| placement(of, 5, &nodes).unwrap();
        let all = [
            asked(Placement::Rr, 0, LayoutOrder::InTurn),
            asked(Placement::Rr, 0, LayoutOrder::Blocks),
            asked(Placement::Ivp, 0, LayoutOrder::InTurn),
            asked(Placement::Ivp, 2, LayoutOrder::InTurn),
            asked(Placement::Pp, 0, LayoutOrder::InTurn),
            asked(Placement::Pp, 7, LayoutOrder::Blocks),
        ];
        let texts: Vec<String> = all.iter().map(text).collect();
        assert_eq!(
            texts,
            [
                "rr(nodes 0, 1, 2, 3)",
                "rr(blocks nodes 0, 1, 2, 3)",
                "ivp(nodes 0, 1, 2, 3)",
                "ivp(nodes 0, 1, 2, 3); c0: ivp(nodes 0, 1); c1: ivp(nodes 2, 3); c2: ivp(nodes 1, 2); c3: ivp(nodes \
                 0, 3); c4: ivp(nodes 2, 3)",
                "pp(4, round robin, nodes 0, 1, 2, 3)",
                "pp(7, round robin, nodes 0, 1, 2, 3)",
            ]
        );
        let session = database.session();
        let columns = "c0 INT, c1 INT, c2 INT, c3 INT, c4 INT";
        for (number, text) in texts.iter().enumerate() {
            let made = session.execute(&format!("CREATE TABLE t{number} ({columns}) WITH (placement = '{text}')"));
            assert!(made.is_ok(), "{text}: {made:?}");
        }
    }

    #[test]
    fn more_ranges_than_nodes_are_refused() {
        let refused = placement(&asked(Placement::Ivp, 2, LayoutOrder::InTurn), 5, &[NodeId(0)]).unwrap_err();
        assert!(refused.to_string().contains("partitions = 2"), "{refused}");
    }
}
