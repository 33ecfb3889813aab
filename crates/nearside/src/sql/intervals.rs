//! Intervals as PostgreSQL writes them, `1 day 02:03:04.5` and `-01:30`, in the words that the planner reads: each with
//! its unit.

use sqlparser::ast::{self, Value};

/// Writes a literal interval out in units.
pub(super) fn spell_out(expr: &mut ast::Expr) {
    let literal = match expr {
        ast::Expr::Interval(interval) if interval.leading_field.is_none() => interval.value.as_mut(),
        ast::Expr::Cast { expr, data_type: ast::DataType::Interval { .. }, .. } => expr.as_mut(),
        _ => return,
    };
    if let ast::Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = literal
        && let Some(units) = in_units(text)
    {
        *text = units;
    }
}

/// The text with hours, minutes and seconds in units; `None` where it has no such part, or one that is none.
fn in_units(text: &str) -> Option<String> {
    let mut words = Vec::new();
    let mut found = false;
    for word in text.split_whitespace() {
        if !word.contains(':') {
            words.push(word.to_string());
            continue;
        }
        // Two of them are no interval.
        if std::mem::replace(&mut found, true) {
            return None;
        }
        let (sign, clock) = match word.split_at_checked(1)? {
            ("-", clock) => ("-", clock),
            ("+", clock) => ("", clock),
            _ => ("", word),
        };
        let parts: Vec<&str> = clock.split(':').collect();
        let (hours, minutes, seconds) = match parts.as_slice() {
            [hours, minutes] => (hours, minutes, &"0"),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return None,
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let below_60 = |text: &str| is_number(text) && text.parse::<u32>().is_ok_and(|number| number < 60);
        let (whole, rest) = seconds.split_once('.').unwrap_or((seconds, "0"));
        if !(is_number(hours) && below_60(minutes) && below_60(whole) && is_number(rest)) {
            return None;
        }
        words.push(format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"));
    }
    found.then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::in_units;

    #[test]
    fn clocks_are_written_in_units() {
        let units = |text| in_units(text);
        assert_eq!(units("1 day 02:03:04.5").as_deref(), Some("1 day 02 hours 03 minutes 04.5 seconds"));
        assert_eq!(units("-1 days -01:30").as_deref(), Some("-1 days -01 hours -30 minutes -0 seconds"));
        assert_eq!(units("+27:00:00").as_deref(), Some("27 hours 00 minutes 00 seconds"));
        for other in ["1 day", "1:2:3:4", "1:60", "1:2 3:4", ":30", "1:x", "1:2:3.", ":", "-"] {
            assert_eq!(units(other), None, "{other}");
        }
    }
}
