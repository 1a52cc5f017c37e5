//! Signatures: the published vectors, every shape of path, keys, clock skew and garbage.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;
use crate::address;

const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";
/// 2017-04-27T00:51:12Z.
const DATE_SECONDS: u64 = 1_493_254_272;

fn key(byte: u8) -> Key {
    Key::from_bytes(&[byte; 64])
}

fn ring() -> KeyRing {
    KeyRing {
        primary: Key::well_known(),
        secondary: Some(key(2)),
        primary_readonly: Some(key(3)),
        secondary_readonly: Some(key(4)),
    }
}

fn sign(key: &Key, text: &str) -> String {
    account::sign(key, text.as_bytes())
}

fn encoded(signature: &str) -> String {
    utf8_percent_encode(&format!("type=master&ver=1.0&sig={signature}"), NON_ALPHANUMERIC)
        .to_string()
}

struct Attempt<'a> {
    method: &'a str,
    path: &'a str,
    authorization: Option<String>,
    date: Option<&'a str>,
    now_seconds: u64,
    existing: &'a str,
}

fn attempt<'a>(method: &'a str, path: &'a str, signature: &str) -> Attempt<'a> {
    Attempt {
        method,
        path,
        authorization: Some(encoded(signature)),
        date: Some(DATE),
        now_seconds: DATE_SECONDS,
        existing: "",
    }
}

impl Attempt<'_> {
    fn run(self) -> Result<Caller, ApiError> {
        let segments = address::segments(self.path).unwrap();
        let mut headers = Headers::new();
        if let Some(text) = self.authorization {
            headers.add(HeaderName::Authorization, text.as_bytes());
        }
        if let Some(date) = self.date {
            headers.add(HeaderName::XmsDate, date.as_bytes());
        }
        let signed = Signed { method: self.method, segments: &segments, headers: &headers };
        let authenticator = Authenticator::new(&ring());
        let now = Timestamp(self.now_seconds * 1000);
        match authenticator.authenticate(signed, now, |n| n == self.existing)? {
            Proof::Key(caller) => Ok(caller),
            Proof::DirectoryToken(token) => {
                authenticator.0.stand_in(&token).ok_or_else(|| unauthorized("a foreign token"))
            }
            Proof::ResourceToken(_) => Err(unauthorized("not a key")),
        }
    }
}

fn check(method: &str, path: &str, signed_text: &str) {
    let text = format!("{signed_text}\n{}\n\n", DATE.to_lowercase());
    let result = attempt(method, path, &sign(&Key::well_known(), &text)).run();
    assert!(matches!(result, Ok(Caller::ReadWrite)), "{path}: {result:?}");
}

#[test]
fn published_vectors_are_accepted() {
    for (method, path, signature) in [
        ("GET", "/", "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc="),
        ("GET", "/dbs/ToDoList", "mM0rMK/7o1MZhQwDitGRoGisPRPx09os/86Jk0YwquY="),
        ("POST", "/dbs/db1/colls/c1/docs", "pTGQzKdYvdxaLYLD3NjExGL/mezZdIeS3Mak7aIS7VA="),
    ] {
        assert!(attempt(method, path, signature).run().is_ok(), "{path}");
    }
}

#[test]
fn what_our_own_clients_sign_is_accepted() {
    let now = UNIX_EPOCH + Duration::from_secs(DATE_SECONDS);
    for path in [
        "/_admin/v1/jobs",
        "/_admin/v1/jobs/7/advance",
        "/_admin/v1/containers/my%20db/c/partitions",
    ] {
        let (date, authorization) =
            super::sign(Key::well_known().expose(), "POST", path, now).unwrap();
        let attempt = Attempt {
            authorization: Some(authorization),
            date: Some(&date),
            ..attempt("POST", path, "")
        };
        assert!(attempt.run().is_ok(), "{path}");
    }
    assert!(super::sign("not base64!", "GET", "/x", now).is_none());
}

#[test]
fn type_and_link_follow_from_the_path() {
    check("GET", "/dbs", "get\ndbs\n");
    check("POST", "/dbs/", "post\ndbs\n");
    check("GET", "/dbs/My%20Db/", "get\ndbs\ndbs/My Db");
    check("GET", "/dbs/d/colls", "get\ncolls\ndbs/d");
    check("PUT", "/dbs/d/colls/C/", "put\ncolls\ndbs/d/colls/C");
    check("GET", "/dbs/d/colls/c/docs/a%2520b", "get\ndocs\ndbs/d/colls/c/docs/a%20b");
    check("GET", "/dbs/d/colls/c/pkranges", "get\npkranges\ndbs/d/colls/c");
    check("POST", "/dbs/d/colls/c/operations/partitionkeydelete", "post\ncolls\ndbs/d/colls/c");
    check("GET", "/offers", "get\noffers\n");
    check("PUT", "/offers/Ab1C/", "put\noffers\nab1c");
    check("POST", "/dbs/d/users/u/permissions", "post\npermissions\ndbs/d/users/u");
}

#[test]
fn paths_of_resource_ids_are_signed_with_the_last_one_in_lower_case() {
    check("GET", "/dbs/hLEEAA==", "get\ndbs\nhleeaa==");
    check("GET", "/dbs/hLEEAA==/colls", "get\ncolls\nhleeaa==");
    check("GET", "/dbs/hLEEAA==/colls/hLEEAI1Yjgc=/pkranges", "get\npkranges\nhleeai1yjgc=");
    check("GET", "/dbs/hLEEAA==/colls/hLEEAI1Yjgc=", "get\ncolls\nhleeai1yjgc=");
}

#[test]
fn a_name_that_looks_like_a_resource_id_is_accepted_in_both_readings() {
    let date = DATE.to_lowercase();
    for text in ["get\ndbs\ndbs/hLEEAA==", "get\ndbs\nhleeaa=="] {
        for existing in ["", "hLEEAA=="] {
            let signature = sign(&Key::well_known(), &format!("{text}\n{date}\n\n"));
            let mut attempt = attempt("GET", "/dbs/hLEEAA==", &signature);
            attempt.existing = existing;
            assert!(attempt.run().is_ok(), "{text} {existing}");
        }
    }
}

#[test]
fn each_key_grants_what_it_is_for() {
    let text = format!("get\ndbs\n\n{}\n\n", DATE.to_lowercase());
    let grants = |key: &Key| attempt("GET", "/dbs", &sign(key, &text)).run().ok();
    assert_eq!(grants(&Key::well_known()), Some(Caller::ReadWrite));
    assert_eq!(grants(&key(2)), Some(Caller::ReadWrite));
    assert_eq!(grants(&key(3)), Some(Caller::ReadOnly));
    assert_eq!(grants(&key(4)), Some(Caller::ReadOnly));
    assert_eq!(grants(&key(9)), None);
}

#[test]
fn a_wrong_signature_is_told_what_the_server_signed() {
    let error = attempt("GET", "/dbs/x", &sign(&key(9), "whatever")).run().unwrap_err();
    assert_eq!(error.status(), 401);
    let payload = format!("'get\ndbs\ndbs/x\n{}\n\n'", DATE.to_lowercase());
    assert!(error.message().contains("The input authorization token can't serve the request."));
    assert!(error.message().contains(&payload), "{}", error.message());
}

#[test]
fn a_wrong_key_is_told_the_fingerprints_of_the_right_ones() {
    let error = attempt("GET", "/dbs/x", &sign(&key(9), "whatever")).run().unwrap_err();
    for of in [Key::well_known(), key(2), key(3), key(4)] {
        let (short, whole) = (of.short_fingerprint(), of.fingerprint());
        assert!(error.message().contains(&short), "{}", error.message());
        // The full text is only for callers with a valid signature.
        assert!(!error.message().contains(&whole), "{}", error.message());
    }
    assert!(error.message().contains("the emulator's well-known key"), "{}", error.message());
    assert!(error.message().contains("planisphere keys show"), "{}", error.message());
}

#[test]
fn missing_and_malformed_headers_are_refused() {
    let mut missing = attempt("GET", "/dbs", "");
    missing.authorization = None;
    let error = missing.run().unwrap_err();
    assert_eq!(error.status(), 401);
    assert!(error.message().contains("Required Header authorization is missing"));

    for text in ["", "garbage", "type=master", "type=master&ver=2.0&sig=AAAA", "Basic abc="] {
        let mut garbled = attempt("GET", "/dbs", "");
        garbled.authorization = Some(text.to_owned());
        assert_eq!(garbled.run().unwrap_err().status(), 401, "{text}");
    }

    let mut undated = attempt("GET", "/dbs", "AAAA");
    undated.date = None;
    let error = undated.run().unwrap_err();
    assert_eq!(error.status(), 401);
    assert!(error.message().contains("mandates Date header"));
}

#[test]
fn a_date_header_counts_in_its_own_slot() {
    let text = format!("get\ndbs\n\n\n{}\n", DATE.to_lowercase());
    let mut headers = Headers::new();
    let authorization = encoded(&sign(&Key::well_known(), &text));
    headers.add(HeaderName::Authorization, authorization.as_bytes());
    headers.add(HeaderName::Date, DATE.as_bytes());
    let segments = address::segments("/dbs").unwrap();
    let signed = Signed { method: "GET", segments: &segments, headers: &headers };
    let result =
        Authenticator::new(&ring()).authenticate(signed, Timestamp(DATE_SECONDS * 1000), |_| false);
    assert!(result.is_ok(), "{result:?}");
}

#[test]
fn a_date_beyond_a_quarter_of_an_hour_is_forbidden() {
    let text = format!("get\ndbs\n\n{}\n\n", DATE.to_lowercase());
    let signature = sign(&Key::well_known(), &text);
    let at = |now_seconds| {
        let attempt = Attempt { now_seconds, ..attempt("GET", "/dbs", &signature) };
        attempt.run().map_err(|e| e.status())
    };
    assert_eq!(at(DATE_SECONDS + 900), Ok(Caller::ReadWrite));
    assert_eq!(at(DATE_SECONDS - 900), Ok(Caller::ReadWrite));
    assert_eq!(at(DATE_SECONDS + 901), Err(403));
    assert_eq!(at(DATE_SECONDS - 901), Err(403));
    for (now_seconds, words) in [
        (DATE_SECONDS + 3_600, "3600 s behind the server's clock"),
        (DATE_SECONDS - 7_200, "7200 s ahead of the server's clock"),
    ] {
        let attempt = Attempt { now_seconds, ..attempt("GET", "/dbs", &signature) };
        let error = attempt.run().unwrap_err();
        assert!(error.message().contains(words), "{}", error.message());
        assert!(error.message().contains("check the clocks"), "{}", error.message());
    }
}

#[test]
fn a_signed_date_that_is_no_date_is_refused() {
    let signature = sign(&Key::well_known(), "get\ndbs\n\nyesterday\n\n");
    let mut attempt = attempt("GET", "/dbs", &signature);
    attempt.date = Some("yesterday");
    assert_eq!(attempt.run().unwrap_err().status(), 401);
}

#[test]
fn the_emulator_directory_token_is_the_key_itself() {
    let token = |key: &Key| {
        let signature = URL_SAFE_NO_PAD.encode(key.expose());
        format!("type=aad&ver=1.0&sig=eyJhIjoxfQ.eyJhIjoxfQ.{signature}")
    };
    let grants = |text: String| {
        let mut attempt = attempt("GET", "/dbs", "");
        attempt.authorization = Some(text);
        attempt.run().ok()
    };
    assert_eq!(grants(token(&Key::well_known())), Some(Caller::ReadWrite));
    assert_eq!(grants(token(&key(3))), Some(Caller::ReadOnly));
    assert_eq!(grants(token(&key(9))), None);
    assert_eq!(grants("type=aad&ver=1.0&sig=a.b".into()), None);
}

proptest! {
    #[test]
    fn no_authorization_header_panics(text in "(type|ver|sig|=|&|%|master|aad|1.0|\\PC){0,30}") {
        let _ = parse_authorization(&text);
    }
}
