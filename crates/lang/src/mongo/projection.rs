//! Compiles projections, of `find` and of `$project`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{Object, Value};
use query::document::predicate::ValueTest;
use query::document::print::PrintedField;
use query::document::projection::{
    Child, Collision, Computed, Positional, Projection, ProjectionTree, SliceOf,
};
use query::document::types::{is_number, is_truthy, to_f64};
use query::document::{BsonType, Failure, Predicate};

use super::field_names::path_parts;
use super::filter::{self, FilterOptions};

/// What a projection is compiled with.
#[derive(Clone, Copy, Debug)]
pub struct ProjectionOptions<'c> {
    /// Whose rules count.
    pub rules: Rules<'c>,
    /// Compiles expressions and the filters on elements.
    pub filter: FilterOptions<'c>,
}

/// Whose rules count.
#[derive(Clone, Copy, Debug)]
pub enum Rules<'c> {
    /// Those of `find` and of `findAndModify`: parts of arrays can be picked. With the filter that
    /// finds the element of the positional operator.
    Find(Option<&'c Arc<Predicate>>),
    /// Those of `$project`.
    Aggregate,
}

impl Rules<'_> {
    fn is_find(&self) -> bool {
        matches!(self, Rules::Find(_))
    }
}

/// InvalidPipelineOperator.
const INVALID_PIPELINE_OPERATOR: i32 = 168;

/// Compiles a projection.
pub fn compile(
    specification: &Object,
    options: &ProjectionOptions<'_>,
) -> Result<Projection, Failure> {
    if specification.is_empty() && !options.rules.is_find() {
        let message = "projection specification must have at least one field";
        return Err(Failure::new(51272, message));
    }
    let mut compiler = Compiler {
        options,
        is_inclusion: None,
        id: None,
        has_id: false,
        has_element: false,
        has_metadata: false,
        tree: ProjectionTree::default(),
        slices: Vec::new(),
        positional: None,
    };
    for (name, value) in specification.iter() {
        compiler.has_id |= name == "_id" || name.starts_with("_id.");
        compiler.element(&Prefix::default(), name, value)?;
    }
    compiler.finish()
}

/// The path of the object in which a specification stands.
#[derive(Clone, Default)]
struct Prefix<'s> {
    parts: Vec<&'s str>,
}

struct Compiler<'c> {
    options: &'c ProjectionOptions<'c>,
    /// Whether fields are included or excluded, once something has decided that.
    is_inclusion: Option<bool>,
    /// Whether `_id` is included, if that is said.
    id: Option<bool>,
    /// Whether `_id` or a part of it is named.
    has_id: bool,
    has_element: bool,
    has_metadata: bool,
    tree: ProjectionTree,
    slices: Vec<SliceOf>,
    positional: Option<Positional>,
}

impl<'s> Compiler<'s> {
    fn element(&mut self, prefix: &Prefix<'s>, name: &'s str, value: &'s Value) -> Outcome {
        let positional = positional_parts(name)?;
        if positional.is_some() && !self.options.rules.is_find() {
            let message = "Cannot use positional projection in aggregation projection";
            return Err(Failure::new(31324, message));
        }
        if let Value::Object(object) = value {
            if positional.is_some() {
                let message =
                    "positional projection cannot be used with an expression or sub object";
                return Err(Failure::new(31271, message));
            }
            return self.object(prefix, name, object);
        }
        if value.as_bool().is_some() || is_number(value) {
            return match (is_truthy(value), positional) {
                (true, None) => self.inclusion(prefix, name),
                (true, Some(path)) => self.positional(prefix, name, path),
                (false, None) => self.exclusion(prefix, name),
                (false, Some(_)) => {
                    let message = "positional projection cannot be used with exclusion";
                    Err(Failure::new(31395, message))
                }
            };
        }
        if positional.is_some() {
            let message = "positional projection cannot be used with a literal";
            return Err(Failure::new(31308, message));
        }
        self.literal(prefix, name, value)
    }

    fn object(&mut self, prefix: &Prefix<'s>, name: &'s str, object: &'s Object) -> Outcome {
        let path = joined(prefix, &path_parts(name)?);
        let mut fields = object.iter();
        let Some((operator, argument)) = fields.next() else {
            let message = format!(
                "An empty sub-projection is not a valid value. Found empty object at path {}",
                path.join(".")
            );
            return Err(Failure::new(51270, message));
        };
        if operator.starts_with('$') && object.len() == 1 {
            return self.operator(prefix, &path, object, operator, argument);
        }
        let inner = Prefix { parts: path };
        object.iter().try_for_each(|(name, value)| self.element(&inner, name, value))
    }

    fn operator(
        &mut self,
        prefix: &Prefix<'s>,
        path: &[&'s str],
        object: &'s Object,
        operator: &str,
        argument: &'s Value,
    ) -> Outcome {
        match (operator, self.options.rules) {
            // The expression of this name takes an array that does not begin with a number.
            ("$slice", Rules::Find(_)) if !is_slice_expression(argument) => {
                self.slices.push(slice(path, argument)?);
                self.add(path, Child::Kept)
            }
            ("$elemMatch", Rules::Find(_)) => self.first_element(prefix, path, argument),
            ("$elemMatch", Rules::Aggregate) => {
                let message = "Cannot use $elemMatch in this context";
                Err(Failure::new(INVALID_PIPELINE_OPERATOR, message))
            }
            ("$meta", _) => self.metadata(path, argument),
            _ => self.expression(path, object),
        }
    }

    fn first_element(
        &mut self,
        prefix: &Prefix<'s>,
        path: &[&'s str],
        argument: &'s Value,
    ) -> Outcome {
        let Value::Object(tests) = argument else {
            let message = format!(
                "elemMatch: Invalid argument, object required, but got {}",
                BsonType::of(argument).alias()
            );
            return Err(Failure::new(31274, message));
        };
        if self.positional.is_some() {
            let message = "Cannot specify positional operator and $elemMatch.";
            return Err(Failure::new(31255, message));
        }
        let ([name], true) = (path, prefix.parts.is_empty()) else {
            let message = "Cannot use $elemMatch projection on a nested field.";
            return Err(Failure::new(31275, message));
        };
        let test = Object::from_iter([("$elemMatch".to_owned(), Value::Object(tests.clone()))]);
        let filter = Object::from_iter([((*name).to_owned(), Value::Object(test))]);
        let options = FilterOptions { is_restricted: true, ..self.options.filter };
        let Predicate::Field { path: _, test } = filter::compile(&filter, &options)? else {
            return Ok(());
        };
        debug_assert!(matches!(test, ValueTest::ElementObject(_) | ValueTest::ElementValue(_)));
        self.has_element = true;
        self.add(path, Child::Computed(Computed::FirstElement(Arc::new(test))))
    }

    /// What is known of a document beside its fields; of the text score and the like there is none.
    fn metadata(&mut self, path: &[&'s str], argument: &'s Value) -> Outcome {
        let Some(kind) = argument.as_str() else {
            let message = "field for $meta cannot be evaluated to something else than a string";
            return Err(Failure::new(17307, message));
        };
        self.has_metadata = true;
        match kind {
            "recordId" | "indexKey" => self.add(path, Child::Computed(Computed::Nothing)),
            "textScore" | "randVal" | "searchScore" | "searchHighlights" | "geoNearDistance"
            | "geoNearPoint" | "sortKey" | "searchScoreDetails" | "vectorSearchScore" => {
                let message =
                    format!("query requires {} metadata, but it is not available", spaced(kind));
                Err(Failure::new(40218, message))
            }
            _ => Err(Failure::new(17308, format!("Unsupported argument to $meta: {kind}"))),
        }
    }

    fn expression(&mut self, path: &[&'s str], object: &'s Object) -> Outcome {
        if self.is_inclusion == Some(false) {
            let message = "Cannot use expression other than $meta in exclusion projection";
            return Err(Failure::new(31252, message));
        }
        self.is_inclusion = Some(true);
        let value = Value::Object(object.clone());
        let compiled = self.options.filter.expression(&value).map_err(|failure| {
            let operator = object.iter().next().map_or("", |(name, _)| name);
            match failure.message.starts_with("Unrecognized expression '")
                && failure.message.contains(&format!("'{operator}'"))
            {
                true => Failure::new(31325, format!("Unknown expression {operator}")),
                false => failure,
            }
        })?;
        self.add(path, Child::Computed(Computed::Expression(compiled)))
    }

    fn literal(&mut self, prefix: &Prefix<'s>, name: &'s str, value: &'s Value) -> Outcome {
        let path = joined(prefix, &path_parts(name)?);
        let compiled = self.options.filter.expression(value)?;
        self.add(&path, Child::Computed(Computed::Expression(compiled)))?;
        if self.is_inclusion == Some(false) {
            let message = format!(
                "Cannot use an expression {} in an exclusion projection",
                PrintedField(name, value)
            );
            return Err(Failure::new(31310, message));
        }
        self.is_inclusion = Some(true);
        Ok(())
    }

    fn inclusion(&mut self, prefix: &Prefix<'s>, name: &'s str) -> Outcome {
        self.add(&joined(prefix, &path_parts(name)?), Child::Kept)?;
        if is_id(prefix, name) {
            self.id = Some(true);
            return Ok(());
        }
        self.include(name)
    }

    fn positional(&mut self, prefix: &Prefix<'s>, name: &'s str, path: &'s str) -> Outcome {
        if self.positional.is_some() {
            let message = "Cannot specify more than one positional projection per query.";
            return Err(Failure::new(31276, message));
        }
        if self.has_element {
            let message = "Cannot specify positional operator and $elemMatch.";
            return Err(Failure::new(31256, message));
        }
        let Rules::Find(Some(filter)) = self.options.rules else {
            let message = "Projections with a positional operator require a matcher";
            return Err(Failure::new(51050, message));
        };
        let path = joined(prefix, &path_parts(path)?);
        if !path.first().is_some_and(|first| filter.tests_path(first)) {
            let message =
                format!("Positional projection '{name}' does not match the query document.");
            return Err(Failure::new(31277, message));
        }
        self.add(&path, Child::Kept)?;
        let path = path.into_iter().map(str::to_owned).collect();
        self.positional = Some(Positional { path, filter: Arc::clone(filter) });
        self.include(name)
    }

    fn include(&mut self, name: &str) -> Outcome {
        if self.is_inclusion == Some(false) {
            let message = format!("Cannot do inclusion on field {name} in exclusion projection");
            return Err(Failure::new(31253, message));
        }
        self.is_inclusion = Some(true);
        Ok(())
    }

    fn exclusion(&mut self, prefix: &Prefix<'s>, name: &'s str) -> Outcome {
        self.add(&joined(prefix, &path_parts(name)?), Child::Dropped)?;
        if is_id(prefix, name) {
            self.id = Some(false);
            return Ok(());
        }
        if self.is_inclusion == Some(true) {
            let message = format!("Cannot do exclusion on field {name} in inclusion projection");
            return Err(Failure::new(31254, message));
        }
        self.is_inclusion = Some(false);
        Ok(())
    }

    fn add(&mut self, path: &[&str], child: Child) -> Outcome {
        if path.len() > super::field_names::PATH_PARTS_MAX {
            let overflow = query::document::code::OVERFLOW;
            return Err(Failure::new(overflow, "FieldPath is too long"));
        }
        self.tree.add(path, child).map_err(|collision| {
            let path = path.join(".");
            match collision {
                Collision::Same => Failure::new(31250, format!("Path collision at {path}")),
                Collision::Within(rest) => Failure::new(
                    31249,
                    format!("Path collision at {path} remaining portion {rest}"),
                ),
            }
        })
    }

    fn finish(mut self) -> Result<Projection, Failure> {
        let is_inclusion = self.is_inclusion.unwrap_or_else(|| self.is_inclusion_by_default());
        if is_inclusion && !self.has_id {
            self.add(&["_id"], Child::Kept)?;
        }
        Ok(Projection {
            is_inclusion,
            tree: self.tree,
            slices: self.slices,
            positional: self.positional,
        })
    }

    /// What a projection is that names nothing but `_id` and parts of arrays.
    fn is_inclusion_by_default(&self) -> bool {
        if !self.slices.is_empty() {
            return self.id == Some(true);
        }
        if self.has_element {
            return true;
        }
        if self.has_metadata {
            return !self.options.rules.is_find() || self.id == Some(true);
        }
        self.id == Some(true)
    }
}

type Outcome = Result<(), Failure>;

fn is_id(prefix: &Prefix<'_>, name: &str) -> bool {
    prefix.parts.is_empty() && name == "_id"
}

fn joined<'s>(prefix: &Prefix<'s>, parts: &[&'s str]) -> Vec<&'s str> {
    prefix.parts.iter().chain(parts).copied().collect()
}

/// The path before the positional operator, if the name ends with one.
fn positional_parts(name: &str) -> Result<Option<&str>, Failure> {
    let Some((path, rest)) = name.split_once(".$") else { return Ok(None) };
    if rest.is_empty() {
        return Ok(Some(path));
    }
    if !rest.starts_with('.') {
        return Ok(None);
    }
    let message = "As of 4.4, it's illegal to specify positional operator in the middle of a path.\
                   Positional projection may only be used at the end, for example: a.b.$. If the \
                   query previously used a form like a.b.$.d, remove the parts following the '$' \
                   and the results will be equivalent.";
    Err(Failure::new(31394, message))
}

fn is_slice_expression(argument: &Value) -> bool {
    let arguments = argument.as_array().unwrap_or_default();
    (2..=3).contains(&arguments.len()) && !arguments.first().is_some_and(is_number)
}

fn slice(path: &[&str], argument: &Value) -> Result<SliceOf, Failure> {
    let path = path.iter().map(|part| (*part).to_owned()).collect();
    if is_number(argument) {
        return Ok(SliceOf { path, skip: None, limit: whole(argument) });
    }
    let invalid = |code, reason: &str| Err(invalid_slice(argument, code, reason));
    let Some(arguments) = argument.as_array() else {
        return invalid(31273, "$slice only supports numbers and [skip, limit] arrays");
    };
    let [skip, limit] = arguments else {
        return invalid(31272, "$slice array argument should be of form [skip, limit]");
    };
    if !is_number(limit) {
        let found = BsonType::of(limit).alias();
        let reason = format!("$slice expects the limit argument to be a number, got {found}");
        return invalid(31258, &reason);
    }
    let limit = whole(limit);
    if limit <= 0 {
        return invalid(31259, &format!("$slice limit must be positive, got {limit}"));
    }
    Ok(SliceOf { path, skip: Some(whole(skip)), limit })
}

/// Neither the operator of `find` nor the expression takes this argument: the number is that of the
/// expression, the text has both reasons.
fn invalid_slice(argument: &Value, code: i32, reason: &str) -> Failure {
    let message = format!(
        "Invalid $slice syntax. The given syntax {{ {} }} did not match the find() syntax because \
         :: Location{code}: {reason} :: The given syntax did not match the expression $slice \
         syntax. :: caused by :: Expression $slice takes at least 2 arguments, and at most 3, but \
         1 were passed in.",
        PrintedField("$slice", argument)
    );
    Failure::new(28667, message)
}

/// A number as an int32, with its fraction cut and the nearest one if it is out of range.
#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates, as intended")]
fn whole(value: &Value) -> i64 {
    i64::from(to_f64(value).unwrap_or_default() as i32)
}

/// The words of a name that is written without spaces.
fn spaced(name: &str) -> String {
    let mut spaced = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            spaced.push(' ');
        }
        spaced.push(letter.to_ascii_lowercase());
    }
    spaced
}
