//! The shared query algebra and its evaluator.
#![forbid(unsafe_code)]
use model::Value;
/// A compiled query.
#[derive(Clone, Debug)]
pub struct Plan {}
/// x
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct EvalError;
#[expect(missing_docs, reason = "being written")]
impl Plan {
    pub fn matches(&self, _item: &Value) -> Result<bool, EvalError> {
        Ok(true)
    }
    pub fn project(&self, _item: &Value) -> Result<Option<Value>, EvalError> {
        Ok(None)
    }
    pub fn is_select_all(&self) -> bool {
        true
    }
    pub fn top(&self) -> Option<u64> {
        None
    }
    pub fn offset(&self) -> Option<u64> {
        None
    }
    pub fn limit(&self) -> Option<u64> {
        None
    }
}
