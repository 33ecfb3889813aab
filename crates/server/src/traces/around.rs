//! The span that a request names as the one around it (W3C Trace Context: `traceparent` and `tracestate`).

use std::future::Future;

use hyper::header::HeaderMap;

tokio::task_local! {
    static AROUND: Option<Around>;
}

/// A span of somebody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Around {
    /// The trace that it is part of.
    pub trace_id: [u8; 16],
    /// Which span of it.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// What systems that pass it on keep in it.
    pub state: String,
}

impl Around {
    /// That of the request which is worked on, if it names one.
    pub(super) fn now() -> Option<Around> {
        AROUND.try_with(Clone::clone).ok().flatten()
    }

    /// That of a request; `None` where it names none, or not as it has to be.
    fn of(heads: &HeaderMap) -> Option<Around> {
        let mut parts = heads.get("traceparent")?.to_str().ok()?.trim().split('-');
        let (version, trace_id, span_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version: [u8; 1] = bytes_of(version)?;
        // Later versions may say more behind it.
        if version == [0xff] || (version == [0] && parts.next().is_some()) {
            return None;
        }
        let (trace_id, span_id, [flags]) = (bytes_of(trace_id)?, bytes_of(span_id)?, bytes_of::<1>(flags)?);
        if trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        let states = heads.get_all("tracestate").iter().filter_map(|state| state.to_str().ok());
        let state = states.collect::<Vec<_>>().join(",");
        Some(Around { trace_id, span_id, is_sampled: flags & 1 == 1, state })
    }
}

/// Bytes by their digits in lower case.
fn bytes_of<const N: usize>(digits: &str) -> Option<[u8; N]> {
    if digits.len() != 2 * N || !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Runs a request with the span around it that its heads name.
pub async fn within<T>(heads: &HeaderMap, request: impl Future<Output = T>) -> T {
    AROUND.scope(Around::of(heads), request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_around_are_read_or_there_is_none() {
        let of = |text: &str| {
            let mut heads = HeaderMap::new();
            heads.insert("traceparent", text.parse().unwrap());
            heads.insert("tracestate", "a=1".parse().unwrap());
            Around::of(&heads)
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let around = of(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!((around.trace_id[0], around.span_id[7], around.is_sampled), (0x0a, 0x31, true));
        assert_eq!(around.state, "a=1");
        assert!(!of(&format!("00-{trace}-{span}-00")).unwrap().is_sampled);
        assert!(of(&format!("01-{trace}-{span}-01-more")).is_some());
        let none = [
            String::new(),
            "00".into(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}é-{span}-01"),
        ];
        for text in none {
            let bytes = text.as_bytes();
            let mut heads = HeaderMap::new();
            heads.insert("traceparent", hyper::header::HeaderValue::from_bytes(bytes).unwrap());
            assert_eq!(Around::of(&heads), None, "{text}");
        }
    }
}
