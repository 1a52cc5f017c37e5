//! A hash table of the documents of another collection, by the values of one of their fields.

use hashbrown::HashMap;
use model::Value;
use model::order::{TypeOrder, encode_whole};

use super::buffer::Buffer;
use super::{Context, Documents};
use crate::document::predicate::{LeafArray, find_candidate};
use crate::document::{Expression, Failure, FieldPath, Scope, code};

/// Documents by the values that a filter for equality would find at a path. The documents may be on
/// disk; the table is in memory.
pub(super) struct JoinTable {
    documents: Buffer,
    by_value: HashMap<Vec<u8>, Vec<usize>>,
}

impl JoinTable {
    pub(super) fn of(
        source: Box<dyn Documents>,
        path: &FieldPath,
        context: &Context,
        stage: &str,
    ) -> Result<Self, Failure> {
        let mut table = Self::empty(Buffer::of(source, context, stage)?);
        let (mut key, mut bytes) = (Vec::new(), 0);
        let Self { documents, by_value } = &mut table;
        documents.for_each(|number, document| {
            find_candidate(document, path, LeafArray::ElementsAndWhole, &mut |value, _| {
                key.clear();
                encode_whole(TypeOrder::Bson, Some(value.unwrap_or(&Value::Null)), &mut key);
                insert(by_value, &key, number, &mut bytes);
                Ok(false)
            })?;
            check_memory(bytes, context, stage)
        })?;
        Ok(table)
    }

    /// By the value of an expression alone; what is missing is a value, too.
    pub(super) fn by_expression(
        source: Box<dyn Documents>,
        expression: &Expression,
        context: &Context,
        stage: &str,
    ) -> Result<Self, Failure> {
        let mut table = Self::empty(Buffer::of(source, context, stage)?);
        let (mut key, mut bytes) = (Vec::new(), 0);
        let Self { documents, by_value } = &mut table;
        documents.for_each(|number, document| {
            let scope = Scope::new(document, &context.variables);
            encode_one(expression.eval(&scope)?.as_deref(), &mut key);
            insert(by_value, &key, number, &mut bytes);
            check_memory(bytes, context, stage)
        })?;
        Ok(table)
    }

    fn empty(documents: Buffer) -> Self {
        Self { documents, by_value: HashMap::new() }
    }

    /// The numbers of the documents with this value, in order.
    pub(super) fn find_one(&self, value: Option<&Value>) -> Vec<usize> {
        let mut key = Vec::new();
        encode_one(value, &mut key);
        self.by_value.get(&key).cloned().unwrap_or_default()
    }

    /// The numbers of the documents that have one of these values, each once, in order.
    pub(super) fn find<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> Vec<usize> {
        let (mut found, mut key, mut count) = (Vec::new(), Vec::new(), 0);
        for value in values {
            key.clear();
            encode_whole(TypeOrder::Bson, Some(value), &mut key);
            found.extend(self.by_value.get(&key).into_iter().flatten().copied());
            count += 1;
        }
        if count > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// The document with this number.
    pub(super) fn get(&self, number: usize) -> Result<Option<Value>, Failure> {
        self.documents.get(number)
    }
}

/// The key of a value, or of what is missing.
fn encode_one(value: Option<&Value>, key: &mut Vec<u8>) {
    key.clear();
    key.push(u8::from(value.is_some()));
    encode_whole(TypeOrder::Bson, value, key);
}

/// Adds a document; it has the same value several times if an array has it.
fn insert(
    by_value: &mut HashMap<Vec<u8>, Vec<usize>>,
    key: &[u8],
    number: usize,
    bytes: &mut usize,
) {
    match by_value.get_mut(key) {
        Some(numbers) if numbers.last() == Some(&number) => {}
        Some(numbers) => {
            numbers.push(number);
            *bytes += size_of::<usize>();
        }
        None => {
            *bytes += key.len() + 2 * size_of::<Vec<u8>>() + size_of::<usize>();
            by_value.insert(key.to_vec(), vec![number]);
        }
    }
}

fn check_memory(bytes: usize, context: &Context, stage: &str) -> Result<(), Failure> {
    let limit = context.stage_bytes_max;
    if bytes <= limit {
        return Ok(());
    }
    let message = format!(
        "{stage} exceeded its memory limit for the values that it joins on. Memory limit: {limit} \
         bytes"
    );
    Err(Failure::new(code::MEMORY_LIMIT_EXCEEDED, message))
}

/// The values of a field that documents are joined on: elements of arrays one by one, null for what
/// is missing.
pub(super) fn local_values<'v>(document: &'v Value, path: &[String]) -> Vec<&'v Value> {
    let mut values = Vec::new();
    let mut is_missing = true;
    collect(document, path, &mut values, &mut is_missing);
    if is_missing {
        values.push(&Value::Null);
    }
    values
}

fn collect<'v>(
    value: &'v Value,
    path: &[String],
    values: &mut Vec<&'v Value>,
    is_missing: &mut bool,
) {
    match (value.as_array(), path.split_first()) {
        (Some(elements), None) => {
            *is_missing = false;
            values.extend(elements);
        }
        (None, None) => {
            *is_missing = false;
            values.push(value);
        }
        (Some(elements), Some(_)) => {
            for element in elements.iter().filter(|element| element.as_object().is_some()) {
                collect(element, path, values, is_missing);
            }
        }
        (None, Some((name, rest))) => {
            if let Some(field) = value.field(name) {
                collect(field, rest, values, is_missing);
            }
        }
    }
}
