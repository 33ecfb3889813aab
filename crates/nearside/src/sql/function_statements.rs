//! `CREATE FUNCTION .. LANGUAGE SQL`, `CREATE MACRO`, `DROP FUNCTION`, `DROP MACRO`.

use sqlparser::ast::{DataType, Expr, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::solid;
use super::roles::{RoleName, Words};
use super::{AnyStatement, RECURSION_MAX, check_tokens, normalised};
use crate::error::{Error, Position, Result, syntax};
use crate::sql::dialect::SqlDialect;

/// The name of a function, and the types that it takes where they are told.
type NamedFunction = (ObjectName, Option<Vec<DataType>>);

/// A statement about functions.
#[derive(Debug, Clone)]
pub(crate) enum FunctionStatement {
    /// `CREATE FUNCTION`, `CREATE MACRO`.
    Create(Box<NewFunction>),
    /// `DROP FUNCTION`, `DROP MACRO`: names, and types of arguments where they are told.
    Drop { names: Vec<NamedFunction>, if_exists: bool, cascade: bool, is_macro: bool },
}

/// A function that is to be.
#[derive(Debug, Clone)]
pub(crate) struct NewFunction {
    /// Its name.
    pub name: ObjectName,
    /// It may take the place of another.
    pub or_replace: bool,
    /// Nothing is done where there is one.
    pub if_not_exists: bool,
    /// Whether it is a macro.
    pub is_macro: bool,
    /// What it takes: names, types, and what stands in the place of what is not given.
    pub parameters: Vec<(Option<String>, Option<DataType>, Option<Expr>)>,
    /// What it gives.
    pub returns: WrittenReturns,
    /// Whether it gives NULL where an argument is.
    pub is_strict: bool,
    /// `i`, `s` or `v`.
    pub volatility: char,
    /// What stands for a call.
    pub body: WrittenBody,
}

/// What stands behind RETURNS.
#[derive(Debug, Clone)]
pub(crate) enum WrittenReturns {
    /// Nothing: a macro.
    Any,
    /// `TABLE query` of a macro.
    AnyRows,
    /// A type.
    Value(DataType),
    /// `SETOF` a type, or a table.
    SetOf(DataType),
    /// `TABLE (..)`.
    Table(Vec<(String, DataType)>),
}

/// The text of a function.
#[derive(Debug, Clone)]
pub(crate) enum WrittenBody {
    /// `RETURN` value, or that of a macro.
    Expression(Box<Expr>),
    /// A text of statements.
    Text(String),
    /// The query of a macro.
    Query(String),
}

/// The statement, if the tokens are one.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<FunctionStatement>> {
    let (_, solid) = solid(tokens);
    let mut words = Words::of(&solid);
    let creates = words.take("create");
    if !creates && !words.take("drop") {
        return Ok(None);
    }
    let or_replace = words.is_at(1, "or") && words.is_at(2, "replace");
    words.skip(2 * usize::from(or_replace));
    let is_temporary = words.take("temporary") || words.take("temp");
    let is_macro = words.is_at(words.at(), "macro");
    if !is_macro && !words.is_at(words.at(), "function") {
        return Ok(None);
    }
    if is_temporary {
        let message = "TEMPORARY functions and macros are not supported; leave TEMPORARY out, and drop it afterwards";
        return Err(Error::Unsupported(message.into()));
    }
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    let mut reader = Reader { parser: &mut parser };
    (0..=words.at()).for_each(|_| drop(reader.parser.next_token()));
    let found = match creates {
        true => {
            check_tokens(tokens)?;
            reader.create(or_replace, is_macro).map(|new| FunctionStatement::Create(Box::new(new)))?
        }
        false => reader.drop(is_macro)?,
    };
    match reader.parser.peek_token().token {
        Token::EOF => Ok(Some(found)),
        _ => Err(reader.expected("end of statement")),
    }
}

/// The function of `ALTER FUNCTION .. OWNER TO role`, and the role; `None` for another statement.
///
/// # Errors
/// What is wrong with it, and what of ALTER FUNCTION is not done.
pub(super) fn owner(tokens: &[TokenWithSpan]) -> Result<Option<(NamedFunction, RoleName)>> {
    let (_, solid) = solid(tokens);
    let words = Words::of(&solid);
    if !words.is_at(0, "alter") || !words.is_at(1, "function") {
        return Ok(None);
    }
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    (0..2).for_each(|_| drop(parser.next_token()));
    let mut reader = Reader { parser: &mut parser };
    let (name, types) = reader.function()?;
    if !reader.words(&["owner", "to"]) {
        let message =
            "this form of ALTER FUNCTION is not supported; there are OWNER TO, and CREATE OR REPLACE FUNCTION";
        return Err(Error::Unsupported(message.into()));
    }
    let role = reader.parser.parse_identifier().map_err(wrong)?;
    let is = |word: &str| role.quote_style.is_none() && role.value.eq_ignore_ascii_case(word);
    let to = match is("session_user") {
        true => RoleName::OfSession,
        false if is("current_user") || is("current_role") => RoleName::Own,
        false => RoleName::Named(normalised(role.clone())),
    };
    match reader.parser.peek_token().token {
        Token::EOF => Ok(Some(((name, types), to))),
        _ => Err(reader.expected("end of statement")),
    }
}

fn wrong(error: ParserError) -> Error {
    syntax(&error.to_string())
}

/// What a function that is made says of itself, in whatever order.
#[derive(Default)]
struct Options {
    returns: Option<WrittenReturns>,
    language: Option<String>,
    is_strict: bool,
    volatility: Option<char>,
    body: Option<WrittenBody>,
}

/// Words behind which a type of several words goes on.
const OF_TYPES: [&str; 5] = ["precision", "varying", "character", "with", "without"];

struct Reader<'p, 'a> {
    parser: &'p mut Parser<'a>,
}

/// The name of a function and the types that it takes, as they stand behind FUNCTION.
///
/// # Errors
/// What is wrong with them.
pub(super) fn named(parser: &mut Parser<'_>) -> Result<NamedFunction> {
    Reader { parser }.function()
}

impl Reader<'_, '_> {
    fn expected(&mut self, what: &str) -> Error {
        let found = self.parser.peek_token();
        let position = Some(Position { line: found.span.start.line, column: found.span.start.column });
        Error::Syntax { message: format!("Expected: {what}, found: {found}"), position }
    }

    fn word(&mut self, word: &str) -> bool {
        let is = is_word(&self.parser.peek_token().token, word);
        if is {
            self.parser.next_token();
        }
        is
    }

    fn words(&mut self, words: &[&str]) -> bool {
        let are_next =
            words.iter().enumerate().all(|(place, word)| is_word(&self.parser.peek_nth_token(place).token, word));
        if are_next {
            words.iter().for_each(|_| drop(self.parser.next_token()));
        }
        are_next
    }

    fn create(&mut self, or_replace: bool, is_macro: bool) -> Result<NewFunction> {
        let if_not_exists = self.words(&["if", "not", "exists"]);
        let name = self.parser.parse_object_name(false).map_err(wrong)?;
        if self.parser.peek_token().token != Token::LParen {
            return Err(self.expected("'(' and the parameters"));
        }
        self.parser.next_token();
        let mut parameters = Vec::new();
        if !self.parser.consume_token(&Token::RParen) {
            loop {
                parameters.push(self.parameter(is_macro)?);
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            self.parser.expect_token(&Token::RParen).map_err(wrong)?;
        }
        let new = NewFunction {
            name,
            or_replace,
            if_not_exists,
            is_macro,
            parameters,
            returns: WrittenReturns::Any,
            is_strict: false,
            volatility: 'v',
            body: WrittenBody::Text(String::new()),
        };
        match is_macro {
            true => self.macro_body(new),
            false => self.function_body(new),
        }
    }

    fn macro_body(&mut self, new: NewFunction) -> Result<NewFunction> {
        self.parser.expect_keyword(Keyword::AS).map_err(wrong)?;
        let (returns, body) = match self.word("table") {
            true => {
                let mut text = String::new();
                while self.parser.peek_token().token != Token::EOF {
                    let token = self.parser.next_token_no_skip().map(|token| token.token.to_string());
                    text.push_str(&token.unwrap_or_default());
                }
                query_of_text(&text)?;
                (WrittenReturns::AnyRows, WrittenBody::Query(text.trim().to_string()))
            }
            false => (WrittenReturns::Any, WrittenBody::Expression(Box::new(self.parser.parse_expr().map_err(wrong)?))),
        };
        if self.parser.peek_token().token == Token::Comma {
            let message = "a macro of several forms is not supported; give each a name of its own";
            return Err(Error::Unsupported(message.into()));
        }
        Ok(NewFunction { returns, body, ..new })
    }

    fn function_body(&mut self, new: NewFunction) -> Result<NewFunction> {
        let mut options = Options::default();
        while self.option(&mut options)? {}
        if let Some(language) = options.language.as_ref().filter(|language| !language.eq_ignore_ascii_case("sql")) {
            return Err(Error::Unsupported(format!(
                "functions of LANGUAGE {language} are not supported; there is LANGUAGE SQL"
            )));
        }
        let Some(body) = options.body else { return Err(self.expected("the function's text behind AS, or RETURN")) };
        if options.language.is_none() && matches!(body, WrittenBody::Text(_)) {
            return Err(Error::syntax("a function whose text stands behind AS takes LANGUAGE SQL"));
        }
        let Some(returns) = options.returns else {
            return Err(Error::Unsupported("a function without RETURNS is not supported; say what it returns".into()));
        };
        let volatility = options.volatility.unwrap_or('v');
        Ok(NewFunction { returns, is_strict: options.is_strict, volatility, body, ..new })
    }

    fn option(&mut self, options: &mut Options) -> Result<bool> {
        let volatilities = [("immutable", 'i'), ("stable", 's'), ("volatile", 'v')];
        if let Some((_, volatility)) = volatilities.into_iter().find(|(word, _)| self.word(word)) {
            options.volatility = Some(volatility);
        } else if self.word("strict") || self.words(&["returns", "null", "on", "null", "input"]) {
            options.is_strict = true;
        } else if self.words(&["called", "on", "null", "input"]) {
            options.is_strict = false;
        } else if self.word("language") {
            let token = self.parser.next_token().token;
            options.language = Some(match token {
                Token::SingleQuotedString(text) => text,
                other => other.to_string(),
            });
        } else if self.word("returns") {
            options.returns = Some(self.returns()?);
        } else if self.word("parallel") {
            if !["safe", "unsafe", "restricted"].iter().any(|word| self.word(word)) {
                return Err(self.expected("SAFE, UNSAFE or RESTRICTED behind PARALLEL"));
            }
        } else if self.word("cost") || self.word("rows") {
            self.parser.parse_literal_uint().map_err(wrong)?;
        } else if self.words(&["security", "invoker"]) || self.words(&["not", "leakproof"]) {
            // That is so.
        } else if self.words(&["security", "definer"]) || self.words(&["external", "security", "definer"]) {
            let message = "SECURITY DEFINER is not supported: a function reads what its caller may, a view what its \
                           owner may";
            return Err(Error::Unsupported(message.into()));
        } else if self.words(&["begin", "atomic"]) {
            let message = "BEGIN ATOMIC is not supported; write RETURN value, or AS 'query'";
            return Err(Error::Unsupported(message.into()));
        } else if self.word("return") {
            options.body = Some(WrittenBody::Expression(Box::new(self.parser.parse_expr().map_err(wrong)?)));
        } else if self.word("as") {
            options.body = Some(match self.parser.next_token().token {
                Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => WrittenBody::Text(text),
                Token::DollarQuotedString(text) => WrittenBody::Text(text.value),
                _ => {
                    self.parser.prev_token();
                    return Err(self.expected("the function's text"));
                }
            });
        } else if ["set", "support", "window", "transform", "leakproof"].iter().any(|word| self.word(word)) {
            let message = "SET, SUPPORT, WINDOW, TRANSFORM and LEAKPROOF of a function are not supported; leave them \
                           out";
            return Err(Error::Unsupported(message.into()));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn returns(&mut self) -> Result<WrittenReturns> {
        if self.word("setof") {
            return Ok(WrittenReturns::SetOf(self.parser.parse_data_type().map_err(wrong)?));
        }
        if !self.word("table") {
            if is_word(&self.parser.peek_token().token, "void") || is_word(&self.parser.peek_token().token, "trigger") {
                let message = "a function that returns VOID or TRIGGER is not supported: functions only read";
                return Err(Error::Unsupported(message.into()));
            }
            return Ok(WrittenReturns::Value(self.parser.parse_data_type().map_err(wrong)?));
        }
        self.parser.expect_token(&Token::LParen).map_err(wrong)?;
        let mut columns = Vec::new();
        loop {
            let name = normalised(self.parser.parse_identifier().map_err(wrong)?);
            columns.push((name, self.parser.parse_data_type().map_err(wrong)?));
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.parser.expect_token(&Token::RParen).map_err(wrong)?;
        Ok(WrittenReturns::Table(columns))
    }

    fn parameter(&mut self, is_macro: bool) -> Result<(Option<String>, Option<DataType>, Option<Expr>)> {
        if is_macro {
            let name = normalised(self.parser.parse_identifier().map_err(wrong)?);
            let has_default = self.parser.consume_token(&Token::Assignment);
            let default = has_default.then(|| self.parser.parse_expr().map_err(wrong)).transpose()?;
            return Ok((Some(name), None, default));
        }
        if ["out", "inout", "variadic"].iter().any(|mode| self.word(mode)) {
            let message = "OUT, INOUT and VARIADIC parameters are not supported; write RETURNS TABLE (..), or an array";
            return Err(Error::Unsupported(message.into()));
        }
        let _ = self.word("in");
        let (first, second) = (self.parser.peek_nth_token(0).token, self.parser.peek_nth_token(1).token);
        let goes_on = OF_TYPES.iter().any(|word| is_word(&second, word));
        let is_named = matches!(first, Token::Word(_))
            && matches!(&second, Token::Word(_))
            && !is_word(&second, "default")
            && !goes_on;
        let name = match is_named {
            true => Some(normalised(self.parser.parse_identifier().map_err(wrong)?)),
            false => None,
        };
        let data_type = self.parser.parse_data_type().map_err(wrong)?;
        let has_default = self.word("default") || self.parser.consume_token(&Token::Eq);
        let default = has_default.then(|| self.parser.parse_expr().map_err(wrong)).transpose()?;
        Ok((name, Some(data_type), default))
    }

    /// The name of a function, and the types that it takes where they stand behind it.
    fn function(&mut self) -> Result<NamedFunction> {
        let name = self.parser.parse_object_name(false).map_err(wrong)?;
        if !self.parser.consume_token(&Token::LParen) {
            return Ok((name, None));
        }
        let mut types = Vec::new();
        if !self.parser.consume_token(&Token::RParen) {
            loop {
                let (_, data_type, _) = self.parameter(false)?;
                types.extend(data_type);
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            self.parser.expect_token(&Token::RParen).map_err(wrong)?;
        }
        Ok((name, Some(types)))
    }

    fn drop(&mut self, is_macro: bool) -> Result<FunctionStatement> {
        if is_macro {
            let _ = self.word("table");
        }
        let if_exists = self.words(&["if", "exists"]);
        let mut names = Vec::new();
        loop {
            names.push(self.function()?);
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        let cascade = self.word("cascade");
        if !cascade {
            let _ = self.word("restrict");
        }
        Ok(FunctionStatement::Drop { names, if_exists, cascade, is_macro })
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// The query that a text is, of a function that is made.
///
/// # Errors
/// Several statements, one that is no query.
pub(crate) fn query_of_text(text: &str) -> Result<sqlparser::ast::Query> {
    let refused = || {
        Error::Unsupported("a function of LANGUAGE SQL is one query here; statements that write stand outside".into())
    };
    let AnyStatement::Sql(statement) = AnyStatement::one(text)? else { return Err(refused()) };
    match *statement {
        datafusion_sql::parser::Statement::Statement(statement) => match *statement {
            sqlparser::ast::Statement::Query(query) => Ok(*query),
            _ => Err(refused()),
        },
        _ => Err(refused()),
    }
}
