//! Attributes read back as they were written; what does not fit together is refused.

use proptest::prelude::*;

use super::*;

fn two_nodes() -> Attributes {
    let mut attributes = Attributes::empty(Topology::synthetic(2, 1, 2, 2), "two", "measured");
    let latency = |ns: f64| Some(Latency { min_ns: ns - 1.5, avg_ns: ns, max_ns: ns + 2.25 });
    attributes.latency = vec![vec![latency(80.1), latency(134.4)], vec![None, latency(79.5)]];
    attributes.read = vec![vec![Some(6.2e10), Some(3.0e10)], vec![Some(3.1e10), Some(6.1e10)]];
    attributes.stream.push(Stream {
        placement: "striped".into(),
        threads: 8,
        copy: 1e10,
        scale: 1.1e10,
        add: 1.2e10,
        triad: 1.3e10,
    });
    let kind = TransferKind::Write;
    let bytes_per_second = vec![4.27e9, 7.5e9];
    attributes.by_threads.push(ByThreads { initiator: NodeId(0), target: NodeId(1), kind, bytes_per_second });
    attributes.loaded.push(LoadedLatency {
        initiator: NodeId(1),
        target: NodeId(1),
        bytes_per_second: 0.0,
        latency_ns: 81.0,
    });
    attributes
}

#[test]
fn what_is_written_is_read_back() {
    let attributes = two_nodes();
    let json = attributes.to_json();
    assert_eq!(Attributes::from_json(&json).expect("its own JSON"), attributes);
    assert_eq!(attributes.latency_ns(NodeId(0), NodeId(1)), Some(134.4));
    assert_eq!(attributes.latency_ns(NodeId(1), NodeId(0)), None);
    assert_eq!(attributes.read_bytes_per_second(NodeId(1), NodeId(1)), Some(6.1e10));
    assert_eq!(attributes.write_bytes_per_second(NodeId(0), NodeId(0)), None);
    assert_eq!(attributes.copy_bytes_per_second(NodeId(7), NodeId(0)), None);
    assert!(json.contains("\"kind\": \"write\""), "{json}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |change: &dyn Fn(&mut Attributes), of: &str| {
        let mut attributes = two_nodes();
        change(&mut attributes);
        let error = Attributes::from_json(&attributes.to_json()).expect_err(of).to_string();
        assert!(error.contains(of), "{error}");
    };
    refused(&|a| a.format = 2, "format 2");
    refused(&|a| a.nodes[0] = NodeId(9), "node 9 is not in the machine");
    refused(&|a| a.read[1].truncate(1), "'read' is not 2 rows of 2");
    refused(&|a| a.read[1][1] = Some(-1.0), "'read' is not above zero");
    refused(&|a| a.latency.truncate(1), "'latency' is not");
    refused(&|a| a.stream[0].add = 0.0, "stream");
    refused(&|a| a.by_threads[0].target = NodeId(4), "by_threads");
    refused(&|a| a.loaded[0].latency_ns = 0.0, "loaded");
    for text in ["", "{}", "[1]", "{\"format\": 1}", "{\"format\": \"x\"}"] {
        assert!(matches!(Attributes::from_json(text), Err(AttributesError::Json(_))), "{text}");
    }
}

proptest! {
    #[test]
    fn any_figure_is_read_back(figures in prop::collection::vec(1e-3f64..1e15, 4)) {
        let mut attributes = two_nodes();
        attributes.copy = vec![vec![Some(figures[0]), None], vec![Some(figures[1]), Some(figures[2])]];
        attributes.by_threads[0].bytes_per_second = vec![figures[3]];
        prop_assert_eq!(Attributes::from_json(&attributes.to_json()).expect("its own"), attributes);
    }

    /// Damaged files give an error or sound attributes, never a panic.
    #[test]
    fn damaged_json_never_panics(
        at in any::<prop::sample::Index>(),
        with in "[-0-9a-z\"\\[\\]{},:]{0,4}",
        cut in 0usize..6,
    ) {
        let json = two_nodes().to_json();
        let at = at.index(json.len());
        let text = format!("{}{with}{}", &json[..at], &json[(at + cut).min(json.len())..]);
        if let Ok(attributes) = Attributes::from_json(&text) {
            prop_assert!(attributes.fault().is_none());
        }
    }
}
