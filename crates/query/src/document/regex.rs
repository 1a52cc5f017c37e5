//! Regular expressions of filters and expressions.

mod dialect;

use crate::functions::regex::pattern::{Flags, Pattern};
use crate::{Budget, EvalError};

use super::{Failure, code};

/// A compiled regular expression and what it was compiled from.
#[derive(Debug)]
pub struct Regex {
    pattern: String,
    options: String,
    compiled: Pattern,
    prefix: Option<String>,
    /// Whether a last line feed does not count as text.
    ends_before_line_feed: bool,
}

/// Numbers of errors in regular expressions.
const INVALID_PATTERN: i32 = 51091;
const INVALID_OPTION: i32 = 51108;

impl Regex {
    /// Compiles a pattern with option letters, in any order.
    pub fn new(pattern: &str, options: &str) -> Result<Self, Failure> {
        if let Some(unknown) = options.chars().find(|letter| !"imsxu".contains(*letter)) {
            let message = format!(" invalid flag in regex options: {unknown}");
            return Err(Failure::new(INVALID_OPTION, message));
        }
        if pattern.contains('\0') {
            let message = "Regular expression cannot contain an embedded null byte";
            return Err(Failure::new(code::BAD_VALUE, message));
        }
        // Text is always Unicode, which is all that `u` asks for.
        let flags = Flags::parse(&options.replace('u', "")).unwrap_or_default();
        let translated = dialect::translate(pattern);
        let compiled = Pattern::compile(&translated.pattern, flags).map_err(|reason| {
            Failure::new(INVALID_PATTERN, format!("Regular expression is invalid: {reason}"))
        })?;
        Ok(Self {
            pattern: pattern.to_owned(),
            options: sorted(options),
            compiled,
            prefix: prefix_of(pattern, options),
            ends_before_line_feed: translated.asks_for_end,
        })
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The option letters, sorted.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// A text that everything begins with that matches; `None` if none is known.
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Whether a part of `text` matches. Steps are paid from `budget`.
    pub fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, Failure> {
        let is_match = self.compiled.is_match(text, budget).map_err(failure_of)?;
        match text.strip_suffix('\n').filter(|_| self.ends_before_line_feed && !is_match) {
            Some(line) => self.compiled.is_match(line, budget).map_err(failure_of),
            None => Ok(is_match),
        }
    }
}

impl Regex {
    /// Calls a function with the first `max` matches: where each begins, and the texts of its
    /// groups, the whole match first. Steps are paid from `budget`.
    pub(crate) fn for_each_match(
        &self,
        text: &str,
        max: usize,
        budget: &Budget,
        mut visit: impl FnMut(usize, &[Option<&str>]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut stopped = None;
        let searched = self.compiled.for_each_match(text, max, budget, |captures| {
            let groups: Vec<Option<&str>> =
                (0..captures.len()).map(|group| captures.get(group)).collect();
            visit(captures.span().0, &groups).map_err(|failure| {
                stopped = Some(failure);
                EvalError::BudgetExceeded
            })
        });
        match stopped {
            Some(failure) => Err(failure),
            None => searched.map_err(failure_of),
        }
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern && self.options == other.options
    }
}

/// The failure of a pattern that takes too long.
pub(crate) fn failure_of(error: EvalError) -> Failure {
    Failure::new(INVALID_PATTERN, format!("Error executing regular expression: {error}"))
}

fn sorted(options: &str) -> String {
    let mut letters: Vec<char> = options.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    letters.into_iter().collect()
}

/// The letters after the mark of the beginning, up to the first that has a meaning of its own.
fn prefix_of(pattern: &str, options: &str) -> Option<String> {
    if options.contains(['i', 'm', 'x']) || pattern.contains('|') {
        return None;
    }
    let anchored = pattern.strip_prefix('^').or_else(|| pattern.strip_prefix("\\A"))?;
    let mut prefix = String::new();
    let mut rest = anchored.chars();
    loop {
        match rest.next() {
            None => break,
            Some('\\') => match rest.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => prefix.push(escaped),
                Some('Q') => {
                    let (quoted, after) =
                        rest.as_str().split_once("\\E").unwrap_or((rest.as_str(), ""));
                    prefix.push_str(quoted);
                    rest = after.chars();
                }
                Some(_) | None => break,
            },
            // The last letter may be optional.
            Some('*' | '?' | '{') => {
                prefix.pop();
                break;
            }
            Some(letter) if "[](){}.+^$".contains(letter) => break,
            Some(letter) => prefix.push(letter),
        }
    }
    (!prefix.is_empty()).then_some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_of_every_match() {
        let prefix = |pattern, options| prefix_of(pattern, options);
        assert_eq!(prefix("^abc", ""), Some("abc".to_owned()));
        assert_eq!(prefix("^abc.*", "s"), Some("abc".to_owned()));
        assert_eq!(prefix("^abc*", ""), Some("ab".to_owned()));
        assert_eq!(prefix("^ab{0,2}", ""), Some("a".to_owned()));
        assert_eq!(prefix("^ab+", ""), Some("ab".to_owned()));
        assert_eq!(prefix(r"^a\.b\d", ""), Some("a.b".to_owned()));
        assert_eq!(prefix(r"^\Qa.b\Ec", ""), Some("a.bc".to_owned()));
        assert_eq!(prefix(r"^a\.*", ""), Some("a".to_owned()));
        for (pattern, options) in [
            ("abc", ""),
            ("^abc", "i"),
            ("^abc", "m"),
            ("^ab|c", ""),
            ("^a?", ""),
            ("^", ""),
            ("^\\d", ""),
        ] {
            assert_eq!(prefix(pattern, options), None, "{pattern} {options}");
        }
    }

    #[test]
    fn what_is_wrong_has_a_number() {
        let failure = Regex::new("(", "").unwrap_err();
        assert_eq!(failure.code, 51091);
        assert!(failure.message.starts_with("Regular expression is invalid: "));
        let failure = Regex::new("a", "iy").unwrap_err();
        let expected = Failure::new(51108, " invalid flag in regex options: y");
        assert_eq!(failure, expected);
        assert_eq!(Regex::new("a\0", "").unwrap_err().code, 2);
        assert_eq!(Regex::new("a", "xusmi").unwrap().options(), "imsux");
    }

    #[test]
    fn patterns_are_read_as_pcre_reads_them() {
        let is_match = |pattern: &str, options: &str, text: &str| {
            Regex::new(pattern, options).unwrap().is_match(text, &Budget::per_item()).unwrap()
        };
        assert!(is_match(r"^\d+$", "", "12") && !is_match(r"^\d+$", "", "\u{661}"));
        assert!(is_match(r"^\w$", "", "a") && !is_match(r"^\w$", "", "\u{fc}"));
        assert!(is_match("\u{fc}", "i", "\u{dc}"));
        assert!(is_match("a$", "", "a\n") && !is_match("a$", "", "a\n\n"));
        assert!(!is_match(r"a\z", "", "a\n") && is_match("a$", "m", "a\nb"));
        assert!(is_match(r"^\Qa.b\E$", "", "a.b") && !is_match(r"^\Qa.b\E$", "", "axb"));
        assert!(is_match(r"^[\w.+-]+@[[\]]$", "", "a.b+c@["));
        assert!(is_match("^{a}$", "", "{a}") && is_match("a b", "x", "ab"));
        assert!(is_match(r"^\Qa b\E$", "x", "a b"));
    }

    #[test]
    fn patterns_that_backtrack_for_ever_are_given_up() {
        let slow = Regex::new("^(?=(a+)+$)\\1*(?:(?:a|a)*)\\1b", "").unwrap();
        let failure = slow.is_match(&"a".repeat(60), &Budget::per_item()).unwrap_err();
        assert_eq!(failure.code, 51091);
    }
}
