//! A progress bar on standard error for loads that take long; silent where standard error is no terminal.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Redraws per second.
const DRAWS_HZ: u8 = 10;

/// A bar, or nothing. Clones share it.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over `total` of something, nothing drawn off a terminal.
    pub fn new(total: Option<u64>, what: impl Into<Cow<'static, str>>) -> Progress {
        // The target hides itself where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(DRAWS_HZ));
        let template = match total {
            Some(_) => "{msg:12} {bar:40} {percent:>3}% {elapsed_precise} (about {eta} left)",
            None => "{msg:12} {spinner} {human_pos} {elapsed_precise}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        Progress(bar)
    }

    /// Says what is being worked on.
    pub fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }

    /// `n` more are done.
    pub fn advance(&self, n: u64) {
        self.0.inc(n);
    }

    /// `done` of `total` are done; a total of 0 is not known.
    pub fn set(&self, done: u64, total: u64) {
        if total > 0 {
            self.0.set_length(total);
        }
        self.0.set_position(done);
    }

    /// Takes the bar off the screen.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}
