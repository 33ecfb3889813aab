//! Statements that tables are kept in order with and that connections are handed on with: VACUUM, ANALYZE; DISCARD,
//! RESET ALL, DEALLOCATE ALL, UNLISTEN.

use sqlparser::ast::ObjectName;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{RECURSION_MAX, normalised};
use crate::error::{Error, Result, syntax};
use crate::sql::dialect::{SqlDialect, ended};

/// `VACUUM` and `ANALYZE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upkeep {
    /// Whether it is VACUUM.
    pub vacuums: bool,
    /// Tables, each with the columns that are named; none for all tables.
    pub tables: Vec<(ObjectName, Vec<String>)>,
}

/// What a session gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// `DISCARD ALL`.
    All,
    /// `DISCARD PLANS`: a plan is made anew where it has to be, whoever says so.
    Plans,
    /// `DISCARD TEMP`: there are no temporary tables.
    Temp,
    /// `DISCARD SEQUENCES`: what values the session was given.
    Sequences,
    /// `RESET ALL`.
    Settings,
    /// `DEALLOCATE ALL`.
    Prepared,
    /// `UNLISTEN *`: there is nothing to listen to.
    Channels,
}

/// One of these statements.
pub(super) enum Kept {
    Upkeep(Upkeep),
    GivenUp(GivenUp),
}

/// The statement, if the tokens are one of these; what begins alike and is another one is for the other parser.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<Kept>> {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    let Some(Token::Word(word)) = first.map(|token| &token.token) else { return Ok(None) };
    const OURS: [&str; 8] = ["vacuum", "analyze", "discard", "reset", "deallocate", "unlisten", "listen", "notify"];
    let Some(which) = OURS.into_iter().find(|own| word.quote_style.is_none() && word.value.eq_ignore_ascii_case(own))
    else {
        return Ok(None);
    };
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    parser.next_token();
    let kept = match which {
        "vacuum" => Some(Kept::Upkeep(vacuum(&mut parser)?)),
        "analyze" => Some(Kept::Upkeep(analyze(&mut parser)?)),
        other => given_up(other, &mut parser)?.map(Kept::GivenUp),
    };
    if kept.is_some() {
        ended(&parser)?;
    }
    Ok(kept)
}

fn wrong(error: ParserError) -> Error {
    syntax(&error.to_string())
}

fn is_next(parser: &mut Parser<'_>, word: &str) -> bool {
    let is = matches!(parser.peek_token().token,
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    if is {
        parser.next_token();
    }
    is
}

fn given_up(statement: &str, parser: &mut Parser<'_>) -> Result<Option<GivenUp>> {
    let all = |parser: &mut Parser<'_>| is_next(parser, "all");
    Ok(match statement {
        "reset" => all(parser).then_some(GivenUp::Settings),
        "deallocate" => {
            is_next(parser, "prepare");
            all(parser).then_some(GivenUp::Prepared)
        }
        "unlisten" if parser.consume_token(&Token::Mul) => Some(GivenUp::Channels),
        "unlisten" => {
            let message = "UNLISTEN of a channel is not supported: nothing listens; UNLISTEN * says so";
            return Err(Error::Unsupported(message.into()));
        }
        "listen" | "notify" => {
            let statement = statement.to_uppercase();
            let message =
                format!("{statement} is not supported: no session hears of another; ask a table now and then");
            return Err(Error::Unsupported(message));
        }
        _ => {
            let kinds = [
                ("all", GivenUp::All),
                ("plans", GivenUp::Plans),
                ("temporary", GivenUp::Temp),
                ("temp", GivenUp::Temp),
                ("sequences", GivenUp::Sequences),
            ];
            match kinds.into_iter().find(|(word, _)| is_next(parser, word)) {
                Some((_, kind)) => Some(kind),
                None => {
                    let found = parser.peek_token();
                    let wanted = "ALL, PLANS, SEQUENCES or TEMP behind DISCARD";
                    return Err(parser.expected::<()>(wanted, found).map_or_else(wrong, |()| Error::syntax(wanted)));
                }
            }
        }
    })
}

/// Words of VACUUM and ANALYZE that are none of ours.
fn refused(statement: &str, option: &str) -> Error {
    let why = match option.to_lowercase().as_str() {
        "full" => "tables are compacted beside those who use them",
        "freeze" => "rows have no numbers of transactions",
        "verbose" => "nearside.deltas shows what there is to merge",
        _ => "leave it out",
    };
    Error::Unsupported(format!("{} in {statement} is not supported: {why}", option.to_uppercase()))
}

fn no_options(statement: &str, parser: &mut Parser<'_>) -> Result<()> {
    for option in ["full", "freeze", "verbose", "skip_locked"] {
        if is_next(parser, option) {
            return Err(refused(statement, option));
        }
    }
    Ok(())
}

fn vacuum(parser: &mut Parser<'_>) -> Result<Upkeep> {
    let mut analyzes = false;
    if parser.consume_token(&Token::LParen) {
        loop {
            let option = parser.parse_identifier().map_err(wrong)?.value;
            if !option.eq_ignore_ascii_case("analyze") {
                return Err(refused("VACUUM", &option));
            }
            analyzes = is_next(parser, "true")
                || is_next(parser, "on")
                || !(is_next(parser, "false") || is_next(parser, "off"));
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen).map_err(wrong)?;
    } else {
        no_options("VACUUM", parser)?;
        analyzes |= is_next(parser, "analyze");
        no_options("VACUUM", parser)?;
    }
    let tables = tables(parser)?;
    if !analyzes && tables.iter().any(|(_, columns)| !columns.is_empty()) {
        return Err(Error::syntax("columns are named in VACUUM ANALYZE alone"));
    }
    Ok(Upkeep { vacuums: true, tables })
}

fn analyze(parser: &mut Parser<'_>) -> Result<Upkeep> {
    no_options("ANALYZE", parser)?;
    if parser.consume_token(&Token::LParen) {
        let option = parser.parse_identifier().map_err(wrong)?.value;
        return Err(refused("ANALYZE", &option));
    }
    Ok(Upkeep { vacuums: false, tables: tables(parser)? })
}

/// `t [(columns)], ..`, or nothing.
fn tables(parser: &mut Parser<'_>) -> Result<Vec<(ObjectName, Vec<String>)>> {
    let mut tables = Vec::new();
    if parser.peek_token().token == Token::EOF {
        return Ok(tables);
    }
    loop {
        if parser.peek_keyword(Keyword::TABLE) {
            return Err(Error::syntax("TABLE does not stand before names in VACUUM and ANALYZE; leave it out"));
        }
        let name = parser.parse_object_name(false).map_err(wrong)?;
        let mut columns = Vec::new();
        if parser.consume_token(&Token::LParen) {
            let named = parser.parse_comma_separated(Parser::parse_identifier).map_err(wrong)?;
            columns = named.into_iter().map(normalised).collect();
            parser.expect_token(&Token::RParen).map_err(wrong)?;
        }
        tables.push((name, columns));
        if !parser.consume_token(&Token::Comma) {
            return Ok(tables);
        }
    }
}
