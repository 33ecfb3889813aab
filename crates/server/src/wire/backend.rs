//! What the server sends, put together in a buffer.

use nearside::About;

use super::Format;

/// The state of a session's transaction, as each `ReadyForQuery` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// There is none.
    Idle,
    /// It goes on.
    Open,
    /// A statement of it has failed.
    Failed,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What it is called.
    pub name: String,
    /// The number of its type.
    pub oid: u32,
    /// How many bytes a value has; negative where that differs.
    pub length: i16,
    /// What is more to say of the type; -1 for nothing.
    pub modifier: i32,
    /// How its values are written.
    pub format: Format,
}

/// An error or a notice: what its fields are, by their letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// `ERROR`, `FATAL`, `WARNING`, ..
    pub severity: &'static str,
    /// The SQLSTATE.
    pub code: &'static str,
    /// What has happened.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// What was being done.
    pub context: Option<String>,
    /// Which character of the client's text it is about, counted from 1.
    pub position: Option<u64>,
    /// The table that it is about, and the column or the constraint.
    pub about: Option<About>,
    /// What PostgreSQL calls the place in its source.
    pub routine: Option<&'static str>,
}

/// Messages that are not sent yet.
#[derive(Debug, Default)]
pub struct Output(pub Vec<u8>);

impl Output {
    /// Puts a message together; `body` writes what stands behind its length.
    fn message(&mut self, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin(tag);
        body(&mut self.0);
        self.end(start);
    }

    /// Begins a message; [`end`](Self::end) is told what this returns.
    pub fn begin(&mut self, tag: u8) -> usize {
        self.0.push(tag);
        self.0.extend([0; 4]);
        self.0.len() - 4
    }

    /// Ends a message.
    pub fn end(&mut self, start: usize) {
        // No message comes near to this: rows are checked where they are written.
        let length = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        self.0[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Takes back a message that has begun.
    pub fn take_back(&mut self, start: usize) {
        self.0.truncate(start - 1);
    }

    /// `Authentication..`, with what belongs to it.
    pub fn authentication(&mut self, kind: u32, data: &[u8]) {
        self.message(b'R', |to| {
            to.extend(kind.to_be_bytes());
            to.extend(data);
        });
    }

    /// `ParameterStatus`.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |to| {
            text(name, to);
            text(value, to);
        });
    }

    /// `BackendKeyData`.
    pub fn backend_key(&mut self, number: i32, key: &[u8]) {
        self.message(b'K', |to| {
            to.extend(number.to_be_bytes());
            to.extend(key);
        });
    }

    /// `NegotiateProtocolVersion`: the newest minor version, and the options that are not known.
    pub fn negotiate(&mut self, version: u32, options: &[String]) {
        self.message(b'v', |to| {
            to.extend(version.to_be_bytes());
            to.extend((options.len() as u32).to_be_bytes());
            options.iter().for_each(|option| text(option, to));
        });
    }

    /// `ReadyForQuery`.
    pub fn ready(&mut self, status: Status) {
        let status = match status {
            Status::Idle => b'I',
            Status::Open => b'T',
            Status::Failed => b'E',
        };
        self.message(b'Z', |to| to.push(status));
    }

    /// `ErrorResponse`.
    pub fn error(&mut self, report: &Report) {
        self.message(b'E', |to| fields(report, to));
    }

    /// `NoticeResponse`.
    pub fn notice(&mut self, report: &Report) {
        self.message(b'N', |to| fields(report, to));
    }

    /// `CommandComplete`.
    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |to| text(tag, to));
    }

    /// One that is nothing but its type: `ParseComplete` (1), `BindComplete` (2), `CloseComplete` (3), `NoData` (n),
    /// `EmptyQueryResponse` (I), `PortalSuspended` (s), `CopyDone` (c).
    pub fn empty(&mut self, tag: u8) {
        self.message(tag, |_| {});
    }

    /// `RowDescription`.
    pub fn columns(&mut self, columns: &[Column]) {
        self.message(b'T', |to| {
            to.extend((columns.len() as u16).to_be_bytes());
            for column in columns {
                text(&column.name, to);
                // Of no table that there is a number for.
                to.extend(0_u32.to_be_bytes());
                to.extend(0_u16.to_be_bytes());
                to.extend(column.oid.to_be_bytes());
                to.extend(column.length.to_be_bytes());
                to.extend(column.modifier.to_be_bytes());
                to.extend(column.format.code().to_be_bytes());
            }
        });
    }

    /// `ParameterDescription`.
    pub fn parameters(&mut self, oids: &[u32]) {
        self.message(b't', |to| {
            to.extend((oids.len() as u16).to_be_bytes());
            oids.iter().for_each(|oid| to.extend(oid.to_be_bytes()));
        });
    }

    /// `CopyInResponse` (G), `CopyOutResponse` (H).
    pub fn copy(&mut self, tag: u8, format: Format, columns: usize) {
        self.message(tag, |to| {
            to.push(format.code() as u8);
            to.extend((columns as u16).to_be_bytes());
            (0..columns).for_each(|_| to.extend(format.code().to_be_bytes()));
        });
    }
}

/// A text with a zero behind it; a zero within it would end it.
fn text(text: &str, to: &mut Vec<u8>) {
    to.extend(text.bytes().filter(|byte| *byte != 0));
    to.push(0);
}

fn fields(report: &Report, to: &mut Vec<u8>) {
    let mut field = |letter: u8, value: &str| {
        to.push(letter);
        text(value, to);
    };
    field(b'S', report.severity);
    field(b'V', report.severity);
    field(b'C', report.code);
    field(b'M', &report.message);
    if let Some(hint) = &report.hint {
        field(b'H', hint);
    }
    if let Some(position) = report.position {
        field(b'P', &position.to_string());
    }
    if let Some(context) = &report.context {
        field(b'W', context);
    }
    if let Some(about) = &report.about {
        field(b's', &about.schema);
        field(b't', &about.table);
        if let Some(column) = &about.column {
            field(b'c', column);
        }
        if let Some(constraint) = &about.constraint {
            field(b'n', constraint);
        }
    }
    if let Some(routine) = report.routine {
        field(b'R', routine);
    }
    to.push(0);
}
