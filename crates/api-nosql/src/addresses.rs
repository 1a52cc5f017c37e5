//! The addresses of ranges, for clients in Direct mode: `/addresses`.
//!
//! A client keeps the addresses of a range until one fails. All of them are this server; the path
//! of each tells what the client believes to be there ([`crate::replica`]).

use std::net::{IpAddr, Ipv6Addr};

use engine::{Container, RequestContext};
use model::Value;

use crate::account::{self, object};
use crate::errors::ApiError;
use crate::replica::{self, REPLICAS_OF_RANGE, Replica};
use crate::reply::Reply;
use crate::request::{Request, Verb};
use crate::resource_query::feed_body;
use crate::{Service, resource};

/// What stands for a range's number in the addresses of the account's own resources.
const MASTER_RANGE: &str = "M";

const OFF: &str = "This server does not offer Direct mode. Use Gateway mode: in .NET \
                   CosmosClientOptions.ConnectionMode = ConnectionMode.Gateway, in Java \
                   CosmosClientBuilder.gatewayMode(). Or start the server with --direct auto.";

/// The addresses of the account's own resources.
pub(crate) fn of_master(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<Reply, ApiError> {
    let host = begin(service, ctx, request)?;
    let addresses: Vec<_> = addresses(&host, Replica::Master, MASTER_RANGE).collect();
    Ok(reply("", &addresses))
}

/// The addresses of a container's ranges. One that is gone is left out, so that the client reads
/// the ranges again.
pub(crate) fn of(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Container,
    ranges: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    let host = begin(service, ctx, request)?;
    let routing = container.routing();
    let wanted: Vec<&str> = ranges.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    let mut found = Vec::new();
    for range in routing.ranges() {
        let id = range.id.to_string();
        if wanted.is_empty() || wanted.contains(&id.as_str()) {
            let replica = Replica::Range { container: container.rid, range: range.id };
            found.extend(addresses(&host, replica, &id));
        }
    }
    Ok(reply(&container.rid.to_string(), &found))
}

/// What both have in common. Returns host and port of all addresses.
fn begin(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<String, ApiError> {
    if request.verb != Verb::Get {
        return Err(ApiError::method_not_allowed());
    }
    ctx.served.charge += resource::READ_CHARGE;
    let account = service.account();
    if !account.direct.is_on {
        return Err(ApiError::bad_request(OFF));
    }
    let endpoint = account::endpoint(account, request)?;
    let found = host_and_port(&endpoint);
    match found {
        Some((host, port)) => Ok(format!("{host}:{}", account.direct.port.unwrap_or(port))),
        None => Err(ApiError::bad_request(
            "The endpoint of the request has no host that addresses can have.",
        )),
    }
}

/// Host and port of an endpoint. Clients write to no address with an IPv6 literal, so this machine
/// is named instead; other machines need a configured name.
fn host_and_port(endpoint: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = endpoint.split_once("://")?;
    let authority = rest.split('/').next()?;
    let authority = authority.rsplit('@').next()?;
    let default_port = if scheme.eq_ignore_ascii_case("http") { 80 } else { 443 };
    if let Some(rest) = authority.strip_prefix('[') {
        let (literal, port) = rest.split_once(']')?;
        let address: Ipv6Addr = literal.parse().ok()?;
        let port = port.strip_prefix(':').map_or(Some(default_port), |port| port.parse().ok())?;
        let is_here = IpAddr::V6(address).to_canonical().is_loopback();
        return is_here.then_some(("localhost", port));
    }
    match authority.rsplit_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((authority, default_port)),
    }
    .filter(|(host, _)| !host.is_empty())
}

/// The addresses of one range.
fn addresses(host: &str, replica: Replica, range: &str) -> impl Iterator<Item = Value> {
    REPLICAS_OF_RANGE.into_iter().enumerate().map(move |(at, (name, is_primary))| {
        let path = replica::path(replica, name);
        object([
            ("id", at.to_string().into()),
            ("_rid", "".into()),
            ("_self", "".into()),
            ("_ts", Value::Int64(0)),
            ("isPrimary", is_primary.into()),
            ("protocol", "rntbd".into()),
            ("logicalUri", format!("urn:planisphere:{range}:{name}").into()),
            // Both names are misspelt in the protocol.
            ("physcialUri", format!("rntbd://{host}{path}/").into()),
            ("partitionIndex", format!("{range}@0").into()),
            ("partitionKeyRangeId", range.into()),
        ])
    })
}

fn reply(rid: &str, addresses: &[Value]) -> Reply {
    Reply::ok(feed_body(rid, "Addresss", addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_host_of_the_endpoint() {
        for (endpoint, expected) in [
            ("https://localhost:8081/", Some(("localhost", 8081))),
            ("http://127.0.0.1:8081/", Some(("127.0.0.1", 8081))),
            ("https://db.example/", Some(("db.example", 443))),
            ("http://db.example/", Some(("db.example", 80))),
            ("https://[::1]:8081/", Some(("localhost", 8081))),
            ("https://[::1]/", Some(("localhost", 443))),
            ("https://[::ffff:127.0.0.1]:1/", Some(("localhost", 1))),
            ("https://[fe80::1]:8081/", None),
            ("https://[x]:8081/", None),
            ("https://a:x/", None),
            ("https://:1/", None),
            ("localhost", None),
        ] {
            assert_eq!(host_and_port(endpoint), expected, "{endpoint}");
        }
    }
}
