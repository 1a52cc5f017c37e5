//! LIKE patterns: `%` any run, `_` one character, `[a-f]` and `[^abc]` sets, an optional escape.
//!
//! Matching is greedy and backtracks only to the last `%`, so its time is at most the length of the
//! text times the length of the pattern, and it is paid for from the budget.

use crate::{Budget, EvalError};

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    elements: Vec<PatternElement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternElement {
    Run,
    Any,
    Char(char),
    Set { is_negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    /// Compiles a pattern's text. Every text is a pattern: a `[` that is never closed matches
    /// itself, as does an escape character at the end.
    pub fn compile(text: &str, escape: Option<char>) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut elements = Vec::with_capacity(chars.len());
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            at += 1;
            if Some(c) == escape {
                elements.push(PatternElement::Char(chars.get(at).copied().unwrap_or(c)));
                at += 1;
            } else if c == '%' {
                if !matches!(elements.last(), Some(PatternElement::Run)) {
                    elements.push(PatternElement::Run);
                }
            } else if c == '_' {
                elements.push(PatternElement::Any);
            } else if c == '['
                && let Some((set, end)) = parse_set(&chars, at, escape)
            {
                elements.push(set);
                at = end;
            } else {
                elements.push(PatternElement::Char(c));
            }
        }
        Self { elements }
    }

    /// A pattern with the same meaning without an escape character.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        for element in &self.elements {
            match element {
                PatternElement::Run => out.push('%'),
                PatternElement::Any => out.push('_'),
                PatternElement::Char(c @ ('%' | '_' | '[')) => out.extend(['[', *c, ']']),
                PatternElement::Char(c) => out.push(*c),
                PatternElement::Set { is_negated, ranges } => {
                    out.push_str(if *is_negated { "[^" } else { "[" });
                    for (first, last) in ranges {
                        out.push(*first);
                        if first != last {
                            out.extend(['-', *last]);
                        }
                    }
                    out.push(']');
                }
            }
        }
        out
    }

    /// The only text that matches, if there is just one.
    pub fn exact_text(&self) -> Option<String> {
        self.elements
            .iter()
            .map(|element| if let PatternElement::Char(c) = element { Some(*c) } else { None })
            .collect()
    }

    /// The prefix of every text that matches, and whether every text with this prefix matches.
    pub fn literal_prefix(&self) -> (String, bool) {
        let literal = |element: &PatternElement| {
            if let PatternElement::Char(c) = element { Some(*c) } else { None }
        };
        let prefix: String = self.elements.iter().map_while(literal).collect();
        let rest = self.elements.iter().skip_while(|element| literal(element).is_some());
        (prefix, rest.eq([&PatternElement::Run]))
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &str, budget: &Budget) -> Result<bool, EvalError> {
        let mut rest = text.chars();
        let mut at = 0;
        // Where to continue after a mismatch: the element after the last run, and its text.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        let mut meter = Meter { budget, pending: 0 };
        loop {
            meter.tick()?;
            if matches!(self.elements.get(at), Some(PatternElement::Run)) {
                at += 1;
                if at == self.elements.len() {
                    return Ok(true);
                }
                retry = Some((at, rest.clone()));
                continue;
            }
            match (rest.next(), self.elements.get(at)) {
                (None, None) => return Ok(true),
                (Some(c), Some(element)) if element.accepts(c) => at += 1,
                (None, Some(_)) => return Ok(false),
                (Some(_), _) => {
                    let Some((element, from)) = &mut retry else { return Ok(false) };
                    if from.next().is_none() {
                        return Ok(false);
                    }
                    at = *element;
                    rest = from.clone();
                }
            }
        }
    }
}

impl PatternElement {
    fn accepts(&self, c: char) -> bool {
        match self {
            PatternElement::Run | PatternElement::Any => true,
            PatternElement::Char(own) => *own == c,
            PatternElement::Set { is_negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *is_negated
            }
        }
    }
}

/// Reads a set whose `[` has been read; returns it and the position after its `]`.
fn parse_set(
    chars: &[char],
    start: usize,
    escape: Option<char>,
) -> Option<(PatternElement, usize)> {
    let mut at = start;
    let is_negated = chars.get(at) == Some(&'^');
    at += usize::from(is_negated);
    // A member, and whether it was escaped: only a bare `-` makes a range.
    let mut members: Vec<(char, bool)> = Vec::new();
    loop {
        let c = *chars.get(at)?;
        at += 1;
        if Some(c) == escape {
            members.push((*chars.get(at)?, true));
            at += 1;
        } else if c == ']' && !members.is_empty() {
            return Some((PatternElement::Set { is_negated, ranges: ranges_of(&members) }, at));
        } else {
            members.push((c, false));
        }
    }
}

fn ranges_of(members: &[(char, bool)]) -> Vec<(char, char)> {
    let mut ranges = Vec::new();
    let mut rest = members;
    loop {
        rest = match rest {
            [(low, _), ('-', false), (high, _), tail @ ..] => {
                ranges.push((*low, *high));
                tail
            }
            [(only, _), tail @ ..] => {
                ranges.push((*only, *only));
                tail
            }
            [] => return ranges,
        };
    }
}

/// Pays one step for every four ticks: a character compared costs more than a byte copied.
struct Meter<'a> {
    budget: &'a Budget,
    pending: u8,
}

impl Meter<'_> {
    fn tick(&mut self) -> Result<(), EvalError> {
        self.pending += 1;
        if self.pending == 4 {
            self.pending = 0;
            self.budget.spend(1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, escape: Option<char>, matching: &[&str], others: &[&str]) {
        let compiled = Pattern::compile(pattern, escape);
        for text in matching {
            assert_eq!(compiled.matches(text, &Budget::per_item()), Ok(true), "{pattern} {text}");
        }
        for text in others {
            assert_eq!(compiled.matches(text, &Budget::per_item()), Ok(false), "{pattern} {text}");
        }
    }

    #[test]
    fn runs_and_single_characters() {
        check("", None, &[""], &["a"]);
        check("%", None, &["", "abc"], &[]);
        check("a%c", None, &["ac", "abc", "acc"], &["a", "abcd", "bac"]);
        check("%%b%", None, &["b", "abc"], &["", "ac"]);
        check("_eta", None, &["Beta", "βeta"], &["eta", "BBeta"]);
        check("%ab%ab", None, &["abab", "ababab", "xabyab"], &["ab", "aba"]);
    }

    #[test]
    fn sets() {
        check("[abc]x", None, &["ax", "cx"], &["dx", "x"]);
        check("[a-f]", None, &["a", "e", "f"], &["g", "-"]);
        check("[^a-f]", None, &["g", "-"], &["a", ""]);
        check("[a-]", None, &["a", "-"], &["b"]);
        check("[]]", None, &["]"], &["["]);
        check("a[b", None, &["a[b"], &["ab"]);
    }

    #[test]
    fn escapes() {
        check("50!%", Some('!'), &["50%"], &["50!", "501"]);
        check("a!!", Some('!'), &["a!"], &["a!!"]);
        check("a!", Some('!'), &["a!"], &["a"]);
        check("[a!-c]", Some('!'), &["a", "-", "c"], &["b"]);
    }

    #[test]
    fn hostile_patterns_run_out_of_budget_instead_of_time() {
        let text = "a".repeat(1 << 20);
        let pattern = Pattern::compile(&format!("%{}b", "a".repeat(1 << 16)), None);
        assert_eq!(pattern.matches(&text, &Budget::per_item()), Err(EvalError::BudgetExceeded));
    }

    #[test]
    fn a_search_through_the_largest_item_is_within_budget() {
        let text = "a".repeat(model::limits::ITEM_BYTES_MAX);
        let pattern = Pattern::compile("%needle%", None);
        assert_eq!(pattern.matches(&text, &Budget::per_item()), Ok(false));
    }

    #[test]
    fn literal_prefixes_end_at_the_first_wildcard() {
        let prefix = |text| Pattern::compile(text, Some('!')).literal_prefix();
        assert_eq!(prefix("a!%b%"), ("a%b".to_owned(), true));
        assert_eq!(prefix("ab%c"), ("ab".to_owned(), false));
        assert_eq!(prefix("ab_"), ("ab".to_owned(), false));
        assert_eq!(prefix("%"), (String::new(), true));
        assert_eq!(prefix("ab"), ("ab".to_owned(), false));
    }

    #[test]
    fn exact_text_is_known_only_without_wildcards() {
        assert_eq!(Pattern::compile("a!%b", Some('!')).exact_text().as_deref(), Some("a%b"));
        assert_eq!(Pattern::compile("a%", None).exact_text(), None);
    }
}
