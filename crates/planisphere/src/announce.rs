//! Announces that the server is ready.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use account::Key;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::account_keys::KeyOrigin;
use crate::bind::DisabledListener;
use crate::config::{DirectMode, Throttling};
use crate::listen::{self, LISTENERS, Listener, Opens};
use crate::serve::{ACCOUNT_NAME, AnnounceAs};

/// The contents of the announcement.
pub(crate) struct Announcement {
    pub(crate) nosql: SocketAddr,
    /// All listeners that are open, in the order of their rows.
    pub(crate) open: Vec<(&'static Listener, SocketAddr)>,
    /// Listeners that should be on but are off.
    pub(crate) off: Vec<DisabledListener>,
    pub(crate) direct: DirectMode,
    pub(crate) key: Key,
    pub(crate) key_origin: KeyOrigin,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) throttling: Throttling,
    /// Whether clients of the MongoDB API on this machine need no credentials.
    pub(crate) mongo_is_open: bool,
}

/// What the URLs of the MongoDB API begin with.
const MONGODB: &str = "mongodb";

impl Announcement {
    /// The NoSQL endpoint, in clear text.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}/", self.nosql)
    }

    /// The address of the admin API: its own port, or that of the NoSQL API.
    pub(crate) fn admin_endpoint_or_nosql(&self) -> String {
        self.admin_endpoint()
            .map_or_else(|| self.endpoint(), |address| format!("http://{address}/"))
    }

    /// The address of the admin API's own port, if it has one.
    pub(crate) fn admin_endpoint(&self) -> Option<SocketAddr> {
        self.address(listen::named("admin")?)
    }

    /// The URL of a listener for clients, with the path that its row has.
    fn url(&self, listener: &Listener) -> Option<String> {
        Some(format!("{}://{}{}", listener.scheme, self.address(listener)?, listener.path?))
    }

    fn address(&self, listener: &Listener) -> Option<SocketAddr> {
        let mut open = self.open.iter().filter(|(open, _)| *open == listener);
        open.next().map(|(_, address)| *address)
    }

    /// Why a listener is off that should be on.
    fn why_off(&self, listener: &Listener) -> Option<&str> {
        let mut off = self.off.iter().filter(|off| off.listener == listener);
        off.next().map(|off| off.reason.as_str())
    }

    /// One line for programs; its fields are a contract.
    fn json(&self) -> String {
        let endpoints = LISTENERS.iter().filter(|listener| listener.path.is_some());
        let endpoints = endpoints
            .map(|listener| (listener, self.url(listener)))
            // A listener that is turned off is left out; `null` is one that should be on.
            .filter(|(listener, url)| url.is_some() || self.why_off(listener).is_some())
            .map(|(listener, url)| format!("\"{}\":{}", listener.name, json!(url)))
            .collect::<Vec<_>>()
            .join(",");
        let off = self.off.iter().map(|off| (off.listener.name.to_owned(), json!(off.reason)));
        let off: serde_json::Map<_, _> = off.collect();
        let off = if off.is_empty() { String::new() } else { format!(r#""off":{},"#, json!(off)) };
        let direct = json!(self.direct_port());
        format!(
            r#"{{"ready":true,"endpoints":{{{endpoints}}},"direct":{direct},{off}"key":{},"pid":{}}}"#,
            json!(self.key.expose()),
            std::process::id()
        )
    }

    /// The port that addresses for Direct mode have for clients on this machine.
    fn direct_port(&self) -> Option<u16> {
        match self.direct {
            DirectMode::Auto => Some(self.nosql.port()),
            DirectMode::Off => None,
            DirectMode::Port(port) => Some(port),
        }
    }

    fn direct_line(&self) -> String {
        match self.direct {
            DirectMode::Auto => "on the ports of the NoSQL API, over TLS".to_owned(),
            DirectMode::Off => {
                "off: clients need Gateway mode (--direct auto turns it on)".to_owned()
            }
            DirectMode::Port(port) => format!("on port {port}, over TLS"),
        }
    }

    fn banner(&self) -> String {
        let mut lines =
            vec![format!("Planisphere {} is ready.", env!("CARGO_PKG_VERSION")), String::new()];
        lines.extend(self.listener_lines());
        lines.push(format!("  Account key   {}", self.key_line()));
        lines.push(format!("  Data          {}", self.data_line()));
        lines.push(format!("  Throttling    {}", self.throttling_line()));
        lines.push(String::new());
        if self.shows_key() {
            lines.push("  Connection string".to_owned());
            lines.push(format!(
                "    AccountEndpoint={};AccountKey={};",
                self.endpoint(),
                self.key.expose()
            ));
            lines.push(String::new());
        }
        lines.push(
            "  `planisphere cert` explains how to make clients trust the https address.".into(),
        );
        lines.push("  Stop with Ctrl-C.".into());
        lines.join("\n")
    }

    /// The listeners, those of one title below each other.
    fn listener_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut last = "";
        let mut push = |listener: &Listener, text: String| {
            let title = if listener.title == last { "" } else { listener.title };
            last = listener.title;
            lines.push(format!("  {title:<13} {text}"));
        };
        for listener in &LISTENERS {
            let Listener { variant, shown_path, path_on_nosql, opens, .. } = *listener;
            if opens == Opens::ForDirectMode {
                push(listener, self.direct_line());
                continue;
            }
            let note = if variant.is_empty() { String::new() } else { format!("   ({variant})") };
            match (self.address(listener), self.why_off(listener)) {
                (Some(address), _) if opens == Opens::Always => {
                    let urls = format!("http://{address}/   or   https://{address}/");
                    push(listener, urls);
                }
                (Some(address), _) if listener.path.is_none() => {
                    push(listener, format!("also on port {}", address.port()));
                }
                (Some(address), _) if listener.scheme == MONGODB => {
                    push(listener, self.mongo_line(listener, address));
                }
                (Some(address), _) => push(listener, format!("http://{address}{shown_path}{note}")),
                (None, Some(reason)) => {
                    if let Some(path) = path_on_nosql {
                        let nosql = self.nosql;
                        push(listener, format!("http://{nosql}{path}   (with the key)"));
                    }
                    let which = if variant.is_empty() { variant } else { &format!(" ({variant})") };
                    push(listener, format!("off{which}: {reason}"));
                }
                (None, None) => {}
            }
        }
        lines
    }

    /// A connection string for MongoDB's clients. Where they need credentials it has them, if the
    /// key may be shown.
    fn mongo_line(&self, listener: &Listener, address: SocketAddr) -> String {
        let (scheme, path) = (listener.scheme, listener.shown_path);
        if listener.trusts_machine && self.mongo_is_open {
            return format!("{scheme}://{address}{path}");
        }
        let key = match self.shows_key() {
            true => utf8_percent_encode(self.key.expose(), NON_ALPHANUMERIC).to_string(),
            false => "KEY".to_owned(),
        };
        format!("{scheme}://{ACCOUNT_NAME}:{key}@{address}{path}")
    }

    fn key_line(&self) -> String {
        let key = self.key.expose();
        match &self.key_origin {
            KeyOrigin::WellKnown => {
                format!("{key}\n                (the emulator's well-known key; loopback only)")
            }
            KeyOrigin::Configured => "as configured".to_owned(),
            KeyOrigin::Regenerated(path) => format!("regenerated; in {}", path.display()),
            KeyOrigin::Stored(path) => format!("in {}", path.display()),
            KeyOrigin::Generated(Some(path)) => format!(
                "{key}\n                (generated, stored in {}; it is not shown again)",
                path.display()
            ),
            KeyOrigin::Generated(None) => {
                format!("{key}\n                (generated; lost when the server stops)")
            }
        }
    }

    fn data_line(&self) -> String {
        match &self.data_dir {
            Some(dir) => dir.display().to_string(),
            None => "in memory; lost when the server stops".to_owned(),
        }
    }

    fn throttling_line(&self) -> &'static str {
        match self.throttling {
            Throttling::Provisioned => {
                "provisioned: only explicitly set throughput is enforced (--throttling on|off)"
            }
            Throttling::On => "on: throughput is enforced everywhere, 400 RU/s where none was set",
            Throttling::Off => "off: requests are charged but never throttled",
        }
    }

    /// A key that the owner configured or has seen is not repeated on screens and in logs.
    fn shows_key(&self) -> bool {
        matches!(self.key_origin, KeyOrigin::WellKnown | KeyOrigin::Generated(_))
    }
}

/// Prints the announcement to standard output.
pub(crate) fn print(announcement: &Announcement, announce_as: AnnounceAs) -> io::Result<()> {
    let text = match announce_as {
        AnnounceAs::Banner => announcement.banner(),
        AnnounceAs::Json => announcement.json(),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that is open on its default port.
    fn open(name: &str) -> (&'static Listener, SocketAddr) {
        let listener = listen::named(name).unwrap();
        (listener, ([127, 0, 0, 1], listener.port).into())
    }

    fn announcement(key_origin: KeyOrigin) -> Announcement {
        Announcement {
            nosql: "127.0.0.1:8081".parse().unwrap(),
            open: ["nosql", "table", "table_storage", "mongo", "mongo_cosmos", "admin"]
                .map(open)
                .into(),
            off: Vec::new(),
            direct: DirectMode::Auto,
            key: Key::from_bytes(&[1; 64]),
            key_origin,
            data_dir: None,
            throttling: Throttling::Provisioned,
            mongo_is_open: true,
        }
    }

    #[test]
    fn the_json_line_has_exactly_the_promised_fields() {
        let line = announcement(KeyOrigin::Configured).json();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let key = Key::from_bytes(&[1; 64]);
        assert_eq!(
            value,
            json!({
                "ready": true,
                "endpoints": {
                    "nosql": "http://127.0.0.1:8081/",
                    "table": "http://127.0.0.1:8902/",
                    "table_storage": "http://127.0.0.1:10002/devstoreaccount1",
                    "mongo": "mongodb://127.0.0.1:27017/",
                    "mongo_cosmos":
                        "mongodb://127.0.0.1:10255/?ssl=true&replicaSet=globaldb&retrywrites=false",
                    "admin": "http://127.0.0.1:8085/",
                },
                "direct": 8081,
                "key": key.expose(),
                "pid": std::process::id(),
            })
        );
        assert!(!line.contains('\n'));
        let mut without = announcement(KeyOrigin::Configured);
        without.open.retain(|(listener, _)| listener.name != "admin");
        assert!(!without.json().contains("admin"));
    }

    #[test]
    fn what_is_off_is_announced_with_the_reason() {
        let off = |name| {
            let listener = listen::named(name).unwrap();
            DisabledListener { listener, reason: format!("{name} is taken") }
        };
        let mut announcement = announcement(KeyOrigin::WellKnown);
        announcement.open = ["nosql", "table_storage"].map(open).into();
        announcement.off = vec![off("nosql_second"), off("table"), off("mongo"), off("admin")];
        let value: serde_json::Value = serde_json::from_str(&announcement.json()).unwrap();
        assert_eq!(
            value["endpoints"],
            json!({
                "nosql": "http://127.0.0.1:8081/",
                "table": null,
                "table_storage": "http://127.0.0.1:10002/devstoreaccount1",
                "mongo": null,
                "admin": null,
            })
        );
        let reasons = json!({
            "nosql_second": "nosql_second is taken",
            "table": "table is taken",
            "mongo": "mongo is taken",
            "admin": "admin is taken",
        });
        assert_eq!(value["off"], reasons);
        let banner = announcement.banner();
        for line in [
            "                off (second port): nosql_second is taken\n",
            "  Table API     off (Cosmos DB): table is taken\n",
            "                http://127.0.0.1:10002/devstoreaccount1   (storage)\n",
            "  MongoDB API   off: mongo is taken\n",
            "  Admin API     http://127.0.0.1:8081/_admin/v1   (with the key)\n",
            "                off (own port): admin is taken\n",
        ] {
            assert!(banner.contains(line), "{line:?} is not in {banner}");
        }
    }

    #[test]
    fn clients_in_direct_mode_are_told_where_they_are_served() {
        for (direct, port, line) in [
            (DirectMode::Auto, json!(8081), "on the ports of the NoSQL API, over TLS\n"),
            (DirectMode::Port(10250), json!(10250), "on port 10250, over TLS\n"),
            (DirectMode::Off, json!(null), "off: clients need Gateway mode"),
        ] {
            let of = Announcement { direct, ..announcement(KeyOrigin::Configured) };
            let value: serde_json::Value = serde_json::from_str(&of.json()).unwrap();
            assert_eq!(value["direct"], port);
            let banner = of.banner();
            assert!(banner.contains(&format!("\n  Direct mode   {line}")), "{banner}");
        }
    }

    #[test]
    fn clients_of_mongodb_find_strings_to_paste() {
        let options = "/?ssl=true&replicaSet=globaldb&retrywrites=false\n";
        let mut announcement = announcement(KeyOrigin::WellKnown);
        announcement.key = Key::well_known();
        let key = "C2y6yDjf5%2FR%2Bob0N8A7Cgv30VRDJIWEHLM%2B4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy\
                   67XIw%2FJw%3D%3D";
        let banner = announcement.banner();
        assert!(banner.contains("\n  MongoDB API   mongodb://127.0.0.1:27017/\n"), "{banner}");
        let cosmos = format!("    mongodb://planisphere:{key}@127.0.0.1:10255{options}");
        assert!(banner.contains(&cosmos), "{banner}");
        announcement.mongo_is_open = false;
        let banner = announcement.banner();
        assert!(banner.contains(&format!("mongodb://planisphere:{key}@127.0.0.1:27017/\n")));
        announcement.key_origin = KeyOrigin::Configured;
        let banner = announcement.banner();
        assert!(!banner.contains(key), "{banner}");
        assert!(banner.contains(&format!("mongodb://planisphere:KEY@127.0.0.1:10255{options}")));
    }

    #[test]
    fn the_banner_says_which_throughput_limits() {
        for (throttling, words) in [
            (Throttling::Provisioned, "Throttling    provisioned: "),
            (Throttling::On, "Throttling    on: "),
            (Throttling::Off, "Throttling    off: "),
        ] {
            let of = Announcement { throttling, ..announcement(KeyOrigin::Configured) };
            assert!(of.banner().contains(words), "{}", of.banner());
        }
    }

    #[test]
    fn a_key_is_shown_when_it_is_public_or_new_and_only_then() {
        let key = Key::from_bytes(&[1; 64]);
        let shows = |origin| announcement(origin).banner().contains(key.expose());
        assert!(shows(KeyOrigin::WellKnown));
        assert!(shows(KeyOrigin::Generated(None)));
        assert!(shows(KeyOrigin::Generated(Some("k".into()))));
        assert!(!shows(KeyOrigin::Configured));
        assert!(!shows(KeyOrigin::Stored("k".into())));
        assert!(!shows(KeyOrigin::Regenerated("k".into())));
    }
}
