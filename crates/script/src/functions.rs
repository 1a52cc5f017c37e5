//! Functions that queries call: they have no host; only values go in and out.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use model::{Object as Fields, Value, json, limits};
use rquickjs::function::Args;
use rquickjs::{Array, Ctx, Function, IntoJs, Object, Persistent, Undefined};

use crate::sandbox::Sandbox;
use crate::{ScriptError, Scripts};

/// The functions of a container, to be called row after row. Their context is created by the first
/// call and lives as long as this.
pub struct Functions {
    scripts: Arc<Scripts>,
    sources: HashMap<String, Arc<str>>,
    session: Mutex<Option<LoadedFunctions>>,
}

/// Fields are dropped in this order: values of a context must be dropped before it.
struct LoadedFunctions {
    loaded: HashMap<String, Persistent<Function<'static>>>,
    sandbox: Sandbox,
}

// SAFETY: a context is not bound to a thread, and all of this one is owned by this struct, which is
// used and dropped by one thread at a time.
unsafe impl Send for LoadedFunctions {}

impl Functions {
    /// Functions by name.
    pub fn new(
        scripts: Arc<Scripts>,
        sources: impl IntoIterator<Item = (String, Arc<str>)>,
    ) -> Self {
        Self { scripts, sources: sources.into_iter().collect(), session: Mutex::new(None) }
    }

    /// Calls a function; `None` is *undefined*.
    pub fn call(&self, name: &str, args: &[Option<&Value>]) -> Result<Option<Value>, ScriptError> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = match &mut *session {
            Some(session) => session,
            none => none.insert(LoadedFunctions {
                sandbox: Sandbox::new(&self.scripts.limits, &self.scripts.clock)?,
                loaded: HashMap::new(),
            }),
        };
        session.call(self, name, args)
    }
}

impl LoadedFunctions {
    fn call(
        &mut self,
        functions: &Functions,
        name: &str,
        args: &[Option<&Value>],
    ) -> Result<Option<Value>, ScriptError> {
        let Self { loaded, sandbox } = self;
        let scripts = &functions.scripts;
        let code = match (loaded.contains_key(name), functions.sources.get(name)) {
            (true, _) => None,
            (false, Some(source)) => {
                Some(scripts.cache.get(name, source, &scripts.limits, &scripts.clock)?)
            }
            (false, None) => {
                let text = format!("There is no user-defined function '{name}'.");
                return Err(ScriptError::Thrown { number: None, text, stack: String::new() });
            }
        };
        sandbox.deadline.start(scripts.limits.time);
        let deadline = &sandbox.deadline;
        sandbox.context.with(|ctx| {
            let failed = |error: rquickjs::Error| ScriptError::of(&ctx, deadline, &error);
            if let Some(code) = code {
                if loaded.is_empty() {
                    scripts.enter(&ctx, deadline).map_err(failed)?;
                }
                let function = code.evaluate(&ctx).map_err(failed)?;
                let Some(function) = function.into_function() else {
                    let message = "The script is not a function.".to_owned();
                    return Err(ScriptError::Compile { message });
                };
                loaded.insert(name.to_owned(), Persistent::save(&ctx, function));
            }
            let Some(function) = loaded.get(name).cloned() else { return Ok(None) };
            let result = call_in(&ctx, function, args, scripts.limits.output_bytes);
            result.map_err(|error| match error {
                CallError::Engine(error) => failed(error),
                CallError::Script(error) => error,
            })
        })
    }
}

enum CallError {
    Engine(rquickjs::Error),
    Script(ScriptError),
}

impl From<rquickjs::Error> for CallError {
    fn from(error: rquickjs::Error) -> Self {
        CallError::Engine(error)
    }
}

fn call_in(
    ctx: &Ctx<'_>,
    function: Persistent<Function<'static>>,
    args: &[Option<&Value>],
    bytes_max: usize,
) -> Result<Option<Value>, CallError> {
    let function = function.restore(ctx)?;
    let mut given = Args::new(ctx.clone(), args.len());
    for arg in args {
        match arg {
            Some(value) => given.push_arg(to_js(ctx, value)?)?,
            None => given.push_arg(Undefined)?,
        }
    }
    let result: rquickjs::Value<'_> = function.call_arg(given)?;
    from_js(ctx, result, bytes_max)
}

fn to_js<'js>(ctx: &Ctx<'js>, value: &Value) -> rquickjs::Result<rquickjs::Value<'js>> {
    if let Some(text) = value.as_str() {
        return text.into_js(ctx);
    }
    if let Some(truth) = value.as_bool() {
        return truth.into_js(ctx);
    }
    if let Some(number) = value.as_f64() {
        return number.into_js(ctx);
    }
    if let Some(elements) = value.as_array() {
        let out = Array::new(ctx.clone())?;
        for (i, element) in elements.iter().enumerate() {
            out.set(i, to_js(ctx, element)?)?;
        }
        return Ok(out.into_value());
    }
    if let Some(fields) = value.as_object() {
        return fields_to_js(ctx, fields);
    }
    // Null, and values that JSON writes in a form of its own.
    ctx.json_parse(json::to_string(value))
}

fn fields_to_js<'js>(ctx: &Ctx<'js>, fields: &Fields) -> rquickjs::Result<rquickjs::Value<'js>> {
    let out = Object::new(ctx.clone())?;
    for (name, field) in fields.iter() {
        out.set(name, to_js(ctx, field)?)?;
    }
    Ok(out.into_value())
}

fn from_js<'js>(
    ctx: &Ctx<'js>,
    value: rquickjs::Value<'js>,
    bytes_max: usize,
) -> Result<Option<Value>, CallError> {
    if let Some(truth) = value.as_bool() {
        return Ok(Some(Value::Bool(truth)));
    }
    if let Some(number) = value.as_int() {
        return Ok(Some(Value::Int64(i64::from(number))));
    }
    if let Some(number) = value.as_float() {
        return Ok(Some(Value::Double(number)));
    }
    if value.is_null() {
        return Ok(Some(Value::Null));
    }
    let Some(text) = ctx.json_stringify(value)? else { return Ok(None) };
    let text = text.to_string()?;
    let refused = |text: String| {
        CallError::Script(ScriptError::Thrown { number: None, text, stack: String::new() })
    };
    if text.len() > bytes_max {
        return Err(refused("The result of the function is larger than it may be.".to_owned()));
    }
    let parsed = json::parse(text.as_bytes(), limits::ITEM_DEPTH_MAX);
    parsed.map(|parsed| Some(parsed.value)).map_err(|error| refused(error.to_string()))
}
