//! The reference answers of TPC-H at scales 0.01, 0.1 and 1, and the check of a result against them.
//!
//! An answer is right when it has the same rows in the order that ORDER BY decides (rows that tie may come in any
//! order) and every value is equal: numbers by value, whatever their scale; averages and quotients, whose number of
//! digits SQL leaves open, within one unit of the last digit that the result's type carries or a relative 1e-6; floats
//! within a relative 1e-6, for tables loaded with float columns. Names of columns are not compared.
//!
//! Generators of TPC-H agree in everything but random text: addresses, and comments. Where the tables hold another text
//! than the answers (see [`Text`]), those columns are left out and the check says so.
//!
//! # Limits
//! Where LIMIT cuts through a tie, any of the tied rows would be right; the check wants those of the reference. No
//! reference answer ends in such a tie.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::queries::Query;

const RELATIVE_TOLERANCE: f64 = 1e-6;

macro_rules! answers {
    ($scale:literal) => {
        answers!($scale; "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16",
            "17", "18", "19", "20", "21", "22")
    };
    ($scale:literal; $($number:literal),*) => {
        [$(include_str!(concat!("../../answers/sf", $scale, "/q", $number, ".csv"))),*]
    };
}

/// Per scale the files of the 22 answers: `|` between fields, a header line, NULL as nothing.
static ANSWERS: [(f64, [&str; 22]); 3] = [(0.01, answers!("0.01")), (0.1, answers!("0.1")), (1.0, answers!("1"))];

/// Which text the tables hold: comments and addresses are random, and generators differ in them and in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// That of the reference answers.
    OfTheAnswers,
    /// Another: addresses and comments are not compared, and query 13, which counts by them, has no answer.
    Other,
}

/// The query whose result depends on what comments say.
const QUERY_OF_COMMENTS: u8 = 13;

/// How a query's answer fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// As the reference says.
    Ok,
    /// As the reference says, but for addresses and comments: see [`Text::Other`].
    OkButText,
    /// There is no reference for this scale.
    NoAnswer,
    /// There is no reference for these comments: see [`Text::Other`].
    NoAnswerForText,
    /// The first difference.
    Differs(String),
    /// The query's error.
    Failed(String),
}

impl Check {
    /// Whether the run may be called a success.
    pub fn passes(&self) -> bool {
        !matches!(self, Check::Differs(_) | Check::Failed(_))
    }

    /// Whether there was an answer to compare with.
    pub fn was_compared(&self) -> bool {
        !matches!(self, Check::NoAnswer | Check::NoAnswerForText)
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Check::Ok => f.write_str("ok"),
            Check::OkButText => f.write_str("ok (the text is another generator's and was not compared)"),
            Check::NoAnswer => f.write_str("no answer for this scale"),
            Check::NoAnswerForText => f.write_str("no answer for this text, which is another generator's"),
            Check::Differs(what) => write!(f, "differs: {what}"),
            Check::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

/// Checks the result of `query` at `scale` over tables with `text`.
pub fn check(query: &Query, scale: f64, text: Text, schema: &Schema, batches: &[RecordBatch]) -> Check {
    let Some((_, answers)) = ANSWERS.iter().find(|(s, _)| *s == scale) else { return Check::NoAnswer };
    if text == Text::Other && query.number == QUERY_OF_COMMENTS {
        return Check::NoAnswerForText;
    }
    let expected = parse(answers[usize::from(query.number) - 1]);
    let mut columns = columns_of(query, schema);
    let mut skipped = false;
    if text == Text::Other {
        for column in columns.iter_mut().filter(|c| c.name.ends_with("_address") || c.name.ends_with("_comment")) {
            column.comparison = Comparison::Skip;
            skipped = true;
        }
    }
    match rows_of(batches).and_then(|got| compare(query.sort_columns, &columns, &got, &expected)) {
        Ok(()) if skipped => Check::OkButText,
        Ok(()) => Check::Ok,
        Err(difference) => Check::Differs(difference),
    }
}

/// How the values of a column are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Text,
    /// By numeric value, exactly.
    Exact,
    /// Within so much, or [`RELATIVE_TOLERANCE`].
    Near(f64),
    /// Not at all.
    Skip,
}

#[derive(Debug)]
struct Column {
    name: String,
    comparison: Comparison,
}

fn columns_of(query: &Query, schema: &Schema) -> Vec<Column> {
    let column = |(i, field): (usize, &std::sync::Arc<arrow::datatypes::Field>)| {
        let data_type = field.data_type();
        let last_digit = match data_type {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => 10f64.powi(-i32::from(*scale)),
            _ => 0.0,
        };
        let comparison = if data_type.is_floating() || query.quotient_columns.contains(&i) {
            Comparison::Near(last_digit)
        } else if data_type.is_numeric() {
            Comparison::Exact
        } else {
            Comparison::Text
        };
        Column { name: field.name().clone(), comparison }
    };
    schema.fields().iter().enumerate().map(column).collect()
}

fn parse(answer: &str) -> Vec<Vec<String>> {
    answer.lines().skip(1).map(|line| line.split('|').map(str::to_string).collect()).collect()
}

fn rows_of(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, String> {
    let options = FormatOptions::new().with_null("").with_display_error(false);
    let mut rows = Vec::new();
    for batch in batches {
        let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let formatters: Vec<_> = formatters.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        for row in 0..batch.num_rows() {
            let values = formatters.iter().map(|f| f.value(row).try_to_string());
            rows.push(values.collect::<Result<_, _>>().map_err(|e| e.to_string())?);
        }
    }
    Ok(rows)
}

fn compare(sort: &[usize], columns: &[Column], got: &[Vec<String>], expected: &[Vec<String>]) -> Result<(), String> {
    let width = expected.first().map_or(columns.len(), Vec::len);
    if columns.len() != width {
        return Err(format!("{} columns, expected {width}", columns.len()));
    }
    let difference = first_difference(sort, columns, got, expected);
    match (got.len() == expected.len(), difference) {
        (true, None) => Ok(()),
        (true, Some(difference)) => Err(difference),
        (false, None) => Err(format!("{} rows, expected {}", got.len(), expected.len())),
        (false, Some(difference)) => Err(format!("{} rows, expected {}; {difference}", got.len(), expected.len())),
    }
}

/// The first difference within the rows that both sides have, tied rows compared as sets.
fn first_difference(
    sort: &[usize],
    columns: &[Column],
    got: &[Vec<String>],
    expected: &[Vec<String>],
) -> Option<String> {
    let rows = got.len().min(expected.len());
    let key = |row: &[String]| sort.iter().map(|&i| canonical(&row[i])).collect::<Vec<_>>();
    let mut start = 0;
    while start < rows {
        let tied = key(&expected[start]);
        let ties = expected[start..rows].iter().take_while(|row| !sort.is_empty() && key(row) == tied).count().max(1);
        let end = start + ties;
        let got = in_any_order(columns, &got[start..end]);
        let expected = in_any_order(columns, &expected[start..end]);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            for ((column, got), expected) in columns.iter().zip(got.iter()).zip(expected.iter()) {
                if !equal(column.comparison, got, expected) {
                    let row = start + i + 1;
                    let name = &column.name;
                    return Some(format!("row {row}, column {name}: expected {}, got {}", shown(expected), shown(got)));
                }
            }
        }
        start = end;
    }
    None
}

/// The rows sorted by their exact columns, so that two sets of them can be compared side by side.
fn in_any_order<'a>(columns: &[Column], rows: &'a [Vec<String>]) -> Vec<&'a Vec<String>> {
    let mut rows: Vec<&Vec<String>> = rows.iter().collect();
    if rows.len() > 1 {
        let exact = |row: &Vec<String>| {
            let cells =
                row.iter().zip(columns).filter(|(_, c)| matches!(c.comparison, Comparison::Text | Comparison::Exact));
            cells.map(|(cell, _)| canonical(cell)).collect::<Vec<_>>()
        };
        rows.sort_by_cached_key(|row| exact(row));
    }
    rows
}

fn equal(comparison: Comparison, got: &str, expected: &str) -> bool {
    match comparison {
        Comparison::Text => got == expected,
        Comparison::Exact => canonical(got) == canonical(expected),
        Comparison::Near(last_digit) => match (got.parse::<f64>(), expected.parse::<f64>()) {
            // Half a unit would do if every engine rounded; some cut.
            (Ok(g), Ok(e)) => (g - e).abs() <= (last_digit * 1.000_001).max(e.abs() * RELATIVE_TOLERANCE),
            _ => got == expected,
        },
        Comparison::Skip => true,
    }
}

/// A decimal without the digits that do not matter: `380456.00` and `380456` are one value. Other text is left alone.
fn canonical(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let number = (!whole.is_empty() || !fraction.is_empty())
        && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    if !number {
        return text.to_string();
    }
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return "0".to_string();
    }
    format!("{sign}{whole}.{fraction}")
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "NULL" } else { value }
}

#[cfg(test)]
mod tests;
