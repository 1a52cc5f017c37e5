//! A client in Direct mode: the addresses of a container ([`replicas`]), requests as frames
//! ([`frames`]), the connection ([`connection`]), and what a request costs the server beside the
//! same one over HTTPS ([`compare`]).

pub mod compare;
pub mod connection;
pub mod frames;
pub mod replicas;
