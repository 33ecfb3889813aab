//! The machines that the papers measured: figures as printed there. How they become a machine is in `figures.rs`.
//!
//! # Limits
//! The link graphs of the papers' drawings are not in their text: each entry names the rule that stands for it. Figures
//! that end in "data sheet" below are the maker's.

use super::Coherence;
use super::figures::{Class, Figures, GB, GIB, Links, Matrices, PaperMachine, Span, Streams};

/// The machine of this name.
pub(super) fn find(name: &str) -> Option<&'static PaperMachine> {
    MACHINES.iter().find(|m| m.name == name)
}

const fn class(latency_ns: f64, bytes_per_second: f64) -> Class {
    Class { span: Span { low_ns: latency_ns, high_ns: latency_ns }, bytes_per_second }
}

const fn range(low_ns: f64, high_ns: f64, bytes_per_second: f64) -> Class {
    Class { span: Span { low_ns, high_ns }, bytes_per_second }
}

/// The classes of the SGI UV 300, whole or halved.
const UV_300: Figures =
    Figures::ByClass(&[class(112.0, 47.5 * GIB), class(193.0, 11.8 * GIB), class(500.0, 9.8 * GIB)]);

/// In the order of the papers.
pub(super) const MACHINES: &[PaperMachine] = &[
    PaperMachine {
        name: "ivybridge-ex-4",
        cpu: "4x Xeon E7-4880 v2, 2.50 GHz",
        source: "Psaroudakis et al., VLDB 2015, Table 1 and section 2",
        packages: 4,
        nodes_per_package: 1,
        cores_per_node: 15,
        smt: 2,
        llc_kib: 38_400,
        memory_gib: None,
        coherence: Coherence::Directory,
        total_local_gib_s: Some(260.0),
        links: Links::FullyConnected,
        figures: Figures::ByClass(&[class(150.0, 65.0 * GIB), class(240.0, 8.8 * GIB)]),
        notes: &[
            "fully connected, QPI 16 GiB/s per link, 3 links per socket; directory coherence",
            "all sockets reading locally: 260 GiB/s",
        ],
    },
    PaperMachine {
        name: "ivybridge-ex-32",
        cpu: "32x Xeon E7-8890 v2, 2.80 GHz",
        source: "Psaroudakis et al., VLDB 2015, Table 1",
        packages: 32,
        nodes_per_package: 1,
        cores_per_node: 15,
        smt: 2,
        llc_kib: 38_400,
        memory_gib: None,
        coherence: Coherence::Directory,
        total_local_gib_s: Some(1530.0),
        links: Links::Chassis,
        figures: UV_300,
        notes: &[
            "SGI UV 300; directory coherence; all sockets reading locally: 1530 GiB/s",
            "cores and threads from the data sheet, and so is the last-level cache (37.5 MiB)",
            "assumed: four sockets of a chassis are one hop apart, all others as far as the paper's maximum",
        ],
    },
    PaperMachine {
        name: "ivybridge-ex-16",
        cpu: "16x Xeon E7-8890 v2, 2.80 GHz",
        source: "Psaroudakis et al., VLDB 2015, section 6.3; figures of Table 1",
        packages: 16,
        nodes_per_package: 1,
        cores_per_node: 15,
        smt: 2,
        llc_kib: 38_400,
        memory_gib: None,
        coherence: Coherence::Directory,
        total_local_gib_s: None,
        links: Links::Chassis,
        figures: UV_300,
        notes: &[
            "half of the SGI UV 300 (ivybridge-ex-32), the database server of section 6.3: figures taken from the \
             whole",
            "assumed: four sockets of a chassis are one hop apart, all others as far as the paper's maximum",
        ],
    },
    PaperMachine {
        name: "westmere-ex-8",
        cpu: "8x Xeon E7-8870, 2.40 GHz",
        source: "Psaroudakis et al., VLDB 2015, Table 1",
        packages: 8,
        nodes_per_package: 1,
        cores_per_node: 10,
        smt: 2,
        llc_kib: 30_720,
        memory_gib: None,
        coherence: Coherence::Broadcast,
        total_local_gib_s: Some(96.2),
        links: Links::Chassis,
        figures: Figures::ByClass(&[class(163.0, 19.3 * GIB), class(195.0, 10.3 * GIB), class(245.0, 4.6 * GIB)]),
        notes: &[
            "2x IBM x3950 X5; broadcast snooping, hence all sockets reading locally reach 96.2 GiB/s only",
            "cores and threads from the data sheet, and so is the last-level cache (30 MiB)",
            "assumed: the four sockets of a box are one hop apart, all others as far as the paper's maximum",
        ],
    },
    PaperMachine {
        name: "eris-intel-4",
        cpu: "4x Xeon E7-4860",
        source: "Kissinger et al., ADMS 2014, Tables 1 and 2",
        packages: 4,
        nodes_per_package: 1,
        cores_per_node: 10,
        smt: 2,
        llc_kib: 24_576,
        memory_gib: Some(32),
        coherence: Coherence::Broadcast,
        total_local_gib_s: None,
        links: Links::FullyConnected,
        figures: Figures::ByClass(&[class(129.0, 26.7 * GB), class(193.0, 10.7 * GB)]),
        notes: &["fully connected, QPI 12.8 GB/s per link; snooping"],
    },
    PaperMachine {
        name: "eris-amd-8",
        cpu: "4x Opteron 6274, two nodes per package",
        source: "Kissinger et al., ADMS 2014, Tables 1 and 2",
        packages: 4,
        nodes_per_package: 2,
        cores_per_node: 8,
        smt: 1,
        llc_kib: 6_144,
        memory_gib: Some(8),
        coherence: Coherence::Broadcast,
        total_local_gib_s: None,
        links: Links::SplitPackages { dual: 1 },
        figures: Figures::ByClass(&[
            class(85.0, 16.4 * GB),
            class(136.0, 5.8 * GB),
            class(152.0, 4.2 * GB),
            class(152.0, 2.9 * GB),
            class(196.0, 3.7 * GB),
            class(196.0, 1.8 * GB),
        ]),
        notes: &[
            "HyperTransport 12.8 GB/s per full link; links between packages are split into 8-bit sublinks; snooping",
            "assumed: nodes of equal place in their packages are one hop apart, others two; one of a node's three \
             neighbours in other packages is behind a link of which both sublinks are in use",
        ],
    },
    PaperMachine {
        name: "eris-sgi-64",
        cpu: "64x Xeon E5-4650L",
        source: "Kissinger et al., ADMS 2014, Tables 1 and 2",
        packages: 64,
        nodes_per_package: 1,
        cores_per_node: 8,
        smt: 1,
        llc_kib: 20_480,
        memory_gib: Some(128),
        coherence: Coherence::Directory,
        total_local_gib_s: None,
        links: Links::BladesOfARack,
        figures: Figures::ByClass(&[
            class(81.0, 36.2 * GB),
            class(400.0, 9.5 * GB),
            range(505.0, 515.0, 7.5 * GB),
            range(625.0, 635.0, 7.5 * GB),
            range(745.0, 755.0, 7.1 * GB),
            class(870.0, 6.5 * GB),
        ]),
        notes: &[
            "SGI UV 2000, one rack: 4 units of 8 blades of 2 sockets; 61 nodes with 488 cpus were usable in one job",
            "directory coherence between blades, snooping within",
            "assumed: blades of a unit form a cube with its long diagonals, and each is linked to its like in two \
             other units",
        ],
    },
    PaperMachine {
        name: "broadwell-2-cod-off",
        cpu: "2x Xeon E5-2699 v4, 22 cores",
        source: "Greinsmark 2020, Tables 1 and 3",
        packages: 2,
        nodes_per_package: 1,
        cores_per_node: 22,
        smt: 2,
        llc_kib: 56_320,
        memory_gib: Some(32),
        coherence: Coherence::Directory,
        total_local_gib_s: None,
        links: Links::FullyConnected,
        figures: Figures::Matrices(Matrices {
            latency_ns: &[&[79.3, 134.4], &[134.2, 79.5]],
            below_above_ns: &[&[(-2.8, 2.3), (-3.8, 5.0)], &[(-3.6, 5.7), (-3.4, 4.0)]],
            bandwidth_mb_s: &[&[62_134.0, 30_471.0], &[30_155.0, 61_502.0]],
        }),
        notes: &[BROADWELL, "66 GB of memory in all, rounded to 32 GiB per package"],
    },
    PaperMachine {
        name: "broadwell-2-cod-on",
        cpu: "2x Xeon E5-2699 v4, 22 cores",
        source: "Greinsmark 2020, Tables 2 and 4",
        packages: 2,
        nodes_per_package: 2,
        cores_per_node: 11,
        smt: 2,
        llc_kib: 28_160,
        memory_gib: Some(16),
        coherence: Coherence::Directory,
        total_local_gib_s: None,
        links: Links::SubDomains,
        figures: Figures::Matrices(Matrices {
            latency_ns: &[
                &[74.0, 156.6, 195.4, 204.9],
                &[152.7, 75.2, 196.7, 204.7],
                &[196.3, 205.3, 74.1, 156.2],
                &[197.9, 205.4, 152.0, 75.1],
            ],
            below_above_ns: &[
                &[(-1.5, 2.1), (-0.8, 2.4), (-0.4, 1.0), (-2.1, 0.6)],
                &[(-2.3, 2.2), (-1.3, 1.4), (-1.7, 3.4), (-2.3, 1.0)],
                &[(-1.0, 2.1), (-1.2, 0.2), (-1.3, 1.0), (-1.8, 2.0)],
                &[(-2.6, 2.5), (-2.2, 1.5), (-1.9, 2.4), (-1.5, 1.6)],
            ],
            bandwidth_mb_s: &[
                &[32_210.0, 15_322.0, 12_742.0, 12_274.0],
                &[18_335.0, 31_749.0, 15_013.0, 14_503.0],
                &[12_754.0, 12_296.0, 31_751.0, 15_268.0],
                &[14_850.0, 14_392.0, 18_808.0, 31_750.0],
            ],
        }),
        notes: &[BROADWELL, "66 GB of memory in all, rounded to 16 GiB per domain"],
    },
    PaperMachine {
        name: "skylake-2-snc-off",
        cpu: "2x Xeon Platinum 8180, 28 cores, 56 hardware threads",
        source: "Greinsmark 2020, Tables 5 and 7",
        packages: 2,
        nodes_per_package: 1,
        cores_per_node: 28,
        smt: 2,
        llc_kib: 39_424,
        memory_gib: Some(96),
        coherence: Coherence::Directory,
        total_local_gib_s: None,
        links: Links::FullyConnected,
        figures: Figures::Matrices(Matrices {
            latency_ns: &[&[80.8, 138.9], &[139.7, 79.9]],
            below_above_ns: &[&[(-3.7, 1.6), (-3.6, 3.8)], &[(-3.9, 3.8), (-3.2, 1.9)]],
            bandwidth_mb_s: &[&[111_083.3, 34_451.2], &[34_454.9, 111_618.7]],
        }),
        notes: &[SKYLAKE],
    },
    PaperMachine {
        name: "skylake-2-snc-on",
        cpu: "2x Xeon Platinum 8180, 28 cores, 56 hardware threads",
        source: "Greinsmark 2020, Tables 6 and 8",
        packages: 2,
        nodes_per_package: 2,
        cores_per_node: 14,
        smt: 2,
        llc_kib: 19_712,
        memory_gib: Some(48),
        coherence: Coherence::Directory,
        total_local_gib_s: None,
        links: Links::SubDomains,
        figures: Figures::Matrices(Matrices {
            latency_ns: &[
                &[74.2, 81.5, 132.0, 142.1],
                &[82.0, 76.4, 135.6, 144.5],
                &[132.4, 142.0, 73.6, 81.5],
                &[136.0, 144.4, 81.5, 76.6],
            ],
            below_above_ns: &[
                &[(-1.2, 3.1), (-0.1, 0.3), (-2.1, 3.0), (-1.4, 1.6)],
                &[(-0.2, 0.2), (-3.5, 5.0), (-1.9, 2.0), (-1.5, 1.6)],
                &[(-2.1, 3.0), (-1.4, 1.5), (-0.7, 6.0), (-0.1, 0.1)],
                &[(-1.9, 2.1), (-1.4, 1.7), (-0.1, 0.1), (-3.6, 5.0)],
            ],
            bandwidth_mb_s: &[
                &[58_087.1, 58_122.9, 34_254.3, 34_238.9],
                &[58_144.8, 58_012.9, 34_265.9, 34_235.1],
                &[34_287.6, 34_248.1, 58_064.0, 58_146.7],
                &[34_288.3, 34_253.6, 58_145.0, 58_006.9],
            ],
        }),
        notes: &[SKYLAKE],
    },
    PaperMachine {
        name: "nbb-xeon-4",
        cpu: "4x Xeon X7560, 2.27 GHz, 8 cores, SMT 2",
        source: "Seidel 2011, Tables 2.1 to 2.5",
        packages: 4,
        nodes_per_package: 1,
        cores_per_node: 8,
        smt: 2,
        llc_kib: 24_576,
        memory_gib: Some(64),
        coherence: Coherence::Broadcast,
        total_local_gib_s: None,
        links: Links::FullyConnected,
        figures: Figures::ByThreads {
            distances: &[10, 20],
            curves: &[
                &[4.270, 7.523, 8.946, 9.611, 9.778, 9.820, 9.839, 9.861],
                &[3.267, 5.430, 6.187, 6.499, 6.371, 6.125, 6.043, 5.923],
            ],
            streams: &[
                Streams { striped: false, threads: 1, mb_s: [6252.0, 6012.0, 6613.0, 6445.0] },
                Streams { striped: false, threads: 64, mb_s: [47_492.0, 47_465.0, 53_002.0, 53_408.0] },
                Streams { striped: true, threads: 64, mb_s: [27_781.0, 25_738.0, 34_476.0, 31_989.0] },
            ],
        },
        notes: &["fully connected", NBB],
    },
    PaperMachine {
        name: "nbb-opteron-8",
        cpu: "4x Opteron 6168, two nodes per package, 6 cores per node",
        source: "Seidel 2011, Tables 2.1 to 2.5",
        packages: 4,
        nodes_per_package: 2,
        cores_per_node: 6,
        smt: 1,
        llc_kib: 6_144,
        memory_gib: Some(32),
        coherence: Coherence::Broadcast,
        total_local_gib_s: None,
        links: Links::DualNodePackages,
        figures: Figures::ByThreads {
            distances: &[10, 16, 16, 22],
            curves: &[
                &[3.932, 5.274, 5.959, 6.317, 6.351, 6.311],
                &[2.778, 3.966, 4.415, 4.492, 4.506, 4.490],
                &[2.778, 3.966, 4.415, 4.492, 4.506, 4.490],
                &[1.700, 1.806, 1.812, 1.810, 1.808, 1.806],
            ],
            streams: &[
                Streams { striped: false, threads: 1, mb_s: [5929.0, 5939.0, 6234.0, 6237.0] },
                Streams { striped: false, threads: 48, mb_s: [70_396.0, 69_988.0, 76_848.0, 76_938.0] },
                Streams { striped: true, threads: 48, mb_s: [26_888.0, 26_862.0, 27_904.0, 28_385.0] },
            ],
        },
        notes: &["assumed: nodes of equal place in their packages are one hop apart, others two", NBB],
    },
];

const BROADWELL: &str = "measured with Intel's Memory Latency Checker; two threads per core and 55 MiB of last-level \
                         cache per package from the data sheet";
const SKYLAKE: &str = "measured with Intel's Memory Latency Checker; 6 memory channels of 16 GB per package; distances \
                       follow the latencies";
const NBB: &str = "no latencies were measured: distances are assumed, 16 to 20 at one hop and 22 at two; foreign \
                   curves stand as writing, as the local one does";
