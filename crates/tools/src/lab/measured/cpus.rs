//! Which cpus of the machine at hand a point uses: nodes, cores and second threads, as its settings say.
//!
//! Invariants: cpus come from those that the process may use; every node that is used gives as many as it is asked for,
//! or the point is refused.

use lab::declaration::{Cores, MachineUse};
use lab::engine::RunError;
use numa::{CpuId, NodeId, Topology};

/// The part of a machine that a point uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Ascending.
    pub cpus: Vec<CpuId>,
    /// Their nodes whose memory may be used, ascending.
    pub nodes: Vec<NodeId>,
    /// Whether that is all that the process may use.
    pub is_all: bool,
}

/// The part of the machine that settings ask for.
///
/// # Errors
/// [`RunError::Refused`]: it has no such part.
pub fn portion(topology: &Topology, used: &MachineUse) -> Result<Portion, RunError> {
    portion_of(topology, used, &|_| true)
}

/// The same of some nodes only.
///
/// # Errors
/// As [`portion`].
pub fn portion_of(topology: &Topology, used: &MachineUse, only: &dyn Fn(NodeId) -> bool) -> Result<Portion, RunError> {
    let nodes: Vec<(NodeId, Vec<Vec<CpuId>>)> = topology
        .nodes()
        .iter()
        .filter(|node| only(node.id))
        .map(|node| (node.id, cores_of(topology, &node.cpus)))
        .filter(|(_, cores)| !cores.is_empty())
        .collect();
    let wanted = if used.nodes == 0 { nodes.len() } else { used.nodes as usize };
    if wanted > nodes.len() || nodes.is_empty() {
        return Err(RunError::Refused(format!(
            "nodes = {wanted}: this machine has {} with cpus that may be used",
            nodes.len()
        )));
    }
    let mut cpus = Vec::new();
    for (node, cores) in &nodes[..wanted] {
        cpus.extend(cpus_of(*node, cores, used)?);
    }
    cpus.sort_unstable();
    let with_memory = |node: &&NodeId| topology.usable_memory_nodes().contains(node);
    let near: Vec<NodeId> = nodes[..wanted].iter().map(|(node, _)| node).filter(with_memory).copied().collect();
    let near = if near.is_empty() { topology.usable_memory_nodes().to_vec() } else { near };
    let is_all = cpus.len() == topology.usable_cpus().len();
    Ok(Portion { cpus, nodes: near, is_all })
}

/// The usable cpus among these, core by core.
fn cores_of(topology: &Topology, cpus: &[CpuId]) -> Vec<Vec<CpuId>> {
    let usable = |cpu: &&CpuId| cpus.contains(cpu) && topology.usable_cpus().contains(cpu);
    let cores = topology.cores().iter().map(|core| core.cpus.iter().filter(usable).copied().collect::<Vec<_>>());
    cores.filter(|cpus| !cpus.is_empty()).collect()
}

/// The cpus of one node that a point uses.
fn cpus_of(node: NodeId, cores: &[Vec<CpuId>], used: &MachineUse) -> Result<Vec<CpuId>, RunError> {
    if used.cpus_per_node > 0 {
        // Cores before their second threads, as the thesis hands them out.
        let threads = cores.iter().map(Vec::len).max().unwrap_or(0);
        let ordered = (0..threads).flat_map(|thread| cores.iter().filter_map(move |core| core.get(thread))).copied();
        let ordered: Vec<CpuId> = ordered.collect();
        let wanted = used.cpus_per_node as usize;
        return match ordered.get(..wanted) {
            Some(cpus) => Ok(cpus.to_vec()),
            None => Err(RunError::Refused(format!(
                "cpus_per_node = {wanted}: node {node} has {} that may be used",
                ordered.len()
            ))),
        };
    }
    match (used.cores, cores.len()) {
        (Cores::All, _) => Ok(cores.concat()),
        (Cores::Half, 1) => {
            Err(RunError::Refused(format!("cores = \"half\": node {node} has one core that may be used")))
        }
        (Cores::Half, count) => Ok(cores[..count / 2].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(nodes: u32, cpus_per_node: u32, cores: Cores) -> MachineUse {
        MachineUse { nodes, cpus_per_node, cores, ..MachineUse::default() }
    }

    #[test]
    fn parts_are_counted_per_node_and_cores_come_before_second_threads() {
        // Two nodes of two cores of two cpus: Linux numbers the first cpus of all cores, then the second ones.
        let machine = Topology::synthetic(2, 1, 2, 2);
        let cpus = |used| -> Vec<u32> { portion(&machine, &used).unwrap().cpus.iter().map(|cpu| cpu.0).collect() };
        assert_eq!(cpus(used(0, 0, Cores::All)).len(), 8);
        assert_eq!(cpus(used(1, 0, Cores::All)), [0, 1, 4, 5]);
        assert_eq!(cpus(used(0, 2, Cores::All)), [0, 1, 2, 3]);
        assert_eq!(cpus(used(1, 3, Cores::All)), [0, 1, 4]);
        assert_eq!(cpus(used(0, 0, Cores::Half)), [0, 2, 4, 6]);
        let half = portion(&machine, &used(1, 0, Cores::Half)).unwrap();
        assert_eq!((half.nodes, half.is_all), (vec![machine.nodes()[0].id], false));
        assert!(portion(&machine, &used(2, 4, Cores::All)).unwrap().is_all);
    }

    #[test]
    fn what_a_machine_does_not_have_is_refused() {
        let machine = Topology::synthetic(2, 1, 1, 2);
        let reason = |used| portion(&machine, &used).unwrap_err().to_string();
        assert!(reason(used(3, 0, Cores::All)).contains("nodes = 3: this machine has 2"));
        assert!(reason(used(0, 3, Cores::All)).contains("cpus_per_node = 3: node 0 has 2"));
        assert!(reason(used(0, 0, Cores::Half)).contains("one core"));
    }
}
