//! Shared parts of the HTTP front ends: keys and signatures, bodies, heads, tokens of a directory.
//!
//! Nothing here knows a protocol's routes, statuses or error bodies: errors are plain values that
//! each front end turns into its own messages.
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
