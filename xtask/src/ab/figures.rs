//! The numbers of a benchmark's report, by name, and those of both revisions as pairs.

use serde_json::Value;

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is of.
    pub name: String,
    /// The number, above 0.
    pub value: f64,
    /// Whether less is better.
    pub less: bool,
}

/// A figure's name, whether less is better, and its numbers of A and B by round.
pub type Pairs = (String, bool, Vec<(f64, f64)>);

/// The figures of a report of `nearside bench`, or of `nearside tpch`; what is not above 0 is left out.
pub fn of(report: &Value) -> Result<Vec<Figure>, String> {
    let list = |name: &str| report[name].as_array().filter(|list| !list.is_empty());
    let figures: Vec<Figure> = if let Some(figures) = list("figures") {
        let one = |figure: &Value| {
            let name = figure["name"].as_str()?;
            let value = figure["value"].as_f64()?;
            Some(Figure { name: name.to_string(), value, less: figure["better"] != "more" })
        };
        figures.iter().filter_map(one).collect()
    } else if let Some(queries) = list("queries") {
        let one = |query: &Value| {
            let name = query["query"].as_u64()?;
            let value = query["median_s"].as_f64()?;
            Some(Figure { name: format!("query {name}"), value, less: true })
        };
        queries.iter().filter_map(one).collect()
    } else {
        return Err("the report has no figures: is the program older than its benchmark?".to_string());
    };
    Ok(figures.into_iter().filter(|figure| figure.value > 0.0).collect())
}

/// The figures that every round has of both.
pub fn pairs(rounds: &[[Vec<Figure>; 2]]) -> Result<Vec<Pairs>, String> {
    let first = rounds.first().map_or(&[][..], |[a, _]| a);
    let value =
        |figures: &[Figure], name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    let of_one = |figure: &Figure| {
        let pair = |[a, b]: &[Vec<Figure>; 2]| Some((value(a, &figure.name)?, value(b, &figure.name)?));
        Some((figure.name.clone(), figure.less, rounds.iter().map(pair).collect::<Option<Vec<_>>>()?))
    };
    let pairs: Vec<Pairs> = first.iter().filter_map(of_one).collect();
    if pairs.is_empty() {
        return Err("the two have no figure in common".to_string());
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reports_of_both_kinds_are_read() {
        let bench = json!({"figures": [
            {"name": "x", "value": 2.5, "better": "more"},
            {"name": "zero", "value": 0.0, "better": "less"},
        ]});
        assert_eq!(of(&bench), Ok(vec![Figure { name: "x".into(), value: 2.5, less: false }]));
        let tpch = json!({"queries": [{"query": 6, "median_s": 0.5}, {"query": 7, "median_s": null}]});
        assert_eq!(of(&tpch), Ok(vec![Figure { name: "query 6".into(), value: 0.5, less: true }]));
        assert!(of(&json!({"queries": []})).is_err());
    }

    #[test]
    fn only_what_every_round_has_is_compared() {
        let figure = |name: &str, value: f64| Figure { name: name.into(), value, less: true };
        let rounds = [
            [vec![figure("x", 1.0), figure("y", 2.0)], vec![figure("y", 3.0), figure("x", 4.0)]],
            [vec![figure("x", 5.0), figure("y", 6.0)], vec![figure("x", 7.0)]],
        ];
        assert_eq!(pairs(&rounds), Ok(vec![("x".into(), true, vec![(1.0, 4.0), (5.0, 7.0)])]));
        assert!(pairs(&[[vec![figure("x", 1.0)], vec![]]]).is_err() && pairs(&[]).is_err());
    }
}
