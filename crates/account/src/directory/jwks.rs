//! The public keys of an issuer, as a JSON Web Key Set (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// Most keys of a set; issuers have a handful.
const KEYS_MAX: usize = 100;

/// The keys of an issuer that can verify signatures.
#[derive(Clone, Debug, Default)]
pub struct JwkSet {
    keys: Vec<Jwk>,
}

/// The text is no key set.
#[derive(Debug, thiserror::Error)]
pub enum InvalidJwks {
    /// Not the documented JSON.
    #[error("it is not a JSON Web Key Set: {0}")]
    Malformed(#[from] serde_json::Error),
    /// No key that can verify a token.
    #[error("it has no RSA or P-256 key for signatures")]
    Empty,
    /// More keys than an issuer needs.
    #[error("it has more than {KEYS_MAX} keys")]
    TooMany,
}

/// The algorithms that tokens can be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Algorithm {
    RS256,
    ES256,
}

/// A public key.
#[derive(Clone, Debug)]
struct Jwk {
    id: Option<String>,
    key: PublicKey,
}

#[derive(Clone, Debug)]
enum PublicKey {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256([u8; 65]),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<KeyDocument>,
}

#[derive(Deserialize)]
struct KeyDocument {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl JwkSet {
    /// Parses a key set. Leaves out keys that are not for signatures, and kinds of keys that are
    /// not supported.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidJwks> {
        let document: Document = serde_json::from_slice(text)?;
        if document.keys.len() > KEYS_MAX {
            return Err(InvalidJwks::TooMany);
        }
        let keys: Vec<Jwk> = document.keys.into_iter().filter_map(Jwk::read).collect();
        if keys.is_empty() { Err(InvalidJwks::Empty) } else { Ok(Self { keys }) }
    }

    /// Whether a key that matches the token's key id signed `message`; `None` if there is no such
    /// key.
    pub(super) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let is_meant = |key: &&Jwk| {
            key.key.algorithm() == algorithm && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        let mut meant = self.keys.iter().filter(is_meant).peekable();
        meant.peek()?;
        Some(meant.any(|key| key.key.has_signed(message, signature)))
    }
}

impl Jwk {
    fn read(document: KeyDocument) -> Option<Self> {
        let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        if document.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let key = match (document.kty.as_str(), document.crv.as_deref()) {
            ("RSA", _) => PublicKey::Rsa { n: bytes(document.n)?, e: bytes(document.e)? },
            ("EC", Some("P-256")) => {
                let mut point = [0x04; 65];
                let (x, y) = (bytes(document.x)?, bytes(document.y)?);
                if (x.len(), y.len()) != (32, 32) {
                    return None;
                }
                point[1..33].copy_from_slice(&x);
                point[33..].copy_from_slice(&y);
                PublicKey::P256(point)
            }
            _ => return None,
        };
        let name = match key.algorithm() {
            Algorithm::RS256 => "RS256",
            Algorithm::ES256 => "ES256",
        };
        let fits = document.alg.is_none_or(|alg| alg == name);
        fits.then_some(Self { id: document.kid, key })
    }
}

impl PublicKey {
    /// The only algorithm that the key is used with: the token must not choose another.
    fn algorithm(&self) -> Algorithm {
        match self {
            PublicKey::Rsa { .. } => Algorithm::RS256,
            PublicKey::P256(_) => Algorithm::ES256,
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            PublicKey::Rsa { n, e } => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            PublicKey::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
        }
    }
}
