//! The elements of an array in a JSON object, as they stand in its text: a reader of JSON would make floating-point
//! numbers of numbers, and digits would be lost.
//!
//! The text was read as JSON before, so nothing is checked here; of a text that is none, something is returned.

/// The elements of the array that the object has under a key; nothing where there is none.
pub fn of(object: &str, key: &str) -> Vec<String> {
    let bytes = object.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    // The text behind the last thing of depth 1 that could be a key.
    let mut is_meant = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_text(bytes, at);
                if depth == 1 {
                    let text: Option<String> = object.get(at..end).and_then(|text| serde_json::from_str(text).ok());
                    let behind = object.get(end..).unwrap_or_default().trim_start();
                    is_meant = behind.starts_with(':') && text.as_deref() == Some(key);
                }
                at = end;
                continue;
            }
            b'[' if depth == 1 && is_meant => return elements(object, at + 1),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Vec::new()
}

/// The elements of an array that begins before a place.
fn elements(text: &str, begin: usize) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut found, mut depth, mut start, mut at) = (Vec::new(), 0_usize, begin, begin);
    let mut take = |from: usize, to: usize| {
        let one = text.get(from..to).unwrap_or_default().trim();
        if !one.is_empty() {
            found.push(one.to_string());
        }
    };
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_text(bytes, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth == 0 => {
                take(start, at);
                break;
            }
            b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                take(start, at);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The place behind a text that begins at one.
fn end_of_text(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_as_they_stand() {
        let text = r#" {"sql": "\"parameters\": [9]", "x": {"parameters": [8]}, "parameters" : [ 1.10 ,"a,\"]b", null,
            [1, {"a": "]"}], -2e5, true ] } "#;
        assert_eq!(of(text, "parameters"), ["1.10", r#""a,\"]b""#, "null", r#"[1, {"a": "]"}]"#, "-2e5", "true"]);
        assert_eq!(of(r#"{"param\u0065ters":[1]}"#, "parameters"), ["1"]);
        assert_eq!(of(r#"{"sql": "parameters", "a": [1]}"#, "parameters"), Vec::<String>::new());
        assert_eq!(of(r#"{"parameters": []}"#, "parameters"), Vec::<String>::new());
        // What is no JSON ends somewhere.
        for end in 0..text.len() {
            if let Some(cut) = text.get(..end) {
                of(cut, "parameters");
            }
        }
    }
}
