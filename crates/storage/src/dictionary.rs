//! Dictionaries: vid <-> value, ascending, so that a comparison of values is a comparison of vids.
//!
//! Psaroudakis et al., VLDB 2015, section 2, has sorted dictionaries; the affine ones are ours.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array, new_null_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;
use numa::{Allocator, Region};

use crate::affine::Affine;
use crate::copies::Copies;
use crate::error::StoreError;
use crate::identity::DictionaryId;
use crate::kernels::share::region_buffer;
use crate::placement::Exchange;
use crate::strings::{INLINE_BYTES_MAX, StringValues};
use crate::types::{Native, Physical, number_array, wide_key_at, with_native};

/// How a column's values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Codes; the value is computed as `base + step * vid`.
    Affine,
    /// Codes; the values are a sorted vector of numbers.
    SortedFixed,
    /// Codes; the values are a sorted vector of strings or binary values.
    SortedStrings,
    /// The values themselves.
    Plain,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Affine => "affine",
            Encoding::SortedFixed => "sorted",
            Encoding::SortedStrings => "sorted strings",
            Encoding::Plain => "plain",
        })
    }
}

/// The values of a column and part that is kept as codes.
pub struct Dictionary {
    id: DictionaryId,
    data_type: DataType,
    physical: Physical,
    len: u32,
    values: Copies<Values>,
}

/// The values; one of the copies where there are several.
#[derive(Clone)]
pub(crate) enum Values {
    Affine(Affine),
    /// Native values in key order.
    Fixed(Option<Arc<Region>>),
    Strings(StringValues),
}

impl Dictionary {
    /// `len` numbers in equal steps. The highest vid stays below `u32::MAX - 1`, so that NULL has a code too.
    pub(crate) fn affine(data_type: DataType, affine: Affine, len: u32) -> Dictionary {
        let physical = Physical::of(&data_type);
        assert!(physical.is_number() && len < u32::MAX);
        let values = Copies::one(Values::Affine(affine));
        Dictionary { id: DictionaryId::next(), data_type, physical, len, values }
    }

    /// `len` numbers; `values` holds them as native values in key order, without repeats.
    pub(crate) fn fixed(data_type: DataType, values: Option<Region>, len: u32) -> Dictionary {
        let physical = Physical::of(&data_type);
        assert!(physical.is_number() && len < u32::MAX);
        let values = Copies::one(Values::Fixed(values.map(Arc::new)));
        Dictionary { id: DictionaryId::next(), data_type, physical, len, values }
    }

    /// Strings or binary values.
    pub(crate) fn strings(data_type: DataType, values: StringValues) -> Dictionary {
        let physical = Physical::of(&data_type);
        assert!(physical == Physical::Bytes && values.len() < u32::MAX as usize);
        let len = values.len() as u32;
        let values = Copies::one(Values::Strings(values));
        Dictionary { id: DictionaryId::next(), data_type, physical, len, values }
    }

    /// A dictionary of strings that no column has: results of a function, say. `values` are ascending by their bytes,
    /// each once.
    ///
    /// # Errors
    /// [`StoreError::Memory`] if there is no room.
    ///
    /// # Panics
    /// If `values` are not ascending.
    pub fn of_strings(values: &[&str], allocator: &Allocator) -> Result<Dictionary, StoreError> {
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "values ascend");
        let long = values.iter().map(|v| v.len()).filter(|&bytes| bytes > INLINE_BYTES_MAX).sum();
        let bytes = values.iter().map(|v| v.as_bytes());
        Ok(Dictionary::strings(DataType::Utf8View, StringValues::build(allocator, values.len(), long, bytes)?))
    }

    /// The same values, kept elsewhere.
    pub(crate) fn moved(&self, values: Copies<Values>) -> Dictionary {
        Dictionary {
            id: DictionaryId::next(),
            data_type: self.data_type.clone(),
            physical: self.physical,
            len: self.len,
            values,
        }
    }

    /// The values; one of each for every copy.
    pub(crate) fn copies(&self) -> &Copies<Values> {
        &self.values
    }

    /// Its number.
    pub fn id(&self) -> DictionaryId {
        self.id
    }

    /// Number of vids. An affine dictionary has vids that do not occur.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True for the dictionary of a column that holds only NULLs.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it has a copy on several nodes.
    pub fn is_replicated(&self) -> bool {
        self.copies().is_replicated()
    }

    /// The surface type of the values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Affine, sorted numbers or sorted strings.
    pub fn encoding(&self) -> Encoding {
        match self.values.first() {
            Values::Affine(_) => Encoding::Affine,
            Values::Fixed(_) => Encoding::SortedFixed,
            Values::Strings(_) => Encoding::SortedStrings,
        }
    }

    /// Bytes of the values, every copy counted; 0 for an affine dictionary.
    pub fn bytes(&self) -> usize {
        self.regions().iter().map(|region| region.len()).sum()
    }

    /// The first vid whose value is at least `value`, an array of one value of the dictionary's type;
    /// [`len`](Self::len) if there is none.
    ///
    /// # Errors
    /// [`StoreError::NotComparable`] for another type (decimals: another scale), [`StoreError::NotOneValue`] for NULL
    /// or another length.
    pub fn lower_bound(&self, value: &dyn Array) -> Result<u32, StoreError> {
        self.bound(value, false)
    }

    /// The first vid whose value is above `value`; see [`lower_bound`](Self::lower_bound).
    ///
    /// # Errors
    /// As [`lower_bound`](Self::lower_bound).
    pub fn upper_bound(&self, value: &dyn Array) -> Result<u32, StoreError> {
        self.bound(value, true)
    }

    /// The values of a range of vids, ascending, for functions that are evaluated once per entry.
    pub fn values(&self, vids: Range<u32>) -> ArrayRef {
        self.range(vids, false)
    }

    /// As [`values`](Self::values), of which nothing is kept: long strings are never copied.
    pub fn values_to_test(&self, vids: Range<u32>) -> ArrayRef {
        self.range(vids, true)
    }

    fn range(&self, vids: Range<u32>, share: bool) -> ArrayRef {
        assert!(vids.end <= self.len, "vid {} of {}", vids.end, self.len);
        if vids.is_empty() {
            return new_empty_array(&self.data_type);
        }
        match self.values.near() {
            Values::Affine(affine) => {
                let (len, values) = (vids.len(), affine.values(self.physical, self.len, vids));
                number_array(&self.data_type, len, values, None)
            }
            Values::Fixed(region) => {
                let len = vids.len();
                let width = self.physical.width_bytes();
                let range = vids.start as usize * width..vids.end as usize * width;
                let values = region.as_ref().map_or_else(Buffer::default, |region| region_buffer(region, range));
                number_array(&self.data_type, len, values, None)
            }
            Values::Strings(strings) => strings.slice(&self.data_type, vids.start as usize..vids.end as usize, share),
        }
    }

    /// Smallest and largest value as integers (decimals unscaled, dates and times in their unit, booleans as 0 and 1);
    /// `None` where the values are no integers, do not fit in 64 bits, or there is none.
    pub fn integer_bounds(&self) -> Option<(i64, i64)> {
        if self.is_empty() || !self.physical.is_number() || self.physical.is_float() {
            return None;
        }
        let (low, high) = match self.values.first() {
            Values::Affine(affine) => (affine.key(0), affine.key(self.len - 1)),
            Values::Fixed(Some(region)) => with_native!(self.physical, N => {
                let entries = &region.words::<N>()[..self.len as usize];
                (entries[0].wide_key(), entries[entries.len() - 1].wide_key())
            }),
            Values::Fixed(None) | Values::Strings(_) => return None,
        };
        let value = |key: i128| i64::try_from(key.checked_add(self.value_of_key_0())?).ok();
        Some((value(low)?, value(high)?))
    }

    /// What a key has to be raised by to be the value: keys of unsigned 64-bit numbers begin at the smallest `i64`.
    fn value_of_key_0(&self) -> i128 {
        if self.physical == Physical::U64 { 1 << 63 } else { 0 }
    }

    /// `(base, step)` where integers are computed as `base + step * vid` and fit in 64 bits.
    pub fn affine_integers(&self) -> Option<(i64, i64)> {
        let Values::Affine(affine) = self.values.first() else { return None };
        let (base, _) = self.integer_bounds()?;
        Some((base, if self.len == 1 { 1 } else { i64::try_from(affine.step).ok()? }))
    }

    /// Appends the values of `vids` as integers; for dictionaries that have [`integer_bounds`](Self::integer_bounds).
    pub fn integers(&self, vids: &[u32], out: &mut Vec<i64>) {
        let raise = self.value_of_key_0() as i64;
        match self.values.near() {
            Values::Affine(affine) => {
                // Every value fits in 64 bits, so arithmetic modulo 2^64 gives it, however long the step is.
                let base = affine.base as i64;
                let step = affine.step as i64;
                let base = base.wrapping_add(raise);
                out.extend(vids.iter().map(|&vid| base.wrapping_add(step.wrapping_mul(i64::from(vid)))));
            }
            Values::Fixed(Some(region)) => with_native!(self.physical, N => {
                let entries = &region.words::<N>()[..self.len as usize];
                out.extend(vids.iter().map(|&vid| (entries[vid as usize].wide_key() as i64).wrapping_add(raise)));
            }),
            _ => panic!("no integers in {self:?}"),
        }
    }

    /// The bytes of a string or binary value; `None` in a dictionary of numbers.
    pub fn bytes_of(&self, vid: u32) -> Option<&[u8]> {
        match self.values.near() {
            Values::Strings(strings) => Some(strings.value(vid as usize)),
            _ => None,
        }
    }

    /// The values of `vids`, in any order, as an array.
    pub fn take(&self, vids: &[u32]) -> ArrayRef {
        self.materialize(vids, false)
    }

    /// The values of `codes`; with `null_code`, code 0 is NULL and the vid is the code less one.
    pub(crate) fn materialize(&self, codes: &[u32], null_code: bool) -> ArrayRef {
        if codes.is_empty() {
            return new_empty_array(&self.data_type);
        }
        if self.len == 0 {
            return new_null_array(&self.data_type, codes.len());
        }
        if !null_code {
            return self.gather(codes.iter().copied(), None);
        }
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(codes.len(), |i| codes[i] != 0));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        // A NULL's slot holds the first value: any would do.
        self.gather(codes.iter().map(|&code| code.saturating_sub(1)), nulls)
    }

    /// As [`materialize`](Self::materialize), in the codes' own memory where values are as wide.
    pub(crate) fn materialize_into(&self, codes: Vec<u32>, null_code: bool) -> ArrayRef {
        match self.values.near() {
            Values::Affine(affine) if !null_code && matches!(self.physical, Physical::I32 | Physical::U32) => {
                number_array(&self.data_type, codes.len(), affine.in_place(codes), None)
            }
            _ => self.materialize(&codes, null_code),
        }
    }

    /// The regions that hold the values, those of all copies.
    pub fn regions(&self) -> Vec<&Region> {
        self.values.all().flat_map(Values::regions).collect()
    }

    fn gather(&self, vids: impl ExactSizeIterator<Item = u32>, nulls: Option<NullBuffer>) -> ArrayRef {
        let len = vids.len();
        let values = match self.values.near() {
            Values::Strings(strings) => return strings.gather(&self.data_type, vids, nulls),
            Values::Affine(affine) => affine.values(self.physical, self.len, vids),
            Values::Fixed(None) => Buffer::default(),
            Values::Fixed(Some(region)) => with_native!(self.physical, N => {
                let entries = &region.words::<N>()[..self.len as usize];
                Buffer::from_vec(vids.map(|vid| entries[vid as usize]).collect::<Vec<N>>())
            }),
        };
        number_array(&self.data_type, len, values, nulls)
    }

    fn bound(&self, value: &dyn Array, upper: bool) -> Result<u32, StoreError> {
        if !comparable(&self.data_type, value.data_type()) {
            let expected = self.data_type.clone();
            let found = value.data_type().clone();
            return Err(StoreError::NotComparable { expected, found });
        }
        if value.len() != 1 || value.is_null(0) {
            return Err(StoreError::NotOneValue { values: value.len(), nulls: value.null_count() });
        }
        Ok(self.bound_of(Value::at(value, 0), upper))
    }

    /// The first vid whose value is at least `value` (above it with `upper`), which is of the dictionary's type.
    pub(crate) fn bound_of(&self, value: Value<'_>, upper: bool) -> u32 {
        match (self.values.near(), value) {
            (Values::Affine(affine), Value::Key(key)) if upper => affine.upper_bound(key, self.len),
            (Values::Affine(affine), Value::Key(key)) => affine.lower_bound(key, self.len),
            (Values::Fixed(None), _) => 0,
            (Values::Fixed(Some(region)), Value::Key(key)) => with_native!(self.physical, N => {
                let entries = &region.words::<N>()[..self.len as usize];
                let before = |entry: &N| entry.wide_key() < key || upper && entry.wide_key() == key;
                entries.partition_point(before) as u32
            }),
            (Values::Strings(strings), Value::Bytes(wanted)) => {
                let mut from = 0;
                let mut to = strings.len();
                while from < to {
                    let middle = from + (to - from) / 2;
                    let entry = strings.value(middle);
                    if entry < wanted || upper && entry == wanted {
                        from = middle + 1;
                    } else {
                        to = middle;
                    }
                }
                from as u32
            }
            _ => unreachable!("values have the dictionary's type"),
        }
    }

    /// The value of a vid.
    pub(crate) fn value_of(&self, vid: u32) -> Value<'_> {
        match self.values.near() {
            Values::Affine(affine) => Value::Key(affine.key(vid)),
            Values::Fixed(None) => unreachable!("vid {vid} of an empty dictionary"),
            Values::Fixed(Some(region)) => {
                with_native!(self.physical, N => Value::Key(region.words::<N>()[vid as usize].wide_key()))
            }
            Values::Strings(strings) => Value::Bytes(strings.value(vid as usize)),
        }
    }
}

/// One value as it sorts: two of one type compare as these do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value<'a> {
    /// Of a number: see `types`.
    Key(i128),
    /// Of a string or binary value.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Value `i`, not NULL, of an array of numbers, strings or binary values in their surface type.
    pub(crate) fn at(array: &'a dyn Array, i: usize) -> Value<'a> {
        match Physical::of(array.data_type()) {
            Physical::Bytes => Value::Bytes(bytes_at(array, i)),
            _ => Value::Key(wide_key_at(array, i)),
        }
    }
}

impl Values {
    /// The regions that hold them.
    pub(crate) fn regions(&self) -> Vec<&Region> {
        match self {
            Values::Affine(_) => Vec::new(),
            Values::Fixed(region) => region.iter().map(|region| region.as_ref()).collect(),
            Values::Strings(strings) => strings.regions().collect(),
        }
    }

    /// The same with each region as `exchange` gives it.
    ///
    /// # Errors
    /// Those of `exchange`.
    pub(crate) fn exchanged<E>(&self, exchange: &mut Exchange<'_, E>) -> Result<Values, E> {
        Ok(match self {
            Values::Affine(affine) => Values::Affine(*affine),
            Values::Fixed(region) => Values::Fixed(region.as_ref().map(exchange).transpose()?),
            Values::Strings(strings) => Values::Strings(strings.exchanged(exchange)?),
        })
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({}, {} values, {})", self.encoding(), self.len, self.data_type)
    }
}

/// Whether keys or bytes of type `found` mean the same as those of `expected`.
pub(crate) fn comparable(expected: &DataType, found: &DataType) -> bool {
    match (expected, found) {
        (DataType::Decimal32(_, a), DataType::Decimal32(_, b))
        | (DataType::Decimal64(_, a), DataType::Decimal64(_, b))
        | (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) => a == b,
        _ => expected == found,
    }
}

/// The bytes of value `i` of an array of views or of fixed-size binary.
pub(crate) fn bytes_at(array: &dyn Array, i: usize) -> &[u8] {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().value(i).as_bytes(),
        DataType::BinaryView => array.as_binary_view().value(i),
        _ => array.as_fixed_size_binary().value(i),
    }
}
