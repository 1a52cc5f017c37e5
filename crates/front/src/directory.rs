//! Bearer tokens of a directory (`type=aad`): whose are accepted, and what their bearers may do.
//!
//! By itself a server knows no directory and takes the stand-in that emulators have for such
//! tokens, which carries a key of the account. Given an issuer and its public keys it verifies
//! real ones. For work on one machine it can be told to trust any.

mod jwks;
mod jwt;

use arc_swap::ArcSwap;
use model::Timestamp;
use tokio::sync::Notify;

use crate::{Caller, Signers};

pub use jwks::{InvalidJwks, JwkSet};
use jwt::Jwt;
pub use jwt::TokenError;

/// Whose tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryMode {
    /// The stand-in of emulators: a token whose signature is the text of an account key.
    StandIn,
    /// Everybody's, as long as it has the form of a token. For work on one machine.
    TrustAny,
    /// Those that an issuer signed.
    Verify(DirectoryRules),
}

/// What a token must say, and what it is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryRules {
    /// The `iss` that tokens have.
    pub issuer: String,
    /// One of these is in the `aud` of a token.
    pub audiences: Vec<String>,
    /// Who may read and write data.
    pub contributors: Principals,
    /// Who may read data.
    pub readers: Principals,
}

/// Principals of a directory, by object id, subject or application id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principals {
    /// All of them.
    Everyone,
    /// These.
    Only(Vec<String>),
}

impl Principals {
    /// Reads `*`, or ids with commas between them.
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

/// Somebody the directory knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its object id, or what stands for it.
    pub id: String,
    /// What it may do with data.
    pub role: Option<Caller>,
}

/// Who brings a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// Somebody who has a key of the account, or is trusted as if.
    Key(Caller),
    /// Somebody the directory knows.
    Principal(Principal),
}

/// The directory of an account.
pub struct Directory {
    mode: DirectoryMode,
    keys: ArcSwap<JwkSet>,
    unknown_key: Notify,
}

impl Directory {
    /// A directory whose issuer's keys are not known yet.
    pub fn new(mode: DirectoryMode) -> Self {
        Self { mode, keys: ArcSwap::default(), unknown_key: Notify::new() }
    }

    /// Replaces the issuer's public keys.
    pub fn set_keys(&self, keys: JwkSet) {
        self.keys.store(keys.into());
    }

    /// Whom clients can ask for a token; `None` if there is nobody.
    pub fn authority(&self) -> Option<&str> {
        match &self.mode {
            DirectoryMode::StandIn => None,
            DirectoryMode::TrustAny => Some("https://localhost/"),
            DirectoryMode::Verify(rules) => Some(&rules.issuer),
        }
    }

    /// Waits until somebody brings a token that is signed with an unknown key. Anybody can do
    /// that, so whoever looks for new keys then should not do it too often.
    pub async fn wait_for_unknown_key(&self) {
        self.unknown_key.notified().await;
    }

    /// Who brings a token.
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
