//! What the planner's library says, in words of SQL: messages, and expressions as it writes them.
//!
//! ```text
//! CAST(t.i AS Int64) + Int64(1)                           CAST(t.i AS BIGINT) + 1
//! t.s LIKE Utf8("a%")                                     t.s LIKE 'a%'
//! Cannot cast string 'abc' to value of Int32 type         'abc' cannot be read as INTEGER; TRY_CAST makes NULL of it
//! Cannot coerce arithmetic expression Int32 + Utf8 to ..  there is no INTEGER + VARCHAR; cast one side
//! ```
//!
//! # Limits
//! It goes by the library's texts: one that it does not know keeps its words, but for names of types and notations of
//! literals.

use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;

use super::types::sql_type;

/// What names begin with that stand in no statement.
const MADE: [&str; 2] = ["__nearside_", "__"];

/// A message with names of types and literals as SQL has them.
pub(crate) fn in_sql(message: &str) -> String {
    reworded(message, true)
}

/// An expression, or an operator's line of EXPLAIN, with literals and types as SQL has them. What stands between single
/// quotes stays: it is a text of the user's.
pub(crate) fn expression_in_sql(text: &str) -> String {
    reworded(&without_metadata(text), false)
}

/// A text without the library's notes of the types of literals, which it writes behind them.
fn without_metadata(text: &str) -> String {
    const NOTE: &str = " FieldMetadata { inner: {";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, note)) = rest.split_once(NOTE) {
        out.push_str(before);
        rest = note.split_once("} }").map_or("", |(_, behind)| behind);
    }
    out + rest
}

/// The way of both: `whole` messages have names of types by themselves, and quotes around what may be an expression of
/// the library's, or a text of the user's: there a word alone stays.
fn reworded(text: &str, whole: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut quoted = false;
    while let Some(next) = rest.chars().next() {
        if next == '\'' && !whole {
            let end = rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        if !is_of_name(next) {
            let after = &rest[next.len_utf8()..];
            let within_word = out.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric);
            quoted ^= next == '\'' && !within_word;
            out.push(next);
            rest = after;
            continue;
        }
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        let call = bracketed(behind);
        if let Some(text) = call.and_then(|inner| of_call(word, inner)) {
            out.push_str(&text);
            rest = &behind[call.map_or(0, |inner| inner.len() + 2)..];
        } else if (whole && !quoted || out.ends_with(" AS ") || out.ends_with("TRY_CAST("))
            && let Some(data_type) = simple_type(word)
        {
            out.push_str(&sql_type(&data_type));
        } else if let Some(made) = MADE.iter().find_map(|prefix| word.strip_prefix(prefix)) {
            // Under the name that users see, if it has one; an output that nobody named has none here either.
            if let Some((_, seen)) = made.split_once("_as_") {
                out.push_str(seen);
                continue;
            }
            match out.strip_suffix(" AS ").map(str::len) {
                Some(end) if made.starts_with("output_") => out.truncate(end),
                _ => out.push_str(made),
            }
        } else {
            out.push_str(word);
        }
    }
    out
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What stands between the bracket that a text begins with and the one that closes it.
fn bracketed(text: &str) -> Option<&str> {
    let text = text.strip_prefix('(')?;
    let mut depth = 0;
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            // A literal's text may hold quotes: those that end it stand before a bracket or a comma.
            '"' if !quoted => quoted = true,
            '"' if matches!(text[at + 1..].chars().next(), Some(')' | ',' | ':' | ']') | None) => quoted = false,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => return Some(&text[..at]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Types whose name is one word; not those whose words stand in sentences too.
fn simple_type(word: &str) -> Option<DataType> {
    let arrows = word.ends_with(|c: char| c.is_ascii_digit()) || matches!(word, "Utf8View" | "Boolean" | "BinaryView");
    match word {
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => None,
        _ => word.parse().ok().filter(|_| arrows),
    }
}

/// A type with parameters, a literal, or a function that only the library knows.
fn of_call(word: &str, inner: &str) -> Option<String> {
    if word == "__unnest_placeholder" {
        let list = inner.split(",depth=").next().unwrap_or(inner);
        return Some(format!("unnest({})", expression_in_sql(list)));
    }
    // These change nothing, or not the value.
    if word == "__nearside_flat" || word == "__nearside_step" {
        return Some(expression_in_sql(inner));
    }
    if word.chars().next().is_none_or(|c| !c.is_ascii_uppercase()) {
        return None;
    }
    literal(word, inner).or_else(|| {
        let data_type: DataType = format!("{word}({inner})").parse().ok()?;
        Some(sql_type(&data_type))
    })
}

/// A literal as the library writes it: its type, and the value in brackets.
fn literal(kind: &str, value: &str) -> Option<String> {
    let parts: Vec<&str> = value.split([',']).collect();
    match kind {
        "Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32" | "UInt64" | "Float16" | "Float32"
        | "Float64" | "Boolean" => Some(value.to_string()),
        "Utf8" | "LargeUtf8" | "Utf8View" => Some(match unquoted(value) {
            Some(text) => format!("'{}'", text.replace('\'', "''")),
            None => value.to_string(),
        }),
        "Binary" | "LargeBinary" | "BinaryView" => {
            unquoted(value).map(|bytes| format!("X'{}'", bytes.replace(',', "")))
        }
        "Date32" | "Date64" => Some(unquoted(value).map_or_else(|| value.into(), |day| format!("DATE '{day}'"))),
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" if parts.len() == 3 => Some(parts[0].to_string()),
        "TimestampSecond" => moment(parts[0], TimeUnit::Second),
        "TimestampMillisecond" => moment(parts[0], TimeUnit::Millisecond),
        "TimestampMicrosecond" => moment(parts[0], TimeUnit::Microsecond),
        "TimestampNanosecond" => moment(parts[0], TimeUnit::Nanosecond),
        "IntervalMonthDayNano" => Some(interval(value).unwrap_or_else(|| value.to_string())),
        "List" | "LargeList" | "FixedSizeList" if value.starts_with('[') => Some(value.to_string()),
        "Struct" if value.starts_with('{') => Some(value.to_string()),
        _ => None,
    }
}

fn unquoted(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// A point in time that is given by its count of units.
fn moment(count: &str, unit: TimeUnit) -> Option<String> {
    let Ok(count) = count.parse::<i64>() else { return Some(count.to_string()) };
    let counts = arrow::array::Int64Array::from(vec![count]);
    let moments = cast(&counts, &DataType::Timestamp(unit, None)).ok()?;
    let text = array_value_to_string(&moments, 0).ok()?;
    Some(format!("TIMESTAMP '{}'", text.replace('T', " ")))
}

/// `"IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }"`.
fn interval(value: &str) -> Option<String> {
    let part = |name: &str| {
        let (_, rest) = value.split_once(&format!("{name}: "))?;
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        rest[..end].parse::<i64>().ok()
    };
    let seconds = part("nanoseconds")? as f64 / 1e9;
    let parts = [(part("months")? as f64, "months"), (part("days")? as f64, "days"), (seconds, "seconds")];
    let parts = parts.iter().filter(|(n, _)| *n != 0.0).map(|(n, unit)| format!("{n} {unit}"));
    let text = parts.collect::<Vec<_>>().join(" ");
    Some(format!("INTERVAL '{}'", if text.is_empty() { "0 days" } else { &text }))
}

/// What a sentence of the library's means, if it is one of those that say too little, too much, or in other words.
pub(super) fn meaning(text: &str) -> Option<String> {
    of_cast(text).or_else(|| of_function(text)).or_else(|| of_operator(text)).or_else(|| of_query(text))
}

/// Why a time may be out of range.
const NANOSECONDS: &str = "TIMESTAMP has the years from 1678 to 2261; use TIMESTAMP(6)";

fn of_cast(text: &str) -> Option<String> {
    let of_values = "Types don't match and no valid cast exists, received data of type ";
    let types = match text.strip_prefix(of_values) {
        Some(types) => types.split_once(" for field of type "),
        None => text.strip_prefix("Cannot automatically convert ").and_then(|types| types.split_once(" to ")),
    };
    if let Some((from, to)) = types {
        let from = if from == "Binary" { "BYTEA" } else { from };
        let to = if to == "Binary" { "BYTEA" } else { to };
        return Some(format!("there is no cast of {from} to {to}; write a value of the type {to}"));
    }
    if let Some((value, data_type)) =
        text.strip_prefix("Can't cast value ").and_then(|rest| rest.split_once(" to type "))
    {
        return Some(format!("{value} does not fit {data_type}; cast to a wider type, or TRY_CAST makes NULL of it"));
    }
    if let Some((value, data_type)) =
        text.strip_prefix("Cannot cast string ").and_then(|rest| rest.split_once(" to value of "))
    {
        let data_type = data_type.trim_end_matches(" type");
        return Some(format!("{value} cannot be read as {data_type}; TRY_CAST makes NULL of it"));
    }
    if let Some(rest) = text.strip_prefix("Error parsing timestamp from ") {
        let (value, why) = rest.split_once(": ").unwrap_or((rest, "it has another form"));
        return Some(format!("{value} cannot be read as TIMESTAMP: {why}"));
    }
    if let Some(rest) = text.strip_prefix("Cannot cast to ")
        && let Some((data_type, value)) = rest.split_once(". Overflowing on ")
    {
        return Some(format!("{value} does not fit {data_type}; cast to another type, or TRY_CAST makes NULL of it"));
    }
    if let Some(rest) = text.strip_prefix("Overflow converting ")
        && let Some((value, _)) = rest.split_once(" to Nanosecond.")
    {
        return Some(format!("{value} is out of range: {NANOSECONDS}"));
    }
    if text.starts_with("Cannot cast ") && text.ends_with(": converted value exceeds the representable i64 range") {
        return Some(format!("a time is out of range: {NANOSECONDS}"));
    }
    let (value, rest) =
        text.split_once(" is too large to store in a ").or_else(|| text.split_once(" is too small to store in a "))?;
    let (_, precision) = rest.split_once(" of precision ")?;
    let (precision, bound) = precision.split_once(". M")?;
    let bound = bound.trim_start_matches("ax is ").trim_start_matches("in is ");
    Some(format!("{value} does not fit a DECIMAL of {precision} digits, which ends at {bound}"))
}

fn of_function(text: &str) -> Option<String> {
    if let Some(name) = text.strip_prefix("Invalid function '") {
        let (name, hint) = name.split_once('\'')?;
        if let Some(advice) = super::instead::advice(&name.to_lowercase()) {
            return Some(format!("function '{name}' does not exist; {advice}"));
        }
        let near = hint.split('\'').nth(1).and_then(|hint| super::nearest(name, std::iter::once(hint)));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        return Some(format!("function '{name}' does not exist{hint}"));
    }
    // What a function says of its arguments itself.
    if let Some((_, own)) = text.split_once("user-defined coercion failed with: ")
        && text.starts_with("Function '")
    {
        let own = own.split(". No function matches").next().unwrap_or(own);
        let kinds = ["Error during planning: ", "Execution error: ", "External error: "];
        return Some(kinds.iter().find_map(|kind| own.strip_prefix(kind)).unwrap_or(own).to_string());
    }
    if let Some(rest) = text.strip_prefix("Function '")
        && let Some((name, rest)) = rest.split_once("' expects ")
        && let Some((expected, found)) = rest.split_once(" arguments but received ")
    {
        let found: String = found.chars().take_while(char::is_ascii_digit).collect();
        return Some(format!("{name} takes {expected} arguments, not {found}"));
    }
    if let Some((_, call)) = text.split_once("No function matches the given name and argument types '") {
        let call = &call[..call.find("'. ").or_else(|| call.rfind('\''))?];
        return Some(format!("there is no function {call}; cast the arguments to types that it takes"));
    }
    if let Some(rest) = text.strip_prefix("Internal error: Function '").or_else(|| text.strip_prefix("Function '"))
        && let Some((name, _)) = rest.split_once("' failed to match any signature")
    {
        return Some(format!("{name} does not take arguments of these types; cast them"));
    }
    if text.starts_with("Substring without for/from is not valid") {
        return Some("substring takes a text and the place where the part begins".into());
    }
    None
}

fn of_operator(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("Cannot coerce arithmetic expression ")
        && let Some((operation, _)) = rest.split_once(" to valid types")
    {
        return Some(format!("there is no {operation}; cast one side"));
    }
    if let Some(rest) = text.strip_prefix("Cannot infer common argument type for ")
        && let Some((_, operation)) = rest.split_once(" operation ")
    {
        return Some(format!("there is no {operation}; cast one side"));
    }
    if let Some(operation) = text.strip_prefix("Cannot infer common type for bitwise operation ") {
        return Some(format!("there is no {}; cast one side", operation.replace("BIT_XOR", "#")));
    }
    if let Some(rest) = text.strip_prefix("There isn't a common type to coerce ")
        && let Some((types, operator)) = rest.split_once(" in ")
        && let Some((left, right)) = types.split_once(" and ")
    {
        return Some(format!("there is no {left} {} {right}; cast one side", operator.trim_end_matches(" expression")));
    }
    if let Some(found) = text.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ") {
        return Some(format!("NOT takes a BOOLEAN, not {found}"));
    }
    if text.starts_with("Unary operator '-' only supports") {
        return Some("- before a value takes a number or an INTERVAL; cast it".into());
    }
    let rest = text.strip_prefix("Cannot create filter with non-boolean predicate ")?;
    let (predicate, found) = rest.rsplit_once(" returning ")?;
    Some(format!("a condition is a BOOLEAN, and {predicate} is {found}"))
}

fn of_query(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("EXPLAIN option ")
        && let Some((option, _)) = rest.split_once(" is not supported by ")
    {
        return Some(format!("EXPLAIN with {option}; leave it out"));
    }
    if text.starts_with("Column in ")
        && let Some((_, rest)) = text.split_once(" column \"")
        && let Some((column, _)) = rest.split_once("\" must appear in the GROUP BY clause")
    {
        return Some(format!("column '{column}' must stand in GROUP BY or within an aggregate function"));
    }
    if let Some(rest) = text.strip_prefix("Inconsistent data length across values list: got ")
        && let Some((found, rest)) = rest.split_once(" values in row ")
        && let Some((row, expected)) = rest.split_once(" but expected ")
    {
        let row = row.parse::<usize>().ok()? + 1;
        return Some(format!("row {row} of VALUES has {found} values, and {expected} are expected"));
    }
    if let Some(rest) = text.strip_prefix("Too many columns! The subquery should only return one column: ") {
        return Some(format!("a query with one column is expected here, and this has several: {rest}"));
    }
    if let Some(found) = text.strip_prefix("Expected LIMIT to be an integer or null, but got ") {
        return Some(format!("LIMIT takes a number of rows, not {found}"));
    }
    if let Some(rest) = text.strip_prefix("Order by column out of bounds, specified: ")
        && let Some((place, most)) = rest.split_once(", max: ")
    {
        return Some(format!("ORDER BY {place}: there is no such column in the SELECT list, which has {most}"));
    }
    if text == "Only identifiers and literals are supported in tuples" {
        return Some("a row in brackets is supported beside another one, as in (a, b) = (1, 2); write ROW(..)".into());
    }
    if text == "Correlated scalar subquery must be aggregated to return at most one row" {
        return Some("a subquery that refers to the row outside it has to give one row; aggregate in it".into());
    }
    text.starts_with("unnest() can only be applied to").then(|| "unnest takes a list or a struct".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_types_are_those_of_sql() {
        for (library, sql) in [
            ("CAST(t.i AS Int64) + Int64(1)", "CAST(t.i AS BIGINT) + 1"),
            ("t.s LIKE Utf8(\"a%\") AND Boolean(true)", "t.s LIKE 'a%' AND true"),
            ("f(Utf8(\"it's \"so\"\"),Int32(-2))", "f('it''s \"so\"',-2)"),
            ("t.d > Date32(\"2020-01-01\")", "t.d > DATE '2020-01-01'"),
            ("Decimal128(1.5,2,1) * Float64(NULL)", "1.5 * NULL"),
            ("t.t < TimestampNanosecond(1577836800000000000, None)", "t.t < TIMESTAMP '2020-01-01 00:00:00'"),
            (
                "IntervalMonthDayNano(\"IntervalMonthDayNano { months: 1, days: 0, nanoseconds: 1500000000 }\")",
                "INTERVAL '1 months 1.5 seconds'",
            ),
            ("CAST(x AS Decimal128(10, 2))", "CAST(x AS DECIMAL(10, 2))"),
            ("CAST(x AS List(Utf8View))", "CAST(x AS VARCHAR[])"),
            ("CAST(x AS Timestamp(ns))", "CAST(x AS TIMESTAMP)"),
            ("__unnest_placeholder(t.l,depth=1) AS UNNEST(t.l)", "unnest(t.l) AS UNNEST(t.l)"),
            ("s = 'Int64(1)' AND \"Int64\" > 2", "s = 'Int64(1)' AND \"Int64\" > 2"),
            (
                "Window: by [] order [i] [sum(i) range first to current]",
                "Window: by [] order [i] [sum(i) range first to current]",
            ),
            ("sum(t.i) AS __nearside_output_6, 1 AS x", "sum(t.i), 1 AS x"),
            ("CAST(t.i AS Float64) > __subquery_6", "CAST(t.i AS DOUBLE) > subquery_6"),
            ("Int64(", "Int64("),
        ] {
            assert_eq!(expression_in_sql(library), sql);
        }
        for (library, sql) in [
            ("CASE types Int32 and Utf8View cannot be matched", "CASE types INTEGER and VARCHAR cannot be matched"),
            ("'sum(t.i + Int64(1))' of Struct(\"a\": Int64)", "'sum(t.i + 1)' of STRUCT(a BIGINT)"),
            ("'Int64' isn't Int64, 'x'::Utf8 is Utf8", "'Int64' isn't BIGINT, 'x'::VARCHAR is VARCHAR"),
            ("it can't be Timestamp(µs, \"UTC\") or Float64", "it can't be TIMESTAMP(6) WITH TIME ZONE or DOUBLE"),
            ("a List of Time, Date and Null", "a List of Time, Date and Null"),
        ] {
            assert_eq!(in_sql(library), sql);
        }
    }

    #[test]
    fn sentences_say_what_to_do() {
        let said = |text: &str| meaning(text).map(|text| in_sql(&text));
        for (library, sql) in [
            (
                "Can't cast value NaN to type Int32",
                "NaN does not fit INTEGER; cast to a wider type, or TRY_CAST makes NULL of it",
            ),
            ("Cannot cast string 'a' to value of Date32 type", "'a' cannot be read as DATE; TRY_CAST makes NULL of it"),
            (
                "Cannot coerce arithmetic expression Int32 + Utf8 to valid types",
                "there is no INTEGER + VARCHAR; cast one side",
            ),
            (
                "Cannot infer common argument type for comparison operation List(Int32) = Int64",
                "there is no INTEGER[] = BIGINT; cast one side",
            ),
            (
                "Function 'upper' expects 1 arguments but received 2. No function matches",
                "upper takes 1 arguments, not 2",
            ),
            (
                "123.4 is too large to store in a Decimal128 of precision 4. Max is 99.99",
                "123.4 does not fit a DECIMAL of 4 digits, which ends at 99.99",
            ),
            (
                "Function '> ANY' user-defined coercion failed with: External error: Int64 is no list. \
                 No function matches",
                "BIGINT is no list",
            ),
            ("Invalid function 'uper'. Did you mean 'upper'?", "function 'uper' does not exist; did you mean 'upper'?"),
            ("Invalid function 'foo'. Did you mean 'row_number'?", "function 'foo' does not exist"),
        ] {
            assert_eq!(said(library).as_deref(), Some(sql));
        }
        assert_eq!(said("a sentence that is understood"), None);
    }
}
