//! How runs end badly.

use rquickjs::{Coerced, Ctx, FromJs, Value};

use crate::sandbox::ScriptDeadline;

/// Most characters kept of what a script throws.
const TEXT_MAX: usize = 4 * 1024;

/// Why a script did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// Its text is not a function.
    #[error("{message}")]
    Compile {
        /// What is wrong with it, and where.
        message: String,
    },
    /// It threw, or something it did was refused and it did not care.
    #[error("{text}")]
    Thrown {
        /// The number the thrown error has, if it has one.
        number: Option<i64>,
        /// The error as a text.
        text: String,
        /// Where it came from.
        stack: String,
    },
    /// It took too long.
    #[error("the script took longer than it may")]
    TimedOut,
    /// It needed too much memory to even say so.
    #[error("the script needed more memory than it may")]
    OutOfMemory,
}

/// A run that ended badly, and what it said until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFailure {
    /// Why.
    pub error: ScriptError,
    /// What it logged.
    pub log: String,
}

impl ScriptError {
    /// What `error`, which just came out of the script's context, is about.
    pub(crate) fn of(ctx: &Ctx<'_>, deadline: &ScriptDeadline, error: &rquickjs::Error) -> Self {
        if deadline.is_timed_out() {
            // There is no memory to look at anything any more.
            return ScriptError::TimedOut;
        }
        let error = match error.is_exception() {
            true => Self::of_value(ctx, ctx.catch()),
            false if matches!(error, rquickjs::Error::Allocation) => ScriptError::OutOfMemory,
            false => ScriptError::Thrown {
                number: None,
                text: cut(error.to_string()),
                stack: String::new(),
            },
        };
        // Whatever became of it, a script that was interrupted is one that took too long.
        if deadline.is_timed_out() { ScriptError::TimedOut } else { error }
    }

    /// Describes what was thrown. Looking at it may run code of the script.
    pub(crate) fn of_value<'js>(ctx: &Ctx<'js>, thrown: Value<'js>) -> Self {
        if thrown.is_null() {
            // What the engine throws when there is no memory for an error.
            return ScriptError::OutOfMemory;
        }
        let object = thrown.as_object();
        let number = object.and_then(|o| o.get::<_, f64>("number").ok());
        let stack = object.and_then(|o| o.get::<_, Option<String>>("stack").ok().flatten());
        let text = Coerced::<String>::from_js(ctx, thrown.clone()).map(|text| text.0);
        // A text that can't be had may have thrown something itself.
        let _ = ctx.catch();
        ScriptError::Thrown {
            number: number.filter(|n| n.is_finite()).map(whole),
            text: cut(text.unwrap_or_else(|_| "an object without a text".to_owned())),
            stack: cut(stack.unwrap_or_default()),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "casts of floats stop at the ends")]
fn whole(number: f64) -> i64 {
    number as i64
}

fn cut(text: String) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => text[..at].to_owned(),
        None => text,
    }
}
