//! The JavaScript of `$where`, run by what runs the scripts of a command.

use model::{Object, Value};

use crate::document::types::is_truthy;
use crate::document::{DocumentTest, Failure, Variables, code};

/// A condition in JavaScript: an expression, statements that return, or a function. `this` and
/// `obj` are the document.
#[derive(Debug)]
pub struct WhereScript {
    /// A function of the document.
    function: String,
}

impl WhereScript {
    /// The condition with this source text.
    pub fn new(source: &str) -> Self {
        let source = source.trim().trim_end_matches(';');
        let is_function = source.starts_with("function") || source.starts_with("async function");
        let called = if is_function {
            format!("({source})")
        } else if has_return(source) {
            format!("(function() {{ {source}\n}})")
        } else {
            format!("(function() {{ return ({source}\n); }})")
        };
        Self { function: format!("function(obj) {{ return !!{called}.call(obj); }}") }
    }
}

/// Whether a text has the word that makes it statements rather than an expression.
fn has_return(source: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    source.match_indices("return").any(|(at, word)| {
        let before = source[..at].chars().next_back();
        let after = source[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

impl DocumentTest for WhereScript {
    fn matches(&self, document: &Value, variables: &Variables) -> Result<bool, Failure> {
        let Some(scripts) = variables.scripts() else {
            let message = "no globalScriptEngine in $where parsing";
            return Err(Failure::new(code::BAD_VALUE, message));
        };
        let empty = || Value::Object(Object::new());
        let document = document.as_object().map_or_else(empty, |_| document.clone());
        let result = scripts.call(&self.function, vec![document])?;
        Ok(result.as_ref().is_some_and(is_truthy))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::document::Scripts;

    /// Keeps the sources that it is given and says whether the document has a field.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Scripts for Recorder {
        fn call(&self, source: &str, arguments: Vec<Value>) -> Result<Option<Value>, Failure> {
            self.0.lock().unwrap().push(source.to_owned());
            let first = arguments.first().and_then(Value::as_object);
            Ok(first.map(|object| Value::Bool(!object.is_empty())))
        }
    }

    #[test]
    fn conditions_become_functions_of_the_document() {
        let recorder = Arc::new(Recorder::default());
        let mut variables = Variables::at(model::Date { millis: 0, ticks: 0 });
        let document = Value::Object(Object::from_iter([("a".to_owned(), Value::Null)]));
        let script = WhereScript::new("this.a == 1");
        assert_eq!(script.matches(&document, &variables).unwrap_err().code, 2);
        variables.set_scripts(recorder.clone());
        assert_eq!(script.matches(&document, &variables), Ok(true));
        assert_eq!(script.matches(&Value::Object(Object::new()), &variables), Ok(false));
        for source in ["return this.a", "function() { return 1 }", "this.returned"] {
            WhereScript::new(source).matches(&document, &variables).unwrap();
        }
        let sources = recorder.0.lock().unwrap();
        assert!(sources[0].contains("return (this.a == 1"));
        assert!(sources[2].contains("{ return this.a\n}"));
        assert!(sources[3].contains("!!(function() { return 1 }).call(obj)"));
        assert!(sources[4].contains("return (this.returned"));
    }
}
