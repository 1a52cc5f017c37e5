//! Patterns of PCRE in the dialect of our engines.
//!
//! Where both read a pattern differently, or ours refuses it: classes such as `\d` have only ASCII
//! characters, `\Q…\E` quotes, a bracket within brackets and a brace that counts nothing stand for
//! themselves.

use std::iter::Peekable;
use std::str::Chars;

/// A pattern that our engines read as PCRE reads the original.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) pattern: String,
    /// Whether it asks for the end of the text, which is also before a last line feed.
    pub(super) asks_for_end: bool,
}

/// What a class such as `\d` has, within brackets.
fn class_of(letter: char) -> Option<&'static str> {
    match letter.to_ascii_lowercase() {
        'd' => Some("0-9"),
        'w' => Some("0-9A-Za-z_"),
        's' => Some(r"\t\n\x0B\x0C\r\x20"),
        'h' => Some(r"\t\p{Zs}"),
        'v' => Some(r"\n\x0B\x0C\r\x{85}\x{2028}\x{2029}"),
        _ => None,
    }
}

/// Translates a pattern of PCRE.
pub(super) fn translate(pattern: &str) -> Translated {
    let mut translation = Translation {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len() + 8),
        asks_for_end: false,
    };
    while let Some(next) = translation.rest.next() {
        translation.outside(next);
    }
    Translated { pattern: translation.out, asks_for_end: translation.asks_for_end }
}

struct Translation<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    asks_for_end: bool,
}

impl Translation<'_> {
    fn outside(&mut self, next: char) {
        match next {
            '\\' => self.escape_outside(),
            '[' => self.class(),
            '{' if !self.is_counter() => self.out.push_str("\\{"),
            '$' => {
                self.asks_for_end = true;
                self.out.push('$');
            }
            other => self.out.push(other),
        }
    }

    fn escape_outside(&mut self) {
        let Some(letter) = self.rest.next() else { return self.out.push('\\') };
        if let Some(members) = class_of(letter) {
            let negation = if letter.is_ascii_uppercase() { "^" } else { "" };
            self.out.push_str(&format!("[{negation}{members}]"));
            return;
        }
        match letter {
            'b' => self.out.push_str("(?-u:\\b)"),
            'R' => self.out.push_str(r"(?:\r\n|[\n\x0B\x0C\r\x{85}\x{2028}\x{2029}])"),
            'Z' => {
                self.asks_for_end = true;
                self.out.push_str("\\z");
            }
            'e' => self.out.push_str("\\x1B"),
            'Q' => self.quote(),
            // The end of what no quotation began.
            'E' => {}
            // Braces of a name or a code belong to it.
            'p' | 'P' | 'x' | 'u' | 'U' | 'k' | 'g' if self.rest.peek() == Some(&'{') => {
                self.out.push('\\');
                self.out.push(letter);
                self.until('}');
            }
            other => {
                self.out.push('\\');
                self.out.push(other);
            }
        }
    }

    /// Copies up to and with the next `end`.
    fn until(&mut self, end: char) {
        for next in self.rest.by_ref() {
            self.out.push(next);
            if next == end {
                return;
            }
        }
    }

    /// Everything up to `\E` or the end stands for itself.
    fn quote(&mut self) {
        while let Some(next) = self.rest.next() {
            if next == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return;
            }
            self.literal(next);
        }
    }

    fn literal(&mut self, letter: char) {
        let has_meaning = letter.is_ascii_punctuation() && !"<>_".contains(letter);
        // Blanks and number signs would be comments of an extended pattern.
        if has_meaning {
            self.out.push('\\');
            self.out.push(letter);
        } else if letter.is_ascii_whitespace() {
            self.out.push_str(&format!("\\x{:02X}", u32::from(letter)));
        } else {
            self.out.push(letter);
        }
    }

    /// Whether a brace that was read begins a number of repetitions.
    fn is_counter(&self) -> bool {
        let mut rest = self.rest.clone();
        let digits = |rest: &mut Peekable<Chars<'_>>| {
            let mut count = 0;
            while rest.next_if(char::is_ascii_digit).is_some() {
                count += 1;
            }
            count
        };
        if digits(&mut rest) == 0 {
            return false;
        }
        if rest.next_if_eq(&',').is_some() {
            digits(&mut rest);
        }
        rest.next() == Some('}')
    }

    /// A class in brackets, of which the first is read.
    fn class(&mut self) {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        // The first one closes nothing.
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str("\\]");
        }
        while let Some(next) = self.rest.next() {
            match next {
                ']' => return self.out.push(']'),
                '\\' => self.escape_in_class(),
                '[' if self.rest.peek() == Some(&':') => {
                    self.out.push('[');
                    self.until(']');
                }
                // Our engines know classes in classes, and what two classes share.
                '[' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(next);
                }
                other => self.out.push(other),
            }
        }
    }

    fn escape_in_class(&mut self) {
        let Some(letter) = self.rest.next() else { return self.out.push('\\') };
        match (class_of(letter), letter) {
            (Some(members), _) if letter.is_ascii_lowercase() => self.out.push_str(members),
            (Some(members), _) => self.out.push_str(&format!("[^{members}]")),
            (None, 'b') => self.out.push_str("\\x08"),
            (None, 'e') => self.out.push_str("\\x1B"),
            (None, 'Q') => self.quote(),
            (None, 'E') => {}
            (None, other) => {
                self.out.push('\\');
                self.out.push(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_read_alike_stays() {
        for pattern in [
            "^abc$",
            "a+?b*|c",
            "(?i)x{2,3}y{4}",
            r"\.\/\-\p{Lu}\x{41}",
            "[a-z[:alpha:]]",
            "(?<n>a)",
        ] {
            assert_eq!(translate(pattern).pattern, pattern);
        }
    }

    #[test]
    fn what_differs_is_translated() {
        let check = |pattern: &str, expected: &str| {
            assert_eq!(translate(pattern).pattern, expected, "{pattern}");
        };
        check(r"\d\W", "[0-9][^0-9A-Za-z_]");
        check(r"[\d\w-]", "[0-90-9A-Za-z_-]");
        check(r"[^\S]", r"[^[^\t\n\x0B\x0C\r\x20]]");
        check(r"\Qa.b*\Ec", r"a\.b\*c");
        check(r"\Qa.b", r"a\.b");
        check("[]a[&]", r"[\]a\[\&]");
        check("a{b}{2}{,3}", r"a\{b}{2}\{,3}");
        check(r"\bx\Z", r"(?-u:\b)x\z");
    }

    #[test]
    fn asking_for_the_end_is_noticed() {
        assert!(translate("a$").asks_for_end && translate(r"a\Z").asks_for_end);
        assert!(!translate(r"a\$").asks_for_end && !translate("[$]").asks_for_end);
    }
}
