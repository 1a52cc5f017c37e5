//! Which pages in browsers may send requests: the one rule of all listeners.
//!
//! A browser sends requests for every page that it shows, to this machine too. While the keys are
//! well known, a page can sign its requests like any client. So two things are checked. First, the
//! headers about the page that made a request (`Origin`, `Sec-Fetch-Site`, `Referer`) reveal pages
//! of other sites. Second, a page whose name was changed to resolve to this machine after it was
//! loaded looks like one of ours to the browser, but its requests carry its own name as their host.
//! So only hosts that no page can redirect are accepted. Clients that are not browsers use the host
//! that they were configured with and send no origin, so they are not affected.

pub(crate) mod cors;

use std::net::{IpAddr, Ipv6Addr};

use account::Scheme;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER};
use hyper::{Request, Uri};

/// What browsers report about the origin of a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The names under which containers reach their host machine.
const CONTAINER_HOSTS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];
/// Longest part of a refused header that is echoed.
const SHOWN_CHARS_MAX: usize = 200;

/// Which parts of a request are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginCheck {
    /// The page that sends it.
    Origin,
    /// The page, and the host that the request is sent to: while a key is well known.
    HostAndOrigin,
}

/// The names of one server, and the additional origins that it accepts.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginPolicy {
    /// Names of this machine.
    pub(crate) machine: Vec<String>,
    /// The public endpoint for clients, if it is not the address they connect to.
    pub(crate) public_endpoint: Option<Origin>,
    /// Hosts given by `--allow-host`.
    pub(crate) allowed: Vec<AllowedHost>,
    /// Whether requests need no key at all, because any bearer token is trusted.
    pub(crate) trusts_any: bool,
}

/// A host with scheme and port, as an `Origin` header has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

/// A host that requests may name and come from, on one port or on any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowedHost {
    /// In lower case; with a leading dot it matches all names with this suffix.
    name: String,
    port: Option<u16>,
}

/// A host from a request, without brackets and without a name's trailing dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host<'r> {
    name: &'r str,
    port: Option<u16>,
}

impl OriginPolicy {
    /// Refuses a request that a browser sends for a page that is not allowed; the text gives the
    /// reason. `is_allowed_by_rule` tells whether a CORS rule of the API allows the origin.
    pub(crate) fn check<B>(
        &self,
        request: &Request<B>,
        scheme: Scheme,
        level: OriginCheck,
        is_allowed_by_rule: impl FnOnce() -> bool,
    ) -> Result<(), String> {
        let text = host_of(request);
        let host = text.and_then(Host::parse);
        if level == OriginCheck::HostAndOrigin && !host.is_some_and(|host| self.is_ours(host)) {
            return Err(refused_host(text));
        }
        self.check_origin(request.headers(), (host, scheme), level, is_allowed_by_rule)
    }

    fn check_origin(
        &self,
        headers: &HeaderMap,
        own: (Option<Host<'_>>, Scheme),
        level: OriginCheck,
        is_allowed_by_rule: impl FnOnce() -> bool,
    ) -> Result<(), String> {
        let mut origins = headers.get_all(ORIGIN).iter();
        if let Some(origin) = origins.next() {
            let text = origin.to_str().unwrap_or("?");
            // No browser sends two headers, and a later check might read the other one.
            if origins.next().is_some() {
                return Err(refused_origin(text, level));
            }
            let site = Origin::parse(text);
            if site.as_ref().is_some_and(|site| self.is_allowed(site)) {
                return Ok(());
            }
            if !site.as_ref().is_some_and(|site| self.is_own(site, own)) {
                let is_allowed = is_allowed_by_rule();
                return if is_allowed { Ok(()) } else { Err(refused_origin(text, level)) };
            }
        }
        let is_elsewhere = headers.get(SEC_FETCH_SITE).is_some_and(|site| {
            // `none` means that the user entered the address.
            site != "same-origin" && site != "none"
        });
        let mut referers = headers.get_all(REFERER).iter();
        let Some(referer) = referers.next() else {
            return if is_elsewhere { Err(refused_origin("", level)) } else { Ok(()) };
        };
        let text = referer.to_str().unwrap_or("?");
        let site = Origin::parse(text).filter(|_| referers.next().is_none());
        let is_good = site.is_some_and(|site| {
            self.is_allowed(&site) || (self.is_own(&site, own) && !is_elsewhere)
        });
        if is_good { Ok(()) } else { Err(refused_origin(text, level)) }
    }

    /// Whether no page can make this name resolve to this machine after it was loaded from
    /// elsewhere.
    fn is_ours(&self, host: Host<'_>) -> bool {
        let Host { name, port: _ } = host;
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        name.parse::<IpAddr>().is_ok()
            || is_localhost(name)
            || CONTAINER_HOSTS.into_iter().any(is)
            || self.public_endpoint.as_ref().is_some_and(|site| is(&site.host))
            || self.machine.iter().any(|known| is(known))
            || self.allowed.iter().any(|allowed| allowed.fits_host(host))
    }

    fn is_allowed(&self, site: &Origin) -> bool {
        self.allowed.iter().any(|allowed| allowed.fits(site))
    }

    /// The origin of a request, if the server was configured to accept it.
    pub(crate) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let (origin, None) = (origins.next()?, origins.next()) else { return None };
        let site = Origin::parse(origin.to_str().ok()?)?;
        self.is_allowed(&site).then(|| origin.clone())
    }

    /// Whether a page has the origin of the request's target, or of the public endpoint.
    fn is_own(&self, site: &Origin, (host, scheme): (Option<Host<'_>>, Scheme)) -> bool {
        let is_public =
            self.public_endpoint.as_ref().is_some_and(|endpoint| endpoint.is_same(site));
        is_public
            || host.is_some_and(|host| {
                let own = Origin {
                    scheme: scheme.as_str().into(),
                    host: host.name.into(),
                    port: host.port,
                };
                // One port serves HTTP and HTTPS, so an explicit port alone is decisive. Without
                // one it is the scheme's default port: on other ports another process may listen.
                let is_written = own.port.is_some() && own.port == site.port;
                let is_same_port = is_written || own.effective_port() == site.effective_port();
                is_same_port && own.host.eq_ignore_ascii_case(&site.host)
            })
    }
}

/// `localhost`, `NAME.localhost`, and the names `localhost-REGION` that SDKs construct for regions.
fn is_localhost(name: &str) -> bool {
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let name = name.to_ascii_lowercase();
    let is_region = name.strip_prefix("localhost-").is_some_and(|region| {
        !region.is_empty() && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    name.ends_with(".localhost") || is_region
}

/// The only host that a request names.
fn host_of<B>(request: &Request<B>) -> Option<&str> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.as_str());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, None) = (hosts.next()?, hosts.next()) else { return None };
    host.to_str().ok()
}

fn refused_host(host: Option<&str>) -> String {
    let Some(host) = host else {
        return "The request does not name one host. While the key of the account is public, only \
                requests to names of this server are answered; --allow-host NAME adds one."
            .to_owned();
    };
    format!(
        "The host '{}' is not a name of this server. While the key of the account is public, a \
         page in a browser could have sent this, so only names of this server are answered. Use \
         localhost or an IP address, start the server with --allow-host {}, or give it a key of \
         its own with --key.",
        shown(host),
        flag_value(host)
    )
}

fn refused_origin(origin: &str, level: OriginCheck) -> String {
    let from = if origin.is_empty() { "another site".to_owned() } else { shown(origin) };
    let site = Origin::parse(origin).map_or_else(|| "NAME".to_owned(), |site| site.flag_value());
    let instead = match level {
        OriginCheck::Origin => "",
        OriginCheck::HostAndOrigin => ", or give it a key of its own with --key",
    };
    format!(
        "Requests from pages of other sites are refused; this one comes from {from}. To allow \
         such pages, start the server with --allow-host {site}{instead}."
    )
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// The value of `--allow-host` for a host on any port.
fn flag_value(host: &str) -> String {
    Host::parse(host).map_or_else(|| "NAME".to_owned(), |host| shown(host.name))
}

impl<'r> Host<'r> {
    /// Parses `name`, `name:port`, `1.2.3.4:port` or `[::1]:port`.
    fn parse(text: &'r str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            let port = port_of(rest)?;
            // The zone names the client's own network interface.
            let (address, _zone) = address.split_once('%').unwrap_or((address, ""));
            address.parse::<Ipv6Addr>().ok()?;
            return Some(Self { name: address, port });
        }
        let end = text.find(':').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_name_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let is_name = !name.is_empty() && name.bytes().all(is_name_byte);
        is_name.then_some(())?;
        Some(Self { name, port: port_of(rest)? })
    }
}

/// Parses the text after a host: nothing, or a colon and a port.
fn port_of(rest: &str) -> Option<Option<u16>> {
    match rest.strip_prefix(':') {
        None => rest.is_empty().then_some(None),
        Some("") => Some(None),
        Some(port) => port.parse().ok().map(Some),
    }
}

impl Origin {
    /// Parses an origin, or takes the origin of a URL. The origin `null` is not valid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let host = Host::parse(uri.authority()?.as_str())?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        Some(Self { scheme, host: host.name.to_owned(), port: host.port })
    }

    fn is_same(&self, other: &Origin) -> bool {
        self.scheme == other.scheme
            && self.host.eq_ignore_ascii_case(&other.host)
            && self.effective_port() == other.effective_port()
    }

    /// The port, or the default port of the scheme.
    fn effective_port(&self) -> Option<u16> {
        self.port.or(match self.scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        })
    }

    fn flag_value(&self) -> String {
        let bracketed =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{bracketed}:{port}"),
            None => bracketed,
        }
    }
}

impl AllowedHost {
    /// Parses the value of `--allow-host`: a name or an address, with an optional port; `*.`
    /// matches any prefix of a name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (is_any, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let address = text.parse::<Ipv6Addr>().is_ok().then_some(Host { name: text, port: None });
        let host = address.or_else(|| Host::parse(rest)).ok_or_else(|| {
            format!(
                "listen.allow_host: `{text}` is not a host; give a name such as db.example, or \
                 db.example:3000 for one port"
            )
        })?;
        let name = host.name.to_ascii_lowercase();
        Ok(Self { name: if is_any { format!(".{name}") } else { name }, port: host.port })
    }

    /// The name, or the pattern of names, as certificates have it.
    pub(crate) fn pattern(&self) -> String {
        if self.name.starts_with('.') { format!("*{}", self.name) } else { self.name.clone() }
    }

    /// Whether pages of this origin are allowed.
    fn fits(&self, site: &Origin) -> bool {
        self.fits_name(&site.host) && (self.port.is_none() || self.port == site.effective_port())
    }

    /// Whether requests to this host are allowed. A host without a port means the default port of
    /// the client's scheme, which need not be the scheme seen here.
    fn fits_host(&self, host: Host<'_>) -> bool {
        let is_port = match (self.port, host.port) {
            (None, _) | (Some(80 | 443), None) => true,
            (Some(_), None) => false,
            (Some(allowed), Some(port)) => allowed == port,
        };
        is_port && self.fits_name(host.name)
    }

    fn fits_name(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        if self.name.starts_with('.') { name.ends_with(&self.name) } else { name == self.name }
    }
}

#[cfg(test)]
mod tests;
