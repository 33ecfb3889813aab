//! Texts that become parts of statements: `quote_ident`, `quote_literal`, `quote_nullable` and `format`, as PostgreSQL
//! has them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::{statement_err, value_err};

/// Words of PostgreSQL 15's grammar that are no names everywhere, in order.
const WORDS: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both \
    case cast char character check coalesce collate collation column concurrently constraint create cross \
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec \
    decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign \
    freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect \
    interval into is isnull join lateral leading least left like limit localtime localtimestamp national natural \
    nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay \
    placing position precision primary real references returning right row select session_user setof similar \
    smallint some substring symmetric table tablesample then time timestamp to trailing treat trim true union \
    unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement \
    xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// The functions.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 4] {
    let signature = || Signature::user_defined(Volatility::Immutable);
    let all = [Quoting::Ident, Quoting::Literal, Quoting::Nullable, Quoting::Format];
    all.map(|kind| Arc::new(ScalarUDF::from(Quoted { kind, signature: signature() })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Quoting {
    Ident,
    Literal,
    Nullable,
    Format,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quoted {
    kind: Quoting,
    signature: Signature,
}

/// A name as it stands in a statement: in quotes where it would be another one without.
pub(crate) fn ident(name: &str) -> String {
    let is_first = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_plain = name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit());
    match is_plain && !WORDS.split(' ').any(|word| word == name) {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A text as it stands in a statement; with a backslash as `E'..'`, whatever a backslash means there.
fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// A place of a format: `%[position$][-][width]type`.
struct Place {
    position: Option<usize>,
    is_left: bool,
    width: Width,
    kind: char,
}

enum Width {
    None,
    Of(i64),
    /// That of the next argument, or of one by its position.
    Argument(Option<usize>),
}

/// Reads a format from left to right.
struct Reader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
}

impl Reader<'_> {
    fn takes(&mut self, wanted: char) -> bool {
        self.chars.next_if_eq(&wanted).is_some()
    }

    fn number(&mut self) -> Result<Option<usize>> {
        let mut number = None;
        while let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(10)) {
            self.chars.next();
            let next = number.unwrap_or(0_usize) * 10 + digit as usize;
            if next > i32::MAX as usize {
                return value_err!(NumericValueOutOfRange, "format(): a number of the format is too large");
            }
            number = Some(next);
        }
        Ok(number)
    }

    fn position(number: usize) -> Result<Option<usize>> {
        match number {
            0 => value_err!(InvalidParameterValue, "format(): arguments are counted from 1, and the format says 0"),
            number => Ok(Some(number)),
        }
    }

    /// What stands behind a `%`.
    fn place(&mut self) -> Result<Place> {
        let mut place = Place { position: None, is_left: false, width: Width::None, kind: ' ' };
        match self.number()? {
            Some(number) if self.takes('$') => place.position = Reader::position(number)?,
            Some(width) => place.width = Width::Of(width as i64),
            None => {}
        }
        if matches!(place.width, Width::None) {
            while self.takes('-') {
                place.is_left = true;
            }
            if self.takes('*') {
                place.width = Width::Argument(match self.number()? {
                    Some(number) if self.takes('$') => Reader::position(number)?,
                    Some(_) => {
                        return value_err!(
                            InvalidParameterValue,
                            "format(): the position of a width ends with $, as in %*1$s"
                        );
                    }
                    None => None,
                });
            } else if let Some(width) = self.number()? {
                place.width = Width::Of(width as i64);
            }
        }
        match self.chars.next() {
            Some(kind) => place.kind = kind,
            None => return value_err!(InvalidParameterValue, "format(): the format ends within a %; write %% for one"),
        }
        Ok(place)
    }
}

/// Arguments of a row, which are taken in turn or by position.
struct Arguments<'a> {
    all: &'a [&'a StringViewArray],
    row: usize,
    next: usize,
}

impl<'a> Arguments<'a> {
    /// The argument at a position, or the next one; positions go on behind the last one that was taken.
    fn take(&mut self, position: Option<usize>) -> Result<Option<&'a str>> {
        let place = position.map_or(self.next, |position| position - 1);
        self.next = place + 1;
        let Some(values) = self.all.get(place) else {
            return value_err!(
                InvalidParameterValue,
                "format(): there are {} arguments, and the format asks for number {}",
                self.all.len(),
                place + 1
            );
        };
        Ok(values.is_valid(self.row).then(|| values.value(self.row)))
    }
}

/// A row's text.
fn formatted(format: &str, mut arguments: Arguments<'_>) -> Result<String> {
    let mut text = String::with_capacity(format.len());
    let mut reader = Reader { chars: format.chars().peekable() };
    while let Some(c) = reader.chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        if reader.takes('%') {
            text.push('%');
            continue;
        }
        let place = reader.place()?;
        if !matches!(place.kind, 's' | 'I' | 'L') {
            return value_err!(
                InvalidParameterValue,
                "format(): there is no %{}; there are %s, %I, %L, and %% for one %",
                place.kind
            );
        }
        let width = match place.width {
            Width::None => 0,
            Width::Of(width) => width,
            Width::Argument(position) => match arguments.take(position)?.map(|text| (text, text.parse::<i32>())) {
                None => 0,
                Some((_, Ok(width))) => width.into(),
                Some((text, Err(_))) => {
                    return value_err!(InvalidParameterValue, "format(): the width '{text}' is no integer");
                }
            },
        };
        let value = match (place.kind, arguments.take(place.position)?) {
            ('s', value) => value.unwrap_or_default().to_string(),
            ('I', Some(value)) => ident(value),
            ('I', None) => return value_err!(InvalidParameterValue, "format(): NULL is no name, and %I writes names"),
            (_, Some(value)) => literal(value),
            (_, None) => "NULL".to_string(),
        };
        let blanks = (width.unsigned_abs() as usize).saturating_sub(value.chars().count());
        let is_left = place.is_left || width < 0;
        if is_left {
            text.push_str(&value);
        }
        text.extend(std::iter::repeat_n(' ', blanks));
        if !is_left {
            text.push_str(&value);
        }
    }
    Ok(text)
}

impl ScalarUDFImpl for Quoted {
    fn name(&self) -> &str {
        match self.kind {
            Quoting::Ident => "quote_ident",
            Quoting::Literal => "quote_literal",
            Quoting::Nullable => "quote_nullable",
            Quoting::Format => "format",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        let fits = match (self.kind, types) {
            (Quoting::Ident, [of]) => is_text(of),
            (Quoting::Literal | Quoting::Nullable, [_]) => true,
            (Quoting::Format, [of, ..]) => is_text(of),
            _ => false,
        };
        match fits {
            true => Ok(vec![DataType::Utf8View; types.len()]),
            false => {
                let arguments = match self.kind {
                    Quoting::Ident => "one text",
                    Quoting::Format => "a text that says how, and what to write",
                    _ => "one value",
                };
                statement_err!(UndefinedFunction, "{} takes {arguments}", self.name())
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let texts = |arg: &ColumnarValue| Ok(cast(&arg.to_array(rows)?, &DataType::Utf8View)?);
        let all = args.args.iter().map(texts).collect::<Result<Vec<ArrayRef>>>()?;
        let all: Vec<&StringViewArray> = all.iter().map(|texts| texts.as_string_view()).collect();
        let mut results = StringViewBuilder::with_capacity(rows);
        for row in 0..rows {
            let first = all[0].is_valid(row).then(|| all[0].value(row));
            results.append_option(match (self.kind, first) {
                (Quoting::Nullable, None) => Some("NULL".to_string()),
                (_, None) => None,
                (Quoting::Ident, Some(name)) => Some(ident(name)),
                (Quoting::Literal | Quoting::Nullable, Some(value)) => Some(literal(value)),
                (Quoting::Format, Some(format)) => Some(formatted(format, Arguments { all: &all[1..], row, next: 0 })?),
            });
        }
        let results: ArrayRef = Arc::new(results.finish());
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?),
            false => ColumnarValue::Array(results),
        })
    }
}
