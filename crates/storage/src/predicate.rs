//! Predicates after their translation into codes.

/// Which codes of one column and part pass. NULL, where the column has any, is code 0 and passes only where a variant
/// includes that code: three-valued logic is the translator's business.
#[derive(Debug, Clone)]
pub enum CodePredicate {
    /// No code passes.
    Nothing,
    /// Every code passes.
    Everything,
    /// The codes `lo ..= hi` pass; none where `lo > hi`.
    Range {
        /// The lowest code that passes.
        lo: u32,
        /// The highest code that passes.
        hi: u32,
    },
    /// The codes outside `lo ..= hi` pass; all where `lo > hi`.
    NotRange {
        /// The lowest code that does not pass.
        lo: u32,
        /// The highest code that does not pass.
        hi: u32,
    },
    /// The codes of the set pass.
    Set(std::sync::Arc<CodeSet>),
}

/// What the smallest and the largest code of some rows say about all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    Everything,
    /// Each row has to be looked at.
    Unsure,
}

impl CodePredicate {
    /// True where `code` passes: the meaning that the kernels are tested against.
    pub fn passes(&self, code: u32) -> bool {
        match self {
            CodePredicate::Nothing => false,
            CodePredicate::Everything => true,
            CodePredicate::Range { lo, hi } => (*lo..=*hi).contains(&code),
            CodePredicate::NotRange { lo, hi } => !(*lo..=*hi).contains(&code),
            CodePredicate::Set(set) => set.contains(code),
        }
    }

    /// What holds for rows whose codes lie in `min ..= max`, both of which occur.
    pub(crate) fn outcome(&self, min: u32, max: u32) -> Outcome {
        match self {
            CodePredicate::Nothing => Outcome::Nothing,
            CodePredicate::Everything => Outcome::Everything,
            CodePredicate::Range { lo, hi } => range_outcome(*lo, *hi, min, max),
            CodePredicate::NotRange { lo, hi } => match range_outcome(*lo, *hi, min, max) {
                Outcome::Nothing => Outcome::Everything,
                Outcome::Everything => Outcome::Nothing,
                Outcome::Unsure => Outcome::Unsure,
            },
            CodePredicate::Set(set) => set.outcome(min, max),
        }
    }
}

fn range_outcome(lo: u32, hi: u32, min: u32, max: u32) -> Outcome {
    if lo > hi || hi < min || max < lo {
        Outcome::Nothing
    } else if lo <= min && max <= hi {
        Outcome::Everything
    } else {
        Outcome::Unsure
    }
}

/// A set of codes, as a bitmap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeSet {
    words: Vec<u32>,
    len: usize,
}

/// Summaries look into a set only over ranges that are cheaper to walk, a word at a time, than the granule.
const SUMMARY_CODES_MAX: u32 = 256 << 10;

impl CodeSet {
    /// The set of `codes`, in any order, repeats allowed.
    pub fn new(codes: impl IntoIterator<Item = u32>) -> CodeSet {
        let mut set = CodeSet::default();
        for code in codes {
            set.insert(code);
        }
        set
    }

    /// The set of the codes `first, first + 1, ..` whose flag is true.
    pub fn from_flags(first: u32, flags: impl IntoIterator<Item = bool>) -> CodeSet {
        CodeSet::new((first..).zip(flags).filter(|(_, flag)| *flag).map(|(code, _)| code))
    }

    /// The set of the codes of `ranges`.
    pub fn from_ranges(ranges: &[std::ops::Range<u32>]) -> CodeSet {
        let codes = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let mut words = vec![0; (codes as usize).div_ceil(32)];
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let first = range.start as usize / 32;
            let last = (range.end - 1) as usize / 32;
            let from = u32::MAX << (range.start % 32);
            let to = u32::MAX >> (31 - (range.end - 1) % 32);
            match first == last {
                true => words[first] |= from & to,
                false => {
                    words[first] |= from;
                    words[first + 1..last].fill(u32::MAX);
                    words[last] |= to;
                }
            }
        }
        CodeSet::from_words(words)
    }

    /// The set whose bitmap is given: bit `code % 32` of word `code / 32`.
    pub fn from_words(words: Vec<u32>) -> CodeSet {
        let len = words.iter().map(|word| word.count_ones() as usize).sum();
        CodeSet { words, len }
    }

    /// Adds a code.
    pub fn insert(&mut self, code: u32) {
        let word = code as usize / 32;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (code % 32);
        self.len += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// True where `code` is in the set.
    pub fn contains(&self, code: u32) -> bool {
        self.words.get(code as usize / 32).is_some_and(|word| word >> (code % 32) & 1 == 1)
    }

    /// How many codes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The codes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(i as u32 * 32 + bit)
            })
        })
    }

    /// The bitmap: bit `code % 32` of word `code / 32`.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    fn outcome(&self, min: u32, max: u32) -> Outcome {
        if self.is_empty() {
            return Outcome::Nothing;
        }
        if max - min >= SUMMARY_CODES_MAX {
            return Outcome::Unsure;
        }
        let first = min as usize / 32;
        let last = max as usize / 32;
        let mut any = false;
        let mut all = true;
        // Mostly one word tells that some codes are in the set and some are not.
        for place in first..=last {
            let below = if place == first { u32::MAX << (min % 32) } else { u32::MAX };
            let above = if place == last { u32::MAX >> (31 - max % 32) } else { u32::MAX };
            let within = self.words.get(place).copied().unwrap_or(0) & below & above;
            any |= within != 0;
            all &= within == below & above;
            if any && !all {
                return Outcome::Unsure;
            }
        }
        if all { Outcome::Everything } else { Outcome::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_count_each_code_once_and_list_them_in_order() {
        let set = CodeSet::new([70, 3, 3, 0, 31, 32]);
        assert_eq!(set.len(), 5);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 31, 32, 70]);
        assert!(set.contains(70) && !set.contains(71) && !set.contains(1 << 30));
        assert_eq!(CodeSet::from_words(vec![1 << 3, 0, 1 << 6]), CodeSet::new([3, 70]));
        for ranges in [&[0..0, 0..0][..], &[5..6, 5..6], &[0..32, 32..33, 90..200], &[31..64, 63..96, 7..9]] {
            assert_eq!(CodeSet::from_ranges(ranges), CodeSet::new(ranges.iter().cloned().flatten()));
        }
        assert_eq!(CodeSet::from_flags(5, [true, false, true]).iter().collect::<Vec<_>>(), [5, 7]);
    }

    #[test]
    fn outcomes_agree_with_looking_at_every_code() {
        let set = std::sync::Arc::new(CodeSet::new([2, 3, 4, 9]));
        let far: Vec<u32> = (0..200).filter(|c| c % 7 == 3 || (40..120).contains(c)).collect();
        let wide = CodeSet::new(far.clone());
        for (min, max) in (0..230).flat_map(|min| (min..230).map(move |max| (min, max))) {
            let expected = match far.iter().filter(|c| (min..=max).contains(*c)).count() as u32 {
                0 => Outcome::Nothing,
                n if n == max - min + 1 => Outcome::Everything,
                _ => Outcome::Unsure,
            };
            assert_eq!(wide.outcome(min, max), expected, "{min} {max}");
        }
        let mut predicates = vec![CodePredicate::Nothing, CodePredicate::Everything, CodePredicate::Set(set)];
        for lo in 0..6 {
            for hi in 0..6 {
                predicates.push(CodePredicate::Range { lo, hi });
                predicates.push(CodePredicate::NotRange { lo, hi });
            }
        }
        for predicate in &predicates {
            for min in 0..12 {
                for max in min..12 {
                    let passing = (min..=max).filter(|&c| predicate.passes(c)).count();
                    match predicate.outcome(min, max) {
                        Outcome::Nothing => assert_eq!(passing, 0, "{predicate:?} {min} {max}"),
                        Outcome::Everything => assert_eq!(passing as u32, max - min + 1, "{predicate:?} {min} {max}"),
                        Outcome::Unsure => assert!(passing > 0 && passing as u32 <= max - min, "{predicate:?}"),
                    }
                }
            }
        }
    }
}
