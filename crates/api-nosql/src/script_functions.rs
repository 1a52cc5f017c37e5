//! User-defined functions for queries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::Container;
use engine::catalog::ScriptKind;
use model::Value;
use query::EvalError;
use query::algebra::{CallFunction, UserFunctions};
use script::{Functions, ScriptError};

use crate::Service;
use crate::errors::ApiError;

/// The functions of a container for one request, if it has any.
#[derive(Clone, Default)]
pub(crate) struct QueryFunctions(Option<Arc<Callable>>);

/// Functions that can be called.
struct Callable {
    functions: Functions,
    is_used: AtomicBool,
    failure: Mutex<Option<ScriptError>>,
}

impl QueryFunctions {
    /// The current functions of a container.
    pub(crate) fn of(service: &Service, container: &Container) -> Self {
        let catalog = service.engine().catalog();
        let kind = ScriptKind::UserDefinedFunction;
        let mut sources = catalog
            .scripts(container.rid, kind)
            .map(|script| (script.spec.id.clone(), Arc::clone(&script.spec.body)))
            .peekable();
        if sources.peek().is_none() {
            return Self(None);
        }
        Self(Some(Arc::new(Callable {
            functions: Functions::new(Arc::clone(service.scripts()), sources),
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
            Some(failure) => ApiError::script(&failure),
            None => error.into(),
        }
    }
}

impl CallFunction for Callable {
    fn has(&self, name: &str) -> bool {
        let has = self.functions.has(name);
        if has {
            self.is_used.store(true, Ordering::Relaxed);
        }
        has
    }

    fn call(&self, name: &str, args: &[Option<&Value>]) -> Result<Option<Value>, EvalError> {
        self.functions.call(name, args).map_err(|error| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            EvalError::UserFunction
        })
    }
}
