//! Bearer tokens of a directory whose issuer runs in the test.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use testkit::http::{Request, Response};
use testkit::server::TestServer;

use crate::support::{TIMEOUT, connect, fill, in_memory, run, stderr_of};

const ISSUER: &str = "https://issuer.test/tenant";

struct Issuer {
    id: &'static str,
    key: EcdsaKeyPair,
}

impl Issuer {
    fn new(id: &'static str) -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self { id, key: EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap() }
    }

    fn key_set(&self) -> String {
        let point = self.key.public_key().as_ref();
        json!({"keys": [{"kty": "EC", "kid": self.id, "crv": "P-256",
            "x": encode(&point[1..33]), "y": encode(&point[33..])}]})
        .to_string()
    }

    /// The authorization header for a principal whose token expires in `seconds`.
    #[expect(clippy::disallowed_methods, reason = "the server compares with the real time")]
    fn authorization(&self, principal: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let header = json!({"alg": "ES256", "kid": self.id}).to_string();
        let claims = json!({"iss": ISSUER, "aud": "https://cosmos.azure.com", "oid": principal,
            "nbf": now - 100, "exp": now.saturating_add_signed(seconds)});
        let signed =
            format!("{}.{}", encode(header.as_bytes()), encode(claims.to_string().as_bytes()));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("type=aad&ver=1.0&sig={signed}.{}", encode(signature.as_ref()))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn verifying(jwks: &str) -> TestServer {
    in_memory(&[
        "--directory",
        "verify",
        "--directory-issuer",
        ISSUER,
        "--directory-audience",
        "https://cosmos.azure.com",
        "--directory-jwks",
        jwks,
        "--directory-contributors",
        "writer",
        "--directory-readers",
        "reader, auditor",
    ])
}

fn ask(
    server: &TestServer,
    authorization: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Response {
    let request = Request::new(method, path)
        .header("authorization", authorization)
        .header("x-ms-version", "2020-07-15")
        .header("content-type", "application/json")
        .header("x-ms-documentdb-partitionkey", r#"["k1"]"#);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    request.body(body).send(&mut connect(server)).unwrap()
}

#[test]
fn tokens_of_the_issuer_are_good_for_data() {
    let dir = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("one");
    let file = dir.path().join("keys.json");
    std::fs::write(&file, issuer.key_set()).unwrap();
    let server = verifying(file.to_str().unwrap());
    fill(&server);
    let docs = "/dbs/shop/colls/orders/docs";
    let item = json!({"id": "new", "pk": "k1"});
    let writer = issuer.authorization("writer", 600);
    let reader = issuer.authorization("reader", 600);
    for token in [&writer, &reader] {
        for path in ["/", "/dbs/shop", "/dbs/shop/colls/orders", &format!("{docs}/1")] {
            assert_eq!(ask(&server, token, "GET", path, &Value::Null).status, 200, "{path}");
        }
    }
    assert_eq!(ask(&server, &writer, "POST", docs, &item).status, 201);
    let stranger = issuer.authorization("stranger", 600);
    for (token, method, path) in [
        (&reader, "POST", docs),
        (&reader, "DELETE", "/dbs/shop/colls/orders/docs/1"),
        (&writer, "POST", "/dbs"),
        (&writer, "DELETE", "/dbs/shop"),
        (&writer, "DELETE", "/dbs/shop/colls/orders"),
        (&writer, "GET", "/offers"),
        (&writer, "GET", "/dbs/shop/users"),
        (&stranger, "GET", "/dbs/shop"),
    ] {
        let answer = ask(&server, token, method, path, &item);
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        assert_eq!(answer.header("x-ms-substatus"), Some("5300"), "{method} {path}");
        assert!(answer.text().contains("RBAC permissions"), "{}", answer.text());
    }
    let expired = ask(&server, &issuer.authorization("writer", -90), "GET", "/", &Value::Null);
    assert_eq!((expired.status, expired.header("x-ms-substatus")), (401, Some("5006")));
    let theirs = Issuer::new("one").authorization("writer", 600);
    assert_eq!(ask(&server, &theirs, "GET", "/", &Value::Null).status, 401);
    // The tokens are valid for data only.
    let admin = Request::new("GET", "/_admin/v1/containers").header("authorization", &writer);
    assert_eq!(admin.send(&mut connect(&server)).unwrap().status, 403);
    let log = server.stderr();
    assert!(log.contains("principal stranger") && !log.contains(&writer[30..]), "{log}");
}

/// An issuer's web server, whose answer can be changed.
#[expect(clippy::disallowed_methods, reason = "a server of the test's own takes a thread")]
fn publish(keys: &Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let keys = Arc::clone(keys);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let body = keys.lock().unwrap().clone();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn new_keys_of_the_issuer_are_found_when_they_are_used() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let keys = Arc::new(Mutex::new(old.key_set()));
    let server = verifying(&publish(&keys));
    let status = |issuer: &Issuer| {
        ask(&server, &issuer.authorization("reader", 600), "GET", "/", &Value::Null).status
    };
    assert_eq!(status(&old), 200);
    *keys.lock().unwrap() = new.key_set();
    let deadline = Instant::now() + 2 * TIMEOUT;
    while status(&new) != 200 {
        assert!(Instant::now() < deadline, "the new key was not found: {}", server.stderr());
    }
    assert_eq!(status(&old), 401);
}

#[test]
fn a_server_can_be_told_to_trust_any_token_on_loopback() {
    let server = in_memory(&["--directory", "trust-any"]);
    let token =
        format!("type=aad&ver=1.0&sig={}.{}.eA", encode(b"{\"alg\":\"none\"}"), encode(b"{}"));
    assert_eq!(ask(&server, &token, "POST", "/dbs", &json!({"id": "d"})).status, 201);
    assert_eq!(ask(&server, "type=aad&ver=1.0&sig=x", "GET", "/dbs", &Value::Null).status, 401);
    let arguments =
        ["serve", "--memory", "--ports", "auto", "--bind", "0.0.0.0", "--directory", "trust-any"];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_of(&output).contains("loopback only"), "{}", stderr_of(&output));
    let output = run(&["serve", "--memory", "--directory", "verify"]);
    assert!(stderr_of(&output).contains("needs directory.issuer"), "{}", stderr_of(&output));
}

#[test]
fn keys_are_refused_where_only_the_directory_counts() {
    let server = in_memory(&["--local-auth", "off", "--directory", "trust-any"]);
    let key = server.key();
    let signed = |method: &str, path: &str, kind: &str| {
        let request = Request::new(method, path).header("x-ms-version", "2020-07-15");
        request.signed(key, kind, "").send(&mut connect(&server)).unwrap()
    };
    for answer in [signed("GET", "/", ""), signed("GET", "/dbs", "dbs")] {
        assert_eq!((answer.status, answer.header("x-ms-substatus")), (401, Some("5202")));
        assert!(answer.text().contains("Local Authorization is disabled"), "{}", answer.text());
    }
    let token = "type=resource&ver=1&sig=x;y;";
    let answer = ask(&server, token, "GET", "/dbs", &Value::Null);
    assert_eq!((answer.status, answer.header("x-ms-substatus")), (401, Some("5202")));
    let wrong = Request::new("GET", "/dbs").signed("d3Jvbmc=", "dbs", "");
    let wrong = wrong.header("x-ms-version", "2020-07-15").send(&mut connect(&server)).unwrap();
    assert_eq!((wrong.status, wrong.header("x-ms-substatus")), (401, None));
    let token =
        format!("type=aad&ver=1.0&sig={}.{}.eA", encode(b"{\"alg\":\"none\"}"), encode(b"{}"));
    assert_eq!(ask(&server, &token, "GET", "/dbs", &Value::Null).status, 200);
}
