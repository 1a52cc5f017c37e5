//! Reads parts of a text that is known to be JSON, and skips the rest without building it.

use super::JsonError;
use super::parser::{Outcome, Parser};
use crate::Value;
use crate::value::Object;

/// Which part of a value to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldMask {
    /// The whole value.
    All,
    /// For an object these fields, for an array the same of each element, for other values
    /// everything.
    Fields(Vec<(String, FieldMask)>),
}

/// More fields than this on one level are not worth searching one by one.
const FIELDS_MAX: usize = 32;

impl FieldMask {
    /// No field of an object.
    pub const NOTHING: FieldMask = FieldMask::Fields(Vec::new());

    /// Whether no field of an object is read.
    pub fn is_nothing(&self) -> bool {
        match self {
            FieldMask::All => false,
            FieldMask::Fields(fields) => fields.is_empty(),
        }
    }

    /// Whether field `name` of an object is read, at least in part.
    pub fn has_field(&self, name: &str) -> bool {
        match self {
            FieldMask::All => true,
            FieldMask::Fields(fields) => fields.iter().any(|(field, _)| field == name),
        }
    }

    /// Whether a field may be read whose name begins with `start`.
    pub fn may_have_field_from(&self, start: char) -> bool {
        match self {
            FieldMask::All => true,
            FieldMask::Fields(fields) => fields.iter().any(|(field, _)| field.starts_with(start)),
        }
    }

    /// Also reads `part` of the value at `path`.
    pub fn add(&mut self, path: &[String], part: FieldMask) {
        let FieldMask::Fields(fields) = self else { return };
        let Some((name, rest)) = path.split_first() else { return self.join(part) };
        let is_full = fields.len() >= FIELDS_MAX;
        match fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, field)) => field.add(rest, part),
            None if is_full => *self = FieldMask::All,
            None => {
                let mut field = FieldMask::NOTHING;
                field.add(rest, part);
                fields.push((name.clone(), field));
            }
        }
    }

    /// Also reads what `other` reads.
    pub fn join(&mut self, other: FieldMask) {
        match other {
            FieldMask::All => *self = FieldMask::All,
            FieldMask::Fields(fields) => {
                for (name, part) in fields {
                    self.add(&[name], part);
                }
            }
        }
    }
}

/// Reads the part of `text` that `field_mask` names. The text must be one that [`super::parse`]
/// accepts and in which no object repeats a name: skipped parts are not checked.
pub fn parse_part(text: &[u8], field_mask: &FieldMask) -> Result<Value, JsonError> {
    parse_part_again(text, field_mask, Value::Null)
}

/// As [`parse_part`], reusing the memory of a value that was read before, best with the same field
/// mask.
pub fn parse_part_again(
    text: &[u8],
    field_mask: &FieldMask,
    old: Value,
) -> Result<Value, JsonError> {
    let mut parser = Parser::of_part(text, super::super::limits::JSON_DEPTH_MAX);
    match (parser.next_token(), field_mask) {
        // The text after the last requested field is not read.
        (Some(b'{'), FieldMask::Fields(fields)) => {
            parser.advance();
            let old = if let Value::Object(old) = old { Some(old) } else { None };
            let object = old.unwrap_or_else(|| Object::with_capacity(fields.len()));
            parser.masked_fields(fields, object).map(|(object, _)| Value::Object(object))
        }
        _ => parser.masked(field_mask),
    }
}

impl Parser<'_> {
    fn masked(&mut self, field_mask: &FieldMask) -> Outcome<Value> {
        match (self.next_token(), field_mask) {
            (Some(b'{'), FieldMask::Fields(fields)) => {
                self.advance();
                let object = Object::with_capacity(fields.len());
                let (object, is_at_end) = self.masked_fields(fields, object)?;
                if !is_at_end {
                    self.skip_to_end_of_container()?;
                }
                Ok(Value::Object(object))
            }
            (Some(b'['), FieldMask::Fields(_)) => {
                self.advance();
                self.masked_elements(field_mask)
            }
            _ => self.value(),
        }
    }

    fn masked_elements(&mut self, field_mask: &FieldMask) -> Outcome<Value> {
        let mut elements = Vec::new();
        if self.next_token() == Some(b']') {
            self.advance();
            return Ok(Value::Array(elements));
        }
        loop {
            elements.push(self.masked(field_mask)?);
            if self.is_end(b']')? {
                return Ok(Value::Array(elements));
            }
        }
    }

    /// The requested fields of an object whose opening bracket was read, replacing those that
    /// `object` has, and whether the closing bracket was read.
    fn masked_fields(
        &mut self,
        wanted: &[(String, FieldMask)],
        mut object: Object,
    ) -> Outcome<(Object, bool)> {
        let mut count = 0;
        let mut is_at_end = self.next_token() == Some(b'}');
        if is_at_end {
            self.advance();
        }
        while !is_at_end && count < wanted.len() {
            match self.wanted_name(wanted)? {
                Some((name, field_mask)) => {
                    let value = self.masked(field_mask)?;
                    object.put(count, name, value);
                    count += 1;
                }
                None => self.skip_value()?,
            }
            is_at_end = self.is_end(b'}')?;
        }
        object.truncate(count);
        Ok((object, is_at_end))
    }

    /// Reads the name of a member and its colon; returns which of `wanted` it is, if any.
    fn wanted_name<'w>(
        &mut self,
        wanted: &'w [(String, FieldMask)],
    ) -> Outcome<Option<&'w (String, FieldMask)>> {
        if self.next_token() != Some(b'"') {
            return Err(self.refuse("a property name is expected here"));
        }
        let found = match self.plain_string() {
            Some(name) => wanted.iter().find(|(field, _)| field.as_bytes() == name),
            None => {
                let name = self.string()?;
                wanted.iter().find(|(field, _)| *field == name)
            }
        };
        if self.next_token() != Some(b':') {
            return Err(self.refuse("':' is expected here"));
        }
        self.advance();
        Ok(found)
    }

    fn skip_value(&mut self) -> Outcome<()> {
        match self.next_token() {
            Some(b'"') => self.skip_string(),
            Some(b'{' | b'[') => {
                self.advance();
                self.skip_to_end_of_container()
            }
            Some(_) => {
                self.skip_while(|byte| !matches!(byte, b',' | b'}' | b']'));
                Ok(())
            }
            None => Err(self.refuse("the text ends where a value is expected")),
        }
    }

    /// Skips past the bracket that closes the current object or array.
    fn skip_to_end_of_container(&mut self) -> Outcome<()> {
        let mut depth = 1_usize;
        loop {
            self.skip_while(|byte| !matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'));
            match self.next_token() {
                Some(b'"') => self.skip_string()?,
                Some(b'{' | b'[') => {
                    self.advance();
                    depth += 1;
                }
                Some(_) => {
                    self.advance();
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                None => return Err(self.refuse("the text ends inside a value")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json;
    use crate::value::tests::{any_plain, any_text};

    const TEXT: &str = r#" { "a" : 1 , "b\u0041":"x\"}", "c":{"d":[{"e":1,"f":2},3,"s"],"g":{}},
        "h":[1,[2,"]"],{"i":"}"}] , "j":-1.5e3,"k":true,"l":null} "#;

    fn field_mask(paths: &[&str]) -> FieldMask {
        let mut field_mask = FieldMask::NOTHING;
        for path in paths {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            field_mask.add(&path, FieldMask::All);
        }
        field_mask
    }

    #[track_caller]
    fn check(paths: &[&str], expected: &str) {
        check_value(TEXT.as_bytes(), paths, expected);
    }

    #[track_caller]
    fn check_value(text: &[u8], paths: &[&str], expected: &str) {
        let value = parse_part(text, &field_mask(paths)).unwrap();
        assert_eq!(json::to_string(&value), expected);
    }

    #[test]
    fn only_wanted_fields_are_read() {
        check(&[], "{}");
        check(&["a"], r#"{"a":1}"#);
        check(&["l", "bA"], r#"{"bA":"x\"}","l":null}"#);
        check(&["c.d.e", "k"], r#"{"c":{"d":[{"e":1},3,"s"]},"k":true}"#);
        check(&["c.g", "c.d"], r#"{"c":{"d":[{"e":1,"f":2},3,"s"],"g":{}}}"#);
        check(&["a.x", "h.i", "none", "j"], r#"{"a":1,"h":[1,[2,"]"],{"i":"}"}],"j":-1500}"#);
    }

    #[test]
    fn all_and_scalars_are_read_whole() {
        let whole = json::parse(TEXT.as_bytes(), 10).unwrap().value;
        assert_eq!(parse_part(TEXT.as_bytes(), &FieldMask::All).unwrap(), whole);
        assert_eq!(parse_part(b"7", &field_mask(&["a"])).unwrap(), Value::Int64(7));
        assert_eq!(parse_part(b"{}", &field_mask(&["a"])).unwrap(), Value::Object(Object::new()));
    }

    #[test]
    fn the_memory_of_another_value_holds_nothing_of_it() {
        let texts = [r#"{"a":1,"b":"x","c":[2]}"#, r#"{"c":3}"#, "{}", r#"{"b":4,"a":{"b":5}}"#];
        let field_mask = field_mask(&["a.b", "b", "c"]);
        let mut value = Value::from("anything");
        for text in texts.iter().chain(texts.iter().rev()) {
            value = parse_part_again(text.as_bytes(), &field_mask, value).unwrap();
            assert_eq!(value, parse_part(text.as_bytes(), &field_mask).unwrap(), "{text}");
        }
    }

    #[test]
    fn only_what_is_read_must_be_utf8() {
        let text = b"{\"a\":\"\xFF\",\"b\":\"\xC3\xA4\",\"c\":\"\xFF\"}";
        check_value(text, &["b"], r#"{"b":"ä"}"#);
        assert!(parse_part(text, &field_mask(&["a"])).is_err());
        assert!(parse_part(text, &field_mask(&["b", "c"])).is_err());
    }

    #[test]
    fn picks_grow_by_what_they_lack() {
        let mut part = field_mask(&["a.b"]);
        part.add(&["a".to_owned()], FieldMask::NOTHING);
        assert_eq!(part, field_mask(&["a.b"]));
        part.join(field_mask(&["a", "c"]));
        assert_eq!(part, field_mask(&["a", "c"]));
        assert!(part.has_field("c") && !part.has_field("b"));
        for n in 0..=FIELDS_MAX {
            part.add(&[n.to_string()], FieldMask::All);
        }
        assert_eq!(part, FieldMask::All);
    }

    proptest! {
        #[test]
        fn a_field_reads_the_same_in_part_and_whole(
            fields in prop::collection::vec((any_text(), any_plain()), 1..6),
            at in any::<prop::sample::Index>(),
        ) {
            let name = at.get(&fields).0.clone();
            let text = json::to_string(&Value::Object(fields.into_iter().collect()));
            let whole = json::parse(text.as_bytes(), 64).unwrap().value;
            let part = parse_part(text.as_bytes(), &FieldMask::Fields(vec![(name.clone(), FieldMask::All)]));
            prop_assert_eq!(part.as_ref().unwrap().field(&name), whole.field(&name));
        }

        #[test]
        fn no_text_makes_it_panic(text in any_text(), prefix in prop::sample::select(vec![
            "", "{", "{\"a\":", "{\"a\":1,", "{\"b\":\"", "{\"b\":[{", "[{\"a\":",
        ])) {
            let _ = parse_part(format!("{prefix}{text}").as_bytes(), &field_mask(&["a", "c"]));
        }
    }
}
