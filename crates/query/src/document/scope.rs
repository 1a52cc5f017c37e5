//! What an expression sees while it is evaluated.

use std::borrow::Cow;

use model::Value;

use super::{Failure, Variables};
use crate::budget::bytes_of;

/// The document, the variables of the command and those that expressions have bound. Linked from
/// the innermost outwards, so that binding a variable copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'s> {
    root: &'s Value,
    current: &'s Value,
    variables: &'s Variables,
    frame: Option<&'s Frame<'s>>,
}

/// Variables that an expression has bound, with the number of the first.
#[derive(Debug)]
pub(crate) struct Frame<'s> {
    start: usize,
    values: &'s [Option<Cow<'s, Value>>],
    outer: Option<&'s Frame<'s>>,
}

impl<'s> Scope<'s> {
    /// The scope of one document.
    pub fn new(root: &'s Value, variables: &'s Variables) -> Self {
        variables.begin_document();
        Self { root, current: root, variables, frame: None }
    }

    /// The same scope, where field paths begin at `current`.
    #[must_use]
    pub fn at(self, current: &'s Value) -> Self {
        Self { current, ..self }
    }

    /// `$$ROOT`.
    pub fn root(&self) -> &'s Value {
        self.root
    }

    /// `$$CURRENT`, where field paths begin.
    pub fn current(&self) -> &'s Value {
        self.current
    }

    /// The variables of the command.
    pub fn variables(&self) -> &'s Variables {
        self.variables
    }

    /// A frame of variables with numbers from `start` on, to be used with [`Scope::within`].
    pub(crate) fn bind<'i>(&self, start: usize, values: &'i [Option<Cow<'i, Value>>]) -> Frame<'i>
    where
        's: 'i,
    {
        Frame { start, values, outer: self.frame }
    }

    /// The scope that sees a frame.
    pub(crate) fn within<'i>(&self, frame: &'i Frame<'i>) -> Scope<'i>
    where
        's: 'i,
    {
        Scope { frame: Some(frame), ..*self }
    }

    /// The variable with this number that an expression has bound.
    pub(crate) fn local(&self, number: usize) -> Option<&'s Value> {
        let mut frame = self.frame?;
        while number < frame.start {
            frame = frame.outer?;
        }
        frame.values.get(number - frame.start)?.as_deref()
    }

    /// Pays for one step.
    pub(crate) fn step(&self) -> Result<(), Failure> {
        self.variables.step()
    }

    /// Pays for bytes that are made.
    pub(crate) fn spend_bytes(&self, bytes: usize) -> Result<(), Failure> {
        self.variables.spend_bytes(bytes)
    }

    /// Takes a value, or pays for copying it.
    pub(crate) fn own(&self, value: Cow<'_, Value>) -> Result<Value, Failure> {
        match value {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                self.spend_bytes(bytes_of(value))?;
                Ok(value.clone())
            }
        }
    }
}
