//! COPY's binary format: a signature, rows of values behind their lengths, and a mark at the end.

use crate::fault::{Fault, codes};

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// How long a row may be.
const ROW_MAX: usize = 64 << 20;

/// What stands before the rows.
pub fn write_header(to: &mut Vec<u8>) {
    to.extend(SIGNATURE);
    // No flags, and nothing more to be said.
    to.extend([0; 8]);
}

/// What stands behind them.
pub fn write_trailer(to: &mut Vec<u8>) {
    to.extend((-1_i16).to_be_bytes());
}

fn bad(message: impl Into<String>) -> Fault {
    Fault::new(codes::BAD_COPY_FILE_FORMAT, message)
}

/// Rows, as their bytes arrive.
#[derive(Debug, Default)]
pub struct BinaryReader {
    buffer: Vec<u8>,
    start: usize,
    has_begun: bool,
    has_ended: bool,
    /// How many rows were read.
    pub rows: u64,
}

impl BinaryReader {
    /// Bytes arrive. Rows that are whole have to be taken first.
    ///
    /// # Errors
    /// A row is too long; there is more behind the end.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.has_ended && !bytes.is_empty() {
            return Err(bad("received copy data after EOF marker"));
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.len() > ROW_MAX {
            return Err(Fault::new(codes::LIMIT_EXCEEDED, format!("a row of COPY is longer than {ROW_MAX} bytes")));
        }
        self.buffer.extend(bytes);
        Ok(())
    }

    /// The values of the next row that is whole, `None` for NULL.
    ///
    /// # Errors
    /// It is not as the format has it.
    pub fn next(&mut self) -> Result<Option<Vec<Option<&[u8]>>>, Fault> {
        let Some(start) = self.header()? else { return Ok(None) };
        let mut at = start;
        let Some(count) = self.array(&mut at).map(i16::from_be_bytes) else { return Ok(None) };
        if count == -1 {
            self.has_ended = true;
            self.start = at;
            return if at == self.buffer.len() { Ok(None) } else { Err(bad("received copy data after EOF marker")) };
        }
        let mut places = Vec::new();
        for _ in 0..count {
            let Some(length) = self.array(&mut at).map(i32::from_be_bytes) else { return Ok(None) };
            match usize::try_from(length) {
                Ok(length) if length > ROW_MAX => return Err(bad("a value of COPY is too long")),
                Ok(length) => {
                    if self.buffer.len() - at < length {
                        return Ok(None);
                    }
                    places.push(Some(at..at + length));
                    at += length;
                }
                Err(_) if length == -1 => places.push(None),
                Err(_) => return Err(bad("invalid field size")),
            }
        }
        self.start = at;
        self.rows += 1;
        Ok(Some(places.into_iter().map(|place| place.map(|place| &self.buffer[place])).collect()))
    }

    /// Whether it may end here: behind its mark, or, as PostgreSQL has it, behind a row.
    ///
    /// # Errors
    /// It may not.
    pub fn end(&self) -> Result<(), Fault> {
        match (self.has_ended, self.has_begun) {
            (true, _) => Ok(()),
            (false, true) if self.start == self.buffer.len() => Ok(()),
            (false, true) => Err(bad("unexpected EOF in COPY data")),
            (false, false) => Err(bad("COPY file signature not recognized")),
        }
    }

    /// Where the rows that were not taken begin.
    fn header(&mut self) -> Result<Option<usize>, Fault> {
        if self.has_ended {
            return Ok(None);
        }
        if self.has_begun {
            return Ok(Some(self.start));
        }
        let common = self.buffer.len().min(SIGNATURE.len());
        if self.buffer[..common] != SIGNATURE[..common] {
            return Err(bad("COPY file signature not recognized"));
        }
        let mut at = SIGNATURE.len();
        let (Some(flags), Some(length)) = (self.array(&mut at), self.array(&mut at)) else { return Ok(None) };
        if u32::from_be_bytes(flags) != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > ROW_MAX {
            return Err(bad("invalid COPY file header (wrong length)"));
        }
        if self.buffer.len() < at + length {
            return Ok(None);
        }
        self.has_begun = true;
        self.start = at + length;
        Ok(Some(self.start))
    }

    fn array<const N: usize>(&self, at: &mut usize) -> Option<[u8; N]> {
        let bytes = self.buffer.get(*at..*at + N)?;
        *at += N;
        bytes.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_in_whatever_pieces_they_come() {
        let mut data = Vec::new();
        write_header(&mut data);
        data.extend(b"\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\x02\0\0\0\0\0\0\0\x02bc");
        write_trailer(&mut data);
        for length in 1..data.len() {
            let mut reader = BinaryReader::default();
            let mut rows = Vec::new();
            for piece in data.chunks(length) {
                reader.push(piece).unwrap();
                while let Some(row) = reader.next().unwrap() {
                    rows.push(row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>());
                }
            }
            reader.end().unwrap();
            assert_eq!(rows, [[Some(b"a".to_vec()), None], [Some(vec![]), Some(b"bc".to_vec())]]);
            assert!(reader.push(b"x").is_err());
        }
        let mut reader = BinaryReader::default();
        reader.push(b"PGCOPX").unwrap();
        assert!(reader.next().is_err() && reader.end().is_err());
        // Some clients send no mark at the end.
        for (length, may_end) in [(data.len() - 2, true), (data.len() - 1, false), (data.len() - 3, false), (19, true)]
        {
            let mut reader = BinaryReader::default();
            reader.push(&data[..length]).unwrap();
            while reader.next().unwrap().is_some() {}
            assert_eq!(reader.end().is_ok(), may_end, "{length}");
        }
    }
}
