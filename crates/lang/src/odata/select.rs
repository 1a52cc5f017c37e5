//! `$select`, and the options that are rejected.

use crate::{SyntaxError, SyntaxErrorKind};
use model::limits::SELECTED_NAMES_MAX;

/// Options of OData that the Table API does not have.
const REFUSED: [&str; 5] = ["$orderby", "$skip", "$count", "$expand", "$inlinecount"];

/// Rejects the options that the service does not implement, by name.
pub fn check_option(name: &str) -> Result<(), SyntaxError> {
    if !REFUSED.contains(&name) {
        return Ok(());
    }
    Err(SyntaxError {
        code: "",
        message: format!("The query option '{name}' is not supported."),
        start: 0,
        end: 0,
        kind: SyntaxErrorKind::NotSupported,
    })
}

/// Which properties are requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All properties.
    All,
    /// The properties with these names, if they exist.
    Names(Vec<String>),
}

impl Selection {
    /// Parses the value of `$select`; an empty one and `*` select everything.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let names: Vec<&str> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if names.is_empty() || names.contains(&"*") {
            return Ok(Selection::All);
        }
        if names.len() > SELECTED_NAMES_MAX {
            return Err(SyntaxError {
                code: "",
                message: format!("$select names more than {SELECTED_NAMES_MAX} properties."),
                start: 0,
                end: text.encode_utf16().count(),
                kind: SyntaxErrorKind::Syntax,
            });
        }
        let mut unique: Vec<String> = Vec::with_capacity(names.len());
        for name in names {
            if !unique.iter().any(|known| known == name) {
                unique.push(name.to_owned());
            }
        }
        Ok(Selection::Names(unique))
    }

    /// Whether the property of this name is requested.
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Names(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}
