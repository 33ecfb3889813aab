//! Placements as users write them: what they ask for, parsed and written back; nothing here knows a machine or a table.
//!
//! ```text
//! placement  := table { ';' column ':' columns }
//! table      := ( 'rr' | 'rr_columns' ) [ '(' [ 'blocks' ] [ nodes ] ')' ] | 'rr_tables' [ '(' nodes ')' ]
//!             | 'pp' '(' [ parts ] { ',' by | ',' nodes } ')' | 'units' | columns
//! columns    := 'ivp' [ '(' nodes ')' ] | where | part '=' where { ',' part '=' where }
//! part       := codes | dictionary | index
//! where      := 'local' | 'node' '(' node ')' | ( 'striped' | 'interleaved' | 'replicated' ) [ '(' nodes ')' ]
//! by         := ( 'range' | 'hash' | 'like' table ) '(' column { ',' column } ')' | 'round robin'
//! nodes      := 'all' | count 'nodes' | [ 'nodes' ] node [ '-' node ] { ',' node [ '-' node ] }
//! ```
//! `rr` is `rr_columns` written short. In `ivp(4)` and `pp(4)` the lone number is a count, as in the paper;
//! `ivp(nodes 4)` names node 4.
//!
//! # Invariants
//! `Spec::parse(spec.to_string())` gives the same spec.
//!
//! Source of the presets: Psaroudakis et al., VLDB 2015, section 4.2 (RR, IVP, PP).

use std::collections::BTreeMap;
use std::fmt;

use numa::NodeId;

use crate::catalog::placement::words::Words;
use crate::error::names::nearest;
use crate::error::{Error, Result};

/// Most parts of a table: beyond, the parts' dictionaries and segments cost more than they separate.
pub(crate) const PARTS_MAX: usize = 4096;

/// A whole table's placement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Spec {
    /// What holds for every column without a line of its own, and how rows are cut into parts.
    pub table: TableSpec,
    /// Columns that are placed otherwise, by name.
    pub columns: BTreeMap<String, ColumnSpec>,
}

/// What holds for the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableSpec {
    /// RR: whole columns, or whole tables, each on one node, in turn.
    RoundRobin { deal: Deal, nodes: Nodes },
    /// PP: rows cut into parts, each whole on one node.
    Parts(PartsSpec),
    /// Rows in the units' own columns, a part for each unit on its node, in turn (ADMS 2014, section 3).
    Units,
    /// Every column as this says.
    Columns(ColumnSpec),
}

impl Default for TableSpec {
    fn default() -> TableSpec {
        TableSpec::RoundRobin { deal: Deal::Columns, nodes: Nodes::All }
    }
}

/// What RR deals out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deal {
    /// Columns one by one (VLDB 2015, section 6.1): what `rr` means; docs/placement.md has the figures for it.
    Columns,
    /// Columns, neighbours together.
    Blocks,
    /// Whole tables (VLDB 2015, section 6.3).
    Tables,
}

/// PP: how many parts, which rows go where, and on which nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartsSpec {
    /// How many; as many as nodes when not given.
    pub parts: Option<usize>,
    /// Which rows go to which part.
    pub by: By,
    /// Where the parts lie: part `i` on the `i`-th, from the start again when there are more parts.
    pub nodes: Nodes,
}

/// Which rows go to which part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum By {
    /// Equal shares of the values of one column.
    Range(String),
    /// By the hash of these columns' values.
    Hash(Vec<String>),
    /// In turn.
    RoundRobin,
    /// By these columns, in the way, with the bounds and on the nodes of another table's parts.
    Like { table: String, columns: Vec<String> },
}

/// What holds for one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ColumnSpec {
    /// IVP: codes striped, dictionary and index interleaved.
    Ivp(Nodes),
    /// Everything here.
    All(Where),
    /// Each component where it says; on the column's turn in RR where it does not.
    Components { codes: Option<Where>, dictionary: Option<Where>, index: Option<Where> },
}

/// Where the pages of a component lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Where {
    /// On the node of whoever touches them first.
    Local,
    /// On one node.
    Node(NodeId),
    /// In contiguous runs, one per node.
    Striped(Nodes),
    /// Page by page in turn.
    Interleaved(Nodes),
    /// A copy on each.
    Replicated(Nodes),
}

/// Which nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// All that the process may use.
    All,
    /// So many of them, from the table's turn on.
    Count(usize),
    /// These.
    These(Vec<NodeId>),
}

impl Spec {
    /// Reads a table's placement.
    ///
    /// # Errors
    /// [`Error::Setting`] that says what was expected and where.
    pub(crate) fn parse(text: &str) -> Result<Spec> {
        let mut words = Words::new(text)?;
        let table = table_spec(&mut words)?;
        let mut columns = BTreeMap::new();
        while words.take(";") {
            if words.is_done() {
                break;
            }
            let name = words.name("a column's name")?;
            words.expect(":")?;
            let spec = column_spec(&mut words)?;
            if columns.insert(name.clone(), spec).is_some() {
                return Err(words.error(&format!("column '{name}' stands twice")));
            }
        }
        words.done()?;
        Ok(Spec { table, columns })
    }

    /// The nodes that it names.
    pub(crate) fn named_nodes(&self) -> Vec<NodeId> {
        let mut all = Vec::new();
        let mut take = |nodes: &Nodes| {
            if let Nodes::These(list) = nodes {
                all.extend_from_slice(list);
            }
        };
        let specs = self.columns.values().chain(match &self.table {
            TableSpec::Columns(spec) => Some(spec),
            TableSpec::Units => None,
            TableSpec::RoundRobin { nodes, .. } | TableSpec::Parts(PartsSpec { nodes, .. }) => {
                take(nodes);
                None
            }
        });
        for spec in specs {
            let places = match spec {
                ColumnSpec::Ivp(nodes) => {
                    take(nodes);
                    continue;
                }
                ColumnSpec::All(place) => vec![place],
                ColumnSpec::Components { codes, dictionary, index } => {
                    [codes, dictionary, index].into_iter().flatten().collect()
                }
            };
            for place in places {
                match place {
                    Where::Local => {}
                    Where::Node(node) => take(&Nodes::These(vec![*node])),
                    Where::Striped(nodes) | Where::Interleaved(nodes) | Where::Replicated(nodes) => take(nodes),
                }
            }
        }
        all
    }

    /// Every column on this one node.
    pub(crate) fn on_node(node: NodeId) -> Spec {
        let table = TableSpec::Columns(ColumnSpec::All(Where::Node(node)));
        Spec { table, columns: BTreeMap::new() }
    }
}

impl ColumnSpec {
    /// Reads one column's placement.
    ///
    /// # Errors
    /// As [`Spec::parse`].
    pub(crate) fn parse(text: &str) -> Result<ColumnSpec> {
        let mut words = Words::new(text)?;
        let spec = column_spec(&mut words)?;
        words.done()?;
        Ok(spec)
    }
}

fn table_spec(words: &mut Words<'_>) -> Result<TableSpec> {
    let columns = words.take("rr") || words.take("rr_columns");
    if columns || words.take("rr_tables") {
        let mut deal = if columns { Deal::Columns } else { Deal::Tables };
        let mut nodes = Nodes::All;
        if words.take("(") {
            if columns && words.take("blocks") {
                deal = Deal::Blocks;
                words.take(",");
            }
            if !words.is(")") {
                nodes = self::nodes(words, Lone::Count, Repeats::Refused)?;
            }
            words.expect(")")?;
        }
        return Ok(TableSpec::RoundRobin { deal, nodes });
    }
    if words.take("pp") {
        return parts_spec(words).map(TableSpec::Parts);
    }
    if words.take("units") {
        return Ok(TableSpec::Units);
    }
    column_spec(words).map(TableSpec::Columns)
}

fn parts_spec(words: &mut Words<'_>) -> Result<PartsSpec> {
    let mut spec = PartsSpec { parts: None, by: By::RoundRobin, nodes: Nodes::All };
    if !words.take("(") {
        return Ok(spec);
    }
    let mut by = None;
    while !words.is(")") {
        if words.count_of_nodes_follows() {
            spec.nodes = nodes(words, Lone::Count, Repeats::Allowed)?;
        } else if let Some(parts) = words.number()? {
            if spec.parts.replace(parts as usize).is_some() || parts == 0 || parts as usize > PARTS_MAX {
                return Err(words.error(&format!("there is one number of parts, from 1 to {PARTS_MAX}")));
            }
        } else if words.is("nodes") || words.is("all") {
            spec.nodes = nodes(words, Lone::Count, Repeats::Allowed)?;
        } else {
            let new = partitioning(words)?;
            if by.replace(new).is_some() {
                return Err(words.error("rows are cut in one way only"));
            }
        }
        if !words.take(",") {
            break;
        }
    }
    words.expect(")")?;
    spec.by = by.unwrap_or(By::RoundRobin);
    if matches!(spec.by, By::Like { .. }) && (spec.parts.is_some() || spec.nodes != Nodes::All) {
        return Err(words.error("'like' takes the number of parts and the nodes from the other table; leave them out"));
    }
    Ok(spec)
}

fn partitioning(words: &mut Words<'_>) -> Result<By> {
    if words.take("range") {
        let mut columns = names(words)?;
        return match (columns.pop(), columns.is_empty()) {
            (Some(column), true) => Ok(By::Range(column)),
            _ => Err(words.error("a range is one of one column; use hash(..) for several")),
        };
    }
    if words.take("hash") {
        return names(words).map(By::Hash);
    }
    if words.take("like") {
        let table = words.table_name()?;
        return Ok(By::Like { table, columns: names(words)? });
    }
    if words.take("round") {
        words.take("-");
        words.expect("robin")?;
        return Ok(By::RoundRobin);
    }
    Err(words.expected("a number of parts, range(column), hash(columns), like table(columns), round robin, or nodes"))
}

fn names(words: &mut Words<'_>) -> Result<Vec<String>> {
    words.expect("(")?;
    let mut names = vec![words.name("a column's name")?];
    while words.take(",") {
        names.push(words.name("a column's name")?);
    }
    words.expect(")")?;
    Ok(names)
}

fn column_spec(words: &mut Words<'_>) -> Result<ColumnSpec> {
    if words.take("ivp") {
        return Ok(ColumnSpec::Ivp(nodes_in_parentheses(words, Lone::Count)?));
    }
    if words.is("codes") || words.is("dictionary") || words.is("index") {
        let mut codes = None;
        let mut dictionary = None;
        let mut index = None;
        loop {
            let slot = match () {
                () if words.take("codes") => &mut codes,
                () if words.take("dictionary") => &mut dictionary,
                () if words.take("index") => &mut index,
                () => return Err(words.expected("codes, dictionary or index")),
            };
            words.expect("=")?;
            if slot.replace(where_(words)?).is_some() {
                return Err(words.error("a component stands twice"));
            }
            if !words.take(",") {
                return Ok(ColumnSpec::Components { codes, dictionary, index });
            }
        }
    }
    where_(words).map(ColumnSpec::All)
}

fn where_(words: &mut Words<'_>) -> Result<Where> {
    const KNOWN: [&str; 14] = [
        "rr",
        "rr_columns",
        "rr_tables",
        "ivp",
        "pp",
        "local",
        "node",
        "striped",
        "interleaved",
        "replicated",
        "codes",
        "dictionary",
        "index",
        "like",
    ];
    if words.take("local") {
        return Ok(Where::Local);
    }
    if words.take("node") {
        words.expect("(")?;
        let node = words.number()?.ok_or_else(|| words.expected("a node's number"))?;
        words.expect(")")?;
        return Ok(Where::Node(NodeId(node)));
    }
    for (word, make) in [
        ("striped", Where::Striped as fn(Nodes) -> Where),
        ("interleaved", Where::Interleaved),
        ("replicated", Where::Replicated),
    ] {
        if words.take(word) {
            return nodes_in_parentheses(words, Lone::Node).map(make);
        }
    }
    let hint = words.peek_word().and_then(|w| nearest(w, KNOWN.into_iter()).filter(|h| h != w));
    let hint = hint.map(|h| format!("; did you mean '{h}'?")).unwrap_or_default();
    let message =
        "rr, rr_tables, ivp, pp, local, node(..), striped, interleaved, replicated, or codes = .., dictionary = ..";
    Err(words.expected(&format!("{message}{hint}")))
}

/// `(nodes)`, or nothing for all.
fn nodes_in_parentheses(words: &mut Words<'_>, lone: Lone) -> Result<Nodes> {
    if !words.take("(") {
        return Ok(Nodes::All);
    }
    let nodes = nodes(words, lone, Repeats::Refused)?;
    words.expect(")")?;
    Ok(nodes)
}

/// What a lone number means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lone {
    Count,
    Node,
}

/// Whether a node may stand twice: parts may share one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Allowed,
    Refused,
}

/// A list of nodes.
fn nodes(words: &mut Words<'_>, lone_means: Lone, repeats: Repeats) -> Result<Nodes> {
    if words.take("all") {
        return Ok(Nodes::All);
    }
    let named = words.take("nodes");
    let mut list = Vec::new();
    loop {
        let from = words.number()?.ok_or_else(|| words.expected("a node's number"))?;
        let lone = !named && list.is_empty() && !words.is("-") && !words.is(",");
        if lone && (words.take("nodes") || lone_means == Lone::Count) {
            return match from {
                0 => Err(words.error("at least one node is needed")),
                count => Ok(Nodes::Count(count as usize)),
            };
        }
        let to = match words.take("-") || words.take("to") {
            true => words.number()?.ok_or_else(|| words.expected("a node's number"))?,
            false => from,
        };
        if to < from || to - from >= PARTS_MAX as u32 {
            return Err(words.error(&format!("{from}-{to} is no range of nodes")));
        }
        list.extend((from..=to).map(NodeId));
        // In pp(..) other things follow a comma.
        if !words.is(",") || !words.number_follows_comma() {
            break;
        }
        words.take(",");
    }
    let mut seen = std::collections::BTreeSet::new();
    if repeats == Repeats::Refused
        && let Some(twice) = list.iter().find(|n| !seen.insert(**n))
    {
        return Err(words.error(&format!("node {twice} stands twice")));
    }
    Ok(Nodes::These(list))
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table)?;
        for (name, spec) in &self.columns {
            write!(f, "; {}: {spec}", quoted(name))?;
        }
        Ok(())
    }
}

impl fmt::Display for TableSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableSpec::Units => f.write_str("units"),
            TableSpec::RoundRobin { deal: Deal::Blocks, nodes: Nodes::All } => f.write_str("rr(blocks)"),
            TableSpec::RoundRobin { deal: Deal::Blocks, nodes } => write!(f, "rr(blocks, {})", NodeCount(nodes)),
            TableSpec::RoundRobin { deal, nodes } => {
                f.write_str(if *deal == Deal::Tables { "rr_tables" } else { "rr" })?;
                if *nodes == Nodes::All { Ok(()) } else { write!(f, "({})", NodeCount(nodes)) }
            }
            TableSpec::Columns(spec) => write!(f, "{spec}"),
            TableSpec::Parts(spec) => {
                f.write_str("pp(")?;
                if let Some(parts) = spec.parts {
                    write!(f, "{parts}, ")?;
                }
                write!(f, "{}", spec.by)?;
                if spec.nodes != Nodes::All {
                    write!(f, ", {}", NodeList(&spec.nodes))?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |columns: &[String]| columns.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(", ");
        match self {
            By::Range(column) => write!(f, "range({})", quoted(column)),
            By::Hash(columns) => write!(f, "hash({})", list(columns)),
            By::RoundRobin => f.write_str("round robin"),
            By::Like { table, columns } => write!(f, "like {table}({})", list(columns)),
        }
    }
}

impl fmt::Display for ColumnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnSpec::Ivp(Nodes::All) => f.write_str("ivp"),
            ColumnSpec::Ivp(nodes) => write!(f, "ivp({})", NodeCount(nodes)),
            ColumnSpec::All(place) => write!(f, "{place}"),
            ColumnSpec::Components { codes, dictionary, index } => {
                let mut separator = "";
                for (name, place) in [("codes", codes), ("dictionary", dictionary), ("index", index)] {
                    if let Some(place) = place {
                        write!(f, "{separator}{name} = {place}")?;
                        separator = ", ";
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, nodes) = match self {
            Where::Local => return f.write_str("local"),
            Where::Node(node) => return write!(f, "node({node})"),
            Where::Striped(nodes) => ("striped", nodes),
            Where::Interleaved(nodes) => ("interleaved", nodes),
            Where::Replicated(nodes) => ("replicated", nodes),
        };
        match nodes {
            Nodes::All => f.write_str(word),
            nodes => write!(f, "{word}({})", NodeList(nodes)),
        }
    }
}

/// Nodes where a lone number is a count.
struct NodeCount<'a>(&'a Nodes);

impl fmt::Display for NodeCount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Nodes::All => f.write_str("all"),
            Nodes::Count(count) => write!(f, "{count}"),
            these => write!(f, "{}", NodeList(these)),
        }
    }
}

/// Nodes with the word before or behind them that says what the numbers are.
struct NodeList<'a>(&'a Nodes);

impl fmt::Display for NodeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Nodes::All => f.write_str("all"),
            Nodes::Count(count) => write!(f, "{count} nodes"),
            Nodes::These(list) => {
                f.write_str("nodes ")?;
                for (i, node) in list.iter().enumerate() {
                    write!(f, "{}{node}", if i > 0 { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// A column's name as it can be read back.
fn quoted(name: &str) -> String {
    let plain = name.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// An error about a placement, for callers that found it out later.
pub(crate) fn wrong(message: impl Into<String>) -> Error {
    Error::Setting(format!("placement: {}", message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "rr",
            "rr(blocks)",
            "rr(blocks, 2)",
            "rr(nodes 0,3)",
            "rr_tables",
            "rr_tables(2)",
            "rr_tables(nodes 0,3); a: ivp",
            "ivp",
            "ivp(4)",
            "ivp(nodes 4)",
            "node(1)",
            "local",
            "striped(nodes 0,1,2)",
            "striped(2 nodes)",
            "replicated",
            "pp(round robin)",
            "pp(4, hash(a, \"B c\"))",
            "pp(4, range(a), nodes 0,1)",
            "pp(like \"orders\"(l_orderkey))",
            "pp(4, hash(a), nodes 0,1,0,0)",
            "codes = striped, dictionary = replicated(nodes 0,1), index = interleaved",
            "rr; a: ivp(2); \"the; column\": codes = node(0)",
        ] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
        }
    }

    #[test]
    fn short_forms_mean_the_long_ones() {
        for (short, long) in [
            ("IVP ( 4 )", "ivp(4)"),
            ("ivp(0-2)", "ivp(nodes 0,1,2)"),
            ("ivp(0, 2 to 3)", "ivp(nodes 0,2,3)"),
            ("striped(0)", "striped(nodes 0)"),
            ("pp", "pp(round robin)"),
            ("pp(4)", "pp(4, round robin)"),
            ("pp(hash(K), 4)", "pp(4, hash(k))"),
            ("pp(nodes 0-1, hash(k))", "pp(hash(k), nodes 0,1)"),
            ("pp(3, hash(k), 2 nodes)", "pp(3, hash(k), 2 nodes)"),
            ("pp(2 nodes, hash(k))", "pp(hash(k), 2 nodes)"),
            ("pp(2, round-robin)", "pp(2, round robin)"),
            ("rr(all);", "rr"),
            ("rr_columns", "rr"),
            ("RR_COLUMNS(blocks, 2)", "rr(blocks, 2)"),
            ("rr_tables ( all )", "rr_tables"),
        ] {
            assert_eq!(Spec::parse(short).unwrap().to_string(), long, "{short}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("", "expected rr, rr_tables, ivp"),
            ("ivpp", "did you mean 'ivp'"),
            ("rr_table", "did you mean 'rr_tables'"),
            ("rr_tables(blocks)", "a node's number"),
            ("ivp(0)", "at least one node"),
            ("ivp(4", "expected ')'"),
            ("pp(0)", "from 1 to 4096"),
            ("pp(99999)", "from 1 to 4096"),
            ("pp(4, range(a, b))", "hash(..) for several"),
            ("pp(4, hash(a), range(b))", "one way only"),
            ("pp(4, like t(a))", "leave them out"),
            ("node(x)", "a node's number"),
            ("node(99999999999)", "not a number here"),
            ("striped(1,1)", "node 1 stands twice"),
            ("striped(3-1)", "no range of nodes"),
            ("codes = local, codes = local", "stands twice"),
            ("rr; a: pp(2)", "expected rr"),
            ("rr; a: local; a: local", "'a' stands twice"),
            ("rr rr", "expected the end"),
            ("rr; \"a", "does not end"),
            ("rr ! ", "'!' is not expected"),
        ] {
            let error = Spec::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
