//! Patterns against Arrow's LIKE, which makes regular expressions of them: one text, arrays, texts as they are stored,
//! dictionaries.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Scalar, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, like, nlike};
use proptest::prelude::*;
use storage::Texts;

use super::TextTest;
use crate::mask::Mask;

/// Letters of one to four bytes, and what patterns and regular expressions are made of.
fn text() -> impl Strategy<Value = String> {
    let letter = prop::sample::select(vec!['a', 'b', 'é', '€', '𐍈', '\n', '.', '%', '\\', '_']);
    prop::collection::vec(letter, 0..20).prop_map(|letters| letters.into_iter().collect())
}

fn pattern() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "%", "%", "%", "_", "a", "b", "ab", "é", "€", "𐍈", "\n", ".", "\\%", "\\\\", "\\a", "\\",
    ]);
    prop::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat())
}

fn texts() -> impl Strategy<Value = Vec<Option<String>>> {
    prop::collection::vec(prop::option::weighted(0.9, text()), 0..150)
}

fn arrow_like(texts: &ArrayRef, pattern: &str, negated: bool) -> BooleanArray {
    let pattern = Scalar::new(StringViewArray::from_iter_values([pattern]));
    if negated { nlike(texts, &pattern).unwrap() } else { like(texts, &pattern).unwrap() }
}

/// Values with what is under NULLs left out.
fn answers(array: &BooleanArray) -> Vec<Option<bool>> {
    array.iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arrays_agree_with_arrow(texts in texts(), pattern in pattern(), negated: bool) {
        let test = TextTest::like(&pattern, negated);
        let array: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_deref)));
        let expected = answers(&arrow_like(&array, &pattern, negated));
        prop_assert_eq!(&answers(&test.evaluate(&array).unwrap()), &expected);
        // Several buffers, and views that do not follow each other.
        let twice = concat(&[array.as_ref(), array.as_ref()]).unwrap();
        prop_assert_eq!(answers(&test.evaluate(&twice).unwrap()), [&expected[..], &expected[..]].concat());
        let backwards: ArrayRef = Arc::new(array.as_string_view().iter().rev().collect::<StringViewArray>());
        let upside_down: Vec<_> = expected.iter().rev().copied().collect();
        prop_assert_eq!(answers(&test.evaluate(&backwards).unwrap()), upside_down);
    }

    #[test]
    fn stored_texts_agree_with_arrow(
        texts in texts(), pattern in pattern(), negated: bool, cut in 0.0..1.0,
        keep in prop::sample::select(vec![1, 2, 20]),
    ) {
        let test = TextTest::like(&pattern, false);
        let array: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_deref)));
        let expected = arrow_like(&array, &pattern, negated);
        let stored: Vec<_> = parts(&texts, cut);
        let mut mask = Mask::empty(texts.len());
        (0..texts.len()).filter(|row| row % keep == 0).for_each(|row| mask.set(row));
        let start = 1000;
        let mut first = start;
        let runs: Vec<Texts<'_>> = stored.iter().map(|(bytes, offsets, nulls)| {
            let run = Texts { first, bytes, offsets, nulls: nulls.clone() };
            first += offsets.len() - 1;
            run
        }).collect();
        test.narrow(&runs, start, negated, &mut mask);
        let kept = mask.into_boolean_buffer();
        for row in 0..texts.len() {
            let passes = expected.is_valid(row) && expected.value(row);
            prop_assert_eq!(kept.value(row), passes && row % keep == 0, "row {} of {:?}", row, texts);
        }
    }
}

/// The texts as two runs, each behind bytes that belong to nobody.
fn parts(texts: &[Option<String>], cut: f64) -> Vec<(Vec<u8>, Vec<u32>, Option<NullBuffer>)> {
    let (first, second) = texts.split_at((texts.len() as f64 * cut) as usize);
    let stored = |texts: &[Option<String>]| {
        let mut bytes = b"ab".to_vec();
        let mut offsets = vec![2];
        for text in texts {
            bytes.extend(text.iter().flat_map(|text| text.bytes()));
            offsets.push(bytes.len() as u32);
        }
        bytes.extend(b"ab");
        let nulls = texts.iter().any(Option::is_none);
        (bytes, offsets, nulls.then(|| texts.iter().map(Option::is_some).collect()))
    };
    vec![stored(first), stored(second)]
}

#[test]
fn a_place_that_reaches_into_the_next_row_is_none() {
    let test = TextTest::like("%aab%", false);
    // Of the rows together "aab" is found first from row 0 to row 1, then, from its second byte, within row 1.
    let (bytes, offsets) = (b"xaaabxaabaab".as_slice(), [0, 2, 6, 12]);
    let mut mask = Mask::full(3);
    test.narrow(&[Texts { first: 0, bytes, offsets: &offsets, nulls: None }], 0, false, &mut mask);
    let kept: Vec<bool> = mask.into_boolean_buffer().iter().collect();
    assert_eq!(kept, [false, true, true]);
}

#[test]
fn only_how_a_text_begins() {
    for (pattern, prefix) in [
        ("abc%", Some("abc")),
        ("abc%%", Some("abc")),
        ("a\\%b%", Some("a%b")),
        ("abc", None),
        ("%abc", None),
        ("%", None),
        ("a_%", None),
        ("a%b%", None),
        ("a%b", None),
    ] {
        assert_eq!(TextTest::like(pattern, false).prefix(), prefix, "{pattern}");
    }
}
