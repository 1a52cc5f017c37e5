//! Compiled scripts, kept for the next run.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;

use crate::code::Code;
use crate::{Clock, Limits, ScriptError};

/// Most scripts kept.
const SCRIPTS_MAX: usize = 1024;
/// Most bytes of compiled code and of texts kept.
const BYTES_MAX: usize = 32 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Cache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    uses: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    name: Arc<str>,
    source: Arc<str>,
}

struct Entry {
    code: Code,
    used: u64,
}

impl Cache {
    /// The compiled form of a script, which is compiled now if it is not cached.
    pub(crate) fn get(
        &self,
        name: &str,
        source: &Arc<str>,
        limits: &Limits,
        clock: &Clock,
    ) -> Result<Code, ScriptError> {
        let key = Key { name: name.into(), source: Arc::clone(source) };
        if let Some(code) = self.lock().find(&key) {
            return Ok(code);
        }
        // Not under the lock: two threads may compile the same script, but no other script waits
        // for a long text.
        let code = compile_function(name, source, limits, clock)?;
        self.lock().put(key, code.clone());
        Ok(code)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn find(&mut self, key: &Key) -> Option<Code> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.uses;
        Some(entry.code.clone())
    }

    fn put(&mut self, key: Key, code: Code) {
        let bytes = bytes_of(&key, &code);
        let entry = Entry { code, used: self.uses };
        self.bytes += bytes;
        if let Some(old) = self.entries.insert(key.clone(), entry) {
            self.bytes -= bytes_of(&key, &old.code);
        }
        while self.entries.len() > SCRIPTS_MAX || self.bytes > BYTES_MAX {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= bytes_of(&oldest, &entry.code);
            }
        }
    }
}

fn bytes_of(key: &Key, code: &Code) -> usize {
    key.name.len() + key.source.len() + code.len()
}

/// Compiles a text that is a function, or several functions of which the first is used.
fn compile_function(
    name: &str,
    source: &str,
    limits: &Limits,
    clock: &Clock,
) -> Result<Code, ScriptError> {
    let compile = |text: &str| Code::compile(name, text, limits, clock);
    let text = source.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let alone = compile(&format!("({text}\n)"));
    let Err(error) = alone else { return alone };
    let Some(first) = first_function(text) else { return Err(error) };
    compile(&format!("(function () {{{text}\nreturn {first};\n}})()")).or(Err(error))
}

/// The name of the first function that a text declares.
fn first_function(text: &str) -> Option<&str> {
    const WORD: &str = "function";
    let mut rest = text;
    while let Some(at) = rest.find(WORD) {
        rest = &rest[at + WORD.len()..];
        let after = rest.trim_start_matches(|c: char| c == '*' || c.is_whitespace());
        let is_name = |c: char| c == '$' || c == '_' || c.is_alphanumeric();
        let length = after.find(|c| !is_name(c)).unwrap_or(after.len());
        if length > 0 && !after.starts_with(|c: char| c.is_numeric()) {
            return Some(&after[..length]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Arc::new(|| std::time::Duration::ZERO)
    }

    #[test]
    fn the_first_declared_function_is_found() {
        assert_eq!(first_function("var x = 1;\nfunction main(a) {}"), Some("main"));
        assert_eq!(first_function("async function  $f_1() {} function g() {}"), Some("$f_1"));
        assert_eq!(first_function("(function () {})"), None);
        assert_eq!(first_function("x => x"), None);
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut inner = Inner::default();
        let key = |n: usize| Key { name: n.to_string().into(), source: "x".into() };
        let code = compile_function("f", "function () {}", &Limits::default(), &clock()).unwrap();
        for n in 0..SCRIPTS_MAX {
            inner.uses += 1;
            inner.put(key(n), code.clone());
        }
        assert!(inner.find(&key(0)).is_some());
        inner.put(key(SCRIPTS_MAX), code);
        assert_eq!(inner.entries.len(), SCRIPTS_MAX);
        assert!(inner.find(&key(0)).is_some() && inner.find(&key(1)).is_none());
        let held: usize = inner.entries.iter().map(|(k, e)| bytes_of(k, &e.code)).sum();
        assert_eq!(inner.bytes, held);
    }

    #[test]
    fn a_text_is_compiled_once() {
        let (cache, limits, clock) = (Cache::default(), Limits::default(), clock());
        let source: Arc<str> = "function () { return 1; }".into();
        let first = cache.get("f", &source, &limits, &clock).unwrap();
        let again = cache.get("f", &source, &limits, &clock).unwrap();
        assert!(std::ptr::eq(first.bytes_for_test(), again.bytes_for_test()));
        assert!(cache.get("f", &"function (".into(), &limits, &clock).is_err());
        assert_eq!(cache.lock().entries.len(), 1);
    }
}
