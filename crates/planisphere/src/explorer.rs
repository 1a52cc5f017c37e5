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

/// The endpoints of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explorer {
    /// Names of APIs with their addresses.
    endpoints: Vec<(&'static str, String)>,
    /// Names of listeners that should be on but are off, with the reason.
    off: Vec<(&'static str, String)>,
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
            "" => reachable(announcement.nosql),
            url => url.to_owned(),
        };
        // Without its own port, the admin API is on that of the NoSQL API.
        let admin = announcement.admin.map_or_else(|| nosql.clone(), reachable);
        let others = [
            ("Table API", announcement.table.map(reachable), ""),
            (
                "Table API (storage)",
                announcement.table_storage.map(reachable),
                api_table::DEVELOPMENT_ACCOUNT,
            ),
            ("Admin API", Some(admin.clone()), "_admin/v1"),
            ("Metrics", Some(admin), "metrics"),
        ];
        let others = others.into_iter().filter_map(|(name, base, path)| {
            Some((name, format!("{}/{path}", base?.trim_end_matches('/'))))
        });
        let off = announcement.off.iter().map(|off| (title_of(off.name), off.reason.clone()));
        Self {
            endpoints: std::iter::once(("NoSQL API", nosql)).chain(others).collect(),
            off: off.collect(),
        }
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

/// The title of the listener that the ready line calls `name`.
fn title_of(name: &'static str) -> &'static str {
    match name {
        "nosql_second" => "NoSQL API, second port",
        "table" => "Table API",
        "table_storage" => "Table API (storage)",
        "admin" => "Admin API, port of its own",
        other => other,
    }
}

/// The form of an address that a browser on this machine can reach.
fn reachable(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("http://localhost:{}/", address.port()),
        false => format!("http://{address}/"),
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
        let endpoints = vec![("NoSQL API", "http://<b>\"'&".to_owned())];
        let explorer = Explorer { endpoints, off: vec![("Table API", "port <i>".to_owned())] };
        let page = explorer.page(None);
        assert!(page.contains("http://&lt;b&gt;&quot;&#39;&amp;") && !page.contains("<b>"));
        assert!(page.contains("off: port &lt;i&gt;"));
    }

    #[test]
    fn an_address_of_all_interfaces_is_shown_as_one_to_open() {
        assert_eq!(reachable("0.0.0.0:8081".parse().unwrap()), "http://localhost:8081/");
        assert_eq!(reachable("[::1]:8081".parse().unwrap()), "http://[::1]:8081/");
    }
}
