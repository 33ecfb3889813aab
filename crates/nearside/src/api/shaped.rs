//! Statements whose texts differ in literals alone ([`Shape`]): from the second one on they run as one prepared
//! statement, which is planned once. Each session keeps its own, as those that it is told to prepare.

use std::sync::Arc;

use crate::api::prepared::{QuerySource, Template};
use crate::error::{Error, Result};
use crate::run::cache::{Key, PlanCache};
use crate::run::outcome::Outcome;
use crate::run::statement::RunningStatement;
use crate::sql::{Shape, Written, check_tokens};
use crate::statements::transaction::by_keys::ByKeys;

/// Shapes that a session keeps.
const SHAPES_MAX: usize = 64;

/// What is known of a shape.
#[derive(Clone, Debug)]
enum Known {
    /// It was met once: statements that come once are not prepared.
    Once,
    Prepared(Arc<Template>),
    /// As a prepared statement it is refused, so its statements run as they are written.
    Refused,
}

/// The shapes of a session.
#[derive(Debug)]
pub(super) struct Shapes(PlanCache<Known>);

impl Default for Shapes {
    fn default() -> Shapes {
        Shapes(PlanCache::new(SHAPES_MAX))
    }
}

impl Shapes {
    /// As [`run`](Self::run), as a statement of a transaction, if it writes or reads a row by its key.
    ///
    /// # Errors
    /// As there.
    pub(super) fn run_by_keys(
        &self,
        written: &Written,
        (running, settings): (&Arc<RunningStatement>, u64),
        of: &mut ByKeys<'_>,
    ) -> Result<Option<Outcome>> {
        let shape = Shape::of(&written.tokens).filter(|_| check_tokens(&written.tokens).is_ok());
        let Some(mut shape) = shape else { return Ok(None) };
        let sql = std::mem::take(&mut shape.text);
        let key = Key { sql, settings, ddl_version: running.catalog.ddl_version };
        let Some(Known::Prepared(template)) = self.0.get(&key) else { return Ok(None) };
        let options = &running.planner.config_options().sql_parser;
        match shape.values(template.parameter_types(), options.parse_float_as_decimal) {
            Some(values) => template.start_by_keys(&values, (running, settings), of),
            None => Ok(None),
        }
    }

    /// Runs a statement by its shape; `None` where it has to run as it is written.
    ///
    /// # Errors
    /// What the statement itself says.
    pub(super) fn run(
        &self,
        written: &Written,
        running: &Arc<RunningStatement>,
        settings: u64,
    ) -> Result<Option<Outcome>> {
        // What is refused as it is written has no shape: written out again, it might be read otherwise.
        let shape = Shape::of(&written.tokens).filter(|_| check_tokens(&written.tokens).is_ok());
        let Some(mut shape) = shape else { return Ok(None) };
        let sql = std::mem::take(&mut shape.text);
        let key = Key { sql, settings, ddl_version: running.catalog.ddl_version };
        let template = match self.0.get(&key) {
            Some(Known::Refused) => return Ok(None),
            Some(Known::Prepared(template)) => template,
            None => {
                self.0.put(key, Known::Once);
                return Ok(None);
            }
            Some(Known::Once) => match Template::new(QuerySource::Text(key.sql.clone()), running, settings) {
                Ok((template, _)) => {
                    let template = Arc::new(template);
                    self.0.put(key, Known::Prepared(Arc::clone(&template)));
                    template
                }
                Err(error @ (Error::Cancelled | Error::Timeout | Error::Memory(_))) => return Err(error),
                // Whatever is wrong with it is told of the statement as it is written.
                Err(_) => {
                    self.0.put(key, Known::Refused);
                    return Ok(None);
                }
            },
        };
        let options = &running.planner.config_options().sql_parser;
        match shape.values(template.parameter_types(), options.parse_float_as_decimal) {
            Some(values) => template.start(&values, Arc::clone(running), settings).map(Some),
            None => Ok(None),
        }
    }
}
