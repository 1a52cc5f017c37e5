//! How runs fail.

use rquickjs::{Coerced, Ctx, FromJs, Value};

use crate::sandbox::ScriptDeadline;

/// Most characters kept of a thrown value.
const TEXT_MAX: usize = 4 * 1024;

/// Why a script did not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// Its text is not a function.
    #[error("{message}")]
    Compile {
        /// The error and its position.
        message: String,
    },
    /// It threw, or it ignored the failure of one of its calls.
    #[error("{text}")]
    Thrown {
        /// The number of the thrown error, if it has one.
        number: Option<i64>,
        /// The error as text.
        text: String,
        /// The stack trace.
        stack: String,
    },
    /// It took too long.
    #[error("the script took longer than it may")]
    TimedOut,
    /// It ran out of memory, even for an error.
    #[error("the script needed more memory than it may")]
    OutOfMemory,
}

/// A failed run, and its log until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFailure {
    /// Why.
    pub error: ScriptError,
    /// The script's log.
    pub log: String,
}

impl ScriptError {
    /// The error for `error`, which has just come from the script's context.
    pub(crate) fn of(ctx: &Ctx<'_>, deadline: &ScriptDeadline, error: &rquickjs::Error) -> Self {
        if deadline.is_timed_out() {
            // Out of time, allocations are refused, so the exception cannot be inspected.
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
        // A script that was interrupted has timed out, whatever error it ended with.
        if deadline.is_timed_out() { ScriptError::TimedOut } else { error }
    }

    /// Describes a thrown value. Reading it may run code of the script.
    pub(crate) fn of_value<'js>(ctx: &Ctx<'js>, thrown: Value<'js>) -> Self {
        if thrown.is_null() {
            // The engine throws this when there is no memory for an error.
            return ScriptError::OutOfMemory;
        }
        let object = thrown.as_object();
        let number = object.and_then(|o| o.get::<_, f64>("number").ok());
        let stack = object.and_then(|o| o.get::<_, Option<String>>("stack").ok().flatten());
        let text = Coerced::<String>::from_js(ctx, thrown.clone()).map(|text| text.0);
        // Converting the value to text may have thrown another error.
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
