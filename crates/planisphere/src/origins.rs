//! Which pages in browsers may send requests: the one rule of all listeners.
//!
//! A browser sends requests for every page it shows, to this machine too. While the keys are ones
//! that everybody knows, a page can sign its requests like any client, so two things are looked at.
//! What browsers say about the page that made a request (`Origin`, `Sec-Fetch-Site`, `Referer`)
//! tells pages of other sites. A page whose name was made to point to this machine after it was
//! loaded looks like one of ours to the browser, but its requests carry its own name as their
//! host: so only hosts are answered that no page can re-point. Clients that are no browsers name
//! the host they were given and no origin, and notice nothing of this.

pub(crate) mod cors;

use std::net::{IpAddr, Ipv6Addr};

use front::Scheme;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER};
use hyper::{Request, Uri};

/// What browsers say about where a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// By these names containers reach the machine they run on.
const CONTAINER_HOSTS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];
/// Longest part of a refused header that is told back.
const SHOWN_CHARS_MAX: usize = 200;

/// How much of a request is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginCheck {
    /// The page it comes from.
    Origin,
    /// The page, and the host it is sent to: while everybody knows a key.
    HostAndOrigin,
}

/// The names of one server, and the sites that it was told to answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginPolicy {
    /// Names of this machine.
    pub(crate) machine: Vec<String>,
    /// What clients are told to use, if it is another address than theirs.
    pub(crate) public_endpoint: Option<Origin>,
    /// Named by `--allow-host`.
    pub(crate) allowed: Vec<AllowedHost>,
    /// Whether requests need no key at all, because the bearer of any token is trusted.
    pub(crate) trusts_any: bool,
}

/// A host with its scheme and port, as an origin names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

/// A host that requests may name and come from, on one port or on any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowedHost {
    /// In lower case; with a dot at its beginning it stands for all names that end so.
    name: String,
    port: Option<u16>,
}

/// A host as a request names it: without brackets, and without the dot that may end a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host<'r> {
    name: &'r str,
    port: Option<u16>,
}

impl OriginPolicy {
    /// Refuses what a browser sends for a page that has no business here; the text says why.
    /// `is_allowed_by_rule` says whether a rule of the API's own lets the origin in.
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
            // No browser sends two, and whoever looks next might look at another one.
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
            // `none` is what somebody typed into the address bar.
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

    /// Whether no page can make this name point here after it was loaded from elsewhere.
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

    /// The origin of a request, if it is one that the server was told to answer.
    pub(crate) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let (origin, None) = (origins.next()?, origins.next()) else { return None };
        let site = Origin::parse(origin.to_str().ok()?)?;
        self.is_allowed(&site).then(|| origin.clone())
    }

    /// Whether a page lies where the request goes, or where clients are told to go.
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
                // One port speaks HTTP and HTTPS, so a port that is written out says it all. One
                // that is not is that of the scheme: on the others somebody else may listen.
                let is_written = own.port.is_some() && own.port == site.port;
                let is_same_port = is_written || own.effective_port() == site.effective_port();
                is_same_port && own.host.eq_ignore_ascii_case(&site.host)
            })
    }
}

/// `localhost`, `NAME.localhost`, and the `localhost-REGION` that SDKs make up for regions.
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

/// The one host that a request names.
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
        "Requests that pages of other sites make are not answered, and this one comes from {from}. \
         To let such pages in, start the server with --allow-host {site}{instead}."
    )
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// What to give `--allow-host` for a host with a port that does not matter.
fn flag_value(host: &str) -> String {
    Host::parse(host).map_or_else(|| "NAME".to_owned(), |host| shown(host.name))
}

impl<'r> Host<'r> {
    /// Reads `name`, `name:port`, `1.2.3.4:port` or `[::1]:port`.
    fn parse(text: &'r str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            let port = port_of(rest)?;
            // The zone says by which of its own interfaces the client reaches the address.
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

/// Reads what follows a host: nothing, or a colon and a port.
fn port_of(rest: &str) -> Option<Option<u16>> {
    match rest.strip_prefix(':') {
        None => rest.is_empty().then_some(None),
        Some("") => Some(None),
        Some(port) => port.parse().ok().map(Some),
    }
}

impl Origin {
    /// Reads an origin, or the origin of a URL. The origin `null` is none.
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

    /// The port, where it is not written the one that the scheme stands for.
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
    /// Reads the value of `--allow-host`: a name or an address, perhaps with a port; `*.` stands
    /// for everything in front of a name.
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

    /// Whether a page of this site is meant.
    fn fits(&self, site: &Origin) -> bool {
        self.fits_name(&site.host) && (self.port.is_none() || self.port == site.effective_port())
    }

    /// Whether requests to this host are meant. Where it names no port, the client went to that of
    /// its scheme, which need not be the one that we see.
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
