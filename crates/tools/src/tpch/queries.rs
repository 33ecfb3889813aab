//! The 22 queries of TPC-H with the substitution parameters of its validation runs, and what an answer's check needs to
//! know about each.
//!
//! Source: TPC Benchmark H, revision 3, clauses 2.4.1 to 2.4.22. Query 11 uses the fraction 0.0001 at every scale, as
//! the reference answers do; query 15 is written with a common table expression.

/// One query.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// 1 to 22.
    pub number: u8,
    /// Its text: comments and one statement that ends with `;`.
    pub sql: &'static str,
    /// The columns of its ORDER BY, by position from 0: rows that agree in all of them may come in any order.
    pub sort_columns: &'static [usize],
    /// Columns that are an average or a quotient: SQL does not say how many digits of those there are.
    pub quotient_columns: &'static [usize],
}

macro_rules! query {
    ($number:literal, $file:literal, $sort:expr, $quotients:expr) => {
        Query {
            number: $number,
            sql: include_str!(concat!("../../queries/", $file, ".sql")),
            sort_columns: &$sort,
            quotient_columns: &$quotients,
        }
    };
}

/// All queries, in order.
pub const QUERIES: [Query; 22] = [
    query!(1, "q01", [0, 1], [6, 7, 8]),
    query!(2, "q02", [0, 2, 1, 3], []),
    query!(3, "q03", [1, 2], []),
    query!(4, "q04", [0], []),
    query!(5, "q05", [1], []),
    query!(6, "q06", [], []),
    query!(7, "q07", [0, 1, 2], []),
    query!(8, "q08", [0], [1]),
    query!(9, "q09", [0, 1], []),
    query!(10, "q10", [2], []),
    query!(11, "q11", [1], []),
    query!(12, "q12", [0], []),
    query!(13, "q13", [1, 0], []),
    query!(14, "q14", [], [0]),
    query!(15, "q15", [0], []),
    query!(16, "q16", [3, 0, 1, 2], []),
    query!(17, "q17", [], [0]),
    query!(18, "q18", [4, 3], []),
    query!(19, "q19", [], []),
    query!(20, "q20", [0], []),
    query!(21, "q21", [1, 0], []),
    query!(22, "q22", [0], []),
];

/// The query of that number.
pub fn query(number: u8) -> Option<&'static Query> {
    QUERIES.get(usize::from(number).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_one_statement_of_its_own_number() {
        let session = nearside::Database::new().unwrap().session();
        for (i, query) in QUERIES.iter().enumerate() {
            assert_eq!(usize::from(query.number), i + 1);
            assert!(query.sql.starts_with(&format!("-- Q{} ", query.number)), "{}", query.sql);
            assert_eq!(session.statements(query.sql).unwrap().len(), 1, "query {}", query.number);
            assert!(session.is_complete(query.sql));
        }
        assert!(query(0).is_none() && query(23).is_none());
        assert_eq!(query(22).map(|q| q.number), Some(22));
    }
}
