//! `$graphLookup`: documents of another collection that are reached in one or more steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;
use model::Value;
use model::order::{TypeOrder, encode_whole};

use super::chain::open;
use super::fields::set;
use super::join::{JoinTable, local_values};
use super::{Context, Documents, Namespace, Pipeline, Stage};
use crate::budget::bytes_of;
use crate::document::{Expression, Failure, FieldPath, Predicate, Scope};

/// `$graphLookup`.
#[derive(Clone, Debug)]
pub struct GraphLookup {
    /// The other collection.
    pub from: Namespace,
    /// The value or values that the first documents are found by.
    pub start: Expression,
    /// The names that lead to the values that further documents are found by.
    pub connect_from: Vec<String>,
    /// The field that has these values.
    pub connect_to: FieldPath,
    /// The names that lead to the array of what is found.
    pub target: Vec<String>,
    /// Most steps after the first.
    pub max_depth: Option<u64>,
    /// Where the number of steps is stored in what is found.
    pub depth_field: Option<Vec<String>>,
    /// Which documents are looked at.
    pub filter: Option<Arc<Predicate>>,
}

pub(super) fn run(
    lookup: Arc<GraphLookup>,
    source: Box<dyn Documents>,
    context: Context,
) -> Box<dyn Documents> {
    Box::new(Searching { lookup, source, context, table: None })
}

struct Searching {
    lookup: Arc<GraphLookup>,
    source: Box<dyn Documents>,
    context: Context,
    table: Option<JoinTable>,
}

impl Documents for Searching {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        let Some(mut document) = self.source.next()? else { return Ok(None) };
        let table = match self.table.take() {
            Some(table) => table,
            None => self.read()?,
        };
        let found = self.search(&document, &table);
        self.table = Some(table);
        set(&mut document, &self.lookup.target, Value::Array(found?));
        Ok(Some(document))
    }
}

impl Searching {
    fn read(&self) -> Result<JoinTable, Failure> {
        let filter = self.lookup.filter.iter().map(|filter| Stage::Match(Arc::clone(filter)));
        let pipeline = Pipeline::new(filter.collect());
        let source = open(Some(&self.lookup.from), &pipeline, &self.context)?;
        JoinTable::of(source, &self.lookup.connect_to, &self.context, "$graphLookup")
    }

    /// Breadth first. A document is found once, with the least number of steps.
    fn search(&self, document: &Value, table: &JoinTable) -> Result<Vec<Value>, Failure> {
        let variables = &self.context.variables;
        let start = self.lookup.start.evaluate(&Scope::new(document, variables))?;
        let mut frontier = match start {
            Some(Value::Array(values)) => values,
            other => vec![other.unwrap_or(Value::Null)],
        };
        let mut seen = HashSet::new();
        let mut found: BTreeMap<usize, Value> = BTreeMap::new();
        let (mut order, mut bytes, mut depth) = (Vec::new(), 0, 0_u64);
        while !frontier.is_empty() && self.lookup.max_depth.is_none_or(|most| depth <= most) {
            variables.check_interrupt()?;
            frontier.retain(|value| {
                let mut key = Vec::new();
                encode_whole(TypeOrder::Bson, Some(value), &mut key);
                seen.insert(key)
            });
            let mut next = Vec::new();
            for number in table.find(&frontier) {
                if found.contains_key(&number) {
                    continue;
                }
                let Some(mut reached) = table.get(number)? else { continue };
                // What has no such field leads nowhere.
                let onward = local_values(&reached, &self.lookup.connect_from);
                let has_field = has(&reached, &self.lookup.connect_from);
                next.extend(onward.into_iter().filter(|_| has_field).cloned());
                if let Some(field) = &self.lookup.depth_field {
                    set(
                        &mut reached,
                        field,
                        Value::Int64(i64::try_from(depth).unwrap_or(i64::MAX)),
                    );
                }
                bytes += bytes_of(&reached);
                if bytes > self.context.stage_bytes_max {
                    let message = "$graphLookup reached maximum memory consumption";
                    return Err(Failure::new(40099, message));
                }
                order.push(number);
                found.insert(number, reached);
            }
            frontier = next;
            depth += 1;
        }
        Ok(order.into_iter().filter_map(|number| found.remove(&number)).collect())
    }
}

/// Whether there is a field at a path, arrays on its way included.
fn has(value: &Value, path: &[String]) -> bool {
    let Some((name, rest)) = path.split_first() else { return true };
    match value.as_array() {
        Some(elements) => elements.iter().any(|element| has(element, path)),
        None => value.field(name).is_some_and(|field| has(field, rest)),
    }
}
