//! Compiled scripts. Only this module of the crate calls the C interface directly, since the safe
//! interface keeps compiled modules only, and scripts of the service are not modules.

use std::ffi::CString;
use std::sync::Arc;

use rquickjs::{Ctx, Value, qjs};

use crate::sandbox::Sandbox;
use crate::{Clock, Limits, ScriptError};

/// A compiled script, which any context of this process can run.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    /// Only [`Code::compile`] makes these bytes, so they can be trusted.
    bytes: Arc<[u8]>,
}

impl Code {
    /// Compiles `source`; its errors give `name` as their origin.
    pub(crate) fn compile(
        name: &str,
        source: &str,
        limits: &Limits,
        clock: &Clock,
    ) -> Result<Self, ScriptError> {
        let sandbox = Sandbox::for_compiling(limits, clock)?;
        sandbox.deadline.start(limits.time);
        let compiled = sandbox.context.with(|ctx| compile_in(&ctx, name, source));
        match sandbox.deadline.is_timed_out() {
            true => Err(ScriptError::TimedOut),
            false => compiled,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Runs the code and returns the value of its last expression.
    pub(crate) fn evaluate<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        let raw = ctx.as_raw().as_ptr();
        // SAFETY: this version of the engine wrote the bytes in this process, and nothing changed
        // them since. `JS_EvalFunction` takes ownership of the function; this code owns the result,
        // so that `Value` frees it.
        let value = unsafe {
            let flags = qjs::JS_READ_OBJ_BYTECODE.cast_signed();
            let code = qjs::JS_ReadObject(raw, self.bytes.as_ptr(), self.bytes.len() as _, flags);
            let value = match qjs::JS_IsException(code) {
                true => code,
                false => qjs::JS_EvalFunction(raw, code),
            };
            if qjs::JS_IsException(value) {
                return Err(rquickjs::Error::Exception);
            }
            Value::from_raw(ctx.clone(), value)
        };
        Ok(value)
    }
}

fn compile_in(ctx: &Ctx<'_>, name: &str, source: &str) -> Result<Code, ScriptError> {
    let refused = |message: &str| ScriptError::Compile { message: message.to_owned() };
    let text = CString::new(source).map_err(|_| refused("The text has a character 0."))?;
    let file = format!("{}.js", name.replace('\0', ""));
    let file = CString::new(file).map_err(|_| refused("The name has a character 0."))?;
    let raw = ctx.as_raw().as_ptr();
    let flags = (qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY).cast_signed();
    // SAFETY: both texts end with a zero and outlive the calls; the length excludes the zero. The
    // compiled function, which is not run, is freed here, and so is the buffer it was written to,
    // after its bytes are copied.
    let bytes: Option<Arc<[u8]>> = unsafe {
        let length = text.as_bytes().len() as _;
        let code = qjs::JS_Eval(raw, text.as_ptr(), length, file.as_ptr(), flags);
        if qjs::JS_IsException(code) {
            None
        } else {
            let mut length = 0;
            let flags = qjs::JS_WRITE_OBJ_BYTECODE.cast_signed();
            let written = qjs::JS_WriteObject(raw, &raw mut length, code, flags);
            qjs::JS_FreeValue(raw, code);
            if written.is_null() {
                None
            } else {
                let length = usize::try_from(length).unwrap_or_default();
                let bytes = std::slice::from_raw_parts(written, length).into();
                qjs::js_free(raw, written.cast());
                Some(bytes)
            }
        }
    };
    match bytes {
        Some(bytes) => Ok(Code { bytes }),
        None => Err(match ScriptError::of_value(ctx, ctx.catch()) {
            ScriptError::Thrown { text, stack, .. } => {
                ScriptError::Compile { message: format!("{text}\n{stack}").trim_end().to_owned() }
            }
            other @ (ScriptError::Compile { .. }
            | ScriptError::TimedOut
            | ScriptError::OutOfMemory) => other,
        }),
    }
}

#[cfg(test)]
impl Code {
    pub(crate) fn bytes_for_test(&self) -> &[u8] {
        &self.bytes
    }
}
