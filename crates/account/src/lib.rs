//! The account: its keys and their rights, tokens of a directory, what a request says of its sender,
//! and what an observer is told about it.
//!
//! Nothing here knows a wire: each front end reads signatures and tokens from its own requests, and
//! turns the errors, which are plain values, into its own messages.
#![forbid(unsafe_code)]

mod directory;
mod key;
mod observe;
mod request_source;
mod signers;

pub use directory::{
    Bearer, Directory, DirectoryMode, DirectoryRules, InvalidJwks, JwkSet, Principal, Principals,
    TokenError,
};
pub use key::{DEVELOPMENT_KEY, InvalidKey, Key, KeyKind, KeyRing, WELL_KNOWN_KEY};
pub use observe::{Observation, Observer};
pub use request_source::{RequestSource, Scheme};
pub use signers::{Caller, Signers, sign};
