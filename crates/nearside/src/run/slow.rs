//! Statements that take long are told to who listens: `ALTER SYSTEM SET log_min_duration_statement`.
//!
//! A statement has ended when nothing of it is left: its last row was taken, or nobody wants it any more. What is told
//! is its text without passwords, how long that took, and the plan of what it read, as it was run.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use exec::{ListedOperator, Plan};

use crate::error::words::expression_in_sql;

/// Operators of a plan that are told; what is longer says how many more there are.
const OPERATORS_MAX: usize = 200;

/// A statement that is told of when it ends, if it has taken this long.
#[derive(Debug)]
pub(crate) struct Slow {
    at_least: Duration,
    began: Instant,
    session: i32,
    role: String,
    text: OnceLock<String>,
    plan: OnceLock<Arc<Plan>>,
}

impl Slow {
    /// A statement of a session and a role that begins now; none where the setting is not a time.
    pub(crate) fn begun(setting_ms: i64, session: i32, role: impl FnOnce() -> String) -> Option<Arc<Slow>> {
        let at_least = Duration::from_millis(setting_ms.try_into().ok()?);
        Some(Arc::new(Slow {
            at_least,
            began: Instant::now(),
            session,
            role: role(),
            text: OnceLock::new(),
            plan: OnceLock::new(),
        }))
    }

    /// What it is, the first time that somebody says so.
    pub(crate) fn is(&self, text: impl FnOnce() -> String) {
        self.text.get_or_init(text);
    }

    /// The plan of what it reads, that of the first query of it.
    pub(crate) fn reads(&self, plan: &Arc<Plan>) {
        self.plan.get_or_init(|| Arc::clone(plan));
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        if took < self.at_least {
            return;
        }
        let statement = self.text.get().map_or("", String::as_str);
        let plan = self.plan.get().map_or_else(String::new, |plan| shown(plan));
        let (session, role, duration_ms) = (self.session, self.role.as_str(), took.as_secs_f64() * 1e3);
        tracing::warn!(session, role, duration_ms, statement, plan, "a statement has taken long");
    }
}

/// The operators of a plan, a line each, those below another one further in.
fn shown(plan: &Plan) -> String {
    let operators = plan.operators();
    let line = |ListedOperator { depth, plan, .. }: &ListedOperator<'_>| {
        let operator = match plan {
            Plan::Shared(_) => "Shared: computed once".to_string(),
            other => expression_in_sql(&other.describe_operator()),
        };
        format!("{:indent$}{operator}", "", indent = depth * 2)
    };
    let mut lines: Vec<String> = operators.iter().take(OPERATORS_MAX).map(line).collect();
    if operators.len() > OPERATORS_MAX {
        lines.push(format!(".. and {} more", operators.len() - OPERATORS_MAX));
    }
    lines.join("\n")
}
