//! [`JoinCodec`]: turns the key columns of both sides of a join into one integer per row, equal where the keys are.
//!
//! A *key code* is below the codec's domain, or [`NONE`] for a key that matches nothing (NULL, or a value that the
//! build side does not have). Integers count from the smallest key of the build side; vids of the build side's
//! dictionary are their own codes, those of another dictionary are translated once per entry; floats stand as their
//! bits; anything else is numbered by [`Strings`]. Several columns are packed by mixed radix; where 64 bits do not
//! hold them all, what was packed so far is numbered first.
//!
//! Unlike groups' ([`crate::operators::join::group`]) it is made of the rows of one side, which are there: bounds are
//! those of the rows, and a value that they do not have is nothing, rather than one more number.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use numa::Reservation;
use storage::Dictionary;

use super::bounds::tight_bounds;
use super::float;
use super::hash::hash;
use super::hash_index::{HashIndex, NONE};
use super::strings::{Strings, each_key};
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, NO_ROW, Vector, is_integer};
use crate::chunk::{Chunk, Rows};
use crate::tasks::run::Run;
use crate::tasks::traffic::{TouchPhase, note_values};

/// Rows of the build side whose codes lie in one piece: one task.
pub(crate) const PIECE_ROWS: usize = 64 << 10;

/// Values between two looks at the statement: texts may be long.
const CHECK_VALUES: usize = 4096;

/// How a column of one side becomes codes.
enum KeyReader {
    /// Integers from `low`.
    Ints { low: i64, domain: u64 },
    /// Bits of floats.
    Floats,
    /// Vids as they are.
    Vids,
    /// Codes by vid; [`NO_ROW`] for none.
    Translated(Vec<u32>),
    /// Codes by value.
    Interned(Arc<Strings>),
}

/// Numbers codes, so that they take fewer bits.
type DenseNumbers = Option<Arc<HashIndex>>;

struct KeyColumn {
    column: usize,
    info: ColumnInfo,
    reader: KeyReader,
    /// Codes that the reader gives, and one for NULL if `null_code`.
    domain: u64,
    /// NULL is code 0.
    null_code: bool,
    /// For what was packed before this column.
    before: DenseNumbers,
    /// For this column.
    own: DenseNumbers,
}

/// The codes of one side of a join.
pub(crate) struct JoinCodec {
    parts: Vec<KeyColumn>,
    /// For interned values, translations and numbers of codes.
    _charged: Reservation,
}

/// The codes of the build side, and how those of the probe side are made.
pub(crate) struct JoinKeys {
    /// Per row of the build side, in pieces of [`PIECE_ROWS`].
    pub(crate) codes: Vec<Vec<u64>>,
    /// All codes are below.
    pub(crate) domain: u64,
    /// For the probe side.
    pub(crate) probe: JoinCodec,
    /// For `codes`.
    pub(crate) charged: Reservation,
}

/// Codes of the build side `rows` by the key columns `on` (build, probe), where the probe side has the columns `probe`.
pub(crate) fn join_keys(
    on: &[(usize, usize)],
    rows: &Rows,
    probe: &[ColumnInfo],
    nulls_equal: bool,
    run: &Run<'_>,
) -> Result<JoinKeys, ExecError> {
    let ranges: Vec<Range<usize>> =
        (0..rows.rows).step_by(PIECE_ROWS).map(|start| start..(start + PIECE_ROWS).min(rows.rows)).collect();
    let code_bytes = 8 * rows.rows as u64;
    let (mut charged, mut kept) = (run.reserve(code_bytes)?, run.reserve(0)?);
    let (mut codes, mut domain) = (ranges.iter().map(|r| vec![0; r.len()]).collect::<Vec<_>>(), 1u64);
    let mut parts = Vec::with_capacity(on.len());
    for (number, &(build_column, probe_column)) in on.iter().enumerate() {
        run.check()?;
        let (build_info, probe_info) = (&rows.infos[build_column], &probe[probe_column]);
        let vector = &rows.columns[build_column];
        let (build_reader, probe_reader, values) = readers(build_info, vector, probe_info, run, &mut kept)?;
        let null_code = nulls_equal && (build_info.nullable || probe_info.nullable);
        let part = |column, info: &ColumnInfo, reader| KeyColumn {
            column,
            info: info.clone(),
            reader,
            domain: values + u64::from(null_code),
            null_code,
            before: None,
            own: None,
        };
        let build_part = part(build_column, build_info, build_reader);
        let mut probe_part = part(probe_column, probe_info, probe_reader);
        if number > 0 {
            charged.grow(code_bytes)?;
        }
        let mut own = run.map(ranges.len(), &|piece| {
            rows.column_read(build_column, ranges[piece].len());
            let mut own = Vec::with_capacity(ranges[piece].len());
            for start in ranges[piece].clone().step_by(CHECK_VALUES) {
                run.check()?;
                build_part.read(vector, start..(start + CHECK_VALUES).min(ranges[piece].end), &mut own)?;
            }
            Ok(own)
        })?;
        if number == 0 {
            (codes, domain) = (own, probe_part.domain);
        } else {
            let too_wide = |domain: u64, own: u64| domain.checked_mul(own).is_none_or(|product| product == NONE);
            if too_wide(domain, probe_part.domain) {
                (probe_part.before, domain) = numbered(&mut codes, rows.rows, run)?;
            }
            if too_wide(domain, probe_part.domain) {
                (probe_part.own, probe_part.domain) = numbered(&mut own, rows.rows, run)?;
            }
            codes.iter_mut().zip(&own).for_each(|(codes, own)| pack(codes, own, probe_part.domain));
            domain *= probe_part.domain;
            drop(own);
            charged.shrink(code_bytes);
        }
        parts.push(probe_part);
    }
    Ok(JoinKeys { codes, domain, probe: JoinCodec { parts, _charged: kept }, charged })
}

impl JoinCodec {
    /// The code of every row of a chunk; `out` is overwritten.
    pub(crate) fn codes(&self, chunk: &mut Chunk, out: &mut Vec<u64>) -> Result<(), ExecError> {
        out.clear();
        if self.parts.is_empty() {
            out.resize(chunk.rows(), 0);
            return Ok(());
        }
        let (mut own, mut found) = (Vec::new(), Vec::new());
        for (number, part) in self.parts.iter().enumerate() {
            let vector = chunk.column(part.column);
            if number == 0 {
                part.read(&vector, 0..vector.len(), out)?;
                continue;
            }
            own.clear();
            part.read(&vector, 0..vector.len(), &mut own)?;
            renumber(out, &part.before, &mut found);
            renumber(&mut own, &part.own, &mut found);
            pack(out, &own, part.domain);
        }
        Ok(())
    }
}

impl KeyColumn {
    /// Appends the codes of some rows.
    fn read(&self, vector: &Vector, rows: Range<usize>, out: &mut Vec<u64>) -> Result<(), ExecError> {
        let start = out.len();
        self.read_values(vector, rows.clone(), out)?;
        let codes = &mut out[start..];
        if self.null_code {
            codes.iter_mut().for_each(|code| *code += u64::from(*code != NONE));
        }
        let null = if self.null_code { 0 } else { NONE };
        match (&vector.data, &vector.valid) {
            (Data::Arrow(array), _) => {
                let nulls = array.slice(rows.start, rows.len()).logical_nulls();
                if let Some(nulls) = nulls.filter(|n| n.null_count() > 0) {
                    codes
                        .iter_mut()
                        .zip(nulls.iter())
                        .for_each(|(code, valid)| *code = if valid { *code } else { null });
                }
            }
            (_, Some(valid)) => {
                codes.iter_mut().zip(&valid[rows]).for_each(|(code, &valid)| *code = if valid { *code } else { null });
            }
            (_, None) => {}
        }
        Ok(())
    }

    /// As [`read`](Self::read) with any code for NULL.
    fn read_values(&self, vector: &Vector, rows: Range<usize>, out: &mut Vec<u64>) -> Result<(), ExecError> {
        match (&self.reader, &vector.data) {
            (KeyReader::Ints { low, domain }, Data::Int(values)) => {
                let (low, domain) = (*low, *domain);
                out.extend(values[rows].iter().map(|&value| {
                    let code = value.wrapping_sub(low) as u64;
                    if code < domain { code } else { NONE }
                }));
            }
            (KeyReader::Floats, Data::Float(values)) => out.extend(values[rows].iter().map(|&v| float::bits(v))),
            (KeyReader::Vids, Data::Vid(vids)) => out.extend(vids[rows].iter().map(|&vid| u64::from(vid))),
            (KeyReader::Translated(codes), Data::Vid(vids)) => {
                out.extend(vids[rows].iter().map(|&vid| match codes.get(vid as usize) {
                    None | Some(&NO_ROW) => NONE,
                    Some(&code) => u64::from(code),
                }));
            }
            (KeyReader::Ints { low, domain }, Data::Arrow(array)) => {
                wide_codes(&array.slice(rows.start, rows.len()), *low, *domain, out);
            }
            (KeyReader::Floats, Data::Arrow(array)) => {
                let array = cast(&array.slice(rows.start, rows.len()), &DataType::Float64)?;
                out.extend(array.as_primitive::<Float64Type>().values().iter().map(|&v| float::bits(v)));
            }
            (KeyReader::Interned(interner), _) => {
                let array = self.info.to_arrow(&vector.slice(rows.start, rows.len()));
                each_key(&array, &mut |key| {
                    out.push(key.and_then(|key| interner.find(key)).map_or(NONE, u64::from));
                })?;
            }
            _ => unreachable!("a reader is made for the kind of its column"),
        }
        Ok(())
    }
}

/// Codes of integers that may not fit in 64 bits.
fn wide_codes(array: &ArrayRef, low: i64, domain: u64, out: &mut Vec<u64>) {
    let wide: Vec<Option<i128>> = match array.data_type() {
        DataType::UInt64 => {
            let values = array.as_primitive::<arrow::datatypes::UInt64Type>();
            values.iter().map(|v| v.map(i128::from)).collect()
        }
        DataType::Decimal128(..) => array.as_primitive::<arrow::datatypes::Decimal128Type>().iter().collect(),
        _ => {
            let values = crate::chunk::vector::ints_of_arrow(array.as_ref());
            values.into_iter().map(|v| Some(i128::from(v))).collect()
        }
    };
    out.extend(wide.into_iter().map(|value| {
        let code = value.and_then(|v| v.checked_sub(i128::from(low))).and_then(|c| u64::try_from(c).ok());
        code.filter(|&c| c < domain).unwrap_or(NONE)
    }));
}

/// Readers of both sides and the number of codes; what they hold is charged to `kept`.
fn readers(
    build: &ColumnInfo,
    vector: &Vector,
    probe: &ColumnInfo,
    run: &Run<'_>,
    kept: &mut Reservation,
) -> Result<(KeyReader, KeyReader, u64), ExecError> {
    if is_integer(build.data_type())
        && let Some((low, high)) = tight_bounds(build, vector)
    {
        // One code less than there are is for NONE, one for NULL.
        let domain = (high.wrapping_sub(low) as u64).saturating_add(1);
        if domain < NONE - 1 {
            return Ok((KeyReader::Ints { low, domain }, KeyReader::Ints { low, domain }, domain));
        }
    }
    match (&build.kind, &probe.kind, build.data_type()) {
        (ColumnKind::Float, ..) | (_, _, DataType::Float32 | DataType::Float16) => {
            // No value has the bits of all ones, nor those of all ones but the last.
            Ok((KeyReader::Floats, KeyReader::Floats, NONE - 2))
        }
        (ColumnKind::Vid(own), ColumnKind::Vid(other), _) => {
            let domain = own.len() as u64;
            if Arc::ptr_eq(own, other) {
                return Ok((KeyReader::Vids, KeyReader::Vids, domain));
            }
            kept.grow(4 * other.len() as u64)?;
            Ok((KeyReader::Vids, KeyReader::Translated(merged(other, own, run)?), domain))
        }
        _ => interned(build, vector, probe, run, kept),
    }
}

/// For every vid of `from` the vid of the same value in `to`; [`NO_ROW`] for none. Both are in order, so this is a
/// merge.
fn merged(from: &Dictionary, to: &Dictionary, run: &Run<'_>) -> Result<Vec<u32>, ExecError> {
    let mut vids = Vec::with_capacity(from.len());
    let mut at = 0;
    [from, to].into_iter().for_each(|read| note_values(read.id(), TouchPhase::Find, read.len()));
    for vid in 0..from.len() as u32 {
        heed(run, vid as usize)?;
        let value = from.bytes_of(vid);
        while at < to.len() as u32 && to.bytes_of(at) < value {
            at += 1;
            heed(run, at as usize)?;
        }
        vids.push(if at < to.len() as u32 && to.bytes_of(at) == value { at } else { NO_ROW });
    }
    Ok(vids)
}

/// Looks at the statement at every [`CHECK_VALUES`]th value.
fn heed(run: &Run<'_>, number: usize) -> Result<(), ExecError> {
    if number.is_multiple_of(CHECK_VALUES) { run.check() } else { Ok(()) }
}

/// Readers that number the values of the build side.
fn interned(
    build: &ColumnInfo,
    vector: &Vector,
    probe: &ColumnInfo,
    run: &Run<'_>,
    kept: &mut Reservation,
) -> Result<(KeyReader, KeyReader, u64), ExecError> {
    let mut interner = Strings::default();
    let mut build_codes = None;
    match (&build.kind, &vector.data) {
        (ColumnKind::Vid(dictionary), Data::Vid(vids)) => {
            kept.grow(4 * dictionary.len() as u64)?;
            note_values(dictionary.id(), TouchPhase::Find, vids.len());
            let mut codes = vec![NO_ROW; dictionary.len()];
            for (row, &vid) in vids.iter().enumerate() {
                heed(run, row)?;
                if vector.is_valid(row) && codes[vid as usize] == NO_ROW {
                    codes[vid as usize] = interner.insert(dictionary.bytes_of(vid).unwrap_or_default(), kept)?;
                }
            }
            build_codes = Some(codes);
        }
        _ => {
            for start in (0..vector.len()).step_by(CHECK_VALUES) {
                run.check()?;
                let piece = vector.slice(start, CHECK_VALUES.min(vector.len() - start));
                let mut failed = Ok(());
                each_key(&build.to_arrow(&piece), &mut |key| {
                    if let (Some(key), Ok(())) = (key, &failed) {
                        failed = interner.insert(key, kept).map(|_| ());
                    }
                })?;
                failed?;
            }
        }
    }
    let domain = interner.len() as u64;
    let interner = Arc::new(interner);
    let probe_reader = match &probe.kind {
        ColumnKind::Vid(dictionary) => {
            kept.grow(4 * dictionary.len() as u64)?;
            note_values(dictionary.id(), TouchPhase::Find, dictionary.len());
            let mut codes = Vec::with_capacity(dictionary.len());
            for vid in 0..dictionary.len() as u32 {
                heed(run, vid as usize)?;
                codes.push(dictionary.bytes_of(vid).and_then(|v| interner.find(v)).unwrap_or(NO_ROW));
            }
            KeyReader::Translated(codes)
        }
        _ => KeyReader::Interned(interner.clone()),
    };
    Ok((build_codes.map_or(KeyReader::Interned(interner), KeyReader::Translated), probe_reader, domain))
}

/// Numbers codes in place; their index and how many there are.
fn numbered(codes: &mut [Vec<u64>], rows: usize, run: &Run<'_>) -> Result<(DenseNumbers, u64), ExecError> {
    let mut index = HashIndex::new(&[rows], 0, run.statement.budget())?;
    let mut parts = index.parts();
    parts[0].clear();
    let mut count = 0;
    for piece in codes {
        run.check()?;
        for code in piece.iter_mut().filter(|code| **code != NONE) {
            let number = parts[0].insert(*code, hash(*code), count);
            count += u32::from(number == count);
            *code = u64::from(number);
        }
    }
    drop(parts);
    Ok((Some(Arc::new(index)), u64::from(count)))
}

fn renumber(codes: &mut [u64], dense: &DenseNumbers, found: &mut Vec<u32>) {
    if let Some(index) = dense {
        index.find(codes, found);
        for (code, &number) in codes.iter_mut().zip(&*found) {
            *code = if number == NO_ROW { NONE } else { u64::from(number) };
        }
    }
}

/// `codes * domain + own`, unless either is none.
fn pack(codes: &mut [u64], own: &[u64], domain: u64) {
    for (code, &own) in codes.iter_mut().zip(own) {
        *code = if *code == NONE || own == NONE { NONE } else { *code * domain + own };
    }
}
