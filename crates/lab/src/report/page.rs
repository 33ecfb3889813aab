//! The parts of a page: escaping, head, tables. One file, no script, nothing from elsewhere.

use std::fmt::Write;

use numa::svg::escape;

/// The looks: dark on white, wide tables scroll by themselves, prints as it shows.
const STYLE: &str = "
:root { color-scheme: light; }
body { font: 16px/1.5 Helvetica, Arial, 'DejaVu Sans', sans-serif; color: #222; background: #fff; max-width: 75rem;
  margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.9rem; margin-bottom: .25rem; }
h2 { font-size: 1.4rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.1rem; margin: 1.75rem 0 .25rem; }
p { max-width: 60rem; } .origin, .small { color: #444; font-size: .875rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1.5rem; margin: .75rem 0; }
.figures svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; margin: .5rem 0; }
caption { text-align: left; color: #444; padding: .25rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #ddd; }
th { background: #f4f6f8; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { font-weight: bold; white-space: nowrap; } .holds { color: #1a6b2f; } .misses { color: #a3260f; }
.not-yet { color: #6b5300; } .input { color: #444; }
nav ul { columns: 2 20rem; padding-left: 1.2rem; } summary { cursor: pointer; } a { color: #00538a; }
a:focus, summary:focus { outline: 3px solid #d55e00; }
";

/// A whole page.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// A table with a caption. Cells are markup already.
pub(super) fn table(caption: &str, heads: &[&str], rows: &[Vec<Cell>]) -> String {
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table>");
    let _ = write!(out, "<caption>{}</caption><thead><tr>", escape(caption));
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(head));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let (name, attributes) = match (column, &cell.class) {
                (0, _) => ("th", " scope=\"row\"".to_string()),
                (_, Some(class)) => ("td", format!(" class=\"{class}\"")),
                (_, None) => ("td", String::new()),
            };
            let _ = write!(out, "<{name}{attributes}>{}</{name}>", cell.markup);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    markup: String,
    class: Option<String>,
}

impl Cell {
    /// A text.
    pub(super) fn text(content: &str) -> Cell {
        Cell { markup: escape(content), class: None }
    }

    /// The same with another paragraph of a class, if it says something.
    pub(super) fn and(mut self, class: &str, content: &str) -> Cell {
        if !content.is_empty() {
            let _ = write!(self.markup, "<div class=\"{class}\">{}</div>", escape(content));
        }
        self
    }

    /// A number, to the right.
    pub(super) fn number(content: &str) -> Cell {
        Cell { markup: escape(content), class: Some("number".to_string()) }
    }
}

/// A name as an anchor.
pub(super) fn anchor(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

/// Every element is closed and in order; enough of HTML for what is written here.
#[cfg(test)]
pub(super) fn balanced(markup: &str) -> Result<usize, String> {
    const ALONE: [&str; 3] = ["meta", "!DOCTYPE", "br"];
    let mut open: Vec<String> = Vec::new();
    let mut elements = 0;
    for piece in markup.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').ok_or_else(|| format!("no end of a tag in {piece}"))?;
        let name = tag.split_whitespace().next().unwrap_or("").to_string();
        if let Some(closed) = tag.strip_prefix('/') {
            let last = open.pop();
            if last.as_deref() != Some(closed) {
                return Err(format!("{closed} closes {last:?}"));
            }
        } else {
            elements += 1;
            if !tag.ends_with('/') && !ALONE.contains(&name.as_str()) {
                open.push(name);
            }
        }
    }
    if open.is_empty() { Ok(elements) } else { Err(format!("left open: {open:?}")) }
}
