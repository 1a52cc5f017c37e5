//! Compiled patterns. Patterns that the linear engine accepts are matched in time linear in the
//! text. The others, with look-around and back references, are matched by backtracking, which can
//! take exponential time, so they are matched in steps that are counted.

use model::limits::REGEX_BYTES_MAX;
use std::sync::OnceLock;

use fancy_regex::{CompileError, Expr, RegexInput};
use regex::RegexBuilder;

use super::analysis::{PatternAnalysis, begins_with_text};
use crate::{Budget, EvalError};

/// Largest memory of a compiled pattern, and of its cache while it matches.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Reading a byte of the text costs as much as copying this many.
const MATCH_COST: usize = 4;
/// Largest memory of a part of a pattern that is matched in steps.
const PART_BYTES_MAX: usize = COMPILED_BYTES_MAX / 4;
/// Largest number of parts of a pattern that only backtracking can match.
const BACKTRACKING_PARTS_MAX: usize = 32;
/// Largest number of instructions of such a pattern.
const INSTRUCTIONS_MAX: usize = 2 * REGEX_BYTES_MAX;
/// Numbers of steps that are tried one after the other until one of them suffices.
const STEPS: [usize; 7] = [1 << 5, 1 << 9, 1 << 13, 1 << 15, 1 << 17, 1 << 19, 1 << 21];
/// A step costs at least as much as copying this many bytes.
const STEP_COST: usize = 16;
/// Comparing this many bytes is charged like copying one, and takes less time.
const COMPARED_PER_BYTE: usize = 64;
/// The fixed cost of compiling a pattern, in bytes copied; each byte of it costs as much again.
const COMPILE_COST: usize = 64 * 1024;
/// The first number of steps may cost this many bytes, if there is one that small.
const FIRST_COST: usize = 64 * 1024;

/// What the letters after a pattern ask for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    ignores_case: bool,
    is_multi_line: bool,
    is_single_line: bool,
    ignores_blanks: bool,
}

impl Flags {
    pub(crate) fn parse(modifiers: &str) -> Option<Self> {
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

    /// The flags as written at the beginning of a pattern.
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
    /// Matched by backtracking, in steps that are counted.
    Backtracking(Box<BacktrackingPattern>),
}

/// The result of a match.
pub(crate) enum Captures<'t> {
    Linear(regex::Captures<'t>),
    Backtracking(fancy_regex::Captures<'t, str>),
}

impl<'t> Captures<'t> {
    /// The number of groups, the whole match included.
    pub(crate) fn len(&self) -> usize {
        match self {
            Captures::Linear(captures) => captures.len(),
            Captures::Backtracking(captures) => captures.len(),
        }
    }

    pub(crate) fn get(&self, group: usize) -> Option<&'t str> {
        match self {
            Captures::Linear(captures) => captures.get(group).map(|found| found.as_str()),
            Captures::Backtracking(captures) => captures.get(group).map(|found| found.as_str()),
        }
    }

    /// Where the match begins and ends.
    pub(crate) fn span(&self) -> (usize, usize) {
        let span = match self {
            Captures::Linear(captures) => captures.get(0).map(|found| (found.start(), found.end())),
            Captures::Backtracking(captures) => {
                captures.get(0).map(|found| (found.start(), found.end()))
            }
        };
        span.unwrap_or_default()
    }
}

impl Pattern {
    /// As [`Pattern::compile`], for one use that pays for it. `None` if the pattern is invalid.
    pub(super) fn compile_once(
        pattern: &str,
        flags: Flags,
        budget: &Budget,
    ) -> Result<Option<Self>, EvalError> {
        budget.spend_bytes(compile_cost(pattern))?;
        let mut compiled = Self::compile(pattern, flags).ok();
        if let Some(Pattern::Backtracking(backtracking)) = &mut compiled {
            backtracking.is_used_once = true;
        }
        Ok(compiled)
    }

    /// Compiles a pattern; an error says what is wrong with it.
    pub(crate) fn compile(pattern: &str, flags: Flags) -> Result<Self, String> {
        if pattern.len() > REGEX_BYTES_MAX {
            return Err(format!("it is longer than {REGEX_BYTES_MAX} bytes"));
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
        match BacktrackingPattern::compile(pattern, flags) {
            Ok(backtracking) => Ok(Pattern::Backtracking(Box::new(backtracking))),
            // The linear engine's message is better, unless it only reports a missing feature.
            Err(other) if message.contains("look-around") || message.contains("backreference") => {
                Err(other)
            }
            Err(_) => Err(message),
        }
    }

    /// The pattern as it was given.
    pub(in super::super) fn as_str(&self) -> &str {
        match self {
            Pattern::Linear(linear) => linear.as_str(),
            Pattern::Backtracking(backtracking) => &backtracking.pattern,
        }
    }

    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, EvalError> {
        budget.spend_bytes(text.len().saturating_mul(MATCH_COST))?;
        match self {
            Pattern::Linear(linear) => Ok(linear.is_match(text)),
            Pattern::Backtracking(backtracking) => {
                backtracking.search(text, 0, budget, |regex, input| regex.is_match_input(input))
            }
        }
    }

    pub(crate) fn first<'t>(
        &self,
        text: &'t str,
        budget: &Budget,
    ) -> Result<Option<Captures<'t>>, EvalError> {
        let mut first = None;
        self.for_each_match(text, 1, budget, |groups| {
            first = Some(groups);
            Ok(())
        })?;
        Ok(first)
    }

    /// Calls a function with the first `max` matches, which do not overlap.
    pub(crate) fn for_each_match<'t>(
        &self,
        text: &'t str,
        max: usize,
        budget: &Budget,
        mut visit: impl FnMut(Captures<'t>) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        budget.spend_bytes(text.len().saturating_mul(MATCH_COST))?;
        match self {
            Pattern::Linear(linear) => {
                let mut matches = linear.captures_iter(text).take(max);
                matches.try_for_each(|captures| visit(Captures::Linear(captures)))
            }
            Pattern::Backtracking(backtracking) => {
                backtracking.for_each_match(text, max, budget, visit)
            }
        }
    }
}

/// A pattern that is matched in steps.
#[derive(Debug)]
pub struct BacktrackingPattern {
    /// As it was given.
    pattern: String,
    /// With its flags.
    source: String,
    /// Compiled for each of [`STEPS`] once that many are needed.
    compiled: [OnceLock<Option<fancy_regex::Regex>>; STEPS.len()],
    /// Most bytes of the text that a step looks at; `None` if there is no bound.
    step_bytes_max: Option<usize>,
    /// Whether a step may also compare the rest of the text with a part of it.
    compares_far: bool,
    /// Whether it can match only at the beginning of the text.
    is_anchored: bool,
    /// Whether the caller that matches pays for compiling it with more steps. A pattern that was
    /// compiled ahead is shared by all items of a query, and none of them pays.
    is_used_once: bool,
}

impl BacktrackingPattern {
    fn compile(pattern: &str, flags: Flags) -> Result<Self, String> {
        let source = flags.inline() + pattern;
        let tree = Expr::parse_tree(&source).map_err(|error| error_text(&error))?;
        let analysis = PatternAnalysis::of(&tree.expr)?;
        if analysis.backtracking > BACKTRACKING_PARTS_MAX {
            return Err(format!(
                "it looks around or refers back more than {BACKTRACKING_PARTS_MAX} times"
            ));
        }
        let regex = build(&source, STEPS[0]).map_err(|error| error_text(&error))?;
        let compiled: [OnceLock<_>; STEPS.len()] = Default::default();
        if let Some(first) = compiled.first() {
            first.get_or_init(|| Some(regex));
        }
        let is_anchored = begins_with_text(&tree.expr);
        Ok(Self {
            pattern: pattern.to_owned(),
            source,
            compiled,
            step_bytes_max: analysis.step_bytes_max,
            compares_far: analysis.compares_far,
            is_anchored,
            is_used_once: false,
        })
    }

    /// The largest cost of a step, with `ahead` bytes of the text left.
    fn step_cost(&self, ahead: usize) -> usize {
        let compared = if self.compares_far { ahead / COMPARED_PER_BYTE } else { 0 };
        let looked_at =
            self.step_bytes_max.map_or(ahead, |step_bytes_max| step_bytes_max.min(ahead));
        looked_at.saturating_add(compared).max(STEP_COST)
    }

    /// Searches with increasing numbers of steps until one suffices. All attempts are paid for.
    fn search<'t, T>(
        &self,
        text: &'t str,
        from: usize,
        budget: &Budget,
        search: impl Fn(&fancy_regex::Regex, RegexInput<'t, str>) -> fancy_regex::Result<T>,
    ) -> Result<T, EvalError> {
        let ahead = text.len() - from;
        let cost = self.step_cost(ahead);
        let grants = STEPS.iter().zip(&self.compiled);
        let small = STEPS.iter().filter(|steps| cost.saturating_mul(**steps) <= FIRST_COST);
        for (steps, compiled) in grants.skip(small.count().saturating_sub(1)) {
            let is_compiled = !self.is_used_once || compiled.get().is_some();
            let compiling = if is_compiled { 0 } else { compile_cost(&self.source) };
            let paid = budget.spend_bytes(cost.saturating_mul(*steps).saturating_add(compiling));
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
        mut visit: impl FnMut(Captures<'t>) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        let (mut from, mut last_end, mut count) = (0, None, 0);
        while count < max && from <= text.len() {
            if self.is_anchored && from > 0 {
                return Ok(());
            }
            let find = |regex: &fancy_regex::Regex, input| regex.captures_input(input);
            let Some(captures) = self.search(text, from, budget, find)? else { return Ok(()) };
            let groups = Captures::Backtracking(captures);
            let (start, end) = groups.span();
            let is_empty = start == end;
            from = match is_empty {
                true => end + text[end..].chars().next().map_or(1, char::len_utf8),
                false => end,
            };
            // An empty match right after another match does not count.
            if !(is_empty && last_end == Some(end)) {
                last_end = Some(end);
                count += 1;
                visit(groups)?;
            }
        }
        Ok(())
    }
}

fn compile_cost(pattern: &str) -> usize {
    COMPILE_COST.saturating_mul(1 + pattern.len())
}

fn build(source: &str, steps: usize) -> fancy_regex::Result<fancy_regex::Regex> {
    fancy_regex::RegexBuilder::new(source)
        .backtrack_limit(steps)
        .delegate_size_limit(PART_BYTES_MAX)
        .delegate_dfa_size_limit(PART_BYTES_MAX)
        .max_prog_size(INSTRUCTIONS_MAX)
        .build()
}

/// The error message, without the drawing of its location.
fn last_sentence(text: &str) -> &str {
    let line = text.lines().last().unwrap_or(text);
    line.trim_start_matches("error: ").trim_end_matches('.')
}

/// The error message for a pattern that is matched in steps.
fn error_text(error: &fancy_regex::Error) -> String {
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

    fn step_bytes_max(pattern: &str) -> Option<usize> {
        match Pattern::compile(pattern, Flags::default()).unwrap() {
            Pattern::Linear(_) => panic!("{pattern} takes no steps"),
            Pattern::Backtracking(backtracking) => backtracking.step_bytes_max,
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
        assert!(step_bytes_max("foo(?=bar)").is_some_and(|step_bytes_max| step_bytes_max < 100));
        assert!(step_bytes_max("(?<!a)b{2,3}").is_some_and(|step_bytes_max| step_bytes_max < 100));
        for near in ["(a)\\1", "(?=(a)b)\\1", r"(\d{2,3})-\1", r"\b(\w+) \1\b", r"(?:(a+)-\1)+x|y"]
        {
            assert!(
                step_bytes_max(near).is_some_and(|step_bytes_max| step_bytes_max < 100),
                "{near}"
            );
        }
        for far in ["(?=.*a)b", "(?>a+)b", "(?!(x|y*))z", "(?=(a{2}){3,})", "(?=(a+)b)\\1"] {
            assert_eq!(step_bytes_max(far), None, "{far}");
        }
        // The linear engine runs the part after the last reference, and compares letters slowly.
        for far in [r"(a)\1.*b", r"x*|(a)\1", r"(?:(a)\1(?:b|c+))?", r"(?i)(\w+) \1(?-i)"] {
            assert!(
                step_bytes_max(far).is_none_or(|step_bytes_max| step_bytes_max > 1 << 20),
                "{far}"
            );
        }
        assert!(
            step_bytes_max(r"(a)\1{5000,}b").is_some_and(|step_bytes_max| step_bytes_max > 10_000)
        );
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
    fn references_are_looked_for_all_over_a_text() {
        let prose = "Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man who, for his \
                     own amusement, never took up any book but the Baronetage; ";
        let compile = |pattern| Pattern::compile(pattern, Flags::default()).unwrap();
        let is_match = |pattern, text: &str| compile(pattern).is_match(text, &Budget::per_item());
        for bytes in [6_000, 9_000, 16_000] {
            let text = prose.repeat(bytes / prose.len());
            assert_eq!(is_match(r"\b(\w+) \1\b", &text), Ok(false), "{bytes}");
            assert_eq!(is_match(r"\b(\w+) \1\b", &(text.clone() + "the the")), Ok(true));
            assert_eq!(is_match(r"(\d)\1", &text), Ok(false), "{bytes}");
            assert_eq!(is_match(r"(\d)\1", &(text.clone() + "1977")), Ok(true), "{bytes}");
            assert_eq!(is_match(r"(['\x22]).*?\1", &(text + "'quoted'")), Ok(true), "{bytes}");
        }
        assert_eq!(is_match(r"(\d)\1", &prose.repeat(500)), Ok(false));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is about real time")]
    fn slow_patterns_are_given_up_in_time() {
        let (letters, mixed) = ("a".repeat(20_000), "ab".repeat(10_000));
        for pattern in [
            r"(a+)\1b",
            r"(a|b|ab)*\1c",
            r"(a*)*\1c",
            r"((a+)\2)+c",
            r"(?i)(A+)\1b",
            r"([ab]+)c\1",
            r"(.*)(.*)(.*)\1\2\3c",
            r"(a)\1.*c",
            r"(?=(a+))\1\1b",
        ] {
            for text in [&letters, &mixed] {
                let compiled = Pattern::compile(pattern, Flags::default()).unwrap();
                let started = std::time::Instant::now();
                let found = compiled.is_match(text, &Budget::per_item());
                let took = started.elapsed();
                assert_ne!(found, Ok(true), "{pattern}");
                assert!(took < std::time::Duration::from_secs(10), "{pattern}: {took:?}");
            }
        }
    }

    #[test]
    fn what_is_compiled_for_one_use_is_paid_for() {
        let pattern = r"(\d)\1(?:x|y|z)";
        let used = |steps: u64, is_once: bool| {
            let budget = Budget::of_steps(steps);
            let compiled = match is_once {
                true => Pattern::compile_once(pattern, Flags::default(), &budget).unwrap().unwrap(),
                false => Pattern::compile(pattern, Flags::default()).unwrap(),
            };
            compiled.is_match(&"-".repeat(10_000), &budget)
        };
        // At first and three times again, as more and more steps are needed.
        let compiling = (compile_cost(pattern) / 16) as u64;
        let matching = (1..).map(|n| n * 10_000).find(|steps| used(*steps, false).is_ok()).unwrap();
        assert_eq!(used(matching + 4 * compiling, true), Ok(false));
        assert_eq!(used(matching + 3 * compiling - 10_000, true), Err(EvalError::PatternTooSlow));
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
        // One attempt is enough for a pattern that is bound to the beginning.
        assert_eq!(found("^(?=.*o)(?!.*z).{8,}$", &text), Ok(true));
        assert_eq!(found("^(?=.*q).*$", &text), Ok(false));
    }
}
