//! Where stored columns lie and how they are encoded, with nodes read back from the kernel.

use std::collections::BTreeMap;

use numa::{NodeId, PageMap};
use serde::Serialize;
use storage::Column;

use crate::catalog::{CatalogState, TableEntry};

/// One stored column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnReport {
    /// Schema of the table.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// Its type, as Arrow writes it.
    pub data_type: String,
    /// `affine`, `sorted`, `sorted strings`, `plain`, or several joined by `+` when segments differ.
    pub encoding: String,
    /// Bits per row of the codes, the most of any segment; absent when the column is plain throughout.
    pub bits: Option<u8>,
    /// Rows, deleted ones included until they are compacted away.
    pub rows: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of the codes, or of the values of a plain column.
    pub codes_bytes: u64,
    /// Bytes of the dictionaries, each counted once.
    pub dictionary_bytes: u64,
    /// Bytes of its pages on each node, as the kernel says.
    pub bytes_by_node: BTreeMap<NodeId, u64>,
    /// Bytes in pages that the kernel has not placed yet or would not tell of.
    pub unplaced_bytes: u64,
}

/// Every stored column, in the order of names.
pub(crate) fn columns(catalog: &CatalogState) -> Vec<ColumnReport> {
    catalog.tables().flat_map(|t| (0..t.version.schema.fields().len()).map(move |c| column(t, c))).collect()
}

fn column(table: &TableEntry, index: usize) -> ColumnReport {
    let field = table.version.schema.field(index);
    let mut encodings: Vec<String> = Vec::new();
    let mut bits = None;
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut report = ColumnReport {
        schema: table.name.schema.clone(),
        table: table.name.table.clone(),
        column: field.name().clone(),
        data_type: field.data_type().to_string(),
        encoding: String::new(),
        bits: None,
        rows: 0,
        segments: 0,
        codes_bytes: 0,
        dictionary_bytes: 0,
        bytes_by_node: BTreeMap::new(),
        unplaced_bytes: 0,
    };
    let mut dictionaries = std::collections::HashSet::new();
    for segment in table.version.parts.iter().flat_map(|p| p.segments.iter()) {
        let Some(column) = segment.segment.columns().get(index) else { continue };
        report.rows += segment.segment.rows() as u64;
        report.segments += 1;
        report.codes_bytes += column.bytes_codes() as u64;
        let encoding = column.encoding().to_string();
        if !encodings.contains(&encoding) {
            encodings.push(encoding);
        }
        if let Column::Coded(coded) = column.as_ref() {
            bits = bits.max(Some(coded.bits()));
            if dictionaries.insert(std::sync::Arc::as_ptr(coded.dictionary()) as usize) {
                report.dictionary_bytes += column.bytes_dictionary() as u64;
            }
        }
        for (_, region) in column.components() {
            let range = (region.address(), region.len());
            if range.1 > 0 && !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    report.encoding = encodings.join("+");
    report.bits = bits;
    let map = PageMap::read(&ranges);
    report.bytes_by_node = map.bytes_per_node();
    report.unplaced_bytes = map.unknown_bytes();
    report
}
