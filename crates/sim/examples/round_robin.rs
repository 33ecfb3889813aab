//! What RR should deal out: single columns (VLDB 2015, section 6.1) or whole tables (section 6.3).
//!
//! `cargo run --release -p nearside-sim --example round_robin [MACHINE,.. [SECONDS]]`: throughput under both, and how
//! many times as much columns give. Simulated.

use sched::{Preset, Settings};
use sim::workload::columns::Static;
use sim::workload::dealt::{Dealt, Reads};
use sim::{Machine, Options, Outcome};

const READS: [(&str, Reads); 5] = [
    ("one column", Reads::Sums(1)),
    ("two columns", Reads::Sums(2)),
    ("four columns", Reads::Sums(4)),
    ("groups (TPC-H Q1)", Reads::Groups),
    ("join", Reads::Join),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let machines = arguments.next().unwrap_or_else(|| "ivybridge-ex-4,westmere-ex-8".to_owned());
    let seconds: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    // Tasks that read much for their time stay on their node, as they do by default on machines whose threshold is
    // known.
    let settings = Settings::preset(Preset::Bound);
    let options = Options { settings, warm_up_ns: 0, measured_ns: (seconds * 1e9) as u64, ..Options::default() };
    println!(
        "simulated, {seconds} virtual seconds each, columns of 10 M rows and 21 bits, 16 per table; statements/s \
         (share read remotely)"
    );
    for name in machines.split(',') {
        let machine = Machine::parse(name)?;
        let nodes = machine.node_count();
        println!("{name}: {nodes} nodes, {} cpus", machine.cpus());
        println!(
            "{:<20} {:>7} {:>7} {:>8} {:>22} {:>22} {:>8}",
            "statement", "clients", "tables", "skew", "columns", "tables", "ratio"
        );
        for (what, reads) in READS {
            for (clients, tables, skewed) in
                [(1, 1, false), (1, 16, false), (256, 1, false), (256, 16, false), (256, 16, true)]
            {
                let of = |lies| -> Result<Outcome, Box<dyn std::error::Error>> {
                    let dealt = Dealt { clients, tables, rows: 1e7, columns: 16, reads, skewed };
                    Ok(sim::run(&machine, &options, &mut dealt.workload(lies, &machine, &options.constants))?)
                };
                let (columns, whole) = (of(Static::RrColumns)?, of(Static::RrTables)?);
                let shown = |found: &Outcome| {
                    format!("{:.0} ({:.0}%)", found.statements_per_second(), 100.0 * found.remote_share())
                };
                println!(
                    "{what:<20} {clients:>7} {tables:>7} {:>8} {:>22} {:>22} {:>8.2}",
                    if skewed { "4 of 5" } else { "-" },
                    shown(&columns),
                    shown(&whole),
                    columns.statements_per_second() / whole.statements_per_second()
                );
            }
        }
    }
    Ok(())
}
