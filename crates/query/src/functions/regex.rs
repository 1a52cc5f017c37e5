//! Regular expressions. Matching takes time linear in the text, whatever the pattern; for that
//! there is no looking around and no reference back.

use std::sync::Arc;

use model::Value;
use regex::{Captures, Regex, RegexBuilder};

use super::{Args, Function, Outcome, Prepared, between};
use crate::{Budget, EvalError};

/// Longest pattern (ours: compiling one may cost the square of its length).
const PATTERN_BYTES_MAX: usize = 4096;
/// Most memory of a compiled pattern, and of what it remembers while it matches.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// What compiling a pattern costs, in bytes copied, beside as much per byte of it.
const COMPILE_BYTES: usize = 64 * 1024;
/// Looking at a byte of the text costs as much as copying this many.
const MATCH_COST: usize = 4;

/// Which argument holds the modifiers.
const AFTER_PATTERN: usize = 2;
const AFTER_REPLACEMENT: usize = 3;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::metered("RegexExtract", between(2, 4), extract)
        .prepared(|a| prepare(a, AFTER_PATTERN)),
    Function::metered("RegexExtractAll", between(2, 4), extract_all)
        .prepared(|a| prepare(a, AFTER_PATTERN)),
    Function::metered("RegexMatch", between(2, 3), matches).prepared(|a| prepare(a, AFTER_PATTERN)),
    Function::metered("RegexReplace", between(3, 4), |a, b| replace(a, b, 1))
        .prepared(|a| prepare(a, AFTER_REPLACEMENT)),
    Function::metered("RegexReplaceAll", between(3, 4), |a, b| replace(a, b, 0))
        .prepared(|a| prepare(a, AFTER_REPLACEMENT)),
];

/// Compiles a pattern that is known ahead. `Ok(None)` if it is not text; an error says what is
/// wrong with it.
fn prepare(args: &Args<'_>, modifiers: usize) -> Result<Option<Prepared>, String> {
    let Some((pattern, flags)) = pattern_of(args, modifiers) else { return Ok(None) };
    compile(pattern, flags).map(|regex| Some(Prepared::Regex(Arc::new(regex))))
}

/// The pattern and its flags, if they are such.
fn pattern_of<'a>(args: &Args<'a>, modifiers: usize) -> Option<(&'a str, Flags)> {
    let flags = match modifiers < args.len() {
        true => Flags::parse(args.str(modifiers)?)?,
        false => Flags::default(),
    };
    Some((args.str(1)?, flags))
}

#[derive(Clone, Copy, Default)]
struct Flags {
    ignores_case: bool,
    is_multi_line: bool,
    is_single_line: bool,
    ignores_blanks: bool,
}

impl Flags {
    fn parse(modifiers: &str) -> Option<Self> {
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
}

fn compile(pattern: &str, flags: Flags) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    RegexBuilder::new(pattern)
        .case_insensitive(flags.ignores_case)
        .multi_line(flags.is_multi_line)
        .dot_matches_new_line(flags.is_single_line)
        .ignore_whitespace(flags.ignores_blanks)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| last_sentence(&error.to_string()).to_owned())
}

/// What is wrong, without the drawing of where it is.
fn last_sentence(text: &str) -> &str {
    let line = text.lines().last().unwrap_or(text);
    line.trim_start_matches("error: ").trim_end_matches('.')
}

/// The text and the compiled pattern; `None` if one of them is not there.
fn subject<'a>(
    args: &Args<'a>,
    budget: &Budget,
    modifiers: usize,
) -> Result<Option<(&'a str, Arc<Regex>)>, EvalError> {
    let Some(text) = args.str(0) else { return Ok(None) };
    budget.spend_bytes(text.len().saturating_mul(MATCH_COST))?;
    if let Some(Prepared::Regex(regex)) = args.prepared() {
        return Ok(Some((text, Arc::clone(regex))));
    }
    let Some((pattern, flags)) = pattern_of(args, modifiers) else { return Ok(None) };
    budget.spend_bytes(COMPILE_BYTES.saturating_mul(1 + pattern.len()))?;
    Ok(compile(pattern, flags).ok().map(|regex| (text, Arc::new(regex))))
}

fn matches(args: &Args<'_>, budget: &Budget) -> Outcome {
    let found = subject(args, budget, AFTER_PATTERN)?;
    Ok(found.map(|(text, regex)| Value::Bool(regex.is_match(text))))
}

/// Which group of a match is wanted; all of it unless said.
fn group(args: &Args<'_>) -> Option<usize> {
    if args.len() > 3 { usize::try_from(args.integer(3)?).ok() } else { Some(0) }
}

fn extract(args: &Args<'_>, budget: &Budget) -> Outcome {
    let (Some((text, regex)), Some(group)) = (subject(args, budget, AFTER_PATTERN)?, group(args))
    else {
        return Ok(None);
    };
    let found = regex.captures(text).and_then(|captures| captures.get(group));
    Ok(found.map(|found| Value::from(found.as_str())))
}

fn extract_all(args: &Args<'_>, budget: &Budget) -> Outcome {
    let (Some((text, regex)), Some(group)) = (subject(args, budget, AFTER_PATTERN)?, group(args))
    else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for captures in regex.captures_iter(text) {
        if let Some(matched) = captures.get(group) {
            budget.spend_bytes(size_of::<Value>() + matched.len())?;
            found.push(Value::from(matched.as_str()));
        }
    }
    Ok(Some(Value::Array(found)))
}

fn replace(args: &Args<'_>, budget: &Budget, limit: usize) -> Outcome {
    let (Some((text, regex)), Some(replacement)) =
        (subject(args, budget, AFTER_REPLACEMENT)?, args.str(2))
    else {
        return Ok(None);
    };
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    let matches = regex.captures_iter(text);
    for captures in matches.take(if limit == 0 { usize::MAX } else { limit }) {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(text.get(end..whole.start()).unwrap_or_default());
        let before = out.len();
        expand(replacement, &captures, &mut out);
        budget.spend_bytes(replacement.len() + out.len() - before)?;
        end = whole.end();
    }
    out.push_str(text.get(end..).unwrap_or_default());
    Ok(Some(Value::String(out)))
}

/// Appends a replacement: `$1` and `${1}` are groups, `$$` is a dollar.
fn expand(replacement: &str, captures: &Captures<'_>, out: &mut String) {
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
            continue;
        }
        let (braced, body) = match after.strip_prefix('{') {
            Some(body) => (true, body),
            None => (false, after),
        };
        let digits = body.len() - body.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = body.split_at(digits);
        let tail = if braced { tail.strip_prefix('}') } else { Some(tail) };
        match (number.parse::<usize>(), tail) {
            (Ok(number), Some(tail)) => {
                out.push_str(captures.get(number).map_or("", |group| group.as_str()));
                rest = tail;
            }
            _ => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
}
