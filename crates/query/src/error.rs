//! The ways evaluation can fail. Type errors are not among them: they yield *undefined*.

/// Why a row could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression needs more work or memory for one row than its budget.
    #[error("the query exceeded the work allowed for a single item")]
    BudgetExceeded,
    /// The row holds NaN or an infinity, which JSON cannot carry (the service's code 4001).
    #[error(
        "The response content contains a numeric value that cannot be represented in JSON \
         (e.g. Infinity and NaN)."
    )]
    NonFiniteNumber,
    /// A scalar subquery yields several rows.
    #[error("The cardinality of a scalar subquery result set cannot be greater than 1.")]
    ScalarSubqueryRows,
    /// A user-defined function of the container failed.
    #[error("a user-defined function failed")]
    UserFunction,
    /// A pattern with look-around or back references has tried too many ways to match.
    #[error(
        "a regular expression takes more steps on the text of an item than is allowed; look-around, \
         references back and nested repetitions make it slow"
    )]
    PatternTooSlow,
    /// A filter or sort key on documents failed; it keeps the reason.
    #[error("a filter or sort key on documents failed")]
    Document,
    /// The groups or distinct rows of the query take more memory than is allowed.
    #[error(
        "the query keeps more rows in memory than it is allowed to; narrow its filter or leave \
         out ORDER BY or DISTINCT"
    )]
    MemoryExceeded,
}
