//! Applies the operators of an update to a document, along their paths.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::{Object, Value};

use crate::document::print::Printed;
use crate::document::{Failure, PathPart, code};

use super::modifier::{Change, Target};
use super::names::FieldName;
use super::tree::{Node, UpdateTree};
use super::{Modifiers, UpdateContext};

/// Most elements that a path may add to an array to reach a position.
const BACKFILL_MAX: usize = 1_500_000;

/// The application of an update to one document.
pub(super) struct Application<'a> {
    pub(super) modifiers: &'a Modifiers,
    pub(super) context: &'a UpdateContext<'a>,
    /// The values of fields that change their names; `None` for those that do not exist.
    pub(super) renamed: &'a [Option<Value>],
    /// The document's `_id`, for messages.
    pub(super) id: Option<&'a Value>,
    /// The names that lead to the value that is changed, for messages.
    pub(super) path: Vec<String>,
}

impl Application<'_> {
    /// Changes the fields of an object or the elements of an array. Whether something changed.
    pub(super) fn tree(
        &mut self,
        tree: &UpdateTree,
        container: &mut Value,
    ) -> Result<bool, Failure> {
        let mut is_changed = false;
        let Some(positional) = &tree.positional else {
            for (FieldName(name), node) in &tree.fields {
                is_changed |= self.child(name, node, container)?;
            }
            return Ok(is_changed);
        };
        for (name, node) in self.with_positional(&tree.fields, positional)? {
            is_changed |= self.child(&name.0, &node, container)?;
        }
        Ok(is_changed)
    }

    /// The fields of a tree with those of the element that matched.
    fn with_positional<'n>(
        &self,
        fields: &'n BTreeMap<FieldName, Node>,
        positional: &'n Node,
    ) -> Result<BTreeMap<FieldName, Cow<'n, Node>>, Failure> {
        let Some(position) = self.context.position else {
            let message = "The positional operator did not find the match needed from the query.";
            return Err(Failure::new(code::BAD_VALUE, message));
        };
        let mut all: BTreeMap<FieldName, Cow<'n, Node>> =
            fields.iter().map(|(name, node)| (name.clone(), Cow::Borrowed(node))).collect();
        let name = FieldName(position.to_string());
        let path = self.path_to(&name.0);
        let node = match fields.get(&name) {
            Some(named) => Cow::Owned(named.merged(positional, &path)?),
            None => Cow::Borrowed(positional),
        };
        all.insert(name, node);
        Ok(all)
    }

    fn path_to(&self, name: &str) -> String {
        let mut path = self.path.join(".");
        if !path.is_empty() {
            path.push('.');
        }
        path + name
    }

    fn child(&mut self, name: &str, node: &Node, container: &mut Value) -> Result<bool, Failure> {
        if let Value::Object(object) = container {
            return self.field(name, node, object);
        }
        if let Value::Array(elements) = container
            && let Some(position) = PathPart::new(name).position
        {
            return self.element(name, position, node, elements);
        }
        if !node.creates(self.context.is_insert) {
            return Ok(false);
        }
        let message = format!(
            "Cannot create field '{name}' in element {{{}: {}}}",
            self.path.last().map_or("", String::as_str),
            Printed(container)
        );
        Err(Failure::new(code::PATH_NOT_VIABLE, message))
    }

    fn field(&mut self, name: &str, node: &Node, object: &mut Object) -> Result<bool, Failure> {
        self.path.push(name.to_owned());
        let change = match object.get_mut(name) {
            Some(value) => self.existing(node, value)?,
            None => match self.created(node)? {
                Some(created) => {
                    object.push_unique(name.to_owned(), created);
                    Change::Changed
                }
                None => Change::Unchanged,
            },
        };
        self.path.pop();
        if change == Change::Removed {
            object.remove(name);
        }
        Ok(change != Change::Unchanged)
    }

    fn element(
        &mut self,
        name: &str,
        position: usize,
        node: &Node,
        elements: &mut Vec<Value>,
    ) -> Result<bool, Failure> {
        self.path.push(name.to_owned());
        let change = match elements.get_mut(position) {
            Some(value) => self.existing_element(node, value)?,
            None => match self.created(node)? {
                Some(created) => {
                    if position - elements.len() > BACKFILL_MAX {
                        let message = format!("can't backfill more than {BACKFILL_MAX} elements");
                        return Err(Failure::new(code::CANNOT_BACKFILL_ARRAY, message));
                    }
                    elements.resize(position, Value::Null);
                    elements.push(created);
                    Change::Changed
                }
                None => Change::Unchanged,
            },
        };
        self.path.pop();
        Ok(change != Change::Unchanged)
    }

    /// An element that is removed leaves null, so that the others keep their positions.
    fn existing_element(&mut self, node: &Node, value: &mut Value) -> Result<Change, Failure> {
        let was_null = matches!(value, Value::Null);
        let change = self.existing(node, value)?;
        if change != Change::Removed {
            return Ok(change);
        }
        *value = Value::Null;
        Ok(if was_null { Change::Unchanged } else { Change::Changed })
    }

    fn existing(&mut self, node: &Node, value: &mut Value) -> Result<Change, Failure> {
        let is_changed = match node {
            Node::Leaf(modifier) => return modifier.change(value, &self.target()),
            Node::Fields(tree) => self.tree(tree, value)?,
            Node::Elements(by_filter) => self.elements(by_filter, value)?,
        };
        Ok(if is_changed { Change::Changed } else { Change::Unchanged })
    }

    fn elements(
        &mut self,
        by_filter: &BTreeMap<String, Node>,
        value: &mut Value,
    ) -> Result<bool, Failure> {
        let Value::Array(elements) = value else {
            let message = format!(
                "Cannot apply array updates to non-array element {}: {}",
                self.path.last().map_or("", String::as_str),
                Printed(value)
            );
            return Err(Failure::new(code::BAD_VALUE, message));
        };
        let mut is_changed = false;
        for (position, element) in elements.iter_mut().enumerate() {
            let name = position.to_string();
            let path = self.path_to(&name);
            let mut node: Option<Cow<'_, Node>> = None;
            for (identifier, change) in by_filter {
                if self.passes(identifier, element)? {
                    node = Some(match node {
                        Some(first) => Cow::Owned(first.merged(change, &path)?),
                        None => Cow::Borrowed(change),
                    });
                }
            }
            if let Some(node) = node {
                self.path.push(name);
                is_changed |= self.existing_element(&node, element)? != Change::Unchanged;
                self.path.pop();
            }
        }
        Ok(is_changed)
    }

    /// Whether an element passes the filter of this name.
    fn passes(&self, identifier: &str, element: &mut Value) -> Result<bool, Failure> {
        if identifier.is_empty() {
            return Ok(true);
        }
        let filters = &self.modifiers.array_filters;
        let Some(filter) = filters.iter().find(|filter| filter.identifier == identifier) else {
            return Ok(false);
        };
        // The element is lent to an object of one field, rather than copied.
        let mut object = Object::with_capacity(1);
        object.push_unique(identifier.to_owned(), std::mem::replace(element, Value::Null));
        let lent = Value::Object(object);
        let is_passed = filter.predicate.matches(&lent, self.context.variables);
        if let Value::Object(mut object) = lent
            && let Some(returned) = object.get_mut(identifier)
        {
            std::mem::swap(element, returned);
        }
        is_passed
    }

    /// The value that the operators create where there is none.
    fn created(&mut self, node: &Node) -> Result<Option<Value>, Failure> {
        match node {
            Node::Leaf(modifier) => modifier.create(&self.target()),
            Node::Fields(tree) => {
                let mut object = Value::Object(Object::new());
                let is_changed = self.tree(tree, &mut object)?;
                Ok(is_changed.then_some(object))
            }
            Node::Elements(_) => {
                let message = format!(
                    "The path '{}' must exist in the document in order to apply array updates.",
                    self.path.join(".")
                );
                Err(Failure::new(code::BAD_VALUE, message))
            }
        }
    }

    fn target(&self) -> Target<'_> {
        Target {
            variables: self.context.variables,
            is_insert: self.context.is_insert,
            renamed: self.renamed,
            path: &self.path,
            id: self.id,
        }
    }
}
