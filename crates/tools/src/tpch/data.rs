//! Loading the eight tables: generated, or from a folder of Parquet files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::BooleanArray;
use nearside::{BatchProducer, Database, LoadOptions, LoadProgress};

use super::answers::Text;
use super::generate::{self, Table};
use super::placements::{self, Placement};
use crate::failure::Failure;
use crate::progress::Progress;

/// How the tables are to be loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes<'a> {
    /// Where they lie.
    pub placements: &'a [Placement],
    /// Whether their primary keys are declared.
    pub keys: bool,
}

impl Wishes<'_> {
    fn options(&self, table: Table) -> LoadOptions {
        let key: &[&str] = if self.keys { table.primary_key() } else { &[] };
        LoadOptions {
            placement: placements::of(self.placements, table),
            primary_key: key.iter().map(|column| column.to_string()).collect(),
            ..LoadOptions::default()
        }
    }
}

/// Generates all tables at `scale` and loads them as they come: no table ever exists as Arrow batches.
pub fn generate_all(database: &Database, scale: f64, wishes: Wishes<'_>) -> Result<(), Failure> {
    let rows = Table::ALL.iter().map(|table| table.rows(scale)).sum();
    let progress = Progress::new(Some(rows), "region");
    let loaded = generate_tables(database, scale, wishes, &progress);
    progress.clear();
    loaded
}

fn generate_tables(database: &Database, scale: f64, wishes: Wishes<'_>, progress: &Progress) -> Result<(), Failure> {
    let threads = database.scheduler().threads();
    for table in Table::ALL {
        progress.say(table.name());
        let parts = table.parts(scale, threads);
        let producers = (1..=parts).map(|part| {
            let progress = progress.clone();
            let batches = generate::batches(table, scale, part, parts).map(move |batch| {
                let batch = batch.map_err(nearside::Error::from)?;
                progress.advance(batch.num_rows() as u64);
                Ok(batch)
            });
            Box::new(batches) as BatchProducer
        });
        let producers = producers.collect();
        database.load_batches(table.name(), table.schema(), producers, &wishes.options(table))?;
    }
    Ok(())
}

/// Loads `region.parquet` .. `lineitem.parquet` (or folders `region` .. of Parquet files) of `folder`; gives the scale.
pub fn load(database: &Database, folder: &Path, wishes: Wishes<'_>) -> Result<f64, Failure> {
    let paths: Vec<PathBuf> = Table::ALL.iter().map(|table| find(folder, *table)).collect::<Result<_, _>>()?;
    for (table, path) in Table::ALL.into_iter().zip(paths) {
        let progress = Progress::new(None, table.name());
        let bar = progress.clone();
        let options = LoadOptions {
            progress: Some(Arc::new(move |at: LoadProgress| bar.set(at.bytes, at.total_bytes))),
            ..wishes.options(table)
        };
        let path = path.to_str().ok_or_else(|| Failure::new(format!("the path {} is not UTF-8", path.display())))?;
        let loaded = database.load(table.name(), path, &options);
        progress.clear();
        loaded?;
    }
    let suppliers = row_count(database, Table::Supplier);
    Ok(suppliers as f64 / Table::Supplier.rows(1.0) as f64)
}

/// Writes the eight tables to `folder` as `region.parquet` .. `lineitem.parquet`.
pub fn save(database: &Database, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("cannot make the folder {}: {error}", folder.display())))?;
    let session = database.session();
    for table in Table::ALL {
        let path = folder.join(format!("{}.parquet", table.name()));
        let path = path.to_str().ok_or_else(|| Failure::new(format!("the path {} is not UTF-8", path.display())))?;
        session.execute(&format!("COPY {} TO '{}'", table.name(), path.replace('\'', "''")))?;
    }
    Ok(())
}

fn find(folder: &Path, table: Table) -> Result<PathBuf, Failure> {
    let file = folder.join(format!("{}.parquet", table.name()));
    let inner = folder.join(table.name());
    if file.is_file() {
        Ok(file)
    } else if inner.is_dir() {
        Ok(inner)
    } else {
        let folder = folder.display();
        Err(Failure::new(format!("{folder} holds no {}.parquet; TPC-H needs all eight tables there", table.name())))
    }
}

/// The rows of a loaded table.
pub fn row_count(database: &Database, table: Table) -> u64 {
    let report = database.storage_report();
    report.iter().find(|column| column.table == table.name()).map_or(0, |column| column.rows)
}

/// Whether addresses and comments are those that the reference answers were made from; an older dbgen, and generators
/// that follow it, make others (see [`generate`]). Tables that cannot tell are taken to have them.
pub fn text_of(database: &Database) -> Text {
    let address = "SELECT s_address = 'sdrGnXCDRcfriBvY0KL,ipCanOTyK t NN1' FROM supplier WHERE s_suppkey = 1";
    let batches = database.session().query(address).and_then(|rows| rows.collect_all()).unwrap_or_default();
    let first = batches.iter().find(|batch| batch.num_rows() > 0).map(|batch| batch.column(0).clone());
    match first.as_ref().and_then(|column| column.as_any().downcast_ref::<BooleanArray>()) {
        Some(same) if !same.value(0) => Text::Other,
        _ => Text::OfTheAnswers,
    }
}
