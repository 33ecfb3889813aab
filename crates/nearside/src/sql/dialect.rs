//! How texts are tokenised and parsed: statements as the permissive dialect has them, operators as PostgreSQL has them.
//!
//! PostgreSQL's manual, section 4.1.6: `^` is the power of a number and stronger than `*`, every operator without a
//! level of its own (`||`, `&`, `#`, `~`, `->`, ..) is weaker than `+` and stronger than comparisons, a sign is
//! stronger than `^`.

use std::any::TypeId;

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};
use sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::calls::call;
use crate::error::{Error, Position, Result as OwnResult};

/// Fails where a statement of ours goes on behind its end.
///
/// # Errors
/// What stands there.
pub(super) fn ended(parser: &Parser<'_>) -> OwnResult<()> {
    let found = parser.peek_token();
    match found.token {
        Token::EOF => Ok(()),
        _ => Err(Error::Syntax {
            message: format!("Expected: end of statement, found: {found}"),
            position: Some(Position { line: found.span.start.line, column: found.span.start.column }),
        }),
    }
}

const OR: u8 = 10;
const AND: u8 = 20;
const NOT: u8 = 30;
const IS: u8 = 40;
const COMPARED: u8 = 50;
const BETWEEN: u8 = 60;
/// Operators without a level of their own.
const OTHER: u8 = 70;
const PLUS: u8 = 80;
const TIMES: u8 = 90;
const POWER: u8 = 100;
const AT_TIME_ZONE: u8 = 110;
const SIGN: u8 = 130;
const SUBSCRIPT: u8 = 140;
const CAST: u8 = 150;
const PERIOD: u8 = 160;

/// Values without brackets that columns' defaults, which are kept as the planner's expressions, have as calls.
const KEPT_CALLS: [Keyword; 4] =
    [Keyword::CURRENT_CATALOG, Keyword::CURRENT_USER, Keyword::SESSION_USER, Keyword::USER];

/// See the module.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SqlDialect;

/// What the permissive dialect says yes to.
macro_rules! permitted {
    ($($name:ident)*) => {
        $(fn $name(&self) -> bool {
            GenericDialect.$name()
        })*
    };
}

impl Dialect for SqlDialect {
    fn dialect(&self) -> TypeId {
        GenericDialect.dialect()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    permitted! {
        supports_unicode_string_literal supports_partition_by_after_order_by supports_array_join_syntax
        supports_group_by_expr supports_group_by_with_modifier supports_left_associative_joins_without_parens
        supports_connect_by supports_match_recognize supports_pipe_operator supports_start_transaction_modifier
        supports_window_function_null_treatment_arg supports_dictionary_syntax
        supports_window_clause_named_window_reference supports_parenthesized_set_variables
        supports_select_wildcard_except support_map_literal_syntax allow_extract_custom allow_extract_single_quotes
        supports_extract_comma_syntax supports_create_view_comment_syntax supports_parens_around_table_factor
        supports_values_as_table_factor supports_create_index_with_clause supports_explain_with_utility_options
        supports_limit_comma supports_update_order_by supports_from_first_select supports_projection_trailing_commas
        supports_asc_desc_in_column_definition supports_try_convert supports_bitwise_shift_operators
        supports_comment_on supports_load_extension supports_named_fn_args_with_assignment_operator
        supports_struct_literal supports_empty_projections supports_nested_comments supports_multiline_comment_hints
        supports_user_host_grantee supports_string_escape_constant supports_array_typedef_with_brackets
        supports_match_against supports_set_names supports_comma_separated_set_assignments
        supports_filter_during_aggregation supports_select_wildcard_exclude supports_data_type_signed_suffix
        supports_interval_options supports_quote_delimited_string supports_select_wildcard_replace
        supports_select_wildcard_ilike supports_select_wildcard_rename supports_optimize_table supports_install
        supports_detach supports_prewhere supports_with_fill supports_limit_by supports_interpolate
        supports_settings supports_select_format supports_comment_optimizer_hint
        supports_constraint_keyword_without_name supports_key_column_option supports_comma_separated_trim
        supports_cte_without_as supports_select_item_multi_column_alias supports_xml_expressions
    }

    fn supports_alter_column_type_using(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Period => PERIOD,
            Precedence::DoubleColon => CAST,
            Precedence::AtTz => AT_TIME_ZONE,
            Precedence::MulDivModOp => TIMES,
            Precedence::PlusMinus => PLUS,
            Precedence::Caret => POWER,
            Precedence::Xor | Precedence::Ampersand | Precedence::Pipe | Precedence::Colon | Precedence::PgOther => {
                OTHER
            }
            Precedence::Between | Precedence::Like => BETWEEN,
            Precedence::Eq => COMPARED,
            Precedence::Is => IS,
            Precedence::UnaryNot => NOT,
            Precedence::And => AND,
            Precedence::Or => OR,
        }
    }

    /// Where the parser's own order of levels is another one.
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let level = match &parser.peek_token_ref().token {
            Token::Word(word) if word.keyword == Keyword::OPERATOR => OTHER,
            Token::LBracket => SUBSCRIPT,
            Token::StringConcat
            | Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk
            | Token::Sharp
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Overlap
            | Token::CaretAt
            | Token::ExclamationMark => OTHER,
            Token::Placeholder(mark) if mark == "?" => OTHER,
            _ => return None,
        };
        Some(Ok(level))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Token::Word(word) = &parser.peek_token_ref().token
            && word.quote_style.is_none()
            && KEPT_CALLS.contains(&word.keyword)
            && parser.peek_nth_token(1).token == Token::LParen
            && parser.peek_nth_token(2).token == Token::RParen
        {
            let function = call(&word.value.to_lowercase(), Vec::new());
            (0..3).for_each(|_| drop(parser.next_token()));
            return Some(Ok(function));
        }
        let (op, level) = match parser.peek_token_ref().token {
            Token::Minus => (UnaryOperator::Minus, SIGN),
            Token::Plus => (UnaryOperator::Plus, SIGN),
            Token::Tilde => (UnaryOperator::BitwiseNot, OTHER),
            _ => return None,
        };
        parser.next_token();
        let operand = parser.parse_subexpr(level);
        Some(operand.map(|expr| match op {
            UnaryOperator::BitwiseNot => complement(expr),
            // Written again, two signs in a row would begin a comment.
            op if matches!(expr, Expr::UnaryOp { .. }) => {
                Expr::UnaryOp { op, expr: Box::new(Expr::Nested(Box::new(expr))) }
            }
            op => Expr::UnaryOp { op, expr: Box::new(expr) },
        }))
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        let op = match parser.peek_token_ref().token {
            Token::Caret => BinaryOperator::PGExp,
            Token::Sharp => BinaryOperator::PGBitwiseXor,
            // Behind a value it is no parameter.
            Token::Placeholder(ref mark) if mark == "?" => match parser.peek_nth_token(1).token {
                Token::Pipe => BinaryOperator::QuestionPipe,
                Token::Ampersand => BinaryOperator::QuestionAnd,
                _ => BinaryOperator::Question,
            },
            _ => return None,
        };
        parser.next_token();
        if matches!(op, BinaryOperator::QuestionPipe | BinaryOperator::QuestionAnd) {
            parser.next_token();
        }
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| Expr::BinaryOp { left: Box::new(left.clone()), op, right: Box::new(right) }))
    }
}

/// All bits of a number turned round.
fn complement(of: Expr) -> Expr {
    let one = Box::new(Expr::value(Value::Number("1".into(), false)));
    let all = Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: one });
    // In brackets, since it is written again as the weaker operator that it is now.
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(of), op: BinaryOperator::PGBitwiseXor, right: all }))
}
