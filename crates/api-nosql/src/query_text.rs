//! The body of a query request: a text and its parameters.

use lang::nosql::{Environment, ast};
use model::{DocumentRid, Value};
use query::exec::{ResumeValue, RowPosition};

use crate::Service;
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::payload;
use crate::request::Request;

/// A text without function calls that is no longer than this is compiled inline.
const SHORT_BYTES_MAX: usize = 512;
/// Functions that compiling a query never evaluates.
const AGGREGATES: [&str; 5] = ["COUNT", "SUM", "MIN", "MAX", "AVG"];
/// Texts longer than this are queued behind shorter ones.
const LONG_BYTES_MIN: usize = 16 * 1024;

/// A query as a client sent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryText {
    /// The query.
    pub text: String,
    /// Values by name. A parameter without a value is left out, which makes it *undefined*.
    pub parameters: Vec<(String, Value)>,
    /// The position from which a client resumes an ordered query.
    resume_filter: Option<Value>,
}

impl QueryText {
    /// Parses `{"query": "...", "parameters": [{"name": "@a", "value": 1}]}`. Very old clients send
    /// a bare text instead: as a JSON string, or unencoded if the content type says so.
    pub(crate) fn parse(request: &Request) -> Result<Self, ApiError> {
        let content_type = request.header(HeaderName::ContentType).unwrap_or_default();
        if content_type.to_ascii_lowercase().starts_with("application/sql") {
            let text = std::str::from_utf8(&request.body);
            let text = text.map_err(|_| payload::invalid("the text is not UTF-8"))?;
            return Ok(Self::plain(text.to_owned()));
        }
        Self::parse_json(&request.body)
    }

    /// Parses the JSON form.
    pub(crate) fn parse_json(body: &[u8]) -> Result<Self, ApiError> {
        Self::from_value(payload::value(body)?)
    }

    /// Parses the JSON form from a value.
    pub(crate) fn from_value(body: Value) -> Result<Self, ApiError> {
        if let Value::String(text) = body {
            return Ok(Self::plain(text));
        }
        let Value::Object(mut fields) = body else {
            return Err(payload::invalid("a query is an object with 'query'"));
        };
        let text = match fields.remove("query") {
            Some(Value::String(text)) => text,
            Some(_) => return Err(payload::invalid("the property 'query' must be a string")),
            None => return Err(payload::invalid("the property 'query' is missing")),
        };
        let parameters = match fields.remove("parameters") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => parameters(list)?,
            Some(_) => return Err(payload::invalid("the property 'parameters' must be an array")),
        };
        let resume_filter = fields.remove("resumeFilter").filter(|filter| *filter != Value::Null);
        Ok(Self { text, parameters, resume_filter })
    }

    fn plain(text: String) -> Self {
        Self { text, parameters: Vec::new(), resume_filter: None }
    }

    /// Another query with the same parameters.
    pub(crate) fn with_text(&self, text: String) -> Self {
        Self { text, parameters: self.parameters.clone(), resume_filter: None }
    }

    /// The position that the client resumes from.
    pub(crate) fn resume(&self, plan: &query::Plan) -> Result<Option<RowPosition>, ApiError> {
        let Some(filter) = &self.resume_filter else { return Ok(None) };
        let position = read_resume_filter(filter, plan);
        position.map(Some).ok_or_else(|| ApiError::invalid_input("The resume filter is not valid."))
    }

    /// Runs work on the query that may take long on another thread. Compiling a short text takes no
    /// longer than the hand-over to a thread; a text can also be long, call functions of constants
    /// or compile patterns.
    pub(crate) async fn run_blocking_if_long<T: Send + 'static>(
        self,
        service: &Service,
        work: impl FnOnce(Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        if self.is_short() {
            return work(self);
        }
        match self.is_long() {
            true => service.engine().run_blocking(move || Ok(work(self))).await?,
            false => service.engine().run_fairly(move || Ok(work(self))).await?,
        }
    }

    /// Whether compiling it may take long.
    fn is_long(&self) -> bool {
        self.text.len() > LONG_BYTES_MIN
    }

    fn is_short(&self) -> bool {
        let is_small = |(_, value): &(String, Value)| {
            let is_leaf = value.as_array().is_none() && value.as_object().is_none();
            is_leaf && value.as_str().is_none_or(|text| text.len() <= SHORT_BYTES_MAX)
        };
        self.text.len() <= SHORT_BYTES_MAX
            && calls_only_aggregates(&self.text)
            && self.parameters.iter().all(is_small)
    }

    /// The syntax tree of the query, with names not yet resolved.
    pub(crate) fn parsed(&self) -> Result<ast::Query, ApiError> {
        Ok(lang::nosql::parse(&self.text)?)
    }

    /// The plan of the query, made from its syntax tree.
    pub(crate) fn lowered(
        &self,
        parsed: &ast::Query,
        environment: &Environment,
    ) -> Result<query::Plan, ApiError> {
        Ok(lang::nosql::lower_in(environment, &self.text, parsed, &self.parameters)?)
    }

    /// The compiled plan of the query.
    pub(crate) fn compile(&self, environment: &Environment) -> Result<query::Plan, ApiError> {
        self.lowered(&self.parsed()?, environment)
    }
}

/// Parses `{"value": [...], "rid": "...", "exclude": false}`: one value per sort key, the resource
/// id of an item, and whether rows with these keys are left out.
fn read_resume_filter(filter: &Value, plan: &query::Plan) -> Option<RowPosition> {
    let values = filter.field("value")?.as_array()?;
    let values = values.iter().map(resume_value).collect::<Option<Vec<_>>>()?;
    let number = match filter.field("rid").and_then(Value::as_str) {
        Some(rid) => Some(DocumentRid::parse(rid)?.number),
        None => None,
    };
    let excludes = filter.field("exclude").and_then(Value::as_bool).unwrap_or(false);
    RowPosition::resume(plan, &values, number, excludes)
}

/// A sort key as clients send it: a scalar as itself, *undefined* as an empty array, an array or
/// object as the two halves of its hash.
fn resume_value(value: &Value) -> Option<ResumeValue> {
    if let Some(elements) = value.as_array() {
        return elements.is_empty().then_some(ResumeValue::Value(None));
    }
    if value.as_object().is_none() {
        return Some(ResumeValue::Value(Some(value.clone())));
    }
    let half = |name| Some(u128::from(value.field(name)?.as_i64()?.cast_unsigned()));
    let hash = half("high")? << 64 | half("low")?;
    match value.field("type")?.as_str()? {
        "array" => Some(ResumeValue::Array(hash)),
        "object" => Some(ResumeValue::Object(hash)),
        _ => None,
    }
}

fn parameters(list: Vec<Value>) -> Result<Vec<(String, Value)>, ApiError> {
    let mut names = Vec::with_capacity(list.len());
    let mut values = Vec::with_capacity(list.len());
    for parameter in list {
        let Value::Object(mut fields) = parameter else {
            return Err(payload::invalid("a parameter is an object with 'name' and 'value'"));
        };
        let Some(Value::String(name)) = fields.remove("name") else {
            return Err(payload::invalid("a parameter needs a 'name'"));
        };
        names.push(name.clone());
        if let Some(value) = fields.remove("value") {
            values.push((name, value));
        }
    }
    lang::nosql::check_parameter_names(names.iter().map(String::as_str))
        .map_err(|error| ApiError::bad_request_errors(error.to_string()))?;
    Ok(values)
}

/// Whether a text has no parentheses but those of aggregates, which compiling does not evaluate.
/// A parenthesis of any other kind may belong to a function of constants.
fn calls_only_aggregates(text: &str) -> bool {
    text.match_indices('(').all(|(at, _)| {
        let before = &text[..at];
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
        let name = &before[before.trim_end_matches(is_word).len()..];
        AGGREGATES.iter().any(|aggregate| aggregate.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::request_with;

    fn parse(body: &'static str) -> Result<QueryText, ApiError> {
        QueryText::parse(&request_with(&[], body.as_bytes()))
    }

    fn message(body: &'static str) -> String {
        let error = parse(body).unwrap_err();
        assert_eq!(error.status(), 400, "{body}");
        error.message().to_owned()
    }

    #[test]
    fn texts_that_compile_at_once_are_told_from_others() {
        let is_short = |text: &str| QueryText::plain(text.into()).is_short();
        for short in [
            "SELECT * FROM c WHERE c.a = 1",
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT VALUE {\"payload\": {\"n\": {\"item\": count(1)}}} FROM c",
            "SELECT MIN(c.a), MAX(c.a), SUM(c.a), AVG(c.a) FROM c GROUP BY c.b",
        ] {
            assert!(is_short(short), "{short}");
        }
        for other in [
            "SELECT VALUE REPLICATE('x', 1000)",
            "SELECT VALUE COUNT(REPLICATE('x', 1000)) FROM c",
            "SELECT VALUE udf.COUNT(1) FROM c",
            "SELECT VALUE DISCOUNT(1) FROM c",
            "SELECT VALUE REPLICATE ('x', 1000)",
            "SELECT * FROM c WHERE (c.a = 1)",
        ] {
            assert!(!is_short(other), "{other}");
        }
    }

    #[test]
    fn every_form_of_a_body_is_read() {
        let plain = QueryText::plain("SELECT 1".into());
        for body in [
            r#"{"query":"SELECT 1"}"#,
            r#"{"query":"SELECT 1","parameters":[]}"#,
            r#"{"query":"SELECT 1","parameters":null}"#,
            r#"{"parameters":[{"name":"@a"}],"query":"SELECT 1","more":{}}"#,
            r#""SELECT 1""#,
        ] {
            assert_eq!(parse(body).unwrap(), plain, "{body}");
        }
        let request = request_with(&[(HeaderName::ContentType, "application/sql")], b"SELECT 1");
        assert_eq!(QueryText::parse(&request).unwrap(), plain);
        let query = parse(
            r#"{"query":"q","parameters":[{"name":"@a","value":1},{"name":"@b","value":null}]}"#,
        );
        let parameters = vec![("@a".to_owned(), Value::Int64(1)), ("@b".to_owned(), Value::Null)];
        assert_eq!(query.unwrap().parameters, parameters);
    }

    #[test]
    fn bad_bodies_say_what_is_wrong() {
        assert!(message("{}").contains("'query' is missing"));
        assert!(message("").contains("empty"));
        assert!(message("SELECT 1").contains("payload is invalid"));
        assert!(message("[]").contains("payload is invalid"));
        assert!(message(r#"{"query":7}"#).contains("'query' must be a string"));
        assert!(message(r#"{"query":"q","parameters":{}}"#).contains("must be an array"));
        assert!(message(r#"{"query":"q","parameters":[1]}"#).contains("parameter"));
        assert!(message(r#"{"query":"q","parameters":[{}]}"#).contains("'name'"));
        assert!(message(r#"{"query":"q","parameters":[{"name":"a"}]}"#).contains("'@'"));
        let twice = r#"{"query":"q","parameters":[{"name":"@a"},{"name":"@a"}]}"#;
        assert!(message(twice).contains("duplicate"));
    }

    #[test]
    fn a_syntax_error_keeps_its_code() {
        let error = parse(r#"{"query":"SELECT FROM"}"#).unwrap();
        let error = error.compile(&Environment::default()).unwrap_err();
        assert_eq!((error.status(), error.substatus()), (400, 0));
        assert!(error.message().contains("SC1001"), "{}", error.message());
        assert!(error.message().contains("Syntax error, incorrect syntax near"));
    }
}
