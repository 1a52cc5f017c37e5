//! The NoSQL API's SQL dialect.
//!
//! [`lexer`] -> [`parser`] -> [`ast`] -> [`lower`] -> [`query::Plan`]; [`mod@print`] writes a tree
//! back as canonical text and [`gateway`] plans queries for clients that fan out themselves.

mod advice;
pub mod ast;
mod computed;
mod diagnostic;
pub mod gateway;
mod lexer;
mod lower;
mod parser;
pub mod print;
mod rank;

use model::limits::QUERY_TEXT_BYTES_MAX;
use model::{PropertyPath, Value};
use query::algebra::UserFunctions;
use query::fulltext::Language;
use query::functions::spatial::Geospatial;
use query::vector::VectorMetric;

use crate::SyntaxError;
use ast::Span;
use diagnostic::Diagnostic;
use lower::Purpose;

pub use advice::{Advice, advice};
pub use computed::{DefinitionError, check_computed_property};
pub use gateway::{PlanScope, gateway_plan};

/// The properties of the container and the request that a query depends on.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The current time, in ticks of 100 nanoseconds since 1970.
    pub now_ticks: i64,
    /// The seed of random numbers.
    pub seed: u64,
    /// How coordinates are interpreted.
    pub geospatial: Geospatial,
    /// Names and definitions of the properties that are computed from items.
    pub computed: Vec<(String, String)>,
    /// User-defined functions of the container.
    pub user_functions: Option<UserFunctions>,
    /// The paths of vectors and the metrics of their distances.
    pub vectors: Vec<(PropertyPath, VectorMetric)>,
    /// The paths of texts and their languages.
    pub texts: Vec<(PropertyPath, Language)>,
    /// The language of other texts.
    pub language: Language,
}

/// Compiles a SELECT. A parameter that the text names but `parameters` lacks is *undefined*.
pub fn compile(text: &str, parameters: &[(String, Value)]) -> Result<query::Plan, SyntaxError> {
    compile_in(&Environment::default(), text, parameters)
}

/// Compiles a SELECT that runs in an environment.
pub fn compile_in(
    environment: &Environment,
    text: &str,
    parameters: &[(String, Value)],
) -> Result<query::Plan, SyntaxError> {
    lower_in(environment, text, &parse(text)?, parameters)
}

/// The second half of [`compile_in`]: lowers a text that was parsed.
pub fn lower_in(
    environment: &Environment,
    text: &str,
    parsed: &ast::Query,
    parameters: &[(String, Value)],
) -> Result<query::Plan, SyntaxError> {
    let plan = lower::lower_query(parsed, parameters, environment, Purpose::Running);
    plan.map_err(|diagnostic| diagnostic.locate(text))
}

/// Compiles a patch condition: `FROM c WHERE ...`, without a SELECT.
pub fn compile_condition(text: &str) -> Result<query::Plan, SyntaxError> {
    let compiled =
        check_length(text).and_then(|()| parser::parse_condition(text)).and_then(|query| {
            lower::lower_query(&query, &[], &Environment::default(), Purpose::Running)
        });
    compiled.map_err(|diagnostic| diagnostic.locate(text))
}

/// Parses a SELECT without resolving its names.
pub fn parse(text: &str) -> Result<ast::Query, SyntaxError> {
    check_length(text)
        .and_then(|()| parser::parse_query(text))
        .map_err(|diagnostic| diagnostic.locate(text))
}

/// A parameter list that the service rejects before it reads the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Not `@` and an identifier.
    #[error("Parameter names should be in the format of symbol '@' followed by a valid identifier")]
    Name,
    /// The same name twice.
    #[error("Specified duplicate parameter name")]
    Duplicate,
}

/// Checks the names of a request's parameters, including those without a value.
pub fn check_parameter_names<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), ParameterError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !lexer::is_parameter_name(name) {
            return Err(ParameterError::Name);
        }
        if !seen.insert(name) {
            return Err(ParameterError::Duplicate);
        }
    }
    Ok(())
}

fn check_length(text: &str) -> Result<(), Diagnostic> {
    if text.len() <= QUERY_TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "The SQL query text exceeded the maximum limit of {QUERY_TEXT_BYTES_MAX} characters."
    );
    Err(Diagnostic::syntax("SC3020", message, Span::new(0, text.len())))
}
