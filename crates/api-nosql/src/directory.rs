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

use crate::Caller;
use crate::access::{Identity, Principal};
use crate::auth::{Authenticator, unauthorized};
use crate::errors::ApiError;

pub use jwks::{InvalidJwks, JwkSet};
use jwt::{Jwt, Refused};

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

/// The directory of an account.
pub struct Directory {
    mode: DirectoryMode,
    keys: ArcSwap<JwkSet>,
    wanted: Notify,
}

impl Directory {
    /// A directory whose issuer's keys are not known yet.
    pub fn new(mode: DirectoryMode) -> Self {
        Self { mode, keys: ArcSwap::default(), wanted: Notify::new() }
    }

    /// Replaces the issuer's public keys.
    pub fn set_keys(&self, keys: JwkSet) {
        self.keys.store(keys.into());
    }

    /// Waits until somebody brings a token that is signed with an unknown key. Anybody can do
    /// that, so whoever looks for new keys then should not do it too often.
    pub async fn keys_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Who brings a token.
    pub(crate) fn identify(
        &self,
        token: &str,
        authenticator: &Authenticator,
        now: Timestamp,
    ) -> Result<Identity, ApiError> {
        match &self.mode {
            DirectoryMode::StandIn => {
                let caller = authenticator.stand_in(token).map(Identity::Key);
                caller.ok_or_else(|| unauthorized(NOT_ACCEPTED))
            }
            DirectoryMode::TrustAny => match Jwt::parse(token) {
                Some(_) => Ok(Identity::Key(Caller::ReadWrite)),
                None => Err(unauthorized(NOT_ACCEPTED)),
            },
            DirectoryMode::Verify(rules) => self.verify(token, rules, now),
        }
    }

    fn verify(
        &self,
        token: &str,
        rules: &DirectoryRules,
        now: Timestamp,
    ) -> Result<Identity, ApiError> {
        let jwt = Jwt::parse(token).ok_or_else(|| unauthorized(NOT_ACCEPTED))?;
        let verified = jwt.verify(&self.keys.load(), rules, now.seconds());
        let claims = verified.map_err(|refused| match refused {
            Refused::Expired => ApiError::directory_token_expired(),
            Refused::UnknownKey => {
                self.wanted.notify_one();
                unauthorized("The token is signed with a key that the directory does not have.")
            }
            Refused::Algorithm => unauthorized("The token must be signed with RS256 or ES256."),
            Refused::Signature => unauthorized("The signature of the token does not fit."),
            Refused::NotYet => unauthorized("The token is not valid yet."),
            Refused::Issuer => unauthorized("The token is of another issuer."),
            Refused::Audience => unauthorized("The token is for another audience."),
            Refused::NoPrincipal => unauthorized("The token names no principal."),
        })?;
        let ids = claims.principals();
        let role = if rules.contributors.has(&ids) {
            Some(Caller::ReadWrite)
        } else {
            rules.readers.has(&ids).then_some(Caller::ReadOnly)
        };
        let id = ids.first().copied().unwrap_or_default().to_owned();
        Ok(Identity::Principal(Box::new(Principal { id, role })))
    }
}

const NOT_ACCEPTED: &str = "The directory token is not one that this server accepts.";

#[cfg(test)]
mod tests;
