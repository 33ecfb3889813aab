//! The kernels one by one and path by path, for `nearside bench kernels`: what a loop over packed codes costs, without
//! tables around it.
//!
//! Codes are random bits, so one buffer serves every width. A pass goes granule by granule, as scans do; what it writes
//! (a mask, codes) stays in the core's caches.
//!
//! # Limits
//! Hidden from the documentation, and no stable interface.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::compare::{self, RangeTest};
use super::{MASK_WORDS, block_words, compress, gather, low_bits, member, unpack};
use crate::{BLOCK_ROWS, GRANULE_ROWS};

/// Every `n` rows one is gathered: at 32 bits each of them is a cache line of its own.
pub const GATHER_STRIDE: usize = 16;
/// Bits of the largest bitmap of a membership test; it is 16 KiB then.
const SET_BITS_MAX: u8 = 17;
/// Rows that are unpacked at a time: 8 KiB of codes.
const UNPACK_ROWS: usize = 2048;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// A range test into a bit mask.
    Range,
    /// A test for membership in a set of codes, into a bit mask.
    Member,
    /// Packed codes to 32-bit integers.
    Unpack,
    /// The codes at ascending positions, one of [`GATHER_STRIDE`] rows.
    Gather,
    /// The codes of marked rows, the same ones.
    Compress,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 5] = [Kernel::Range, Kernel::Member, Kernel::Unpack, Kernel::Gather, Kernel::Compress];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Range => "range",
            Kernel::Member => "member",
            Kernel::Unpack => "unpack",
            Kernel::Gather => "gather",
            Kernel::Compress => "compress",
        }
    }
}

/// Which instructions it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Any processor's.
    Scalar,
    /// 256-bit vectors of x86-64.
    Avx2,
    /// The same with the masks and shifts of AVX-512; some kernels have such a path.
    Avx512,
}

impl Path {
    /// Those of a kernel that this processor has, the plain one first.
    pub fn here(kernel: Kernel) -> Vec<Path> {
        #[cfg(target_arch = "x86_64")]
        {
            if super::have_avx512_compare() && matches!(kernel, Kernel::Range | Kernel::Compress) {
                return vec![Path::Scalar, Path::Avx2, Path::Avx512];
            }
            if super::have_avx2() {
                return vec![Path::Scalar, Path::Avx2];
            }
        }
        let _ = kernel;
        vec![Path::Scalar]
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Path::Scalar => "scalar",
            Path::Avx2 => "avx2",
            Path::Avx512 => "avx512",
        }
    }
}

/// Random words that are read as codes of some width, and room for what kernels write.
#[derive(Debug)]
pub struct Bench {
    words: Arc<[u32]>,
    bits: u8,
    granules: usize,
    at: usize,
    set: Vec<u32>,
    positions: Vec<u32>,
    /// The same as bits.
    marked: Vec<u64>,
    mask: Vec<u64>,
    codes: Vec<u32>,
}

/// Random words, `bytes` of them; the same ones each time.
pub fn random_words(bytes: usize) -> Arc<[u32]> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let random = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    });
    random.take(bytes / size_of::<u32>()).collect()
}

impl Bench {
    /// The words, of which at most the first `bytes` are used, as codes of 1 to 32 bits; `None` where they are less
    /// than a granule.
    pub fn new(words: &Arc<[u32]>, bytes: usize, bits: u8) -> Option<Bench> {
        assert!((1..=32).contains(&bits));
        let granule_words = GRANULE_ROWS / BLOCK_ROWS * block_words(bits);
        let granules = words.len().min(bytes / size_of::<u32>()) / granule_words;
        let set_bits = bits.min(SET_BITS_MAX);
        let random = |i: usize| (i as u32).wrapping_mul(0x9E37_79B9) >> 28;
        let positions: Vec<u32> =
            (0..GRANULE_ROWS / GATHER_STRIDE).map(|i| (i * GATHER_STRIDE) as u32 + random(i)).collect();
        let mut marked = vec![0_u64; GRANULE_ROWS / 64];
        positions.iter().for_each(|&row| marked[row as usize / 64] |= 1 << (row % 64));
        (granules > 0).then(|| Bench {
            words: Arc::clone(words),
            bits,
            granules,
            at: 0,
            // A third of the codes.
            set: vec![0x4924_9249; (1usize << set_bits).div_ceil(32)],
            positions,
            marked,
            mask: vec![0; GRANULE_ROWS / BLOCK_ROWS * MASK_WORDS],
            codes: Vec::with_capacity(GRANULE_ROWS + compress::STRIDE),
        })
    }

    /// Bytes that a pass reads.
    pub fn bytes(&self) -> usize {
        self.granules * self.granule_words() * size_of::<u32>()
    }

    /// Granules of a pass.
    pub fn granules(&self) -> usize {
        self.granules
    }

    /// Runs a kernel over the next granule, the first again after the last; gives how many rows it took (for
    /// [`Kernel::Gather`] and [`Kernel::Compress`]: how many it fetched).
    pub fn step(&mut self, kernel: Kernel, path: Path) -> usize {
        let granule = self.at;
        self.at = (self.at + 1) % self.granules;
        let size = self.granule_words();
        let words = &self.words[granule * size..][..size];
        match kernel {
            Kernel::Range | Kernel::Member => {
                self.mask.fill(u64::MAX);
                if kernel == Kernel::Range {
                    let top = low_bits(self.bits);
                    let test = RangeTest { lo: top / 4, hi: top - top / 4, negated: false };
                    range(path, words, self.bits, test, &mut self.mask);
                } else {
                    set(path, words, self.bits, &self.set, &mut self.mask);
                }
                black_box(&mut self.mask);
                GRANULE_ROWS
            }
            Kernel::Unpack => {
                self.codes.clear();
                self.codes.reserve(UNPACK_ROWS);
                let out = &mut self.codes.spare_capacity_mut()[..UNPACK_ROWS];
                for words in words.chunks_exact(UNPACK_ROWS / BLOCK_ROWS * block_words(self.bits)) {
                    unpack_blocks(path, words, self.bits, out);
                    black_box(&mut *out);
                }
                GRANULE_ROWS
            }
            Kernel::Gather => {
                self.codes.clear();
                gather_positions(path, words, self.bits, &self.positions, &mut self.codes);
                black_box(&mut self.codes);
                self.positions.len()
            }
            Kernel::Compress => {
                self.codes.clear();
                compress_marked(path, words, self.bits, &self.marked, self.positions.len(), &mut self.codes);
                black_box(&mut self.codes);
                self.positions.len()
            }
        }
    }

    fn granule_words(&self) -> usize {
        GRANULE_ROWS / BLOCK_ROWS * block_words(self.bits)
    }
}

fn range(path: Path, words: &[u32], bits: u8, test: RangeTest, mask: &mut [u64]) {
    match path {
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => compare::avx2::select_range(words, bits, test, mask),
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 => compare::avx512::select_range(words, bits, test, mask),
        _ => compare::scalar::select_range(words, bits, test, mask),
    }
}

fn set(path: Path, words: &[u32], bits: u8, set: &[u32], mask: &mut [u64]) {
    match path {
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => member::avx2::select_set(words, bits, set, mask),
        _ => member::scalar::select_set(words, bits, set, mask),
    }
}

fn unpack_blocks(path: Path, words: &[u32], bits: u8, out: &mut [MaybeUninit<u32>]) {
    match path {
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => unpack::avx2::unpack_blocks(words, bits, out),
        _ => unpack::scalar::unpack_blocks(words, bits, out),
    }
}

fn gather_positions(path: Path, words: &[u32], bits: u8, positions: &[u32], out: &mut Vec<u32>) {
    match path {
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => gather::avx2::gather(words, bits, positions, out),
        _ => gather::scalar::gather(words, bits, positions, out),
    }
}

fn compress_marked(path: Path, words: &[u32], bits: u8, mask: &[u64], marked: usize, out: &mut Vec<u32>) {
    match path {
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => compress::avx2::compress(words, bits, mask, marked, out),
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 => compress::avx512::compress(words, bits, mask, marked, out),
        _ => compress::scalar::compress(words, bits, mask, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_agree_and_go_round() {
        let words = random_words(1 << 20);
        for bits in [1, 7, 17, 32] {
            let mut bench = Bench::new(&words, 1 << 20, bits).expect("a granule");
            assert!(bench.bytes() <= 1 << 20 && bench.granules() >= 1);
            for kernel in Kernel::ALL {
                let mut seen = Vec::new();
                for path in Path::here(kernel) {
                    bench.at = 0;
                    let rows = bench.step(kernel, path);
                    assert_eq!(
                        rows,
                        if matches!(kernel, Kernel::Gather | Kernel::Compress) {
                            GRANULE_ROWS / GATHER_STRIDE
                        } else {
                            GRANULE_ROWS
                        }
                    );
                    assert_eq!(bench.at, 1 % bench.granules());
                    seen.push((bench.mask.clone(), bench.codes.clone()));
                }
                assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{kernel:?} of {bits} bits");
            }
        }
    }

    #[test]
    fn tests_keep_a_part_of_the_rows() {
        let words = random_words(1 << 20);
        let mut bench = Bench::new(&words, 1 << 20, 8).expect("a granule");
        let share = |mask: &[u64]| mask.iter().map(|w| w.count_ones()).sum::<u32>() as f64 / GRANULE_ROWS as f64;
        bench.step(Kernel::Range, Path::Scalar);
        assert!((0.45..0.55).contains(&share(&bench.mask)));
        bench.step(Kernel::Member, Path::Scalar);
        assert!((0.3..0.4).contains(&share(&bench.mask)));
    }

    #[test]
    fn less_than_a_granule_is_none() {
        assert!(Bench::new(&random_words(1 << 20), 4096, 32).is_none());
    }
}
