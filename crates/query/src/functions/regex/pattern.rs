//! Compiled patterns. What the linear engine takes is matched in time linear in the text, whatever
//! the pattern. The rest, look-around and references back, is matched by trying one way after the
//! other, which can take a time exponential in the text, so it goes in steps that are counted.

use std::sync::OnceLock;

use fancy_regex::{Assertion, CompileError, Expr, RegexInput};
use regex::RegexBuilder;

use crate::{Budget, EvalError};

/// Longest pattern (ours: compiling one may cost the square of its length).
const PATTERN_BYTES_MAX: usize = 4096;
/// Most memory of a compiled pattern, and of what it remembers while it matches.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Looking at a byte of the text costs as much as copying this many.
const MATCH_COST: usize = 4;
/// Most memory of a part of a pattern that is matched in steps.
const PART_BYTES_MAX: usize = COMPILED_BYTES_MAX / 4;
/// Most parts of a pattern that only steps can match.
const STEPPED_PARTS_MAX: usize = 32;
/// Most instructions of such a pattern.
const INSTRUCTIONS_MAX: usize = 2 * PATTERN_BYTES_MAX;
/// Steps that are granted one after the other until one of them is enough.
const STEPS: [usize; 5] = [1 << 5, 1 << 9, 1 << 13, 1 << 17, 1 << 21];
/// A step costs at least as much as copying this many bytes.
const STEP_COST: usize = 16;
/// The first grant may cost this many bytes, if there is one that small.
const FIRST_COST: usize = 64 * 1024;

#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    ignores_case: bool,
    is_multi_line: bool,
    is_single_line: bool,
    ignores_blanks: bool,
}

impl Flags {
    pub(super) fn parse(modifiers: &str) -> Option<Self> {
        let mut flags = Flags::default();
        for modifier in modifiers.chars() {
            match modifier {
                'i' => flags.ignores_case = true,
                'm' => flags.is_multi_line = true,
                's' => flags.is_single_line = true,
                'x' => flags.ignores_blanks = true,
                _ => return None,
            }
        }
        Some(flags)
    }

    /// As they are written at the beginning of a pattern.
    fn inline(self) -> String {
        let flags = [
            (self.ignores_case, 'i'),
            (self.is_multi_line, 'm'),
            (self.is_single_line, 's'),
            (self.ignores_blanks, 'x'),
        ];
        let set: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, c)| *c).collect();
        if set.is_empty() { set } else { format!("(?{set})") }
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub enum Pattern {
    /// Matched in linear time.
    Linear(regex::Regex),
    /// Matched in steps.
    Stepped(Box<Stepped>),
}

/// What a match has found.
pub(super) enum Groups<'t> {
    Linear(regex::Captures<'t>),
    Stepped(fancy_regex::Captures<'t, str>),
}

impl<'t> Groups<'t> {
    pub(super) fn get(&self, group: usize) -> Option<&'t str> {
        match self {
            Groups::Linear(captures) => captures.get(group).map(|found| found.as_str()),
            Groups::Stepped(captures) => captures.get(group).map(|found| found.as_str()),
        }
    }

    /// Where the match begins and ends.
    pub(super) fn span(&self) -> (usize, usize) {
        let span = match self {
            Groups::Linear(captures) => captures.get(0).map(|found| (found.start(), found.end())),
            Groups::Stepped(captures) => captures.get(0).map(|found| (found.start(), found.end())),
        };
        span.unwrap_or_default()
    }
}

impl Pattern {
    /// Compiles a pattern; an error says what is wrong with it.
    pub(super) fn compile(pattern: &str, flags: Flags) -> Result<Self, String> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        let linear = RegexBuilder::new(pattern)
            .case_insensitive(flags.ignores_case)
            .multi_line(flags.is_multi_line)
            .dot_matches_new_line(flags.is_single_line)
            .ignore_whitespace(flags.ignores_blanks)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build();
        let refusal = match linear {
            Ok(linear) => return Ok(Pattern::Linear(linear)),
            Err(refusal) => refusal,
        };
        let message = last_sentence(&refusal.to_string()).to_owned();
        if !matches!(refusal, regex::Error::Syntax(_)) {
            return Err(message);
        }
        match Stepped::compile(pattern, flags) {
            Ok(stepped) => Ok(Pattern::Stepped(Box::new(stepped))),
            // The linear engine says better what is wrong, unless it only knows no better.
            Err(other) if message.contains("look-around") || message.contains("backreference") => {
                Err(other)
            }
            Err(_) => Err(message),
        }
    }

    /// The pattern as it was written.
    pub(in super::super) fn as_str(&self) -> &str {
        match self {
            Pattern::Linear(linear) => linear.as_str(),
            Pattern::Stepped(stepped) => &stepped.pattern,
        }
    }

    pub(super) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, EvalError> {
        budget.spend_bytes(text.len().saturating_mul(MATCH_COST))?;
        match self {
            Pattern::Linear(linear) => Ok(linear.is_match(text)),
            Pattern::Stepped(stepped) => {
                stepped.search(text, 0, budget, |regex, input| regex.is_match_input(input))
            }
        }
    }

    pub(super) fn first<'t>(
        &self,
        text: &'t str,
        budget: &Budget,
    ) -> Result<Option<Groups<'t>>, EvalError> {
        let mut first = None;
        self.for_each_match(text, 1, budget, |groups| {
            first = Some(groups);
            Ok(())
        })?;
        Ok(first)
    }

    /// Shows the first `max` matches, none of which begins before the one before it ends.
    pub(super) fn for_each_match<'t>(
        &self,
        text: &'t str,
        max: usize,
        budget: &Budget,
        mut visit: impl FnMut(Groups<'t>) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        budget.spend_bytes(text.len().saturating_mul(MATCH_COST))?;
        match self {
            Pattern::Linear(linear) => {
                let mut matches = linear.captures_iter(text).take(max);
                matches.try_for_each(|captures| visit(Groups::Linear(captures)))
            }
            Pattern::Stepped(stepped) => stepped.for_each_match(text, max, budget, visit),
        }
    }
}

/// A pattern that is matched in steps.
#[derive(Debug)]
pub struct Stepped {
    /// As it was written.
    pattern: String,
    /// With its flags.
    source: String,
    /// Compiled for each of [`STEPS`] once that many are needed.
    compiled: [OnceLock<Option<fancy_regex::Regex>>; STEPS.len()],
    /// Most bytes of the text that a step looks at; `None` if there is no bound.
    reach: Option<usize>,
    /// Whether it matches at the beginning of the text only.
    is_anchored: bool,
}

impl Stepped {
    fn compile(pattern: &str, flags: Flags) -> Result<Self, String> {
        let source = flags.inline() + pattern;
        let tree = Expr::parse_tree(&source).map_err(|error| told(&error))?;
        let parts = Parts::of(&tree.expr)?;
        if parts.stepped > STEPPED_PARTS_MAX {
            return Err(format!(
                "it looks around or refers back more than {STEPPED_PARTS_MAX} times"
            ));
        }
        let regex = build(&source, STEPS[0]).map_err(|error| told(&error))?;
        let compiled: [OnceLock<_>; STEPS.len()] = Default::default();
        if let Some(first) = compiled.first() {
            first.get_or_init(|| Some(regex));
        }
        let is_anchored = begins_with_text(&tree.expr);
        Ok(Self { pattern: pattern.to_owned(), source, compiled, reach: parts.reach, is_anchored })
    }

    /// Searches with more and more steps until they are enough. All are paid for.
    fn search<'t, T>(
        &self,
        text: &'t str,
        from: usize,
        budget: &Budget,
        search: impl Fn(&fancy_regex::Regex, RegexInput<'t, str>) -> fancy_regex::Result<T>,
    ) -> Result<T, EvalError> {
        let ahead = text.len() - from;
        let reach = self.reach.map_or(ahead, |reach| reach.min(ahead)).max(STEP_COST);
        let grants = STEPS.iter().zip(&self.compiled);
        let small = STEPS.iter().filter(|steps| reach.saturating_mul(**steps) <= FIRST_COST);
        for (steps, compiled) in grants.skip(small.count().saturating_sub(1)) {
            let paid = budget.spend_bytes(reach.saturating_mul(*steps));
            paid.map_err(|_| EvalError::PatternTooSlow)?;
            let compile = || build(&self.source, *steps).ok();
            let Some(regex) = compiled.get_or_init(compile) else { break };
            let input = RegexInput::new(text).from_pos(from).anchored(self.is_anchored);
            if let Ok(found) = search(regex, input) {
                return Ok(found);
            }
        }
        Err(EvalError::PatternTooSlow)
    }

    fn for_each_match<'t>(
        &self,
        text: &'t str,
        max: usize,
        budget: &Budget,
        mut visit: impl FnMut(Groups<'t>) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        let (mut from, mut last_end, mut count) = (0, None, 0);
        while count < max && from <= text.len() {
            if self.is_anchored && from > 0 {
                return Ok(());
            }
            let find = |regex: &fancy_regex::Regex, input| regex.captures_input(input);
            let Some(captures) = self.search(text, from, budget, find)? else { return Ok(()) };
            let groups = Groups::Stepped(captures);
            let (start, end) = groups.span();
            let is_empty = start == end;
            from = match is_empty {
                true => end + text[end..].chars().next().map_or(1, char::len_utf8),
                false => end,
            };
            // An empty match right behind another one is none.
            if !(is_empty && last_end == Some(end)) {
                last_end = Some(end);
                count += 1;
                visit(groups)?;
            }
        }
        Ok(())
    }
}

fn build(source: &str, steps: usize) -> fancy_regex::Result<fancy_regex::Regex> {
    fancy_regex::RegexBuilder::new(source)
        .backtrack_limit(steps)
        .delegate_size_limit(PART_BYTES_MAX)
        .delegate_dfa_size_limit(PART_BYTES_MAX)
        .max_prog_size(INSTRUCTIONS_MAX)
        .build()
}

/// What the steps of a pattern may look at.
struct Parts {
    /// Most bytes of the text; `None` if there is no bound.
    reach: Option<usize>,
    /// How many parts only steps can match.
    stepped: usize,
}

impl Parts {
    fn of(expr: &Expr) -> Result<Self, String> {
        let own = if let Expr::Literal { val, .. } = expr {
            val.len().saturating_mul(2)
        } else if let Expr::LiteralBytes { bytes } = expr {
            bytes.len()
        } else {
            size_of::<char>()
        };
        let is_reference = matches!(expr, Expr::Backref { .. });
        let is_stepped =
            matches!(expr, Expr::LookAround(..) | Expr::AtomicGroup(_) | Expr::Conditional { .. });
        if let Expr::SubroutineCall(_)
        | Expr::BackrefWithRelativeRecursionLevel { .. }
        | Expr::DefineGroup { .. } = expr
        {
            return Err("it calls a group as a subroutine".to_owned());
        }
        if let Expr::Absent(_) | Expr::BacktrackingControlVerb(_) | Expr::AstNode(..) = expr {
            return Err("it has an operator that is not supported".to_owned());
        }
        let mut parts = Parts {
            // The text of a group may be of any length.
            reach: (!is_reference).then_some(own),
            stepped: usize::from(is_stepped || is_reference),
        };
        for child in expr.children_iter() {
            let child = Self::of(child)?;
            parts.stepped += child.stepped;
            parts.reach =
                parts.reach.zip(child.reach).map(|(own, other)| own.saturating_add(other));
        }
        if let Expr::Repeat { hi, .. } = expr {
            let is_bounded = *hi < usize::MAX;
            let bounded = parts.reach.filter(|_| is_bounded);
            parts.reach = bounded.map(|reach| reach.saturating_mul(*hi));
        }
        Ok(parts)
    }
}

/// Whether a match can only be at the beginning of the text.
fn begins_with_text(expr: &Expr) -> bool {
    if let Expr::Concat(parts) = expr {
        return parts.first().is_some_and(begins_with_text);
    }
    matches!(expr, Expr::Assertion(Assertion::StartText))
}

/// What is wrong, without the drawing of where it is.
fn last_sentence(text: &str) -> &str {
    let line = text.lines().last().unwrap_or(text);
    line.trim_start_matches("error: ").trim_end_matches('.')
}

/// What is wrong with a pattern that is matched in steps.
fn told(error: &fancy_regex::Error) -> String {
    if let fancy_regex::Error::ParseError(at, error) = error {
        return format!("{error} (at {at})");
    }
    if let fancy_regex::Error::CompileError(error) = error {
        if let CompileError::InnerError(_) = **error {
            return "a part of it takes too much memory".to_owned();
        }
        if let CompileError::LookBehindNotConst | CompileError::VariableLookBehindRequiresFeature =
            **error
        {
            return "look-behind of varying length is not supported".to_owned();
        }
    }
    let text = error.to_string();
    last_sentence(&text).trim_start_matches("Error compiling regex: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(pattern: &str) -> Option<usize> {
        match Pattern::compile(pattern, Flags::default()).unwrap() {
            Pattern::Linear(_) => panic!("{pattern} takes no steps"),
            Pattern::Stepped(stepped) => stepped.reach,
        }
    }

    #[test]
    fn what_the_linear_engine_takes_goes_by_it() {
        for pattern in ["a+b", "(?i)x|y", "^\\d{3}-\\w*$", "(a+)+$", "[^a]\\bq\\B", "\\p{Lu}"] {
            let compiled = Pattern::compile(pattern, Flags::default()).unwrap();
            assert!(matches!(compiled, Pattern::Linear(_)), "{pattern}");
        }
    }

    #[test]
    fn how_far_a_step_can_look() {
        assert!(reach("foo(?=bar)").is_some_and(|reach| reach < 100));
        assert!(reach("(?<!a)b{2,3}").is_some_and(|reach| reach < 100));
        for far in ["(?=.*a)b", "(a)\\1", "(?>a+)b", "(?!(x|y*))z", "(?=(a{2}){3,})"] {
            assert_eq!(reach(far), None, "{far}");
        }
    }

    #[test]
    fn steps_are_paid_for_and_end() {
        let slow = Pattern::compile("^(?=(a+)+$)\\1*(?:(?:a|a)*)\\1b", Flags::default()).unwrap();
        let text = "a".repeat(60);
        for budget in [Budget::of_steps(1000), Budget::per_item()] {
            let found = slow.is_match(&text, &budget);
            assert_eq!(found, Err(EvalError::PatternTooSlow));
        }
    }

    #[test]
    fn long_texts_are_searched() {
        let text = "x".repeat(200_000) + "foobar";
        let found = |pattern: &str, text: &str| {
            let pattern = Pattern::compile(pattern, Flags::default()).unwrap();
            pattern.is_match(text, &Budget::per_item())
        };
        assert_eq!(found("foo(?=bar)", &text), Ok(true));
        assert_eq!(found("foo(?!bar)", &text), Ok(false));
        // One try is enough for what is bound to the beginning.
        assert_eq!(found("^(?=.*o)(?!.*z).{8,}$", &text), Ok(true));
        assert_eq!(found("^(?=.*q).*$", &text), Ok(false));
    }
}
