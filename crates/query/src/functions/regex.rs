//! Regular expressions.

mod analysis;
pub(crate) mod pattern;

use std::sync::Arc;

use model::Value;

use super::{Args, Function, Outcome, Prepared, between};
use crate::{Budget, EvalError};

use pattern::{Captures, Flags, Pattern};

/// The index of the modifiers in functions that have them after the pattern.
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
    Function::metered("RegexReplaceAll", between(3, 4), |a, b| replace(a, b, usize::MAX))
        .prepared(|a| prepare(a, AFTER_REPLACEMENT)),
];

/// Compiles a pattern that is known ahead. `Ok(None)` if it is not text; an error says what is
/// wrong with it.
fn prepare(args: &Args<'_>, modifiers: usize) -> Result<Option<Prepared>, String> {
    let Some((pattern, flags)) = pattern_of(args, modifiers) else { return Ok(None) };
    Pattern::compile(pattern, flags).map(|compiled| Some(Prepared::Regex(Arc::new(compiled))))
}

/// The pattern and its flags, if they are valid.
fn pattern_of<'a>(args: &Args<'a>, modifiers: usize) -> Option<(&'a str, Flags)> {
    let flags = match modifiers < args.len() {
        true => Flags::parse(args.str(modifiers)?)?,
        false => Flags::default(),
    };
    Some((args.str(1)?, flags))
}

/// The text and the compiled pattern; `None` if either is missing.
fn subject<'a>(
    args: &Args<'a>,
    budget: &Budget,
    modifiers: usize,
) -> Result<Option<(&'a str, Arc<Pattern>)>, EvalError> {
    let Some(text) = args.str(0) else { return Ok(None) };
    if let Some(Prepared::Regex(pattern)) = args.prepared() {
        return Ok(Some((text, Arc::clone(pattern))));
    }
    let Some((pattern, flags)) = pattern_of(args, modifiers) else { return Ok(None) };
    let compiled = Pattern::compile_once(pattern, flags, budget)?;
    Ok(compiled.map(|compiled| (text, Arc::new(compiled))))
}

fn matches(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some((text, pattern)) = subject(args, budget, AFTER_PATTERN)? else { return Ok(None) };
    Ok(Some(Value::Bool(pattern.is_match(text, budget)?)))
}

/// The requested group of a match; the whole match by default.
fn group(args: &Args<'_>) -> Option<usize> {
    if args.len() > 3 { usize::try_from(args.integer(3)?).ok() } else { Some(0) }
}

fn extract(args: &Args<'_>, budget: &Budget) -> Outcome {
    let (Some((text, pattern)), Some(group)) = (subject(args, budget, AFTER_PATTERN)?, group(args))
    else {
        return Ok(None);
    };
    let found = pattern.first(text, budget)?;
    Ok(found.and_then(|groups| groups.get(group)).map(Value::from))
}

fn extract_all(args: &Args<'_>, budget: &Budget) -> Outcome {
    let (Some((text, pattern)), Some(group)) = (subject(args, budget, AFTER_PATTERN)?, group(args))
    else {
        return Ok(None);
    };
    let mut found = Vec::new();
    pattern.for_each_match(text, usize::MAX, budget, |groups| {
        if let Some(matched) = groups.get(group) {
            budget.spend_bytes(size_of::<Value>() + matched.len())?;
            found.push(Value::from(matched));
        }
        Ok(())
    })?;
    Ok(Some(Value::Array(found)))
}

/// Replaces the first `max` matches.
fn replace(args: &Args<'_>, budget: &Budget, max: usize) -> Outcome {
    let (Some((text, pattern)), Some(replacement)) =
        (subject(args, budget, AFTER_REPLACEMENT)?, args.str(2))
    else {
        return Ok(None);
    };
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    pattern.for_each_match(text, max, budget, |groups| {
        let (start, match_end) = groups.span();
        out.push_str(text.get(end..start).unwrap_or_default());
        let before = out.len();
        expand(replacement, &groups, &mut out);
        budget.spend_bytes(replacement.len() + out.len() - before)?;
        end = match_end;
        Ok(())
    })?;
    out.push_str(text.get(end..).unwrap_or_default());
    Ok(Some(Value::String(out)))
}

/// Appends a replacement: `$1` and `${1}` are groups, `$$` is a dollar sign.
fn expand(replacement: &str, groups: &Captures<'_>, out: &mut String) {
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
                out.push_str(groups.get(number).unwrap_or_default());
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
