use super::super::tests::eight_nodes;
use super::*;
use crate::topology::Topology;

/// Every element is closed and in order; enough of XML for what is written here.
fn balanced(svg: &str) -> Result<usize, String> {
    let mut open = Vec::new();
    let mut elements = 0;
    for piece in svg.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').ok_or_else(|| format!("no end of a tag in {piece}"))?;
        let name = |tag: &str| tag.split_whitespace().next().unwrap_or("").to_string();
        if let Some(closed) = tag.strip_prefix('/') {
            let last: Option<String> = open.pop();
            if last.as_deref() != Some(closed) {
                return Err(format!("{closed} closes {last:?}"));
            }
        } else {
            elements += 1;
            if !tag.ends_with('/') {
                open.push(name(tag));
            }
        }
    }
    if open.is_empty() { Ok(elements) } else { Err(format!("left open: {open:?}")) }
}

fn attribute_values<'a>(svg: &'a str, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    let mark = format!(" {name}=\"");
    svg.match_indices(&mark)
        .map(|(at, mark)| at + mark.len())
        .collect::<Vec<_>>()
        .into_iter()
        .filter_map(move |start| svg[start..].split('"').next().and_then(|value| value.parse().ok()))
}

/// With NEARSIDE_TEST_PICTURES set, pictures are left in that folder to be looked at.
fn keep(name: &str, svg: &str) {
    if let Ok(folder) = std::env::var("NEARSIDE_TEST_PICTURES") {
        std::fs::write(std::path::Path::new(&folder).join(name), svg).expect("the folder can be written to");
    }
}

#[test]
fn eight_nodes_are_drawn_with_all_their_figures() {
    let picture = svg(&eight_nodes());
    keep("eight-nodes.svg", &picture);
    balanced(&picture).expect("well-formed");
    assert!(picture.contains("A model &lt;8 nodes &amp; more&gt;"));
    for title in [
        "Idle latency, ns",
        "Read bandwidth, GB/s",
        "Write bandwidth, GB/s",
        "Copy bandwidth",
        "Bandwidth by threads, GB/s",
        "Latency under load, ns",
    ] {
        assert!(picture.contains(title), "{title}");
    }
    // The scale's pieces and cells of four matrices; one cell has no figure and is told by a dash.
    assert_eq!(picture.matches("stroke=\"#fff\"").count(), 4 * 64);
    assert_eq!(picture.matches('\u{2013}').count(), 1);
    assert!(picture.contains(">190<") && picture.contains(">85.0<"));
    assert_eq!(picture.matches("stroke-dasharray").count(), 2 * 3);
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn the_font_stays_legible_and_nothing_is_negative() {
    for attributes in [eight_nodes(), many(1), many(2), many(64)] {
        let picture = svg(&attributes);
        balanced(&picture).expect("well-formed");
        assert!(attribute_values(&picture, "font-size").all(|size| size >= 11.0));
        for name in ["x", "y", "width", "height", "cx", "cy"] {
            assert!(attribute_values(&picture, name).all(|value| value >= 0.0), "{name}");
        }
    }
}

#[test]
fn machines_of_one_and_of_64_nodes_are_drawn() {
    let one = svg(&many(1));
    keep("one-node.svg", &one);
    assert_eq!(one.matches("stroke=\"#fff\"").count(), 4);
    let large = svg(&many(64));
    keep("sixty-four-nodes.svg", &large);
    assert_eq!(large.matches("stroke=\"#fff\"").count(), 4 * 64 * 64);
}

#[test]
fn nothing_measured_is_a_title_only() {
    let nothing = Attributes::empty(Topology::synthetic(1, 1, 1, 1), "none", "measured");
    let picture = svg(&nothing);
    assert_eq!(balanced(&picture), Ok(4), "{picture}");
}

fn many(nodes: u32) -> Attributes {
    let topology = Topology::synthetic(nodes.div_ceil(2), nodes.min(2), 4, 1);
    let ids: Vec<_> = topology.nodes().iter().map(|n| n.id).collect();
    let matrix: Vec<Vec<Option<f64>>> =
        ids.iter().map(|a| ids.iter().map(|b| Some(4e11 / f64::from(topology.distance(*a, *b)))).collect()).collect();
    let latency = |rate: f64| crate::Latency { min_ns: 1e12 / rate, avg_ns: 4e12 / rate, max_ns: 5e12 / rate };
    let mut attributes = Attributes::empty(topology, format!("{nodes} nodes"), "made up");
    attributes.latency = matrix.iter().map(|row| row.iter().map(|rate| rate.map(latency)).collect()).collect();
    attributes.read = matrix.clone();
    attributes.write = matrix.clone();
    attributes.copy = matrix;
    attributes
}
