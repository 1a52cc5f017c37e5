//! The query of a request: its options, decoded.

use std::time::Duration;

use model::limits;
use percent_encoding::percent_decode_str;

use crate::errors::TableError;

/// Most options of a request.
const OPTIONS_MAX: usize = 64;

/// Options by name, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options(Vec<(String, String)>);

impl Options {
    /// Parses the text after the question mark.
    pub(crate) fn parse(query: &str) -> Result<Self, TableError> {
        let mut options = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if options.len() == OPTIONS_MAX {
                return Err(TableError::invalid_query_parameter());
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name)?;
            // Blanks in filters may be encoded as in forms; in base64 a plus is a plus.
            let value = match name.starts_with('$') {
                true => decode(&value.replace('+', " "))?,
                false => decode(value)?,
            };
            options.push((name, value));
        }
        Ok(Self(options))
    }

    /// The value of an option.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether an option has this value, in any case.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|given| given.eq_ignore_ascii_case(value))
    }

    /// How long the client waits for the answer. What is no number of seconds means nothing, as for
    /// the service.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let seconds = self.get("timeout")?.parse().ok().filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds).min(limits::TABLE_TIMEOUT_MAX))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

fn decode(text: &str) -> Result<String, TableError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| TableError::invalid_query_parameter())
}
