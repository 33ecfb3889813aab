//! What Tab offers at the prompt: tables, columns, keywords and backslash commands.
//!
//! The word before the cursor decides: `table.` offers that table's columns, `\` at the start of a line the commands,
//! anything else whatever starts like it. Keywords follow the case in which the word was begun; names are quoted where
//! SQL would fold or refuse them.

/// Where names come from; the catalog in the program, a fixed list in tests.
pub trait Names {
    /// The tables and views that a statement can name.
    fn tables(&self) -> Vec<String>;
    /// The columns of a table; none where there is no such table.
    fn columns(&self, table: &str) -> Vec<String>;
}

/// The backslash commands, as Tab offers them.
const COMMANDS: [&str; 5] = ["\\codes", "\\d", "\\q", "\\timing", "\\?"];

const KEYWORDS: &str = "add all alter analyze and as asc avg begin between by case cast column commit copy count \
    create cross database date delete desc describe distinct drop else end except exists explain export extract \
    false filter first from full group having if import in index inner insert intersect interval into is join last \
    lateral left like limit max min natural not null nulls offset on or order outer over partition primary rename \
    replace right rollback select set show substring sum table tables then timestamp to true truncate union unique \
    unnest update using values view when where with";

/// The byte at which the completed word starts, and the candidates for it, sorted.
pub fn complete(line: &str, cursor: usize, names: &dyn Names) -> (usize, Vec<String>) {
    let before = &line[..cursor];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let current = &before[line_start..];
    if current.starts_with('\\') && !current.contains(char::is_whitespace) {
        let offered = COMMANDS.iter().filter(|c| c.starts_with(current)).map(|c| c.to_string());
        return (line_start, offered.collect());
    }
    let start = word_start(before);
    let word = &before[start..];
    let mut candidates = match word.rsplit_once('.') {
        Some((table, prefix)) => columns_of(table, prefix, names),
        None if word.is_empty() => Vec::new(),
        None => any_name(word, names),
    };
    candidates.sort();
    candidates.dedup();
    (start, candidates)
}

/// The start of the identifier path that ends at the end of `before`.
fn word_start(before: &str) -> usize {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '"';
    before.char_indices().rev().take_while(|&(_, c)| part(c)).last().map_or(before.len(), |(i, _)| i)
}

fn columns_of(table: &str, prefix: &str, names: &dyn Names) -> Vec<String> {
    let columns = names.columns(&unquoted(table));
    let mut offered: Vec<String> =
        columns.iter().filter(|c| starts_like(c, prefix)).map(|c| format!("{table}.{}", quoted(c))).collect();
    // A path may also be a schema and the start of a table's name.
    let path = format!("{table}.{prefix}");
    offered.extend(names.tables().into_iter().filter(|t| t.contains('.') && starts_like(t, &path)));
    offered
}

fn any_name(word: &str, names: &dyn Names) -> Vec<String> {
    let upper = word.chars().any(char::is_uppercase) && !word.chars().any(char::is_lowercase);
    let keywords = KEYWORDS.split_whitespace().filter(|k| starts_like(k, word));
    let mut offered: Vec<String> = keywords.map(|k| if upper { k.to_uppercase() } else { k.to_string() }).collect();
    for table in names.tables() {
        offered.extend(names.columns(&table).iter().filter(|c| starts_like(c, word)).map(|c| quoted(c)));
        if starts_like(&table, word) {
            offered.push(if table.contains('.') { table } else { quoted(&table) });
        }
    }
    offered
}

fn starts_like(name: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_start_matches('"').to_lowercase();
    name.to_lowercase().starts_with(&prefix)
}

/// `name` as the catalog has it.
pub fn unquoted(name: &str) -> String {
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// `name` as SQL must write it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    let simple = name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty();
    if simple { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Names for Fixed {
        fn tables(&self) -> Vec<String> {
            ["orders", "Odd Name", "nearside.columns"].map(String::from).to_vec()
        }

        fn columns(&self, table: &str) -> Vec<String> {
            match table {
                "orders" => ["o_orderkey", "o_comment", "Mixed"].map(String::from).to_vec(),
                "Odd Name" => vec!["x".into()],
                _ => Vec::new(),
            }
        }
    }

    fn offered(line: &str) -> Vec<String> {
        complete(line, line.len(), &Fixed).1
    }

    #[test]
    fn words_find_keywords_tables_and_columns() {
        assert_eq!(offered("sel"), ["select"]);
        assert_eq!(offered("SEL"), ["SELECT"]);
        assert_eq!(offered("select o_"), ["o_comment", "o_orderkey"]);
        assert_eq!(offered("select * from ord"), ["order", "orders"]);
        assert_eq!(offered("select * from \"od"), ["\"Odd Name\""]);
        assert_eq!(offered("select mix"), ["\"Mixed\""]);
        assert_eq!(offered("select "), Vec::<String>::new());
        assert_eq!(complete("select o_c", 10, &Fixed).0, 7);
        assert_eq!(complete("sel from x", 3, &Fixed), (0, vec!["select".to_string()]));
    }

    #[test]
    fn a_dot_asks_for_columns() {
        assert_eq!(offered("select orders.o_o"), ["orders.o_orderkey"]);
        assert_eq!(offered("select ORDERS."), ["ORDERS.\"Mixed\"", "ORDERS.o_comment", "ORDERS.o_orderkey"]);
        assert_eq!(offered("select nosuch."), Vec::<String>::new());
        assert_eq!(offered("from nearside.c"), ["nearside.columns"]);
    }

    #[test]
    fn a_backslash_asks_for_commands() {
        assert_eq!(offered("\\t"), ["\\timing"]);
        assert_eq!(offered("select 1;\n\\"), COMMANDS);
        assert_eq!(offered("\\d ord"), ["order", "orders"]);
    }

    #[test]
    fn multi_byte_text_is_no_obstacle() {
        assert_eq!(offered("select 'é' || o_c"), ["o_comment"]);
        assert_eq!(offered("é"), Vec::<String>::new());
    }
}
