//! Tokens of an issuer: valid ones, and each way to be invalid.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

use super::*;
use crate::{Key, KeyRing};

const NOW: u64 = 1_700_000_000;

/// An issuer with a key of each kind. The RSA key is for tests alone.
struct Issuer {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
}

impl Issuer {
    fn new() -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let (algorithm, pkcs8) = (&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.unwrap());
        Self {
            rsa: RsaKeyPair::from_pkcs8(include_bytes!("test-issuer-rsa.pk8")).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &SystemRandom::new()).unwrap(),
        }
    }

    fn key_set(&self) -> Value {
        let rsa: PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let point = self.ec.public_key().as_ref();
        json!({"keys": [
            {"kty": "oct", "kid": "secret", "k": "AAAA"},
            {"kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256",
             "n": encode(&rsa.n), "e": encode(&rsa.e)},
            {"kty": "EC", "kid": "ec", "crv": "P-256",
             "x": encode(&point[1..33]), "y": encode(&point[33..])},
        ]})
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(claims.to_string().as_bytes())
        );
        let signature = match header["alg"].as_str() {
            Some("ES256") => {
                let signed = self.ec.sign(&SystemRandom::new(), signed.as_bytes());
                signed.unwrap().as_ref().to_vec()
            }
            _ => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa
                    .sign(
                        &RSA_PKCS1_SHA256,
                        &SystemRandom::new(),
                        signed.as_bytes(),
                        &mut signature,
                    )
                    .unwrap();
                signature
            }
        };
        format!("{signed}.{}", encode(&signature))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rules() -> DirectoryRules {
    DirectoryRules {
        issuer: "https://issuer.test/t".into(),
        audiences: vec!["https://cosmos.azure.com".into(), "https://localhost:8081".into()],
        contributors: Principals::parse("writer, app"),
        readers: Principals::parse("reader"),
    }
}

fn claims() -> Value {
    json!({"iss": "https://issuer.test/t", "aud": "https://cosmos.azure.com", "nbf": NOW - 10,
           "exp": NOW + 10, "oid": "writer", "extra": {"a": [1]}})
}

fn directory(issuer: &Issuer) -> Directory {
    let directory = Directory::new(DirectoryMode::Verify(rules()));
    directory.set_keys(JwkSet::parse(issuer.key_set().to_string().as_bytes()).unwrap());
    directory
}

fn identify(directory: &Directory, token: &str) -> Result<Bearer, TokenError> {
    let signers = Signers::new(&KeyRing::single(Key::well_known()));
    directory.identify(token, &signers, Timestamp(NOW * 1000))
}

fn principal(directory: &Directory, token: &str) -> Principal {
    match identify(directory, token) {
        Ok(Bearer::Principal(principal)) => principal,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_refused(directory: &Directory, token: &str) {
    let refused = identify(directory, token).unwrap_err();
    assert_ne!(refused, TokenError::Expired);
}

#[track_caller]
fn check_expired(directory: &Directory, token: &str) {
    assert_eq!(identify(directory, token), Err(TokenError::Expired));
}

fn rs256() -> Value {
    json!({"alg": "RS256", "typ": "JWT", "kid": "rsa"})
}

#[test]
fn both_algorithms_are_verified() {
    let issuer = Issuer::new();
    let directory = directory(&issuer);
    for header in [rs256(), json!({"alg": "ES256", "kid": "ec"}), json!({"alg": "ES256"})] {
        let token = issuer.token(&header, &claims());
        let expected = Principal { id: "writer".into(), role: Some(Caller::ReadWrite) };
        assert_eq!(principal(&directory, &token), expected, "{header}");
    }
}

#[test]
fn roles_follow_from_who_it_is() {
    let issuer = Issuer::new();
    let directory = directory(&issuer);
    let role = |changes: Value| {
        let mut claims = claims();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        principal(&directory, &issuer.token(&rs256(), &claims)).role
    };
    assert_eq!(role(json!({"oid": "reader"})), Some(Caller::ReadOnly));
    assert_eq!(role(json!({"oid": "stranger"})), None);
    assert_eq!(role(json!({"oid": "stranger", "appid": "app"})), Some(Caller::ReadWrite));
    assert_eq!(role(json!({"oid": "", "sub": "reader"})), Some(Caller::ReadOnly));
    assert_eq!(Principals::parse(" , *"), Principals::Everyone);
    assert!(!Principals::parse("").has(&["", "x"]));
}

#[test]
fn claims_must_be_right() {
    let issuer = Issuer::new();
    let directory = directory(&issuer);
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        issuer.token(&rs256(), &claims)
    };
    let several = with("aud", json!(["other", "https://localhost:8081"]));
    assert!(identify(&directory, &several).is_ok());
    assert!(identify(&directory, &with("exp", json!(NOW - 59))).is_ok(), "clocks differ");
    assert!(identify(&directory, &with("nbf", json!(NOW + 60))).is_ok(), "clocks differ");
    assert!(identify(&directory, &with("nbf", Value::Null)).is_ok());
    check_expired(&directory, &with("exp", json!(NOW - 60)));
    check_expired(&directory, &with("exp", Value::Null));
    for (name, value) in [
        ("nbf", json!(NOW + 61)),
        ("iss", json!("https://issuer.test/t/")),
        ("iss", Value::Null),
        ("aud", json!("https://cosmos.azure.com/")),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("oid", Value::Null),
        // A member of a wrong type is not the same as an absent one.
        ("exp", json!("9999999999")),
        ("nbf", json!("0")),
        ("iss", json!(["https://issuer.test/t"])),
        ("oid", json!(7)),
    ] {
        check_refused(&directory, &with(name, value));
    }
}

#[test]
fn signatures_must_be_right() {
    let issuer = Issuer::new();
    let directory = directory(&issuer);
    let token = issuer.token(&rs256(), &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let mut other = claims();
    other["oid"] = json!("admin");
    let other = encode(other.to_string().as_bytes());
    check_refused(&directory, &format!("{}.{other}.{}", parts[0], parts[2]));
    check_refused(&directory, &format!("{}.{}.", parts[0], parts[1]));
    check_refused(&directory, &format!("{}.{}", parts[0], parts[1]));
    check_refused(&directory, &format!("{token}.x"));
    check_refused(&directory, "");
    check_refused(&directory, &"a".repeat(100_000));
    // Other algorithms, keys of another kind, headers that are not supported.
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "HS256", "kid": "secret"}),
        json!({"alg": "rs256", "kid": "rsa"}),
        json!({"alg": "RS256", "kid": "ec"}),
        json!({"alg": "ES256", "kid": "rsa"}),
        json!({"alg": "RS256", "kid": "gone"}),
        json!({"alg": "RS256", "kid": "rsa", "crit": ["x"]}),
        json!({"kid": "rsa"}),
    ] {
        check_refused(&directory, &issuer.token(&header, &claims()));
    }
    let strangers = Issuer::new();
    let theirs = strangers.token(&json!({"alg": "ES256", "kid": "ec"}), &claims());
    check_refused(&directory, &theirs);
    // The stand-in of emulators is for servers without a directory.
    let key = encode(Key::well_known().expose().as_bytes());
    check_refused(&directory, &format!("{}.{}.{key}", parts[0], parts[1]));
}

#[tokio::test]
async fn an_unknown_key_is_asked_for() {
    let issuer = Issuer::new();
    let directory = Directory::new(DirectoryMode::Verify(rules()));
    let token = issuer.token(&rs256(), &claims());
    check_refused(&directory, &token);
    directory.wait_for_unknown_key().await;
    directory.set_keys(JwkSet::parse(issuer.key_set().to_string().as_bytes()).unwrap());
    assert!(identify(&directory, &token).is_ok());
}

#[test]
fn a_directory_that_trusts_anybody_wants_the_form_of_a_token() {
    let directory = Directory::new(DirectoryMode::TrustAny);
    let token = format!("{}.{}.", encode(br#"{"alg":"none"}"#), encode(b"{}"));
    assert!(matches!(identify(&directory, &token), Ok(Bearer::Key(Caller::ReadWrite))));
    check_refused(&directory, "token");
    check_refused(&directory, "a.b.c");
}

#[test]
fn key_sets_without_a_useful_key_are_refused() {
    let parse = |text: &str| JwkSet::parse(text.as_bytes());
    assert!(matches!(parse("{}"), Err(InvalidJwks::Malformed(_))));
    assert!(matches!(parse("nonsense"), Err(InvalidJwks::Malformed(_))));
    assert!(matches!(parse(r#"{"keys":[]}"#), Err(InvalidJwks::Empty)));
    for key in [
        r#"{"kty":"RSA","use":"enc","n":"AQAB","e":"AQAB"}"#,
        r#"{"kty":"RSA","alg":"PS256","n":"AQAB","e":"AQAB"}"#,
        r#"{"kty":"RSA","n":"AQAB"}"#,
        r#"{"kty":"RSA","n":"!","e":"AQAB"}"#,
        r#"{"kty":"EC","crv":"P-256","x":"AQAB","y":"AQAB"}"#,
        r#"{"kty":"EC","crv":"P-521","x":"AQAB","y":"AQAB"}"#,
        r#"{"kty":"oct","k":"AQAB"}"#,
    ] {
        let text = format!(r#"{{"keys":[{key}]}}"#);
        assert!(matches!(parse(&text), Err(InvalidJwks::Empty)), "{key}");
    }
    let many = vec![r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#; KEYS].join(",");
    assert!(matches!(parse(&format!(r#"{{"keys":[{many}]}}"#)), Err(InvalidJwks::TooMany)));
}

/// One more than a set may have.
const KEYS: usize = 101;
