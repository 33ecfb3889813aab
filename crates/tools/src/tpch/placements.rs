//! `--placement [TABLE=]PLACEMENT`: where the tables of the benchmark lie.

use super::generate::Table;

/// One `--placement`.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The table it is for; all that have none of their own otherwise.
    table: Option<&'static str>,
    text: String,
}

/// Reads `[TABLE=]PLACEMENT`. Whether the placement makes sense is for the database to say.
pub fn parse(text: &str) -> Result<Placement, String> {
    if let Some((before, after)) = text.split_once('=') {
        if let Some(table) = Table::ALL.iter().find(|t| t.name() == before.trim()) {
            return Ok(Placement { table: Some(table.name()), text: after.to_string() });
        }
        // `codes = striped` is a placement too.
        if !["codes", "dictionary", "index"].iter().any(|c| before.trim_end().ends_with(c)) {
            return Err(format!("there is no TPC-H table '{before}'"));
        }
    }
    Ok(Placement { table: None, text: text.to_string() })
}

/// The placement of one table; of several that fit, the last.
pub fn of(all: &[Placement], table: Table) -> Option<String> {
    let own = all.iter().rev().find(|p| p.table == Some(table.name()));
    own.or_else(|| all.iter().rev().find(|p| p.table.is_none())).map(|p| p.text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_its_own_placement_before_the_general_one() {
        let all: Vec<Placement> =
            ["ivp", "lineitem=pp(4, hash(l_orderkey))", "codes = striped"].iter().map(|t| parse(t).unwrap()).collect();
        assert_eq!(of(&all, Table::Lineitem).as_deref(), Some("pp(4, hash(l_orderkey))"));
        assert_eq!(of(&all, Table::Orders).as_deref(), Some("codes = striped"));
        assert_eq!(of(&[], Table::Orders), None);
        assert!(parse("lineitems=rr").is_err());
    }
}
