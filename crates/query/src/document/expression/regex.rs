//! Regular expressions.

use std::sync::Arc;

use model::{Object, Value};

use super::operator::{Named, null, optional, owned, required};
use super::{Arguments, Operator, Shape};
use crate::Budget;
use crate::document::values::is_nullish;
use crate::document::{Failure, Regex};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$regexFind", Shape::Named(REGEX), |arguments| {
        let Some(search) = Search::of(arguments)? else { return null() };
        match search.matches(1)?.pop() {
            Some(found) => owned(found),
            None => null(),
        }
    }),
    Operator::new("$regexFindAll", Shape::Named(REGEX), |arguments| match Search::of(arguments)? {
        Some(search) => owned(search.matches(usize::MAX)?),
        None => owned(Vec::new()),
    }),
    Operator::new("$regexMatch", Shape::Named(REGEX), |arguments| match Search::of(arguments)? {
        Some(search) => owned(search.regex.is_match(&search.text, &Budget::per_item())?),
        None => owned(false),
    }),
];

const REGEX: &Named = &Named {
    parameters: &[
        required("input", 31022, "{op} requires 'input' parameter"),
        required("regex", 31023, "{op} requires 'regex' parameter"),
        optional("options"),
    ],
    not_object: (51103, "{op} expects an object of named arguments but found: {}"),
    unknown: (31024, "{op} found an unknown argument: {}"),
};

/// Most bytes of all matches together.
const MATCHES_BYTES_MAX: usize = 64 << 20;

struct Search<'a, 's> {
    arguments: &'a Arguments<'s>,
    text: String,
    regex: Arc<Regex>,
}

impl<'a, 's> Search<'a, 's> {
    /// `None` if the text or the pattern is null.
    fn of(arguments: &'a Arguments<'s>) -> Result<Option<Self>, Failure> {
        let text = arguments.value(0)?;
        let regex = match arguments.prepared_regex() {
            Some(regex) => Some(Arc::clone(regex)),
            None => compile(arguments)?,
        };
        if is_nullish(text.as_deref()) {
            return Ok(None);
        }
        let Some(text) = text.as_deref().and_then(Value::as_str) else {
            return Err(arguments.failure(51104, " needs 'input' to be of type string"));
        };
        Ok(regex.map(|regex| Self { arguments, text: text.to_owned(), regex }))
    }

    /// The first `max` matches, with their positions in code points and their groups.
    fn matches(&self, max: usize) -> Result<Vec<Value>, Failure> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let (mut counted_to, mut code_points) = (0, 0);
        let too_large = || {
            let text = ": the size of buffer to store output exceeded the 64MB limit";
            self.arguments.failure(51151, text)
        };
        self.regex.for_each_match(&self.text, max, &Budget::per_item(), |start, groups| {
            code_points += self.text[counted_to..start].chars().count();
            counted_to = start;
            let position = Value::Int32(i32::try_from(code_points).unwrap_or(i32::MAX));
            let mut texts = groups.iter().map(|group| group.map_or(Value::Null, Value::from));
            let matched = texts.next().unwrap_or(Value::Null);
            let captures: Vec<Value> = texts.collect();
            bytes += groups.iter().flatten().map(|group| group.len() + 32).sum::<usize>() + 64;
            if bytes > MATCHES_BYTES_MAX {
                return Err(too_large());
            }
            let fields = [
                ("match".to_owned(), matched),
                ("idx".to_owned(), position),
                ("captures".to_owned(), Value::Array(captures)),
            ];
            found.push(Value::Object(Object::from_iter(fields)));
            Ok(())
        })?;
        self.arguments.scope().spend_bytes(bytes)?;
        Ok(found)
    }
}

/// The pattern and its options; `None` if one of them is null.
pub(super) fn compile(arguments: &Arguments<'_>) -> Result<Option<Arc<Regex>>, Failure> {
    let (pattern, options) = (arguments.value(1)?, arguments.value(2)?);
    let (source, own_options) = match pattern.as_deref() {
        other if is_nullish(other) => (None, ""),
        Some(Value::String(source)) => (Some(source.as_str()), ""),
        Some(Value::Regex { pattern, options }) => (Some(pattern.as_str()), options.as_str()),
        _ => {
            return Err(arguments.failure(51105, " needs 'regex' to be of type string or regex"));
        }
    };
    let given = match options.as_deref() {
        other if is_nullish(other) => None,
        Some(Value::String(given)) => Some(given.as_str()),
        _ => return Err(arguments.failure(51106, " needs 'options' to be of type string")),
    };
    if given.is_some() && !own_options.is_empty() {
        let text = ": found regex option(s) specified in both 'regex' and 'option' fields";
        return Err(arguments.failure(51107, text));
    }
    let Some(source) = source else { return Ok(None) };
    if source.contains('\0') {
        let text = ": regular expression cannot contain an embedded null byte";
        return Err(arguments.failure(51109, text));
    }
    let options = given.unwrap_or(own_options);
    if options.contains('\0') {
        let text = ": regular expression options cannot contain an embedded null byte";
        return Err(arguments.failure(51110, text));
    }
    let name = arguments.name();
    Regex::new(source, options).map(|regex| Some(Arc::new(regex))).map_err(|failure| match failure
        .code
    {
        51091 => Failure::new(51111, format!("Invalid Regex in {name}: {}", failure.message)),
        _ => Failure::new(failure.code, format!("{name} {}", failure.message)),
    })
}
