//! CORS: the requests that browsers may send for pages of other origins, by the rules of the
//! service.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, ORIGIN, VARY,
};
use hyper::{Method, StatusCode};

use crate::errors::TableError;
use crate::properties::CorsRule;
use crate::reply::Reply;
use crate::request::text;

/// Answers a CORS preflight request.
pub(crate) fn preflight(rules: &[CorsRule], headers: &HeaderMap) -> Result<Reply, TableError> {
    let (Some(origin), Some(method)) =
        (text(headers, &ORIGIN), text(headers, &ACCESS_CONTROL_REQUEST_METHOD))
    else {
        return Err(TableError::new(
            400,
            "InvalidHeaderValue",
            "A required CORS header is not present.",
        ));
    };
    let requested = text(headers, &ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    let fits = |rule: &&CorsRule| {
        allows_origin(rule, origin) && has(&rule.methods, method) && allows_headers(rule, requested)
    };
    let Some(rule) = rules.iter().find(fits) else {
        return Err(TableError::new(
            403,
            "CorsPreflightFailure",
            "CORS not enabled or no matching rule found for this request. A rule of the service lets \
             a page in, or --allow-host NAME at the start of the server.",
        ));
    };
    let mut reply = Reply::empty(StatusCode::OK)
        .header(ACCESS_CONTROL_ALLOW_ORIGIN, allow_origin_value(rule, origin))
        .header(ACCESS_CONTROL_ALLOW_METHODS, method)
        .header(ACCESS_CONTROL_MAX_AGE, &rule.max_age)
        .header(VARY, "Origin");
    if !requested.is_empty() {
        reply = reply.header(ACCESS_CONTROL_ALLOW_HEADERS, requested);
    }
    Ok(reply)
}

/// Whether a rule allows the page that sends a request to do so.
pub(crate) fn allows(rules: &[CorsRule], method: &Method, headers: &HeaderMap) -> bool {
    text(headers, &ORIGIN).is_some_and(|origin| rule_for(rules, origin, method).is_some())
}

fn rule_for<'r>(rules: &'r [CorsRule], origin: &str, method: &Method) -> Option<&'r CorsRule> {
    rules.iter().find(|rule| allows_origin(rule, origin) && has(&rule.methods, method.as_str()))
}

/// Adds the headers that let a page read the reply.
pub(crate) fn allow(
    rules: &[CorsRule],
    method: &Method,
    headers: &HeaderMap,
    reply: Reply,
) -> Reply {
    let Some(origin) = text(headers, &ORIGIN) else { return reply };
    let Some(rule) = rule_for(rules, origin, method) else {
        return if rules.is_empty() { reply } else { reply.header(VARY, "Origin") };
    };
    let allow_origin = allow_origin_value(rule, origin);
    let reply = reply.header(ACCESS_CONTROL_ALLOW_ORIGIN, allow_origin);
    // A response that is the same for all origins does not vary.
    let reply = if allow_origin == "*" { reply } else { reply.header(VARY, "Origin") };
    match rule.exposed_headers.as_str() {
        "" => reply,
        exposed => reply.header(ACCESS_CONTROL_EXPOSE_HEADERS, exposed),
    }
}

fn allow_origin_value<'r>(rule: &CorsRule, origin: &'r str) -> &'r str {
    if rule.origins.trim() == "*" { "*" } else { origin }
}

fn allows_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.origins.split(',').map(str::trim).any(|allowed| {
        allowed == "*"
            || allowed == origin
            || allowed.strip_prefix('*').is_some_and(|end| origin.ends_with(end))
    })
}

fn has(list: &str, requested: &str) -> bool {
    list.split(',').any(|item| item.trim().eq_ignore_ascii_case(requested))
}

/// Whether all headers are allowed; a trailing star allows headers with that prefix.
fn allows_headers(rule: &CorsRule, requested: &str) -> bool {
    let is_allowed = |header: &str| {
        rule.allowed_headers.split(',').map(str::trim).any(|allowed| {
            match allowed.strip_suffix('*') {
                Some(start) => header.to_ascii_lowercase().starts_with(&start.to_ascii_lowercase()),
                None => allowed.eq_ignore_ascii_case(header),
            }
        })
    };
    requested.split(',').map(str::trim).filter(|header| !header.is_empty()).all(is_allowed)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn rule(origins: &str, methods: &str, headers: &str) -> CorsRule {
        CorsRule {
            origins: origins.into(),
            methods: methods.into(),
            allowed_headers: headers.into(),
            exposed_headers: "x-ms-*".into(),
            max_age: "5".into(),
        }
    }

    fn headers(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, text)| (name.clone(), HeaderValue::from_static(text))).collect()
    }

    fn status(
        rules: &[CorsRule],
        origin: &'static str,
        method: &'static str,
        h: &'static str,
    ) -> u16 {
        let headers = headers(&[
            (ORIGIN, origin),
            (ACCESS_CONTROL_REQUEST_METHOD, method),
            (ACCESS_CONTROL_REQUEST_HEADERS, h),
        ]);
        preflight(rules, &headers).map_or_else(|e| e.status.as_u16(), |r| r.status.as_u16())
    }

    #[test]
    fn a_rule_must_fit_in_all_respects() {
        let rules = [rule("http://a.test,http://b.test", "GET,PUT", "x-ms-*,accept")];
        assert_eq!(status(&rules, "http://a.test", "GET", "x-ms-date,Accept"), 200);
        assert_eq!(status(&rules, "http://b.test", "put", ""), 200);
        assert_eq!(status(&rules, "http://c.test", "GET", ""), 403);
        assert_eq!(status(&rules, "http://a.test", "DELETE", ""), 403);
        assert_eq!(status(&rules, "http://a.test", "GET", "authorization"), 403);
        assert_eq!(status(&[], "http://a.test", "GET", ""), 403);
        assert!(preflight(&rules, &HeaderMap::new()).is_err());
    }

    #[test]
    fn replies_tell_who_may_see_them() {
        let rules = [rule("*", "GET", "")];
        let asked = headers(&[(ORIGIN, "http://a.test")]);
        let reply = allow(&rules, &Method::GET, &asked, Reply::no_content());
        assert_eq!(reply.headers[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert_eq!(reply.headers[ACCESS_CONTROL_EXPOSE_HEADERS], "x-ms-*");
        let reply = allow(&rules, &Method::PUT, &asked, Reply::no_content());
        assert!(!reply.headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}
