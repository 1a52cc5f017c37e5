//! User-defined functions for queries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::Container;
use engine::catalog::{Script, ScriptKind};
use engine::components::Clock;
use model::{ErrorKind, Value};
use query::EvalError;
use query::algebra::{CallFunction, UserFunctions};
use script::{Functions, ScriptError};

use crate::Service;
use crate::errors::ApiError;
use crate::script_guard::ScriptGuard;

/// The functions of a container for one request; by default, none can be called.
#[derive(Clone, Default)]
pub(crate) struct QueryFunctions(Option<Arc<Callable>>);

/// Functions that can be called.
struct Callable {
    functions: Functions,
    scripts: Vec<Arc<Script>>,
    guard: Arc<ScriptGuard>,
    clock: Arc<dyn Clock>,
    is_used: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

/// Why a function gave no value.
enum Failure {
    Script(ScriptError),
    /// The function of this name is blocked.
    Blocked(String),
    /// There is no function of this name.
    Unknown(String),
}

impl QueryFunctions {
    /// The current functions of a container.
    pub(crate) fn of(service: &Service, container: &Container) -> Self {
        let catalog = service.engine().catalog();
        let kind = ScriptKind::UserDefinedFunction;
        let scripts: Vec<_> = catalog.scripts(container.rid, kind).cloned().collect();
        let source = |script: &Arc<Script>| (script.spec.id.clone(), Arc::clone(&script.spec.body));
        let sources = scripts.iter().map(source);
        Self(Some(Arc::new(Callable {
            functions: Functions::new(Arc::clone(service.scripts()), sources),
            scripts,
            guard: Arc::clone(service.script_guard()),
            clock: Arc::clone(&service.engine().components().clock),
            is_used: AtomicBool::new(false),
            failure: Mutex::new(None),
        })))
    }

    /// The functions in the form that the query crate takes.
    pub(crate) fn shared(&self) -> Option<UserFunctions> {
        let shared: Arc<dyn CallFunction> = Arc::<Callable>::clone(self.0.as_ref()?);
        Some(UserFunctions(shared))
    }

    /// Whether a compiled query calls any of them.
    pub(crate) fn is_used(&self) -> bool {
        self.0.as_ref().is_some_and(|callable| callable.is_used.load(Ordering::Relaxed))
    }

    /// `error`, or the reason why a function failed if that caused it.
    pub(crate) fn explain(&self, error: engine::Error) -> ApiError {
        let is_ours = matches!(error, engine::Error::Evaluation(EvalError::UserFunction));
        let failure = self.0.as_ref().and_then(|callable| {
            callable.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
        });
        match failure.filter(|_| is_ours) {
            Some(Failure::Script(failure)) => ApiError::script(&failure),
            Some(Failure::Unknown(name)) => ApiError::bad_request_errors(format!(
                "'udf.{name}' is not a recognized user-defined function name."
            )),
            Some(Failure::Blocked(name)) => ApiError::new(
                ErrorKind::Forbidden,
                format!(
                    "The user defined function with id '{name}' is blocked for execution because \
                     it has violated its allowed resources limit several times."
                ),
            ),
            None => error.into(),
        }
    }
}

impl CallFunction for Callable {
    fn announce(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    fn call(&self, name: &str, args: &[Option<&Value>]) -> Result<Option<Value>, EvalError> {
        let failed = |failure: Failure| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            EvalError::UserFunction
        };
        let Some(script) = self.scripts.iter().find(|script| script.spec.id == name) else {
            return Err(failed(Failure::Unknown(name.to_owned())));
        };
        if self.guard.is_blocked(script) {
            return Err(failed(Failure::Blocked(name.to_owned())));
        }
        let began = self.clock.monotonic();
        let value = self.functions.call(name, args);
        let took = self.clock.monotonic().saturating_sub(began);
        self.guard.count(script, value.as_ref().map(|_| took));
        value.map_err(|error| failed(Failure::Script(error)))
    }
}
