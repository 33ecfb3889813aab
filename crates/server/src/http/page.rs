//! The page: what the browser gets, all of it part of the program.

use hyper::StatusCode;

use super::answer::{Answer, whole};

/// Paths, kinds and texts.
const FILES: [(&str, &str, &str); 13] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/main.js", SCRIPT, include_str!("page/main.js")),
    ("/page/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/page/words.js", SCRIPT, include_str!("page/words.js")),
    ("/page/state.js", SCRIPT, include_str!("page/state.js")),
    ("/page/source.js", SCRIPT, include_str!("page/source.js")),
    ("/page/machine.js", SCRIPT, include_str!("page/machine.js")),
    ("/page/links.js", SCRIPT, include_str!("page/links.js")),
    ("/page/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/page/lists.js", SCRIPT, include_str!("page/lists.js")),
    ("/page/actions.js", SCRIPT, include_str!("page/actions.js")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The file of a path.
pub fn file(path: &str) -> Option<Answer> {
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(whole(StatusCode::OK, kind, *text))
}
