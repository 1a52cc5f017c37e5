//! Searches strings in strings. Comparison is ordinal; ignoring case compares the upper-cased
//! texts.

use std::borrow::Cow;

use model::Value;

use super::string::{count, upper_char};
use super::{Args, Function, Outcome, at_least, between, exactly, utf16};
use crate::Budget;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("CONTAINS", between(2, 3), |args| {
        test(args, |text, part| text.contains(part))
    }),
    Function::metered("CONTAINS_ALL_CI", at_least(2), |a, b| contains_many(a, b, true, true)),
    Function::metered("CONTAINS_ALL_CS", at_least(2), |a, b| contains_many(a, b, true, false)),
    Function::metered("CONTAINS_ANY_CI", at_least(2), |a, b| contains_many(a, b, false, true)),
    Function::metered("CONTAINS_ANY_CS", at_least(2), |a, b| contains_many(a, b, false, false)),
    Function::linear("ENDSWITH", between(2, 3), |args| {
        test(args, |text, part| text.ends_with(part))
    }),
    Function::linear("INDEX_OF", between(2, 3), index_of),
    Function::linear("LASTINDEXOF", between(2, 3), last_index_of),
    Function::linear("LASTSUBSTRINGAFTER", exactly(2), |args| Some(split_last(args)?.1.into())),
    Function::linear("LASTSUBSTRINGBEFORE", exactly(2), |args| Some(split_last(args)?.0.into())),
    Function::linear("STARTSWITH", between(2, 3), |args| {
        test(args, |text, part| text.starts_with(part))
    }),
    Function::linear("STRINGEQUALS", between(2, 3), |args| test(args, |text, part| text == part)),
    Function::linear("SUBSTRINGAFTER", exactly(2), |args| Some(split_first(args)?.1.into())),
    Function::linear("SUBSTRINGBEFORE", exactly(2), |args| Some(split_first(args)?.0.into())),
    // Spellings that some query generators use.
    Function::metered("ContainsAllCi", at_least(2), |a, b| contains_many(a, b, true, true)),
    Function::metered("ContainsAllCs", at_least(2), |a, b| contains_many(a, b, true, false)),
    Function::metered("ContainsAnyCi", at_least(2), |a, b| contains_many(a, b, false, true)),
    Function::metered("ContainsAnyCs", at_least(2), |a, b| contains_many(a, b, false, false)),
];

fn with_case(text: &str, ignore_case: bool) -> Cow<'_, str> {
    if ignore_case {
        Cow::Owned(text.chars().map(upper_char).collect())
    } else {
        Cow::Borrowed(text)
    }
}

fn test(args: &Args<'_>, holds: fn(&str, &str) -> bool) -> Option<Value> {
    let (text, part, ignore_case) = (args.str(0)?, args.str(1)?, args.flag(2)?);
    Some(Value::Bool(holds(&with_case(text, ignore_case), &with_case(part, ignore_case))))
}

/// Three-valued AND (`all`) or OR of CONTAINS over the arguments after the first.
fn contains_many(args: &Args<'_>, budget: &Budget, all: bool, ignore_case: bool) -> Outcome {
    let Some(text) = args.str(0) else { return Ok(None) };
    let text = with_case(text, ignore_case);
    let mut is_unknown = false;
    for part in args.rest(1) {
        budget.spend_bytes(text.len())?;
        match part.and_then(Value::as_str) {
            Some(part) if text.contains(&*with_case(part, ignore_case)) != all => {
                return Ok(Some(Value::Bool(!all)));
            }
            Some(_) => {}
            None => is_unknown = true,
        }
    }
    Ok((!is_unknown).then_some(Value::Bool(all)))
}

/// First position at or after the third argument, or -1.
fn index_of(args: &Args<'_>) -> Option<Value> {
    let (text, part) = (args.str(0)?, args.str(1)?);
    let from = if args.len() > 2 { args.integer(2)? } else { 0 };
    let from = utf16::byte_offset(text, usize::try_from(from.max(0)).ok()?);
    let found = text.get(from..)?.find(part).map(|byte| utf16::position(text, from + byte));
    Some(found.map_or(Value::Int64(-1), count))
}

/// Last position whose match ends at or before the third argument, or -1.
fn last_index_of(args: &Args<'_>) -> Option<Value> {
    let (text, part) = (args.str(0)?, args.str(1)?);
    let end = if args.len() > 2 {
        let last = usize::try_from(args.integer(2)?.max(-1) + 1).ok()?;
        utf16::byte_offset(text, last)
    } else {
        text.len()
    };
    let found = text.get(..end)?.rfind(part).map(|byte| utf16::position(text, byte));
    Some(found.map_or(Value::Int64(-1), count))
}

/// The text before and after the first delimiter; *undefined* if it does not occur.
fn split_first<'a>(args: &Args<'a>) -> Option<(&'a str, &'a str)> {
    args.str(0)?.split_once(args.str(1)?)
}

/// The text before and after the last delimiter; *undefined* if it does not occur.
fn split_last<'a>(args: &Args<'a>) -> Option<(&'a str, &'a str)> {
    args.str(0)?.rsplit_once(args.str(1)?)
}
