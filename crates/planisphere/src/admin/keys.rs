//! The account's keys: list and regenerate.

use account::{Key, KeyKind};
use tracing::error;

use super::Admin;
use super::reply::{AdminError, Reply};
use super::request::Request;
use super::types::{KeyInfo, KeyRequest, Keys, NewKey};

impl Admin {
    /// `GET /_admin/v1/keys`: fingerprints that identify keys, never the keys. A holder of one key
    /// must not get others with it, which would stay valid after that key is replaced.
    pub(super) fn list_keys(&self) -> Reply {
        let ring = self.keys.ring();
        let shown = |kind: KeyKind| KeyInfo {
            key_kind: kind.name().to_owned(),
            fingerprint: ring.get(kind).map(Key::fingerprint),
            well_known: ring.get(kind).is_some_and(Key::is_well_known),
        };
        Reply::ok(&Keys { keys: KeyKind::ALL.into_iter().map(shown).collect() })
    }

    /// `POST /_admin/v1/keys/regenerate`
    pub(super) fn regenerate_key(&self, request: &Request) -> Result<Reply, AdminError> {
        let params: KeyRequest = request.json()?;
        let kind = KeyKind::parse(&params.key_kind).ok_or_else(|| {
            let names: Vec<_> = KeyKind::ALL.iter().map(|kind| kind.name()).collect();
            AdminError::bad_request(format!("'keyKind' is one of {}.", names.join(", ")))
        })?;
        let random = self.engine.components().random.as_ref();
        let (key, kept) = self.keys.regenerate(kind, random).map_err(|error| {
            error!(error = format!("{error:#}"), "a new key could not be stored");
            AdminError::internal()
        })?;
        let key = key.expose().to_owned();
        Ok(Reply::ok(&NewKey { key_kind: kind.name().to_owned(), key, kept }))
    }
}
