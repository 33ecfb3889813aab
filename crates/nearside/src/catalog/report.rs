//! Where stored columns lie and how they are encoded, with nodes read back from the kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use numa::{NodeId, PageMap, Region};
use serde::Serialize;
use storage::{Column, Component, IndexKind, StoredColumn, TableVersion};

use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::{CatalogState, TableEntry};
use crate::error::types::sql_type;

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
    /// Bytes of its index; 0 where it has none.
    pub index_bytes: u64,
    /// Bytes of its pages on each node, as the kernel says.
    pub bytes_by_node: BTreeMap<NodeId, u64>,
    /// Where it is meant to lie, as `WITH (placement = '..')` has it.
    pub placement: String,
    /// Parts of the table.
    pub parts: u64,
    /// Bytes in pages that the kernel has not placed yet or would not tell of.
    pub unplaced_bytes: u64,
}

/// Every stored column, in the order of names.
pub(crate) fn columns(catalog: &CatalogState) -> Vec<ColumnReport> {
    catalog.tables().flat_map(|t| (0..t.base.schema.fields().len()).map(move |c| column(t, c))).collect()
}

/// All of a table's rows; those of its base alone where there is no memory to encode the others.
fn shown(table: &TableEntry) -> Arc<TableVersion> {
    table.newest().unwrap_or_else(|_| Arc::clone(&table.base))
}

fn column(table: &TableEntry, index: usize) -> ColumnReport {
    let field = table.base.schema.field(index);
    let mut encodings: Vec<String> = Vec::new();
    let mut bits = None;
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut report = ColumnReport {
        schema: table.name.schema.clone(),
        table: table.name.table.clone(),
        column: field.name().clone(),
        data_type: sql_type(field.data_type()),
        encoding: String::new(),
        bits: None,
        rows: 0,
        segments: 0,
        codes_bytes: 0,
        dictionary_bytes: 0,
        index_bytes: 0,
        bytes_by_node: BTreeMap::new(),
        placement: table.placement.column_text(field.name()),
        parts: table.placement.parts() as u64,
        unplaced_bytes: 0,
    };
    let mut dictionaries = std::collections::HashSet::new();
    for segment in shown(table).parts.iter().flat_map(|p| p.segments.iter()) {
        report.rows += segment.segment.rows() as u64;
        report.segments += 1;
        let stored = segment.segment.stored_columns().get(index);
        let Some(column) = stored.and_then(StoredColumn::resident) else { continue };
        report.codes_bytes += column.bytes_codes() as u64;
        let encoding = column.encoding().to_string();
        if !encodings.contains(&encoding) {
            encodings.push(encoding);
        }
        if let Column::Coded(coded) = column.as_ref() {
            bits = bits.max(Some(coded.bits()));
            if dictionaries.insert(coded.dictionary().id()) {
                report.dictionary_bytes += column.bytes_dictionary() as u64;
            }
        }
        let index = segment.segment.index(index);
        report.index_bytes += index.map_or(0, |index| index.bytes() as u64);
        let of_column = column.components().into_iter().map(|(_, region)| region);
        for region in of_column.chain(index.into_iter().flat_map(|index| index.regions())) {
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

/// One index of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    /// Schema of the table, and of the index.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The index.
    pub name: String,
    /// The columns, in the order they were given.
    pub columns: Vec<String>,
    /// Whether no two rows may have the same values in them.
    pub unique: bool,
    /// `primary key`, `unique` (a constraint) or `index` (CREATE INDEX).
    pub origin: &'static str,
    /// The one of the columns that rows are looked up by.
    pub indexed_column: String,
    /// How segments find rows: `ascending`, `positions`, `permutation`, or several joined by `+` when segments differ.
    pub kinds: String,
    /// Segments with rows.
    pub segments: u64,
    /// Distinct values of the indexed column, summed over the segments.
    pub distinct_values: u64,
    /// Bytes beside the column's own. Indexes over the same column share them.
    pub bytes: u64,
}

/// Every index, in the order of tables.
pub(crate) fn indexes(catalog: &CatalogState) -> Vec<IndexReport> {
    catalog.tables().flat_map(|table| table.indexes.iter().map(move |entry| index(table, entry))).collect()
}

fn index(table: &TableEntry, entry: &IndexEntry) -> IndexReport {
    let mut report = IndexReport {
        schema: table.name.schema.clone(),
        table: table.name.table.clone(),
        name: entry.name.clone(),
        columns: entry.columns.clone(),
        unique: entry.unique || entry.is_deferrable(),
        origin: match entry.origin {
            Origin::PrimaryKey => "primary key",
            Origin::Unique => "unique",
            Origin::Created => "index",
        },
        indexed_column: entry.indexed.clone(),
        kinds: String::new(),
        segments: 0,
        distinct_values: 0,
        bytes: 0,
    };
    let mut kinds: Vec<&str> = Vec::new();
    let column = table.base.schema.index_of(&entry.indexed).ok();
    for index in shown(table).segments().filter_map(|s| s.segment.index(column?)) {
        report.segments += 1;
        report.distinct_values += index.distinct() as u64;
        report.bytes += index.bytes() as u64;
        let kind = match index.kind() {
            IndexKind::Ascending => "ascending",
            IndexKind::Positions => "positions",
            IndexKind::Permutation => "permutation",
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    report.kinds = kinds.join("+");
    report
}

/// Where one component of a column and part lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagesReport {
    pub schema: String,
    pub table: String,
    pub column: String,
    pub part: u32,
    pub component: &'static str,
    /// `None`: pages that are nowhere yet, or of which the kernel does not tell.
    pub node: Option<NodeId>,
    pub bytes: u64,
    /// Whether the kernel told, or the policy is believed.
    pub measured: bool,
}

/// Every component of every column and part, node by node.
pub(crate) fn pages(catalog: &CatalogState) -> Vec<PagesReport> {
    let mut all = Vec::new();
    for table in catalog.tables() {
        let version = shown(table);
        for (index, field) in version.schema.fields().iter().enumerate() {
            for (part, segments) in version.parts.iter().enumerate() {
                let segments = || segments.segments.iter().map(|s| &s.segment);
                let columns = segments().filter_map(|segment| segment.stored_columns().get(index)?.resident());
                let indexes = segments().filter_map(|segment| segment.index(index));
                let mut components: BTreeMap<&'static str, Vec<&Region>> = BTreeMap::new();
                for (component, region) in columns.flat_map(|column| column.components()) {
                    let component = match component {
                        Component::Codes => "codes",
                        Component::Dictionary => "dictionary",
                    };
                    components.entry(component).or_default().push(region);
                }
                for region in indexes.flat_map(|index| index.regions()) {
                    components.entry("index").or_default().push(region);
                }
                for (component, regions) in components {
                    let (by_node, measured) = bytes_by_node(regions);
                    all.extend(by_node.into_iter().map(|(node, bytes)| PagesReport {
                        schema: table.name.schema.clone(),
                        table: table.name.table.clone(),
                        column: field.name().clone(),
                        part: part as u32,
                        component,
                        node,
                        bytes,
                        measured,
                    }));
                }
            }
        }
    }
    all
}

/// Bytes of regions on each node, each region once; and whether the kernel told.
fn bytes_by_node(mut regions: Vec<&Region>) -> (BTreeMap<Option<NodeId>, u64>, bool) {
    regions.sort_unstable_by_key(|region| region.address());
    regions.dedup_by_key(|region| region.address());
    regions.retain(|region| !region.is_empty());
    let ranges: Vec<_> = regions.iter().map(|region| (region.address(), region.len())).collect();
    let together = PageMap::read(&ranges);
    let measured = together.is_measured();
    // Where the kernel does not tell, each region's own policy is the best there is to say.
    let maps = if measured { vec![together] } else { regions.into_iter().map(PageMap::of).collect() };
    let mut by_node = BTreeMap::new();
    for map in maps {
        for (node, bytes) in map.bytes_per_node() {
            *by_node.entry(Some(node)).or_insert(0) += bytes;
        }
        if map.unknown_bytes() > 0 {
            *by_node.entry(None).or_insert(0) += map.unknown_bytes();
        }
    }
    (by_node, measured)
}
