//! Changes that are computed from the stored item, and who computes them.

mod commit;

use std::fmt::Debug;

use model::Value;

use crate::item::NoSystemProperties;
use crate::ops::ItemBody;
use crate::{Error, StoredItem};

/// A change of an item that depends on its stored version, or on there being none.
///
/// It may be applied several times before one result is stored, so it must yield the same for the
/// same version.
pub trait Update: Debug + Send + Sync {
    /// What becomes of the item; `None` if there is none.
    fn apply(&self, old: Option<&ItemView<'_>>) -> Result<Change, Refusal>;

    /// Whether it takes no more time than a few assignments. Such an update of a small item is
    /// applied where all writes are put in order, so that writers of one item never meet; others
    /// must not delay the writes of others.
    fn is_cheap(&self) -> bool;
}

/// A stored item as an [`Update`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct ItemView<'a>(&'a StoredItem);

impl<'a> ItemView<'a> {
    pub(crate) fn of(item: &'a StoredItem) -> Self {
        Self(item)
    }

    /// The item.
    pub fn item(&self) -> &'a StoredItem {
        self.0
    }

    /// Its value, without system properties.
    pub fn value(&self) -> Result<Value, Refusal> {
        self.0.to_value(&NoSystemProperties).map_err(Refusal::Failed)
    }
}

/// What becomes of an item.
#[derive(Clone, Debug)]
pub enum Change {
    /// It stays as it is; nothing is written.
    Keep,
    /// It is created or replaced. Row key and partition key must be those that the operation names.
    Put(ItemBody),
    /// It is deleted, if it exists.
    Delete,
}

/// Why an update does not apply to an item.
#[derive(Debug)]
pub enum Refusal {
    /// A rule of the front end, by its own number and text.
    Rule {
        /// The number.
        code: i32,
        /// The text.
        message: String,
    },
    /// The engine could not do its part.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Failed(error)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Rule { code, message } => {
                Error::UpdateRefused { code, message: message.into() }
            }
            Refusal::Failed(error) => error,
        }
    }
}
