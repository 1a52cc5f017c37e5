//! Bearer tokens of a directory (`type=aad`): which tokens are accepted, and the rights of their
//! bearers.
//!
//! By default a server has no directory and accepts the stand-in that emulators use for such
//! tokens, which carries a key of the account. With an issuer and its public keys it verifies real
//! tokens. For work on one machine it can be set to trust any token.

mod jwks;
mod jwt;

use arc_swap::ArcSwap;
use model::Timestamp;
use tokio::sync::Notify;

use crate::{Caller, Signers};

pub use jwks::{InvalidJwks, JwkSet};
use jwt::Jwt;
pub use jwt::TokenError;

/// Which tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryMode {
    /// The stand-in of emulators: a token whose signature is the text of an account key.
    StandIn,
    /// Any token of a valid form. For work on one machine.
    TrustAny,
    /// Tokens that an issuer signed.
    Verify(DirectoryRules),
}

/// The required claims of a token, and the rights it grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryRules {
    /// The required `iss` of tokens.
    pub issuer: String,
    /// One of these must be in the `aud` of a token.
    pub audiences: Vec<String>,
    /// Principals that may read and write data.
    pub contributors: Principals,
    /// Principals that may read data.
    pub readers: Principals,
}

/// Principals of a directory, by object id, subject or application id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principals {
    /// All of them.
    Everyone,
    /// The listed ones.
    Only(Vec<String>),
}

impl Principals {
    /// Parses `*`, or ids separated by commas.
    pub fn parse(text: &str) -> Self {
        let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        if ids.iter().any(|id| id == "*") { Principals::Everyone } else { Principals::Only(ids) }
    }

    fn has(&self, ids: &[&str]) -> bool {
        match self {
            Principals::Everyone => true,
            Principals::Only(known) => ids.iter().any(|id| known.iter().any(|k| k == id)),
        }
    }
}

/// A principal of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its object id, or the id used instead.
    pub id: String,
    /// Its rights on data.
    pub role: Option<Caller>,
}

/// The bearer of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// A holder of an account key, or a bearer that is trusted like one.
    Key(Caller),
    /// A principal of the directory.
    Principal(Principal),
}

/// The directory of an account.
pub struct Directory {
    mode: DirectoryMode,
    keys: ArcSwap<JwkSet>,
    unknown_key: Notify,
}

impl Directory {
    /// A directory without keys of the issuer yet.
    pub fn new(mode: DirectoryMode) -> Self {
        Self { mode, keys: ArcSwap::default(), unknown_key: Notify::new() }
    }

    /// Replaces the issuer's public keys.
    pub fn set_keys(&self, keys: JwkSet) {
        self.keys.store(keys.into());
    }

    /// Where clients can get a token; `None` if nowhere.
    pub fn authority(&self) -> Option<&str> {
        match &self.mode {
            DirectoryMode::StandIn => None,
            DirectoryMode::TrustAny => Some("https://localhost/"),
            DirectoryMode::Verify(rules) => Some(&rules.issuer),
        }
    }

    /// Waits until a client sends a token that is signed with an unknown key. Any client can do
    /// that, so the caller must limit how often it fetches new keys.
    pub async fn wait_for_unknown_key(&self) {
        self.unknown_key.notified().await;
    }

    /// Identifies the bearer of a token.
    pub fn identify(
        &self,
        token: &str,
        signers: &Signers,
        now: Timestamp,
    ) -> Result<Bearer, TokenError> {
        match &self.mode {
            DirectoryMode::StandIn => {
                signers.stand_in(token).map(Bearer::Key).ok_or(TokenError::Malformed)
            }
            DirectoryMode::TrustAny => match Jwt::parse(token) {
                Some(_) => Ok(Bearer::Key(Caller::ReadWrite)),
                None => Err(TokenError::Malformed),
            },
            DirectoryMode::Verify(rules) => self.verify(token, rules, now),
        }
    }

    fn verify(
        &self,
        token: &str,
        rules: &DirectoryRules,
        now: Timestamp,
    ) -> Result<Bearer, TokenError> {
        let jwt = Jwt::parse(token).ok_or(TokenError::Malformed)?;
        let verified = jwt.verify(&self.keys.load(), rules, now.seconds());
        let claims = verified.inspect_err(|refused| {
            if *refused == TokenError::UnknownKey {
                self.unknown_key.notify_one();
            }
        })?;
        let ids = claims.principals();
        let role = if rules.contributors.has(&ids) {
            Some(Caller::ReadWrite)
        } else {
            rules.readers.has(&ids).then_some(Caller::ReadOnly)
        };
        let id = ids.first().copied().unwrap_or_default().to_owned();
        Ok(Bearer::Principal(Principal { id, role }))
    }
}

#[cfg(test)]
mod tests;
