//! A parser for the XML subset that the service uses: elements with texts in them.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::errors::TableError;

/// Deepest nesting.
const DEPTH_MAX: usize = 16;
/// Most elements of a document.
const ELEMENTS_MAX: usize = 2_000;

/// An element: its name, and its children or its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// The first child of this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child of this name.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim())
    }
}

/// Parses a document whose outermost element is `name`.
pub(crate) fn parse(body: &[u8], name: &str) -> Result<Element, TableError> {
    let text = std::str::from_utf8(body).map_err(|_| TableError::invalid_xml())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    read(text).filter(|root| root.name == name).ok_or_else(TableError::invalid_xml)
}

fn read(text: &str) -> Option<Element> {
    let mut reader = Reader::from_str(text);
    // The parent of the outermost element, then the open elements.
    let mut open = vec![Element::default()];
    let mut elements = 0;
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                elements += 1;
                if open.len() > DEPTH_MAX || elements > ELEMENTS_MAX {
                    return None;
                }
                open.push(named(start.local_name().as_ref()));
            }
            Event::Empty(empty) => {
                elements += 1;
                let element = named(empty.local_name().as_ref());
                open.last_mut().filter(|_| elements <= ELEMENTS_MAX)?.children.push(element);
            }
            Event::End(_) => {
                let done = open.pop()?;
                open.last_mut()?.children.push(done);
            }
            Event::Text(text) => open.last_mut()?.text.push_str(&text),
            Event::CData(text) => open.last_mut()?.text.push_str(&text),
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref().ok()? {
                    Some(character) => character,
                    None => entity(&reference)?,
                };
                open.last_mut()?.text.push(character);
            }
            Event::Eof => break,
            // Document types are not supported.
            Event::DocType(_) => return None,
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
        }
    }
    let holder = open.pop().filter(|_| open.is_empty())?;
    match <[Element; 1]>::try_from(holder.children) {
        Ok([root]) => Some(root),
        Err(_) => None,
    }
}

fn named(name: &str) -> Element {
    Element { name: name.to_owned(), ..Element::default() }
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

/// A text with the escapes that an element needs.
pub(crate) fn escaped(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

/// Appends an element with a text.
pub(crate) fn write(name: &str, text: &str, out: &mut String) {
    for part in ["<", name, ">", &escaped(text), "</", name, ">"] {
        out.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_children_or_texts() {
        let text =
            b"\xEF\xBB\xBF<?xml version='1.0'?><a><b>x &lt;&#65; y</b><c/><b><d></d></b></a>";
        let root = parse(text, "a").unwrap();
        assert_eq!(root.text_of("b"), Some("x <A y"));
        assert_eq!(
            (root.children.len(), root.text_of("c"), root.text_of("z")),
            (3, Some(""), None)
        );
        assert!(root.children[2].child("d").is_some());
    }

    #[test]
    fn what_is_no_such_document_is_refused() {
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        for bad in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "<b/>",
            "<a/><a/>",
            "<a>&unknown;</a>",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
            &deep,
        ] {
            assert!(parse(bad.as_bytes(), "a").is_err(), "{bad}");
        }
    }

    #[test]
    fn texts_are_escaped() {
        let mut out = String::new();
        write("a", "<&>", &mut out);
        assert_eq!(out, "<a>&lt;&amp;&gt;</a>");
    }
}
