//! `$lookup`: documents of another collection, added to each document as an array.
//!
//! A join by equality reads the other collection once, into a hash table. What a pipeline does
//! before it depends on the document is done once as well.

use std::sync::Arc;

use model::Value;

use super::buffer::{Buffer, Reading};
use super::chain::open;
use super::fields::set;
use super::join::{JoinTable, local_values};
use super::{Context, Documents, Given, Namespace, Pipeline, Stage};
use crate::budget::bytes_of;
use crate::document::{Expression, Failure, FieldPath, Scope, Variables};

/// `$lookup`.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The other collection; `None` if the pipeline makes its own documents.
    pub from: Option<Namespace>,
    /// The fields that have to be equal.
    pub equality: Option<Equality>,
    /// The values of `let`. Their slots follow those of the pipeline around this one.
    pub values: Vec<Expression>,
    /// What becomes of the documents that were found.
    pub pipeline: Arc<Pipeline>,
    /// How many stages at the beginning of the pipeline use none of the values.
    pub independent_stages: usize,
    /// Values that are equal in all documents which the first stage that is not independent lets
    /// pass: one of a document of the other side, and one made of the values of `let`.
    pub condition: Option<(Expression, Expression)>,
    /// The names that lead to the array.
    pub target: Vec<String>,
}

/// A field of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equality {
    /// The names that lead to the field of a document of the pipeline.
    pub local: Vec<String>,
    /// The field of the documents of the other collection.
    pub foreign: FieldPath,
}

pub(super) fn run(
    lookup: Arc<Lookup>,
    source: Box<dyn Documents>,
    context: Context,
) -> Box<dyn Documents> {
    Box::new(LookingUp { lookup, source, context, foreign: None })
}

/// The other side.
enum Foreign {
    /// By the values of a field, with the stages that are left.
    Table(JoinTable, Pipeline),
    /// What the independent stages give, by the value that has to be equal.
    Keyed(JoinTable, Pipeline),
    /// What the independent stages give, with the stages that are left.
    Documents(Arc<Buffer>, Pipeline),
}

struct LookingUp {
    lookup: Arc<Lookup>,
    source: Box<dyn Documents>,
    context: Context,
    foreign: Option<Foreign>,
}

impl Documents for LookingUp {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        let Some(mut document) = self.source.next()? else { return Ok(None) };
        let foreign = match self.foreign.take() {
            Some(foreign) => foreign,
            None => self.read()?,
        };
        let found = self.find(&document, &foreign);
        self.foreign = Some(foreign);
        set(&mut document, &self.lookup.target, Value::Array(found?));
        Ok(Some(document))
    }
}

/// Most bytes of the documents that are found for one.
const FOUND_BYTES_MAX: usize = 100 * 1024 * 1024;

impl LookingUp {
    fn read(&self) -> Result<Foreign, Failure> {
        let stages = self.lookup.pipeline.stages();
        let from = self.lookup.from.as_ref();
        if let Some(equality) = &self.lookup.equality {
            // Filters can come before the join; all else sees only what was found.
            let independent = stages.iter().take(self.lookup.independent_stages);
            let filters = independent.take_while(|stage| matches!(stage, Stage::Match(_))).count();
            let (before, after) = stages.split_at(filters);
            let source = open(from, &Pipeline::new(before.to_vec()), &self.context)?;
            let table = JoinTable::of(source, &equality.foreign, &self.context, "$lookup")?;
            return Ok(Foreign::Table(table, Pipeline::new(after.to_vec())));
        }
        let (before, after) = stages.split_at(self.lookup.independent_stages.min(stages.len()));
        let source = open(from, &Pipeline::new(before.to_vec()), &self.context)?;
        let rest = Pipeline::new(after.to_vec());
        if let Some((key, _)) = &self.lookup.condition {
            let table = JoinTable::by_expression(source, key, &self.context, "$lookup")?;
            return Ok(Foreign::Keyed(table, rest));
        }
        let buffer = Buffer::of(source, &self.context, "$lookup")?;
        Ok(Foreign::Documents(Arc::new(buffer), rest))
    }

    fn find(&self, document: &Value, foreign: &Foreign) -> Result<Vec<Value>, Failure> {
        let context = match self.lookup.values.is_empty() {
            true => self.context.clone(),
            false => self.context.with_variables(self.variables(document)?),
        };
        let (found, rest): (Box<dyn Documents>, &Pipeline) = match foreign {
            Foreign::Table(table, rest) => {
                let local = self.lookup.equality.as_ref().map(|equality| &equality.local);
                let values = local.map(|local| local_values(document, local)).unwrap_or_default();
                let found = self.documents(table, table.find(values))?;
                if rest.stages().is_empty() {
                    return Ok(found);
                }
                (Box::new(Given::new(found)), rest)
            }
            Foreign::Keyed(table, rest) => {
                let value = match &self.lookup.condition {
                    Some((_, value)) => {
                        value.evaluate(&Scope::new(document, &context.variables))?
                    }
                    None => None,
                };
                let found = self.documents(table, table.find_one(value.as_ref()))?;
                (Box::new(Given::new(found)), rest)
            }
            Foreign::Documents(buffer, rest) => {
                (Box::new(Reading { buffer: Arc::clone(buffer), next: 0 }), rest)
            }
        };
        let mut output = rest.run(found, &context);
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while let Some(document) = output.next()? {
            self.check_size(&mut bytes, &document)?;
            documents.push(document);
        }
        Ok(documents)
    }

    fn documents(&self, table: &JoinTable, numbers: Vec<usize>) -> Result<Vec<Value>, Failure> {
        let (mut found, mut bytes) = (Vec::with_capacity(numbers.len()), 0);
        for number in numbers {
            if let Some(document) = table.get(number)? {
                self.check_size(&mut bytes, &document)?;
                found.push(document);
            }
        }
        Ok(found)
    }

    /// The variables that the pipeline sees for one document.
    fn variables(&self, document: &Value) -> Result<Variables, Failure> {
        let outer = &self.context.variables;
        let scope = Scope::new(document, outer);
        let mut variables = Variables::clone(outer);
        for value in &self.lookup.values {
            variables.slots.push(value.evaluate(&scope)?);
        }
        Ok(variables)
    }

    fn check_size(&self, bytes: &mut usize, document: &Value) -> Result<(), Failure> {
        *bytes += bytes_of(document);
        if *bytes > FOUND_BYTES_MAX {
            let collection = self.lookup.from.as_ref().map_or("", |from| from.collection.as_str());
            let message = format!(
                "Total size of documents in {collection} matching pipeline's $lookup stage exceeds \
                 {FOUND_BYTES_MAX} bytes"
            );
            return Err(Failure::new(4568, message));
        }
        Ok(())
    }
}
