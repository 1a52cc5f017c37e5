//! Resource tokens: signed statements that their holder has a permission for a limited time.
//!
//! A token names its permission and the version of it, so replacing or deleting the permission ends
//! the token. It also names the container's resource id at the time of signing, so old tokens do
//! not open a container that is created again under the same name. The secret is the catalog's:
//! tokens outlive restarts and new account keys.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::Catalog;
use engine::catalog::{OpaqueId, OpaqueKind, OpaqueOwner, OpaqueResource};
use hmac::{Hmac, KeyInit, Mac};
use model::{ContainerRid, DatabaseRid, ErrorKind, Timestamp, UserRid};
use sha2::Sha256;

use crate::errors::ApiError;
use crate::permissions::Permission;

/// The name of the catalog's secret for tokens.
pub(crate) const PURPOSE: &str = "resource tokens";

const VERSION: u8 = 1;
/// Version, database, user, permission, its version, container, time of expiry.
const PAYLOAD_BYTES: usize = 1 + 4 + 4 + 4 + 8 + 4 + 8;
/// Stands for a missing container; no container has this number.
const NO_CONTAINER: u32 = u32::MAX;

/// Makes and reads tokens.
pub(crate) struct TokenKey {
    state: Hmac<Sha256>,
}

/// What a token states, after its signature was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) permission: OpaqueId,
    pub(super) version: u64,
    pub(super) container: Option<ContainerRid>,
    pub(super) expires: Timestamp,
}

impl TokenKey {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self { state: Hmac::new_from_slice(&secret).expect("HMAC takes any key length") }
    }

    /// A token for a permission.
    pub(crate) fn mint(
        &self,
        catalog: &Catalog,
        permission: &OpaqueResource,
        expires: Timestamp,
    ) -> String {
        let container = Permission::of(permission, catalog)
            .and_then(|said| said.container_in(catalog, permission.key.owner));
        let claims = Claims {
            permission: permission.key,
            version: permission.version,
            container: container.map(|container| container.rid),
            expires,
        };
        let payload = claims.to_bytes();
        let mut mac = self.state.clone();
        mac.update(&payload);
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        let payload = URL_SAFE_NO_PAD.encode(payload);
        format!("type=resource&ver=1.0&sig={signature};{payload};")
    }

    /// The claims in the `sig` part of a token.
    pub(super) fn open(&self, token: &str, now: Timestamp) -> Result<Claims, ApiError> {
        let claims = self.verify(token).ok_or_else(|| {
            ApiError::new(
                ErrorKind::Unauthorized,
                "The input authorization token can't serve the request. The resource token is \
                 malformed or was not issued by this account.",
            )
        })?;
        if now.0 < claims.expires.0 { Ok(claims) } else { Err(expired(claims.expires, now)) }
    }

    fn verify(&self, token: &str) -> Option<Claims> {
        let (signature, rest) = token.split_once(';')?;
        let payload = rest.strip_suffix(';').unwrap_or(rest);
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let payload: [u8; PAYLOAD_BYTES] = URL_SAFE_NO_PAD.decode(payload).ok()?.try_into().ok()?;
        let mut mac = self.state.clone();
        mac.update(&payload);
        // Compares in constant time.
        mac.verify_slice(&signature).ok()?;
        Claims::from_bytes(&payload)
    }
}

impl Claims {
    fn to_bytes(self) -> [u8; PAYLOAD_BYTES] {
        let user = match self.permission.owner {
            OpaqueOwner::User(user) => user.number,
            OpaqueOwner::Database(_) => 0,
        };
        let database = self.permission.owner.database().0;
        let container = self.container.map_or(NO_CONTAINER, |rid| rid.number);
        let mut out = [VERSION; PAYLOAD_BYTES];
        let mut rest = &mut out[1..];
        let mut put = |bytes: &[u8]| {
            let (place, after) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = after;
        };
        put(&database.to_be_bytes());
        put(&user.to_be_bytes());
        put(&self.permission.number.to_be_bytes());
        put(&self.version.to_be_bytes());
        put(&container.to_be_bytes());
        put(&self.expires.0.to_be_bytes());
        out
    }

    fn from_bytes(bytes: &[u8; PAYLOAD_BYTES]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (&database, rest) = rest.split_first_chunk()?;
        let (&user, rest) = rest.split_first_chunk()?;
        let (&number, rest) = rest.split_first_chunk()?;
        let (&permission_version, rest) = rest.split_first_chunk()?;
        let (&container, rest) = rest.split_first_chunk()?;
        let expires = rest.try_into().ok()?;
        let database = DatabaseRid(u32::from_be_bytes(database));
        let user = UserRid { database, number: u32::from_be_bytes(user) };
        let container = Some(u32::from_be_bytes(container)).filter(|n| *n != NO_CONTAINER);
        (version == VERSION).then_some(Self {
            permission: OpaqueId {
                owner: OpaqueOwner::User(user),
                kind: OpaqueKind::Permission,
                number: u32::from_be_bytes(number),
            },
            version: u64::from_be_bytes(permission_version),
            container: container.map(|number| ContainerRid { database, number }),
            expires: Timestamp(u64::from_be_bytes(expires)),
        })
    }
}

fn expired(expires: Timestamp, now: Timestamp) -> ApiError {
    let date = |at: Timestamp| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(at.0));
    ApiError::new(
        ErrorKind::Forbidden,
        format!(
            "The authorization token is not valid at the current time. Please create another token \
             and retry (token expiry time: {}, current server time: {}).",
            date(expires),
            date(now)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let user = UserRid { database: DatabaseRid(0x0102_0304), number: 7 };
        let owner = OpaqueOwner::User(user);
        Claims {
            permission: OpaqueId { owner, kind: OpaqueKind::Permission, number: 9 },
            version: 3,
            container: Some(ContainerRid { database: user.database, number: 11 }),
            expires: Timestamp(1_000),
        }
    }

    fn signed(key: &TokenKey, payload: &[u8]) -> String {
        let mut mac = key.state.clone();
        mac.update(payload);
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        format!("{signature};{};", URL_SAFE_NO_PAD.encode(payload))
    }

    #[test]
    fn tokens_say_what_they_were_made_of_until_they_expire() {
        let key = TokenKey::new([5; 32]);
        for claims in [claims(), Claims { container: None, ..claims() }] {
            let token = signed(&key, &claims.to_bytes());
            assert_eq!(key.open(&token, Timestamp(999)).ok(), Some(claims));
            assert_eq!(key.open(&token, Timestamp(1_000)).unwrap_err().status(), 403);
        }
    }

    #[test]
    fn a_changed_or_foreign_token_is_none() {
        let (key, other) = (TokenKey::new([5; 32]), TokenKey::new([6; 32]));
        let payload = claims().to_bytes();
        let token = signed(&key, &payload);
        assert_eq!(other.open(&token, Timestamp(0)).unwrap_err().status(), 401);
        let (signature, _) = token.split_once(';').unwrap();
        for at in 0..payload.len() {
            let mut changed = payload;
            changed[at] ^= 1;
            let forged = format!("{signature};{};", URL_SAFE_NO_PAD.encode(changed));
            assert_eq!(key.open(&forged, Timestamp(0)).unwrap_err().status(), 401, "byte {at}");
        }
        let next_version = [&[VERSION + 1], &payload[1..]].concat();
        assert_eq!(key.open(&signed(&key, &next_version), Timestamp(0)).unwrap_err().status(), 401);
        for text in ["", ";", ";;", "x;y;", &token[..token.len() - 4], &signed(&key, b"short")] {
            assert_eq!(key.open(text, Timestamp(0)).unwrap_err().status(), 401, "{text}");
        }
    }
}
