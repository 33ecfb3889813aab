//! Statements that differ from each other in literals alone, as a statement with `$1`, `$2`, .. in their places and the
//! values: so the texts of clients that prepare nothing are planned once.
//!
//! Only plain forms are taken, by their tokens, before anything is parsed: what else a statement may have stays as it
//! is, or the whole statement does.
//! ```text
//! SELECT columns FROM t WHERE c = literal [AND ..]
//! INSERT INTO t [(columns)] VALUES (literals) [ON CONFLICT ..]
//! UPDATE t SET c = literal | c + literal | expression [, ..] WHERE c = literal [AND ..]
//! DELETE FROM t WHERE c = literal [AND ..]
//! ```
//!
//! Invariant: a value stands for its literal only where it is of the parameter's type and the very number or text
//! ([`Literal::value`]); else the statement runs as it is written.

use std::fmt::Write;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Longest text of a literal.
const TEXT_BYTES_MAX: usize = 4096;
/// Most literals.
const LITERALS_MAX: usize = 256;
/// Largest integer up to which a DOUBLE has all.
const EXACT_MAX: i64 = 1 << 53;
/// Largest power of ten that a DOUBLE has.
const EXACT_TENS: u32 = 22;

/// See the module.
#[derive(Debug, PartialEq)]
pub(crate) struct Shape {
    /// The statement with parameters.
    pub text: String,
    /// What stood there.
    pub literals: Vec<Literal>,
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Integer(i64),
    /// `digits` divided by ten to the `scale`.
    Decimal {
        digits: i128,
        scale: u32,
    },
    Text(String),
}

impl Literal {
    /// The same value of a parameter's type; `None` where it is not one.
    fn value(&self, data_type: &DataType) -> Option<ScalarValue> {
        let decimal = |digits: i128, scale: u32, p: u8, s: i8| {
            let more = u32::try_from(s).ok()?.checked_sub(scale)?;
            let digits = digits.checked_mul(10_i128.checked_pow(more)?)?;
            (digits.unsigned_abs() < 10_u128.checked_pow(p.into())?).then_some(ScalarValue::Decimal128(
                Some(digits),
                p,
                s,
            ))
        };
        Some(match (self, data_type) {
            (Literal::Integer(value), DataType::Int8) => ScalarValue::Int8(Some((*value).try_into().ok()?)),
            (Literal::Integer(value), DataType::Int16) => ScalarValue::Int16(Some((*value).try_into().ok()?)),
            (Literal::Integer(value), DataType::Int32) => ScalarValue::Int32(Some((*value).try_into().ok()?)),
            (Literal::Integer(value), DataType::Int64) => ScalarValue::Int64(Some(*value)),
            (Literal::Integer(value), DataType::UInt8) => ScalarValue::UInt8(Some((*value).try_into().ok()?)),
            (Literal::Integer(value), DataType::UInt16) => ScalarValue::UInt16(Some((*value).try_into().ok()?)),
            (Literal::Integer(value), DataType::UInt32) => ScalarValue::UInt32(Some((*value).try_into().ok()?)),
            (Literal::Integer(value), DataType::UInt64) => ScalarValue::UInt64(Some((*value).try_into().ok()?)),
            (Literal::Integer(value), DataType::Float64) if value.abs() <= EXACT_MAX => {
                ScalarValue::Float64(Some(*value as f64))
            }
            // Of two numbers that it has, the quotient is the nearest to the literal.
            (Literal::Decimal { digits, scale }, DataType::Float64)
                if digits.unsigned_abs() <= EXACT_MAX as u128 && *scale <= EXACT_TENS =>
            {
                ScalarValue::Float64(Some(*digits as f64 / 10_f64.powi(*scale as i32)))
            }
            (Literal::Integer(value), DataType::Decimal128(p, s)) => decimal((*value).into(), 0, *p, *s)?,
            (Literal::Decimal { digits, scale }, DataType::Decimal128(p, s)) => decimal(*digits, *scale, *p, *s)?,
            (Literal::Text(text), DataType::Utf8) => ScalarValue::Utf8(Some(text.clone())),
            (Literal::Text(text), DataType::LargeUtf8) => ScalarValue::LargeUtf8(Some(text.clone())),
            (Literal::Text(text), DataType::Utf8View) => ScalarValue::Utf8View(Some(text.clone())),
            _ => return None,
        })
    }

    fn of(token: &Token, is_negative: bool) -> Option<Literal> {
        match token {
            Token::SingleQuotedString(text) if !is_negative && text.len() <= TEXT_BYTES_MAX => {
                Some(Literal::Text(text.clone()))
            }
            Token::Number(text, false) => {
                let sign = if is_negative { "-" } else { "" };
                let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                match text.split_once('.') {
                    None if is_digits(text) => format!("{sign}{text}").parse().ok().map(Literal::Integer),
                    Some((whole, rest)) if is_digits(whole) && is_digits(rest) => {
                        let digits = format!("{sign}{whole}{rest}").parse().ok()?;
                        Some(Literal::Decimal { digits, scale: rest.len() as u32 })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl Shape {
    /// The shape of a statement; `None` where it has another form.
    pub(crate) fn of(tokens: &[TokenWithSpan]) -> Option<Shape> {
        let tokens: Vec<&Token> = tokens.iter().map(|token| &token.token).filter(|token| is_said(token)).collect();
        let mut reader = Reader { tokens, at: 0, text: String::new(), literals: Vec::new() };
        let is_whole = match reader.keyword()? {
            Keyword::SELECT => reader.select()?,
            Keyword::INSERT => reader.insert()?,
            Keyword::UPDATE => reader.update()?,
            Keyword::DELETE => reader.delete()?,
            _ => None?,
        };
        let is_whole = is_whole && reader.at == reader.tokens.len() && !reader.literals.is_empty();
        is_whole.then_some(Shape { text: reader.text, literals: reader.literals })
    }

    /// The literals as values of the parameters' types; `None` where one is none. `decimals` says whether a number with
    /// a point is a decimal.
    pub(crate) fn values(&self, types: &[Option<DataType>], decimals: bool) -> Option<Vec<ScalarValue>> {
        if !decimals && self.literals.iter().any(|literal| matches!(literal, Literal::Decimal { .. })) {
            return None;
        }
        let values = self.literals.iter().zip(types).map(|(literal, of)| literal.value(of.as_ref()?));
        let values: Vec<ScalarValue> = values.collect::<Option<_>>()?;
        (types.len() == self.literals.len()).then_some(values)
    }
}

fn is_said(token: &Token) -> bool {
    !matches!(token, Token::Whitespace(_) | Token::EOF)
}

/// The tokens, and what was made of those before.
struct Reader<'a> {
    tokens: Vec<&'a Token>,
    at: usize,
    text: String,
    literals: Vec<Literal>,
}

/// Each reads what it says and writes it to the text; `None` or false where something else stands there.
impl Reader<'_> {
    fn next(&self) -> Option<&Token> {
        self.tokens.get(self.at).copied()
    }

    fn take(&mut self) {
        // Writing to a string does not fail.
        let _ = write!(self.text, "{} ", self.tokens[self.at]);
        self.at += 1;
    }

    fn take_if(&mut self, token: &Token) -> bool {
        let is_it = self.next() == Some(token);
        if is_it {
            self.take();
        }
        is_it
    }

    /// Takes a keyword and says which.
    fn keyword(&mut self) -> Option<Keyword> {
        let Token::Word(word) = self.next()? else { return None };
        let keyword = word.keyword;
        (word.quote_style.is_none() && keyword != Keyword::NoKeyword).then(|| self.take())?;
        Some(keyword)
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        matches!(self.next(), Some(Token::Word(word)) if word.quote_style.is_none() && word.keyword == keyword)
    }

    fn take_keyword(&mut self, keyword: Keyword) -> Option<()> {
        self.is_keyword(keyword).then(|| self.take())
    }

    /// A name of one word or more. Words that are none here are found out when the statement is planned.
    fn name(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                Token::Word(word) if is_shown(word) => self.take(),
                _ => return None,
            }
            if !self.take_if(&Token::Period) {
                return Some(());
            }
        }
    }

    fn literal(&mut self) -> Option<()> {
        let is_negative = self.next() == Some(&Token::Minus);
        let literal = Literal::of(self.tokens.get(self.at + usize::from(is_negative))?, is_negative)?;
        self.at += 1 + usize::from(is_negative);
        self.literals.push(literal);
        let _ = write!(self.text, "${} ", self.literals.len());
        (self.literals.len() <= LITERALS_MAX).then_some(())
    }

    /// `c = literal AND ..`, up to the end.
    fn conditions(&mut self) -> Option<bool> {
        self.take_keyword(Keyword::WHERE)?;
        loop {
            self.name()?;
            self.take_if(&Token::Eq).then_some(())?;
            self.literal()?;
            if self.take_keyword(Keyword::AND).is_none() {
                return Some(true);
            }
        }
    }

    fn select(&mut self) -> Option<bool> {
        loop {
            if !self.take_if(&Token::Mul) {
                self.name()?;
            }
            if !self.take_if(&Token::Comma) {
                break;
            }
        }
        self.take_keyword(Keyword::FROM)?;
        self.name()?;
        if !self.is_keyword(Keyword::WHERE) {
            self.take_keyword(Keyword::AS);
            self.name()?;
        }
        self.conditions()
    }

    fn delete(&mut self) -> Option<bool> {
        self.take_keyword(Keyword::FROM)?;
        self.name()?;
        self.conditions()
    }

    fn update(&mut self) -> Option<bool> {
        self.name()?;
        self.take_keyword(Keyword::SET)?;
        loop {
            let begin = self.text.len();
            self.name()?;
            let column = self.text[begin..].to_string();
            self.take_if(&Token::Eq).then_some(())?;
            if !self.assigns(Reader::literal) && !self.assigns(|reader| reader.sum(&column)) {
                // An expression, whose literals stay.
                while !self.ends_assignment() {
                    is_plain(self.next()?).then(|| self.take())?;
                }
            }
            if !self.take_if(&Token::Comma) {
                break;
            }
        }
        self.conditions()
    }

    /// Whether an assignment has this form; else it stands as before.
    fn assigns(&mut self, form: impl FnOnce(&mut Self) -> Option<()>) -> bool {
        let (at, text, literals) = (self.at, self.text.len(), self.literals.len());
        let is_form = form(self).is_some() && self.ends_assignment();
        if !is_form {
            self.at = at;
            self.text.truncate(text);
            self.literals.truncate(literals);
        }
        is_form
    }

    /// `c + literal` or `c - literal`, where `c` is the column that it is assigned to. Of another column's type the sum
    /// might not have room for what the literal's has.
    fn sum(&mut self, column: &str) -> Option<()> {
        let begin = self.text.len();
        self.name()?;
        (self.text[begin..] == *column).then_some(())?;
        (self.take_if(&Token::Plus) || self.take_if(&Token::Minus)).then_some(())?;
        self.literal()
    }

    fn ends_assignment(&self) -> bool {
        self.next() == Some(&Token::Comma) || self.is_keyword(Keyword::WHERE)
    }

    fn insert(&mut self) -> Option<bool> {
        self.take_keyword(Keyword::INTO)?;
        self.name()?;
        if self.take_if(&Token::LParen) {
            self.name()?;
            while self.take_if(&Token::Comma) {
                self.name()?;
            }
            self.take_if(&Token::RParen).then_some(())?;
        }
        self.take_keyword(Keyword::VALUES)?;
        self.take_if(&Token::LParen).then_some(())?;
        loop {
            let constants =
                [Keyword::NULL, Keyword::TRUE, Keyword::FALSE, Keyword::DEFAULT, Keyword::CURRENT_TIMESTAMP];
            match constants.into_iter().find(|constant| self.is_keyword(*constant)) {
                Some(_) => self.take(),
                None => self.literal()?,
            }
            if !self.take_if(&Token::Comma) {
                break;
            }
        }
        self.take_if(&Token::RParen).then_some(())?;
        if self.next().is_some() {
            self.is_keyword(Keyword::ON).then_some(())?;
            while let Some(token) = self.next() {
                (is_plain(token) || matches!(token, Token::Comma | Token::Eq | Token::LParen | Token::RParen))
                    .then(|| self.take())?;
            }
        }
        Some(true)
    }
}

/// Whether a word is written as it is: quotes within a quoted one would have to be doubled.
fn is_shown(word: &Word) -> bool {
    word.quote_style.is_none() || !word.value.contains(['"', '`', '[', ']'])
}

/// What an expression of names and numbers is made of.
fn is_plain(token: &Token) -> bool {
    match token {
        Token::Word(word) => is_shown(word),
        Token::Number(..) | Token::Period | Token::Plus | Token::Minus | Token::Mul => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::text::statements;

    fn shape(sql: &str) -> Option<Shape> {
        Shape::of(&statements(sql).unwrap().pop().unwrap().tokens)
    }

    fn shown(sql: &str) -> Option<(String, Vec<Literal>)> {
        shape(sql).map(|shape| (shape.text.trim_end().to_string(), shape.literals))
    }

    #[test]
    fn plain_statements_are_cut_at_their_literals() {
        use Literal::{Decimal, Integer, Text};
        let text = |text: &str| Text(text.into());
        for (sql, expected, literals) in [
            ("select a, t.b from s.t where k=5", "select a , t . b from s . t where k = $1", vec![Integer(5)]),
            (
                "SELECT * FROM t AS x WHERE x.\"K\" = -5 /* no */ AND s = 'it''s'",
                "SELECT * FROM t AS x WHERE x . \"K\" = $1 AND s = $2",
                vec![Integer(-5), text("it's")],
            ),
            (
                "INSERT INTO t VALUES (1, 'a', NULL, -1.50, DEFAULT)",
                "INSERT INTO t VALUES ( $1 , $2 , NULL , $3 , DEFAULT )",
                vec![Integer(1), text("a"), Decimal { digits: -150, scale: 2 }],
            ),
            (
                "INSERT INTO t (a, b) VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = excluded.b + 1",
                "INSERT INTO t ( a , b ) VALUES ( $1 , $2 ) ON CONFLICT ( a ) DO UPDATE SET b = excluded . b + 1",
                vec![Integer(1), Integer(2)],
            ),
            (
                "UPDATE t SET v = v + 1, w = 'x' WHERE k = 7",
                "UPDATE t SET v = v + $1 , w = $2 WHERE k = $3",
                vec![Integer(1), text("x"), Integer(7)],
            ),
            (
                "UPDATE t SET v = u + 1, x = x - -2.5, y = y + 1 + 1, z = 1 + z WHERE k = 7",
                "UPDATE t SET v = u + 1 , x = x - $1 , y = y + 1 + 1 , z = 1 + z WHERE k = $2",
                vec![Decimal { digits: -25, scale: 1 }, Integer(7)],
            ),
            (
                "INSERT INTO t VALUES (1, CURRENT_TIMESTAMP)",
                "INSERT INTO t VALUES ( $1 , CURRENT_TIMESTAMP )",
                vec![Integer(1)],
            ),
            (
                "DELETE FROM t WHERE a = 1 AND b = 2",
                "DELETE FROM t WHERE a = $1 AND b = $2",
                vec![Integer(1), Integer(2)],
            ),
        ] {
            assert_eq!(shown(sql), Some((expected.to_string(), literals)), "{sql}");
        }
    }

    #[test]
    fn other_forms_stay_as_they_are() {
        for sql in [
            "SELECT a FROM t",
            "SELECT a FROM t WHERE k = 5 LIMIT 1",
            "SELECT a FROM t WHERE k = 5 OR k = 6",
            "SELECT a FROM t WHERE k > 5",
            "SELECT a FROM t WHERE k = 5 + 1",
            "SELECT a FROM t WHERE k = $1",
            "SELECT a + 1 FROM t WHERE k = 5",
            "SELECT DISTINCT a FROM t WHERE k = 5",
            "SELECT a FROM t, u WHERE k = 5",
            "SELECT a FROM t WHERE k = E'5'",
            "SELECT a FROM t WHERE k = 5e3",
            "SELECT a FROM \"t\"\"u\" WHERE k = 5",
            "SELECT a FROM t WHERE k = NULL",
            "INSERT INTO t VALUES (1), (2)",
            "INSERT INTO t VALUES (1 + 1)",
            "INSERT INTO t VALUES (now())",
            "INSERT INTO t VALUES (DATE '2020-01-01')",
            "INSERT INTO t VALUES (1) ON CONFLICT (k) DO UPDATE SET v = 'text'",
            "INSERT INTO t VALUES (NULL)",
            "INSERT INTO t SELECT 1",
            "UPDATE t SET v = 5",
            "UPDATE t SET v = (SELECT 5) WHERE k = 1",
            "UPDATE t SET v = 5 WHERE k IN (1)",
            "DELETE FROM t USING u WHERE k = 5",
            "WITH q AS (SELECT 1) SELECT a FROM q WHERE a = 5",
            "SET a = 5",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
    }

    #[test]
    fn values_are_the_very_literals() {
        let value = |sql: &str, data_type: DataType| {
            shape(&format!("DELETE FROM t WHERE k = {sql}")).unwrap().values(&[Some(data_type)], true).map(|values| {
                assert_eq!(values.len(), 1);
                values[0].clone()
            })
        };
        assert_eq!(value("-128", DataType::Int8), Some(ScalarValue::Int8(Some(-128))));
        assert_eq!(value("128", DataType::Int8), None);
        assert_eq!(value("-1", DataType::UInt64), None);
        assert_eq!(value("5.0", DataType::Int64), None);
        assert_eq!(value("9007199254740993", DataType::Float64), None);
        assert_eq!(value("7", DataType::Float64), Some(ScalarValue::Float64(Some(7.0))));
        assert_eq!(value("-0.1875", DataType::Float64), Some(ScalarValue::Float64(Some(-0.1875))));
        for text in ["0.1", "12.345", "9007199254740.992", "0.0000000000000000000001", "1234567.89"] {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(value(text, DataType::Float64), Some(ScalarValue::Float64(Some(expected))), "{text}");
        }
        assert_eq!(value("900719925474099.30", DataType::Float64), None);
        assert_eq!(value("-1.5", DataType::Decimal128(5, 2)), Some(ScalarValue::Decimal128(Some(-150), 5, 2)));
        assert_eq!(value("1.555", DataType::Decimal128(5, 2)), None);
        assert_eq!(value("1000", DataType::Decimal128(5, 2)), None);
        assert_eq!(value("'a'", DataType::Utf8View), Some(ScalarValue::Utf8View(Some("a".into()))));
        assert_eq!(value("'5'", DataType::Int64), None);
        assert_eq!(value("5", DataType::Utf8View), None);
        assert_eq!(value("'2020-01-01'", DataType::Date32), None);
        assert!(shape("DELETE FROM t WHERE k = 99999999999999999999").is_none());
    }
}
