//! Who may ask.
//!
//! With a key of the account everything is allowed that the key allows. Without one, callers on
//! this machine may use the admin port, and read the metrics on both ports, as long as the
//! account's key is the emulator's well-known one, which is no secret from them anyway.
//!
//! A browser on this machine is such a caller too, and any page it shows can make it send
//! requests here. So requests that a page of another site caused are refused by what browsers say
//! about them. A page whose name was made to point to this machine after it was loaded looks like
//! one of ours to the browser, but its requests carry its own name as their host: while the key is
//! public, only hosts that are this machine are answered.

use std::net::IpAddr;

use api_nosql::{Denied, Service};
use front::Caller;
use hyper::Uri;
use hyper::header::{FORWARDED, HOST, HeaderMap, HeaderName, ORIGIN, REFERER, VIA};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

use super::is_read;
use super::reply::Refusal;
use super::routes::METRICS;
use crate::listen::{Door, Visitor};

/// What browsers say about where a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Each says that somebody else stands between us and the caller.
const PASSED_ON: [HeaderName; 4] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// The rules of one server.
#[derive(Clone, Debug)]
pub(crate) struct AccessRules {
    /// Names of this server beside the loopback ones.
    pub(crate) hosts: Vec<String>,
}

impl AccessRules {
    /// Refuses a request that its sender may not make.
    pub(super) fn check(
        &self,
        service: &Service,
        head: &Parts,
        visitor: Visitor,
    ) -> Result<(), Refusal> {
        // Keys can be replaced while the server runs.
        let is_key_public = service.is_key_public();
        self.check_site(head, is_key_public)?;
        let caller = match service.authenticate(head) {
            Ok(Some(caller)) => caller,
            Ok(None) if is_key_public && needs_no_key(head, visitor) => Caller::ReadWrite,
            Ok(None) => return Err(Refusal::unauthorized(MISSING_KEY.to_owned())),
            Err(Denied { status: 403, message }) => return Err(Refusal::forbidden(message)),
            Err(Denied { message, .. }) => return Err(Refusal::unauthorized(message)),
        };
        if caller == Caller::ReadOnly && !is_read(&head.method) {
            return Err(Refusal::forbidden("A read-only key may only read.".to_owned()));
        }
        Ok(())
    }

    /// Refuses what a browser sends on behalf of another site.
    fn check_site(&self, head: &Parts, is_key_public: bool) -> Result<(), Refusal> {
        let host = host_of(head);
        if is_key_public && !host.as_ref().is_some_and(|host| self.is_ours(host)) {
            return Err(Refusal::forbidden(format!(
                "The host '{}' is not a name of this server. Use localhost or 127.0.0.1, or start \
                 the server with a key of its own.",
                host.map_or_else(String::new, |host| host.to_string())
            )));
        }
        if is_of_another_site(&head.headers, host.as_ref()) {
            return Err(Refusal::forbidden(
                "Requests that pages of other sites make are not answered.".to_owned(),
            ));
        }
        Ok(())
    }

    fn is_ours(&self, authority: &Authority) -> bool {
        // An IPv6 address is in brackets here, and without them among the names.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        let is_name = |name: &String| name.eq_ignore_ascii_case(host);
        is_loopback || host.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(is_name)
    }
}

/// Whether somebody who has only the key that everybody knows may leave it out.
fn needs_no_key(head: &Parts, visitor: Visitor) -> bool {
    let is_passed_on = PASSED_ON.iter().any(|name| head.headers.contains_key(name));
    let is_open = visitor.door == Door::Admin || head.uri.path() == METRICS;
    visitor.is_local && is_open && !is_passed_on
}

const MISSING_KEY: &str = "A key of the account is needed: send 'Authorization: Bearer KEY', or a \
                           signature as requests to the NoSQL API have it.";

/// The one host that a request names.
fn host_of(head: &Parts) -> Option<Authority> {
    if let Some(authority) = head.uri.authority() {
        return Some(authority.clone());
    }
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, None) = (hosts.next()?, hosts.next()) else { return None };
    host.to_str().ok()?.parse().ok()
}

/// Whether a browser says that a page from elsewhere made it send the request.
fn is_of_another_site(headers: &HeaderMap, host: Option<&Authority>) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE)
        && site != "same-origin"
        && site != "none"
    {
        return true;
    }
    // What can't be read, such as the origin `null`, is not ours.
    let is_elsewhere = |name: HeaderName| {
        headers.get_all(name).iter().any(|value| {
            let uri = value.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
            let authority = uri.as_ref().and_then(Uri::authority);
            match (authority, host) {
                (Some(from), Some(host)) => !from.as_str().eq_ignore_ascii_case(host.as_str()),
                (None, _) | (_, None) => true,
            }
        })
    };
    is_elsewhere(ORIGIN) || is_elsewhere(REFERER)
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/_admin/v1/jobs");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn passes(is_key_public: bool, headers: &[(&str, &str)]) -> bool {
        let rules = AccessRules { hosts: vec!["db.example".into(), "fd00::1".into()] };
        rules.check_site(&head(headers), is_key_public).is_ok()
    }

    #[test]
    fn with_a_public_key_only_hosts_of_this_machine_are_answered() {
        let host = |host: &str| passes(true, &[("host", host)]);
        for ours in ["localhost", "LOCALHOST:8085", "127.0.0.1:8085", "127.1.2.3", "[::1]:8085"] {
            assert!(host(ours), "{ours}");
        }
        assert!(host("db.example:1") && host("[fd00::1]:8085") && host("[FD00::1]"));
        for other in ["evil.example", "127.0.0.1.evil.example:8085", "10.0.0.1", "localhost.evil"] {
            assert!(!host(other), "{other}");
        }
        assert!(!passes(true, &[]));
        assert!(!passes(true, &[("host", "localhost"), ("host", "evil.example")]));
        assert!(!passes(true, &[("host", "evil@localhost b")]));
    }

    #[test]
    fn with_a_key_of_its_own_the_host_does_not_matter() {
        assert!(passes(false, &[("host", "db.internal:8085")]));
        assert!(!passes(false, &[("host", "db.internal"), ("origin", "http://evil.example")]));
    }

    #[test]
    fn pages_of_other_sites_are_refused_however_the_browser_says_it() {
        let from =
            |name: &str, value: &str| passes(true, &[("host", "localhost:8085"), (name, value)]);
        assert!(
            from("origin", "http://localhost:8085") && from("origin", "https://LOCALHOST:8085")
        );
        assert!(from("referer", "http://localhost:8085/a/page?x=1"));
        assert!(from("sec-fetch-site", "same-origin") && from("sec-fetch-site", "none"));
        for origin in
            ["http://evil.example", "http://localhost:3000", "null", "", "http://localhost"]
        {
            assert!(!from("origin", origin), "{origin}");
        }
        assert!(!from("referer", "http://evil.example/localhost:8085"));
        assert!(!from("sec-fetch-site", "cross-site") && !from("sec-fetch-site", "same-site"));
    }

    #[test]
    fn only_callers_at_this_machines_admin_port_need_no_key() {
        let visitor = |door, is_local| Visitor { door, is_local, address: [127, 0, 0, 1].into() };
        let plain = head(&[("host", "localhost")]);
        assert!(needs_no_key(&plain, visitor(Door::Admin, true)));
        assert!(!needs_no_key(&plain, visitor(Door::Admin, false)));
        assert!(!needs_no_key(&plain, visitor(Door::Nosql, true)));
        let metrics = Request::builder().uri("/metrics").body(()).unwrap().into_parts().0;
        assert!(needs_no_key(&metrics, visitor(Door::Nosql, true)));
        assert!(!needs_no_key(&metrics, visitor(Door::Nosql, false)));
        for passed_on in ["forwarded", "via", "x-forwarded-for", "x-real-ip"] {
            let passed_on = head(&[("host", "localhost"), (passed_on, "for=10.0.0.1")]);
            assert!(!needs_no_key(&passed_on, visitor(Door::Admin, true)));
        }
    }
}
