//! The page at `/_explorer/` until there is an explorer: it lists the server's endpoints.
//!
//! It needs no key, and shows a key only if it is well known. It loads and runs nothing, and no
//! other page can frame it.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};

use crate::announce::Announcement;
use crate::listen::{LISTENERS, Opens};

/// The endpoints of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explorer {
    /// Names of APIs with their addresses.
    endpoints: Vec<(String, String)>,
    /// Names of listeners that should be on but are off, with the reason.
    off: Vec<(String, String)>,
}

/// Nothing may be loaded, and the only style is in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const COMMANDS: [(&str, &str); 6] = [
    ("planisphere db create shop", "creates a database"),
    ("planisphere container create shop/orders --partition-key /customer", "creates a container"),
    ("planisphere container list", "lists containers"),
    ("planisphere query shop/orders 'SELECT * FROM c'", "queries one"),
    ("planisphere partitions show shop/orders", "shows how its data is spread"),
    ("planisphere --help", "lists all commands"),
];

impl Explorer {
    /// For a server at these addresses, which clients may reach as `public_endpoint`.
    pub(crate) fn new(announcement: &Announcement, public_endpoint: &str) -> Self {
        let nosql = match public_endpoint {
            "" => reachable("http", announcement.nosql),
            url => url.to_owned(),
        };
        let join = |base: &str, path: &str| format!("{}{path}", base.trim_end_matches('/'));
        let mut endpoints = Vec::new();
        for listener in &LISTENERS {
            let mut open = announcement.open.iter().filter(|(open, _)| *open == listener);
            let base = open.next().map(|(_, address)| reachable(listener.scheme, *address));
            match (listener.opens, base, listener.path_on_nosql) {
                (Opens::Always, ..) => endpoints.push((listener.title.to_owned(), nosql.clone())),
                (_, Some(base), None) if listener.path.is_some() => {
                    endpoints.push((listener.full_title(), join(&base, listener.shown_path)));
                }
                (_, base, Some(path)) => {
                    let url = join(base.as_deref().unwrap_or(&nosql), path);
                    endpoints.push((listener.title.to_owned(), url));
                }
                (_, Some(_) | None, None) => {}
            }
        }
        let metrics = announcement
            .admin_endpoint()
            .map_or_else(|| nosql.clone(), |address| reachable("http", address));
        endpoints.push(("Metrics".to_owned(), join(&metrics, "/metrics")));
        let off = announcement.off.iter();
        let off = off.map(|off| (off.listener.full_title(), off.reason.clone())).collect();
        Self { endpoints, off }
    }

    /// Whether a path of the NoSQL port is the page's.
    pub(crate) fn owns(path: &str) -> bool {
        matches!(path, "/_explorer" | "/_explorer/" | "/_explorer/index.html")
    }

    /// The page, with the account's key if it is well known.
    pub(crate) fn answer(
        &self,
        method: &Method,
        public_key: Option<&str>,
    ) -> Response<Full<Bytes>> {
        let is_read = method == Method::GET || method == Method::HEAD;
        let text = match is_read {
            true => self.page(public_key),
            false => "This page takes GET.\n".to_owned(),
        };
        let mut response = Response::new(Full::from(text));
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: &'static str| {
            headers.insert(name, HeaderValue::from_static(value));
        };
        set(header::CONTENT_SECURITY_POLICY, POLICY);
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::X_FRAME_OPTIONS, "DENY");
        set(header::REFERRER_POLICY, "no-referrer");
        set(header::CACHE_CONTROL, "no-store");
        set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
        if is_read {
            set(header::CONTENT_TYPE, "text/html; charset=utf-8");
        } else {
            set(header::CONTENT_TYPE, "text/plain; charset=utf-8");
            set(header::ALLOW, "GET, HEAD");
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        }
        response
    }

    fn page(&self, public_key: Option<&str>) -> String {
        let row = |name: &str, value: &str| {
            format!("<tr><th>{}</th><td><code>{}</code></td></tr>\n", escaped(name), escaped(value))
        };
        let endpoints: String = self.endpoints.iter().map(|(name, url)| row(name, url)).collect();
        let off: String = self
            .off
            .iter()
            .map(|(name, why)| {
                format!("<tr><th>{}</th><td>off: {}</td></tr>\n", escaped(name), escaped(why))
            })
            .collect();
        let key = match public_key {
            Some(key) => row("Account key", key),
            None => "<tr><th>Account key</th><td>not the well-known key; `planisphere keys \
                      show` prints fingerprints</td></tr>\n"
                .to_owned(),
        };
        let commands: String =
            COMMANDS.iter().map(|(command, about)| row(about, command)).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <title>Planisphere</title>\n<style>body{{font-family:sans-serif;margin:2em}}\
             th{{text-align:left;font-weight:normal;padding-right:2em}}</style>\n</head>\n<body>\n\
             <h1>Planisphere {}</h1>\n<p>The server is running. It has no data explorer yet; use \
             these addresses and commands.</p>\n<table>\n{endpoints}{off}{key}</table>\n\
             <h2>Commands</h2>\n<table>\n{commands}</table>\n\
             <p>For https, clients trust <a href=\"/_explorer/emulator.pem\">this certificate</a>; \
             <code>planisphere cert</code> explains how.</p>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// The form of an address that a browser on this machine can reach.
fn reachable(scheme: &str, address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}/", address.port()),
        false => format!("{scheme}://{address}/"),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use account::WELL_KNOWN_KEY;

    use super::*;

    #[test]
    fn only_the_key_that_everybody_knows_is_shown() {
        let explorer = Explorer::default();
        assert!(explorer.page(Some(WELL_KNOWN_KEY)).contains(WELL_KNOWN_KEY));
        assert!(!explorer.page(None).contains(WELL_KNOWN_KEY));
    }

    #[test]
    fn what_comes_from_settings_is_text() {
        let endpoints = vec![("NoSQL API".to_owned(), "http://<b>\"'&".to_owned())];
        let explorer =
            Explorer { endpoints, off: vec![("Table API".to_owned(), "port <i>".to_owned())] };
        let page = explorer.page(None);
        assert!(page.contains("http://&lt;b&gt;&quot;&#39;&amp;") && !page.contains("<b>"));
        assert!(page.contains("off: port &lt;i&gt;"));
    }

    #[test]
    fn an_address_of_all_interfaces_is_shown_as_one_to_open() {
        assert_eq!(reachable("http", "0.0.0.0:8081".parse().unwrap()), "http://localhost:8081/");
        assert_eq!(reachable("http", "[::1]:8081".parse().unwrap()), "http://[::1]:8081/");
    }
}
