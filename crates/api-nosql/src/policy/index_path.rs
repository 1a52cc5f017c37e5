//! Paths of indexing policies: `/a/b/?`, `/a/*`, `/items/[]/price/?`, `/"odd name"/*`.

use engine::index::PathPattern;

use crate::errors::ApiError;

/// Most segments of a path; items nest no deeper.
const SEGMENTS_MAX: usize = model::limits::ITEM_DEPTH_MAX;

/// Most paths that the tuples in one path may expand to.
const PATTERNS_MAX: usize = 1_000;

/// The end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// `/?`: the value itself.
    Scalar,
    /// `/*`: everything below.
    Subtree,
    /// A name: the value itself, for paths that allow no wildcards.
    Name,
}

/// A parsed path. Equal paths compare equal however they are quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexPath {
    segments: Vec<Segment>,
    pub end: End,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Name(String),
    /// `[]`: to the elements of an array.
    Elements,
    /// `{a, b}`: to several properties.
    Tuple(Vec<String>),
}

impl IndexPath {
    /// The path `/*`.
    pub(super) fn root() -> Self {
        Self { segments: Vec::new(), end: End::Subtree }
    }

    /// The path `/"_etag"/?`.
    pub(super) fn etag() -> Self {
        Self { segments: vec![Segment::Name("_etag".into())], end: End::Scalar }
    }

    /// The paths it stands for; several if it has a tuple.
    pub(super) fn patterns(&self) -> Vec<PathPattern> {
        let is_subtree = self.end == End::Subtree;
        let mut all = vec![Vec::new()];
        for segment in &self.segments {
            let steps: Vec<Option<&String>> = match segment {
                Segment::Name(name) => vec![Some(name)],
                Segment::Elements => vec![None],
                Segment::Tuple(names) => names.iter().map(Some).collect(),
            };
            let further = |path: &Vec<Option<String>>| {
                let path = path.clone();
                let longer = move |step: &Option<&String>| {
                    path.iter().cloned().chain([step.cloned()]).collect::<Vec<_>>()
                };
                steps.iter().map(longer).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(further).take(PATTERNS_MAX).collect();
        }
        all.into_iter().map(|steps| PathPattern { steps, is_subtree }).collect()
    }

    /// Its names, if it consists of names only.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let name = |segment: &Segment| match segment {
            Segment::Name(name) => Some(name.clone()),
            Segment::Elements | Segment::Tuple(_) => None,
        };
        self.segments.iter().map(name).collect()
    }

    /// Parses a path. `/` alone is an old form of `/*`.
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        if text == "/" {
            return Ok(Self::root());
        }
        let mut segments = Vec::new();
        let mut rest = text;
        loop {
            let position = text.len() - rest.len();
            let refuse = || refused(text, position);
            rest = rest.strip_prefix('/').ok_or_else(refuse)?;
            let (segment, after) = split_segment(rest).ok_or_else(refuse)?;
            rest = after;
            let is_quoted = is_quoted(text, position);
            let end = match segment.as_str() {
                "?" if !is_quoted => Some(End::Scalar),
                "*" if !is_quoted => Some(End::Subtree),
                _ => None,
            };
            match end {
                Some(end) if rest.is_empty() => return Self::ending(segments, end, refuse),
                Some(_) => return Err(refuse()),
                None => segments.push(Segment::of(segment, is_quoted)),
            }
            if rest.is_empty() {
                return Self::ending(segments, End::Name, refuse);
            }
        }
    }

    fn ending(
        segments: Vec<Segment>,
        end: End,
        refuse: impl Fn() -> ApiError,
    ) -> Result<Self, ApiError> {
        let is_bare_scalar = segments.is_empty() && end == End::Scalar;
        if segments.len() > SEGMENTS_MAX || is_bare_scalar {
            return Err(refuse());
        }
        Ok(Self { segments, end })
    }
}

impl Segment {
    fn of(text: String, is_quoted: bool) -> Self {
        match text.strip_prefix('{').and_then(|names| names.strip_suffix('}')) {
            _ if is_quoted => Segment::Name(text),
            Some(names) => {
                Segment::Tuple(names.split(',').map(|name| name.trim().to_owned()).collect())
            }
            None if text == "[]" => Segment::Elements,
            None => Segment::Name(text),
        }
    }
}

fn is_quoted(text: &str, slash_at: usize) -> bool {
    text[slash_at..].starts_with("/\"") || text[slash_at..].starts_with("/'")
}

/// The first segment of a text without its leading slash, and the rest.
fn split_segment(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        return split_quoted(&text[1..], quote);
    }
    let end = match text.starts_with('{') {
        // A tuple names several properties of an array's elements: `{name, category}`.
        true => text.find('}')? + 1,
        false => text.find('/').unwrap_or(text.len()),
    };
    let (name, rest) = text.split_at(end);
    let is_mark = matches!(name, "?" | "*" | "[]");
    let is_plain = !name.is_empty() && !name.contains(['"', '\'', '*', '?']);
    (is_mark || is_plain).then(|| (name.to_owned(), rest))
}

fn split_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            name.push(chars.next()?.1);
        } else if c == quote {
            let rest = &text[at + c.len_utf8()..];
            let is_whole = rest.is_empty() || rest.starts_with('/');
            return (is_whole && !name.is_empty()).then_some((name, rest));
        } else {
            name.push(c);
        }
    }
    None
}

fn refused(path: &str, position: usize) -> ApiError {
    ApiError::bad_request_errors(format!(
        "The indexing path '{path}' could not be accepted, failed near position '{position}'. \
         Please ensure that the path is a valid path. Common errors include invalid characters or \
         absence of quotes around labels."
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end_of(text: &str) -> Option<End> {
        IndexPath::parse(text).ok().map(|p| p.end)
    }

    #[test]
    fn documented_forms_are_accepted() {
        for text in ["/*", "/", "/a/*", "/\"systemMetadata\"/*", "/a/[]/*"] {
            assert_eq!(end_of(text), Some(End::Subtree), "{text}");
        }
        for text in [
            "/a/?",
            "/a/b/?",
            "/\"odd name-1\"/?",
            "/'single'/?",
            "/tags/[]/?",
            "/items/[]/price/?",
            "/events/[]/{name, category}/?",
            "/\"a\\\"b\"/?",
            "/\"*\"/?",
        ] {
            assert_eq!(end_of(text), Some(End::Scalar), "{text}");
        }
        assert_eq!(end_of("/name"), Some(End::Name));
        assert_eq!(end_of("/\"*\""), Some(End::Name));
    }

    #[test]
    fn tuples_stand_for_several_paths() {
        let steps = |text: &str| {
            let patterns = IndexPath::parse(text).unwrap().patterns();
            patterns.into_iter().map(|p| p.steps).collect::<Vec<_>>()
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            steps("/events/[]/{name, category}/?"),
            [
                vec![name("events"), None, name("name")],
                vec![name("events"), None, name("category")]
            ]
        );
        assert_eq!(steps("/\"[]\"/?"), [vec![name("[]")]]);
        assert_eq!(steps("/*"), [vec![]]);
    }

    #[test]
    fn malformed_paths_are_refused() {
        for text in ["", "a", "//", "/?", "/a/", "/a*/?", "/*/a", "/a/?/b", "/\"a/?", "/\"a\"b/?"] {
            assert_eq!(end_of(text), None, "{text}");
        }
    }

    #[test]
    fn quotes_do_not_make_a_difference() {
        assert_eq!(IndexPath::parse("/\"_etag\"/?").unwrap(), IndexPath::etag());
        assert_eq!(IndexPath::parse("/_etag/?").unwrap(), IndexPath::etag());
        assert_eq!(IndexPath::parse("/*").unwrap(), IndexPath::root());
    }

    proptest! {
        #[test]
        fn no_path_panics(text in "(/|\"|'|\\\\|\\*|\\?|\\[\\]|\\{|\\}|a|ü|\\PC){0,20}") {
            let _ = IndexPath::parse(&text);
        }
    }
}
