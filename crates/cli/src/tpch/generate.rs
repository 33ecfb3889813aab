//! TPC-H tables generated as streams of Arrow batches, any number of them in parallel, each a run of a table's rows.
//!
//! The comments of all tables are cut from one text of 300 MB that the specification's grammar generates. The generator
//! crate would keep it for the life of the process; here it lies in a [`TextPool`] of ours that the last stream frees,
//! so that what is measured after the load is the database.
//!
//! Invariant: rows of part 1, part 2, .. of a table, one after the other, are the rows of the whole table in order.
//!
//! # Limits
//! Reading the text asks for `&'static` in the generator crate, hence the two unsafe blocks: see [`Text`].

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

const TEXT_BYTES: i32 = 300 << 20;
const BATCH_ROWS: usize = 8192;

/// A stream is worth a thread from so many rows on.
const PART_ROWS_MIN: i64 = 32_768;

/// The eight tables; the largest last, so that the text goes before the last table is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// 5 rows.
    Region,
    /// 25 rows.
    Nation,
    /// 10,000 rows per unit of scale.
    Supplier,
    /// 200,000 rows per unit of scale.
    Part,
    /// 800,000 rows per unit of scale.
    Partsupp,
    /// 150,000 rows per unit of scale.
    Customer,
    /// 1,500,000 rows per unit of scale.
    Orders,
    /// About 6,000,000 rows per unit of scale.
    Lineitem,
}

impl Table {
    /// All tables, in the order of loading.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Part,
        Table::Partsupp,
        Table::Customer,
        Table::Orders,
        Table::Lineitem,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Part => "part",
            Table::Partsupp => "partsupp",
            Table::Customer => "customer",
            Table::Orders => "orders",
            Table::Lineitem => "lineitem",
        }
    }

    /// Its columns.
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Region => RegionArrow::schema_ref(),
            Table::Nation => NationArrow::schema_ref(),
            Table::Supplier => SupplierArrow::schema_ref(),
            Table::Part => PartArrow::schema_ref(),
            Table::Partsupp => PartSuppArrow::schema_ref(),
            Table::Customer => CustomerArrow::schema_ref(),
            Table::Orders => OrderArrow::schema_ref(),
            Table::Lineitem => LineItemArrow::schema_ref(),
        }
    }

    /// How many rows it has at `scale`; for lineitem the expected number, which is off by less than one per cent.
    pub fn rows(self, scale: f64) -> u64 {
        let per_scale = match self {
            Table::Region => return 5,
            Table::Nation => return 25,
            Table::Supplier => 10_000.0,
            Table::Part => 200_000.0,
            Table::Partsupp => 800_000.0,
            Table::Customer => 150_000.0,
            Table::Orders => 1_500_000.0,
            Table::Lineitem => 6_000_000.0,
        };
        (per_scale * scale) as u64
    }

    /// Into how many streams the table is cut for `threads` threads: enough to keep all of them busy to the end.
    pub fn parts(self, scale: f64, threads: usize) -> i32 {
        let rows = self.rows(scale) as i64;
        let most = (threads as i64 * 4).max(1);
        (rows / PART_ROWS_MIN).clamp(1, most) as i32
    }
}

/// The text that comments are cut from. The address is that of a leaked box; it is handed out as `&'static` to
/// generators that live inside a [`Batches`] only, which holds this and drops its generator first.
#[derive(Debug)]
pub struct Text(AtomicPtr<TextPool>);

impl Text {
    /// Generates the text: 300 MB and about a second.
    pub fn generate() -> Arc<Text> {
        let pool = Box::new(TextPool::new(TEXT_BYTES, Distributions::static_default()));
        Arc::new(Text(AtomicPtr::new(Box::into_raw(pool))))
    }

    /// The rows of part `part` of `parts` (from 1) of a table at `scale`.
    pub fn batches(self: &Arc<Text>, table: Table, scale: f64, part: i32, parts: i32) -> Batches {
        // SAFETY: the pointer comes from `Box::into_raw` and is freed only by `drop`, which runs after the last `Arc`
        // has gone. The reference is called 'static but lives in `generator` of the `Batches` made here, whose fields
        // drop in order: the generator, then its `Arc` of this text. Batches copy their strings, so no row outlives it.
        let pool: &'static TextPool = unsafe { &*self.0.load(Ordering::Relaxed) };
        let generator = generator(table, scale, part, parts, pool);
        Batches { running: Some(Running { generator, _text: self.clone() }) }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the pointer is the one of `Box::into_raw` and is freed here once; no generator that reads the text
        // is left, since each holds an `Arc` of it (see `batches`).
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

/// A run of a table's rows, as batches. Lets go of the text with its last batch.
pub struct Batches {
    running: Option<Running>,
}

/// The order of the fields is the order of dropping, on which [`Text::batches`] relies.
struct Running {
    generator: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>,
    _text: Arc<Text>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.running.as_mut()?.generator.next();
        if batch.is_none() {
            self.running = None;
        }
        batch
    }
}

fn generator(
    table: Table,
    scale: f64,
    part: i32,
    parts: i32,
    text: &'static TextPool,
) -> Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send> {
    let words = Distributions::static_default();
    macro_rules! of {
        ($arrow:ident, $generator:ident, $($argument:expr),+) => {
            Box::new(
                $arrow::new($generator::new_with_distributions_and_text_pool($($argument),+))
                    .with_batch_size(BATCH_ROWS),
            )
        };
    }
    match table {
        Table::Region => of!(RegionArrow, RegionGenerator, words, text),
        Table::Nation => of!(NationArrow, NationGenerator, words, text),
        Table::Supplier => of!(SupplierArrow, SupplierGenerator, scale, part, parts, words, text),
        Table::Part => of!(PartArrow, PartGenerator, scale, part, parts, words, text),
        Table::Partsupp => {
            let rows = PartSuppGenerator::new_with_text_pool(scale, part, parts, text);
            Box::new(PartSuppArrow::new(rows).with_batch_size(BATCH_ROWS))
        }
        Table::Customer => of!(CustomerArrow, CustomerGenerator, scale, part, parts, words, text),
        Table::Orders => of!(OrderArrow, OrderGenerator, scale, part, parts, words, text),
        Table::Lineitem => of!(LineItemArrow, LineItemGenerator, scale, part, parts, words, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::concat_batches;

    #[test]
    fn parts_are_the_whole_in_order_and_the_text_goes_with_the_last() {
        let text = Text::generate();
        let weak = Arc::downgrade(&text);
        for table in Table::ALL {
            let whole: Vec<_> = text.batches(table, 0.01, 1, 1).map(Result::unwrap).collect();
            let whole = concat_batches(&table.schema(), &whole).unwrap();
            let rows = table.rows(0.01) as f64;
            assert!((whole.num_rows() as f64 - rows).abs() <= rows * 0.01, "{table:?}: {}", whole.num_rows());
            if table.rows(0.01) < 100 {
                continue;
            }
            let streams = (1..=3).flat_map(|part| text.batches(table, 0.01, part, 3));
            let parts: Vec<_> = streams.map(Result::unwrap).collect();
            assert_eq!(concat_batches(&table.schema(), &parts).unwrap(), whole, "{table:?}");
        }
        let mut last = text.batches(Table::Region, 1.0, 1, 1);
        drop(text);
        assert!(weak.upgrade().is_some());
        assert_eq!(last.by_ref().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 5);
        assert!(weak.upgrade().is_none());
        assert!(last.next().is_none());
    }

    #[test]
    fn tables_are_cut_by_size_and_threads() {
        assert_eq!(Table::Region.parts(1000.0, 64), 1);
        assert_eq!(Table::Lineitem.parts(1.0, 2), 8);
        assert_eq!(Table::Lineitem.parts(0.01, 64), 1);
        assert_eq!(Table::Supplier.parts(1.0, 2), 1);
    }
}
