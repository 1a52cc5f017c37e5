//! Property paths such as `/a/b` and `/"le/vel"/'x'`, used by partition keys and unique keys.
//!
//! A segment is either bare (everything up to the next slash) or quoted with `"` or `'`, and then
//! may contain slashes. Inside quotes a backslash keeps the next matching quote from ending the
//! segment; both characters stay part of the property name, as in the client libraries.

use std::fmt;

use crate::Value;
use crate::limits::PROPERTY_PATH_SEGMENTS_MAX;

/// A list of property names from the root of an item; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PropertyPath {
    text: String,
    segments: Vec<String>,
}

/// Why a path text is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the path '{path}' is invalid: {reason}")]
pub struct PathError {
    /// The text as given.
    pub path: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl PropertyPath {
    /// Parses `/a/"b c"/'d'`. A backslash before a matching quote stays part of the name. Rejects
    /// the empty path, empty bare segments (so also a trailing slash), the wildcards `*` and `?`
    /// and the array mark `[]` of index paths outside quotes, and text after a closing quote.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let refuse = |reason| PathError { path: text.to_owned(), reason };
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.strip_prefix('/').ok_or_else(|| refuse("a segment must start with '/'"))?;
            let (name, after) = split_segment(rest).map_err(refuse)?;
            segments.push(name.to_owned());
            rest = after;
            if segments.len() > PROPERTY_PATH_SEGMENTS_MAX {
                return Err(refuse("it has too many segments"));
            }
        }
        if segments.is_empty() {
            return Err(refuse("it is empty"));
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    /// The property names, outermost first.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The value at this path; `None` (*undefined*) when a step is missing or not an object.
    pub fn get<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.segments.iter().try_fold(root, |value, name| value.field(name))
    }
}

/// The text exactly as it was parsed.
impl fmt::Display for PropertyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The name of the first segment of `text` (whose slash was removed), and the text after it.
fn split_segment(text: &str) -> Result<(&str, &str), &'static str> {
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return split_quoted(inside, quote);
        }
    }
    let end = text.find('/').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "" => Err("a segment is empty"),
        "?" | "[]" => Err("index path marks are not property names"),
        _ if name.contains('*') => Err("wildcards are not property names"),
        _ => Ok((name, rest)),
    }
}

fn split_quoted(text: &str, quote: char) -> Result<(&str, &str), &'static str> {
    let is_end = |at: usize| !text[..at].ends_with('\\');
    let end = text.match_indices(quote).map(|(at, _)| at).find(|at| is_end(*at));
    let end = end.ok_or("a quoted segment is not closed")?;
    let (name, rest) = (&text[..end], &text[end + quote.len_utf8()..]);
    if rest.is_empty() || rest.starts_with('/') {
        Ok((name, rest))
    } else {
        Err("text follows a closing quote")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json;

    #[test]
    fn parses_bare_and_quoted_segments() {
        let table: &[(&str, &[&str])] = &[
            ("/a", &["a"]),
            ("/a/b/c", &["a", "b", "c"]),
            ("/with space", &["with space"]),
            ("/_partitionKey", &["_partitionKey"]),
            ("/a'b/c\"d", &["a'b", "c\"d"]),
            (r#"/"first level' 1*()"/"le/vel2""#, &["first level' 1*()", "le/vel2"]),
            (r#"/'first level" 1*()'/'le/vel2'"#, &["first level\" 1*()", "le/vel2"]),
            (r#"/"a\"b""#, &[r#"a\"b"#]),
            (r"/'a\'b'/c", &[r"a\'b", "c"]),
            (r#"/"a\'b""#, &[r"a\'b"]),
            (r#"/"""#, &[""]),
            (r#"/"*"/"[]"/"?""#, &["*", "[]", "?"]),
            ("/größe/\"日本\"", &["größe", "日本"]),
        ];
        for (text, segments) in table {
            let path = PropertyPath::parse(text).unwrap();
            assert_eq!(path.segments(), *segments, "{text}");
            assert_eq!(path.to_string(), *text);
        }
    }

    #[test]
    fn refuses_what_is_no_path() {
        let table = [
            "", "/", "a", "a/b", "/a/", "//a", "/a//b", "/*", "/a/*", "/a*b", "/a/?", "/a/[]/b",
            r#"/"a"#, "/'a", r#"/"a"b"#, r#"/"a"/"#, "/'a\"", r#"/"a\""#,
        ];
        for text in table {
            assert!(PropertyPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_the_number_of_segments() {
        let path = |n| "/a".repeat(n);
        assert!(PropertyPath::parse(&path(PROPERTY_PATH_SEGMENTS_MAX)).is_ok());
        assert!(PropertyPath::parse(&path(PROPERTY_PATH_SEGMENTS_MAX + 1)).is_err());
    }

    #[test]
    fn walks_objects_only() {
        let item =
            json::parse(br#"{"a":{"b":1,"n":null},"l":[{"b":2}],"s":"x"}"#, 8).unwrap().value;
        let get = |path: &str| PropertyPath::parse(path).unwrap().get(&item).cloned();
        assert_eq!(get("/a/b"), Some(Value::Int64(1)));
        assert_eq!(get("/a/n"), Some(Value::Null));
        for undefined in ["/x", "/a/x", "/a/n/x", "/l/b", "/l/0", "/s/x"] {
            assert_eq!(get(undefined), None, "{undefined}");
        }
    }

    proptest! {
        /// Any text is either a path or rejected; a path leads to the value it names.
        #[test]
        fn any_text_is_read_or_refused(text in r#"(/|"|'|\\\\|[a-c*?]|\\PC){0,12}"#) {
            if let Ok(path) = PropertyPath::parse(&text) {
                prop_assert_eq!(path.to_string(), text);
                let leaf = Value::Int64(1);
                let item = path.segments().iter().rev().fold(leaf.clone(), |inner, name| {
                    Value::Object([(name.clone(), inner)].into_iter().collect())
                });
                prop_assert_eq!(path.get(&item), Some(&leaf));
            }
        }

        #[test]
        fn quoted_names_read_back(names in prop::collection::vec("[^\"\\\\]{0,8}", 1..5)) {
            let text: String = names.iter().map(|name| format!("/\"{name}\"")).collect();
            let path = PropertyPath::parse(&text).unwrap();
            prop_assert_eq!(path.segments(), names);
        }
    }
}
