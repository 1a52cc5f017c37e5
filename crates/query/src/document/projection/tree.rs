//! The fields that a projection names, as a tree of names.

use std::collections::BTreeMap;

use model::json::FieldMask;
use model::{Object, Value};

use super::Computed;
use crate::document::predicate::Matching;
use crate::document::{Failure, Variables};

/// The fields that are named on one level, in the order of the specification.
#[derive(Clone, Debug, Default)]
pub struct ProjectionTree {
    children: Vec<(String, Child)>,
    /// The place of each name in `children`.
    places: BTreeMap<String, usize>,
    has_computed: bool,
}

/// What becomes of a field that is named.
#[derive(Clone, Debug)]
pub enum Child {
    /// It is kept whatever else is; a part of it may be cut out afterwards.
    Kept,
    /// It is left out.
    Dropped,
    /// It gets another value.
    Computed(Computed),
    /// Parts of it are named.
    Tree(ProjectionTree),
}

/// Two paths name the same field, or one a part of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collision {
    /// The path is named already, or a part of it is.
    Same,
    /// The path leads into a field that is named; the rest of it.
    Within(String),
}

impl ProjectionTree {
    /// Names the field at `path`, which has at least one part.
    pub fn add(&mut self, path: &[&str], child: Child) -> Result<(), Collision> {
        let Some((name, rest)) = path.split_first() else { return Ok(()) };
        self.has_computed |= matches!(child, Child::Computed(_));
        let place = self.places.get(*name).copied();
        if rest.is_empty() {
            if place.is_some() {
                return Err(Collision::Same);
            }
            self.push(name, child);
            return Ok(());
        }
        let place = place.unwrap_or_else(|| self.push(name, Child::Tree(Self::default())));
        match self.children.get_mut(place) {
            Some((_, Child::Tree(tree))) => tree.add(rest, child),
            Some(_) | None => Err(Collision::Within(rest.join("."))),
        }
    }

    fn push(&mut self, name: &str, child: Child) -> usize {
        let place = self.children.len();
        self.children.push((name.to_owned(), child));
        self.places.insert(name.to_owned(), place);
        place
    }

    /// Whether a field of this level is named.
    pub fn has_field(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Whether a field is computed on this level or below.
    pub fn has_computed(&self) -> bool {
        self.has_computed
    }

    fn get(&self, name: &str) -> Option<&Child> {
        let place = *self.places.get(name)?;
        self.children.get(place).map(|(_, child)| child)
    }

    pub(super) fn require(&self, path: &mut Vec<String>, mask: &mut FieldMask) {
        for (name, child) in &self.children {
            path.push(name.clone());
            match child {
                Child::Kept | Child::Computed(Computed::FirstElement(_)) => {
                    mask.add(path, FieldMask::All);
                }
                Child::Dropped | Child::Computed(Computed::Nothing) => {}
                Child::Computed(Computed::Expression(expression)) => {
                    // Whether there are arrays on the way counts, too.
                    mask.add(path, FieldMask::NOTHING);
                    expression.require(mask);
                }
                Child::Tree(tree) => tree.require(path, mask),
            }
            path.pop();
        }
    }
}

/// What the computed fields of one document are computed from.
pub(super) struct Evaluation<'e> {
    pub(super) document: &'e Value,
    pub(super) variables: &'e Variables,
}

impl Evaluation<'_> {
    /// The fields that are named, in the order of the document, then those that are computed.
    pub(super) fn include(
        &self,
        tree: &ProjectionTree,
        object: &Object,
    ) -> Result<Object, Failure> {
        let mut fields: Vec<(String, Value)> = Vec::with_capacity(tree.children.len());
        for (name, value) in object.iter() {
            let kept = match tree.get(name) {
                Some(Child::Kept) => Some(value.clone()),
                Some(Child::Tree(tree)) => self.include_in(tree, value)?,
                Some(Child::Dropped | Child::Computed(_)) | None => None,
            };
            fields.extend(kept.map(|value| (name.to_owned(), value)));
        }
        if !tree.has_computed {
            return Ok(fields.into_iter().collect());
        }
        let mut computed_id = None;
        for (name, child) in &tree.children {
            let value = match child {
                Child::Computed(computed) => self.compute(computed, object.get(name))?,
                // One that leads to something was followed above.
                Child::Tree(tree) if tree.has_computed && object.get(name).is_none() => {
                    Some(Value::Object(self.include(tree, &Object::new())?))
                }
                Child::Kept | Child::Dropped | Child::Tree(_) => None,
            };
            match value {
                Some(value) if name == "_id" => computed_id = Some(value),
                Some(value) => fields.push((name.clone(), value)),
                None => {}
            }
        }
        let id = computed_id.map(|value| ("_id".to_owned(), value));
        Ok(id.into_iter().chain(fields).collect())
    }

    /// The parts of a value that are named; those of each element of an array.
    fn include_in(&self, tree: &ProjectionTree, value: &Value) -> Result<Option<Value>, Failure> {
        if let Value::Object(object) = value {
            return Ok(Some(Value::Object(self.include(tree, object)?)));
        }
        if let Value::Array(elements) = value {
            let mut kept = Vec::with_capacity(elements.len());
            for element in elements {
                kept.extend(self.include_in(tree, element)?);
            }
            return Ok(Some(Value::Array(kept)));
        }
        // Other values make way for what is computed.
        match tree.has_computed {
            true => Ok(Some(Value::Object(self.include(tree, &Object::new())?))),
            false => Ok(None),
        }
    }

    /// The fields that are not dropped.
    pub(super) fn exclude(
        &self,
        tree: &ProjectionTree,
        object: &Object,
    ) -> Result<Object, Failure> {
        let mut fields = Vec::with_capacity(object.len());
        for (name, value) in object.iter() {
            let kept = match tree.get(name) {
                None | Some(Child::Kept) => Some(value.clone()),
                Some(Child::Dropped) => None,
                Some(Child::Computed(computed)) => self.compute(computed, Some(value))?,
                Some(Child::Tree(tree)) => Some(self.exclude_in(tree, value)?),
            };
            fields.extend(kept.map(|value| (name.to_owned(), value)));
        }
        Ok(fields.into_iter().collect())
    }

    fn exclude_in(&self, tree: &ProjectionTree, value: &Value) -> Result<Value, Failure> {
        if let Value::Object(object) = value {
            return Ok(Value::Object(self.exclude(tree, object)?));
        }
        let Value::Array(elements) = value else { return Ok(value.clone()) };
        let kept: Result<Vec<_>, _> =
            elements.iter().map(|element| self.exclude_in(tree, element)).collect();
        Ok(Value::Array(kept?))
    }

    fn compute(
        &self,
        computed: &Computed,
        stored: Option<&Value>,
    ) -> Result<Option<Value>, Failure> {
        match computed {
            Computed::Expression(expression) => expression.evaluate(self.document, self.variables),
            Computed::Nothing => Ok(None),
            Computed::FirstElement(test) => {
                let position =
                    Matching::with(self.variables, |matching| test.position_in(stored, matching))?;
                let elements = stored.and_then(Value::as_array).unwrap_or_default();
                let first = position.and_then(|position| elements.get(position));
                Ok(first.map(|element| Value::Array(vec![element.clone()])))
            }
        }
    }
}
