//! Signed JSON Web Tokens (RFC 7519), as far as directories use them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::DirectoryRules;
use super::jwks::{Algorithm, JwkSet};

/// Longer than any token of a directory; headers are not much longer either.
const TOKEN_BYTES_MAX: usize = 32 << 10;
/// How far the clocks of issuer and server may be apart.
const LEEWAY_S: u64 = 60;

/// A parsed token, not verified yet.
pub(super) struct Jwt<'t> {
    header: Header,
    claims: Claims,
    /// Header and claims in their signed form.
    signed: &'t str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Names of headers that a verifier must understand; this one supports none.
    crit: Option<serde_json::Value>,
}

/// The claims of a token. Members of another type than these make it malformed.
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    oid: Option<String>,
    sub: Option<String>,
    appid: Option<String>,
    azp: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no token, or not of an accepted kind.
    #[error("The directory token is not one that this server accepts.")]
    Malformed,
    /// It is signed with an unsupported algorithm.
    #[error("The token must be signed with RS256 or ES256.")]
    Algorithm,
    /// There is no key to verify it with.
    #[error("The token is signed with a key that the directory does not have.")]
    UnknownKey,
    /// The issuer did not sign it.
    #[error("The signature of the token does not fit.")]
    Signature,
    /// It has expired.
    #[error("The token of the directory has expired.")]
    Expired,
    /// It is not valid yet.
    #[error("The token is not valid yet.")]
    NotYet,
    /// It is from an unknown issuer.
    #[error("The token is of another issuer.")]
    Issuer,
    /// It is for another audience.
    #[error("The token is for another audience.")]
    Audience,
    /// It names no principal.
    #[error("The token names no principal.")]
    NoPrincipal,
}

impl<'t> Jwt<'t> {
    /// Parses a token; `None` if it is malformed.
    pub(super) fn parse(token: &'t str) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        Some(Self {
            header: serde_json::from_slice(&decode(header)?).ok()?,
            claims: serde_json::from_slice(&decode(claims)?).ok()?,
            signed,
            signature: decode(signature)?,
        })
    }

    /// Its claims, if one of `keys` signed it and it satisfies `rules`.
    pub(super) fn verify(
        self,
        keys: &JwkSet,
        rules: &DirectoryRules,
        now: u64,
    ) -> Result<Claims, TokenError> {
        let algorithm = match (self.header.alg.as_str(), &self.header.crit) {
            ("RS256", None) => Algorithm::RS256,
            ("ES256", None) => Algorithm::ES256,
            _ => return Err(TokenError::Algorithm),
        };
        let kid = self.header.kid.as_deref();
        match keys.verify(kid, algorithm, self.signed.as_bytes(), &self.signature) {
            None => return Err(TokenError::UnknownKey),
            Some(false) => return Err(TokenError::Signature),
            Some(true) => {}
        }
        self.claims.check(rules, now)?;
        Ok(self.claims)
    }
}

impl Claims {
    fn check(&self, rules: &DirectoryRules, now: u64) -> Result<(), TokenError> {
        // Times are far below the values at which doubles skip integers.
        let (earliest, latest) =
            (now.saturating_sub(LEEWAY_S) as f64, now.saturating_add(LEEWAY_S) as f64);
        if !self.exp.is_some_and(|exp| exp > earliest) {
            return Err(TokenError::Expired);
        }
        if self.nbf.is_some_and(|nbf| nbf > latest) {
            return Err(TokenError::NotYet);
        }
        if self.iss.as_deref() != Some(rules.issuer.as_str()) {
            return Err(TokenError::Issuer);
        }
        let is_wanted = |audience: &String| rules.audiences.contains(audience);
        let is_for_us = match &self.aud {
            Some(Audience::One(audience)) => is_wanted(audience),
            Some(Audience::Several(audiences)) => audiences.iter().any(is_wanted),
            None => false,
        };
        if !is_for_us {
            return Err(TokenError::Audience);
        }
        if self.principals().is_empty() { Err(TokenError::NoPrincipal) } else { Ok(()) }
    }

    /// The ids of its bearer, the one to show first.
    pub(super) fn principals(&self) -> Vec<&str> {
        let ids = [&self.oid, &self.sub, &self.appid, &self.azp];
        ids.into_iter().flatten().map(String::as_str).filter(|id| !id.is_empty()).collect()
    }
}
