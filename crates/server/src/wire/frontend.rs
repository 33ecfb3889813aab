//! What clients send, taken apart.

use bytes::Bytes;

use super::Format;

/// A message is not as the protocol has it; says how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

type Result<T> = std::result::Result<T, Malformed>;

fn malformed<T>(what: impl Into<String>) -> Result<T> {
    Err(Malformed(what.into()))
}

/// A statement or a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

/// `Parse`.
#[derive(Debug, PartialEq, Eq)]
pub struct Parse {
    /// What the statement is to be called; empty for the unnamed one.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// Types of the first parameters; 0 where the client leaves it to the server.
    pub types: Vec<u32>,
}

/// `Bind`.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind {
    /// What the portal is to be called; empty for the unnamed one.
    pub portal: String,
    /// The statement's name.
    pub statement: String,
    /// How values are written: one for all, or one each; none for text.
    pub formats: Vec<Format>,
    /// Values, `None` for NULL.
    pub values: Vec<Option<Bytes>>,
    /// How results are to be written: one for all, or one each; none for text.
    pub result_formats: Vec<Format>,
}

/// What a client sends once it is connected.
#[derive(Debug, PartialEq, Eq)]
pub enum Frontend {
    /// Statements in a text.
    Query(String),
    /// Prepares a statement.
    Parse(Parse),
    /// Gives a statement values.
    Bind(Bind),
    /// Asks for columns.
    Describe(Target, String),
    /// Runs a portal for so many rows; 0 for all.
    Execute(String, u32),
    /// Gives up a statement or a portal.
    Close(Target, String),
    /// The end of what belongs together.
    Sync,
    /// Asks for what is not sent yet.
    Flush,
    /// Data of COPY.
    CopyData(Bytes),
    /// The end of COPY's data.
    CopyDone,
    /// COPY is given up, for this reason.
    CopyFail(String),
    /// A call of a function by its number.
    FunctionCall,
    /// The end.
    Terminate,
}

/// Takes the body of a message apart.
///
/// # Errors
/// It is not as the protocol has it; the connection can go on behind it.
pub fn decode(tag: u8, body: Bytes) -> Result<Frontend> {
    let mut body = Body(body);
    let message = match tag {
        b'Q' => Frontend::Query(body.text()?),
        b'P' => {
            let (name, sql) = (body.text()?, body.text()?);
            let count = body.count()?;
            Frontend::Parse(Parse { name, sql, types: (0..count).map(|_| body.u32()).collect::<Result<_>>()? })
        }
        b'B' => body.bind()?,
        b'D' => Frontend::Describe(body.target("Describe")?, body.text()?),
        b'C' => Frontend::Close(body.target("Close")?, body.text()?),
        // A negative number of rows is none that a client can mean; PostgreSQL gives all.
        b'E' => Frontend::Execute(body.text()?, i32::from_be_bytes(body.array()?).try_into().unwrap_or(0)),
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'd' => return Ok(Frontend::CopyData(body.0)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(body.text()?),
        b'F' => return Ok(Frontend::FunctionCall),
        b'X' => Frontend::Terminate,
        other => return malformed(format!("invalid frontend message type {other}")),
    };
    match body.0.len() {
        0 => Ok(message),
        more => malformed(format!("a message has {more} bytes behind its end")),
    }
}

/// The longest message of a type, its length field included; `None` where there is no such type. `most` is for those
/// that hold statements or data.
pub fn length_max(tag: u8, most: usize) -> Option<usize> {
    /// What has a name in it at most.
    const SHORT: usize = 10_000;
    match tag {
        b'Q' | b'P' | b'B' | b'd' | b'F' => Some(most),
        b'D' | b'C' | b'E' | b'S' | b'H' | b'c' | b'f' | b'X' => Some(SHORT.min(most)),
        _ => None,
    }
}

/// What is left of a message.
struct Body(Bytes);

impl Body {
    fn take(&mut self, length: usize) -> Result<Bytes> {
        match length <= self.0.len() {
            true => Ok(self.0.split_to(length)),
            false => malformed("insufficient data left in message"),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        <[u8; N]>::try_from(bytes.as_ref()).or_else(|_| malformed("insufficient data left in message"))
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// How many of something follow, each of at least two bytes.
    fn count(&mut self) -> Result<usize> {
        let count = usize::from(u16::from_be_bytes(self.array()?));
        match count * 2 <= self.0.len() {
            true => Ok(count),
            false => malformed("insufficient data left in message"),
        }
    }

    fn text(&mut self) -> Result<String> {
        let Some(end) = self.0.iter().position(|byte| *byte == 0) else {
            return malformed("invalid string in message");
        };
        let text = self.take(end)?;
        self.take(1)?;
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(text.to_string()),
            Err(_) => malformed("invalid byte sequence for encoding \"UTF8\""),
        }
    }

    fn target(&mut self, of: &str) -> Result<Target> {
        match self.array::<1>()? {
            [b'S'] => Ok(Target::Statement),
            [b'P'] => Ok(Target::Portal),
            [other] => malformed(format!("invalid {of} message subtype {other}")),
        }
    }

    fn formats(&mut self) -> Result<Vec<Format>> {
        let count = self.count()?;
        let format = |code: [u8; 2]| match i16::from_be_bytes(code) {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => malformed(format!("unsupported format code: {other}")),
        };
        (0..count).map(|_| format(self.array()?)).collect()
    }

    fn bind(&mut self) -> Result<Frontend> {
        let (portal, statement) = (self.text()?, self.text()?);
        let formats = self.formats()?;
        let count = self.count()?;
        let mut values = Vec::new();
        for _ in 0..count {
            let length = i32::from_be_bytes(self.array()?);
            values.push(match usize::try_from(length) {
                Ok(length) => Some(self.take(length)?),
                Err(_) if length == -1 => None,
                Err(_) => return malformed("insufficient data left in message"),
            });
        }
        let result_formats = self.formats()?;
        if formats.len() > 1 && formats.len() != values.len() {
            return malformed(format!(
                "bind message has {} parameter formats but {} parameters",
                formats.len(),
                values.len()
            ));
        }
        Ok(Frontend::Bind(Bind { portal, statement, formats, values, result_formats }))
    }
}

/// The first message of a connection, behind its length.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    /// Encryption is asked for: by TLS, or in the way that there is not.
    Encryption { is_tls: bool },
    /// Another connection's statement is to be cancelled: its number and its key.
    Cancel(i32, Bytes),
    /// The client begins: major and minor version, parameters by name.
    Startup(u16, u16, Vec<(String, String)>),
}

/// Takes the first message apart.
///
/// # Errors
/// It is not as the protocol has it.
pub fn decode_first(body: Bytes) -> Result<First> {
    let mut body = Body(body);
    match body.u32()? {
        super::SSL_REQUEST if body.0.is_empty() => Ok(First::Encryption { is_tls: true }),
        super::GSS_REQUEST if body.0.is_empty() => Ok(First::Encryption { is_tls: false }),
        super::CANCEL_REQUEST => {
            let number = body.u32()?.cast_signed();
            match body.0.len() {
                // 4 bytes in 3.0, up to 256 in 3.2.
                4..=256 => Ok(First::Cancel(number, body.0)),
                _ => malformed("a key of another length"),
            }
        }
        version => {
            let mut parameters = Vec::new();
            loop {
                let name = body.text()?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, body.text()?));
            }
            match body.0.is_empty() {
                true => Ok(First::Startup((version >> 16) as u16, version as u16, parameters)),
                false => malformed("invalid startup packet layout: expected terminator as last byte"),
            }
        }
    }
}

/// Takes the first answer of a login apart: the mechanism that the client has chosen, and what it says by it.
///
/// # Errors
/// It is not as the protocol has it, or says nothing.
pub fn initial_response(body: Bytes) -> Result<(String, Bytes)> {
    let mut body = Body(body);
    let mechanism = body.text()?;
    let length = body.u32()?;
    match usize::try_from(length) {
        Ok(length) if length == body.0.len() => Ok((mechanism, body.0)),
        _ => malformed("invalid length of a SASL response"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: u8, body: &[u8]) -> Result<Frontend> {
        decode(tag, Bytes::copy_from_slice(body))
    }

    #[test]
    fn messages_are_taken_apart() {
        assert_eq!(read(b'Q', b"SELECT 1\0"), Ok(Frontend::Query("SELECT 1".into())));
        let parse = Parse { name: "a".into(), sql: "b".into(), types: vec![23, 0] };
        assert_eq!(read(b'P', b"a\0b\0\0\x02\0\0\0\x17\0\0\0\0"), Ok(Frontend::Parse(parse)));
        let bind = Bind {
            portal: String::new(),
            statement: "s".into(),
            formats: vec![Format::Binary],
            values: vec![Some(Bytes::from_static(b"xy")), None],
            result_formats: vec![],
        };
        let body = b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x02xy\xff\xff\xff\xff\0\0";
        assert_eq!(read(b'B', body), Ok(Frontend::Bind(bind)));
        assert_eq!(read(b'D', b"Pp\0"), Ok(Frontend::Describe(Target::Portal, "p".into())));
        assert_eq!(read(b'E', b"\0\0\0\0\x05"), Ok(Frontend::Execute(String::new(), 5)));
        assert_eq!(read(b'E', b"\0\xff\xff\xff\xff"), Ok(Frontend::Execute(String::new(), 0)));
        let body = [&0x0003_0000_u32.to_be_bytes()[..], b"user\0me\0\0"].concat();
        let parameters = vec![("user".to_string(), "me".to_string())];
        assert_eq!(decode_first(Bytes::from(body)), Ok(First::Startup(3, 0, parameters)));
    }

    #[test]
    fn every_cut_of_a_message_is_an_error() {
        let body = b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x02xy\xff\xff\xff\xff\0\0";
        for length in 0..body.len() {
            assert!(read(b'B', &body[..length]).is_err(), "{length}");
        }
        let more = [&body[..], b"\0"].concat();
        assert!(read(b'B', &more).is_err());
        // Counts and lengths of what is not there.
        for wrong in [
            &b"\0\0\xff\xff"[..],
            b"\0\0\0\0\xff\xff\0\0",
            b"\0\0\0\0\0\x01\x7f\xff\xff\xff",
            b"\0\0\0\0\0\x01\xff\xff\xff\xfe",
        ] {
            assert!(read(b'B', wrong).is_err(), "{wrong:?}");
        }
        assert!(read(b'P', b"a\0b\0\xff\xff").is_err());
        assert!(read(b'Q', b"\xff\xfe\0").is_err() && read(b'Q', b"no end").is_err() && read(b'z', b"").is_err());
        for wrong in [&b""[..], b"\0\x03", b"\0\x03\0\0user\0me\0", b"\0\x03\0\0user\0", b"\0\x03\0\0\0x"] {
            assert!(decode_first(Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
    }
}
