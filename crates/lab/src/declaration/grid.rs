//! From a declaration to the points that are run: the products of its grids over its defaults.
//!
//! Invariants: points come in the order of the file, the last name of a grid fastest (a grid's names are in
//! alphabetical order); two grids never give the same point twice; a value that was set by the caller is not varied.

use toml::{Table, Value};

use super::{DeclarationError, Experiment, Point, Settings};

/// No grid has more points than this: a slip, not an experiment.
const POINTS_MAX: usize = 20_000;

impl Experiment {
    /// The default values of all settings, by name.
    ///
    /// # Errors
    /// A setting that stands in two tables.
    pub(crate) fn defaults(&self) -> Result<Table, String> {
        let mut all = Table::new();
        for (name, table) in [("machine", &self.machine), ("data", &self.data), ("workload", &self.workload)] {
            for (key, value) in table {
                // The machine's name is what one varies, and 'name' alone would say little.
                let key = if name == "machine" && key == "name" { "machine" } else { key };
                if all.insert(key.to_string(), value.clone()).is_some() {
                    return Err(format!("'{key}' stands in two tables"));
                }
            }
        }
        Ok(all)
    }

    /// All points, with `set` in place of what the file says.
    pub(crate) fn points(&self, set: &Table) -> Result<Vec<Point>, String> {
        let defaults = self.defaults()?;
        let mut points: Vec<Point> = Vec::new();
        let nothing = [Table::new()];
        let grids = if self.grid.is_empty() { &nothing[..] } else { &self.grid[..] };
        for grid in grids {
            for varied in products(grid, set)? {
                let mut named = defaults.clone();
                named.extend(varied);
                named.extend(set.clone());
                let point = typed(named)?;
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
        Ok(points)
    }

    /// All points, with `set` in place of what the file says.
    ///
    /// # Errors
    /// [`DeclarationError::Setting`]: a name or value that this experiment does not take.
    pub fn grid_with(&self, set: &Table) -> Result<Vec<Point>, DeclarationError> {
        self.points(set).map_err(|reason| DeclarationError::Setting { id: self.id.clone(), reason })
    }

    /// The one point of the defaults with `set` in their place.
    ///
    /// # Errors
    /// [`DeclarationError::Setting`].
    pub fn point_with(&self, set: &Table) -> Result<Point, DeclarationError> {
        let one = || -> Result<Point, String> {
            let mut named = self.defaults()?;
            named.extend(set.clone());
            typed(named)
        };
        one().map_err(|reason| DeclarationError::Setting { id: self.id.clone(), reason })
    }

    /// Reads `key=value` settings as the command line gives them: the value is TOML, or a bare word.
    ///
    /// # Errors
    /// [`DeclarationError::Setting`]: no `=`, or a name that this experiment does not have.
    pub fn read_settings(&self, given: &[String]) -> Result<Table, DeclarationError> {
        let failure = |reason| DeclarationError::Setting { id: self.id.clone(), reason };
        let mut set = Table::new();
        for text in given {
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| failure(format!("'{text}' is no setting; write it as key=value, e.g. clients=64")))?;
            set.insert(key.trim().to_string(), value_of(value.trim()));
        }
        // Names are checked here, where the nearest right one can be told.
        let known = self.defaults().map_err(&failure)?;
        let names: Vec<String> = known.keys().cloned().chain(Settings::names(&known)).collect();
        if let Some(key) = set.keys().find(|key| !names.contains(*key)) {
            let nearest = names.iter().min_by_key(|name| strsim::levenshtein(key, name)).cloned().unwrap_or_default();
            return Err(failure(format!("there is no setting '{key}'; did you mean '{nearest}'?")));
        }
        Ok(set)
    }
}

impl Point {
    /// The point with these values of settings that it has and that were left to their defaults.
    ///
    /// # Errors
    /// A value that a setting cannot take.
    pub(crate) fn with_defaults(&self, values: &Table) -> Result<Point, String> {
        let least =
            ["kind", "machine"].iter().filter_map(|name| Some((name.to_string(), self.named.get(*name)?.clone())));
        let usual = Settings::from_named(&least.collect())?.named()?;
        let mut named = self.named.clone();
        for (name, value) in values {
            if named.get(name).is_some_and(|own| usual.get(name) == Some(own)) {
                named.insert(name.clone(), value.clone());
            }
        }
        typed(named)
    }
}

/// A value as TOML reads it, else the text itself.
fn value_of(text: &str) -> Value {
    toml::from_str::<Table>(&format!("v = {text}"))
        .ok()
        .and_then(|mut table| table.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_string()))
}

fn typed(named: Table) -> Result<Point, String> {
    let settings = Settings::from_named(&named)?;
    // Written back, so that a record tells what was left to a default too, and one value has one writing.
    Ok(Point { named: settings.named()?, settings })
}

/// Every combination of a grid's values; names that the caller has set are left out.
fn products(grid: &Table, set: &Table) -> Result<Vec<Table>, String> {
    let mut all = vec![Table::new()];
    for (key, values) in grid.iter().filter(|(key, _)| !set.contains_key(*key)) {
        let one = [values.clone()];
        let values = match values {
            Value::Array(values) if values.is_empty() => return Err(format!("'{key}' is varied over nothing")),
            Value::Array(values) => &values[..],
            _ => &one[..],
        };
        if all.len().saturating_mul(values.len()) > POINTS_MAX {
            return Err(format!("a grid of more than {POINTS_MAX} points"));
        }
        let with = |table: &Table, value: &Value| {
            let mut table = table.clone();
            table.insert(key.clone(), value.clone());
            table
        };
        all = all.iter().flat_map(|table| values.iter().map(|value| with(table, value)).collect::<Vec<_>>()).collect();
    }
    Ok(all)
}
