//! What front ends over HTTP share: keys and signatures, bodies, arrivals, tokens of a directory.
//!
//! Nothing here knows a protocol's routes, statuses or error bodies: what goes wrong is a plain
//! value that each front end words itself.
#![forbid(unsafe_code)]
