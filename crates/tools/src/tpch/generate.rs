//! TPC-H tables generated as streams of Arrow batches, any number of them in parallel, each a run of a table's rows.
//!
//! The generator crate follows an older dbgen in two places where the one behind the reference answers differs, and
//! both are set right here, or five of the 22 answers could never match:
//! - comments are cut from a text of [`TEXT_BYTES`] rather than of 300 MB (which also saves the memory and a second);
//! - addresses draw 31 random bits with 64-bit arithmetic; the older dbgen overflows 32 bits, so that every draw comes
//!   out negated (see [`negated`]).
//!
//! Invariant: rows of part 1, part 2, .. of a table, one after the other, are the rows of the whole table in order.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, RecordBatch, StringViewArray};
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

/// The length of the text that comments are cut from.
const TEXT_BYTES: i32 = 10 << 20;
const BATCH_ROWS: usize = 8192;

/// The characters of addresses: one for every 6 bits of a draw.
const ADDRESS_CHARACTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";
/// A draw makes `n` characters.
const CHARACTERS_PER_DRAW: usize = 5;

/// A stream is worth a thread from `n` rows on.
const PART_ROWS_MIN: i64 = 32_768;

/// The eight tables.
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

    /// The columns of its primary key (TPC-H specification, clause 1.4.1).
    pub fn primary_key(self) -> &'static [&'static str] {
        match self {
            Table::Region => &["r_regionkey"],
            Table::Nation => &["n_nationkey"],
            Table::Supplier => &["s_suppkey"],
            Table::Part => &["p_partkey"],
            Table::Partsupp => &["ps_partkey", "ps_suppkey"],
            Table::Customer => &["c_custkey"],
            Table::Orders => &["o_orderkey"],
            Table::Lineitem => &["l_orderkey", "l_linenumber"],
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

/// The text that comments are cut from; made when first needed.
static TEXT: LazyLock<TextPool> = LazyLock::new(|| TextPool::new(TEXT_BYTES, Distributions::static_default()));

/// A run of a table's rows.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The rows of part `part` of `parts` (from 1) of a table at `scale`.
pub fn batches(table: Table, scale: f64, part: i32, parts: i32) -> Batches {
    let batches = generator(table, scale, part, parts);
    match table {
        Table::Supplier => Box::new(batches.map(|batch| with_addresses(&batch?, "s_address"))),
        Table::Customer => Box::new(batches.map(|batch| with_addresses(&batch?, "c_address"))),
        _ => batches,
    }
}

fn generator(table: Table, scale: f64, part: i32, parts: i32) -> Batches {
    let words = Distributions::static_default();
    let text = &*TEXT;
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

/// The batch with its addresses set right.
fn with_addresses(batch: &RecordBatch, column: &str) -> Result<RecordBatch, ArrowError> {
    let index = batch.schema().index_of(column)?;
    let Some(addresses) = batch.column(index).as_any().downcast_ref::<StringViewArray>() else {
        return Err(ArrowError::SchemaError(format!("column {column} is not made of strings")));
    };
    let right = StringViewArray::from_iter(addresses.iter().map(|address| address.map(negated)));
    let mut columns = batch.columns().to_vec();
    columns[index] = Arc::new(right);
    RecordBatch::try_new(batch.schema(), columns)
}

/// The address whose draws are the negated ones of `address`: every [`CHARACTERS_PER_DRAW`] characters are the low bits
/// of a draw in base 64, the lowest digit first, and are replaced by those of its negative.
fn negated(address: &str) -> String {
    let digit = |c: u8| ADDRESS_CHARACTERS.iter().position(|&other| other == c).unwrap_or(0);
    let mut out = String::with_capacity(address.len());
    for draw in address.as_bytes().chunks(CHARACTERS_PER_DRAW) {
        // Two's complement: invert all digits, add one.
        let mut carry = 1;
        for &c in draw {
            let sum = (63 - digit(c)) + carry;
            carry = sum >> 6;
            out.push(char::from(ADDRESS_CHARACTERS[sum & 63]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::concat_batches;

    #[test]
    fn parts_are_the_whole_in_order() {
        for table in Table::ALL {
            let whole: Vec<_> = batches(table, 0.01, 1, 1).map(Result::unwrap).collect();
            let whole = concat_batches(&table.schema(), &whole).unwrap();
            let rows = table.rows(0.01) as f64;
            assert!((whole.num_rows() as f64 - rows).abs() <= rows * 0.01, "{table:?}: {}", whole.num_rows());
            if table.rows(0.01) < 100 {
                continue;
            }
            let parts = (1..=3).flat_map(|part| batches(table, 0.01, part, 3));
            let parts: Vec<_> = parts.map(Result::unwrap).collect();
            assert_eq!(concat_batches(&table.schema(), &parts).unwrap(), whole, "{table:?}");
        }
    }

    /// The text values that the reference answers of scale 0.01 hold.
    #[test]
    fn text_is_that_of_the_reference_answers() {
        let row = |table: Table, row: usize, column: usize| {
            let batch = batches(table, 0.01, 1, 1).next().unwrap().unwrap();
            let values = batch.column(column).as_any().downcast_ref::<StringViewArray>().unwrap().clone();
            values.value(row).to_string()
        };
        assert_eq!(row(Table::Supplier, 76, 2), "w5yO 0yjXou 8I4ffzADq,R8tD06x1vbeMpLJF2");
        assert_eq!(row(Table::Supplier, 76, 6), "ainst the blithely ironic packages poach at the regul");
        assert_eq!(row(Table::Customer, 678, 2), "jhLZlG1fRiSE0 wDLOCguVB96dH6a5");
        assert_eq!(row(Table::Customer, 678, 7), "oys. furiously silent pinto beans");
    }

    #[test]
    fn negating_twice_changes_nothing() {
        for address in ["", "0", "00000", "w", "wVtcr0uH3CyrSiWMLsqnB09Syo,UuZxPMeBghlY", ",,,,,,,"] {
            assert_eq!(negated(&negated(address)), address);
            assert_eq!(negated(address).len(), address.len());
        }
        assert_eq!(negated("10000"), ",,,,,");
    }

    #[test]
    fn tables_are_cut_by_size_and_threads() {
        assert_eq!(Table::Region.parts(1000.0, 64), 1);
        assert_eq!(Table::Lineitem.parts(1.0, 2), 8);
        assert_eq!(Table::Lineitem.parts(0.01, 64), 1);
        assert_eq!(Table::Supplier.parts(1.0, 2), 1);
    }
}
