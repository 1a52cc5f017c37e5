//! The operators of an update by the paths that they change.

use std::collections::BTreeMap;

use crate::document::{Failure, Predicate, code};

use super::modifier::Modifier;
use super::names::FieldName;

/// What is changed in the fields of an object or the elements of an array, by name or position.
#[derive(Clone, Debug, Default)]
pub struct UpdateTree {
    pub(super) fields: BTreeMap<FieldName, Node>,
    /// What is changed in the element that matched the filter.
    pub(super) positional: Option<Box<Node>>,
}

/// What is changed in one field or element.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// The value itself.
    Leaf(Modifier),
    /// Its fields.
    Fields(UpdateTree),
    /// Its elements: those that pass the filter of this name, all for an empty name.
    Elements(BTreeMap<String, Node>),
}

/// A filter on the elements of arrays.
#[derive(Clone, Debug)]
pub struct ArrayFilter {
    /// The name that paths refer to it by.
    pub identifier: String,
    /// The filter, on an object whose only field has that name.
    pub predicate: Predicate,
}

/// A part of the path of an update.
enum Part<'p> {
    Field(&'p str),
    Positional,
    Elements(&'p str),
}

impl<'p> Part<'p> {
    fn of(part: &'p str) -> Self {
        if part == "$" {
            return Part::Positional;
        }
        match part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
            Some(identifier) => Part::Elements(identifier),
            None => Part::Field(part),
        }
    }
}

/// The failure of two operators that change the same path.
fn conflict(path: &[&str], length: usize) -> Failure {
    let message = format!(
        "Updating the path '{}' would create a conflict at '{}'",
        path.join("."),
        path.get(..length).unwrap_or(path).join(".")
    );
    Failure::new(code::CONFLICTING_UPDATE_OPERATORS, message)
}

impl UpdateTree {
    /// Adds an operator on the value at `path`, which has at least one part and begins with a name.
    pub fn add(&mut self, path: &[&str], modifier: Modifier) -> Result<(), Failure> {
        add_fields(self, path, 0, modifier)
    }

    /// Whether there are no operators.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.positional.is_none()
    }

    pub(super) fn is_cheap(&self) -> bool {
        self.nodes().all(Node::is_cheap)
    }

    pub(super) fn has_positional(&self) -> bool {
        self.positional.is_some() || self.nodes().any(Node::has_positional)
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.fields.values().chain(self.positional.as_deref())
    }

    /// The first path that is changed within a field, which itself is the answer if there is none.
    pub(super) fn first_path_in(&self, name: &str) -> String {
        let mut path = name.to_owned();
        let mut node = self.fields.get(&FieldName(name.to_owned()));
        while let Some(Node::Fields(tree)) = node {
            let Some((FieldName(name), inner)) = tree.fields.first_key_value() else { break };
            path = format!("{path}.{name}");
            node = Some(inner);
        }
        path
    }
}

fn add_fields(
    tree: &mut UpdateTree,
    path: &[&str],
    at: usize,
    modifier: Modifier,
) -> Result<(), Failure> {
    let is_last = at + 1 == path.len();
    let part = path.get(at).copied().unwrap_or_default();
    let name = match Part::of(part) {
        Part::Positional => None,
        // The caller has seen to it that elements have a node of their own.
        Part::Field(name) | Part::Elements(name) => Some(FieldName(name.to_owned())),
    };
    let place = match &name {
        Some(name) => tree.fields.get_mut(name),
        None => tree.positional.as_deref_mut(),
    };
    match place {
        Some(node) if !is_last => return add_node(node, path, at + 1, modifier),
        Some(_) => return Err(conflict(path, at + 1)),
        None => {}
    }
    let node = new_node(path, at, modifier)?;
    match name {
        Some(name) => drop(tree.fields.insert(name, node)),
        None => tree.positional = Some(Box::new(node)),
    }
    Ok(())
}

/// Adds to what is changed in the value that the first `at` parts lead to.
fn add_node(node: &mut Node, path: &[&str], at: usize, modifier: Modifier) -> Result<(), Failure> {
    let part = Part::of(path.get(at).copied().unwrap_or_default());
    match (node, part) {
        (Node::Fields(tree), Part::Field(_) | Part::Positional) => {
            add_fields(tree, path, at, modifier)
        }
        (Node::Elements(elements), Part::Elements(identifier)) => {
            match elements.get_mut(identifier) {
                Some(node) if at + 1 < path.len() => add_node(node, path, at + 1, modifier),
                Some(_) => Err(conflict(path, at + 1)),
                None => {
                    elements.insert(identifier.to_owned(), new_node(path, at, modifier)?);
                    Ok(())
                }
            }
        }
        (Node::Leaf(_) | Node::Fields(_) | Node::Elements(_), _) => Err(conflict(path, at)),
    }
}

/// The node of what follows part `at`.
fn new_node(path: &[&str], at: usize, modifier: Modifier) -> Result<Node, Failure> {
    let Some(next) = path.get(at + 1) else { return Ok(Node::Leaf(modifier)) };
    let mut node = match Part::of(next) {
        Part::Elements(_) => Node::Elements(BTreeMap::new()),
        Part::Field(_) | Part::Positional => Node::Fields(UpdateTree::default()),
    };
    add_node(&mut node, path, at + 1, modifier)?;
    Ok(node)
}

impl Node {
    fn is_cheap(&self) -> bool {
        match self {
            Node::Leaf(modifier) => modifier.is_cheap(),
            Node::Fields(tree) => tree.is_cheap(),
            Node::Elements(_) => false,
        }
    }

    fn has_positional(&self) -> bool {
        match self {
            Node::Leaf(_) => false,
            Node::Fields(tree) => tree.has_positional(),
            Node::Elements(elements) => elements.values().any(Node::has_positional),
        }
    }

    /// Whether an operator would create the value where there is none.
    pub(super) fn creates(&self, is_insert: bool) -> bool {
        match self {
            Node::Leaf(modifier) => modifier.creates(is_insert),
            Node::Fields(tree) => tree.nodes().any(|node| node.creates(is_insert)),
            Node::Elements(_) => true,
        }
    }

    /// Both changes in one, unless they are changes of the same path.
    pub(super) fn merged(&self, other: &Node, path: &str) -> Result<Node, Failure> {
        match (self, other) {
            (Node::Fields(a), Node::Fields(b)) => a.merged(b, path).map(Node::Fields),
            (Node::Elements(a), Node::Elements(b)) => {
                let mut merged = a.clone();
                for (name, node) in b {
                    let both = match a.get(name) {
                        Some(first) => first.merged(node, &format!("{path}.$[{name}]"))?,
                        None => node.clone(),
                    };
                    merged.insert(name.clone(), both);
                }
                Ok(Node::Elements(merged))
            }
            (Node::Leaf(_) | Node::Fields(_) | Node::Elements(_), _) => {
                let message = format!("Update created a conflict at '{path}'");
                Err(Failure::new(code::CONFLICTING_UPDATE_OPERATORS, message))
            }
        }
    }
}

impl UpdateTree {
    fn merged(&self, other: &UpdateTree, path: &str) -> Result<UpdateTree, Failure> {
        let mut merged = self.clone();
        for (name, node) in &other.fields {
            let both = match self.fields.get(name) {
                Some(first) => first.merged(node, &format!("{path}.{}", name.0))?,
                None => node.clone(),
            };
            merged.fields.insert(name.clone(), both);
        }
        merged.positional = match (&self.positional, &other.positional) {
            (Some(a), Some(b)) => Some(Box::new(a.merged(b, &format!("{path}.$"))?)),
            (one, None) | (None, one) => one.clone(),
        };
        Ok(merged)
    }
}
