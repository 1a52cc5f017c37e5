//! Authentication and authorization.
//!
//! With a key of the account a caller may do all that the key allows. Callers on this machine need
//! no key for the admin port, nor for the metrics on both ports, as long as the account's key is
//! the emulator's well-known one, which is not secret.
//!
//! A browser on this machine is such a caller too; requests that it sends for pages of other sites
//! are refused earlier ([`crate::origins`]).

use account::Caller;
use api_nosql::{Denied, Service};
use hyper::header::{FORWARDED, HeaderName, VIA};
use hyper::http::request::Parts;

use super::is_read;
use super::reply::AdminError;
use super::routes::METRICS;
use crate::listen::Peer;

/// Headers that proxies add, so the peer's address is not that of the caller.
const PASSED_ON: [HeaderName; 4] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// Refuses a request that its sender may not make.
pub(super) fn check(service: &Service, head: &Parts, peer: Peer) -> Result<(), AdminError> {
    // Keys can be replaced while the server runs.
    let is_key_public = service.is_key_public();
    let caller = match service.authenticate(head) {
        Ok(Some(caller)) => caller,
        Ok(None) if is_key_public && needs_no_key(head, peer) => Caller::ReadWrite,
        Ok(None) => return Err(AdminError::unauthorized(MISSING_KEY.to_owned())),
        Err(Denied { status: 403, message }) => return Err(AdminError::forbidden(message)),
        Err(Denied { message, .. }) => return Err(AdminError::unauthorized(message)),
    };
    if caller == Caller::ReadOnly && !is_read(&head.method) {
        return Err(AdminError::forbidden("A read-only key may only read.".to_owned()));
    }
    Ok(())
}

/// Whether a caller that could only use the well-known key may omit it.
fn needs_no_key(head: &Parts, peer: Peer) -> bool {
    let is_passed_on = PASSED_ON.iter().any(|name| head.headers.contains_key(name));
    let is_open = peer.listener.trusts_machine || head.uri.path() == METRICS;
    peer.is_local && is_open && !is_passed_on
}

const MISSING_KEY: &str = "A key of the account is needed: send 'Authorization: Bearer KEY', or a \
                           signature as requests to the NoSQL API have it.";

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

    #[test]
    fn only_callers_at_this_machines_admin_port_need_no_key() {
        let peer = |name, is_local| {
            let listener = crate::listen::named(name).unwrap();
            Peer { listener, is_local, address: [127, 0, 0, 1].into() }
        };
        let plain = head(&[("host", "localhost")]);
        assert!(needs_no_key(&plain, peer("admin", true)));
        assert!(!needs_no_key(&plain, peer("admin", false)));
        assert!(!needs_no_key(&plain, peer("nosql", true)));
        let metrics = Request::builder().uri("/metrics").body(()).unwrap().into_parts().0;
        assert!(needs_no_key(&metrics, peer("nosql", true)));
        assert!(!needs_no_key(&metrics, peer("nosql", false)));
        for passed_on in ["forwarded", "via", "x-forwarded-for", "x-real-ip"] {
            let passed_on = head(&[("host", "localhost"), (passed_on, "for=10.0.0.1")]);
            assert!(!needs_no_key(&passed_on, peer("admin", true)));
        }
    }
}
