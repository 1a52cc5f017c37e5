//! The position where a list continues: keys in a form that headers can carry and that is never
//! empty.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;

use crate::errors::TableError;

/// Longest token: the longest key in base64, with some reserve.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The token of a key: `1!{length}!{base64}`.
pub(crate) fn token_of(key: &str) -> String {
    let encoded = URL_SAFE.encode(key);
    format!("1!{}!{encoded}", encoded.len())
}

/// The key of a token.
pub(crate) fn key_of(token: &str) -> Result<String, TableError> {
    let read = || {
        let (length, encoded) = token.strip_prefix("1!")?.split_once('!')?;
        let fits = length.parse() == Ok(encoded.len()) && encoded.len() <= TOKEN_BYTES_MAX;
        let bytes = fits.then(|| URL_SAFE.decode(encoded).ok())??;
        String::from_utf8(bytes).ok()
    };
    read().ok_or_else(TableError::invalid_inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_look_like_the_services_and_are_never_empty() {
        assert_eq!(token_of("p'1"), "1!4!cCcx");
        assert_eq!(token_of(""), "1!0!");
        for key in ["", "a", "p'1", "\u{0}", "日本語", "a/b?c"] {
            assert_eq!(key_of(&token_of(key)).ok().as_deref(), Some(key));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in ["", "1!", "1!5!cCcx", "2!4!cCcx", "1!4!c!cx", "1!4!____", "1!x!cCcx"] {
            assert!(key_of(bad).is_err(), "{bad}");
        }
    }
}
