//! Signatures with a key of the account, over parts of the request.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName};
use model::{Timestamp, limits};

use crate::errors::TableError;
use crate::headers::name;

/// An `Authorization` of `SharedKey` or `SharedKeyLite`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SharedKey<'h> {
    pub(crate) account: &'h str,
    pub(crate) signature: Vec<u8>,
    pub(crate) is_lite: bool,
}

impl<'h> SharedKey<'h> {
    /// Parses the value of the header; `None` if it is of another scheme.
    pub(crate) fn parse(text: &'h str) -> Option<Result<Self, TableError>> {
        let (scheme, rest) = text.trim().split_once(' ')?;
        let is_lite = match scheme {
            "SharedKey" => false,
            "SharedKeyLite" => true,
            _ => return None,
        };
        let read = || {
            let (account, signature) = rest.trim().split_once(':')?;
            let signature = STANDARD.decode(signature).ok()?;
            Some(Self { account, signature, is_lite })
        };
        Some(read().ok_or_else(TableError::invalid_authentication))
    }
}

/// The parts of a request that are signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'r> {
    pub(crate) method: &'r Method,
    /// As received, with its escapes.
    pub(crate) path: &'r str,
    /// The value of `comp`, if present.
    pub(crate) comp: Option<&'r str>,
    pub(crate) headers: &'r HeaderMap,
}

impl Signed<'_> {
    /// The texts that may have been signed. For the secondary there are several, because clients
    /// disagree on whose path is signed.
    pub(crate) fn payloads(&self, key: &SharedKey<'_>, is_secondary: bool) -> Vec<String> {
        // Without a date an empty line is signed; whether that is allowed is checked later.
        let date = self.date().unwrap_or_default();
        let mut paths = vec![self.path.to_owned()];
        // Some clients add a slash to the path after signing it.
        paths.extend(self.path.strip_suffix('/').map(str::to_owned));
        if is_secondary {
            paths.push(self.path.replacen("-secondary", "", 1));
            let below_first = self.path.get(1..).and_then(|path| path.find('/'));
            paths.extend(below_first.and_then(|at| self.path.get(at + 1..)).map(str::to_owned));
        }
        let account = key.account.strip_suffix("-secondary").unwrap_or(key.account);
        paths.iter().map(|path| self.payload(key.is_lite, account, date, path)).collect()
    }

    fn payload(&self, is_lite: bool, account: &str, date: &str, path: &str) -> String {
        let mut out = String::with_capacity(128 + path.len());
        if !is_lite {
            for part in [
                self.method.as_str(),
                self.text(&name::CONTENT_MD5).unwrap_or_default(),
                self.text(&CONTENT_TYPE).unwrap_or_default(),
            ] {
                out.push_str(part);
                out.push('\n');
            }
        }
        for part in [date, "\n/", account, path] {
            out.push_str(part);
        }
        if let Some(comp) = self.comp {
            out.push_str("?comp=");
            out.push_str(comp);
        }
        out
    }

    fn text(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn date(&self) -> Option<&str> {
        self.text(&name::XMS_DATE).or_else(|| self.text(&DATE))
    }

    /// Refuses a signature whose date differs too much from the current time.
    pub(crate) fn check_date(&self, now: Timestamp) -> Result<(), TableError> {
        let date = self.date().and_then(|text| httpdate::parse_http_date(text.trim()).ok());
        let date = date.ok_or_else(TableError::not_authenticated)?;
        let now = UNIX_EPOCH + Duration::from_millis(now.0);
        let apart = now.duration_since(date).unwrap_or_else(|e| e.duration());
        if apart <= limits::SIGNED_DATE_SKEW_MAX {
            return Ok(());
        }
        Err(TableError::not_authenticated_since(&format!(
            "The date that was signed ({}) is more than {} minutes from the server's time ({}): \
             check the clocks of both machines.",
            httpdate::fmt_http_date(date),
            limits::SIGNED_DATE_SKEW_MAX.as_secs() / 60,
            httpdate::fmt_http_date(now),
        )))
    }
}

#[cfg(test)]
mod tests {
    use account::{Key, KeyRing, Signers};
    use hyper::header::HeaderValue;

    use super::*;

    const DATE_TEXT: &str = "Sun, 15 Nov 2026 08:33:40 GMT";

    fn is_good(
        header: &str,
        method: Method,
        content_type: &'static str,
        path: &str,
        comp: Option<&str>,
    ) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(name::XMS_DATE, HeaderValue::from_static(DATE_TEXT));
        if !content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let key = SharedKey::parse(header).unwrap().unwrap();
        let signed = Signed { method: &method, path, comp, headers: &headers };
        let key_text = crate::DEVELOPMENT_KEY;
        let signers = Signers::new(&KeyRing::single(Key::parse(key_text).unwrap()));
        let is_secondary = path.contains("-secondary");
        let payloads = signed.payloads(&key, is_secondary);
        payloads.iter().any(|p| signers.signer_of(p.as_bytes(), &key.signature).is_some())
    }

    #[test]
    fn known_signatures_are_recognised() {
        let json = "application/json;odata=nometadata";
        let shared = |signature: &str| format!("SharedKey devstoreaccount1:{signature}");
        let create = shared("gCfhf9ED7cLDYnhhhzZDuuHkD8dC1uAzAFcrrN+5D2M=");
        assert!(is_good(&create, Method::POST, json, "/devstoreaccount1/Tables", None));
        let get = shared("Mhk25I1SEPURZ4wDaGJpX/rFlA8Y9qDTsNGEQ1QP3Ig=");
        let path = "/devstoreaccount1/demo(PartitionKey='p%27%271',RowKey='r%201')";
        assert!(is_good(&get, Method::GET, "", path, None));
        let acl = shared("Rtz/PmrVw+WKLPqlRM8Jpt9ArVR9ti43TYfugC2VUW0=");
        let xml = "application/xml";
        assert!(is_good(&acl, Method::PUT, xml, "/devstoreaccount1/demo", Some("acl")));
        assert!(!is_good(&acl, Method::PUT, xml, "/devstoreaccount1/demo", None));
        assert!(!is_good(&acl, Method::GET, xml, "/devstoreaccount1/demo", Some("acl")));
        let lite = "SharedKeyLite devstoreaccount1:x1n8NlDuqMozH58ETl3cPtq9CGtacnsxApG23elSoXQ=";
        assert!(is_good(lite, Method::GET, "", "/devstoreaccount1/Tables", None));
        let cosmos = "SharedKey localhost:msrP6uVymQyWBsvSLm2BsZAhZPfEtbT2QiXXPgJzp3M=";
        assert!(is_good(cosmos, Method::POST, "application/json", "/Tables", None));
    }

    #[test]
    fn the_secondary_may_be_signed_as_the_primary() {
        // Signed over /devstoreaccount1/Tables.
        let lite = "SharedKeyLite devstoreaccount1:x1n8NlDuqMozH58ETl3cPtq9CGtacnsxApG23elSoXQ=";
        for path in [
            "/devstoreaccount1-secondary/Tables",
            "/devstoreaccount1-secondary/devstoreaccount1/Tables",
        ] {
            assert!(is_good(lite, Method::GET, "", path, None), "{path}");
        }
    }

    #[test]
    fn a_clock_that_is_off_is_told_both_times() {
        let mut headers = HeaderMap::new();
        headers.insert(name::XMS_DATE, HeaderValue::from_static(DATE_TEXT));
        let signed = Signed { method: &Method::GET, path: "/", comp: None, headers: &headers };
        let date = httpdate::parse_http_date(DATE_TEXT).unwrap();
        let millis = u64::try_from(date.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
        assert!(signed.check_date(Timestamp(millis + 900_000)).is_ok());
        let refused = signed.check_date(Timestamp(millis + 3_600_000)).unwrap_err();
        let message = refused.message.as_ref();
        assert!(message.contains(DATE_TEXT) && message.contains("09:33:40 GMT"), "{message}");
        assert!(message.contains("check the clocks"), "{message}");
    }

    #[test]
    fn other_headers_are_malformed_or_of_another_scheme() {
        assert!(SharedKey::parse("Bearer abc").is_none());
        assert!(SharedKey::parse("garbage").is_none());
        for bad in ["SharedKey a", "SharedKey a:!", "SharedKeyLite :"] {
            let parsed = SharedKey::parse(bad).unwrap();
            assert!(parsed.is_err() || parsed.unwrap().signature.is_empty(), "{bad}");
        }
    }
}
