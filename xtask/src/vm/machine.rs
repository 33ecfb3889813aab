//! The emulated machine: what it has, and the arguments that make QEMU build it.
//!
//! Everything here is a pure function of plain data. QEMU always emulates (`tcg`): a kernel that is itself a guest may
//! offer KVM that hangs.
//!
//! # Limits
//! One thread per core, memory split evenly over the nodes, at most one node without cpus (the last), no HMAT.

use std::path::Path;

/// The nodes that a machine of this tool may have at most; a distance table of more is no longer something to read.
const NODES_MAX: u32 = 16;
/// What a node needs at least: the kernel keeps tables on each, and the programs are spread over them.
const NODE_MIB_MIN: u32 = 192;

/// What is emulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Nodes with memory, numbered from 0.
    pub nodes: u32,
    /// Whether the last node has memory only, as CXL memory has.
    pub cpuless: bool,
    /// Cpus of each node that has some.
    pub cpus_per_node: u32,
    /// Packages that the nodes with cpus are split over evenly; fewer than nodes makes sub-domains.
    pub packages: Option<u32>,
    /// Memory of each node.
    pub node_mib: u32,
    /// Row by row, as the kernel is told; made from the packages where absent.
    pub distances: Option<Vec<Vec<u8>>>,
    /// Words for the kernel's command line.
    pub kernel_words: Vec<String>,
}

/// The files that QEMU reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The kernel image.
    pub kernel: &'a Path,
    /// The compressed or plain cpio archive of the first root file system.
    pub initramfs: &'a Path,
    /// Gets what the kernel prints (first serial port).
    pub console: &'a Path,
    /// Gets what the tests print (second serial port), so that no kernel message cuts a line of theirs in two.
    pub results: &'a Path,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            nodes: 4,
            cpuless: false,
            cpus_per_node: 1,
            packages: None,
            node_mib: 512,
            distances: None,
            kernel_words: Vec::new(),
        }
    }
}

impl Machine {
    /// The first thing about it that cannot be, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.nodes == 0 || self.nodes > NODES_MAX {
            return Err(format!("--nodes is {}, from 1 to {NODES_MAX} are possible", self.nodes));
        }
        if self.cpuless && self.nodes < 2 {
            return Err("--cpuless needs --nodes of at least 2: the last one gets no cpus".to_owned());
        }
        if self.cpus_per_node == 0 || self.cpus() > 64 {
            return Err(format!("--cpus gives {} cpus, from 1 to 64 are possible", self.cpus()));
        }
        if self.node_mib < NODE_MIB_MIN {
            return Err(format!("--memory is {} MiB a node, at least {NODE_MIB_MIN} are needed", self.node_mib));
        }
        let packages = self.packages();
        let with_cpus = self.nodes_with_cpus();
        if packages == 0 || !with_cpus.is_multiple_of(packages) {
            return Err(format!("--packages is {packages}, which does not divide the {with_cpus} nodes with cpus"));
        }
        self.distances.as_deref().map_or(Ok(()), |rows| check_distances(rows, self.nodes as usize))
    }

    /// Nodes that have cpus: all, or all but the last.
    pub fn nodes_with_cpus(&self) -> u32 {
        self.nodes - u32::from(self.cpuless)
    }

    /// All cpus of the machine.
    pub fn cpus(&self) -> u32 {
        self.nodes_with_cpus() * self.cpus_per_node
    }

    /// All memory of the machine.
    pub fn memory_mib(&self) -> u32 {
        self.nodes * self.node_mib
    }

    /// A short text for people.
    pub fn describe(&self) -> String {
        let nodes = if self.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", self.nodes) };
        let cpuless = if self.cpuless { " (the last without cpus)" } else { "" };
        format!("{nodes}{cpuless}, {} cpus, {} MiB each", self.cpus(), self.node_mib)
    }

    /// The distances that the kernel is told: those asked for, or 10 on the diagonal, 12 within a package, 21 between
    /// neighbouring packages of a ring, 31 further, 26 to and from a node without cpus.
    fn distance_table(&self) -> Vec<Vec<u8>> {
        if let Some(rows) = &self.distances {
            return rows.clone();
        }
        let per_package = self.nodes_with_cpus() / self.packages();
        let distance = |from: u32, to: u32| {
            let cpuless = |node: u32| node >= self.nodes_with_cpus();
            if from == to {
                return 10;
            }
            if cpuless(from) || cpuless(to) {
                return 26;
            }
            let apart = (from / per_package).abs_diff(to / per_package);
            match apart.min(self.packages() - apart) {
                0 => 12,
                1 => 21,
                _ => 31,
            }
        };
        (0..self.nodes).map(|from| (0..self.nodes).map(|to| distance(from, to)).collect()).collect()
    }

    /// The arguments of `qemu-system-x86_64`.
    pub fn qemu_arguments(&self, files: Files<'_>) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35", "-nodefaults", "-display", "none"]
                .iter()
                .map(|word| (*word).to_owned())
                .collect();
        // A panicked kernel reboots at once (`panic=-1` below), and that ends QEMU.
        arguments.push("-no-reboot".to_owned());
        let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        let cpus = self.cpus();
        let packages = self.packages();
        option("-smp", format!("cpus={cpus},sockets={packages},cores={},threads=1", cpus / packages));
        option("-m", format!("{}M", self.memory_mib()));
        for node in 0..self.nodes {
            option("-object", format!("memory-backend-ram,id=memory{node},size={}M", self.node_mib));
            let first = node * self.cpus_per_node;
            let cpus = match node < self.nodes_with_cpus() {
                true => format!(",cpus={first}-{}", first + self.cpus_per_node - 1),
                false => String::new(),
            };
            option("-numa", format!("node,nodeid={node}{cpus},memdev=memory{node}"));
        }
        if self.nodes > 1 {
            for (from, row) in self.distance_table().iter().enumerate() {
                for (to, distance) in row.iter().enumerate() {
                    option("-numa", format!("dist,src={from},dst={to},val={distance}"));
                }
            }
        }
        option("-kernel", files.kernel.display().to_string());
        option("-initrd", files.initramfs.display().to_string());
        option("-serial", format!("file:{}", files.console.display()));
        option("-serial", format!("file:{}", files.results.display()));
        // More cpus than the host has are slow to answer each other: no watchdog may take that for a fault.
        let words = ["console=ttyS0", "quiet", "panic=-1", "nowatchdog"].into_iter();
        let words: Vec<&str> = words.chain(self.kernel_words.iter().map(String::as_str)).collect();
        option("-append", words.join(" "));
        arguments
    }

    fn packages(&self) -> u32 {
        self.packages.unwrap_or_else(|| self.nodes_with_cpus())
    }

    /// Whether there are packages of several nodes beside each other: sub-domains.
    pub fn has_sub_domains(&self) -> bool {
        self.packages() > 1 && self.nodes_with_cpus() > self.packages()
    }
}

/// Reads `10,21/21,10`: a row per node, `/` between rows.
pub fn parse_distances(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let number = |word: &str| {
        word.trim().parse::<u8>().map_err(|_| format!("--distances: `{word}` is no number from 10 to 254"))
    };
    text.split('/').map(|row| row.split(',').map(number).collect()).collect()
}

fn check_distances(rows: &[Vec<u8>], nodes: usize) -> Result<(), String> {
    if rows.len() != nodes || rows.iter().any(|row| row.len() != nodes) {
        return Err(format!("--distances needs {nodes} rows of {nodes} numbers, like 10,21/21,10 for two nodes"));
    }
    for (from, row) in rows.iter().enumerate() {
        for (to, distance) in row.iter().enumerate() {
            if (from == to && *distance != 10) || (from != to && !(11..255).contains(distance)) {
                return Err(format!(
                    "--distances: {distance} from node {from} to {to}; the diagonal is 10, all else is from 11 to 254"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(machine: &Machine) -> Vec<String> {
        let path = Path::new;
        machine.qemu_arguments(Files {
            kernel: path("k"),
            initramfs: path("i"),
            console: path("c"),
            results: path("r"),
        })
    }

    fn values<'a>(arguments: &'a [String], name: &str) -> Vec<&'a str> {
        arguments.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1].as_str()).collect()
    }

    #[test]
    fn nodes_become_arguments() {
        let machine = Machine { nodes: 3, cpuless: true, cpus_per_node: 2, ..Machine::default() };
        let arguments = arguments(&machine);
        assert_eq!(values(&arguments, "-smp"), ["cpus=4,sockets=2,cores=2,threads=1"]);
        assert_eq!(values(&arguments, "-m"), ["1536M"]);
        let numa = values(&arguments, "-numa");
        assert_eq!(
            numa[..3],
            [
                "node,nodeid=0,cpus=0-1,memdev=memory0",
                "node,nodeid=1,cpus=2-3,memdev=memory1",
                "node,nodeid=2,memdev=memory2"
            ]
        );
        assert_eq!(numa.len(), 3 + 9);
        assert!(numa.contains(&"dist,src=0,dst=2,val=26") && numa.contains(&"dist,src=1,dst=0,val=21"), "{numa:?}");
        assert_eq!(values(&arguments, "-object").len(), 3);
        assert_eq!(values(&arguments, "-serial"), ["file:c", "file:r"]);
        assert_eq!(values(&arguments, "-append"), ["console=ttyS0 quiet panic=-1 nowatchdog"]);
        assert!(!arguments.iter().any(|word| word.contains("kvm")));
    }

    #[test]
    fn distances_follow_packages_or_the_user() {
        let machine = Machine { nodes: 4, packages: Some(2), ..Machine::default() };
        assert_eq!(machine.distance_table()[0], [10, 12, 21, 21]);
        let ring = Machine { nodes: 5, ..Machine::default() }.distance_table();
        assert_eq!(ring[0], [10, 21, 31, 31, 21]);
        let asked = parse_distances("10,20/30,10").unwrap();
        assert_eq!(asked, [[10, 20], [30, 10]]);
        let machine = Machine { nodes: 2, distances: Some(asked), ..Machine::default() };
        machine.check().unwrap();
        assert!(arguments(&machine).contains(&"dist,src=1,dst=0,val=30".to_owned()));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let good = Machine::default();
        good.check().unwrap();
        let rows = |text: &str| Some(parse_distances(text).unwrap());
        for (bad, says) in [
            (Machine { nodes: 0, ..good.clone() }, "--nodes"),
            (Machine { nodes: 1, cpuless: true, ..good.clone() }, "--cpuless"),
            (Machine { cpus_per_node: 0, ..good.clone() }, "--cpus"),
            (Machine { node_mib: 16, ..good.clone() }, "--memory"),
            (Machine { packages: Some(3), ..good.clone() }, "--packages"),
            (Machine { distances: rows("10,20/20,10"), ..good.clone() }, "4 rows"),
            (Machine { nodes: 2, distances: rows("10,20/20,11"), ..good.clone() }, "diagonal"),
            (Machine { nodes: 2, distances: rows("10,9/20,10"), ..good.clone() }, "diagonal"),
        ] {
            let problem = bad.check().unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
        assert!(parse_distances("10,x").unwrap_err().contains("`x`"));
    }
}
