//! What front ends over HTTP share: keys and signatures, bodies, heads, tokens of a directory.
//!
//! Nothing here knows a protocol's routes, statuses or error bodies: what goes wrong is a plain
//! value that each front end words itself.
#![forbid(unsafe_code)]

mod body;
mod directory;
mod head;
mod key;
mod observe;
mod panics;
mod request_source;
mod signers;

pub use body::{Bodies, BodyError, BufferedBody, RequestLimits};
pub use directory::{
    Bearer, Directory, DirectoryMode, DirectoryRules, InvalidJwks, JwkSet, Principal, Principals,
    TokenError,
};
pub use head::{RequestIds, ascii, decimal, head_bytes};
pub use key::{DEVELOPMENT_KEY, InvalidKey, Key, KeyKind, KeyRing, WELL_KNOWN_KEY};
pub use observe::{Observation, Observer};
pub use panics::catch_panic;
pub use request_source::{RequestSource, Scheme};
pub use signers::{Caller, Signers, sign};
