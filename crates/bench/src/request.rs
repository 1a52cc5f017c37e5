//! Complete signed requests as bytes, with the headers an SDK sends.

use std::net::SocketAddr;

use anyhow::{Context, bail};

use crate::client::Connection;
use crate::sign::{Key, Target, date_now};

/// The address of an account and the key to sign with.
#[derive(Clone)]
pub struct Account {
    /// The address of the NoSQL endpoint.
    pub address: SocketAddr,
    /// The master key.
    pub key: Key,
}

/// A request before it is signed.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    pub(crate) verb: &'static str,
    pub(crate) resource_type: &'a str,
    pub(crate) link: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'a str, String)>,
    pub(crate) body: Vec<u8>,
}

/// An owned reply.
#[derive(Clone, Debug)]
pub struct OwnedReply {
    /// The status code.
    pub status: u16,
    /// All headers in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl OwnedReply {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        serde_json::from_slice(&self.body).context("the body is not JSON")
    }
}

impl Account {
    /// From the `endpoints.nosql` and `key` of a ready line.
    pub fn new(endpoint: &str, key: &str) -> anyhow::Result<Self> {
        let host = endpoint
            .strip_prefix("http://")
            .with_context(|| format!("{endpoint} is not a cleartext endpoint"))?
            .trim_end_matches('/');
        let address = host.parse().with_context(|| format!("{host} is not address:port"))?;
        Ok(Self { address, key: Key::from_base64(key)? })
    }

    /// Renders `draft`, signed at `date`.
    pub fn render_at(&self, draft: &Draft<'_>, date: &str) -> Vec<u8> {
        let target =
            Target { verb: draft.verb, resource_type: draft.resource_type, link: &draft.link };
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: planisphere-bench\r\n\
             Cache-Control: no-cache\r\nAccept: application/json\r\nx-ms-version: 2020-07-15\r\n\
             x-ms-date: {}\r\nauthorization: {}\r\n",
            draft.verb,
            draft.path,
            self.address,
            date,
            self.key.authorization(target, date)
        );
        for (name, value) in &draft.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !draft.body.is_empty() {
            let typed = draft.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type"));
            if !typed {
                head.push_str("Content-Type: application/json\r\n");
            }
        }
        if !draft.body.is_empty() || draft.verb == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", draft.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&draft.body);
        bytes
    }

    /// Renders `draft`, signed now.
    pub fn render(&self, draft: &Draft<'_>) -> Vec<u8> {
        self.render_at(draft, &date_now())
    }

    /// Sends `draft` on a connection of its own.
    pub async fn send(&self, draft: &Draft<'_>) -> anyhow::Result<OwnedReply> {
        let mut connection = Connection::open(self.address).await?;
        self.send_on(&mut connection, draft).await
    }

    /// Sends `draft` on `connection`.
    pub async fn send_on(
        &self,
        connection: &mut Connection,
        draft: &Draft<'_>,
    ) -> anyhow::Result<OwnedReply> {
        let reply = connection.exchange(&self.render(draft)).await?;
        Ok(OwnedReply {
            status: reply.status,
            headers: reply.headers().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            body: reply.body.to_vec(),
        })
    }

    /// Sends `draft` and fails unless the status is one of `wanted`.
    pub async fn expect(&self, draft: &Draft<'_>, wanted: &[u16]) -> anyhow::Result<OwnedReply> {
        let reply = self.send(draft).await?;
        if !wanted.contains(&reply.status) {
            bail!(
                "{} answered {} (wanted {wanted:?}): {}",
                draft.summary(),
                reply.status,
                reply.text()
            );
        }
        Ok(reply)
    }
}

impl<'a> Draft<'a> {
    /// `GET /`.
    pub fn account() -> Self {
        Self::of("GET", "", String::new(), "/".to_owned())
    }

    /// A request on the feed `resource_type` of `parent` (a link such as `dbs/a`, or empty).
    pub fn feed(verb: &'static str, parent: &str, resource_type: &'a str) -> Self {
        let path = if parent.is_empty() {
            format!("/{resource_type}")
        } else {
            format!("/{parent}/{resource_type}")
        };
        Self::of(verb, resource_type, parent.to_owned(), path)
    }

    /// A request on one resource of the feed `resource_type` of `parent`. The id must need no
    /// percent-encoding.
    pub fn one(verb: &'static str, parent: &str, resource_type: &'a str, id: &str) -> Self {
        let link = format!("{parent}/{resource_type}/{id}");
        let path = format!("/{link}");
        Self::of(verb, resource_type, link, path)
    }

    /// A request on an offer, which has no name: its signature holds its resource id alone.
    pub fn offer(verb: &'static str, rid: &str) -> Self {
        Self::of(verb, "offers", rid.to_lowercase(), format!("/offers/{rid}"))
    }

    /// A request for the addresses of all ranges of a container, given its resource id and its
    /// link of resource ids.
    pub fn addresses(rid: &str, link: &str) -> Self {
        let of = format!("{link}/docs").replace('/', "%2f").replace('=', "%3d");
        let path = format!("//addresses/?$resolveFor={of}&$filter=protocol%20eq%20rntbd");
        Self::of("GET", "docs", rid.to_lowercase(), path)
    }

    fn of(verb: &'static str, resource_type: &'a str, link: String, path: String) -> Self {
        Self { verb, resource_type, link, path, headers: Vec::new(), body: Vec::new() }
    }

    /// Replaces the path on the wire while the signature stays that of the link.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds the header that names a logical partition with one string component.
    pub fn key(self, partition_key: &str) -> Self {
        self.header("x-ms-documentdb-partitionkey", format!("[\"{partition_key}\"]"))
    }

    /// Marks a POST of an item as an upsert.
    pub fn upsert(self) -> Self {
        self.header("x-ms-documentdb-is-upsert", "true")
    }

    /// Marks a POST as an atomic batch.
    pub fn batch(self) -> Self {
        self.header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
            .header("x-ms-cosmos-batch-continue-on-error", "False")
    }

    /// Verb and path, for messages.
    pub fn summary(&self) -> String {
        format!("{} {}", self.verb, self.path)
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_head_length_and_body() {
        let account = Account::new("http://127.0.0.1:8081/", "AAAA").unwrap();
        let draft = Draft::feed("POST", "dbs/a/colls/b", "docs").key("x").body("{}");
        let text = String::from_utf8(account.render(&draft)).unwrap();
        assert!(text.starts_with("POST /dbs/a/colls/b/docs HTTP/1.1\r\nHost: 127.0.0.1:8081\r\n"));
        assert!(text.contains("\r\nx-ms-documentdb-partitionkey: [\"x\"]\r\n"));
        assert!(text.ends_with("\r\nContent-Length: 2\r\n\r\n{}"));
    }

    #[test]
    fn an_endpoint_must_be_cleartext_with_a_port() {
        assert!(Account::new("https://127.0.0.1:1/", "AAAA").is_err());
        assert!(Account::new("http://127.0.0.1/", "AAAA").is_err());
        assert!(Account::new("http://127.0.0.1:1/", "not base64!").is_err());
    }
}
