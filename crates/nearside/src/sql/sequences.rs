//! CREATE, ALTER and DROP SEQUENCE, what ALTER TABLE says of numbered columns, and options of sequences, which stand in
//! any order.

use datafusion_common::DataFusionError;
use sqlparser::ast::ObjectName;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::dialect::SqlDialect;
use super::{RECURSION_MAX, normalised};
use crate::catalog::sequences::{SequenceOptions, SequenceType};
use crate::error::{Error, Position, Result, syntax};

/// The column that a sequence is to belong to: `OWNED BY t.c`, `OWNED BY NONE`.
pub(crate) type OwnedBy = Option<(ObjectName, String)>;

/// A statement about sequences, or about how columns are numbered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SequenceStatement {
    /// `CREATE SEQUENCE`.
    Create {
        name: ObjectName,
        is_temporary: bool,
        if_not_exists: bool,
        options: SequenceOptions,
        owned_by: Option<OwnedBy>,
    },
    /// `ALTER SEQUENCE` with options.
    Alter { name: ObjectName, if_exists: bool, options: SequenceOptions, owned_by: Option<OwnedBy> },
    /// `ALTER SEQUENCE .. RENAME TO`.
    Rename { name: ObjectName, if_exists: bool, to: String },
    /// `DROP SEQUENCE`.
    Drop { names: Vec<ObjectName>, if_exists: bool, cascade: bool },
    /// `ALTER TABLE .. ALTER COLUMN ..` about how it is numbered or computed.
    Column { table: ObjectName, if_exists: bool, column: String, change: ColumnChange },
}

/// What becomes of a column that is numbered or computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ColumnChange {
    /// `ADD GENERATED .. AS IDENTITY`.
    Add { is_always: bool, options: SequenceOptions },
    /// `SET GENERATED ..`, `SET` an option, `RESTART`.
    Set { is_always: Option<bool>, options: SequenceOptions },
    /// `DROP IDENTITY`.
    DropIdentity { if_exists: bool },
    /// `DROP EXPRESSION`.
    DropExpression { if_exists: bool },
}

/// The statement, if the tokens are one of these.
///
/// # Errors
/// What is wrong with it.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<SequenceStatement>> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let is = |token: Option<&TokenWithSpan>, wanted: &str| {
        matches!(token.map(|token| &token.token),
            Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    let (first, second) = (words.next(), words.next());
    let is_first = ["create", "alter", "drop"].into_iter().find(|wanted| is(first, wanted));
    let Some(verb) = is_first else { return Ok(None) };
    let mut parser =
        Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX).with_tokens_with_locations(tokens.to_vec());
    let parsed = if is(second, "sequence") {
        parser.next_token();
        parser.next_token();
        match verb {
            "create" => create(&mut parser, false).map(Some),
            "alter" => alter(&mut parser).map(Some),
            _ => drop_sequence(&mut parser).map(Some),
        }
    } else if verb == "create" && (is(second, "temp") || is(second, "temporary")) && is(words.next(), "sequence") {
        (0..3).for_each(|_| drop(parser.next_token()));
        create(&mut parser, true).map(Some)
    } else if verb == "alter" && is(second, "table") {
        alter_column(&mut parser)
    } else {
        return Ok(None);
    };
    let parsed = parsed.map_err(|e| syntax(&e.to_string()))?;
    if parsed.is_some() && parser.peek_token().token != Token::EOF {
        let found = parser.peek_token();
        return Err(Error::Syntax {
            message: format!("Expected: an option of a sequence or the end of the statement, found: {found}"),
            position: Some(Position { line: found.span.start.line, column: found.span.start.column }),
        });
    }
    Ok(parsed)
}

fn create(parser: &mut Parser<'_>, is_temporary: bool) -> Result<SequenceStatement, ParserError> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let (options, owned_by) = options(parser, true)?;
    Ok(SequenceStatement::Create { name, is_temporary, if_not_exists, options, owned_by })
}

fn alter(parser: &mut Parser<'_>) -> Result<SequenceStatement, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        let to = normalised(parser.parse_identifier()?);
        return Ok(SequenceStatement::Rename { name, if_exists, to });
    }
    let (options, owned_by) = options(parser, true)?;
    if options == SequenceOptions::default() && owned_by.is_none() {
        return parser.expected("an option of a sequence, OWNED BY or RENAME TO", parser.peek_token());
    }
    Ok(SequenceStatement::Alter { name, if_exists, options, owned_by })
}

fn drop_sequence(parser: &mut Parser<'_>) -> Result<SequenceStatement, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    if !cascade {
        let _ = parser.parse_keyword(Keyword::RESTRICT);
    }
    Ok(SequenceStatement::Drop { names, if_exists, cascade })
}

/// `ALTER TABLE [IF EXISTS] t ALTER [COLUMN] c (ADD GENERATED | SET GENERATED | RESTART | DROP IDENTITY | DROP
/// EXPRESSION)`; `None` for every other ALTER TABLE.
fn alter_column(parser: &mut Parser<'_>) -> Result<Option<SequenceStatement>, ParserError> {
    parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    // What is wrong with a name is for the other parser to say.
    let Ok(table) = parser.parse_object_name(false) else { return Ok(None) };
    if !parser.parse_keyword(Keyword::ALTER) {
        return Ok(None);
    }
    let _ = parser.parse_keyword(Keyword::COLUMN);
    let Ok(column) = parser.parse_identifier() else { return Ok(None) };
    let change = if word(parser, "add") {
        if !word(parser, "generated") {
            return Ok(None);
        }
        let is_always = always(parser)?;
        parser.expect_keyword(Keyword::AS)?;
        parser.expect_keyword(Keyword::IDENTITY)?;
        let mut options = SequenceOptions::default();
        if parser.consume_token(&Token::LParen) {
            options = self::options(parser, false)?.0;
            parser.expect_token(&Token::RParen)?;
        }
        ColumnChange::Add { is_always, options }
    } else if is_word(parser, "restart") || is_word(parser, "set") {
        let (mut is_always, mut options) = (None, SequenceOptions::default());
        let mut is_any = false;
        loop {
            if word(parser, "restart") {
                options.restart = Some(restart(parser)?);
            } else if word(parser, "set") {
                if word(parser, "generated") {
                    is_always = Some(always(parser)?);
                } else if !option(parser, &mut options)? {
                    break;
                }
            } else {
                break;
            }
            is_any = true;
        }
        if !is_any {
            return Ok(None);
        }
        ColumnChange::Set { is_always, options }
    } else if word(parser, "drop") {
        let of = if word(parser, "identity") {
            true
        } else if word(parser, "expression") {
            false
        } else {
            return Ok(None);
        };
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        match of {
            true => ColumnChange::DropIdentity { if_exists },
            false => ColumnChange::DropExpression { if_exists },
        }
    } else {
        return Ok(None);
    };
    Ok(Some(SequenceStatement::Column { table, if_exists, column: normalised(column), change }))
}

/// `ALWAYS` or `BY DEFAULT`.
fn always(parser: &mut Parser<'_>) -> Result<bool, ParserError> {
    if word(parser, "always") {
        return Ok(true);
    }
    if parser.parse_keywords(&[Keyword::BY, Keyword::DEFAULT]) {
        return Ok(false);
    }
    parser.expected("ALWAYS or BY DEFAULT behind GENERATED", parser.peek_token())
}

fn is_word(parser: &Parser<'_>, word: &str) -> bool {
    matches!(parser.peek_token().token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

fn word(parser: &mut Parser<'_>, word: &str) -> bool {
    let found = is_word(parser, word);
    if found {
        parser.next_token();
    }
    found
}

/// All options that follow, in any order; each of them once, `AS` and OWNED BY where a sequence has a name of its own.
fn options(parser: &mut Parser<'_>, has_name: bool) -> Result<(SequenceOptions, Option<OwnedBy>), ParserError> {
    let mut options = SequenceOptions::default();
    let mut owned_by = None;
    loop {
        if has_name && is_word(parser, "owned") {
            parser.next_token();
            parser.expect_keyword(Keyword::BY)?;
            if owned_by.is_some() {
                return parser.expected("OWNED BY once", parser.peek_token());
            }
            owned_by = Some(match word(parser, "none") {
                true => None,
                false => {
                    let mut name = parser.parse_object_name(false)?;
                    let column = name.0.pop().and_then(|part| part.as_ident().cloned());
                    match column.filter(|_| !name.0.is_empty()) {
                        Some(column) => Some((name, normalised(column))),
                        None => return parser.expected("table.column or NONE behind OWNED BY", parser.peek_token()),
                    }
                }
            });
        } else if !has_name && is_word(parser, "sequence") {
            parser.next_token();
            if !word(parser, "name") || options.name.is_some() {
                return parser.expected("SEQUENCE NAME once", parser.peek_token());
            }
            options.name = Some(parser.parse_object_name(false)?.to_string());
        } else if !option(parser, &mut options)? {
            return Ok((options, owned_by));
        }
    }
}

/// One option, if one follows.
fn option(parser: &mut Parser<'_>, options: &mut SequenceOptions) -> Result<bool, ParserError> {
    fn once<T>(parser: &Parser<'_>, place: &mut Option<T>, value: T) -> Result<(), ParserError> {
        match place.replace(value) {
            Some(_) => parser.expected("each option of a sequence once", parser.peek_token()),
            None => Ok(()),
        }
    }

    if word(parser, "as") {
        let name = parser.parse_data_type()?.to_string();
        let Some(data_type) = SequenceType::of(&name) else {
            return parser.expected("SMALLINT, INTEGER or BIGINT, which a sequence can be,", parser.peek_token());
        };
        once(parser, &mut options.data_type, data_type)?;
    } else if word(parser, "increment") {
        word(parser, "by");
        let value = whole(parser)?;
        once(parser, &mut options.increment, value)?;
    } else if word(parser, "minvalue") {
        let value = whole(parser)?;
        once(parser, &mut options.min, Some(value))?;
    } else if word(parser, "maxvalue") {
        let value = whole(parser)?;
        once(parser, &mut options.max, Some(value))?;
    } else if word(parser, "start") {
        word(parser, "with");
        let value = whole(parser)?;
        once(parser, &mut options.start, value)?;
    } else if word(parser, "restart") {
        let value = restart(parser)?;
        once(parser, &mut options.restart, value)?;
    } else if word(parser, "cache") {
        let value = whole(parser)?;
        once(parser, &mut options.cache, value)?;
    } else if word(parser, "cycle") {
        once(parser, &mut options.cycle, true)?;
    } else if is_word(parser, "no") {
        parser.next_token();
        if word(parser, "minvalue") {
            once(parser, &mut options.min, None)?;
        } else if word(parser, "maxvalue") {
            once(parser, &mut options.max, None)?;
        } else if word(parser, "cycle") {
            once(parser, &mut options.cycle, false)?;
        } else {
            return parser.expected("MINVALUE, MAXVALUE or CYCLE behind NO", parser.peek_token());
        }
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// What stands behind RESTART.
fn restart(parser: &mut Parser<'_>) -> Result<Option<i64>, ParserError> {
    let with = word(parser, "with");
    let is_number = matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus);
    match with || is_number {
        true => whole(parser).map(Some),
        false => Ok(None),
    }
}

fn whole(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let is_negative = parser.consume_token(&Token::Minus);
    if !is_negative {
        let _ = parser.consume_token(&Token::Plus);
    }
    let found = parser.peek_token();
    if let Token::Number(digits, _) = &found.token {
        let text = if is_negative { format!("-{digits}") } else { digits.clone() };
        if let Ok(value) = text.parse() {
            parser.next_token();
            return Ok(value);
        }
    }
    parser.expected("a whole number of 64 bits", found)
}

/// Puts the options of identities (`AS IDENTITY (..)`) into the order that the other parser reads.
///
/// # Errors
/// Options that are none.
pub(super) fn with_options_in_order(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let is_identity = |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::IDENTITY);
    if !tokens.iter().any(|token| is_identity(&token.token)) {
        return Ok(tokens);
    }
    let mut ordered = Vec::with_capacity(tokens.len());
    let mut rest = tokens.into_iter().peekable();
    let (mut is_open, mut is_as) = (false, false);
    while let Some(token) = rest.next() {
        let opens = is_open && token.token == Token::LParen;
        let is_blank = matches!(token.token, Token::Whitespace(_));
        is_open = is_as && is_identity(&token.token) || is_open && is_blank;
        is_as = matches!(&token.token, Token::Word(word) if word.keyword == Keyword::AS) || is_as && is_blank;
        let span = token.span;
        ordered.push(token);
        if !opens {
            continue;
        }
        let mut inside = Vec::new();
        while let Some(token) = rest.next_if(|token| token.token != Token::RParen) {
            inside.push(token);
        }
        let mut parser = Parser::new(&SqlDialect).with_tokens_with_locations(inside);
        let parsed = options(&mut parser, false).and_then(|(options, _)| match parser.peek_token().token {
            Token::EOF => Ok(options),
            _ => parser.expected("an option of a sequence", parser.peek_token()),
        });
        let options = parsed.map_err(|e| syntax(&e.to_string()))?;
        let tokenized = Tokenizer::new(&SqlDialect, &written(&options)?).tokenize();
        let tokenized = tokenized.map_err(|e| DataFusionError::from(ParserError::from(e)))?;
        ordered.extend(tokenized.into_iter().map(|token| TokenWithSpan::new(token, span)));
    }
    Ok(ordered)
}

/// Options in the order that the other parser reads.
fn written(options: &SequenceOptions) -> Result<String> {
    let SequenceOptions { data_type, start, increment, min, max, cache, cycle, restart, name } = options;
    if name.is_some() {
        return Err(Error::Unsupported(
            "SEQUENCE NAME is not for identities in CREATE TABLE; ALTER TABLE .. ALTER COLUMN .. ADD GENERATED has it"
                .into(),
        ));
    }
    if data_type.is_some() || restart.is_some() {
        return Err(Error::Unsupported(
            "AS and RESTART are not for identities in CREATE TABLE: the column has a type, and START WITH says where \
             it begins"
                .into(),
        ));
    }
    let bound = |name: &str, value: &Option<Option<i64>>| match value {
        None => String::new(),
        Some(None) => format!("NO {name} "),
        Some(Some(value)) => format!("{name} {value} "),
    };
    let value = |name: &str, value: &Option<i64>| value.map_or_else(String::new, |value| format!("{name} {value} "));
    Ok([
        value("INCREMENT BY", increment),
        bound("MINVALUE", min),
        bound("MAXVALUE", max),
        value("START WITH", start),
        value("CACHE", cache),
        cycle.map_or_else(String::new, |cycle| if cycle { "CYCLE".into() } else { "NO CYCLE".into() }),
    ]
    .concat())
}
