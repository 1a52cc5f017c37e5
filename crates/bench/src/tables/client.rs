//! Complete signed requests of the Table API, as an SDK sends them.

use std::net::SocketAddr;
use std::ops::Range;

use crate::sign::{Key, date_now};

use super::work;

const ACCOUNT: &str = "devstoreaccount1";
/// The published key of development accounts.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const TABLE: &str = "bench";
const NO_CONTENT: &str = "Prefer: return-no-content\r\n";

/// An account of one server.
#[derive(Clone)]
pub(super) struct Account {
    address: SocketAddr,
    key: Key,
    date: String,
}

impl Account {
    pub(super) fn at(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { address, key: Key::from_base64(KEY)?, date: date_now() })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn create_table(&self) -> Vec<u8> {
        let body = format!(r#"{{"TableName":"{TABLE}"}}"#);
        self.render("POST", "Tables", "", "", "application/json", body.as_bytes())
    }

    /// A transaction that inserts these entities of one partition.
    pub(super) fn batch(&self, partition: &str, numbers: Range<usize>) -> Vec<u8> {
        let mut body =
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n".to_owned();
        let (address, base) = (self.address, format!("/{ACCOUNT}/{TABLE}"));
        for number in numbers {
            let entity = work::entity(partition, &work::row_of(number), number);
            body.push_str(&format!(
                "--changeset_c\r\nContent-Type: application/http\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\nPOST http://{address}{base} HTTP/1.1\r\n\
                 Content-Type: application/json\r\nAccept: application/json\r\n{NO_CONTENT}\
                 DataServiceVersion: 3.0\r\n\r\n{entity}\r\n"
            ));
        }
        body.push_str("--changeset_c--\r\n\r\n--batch_b--\r\n");
        let content_type = "multipart/mixed; boundary=batch_b";
        self.render("POST", "$batch", "", "", content_type, body.as_bytes())
    }

    pub(super) fn get(&self, partition: &str, row: &str) -> Vec<u8> {
        self.render("GET", &entity_path(partition, row), "", "", "", b"")
    }

    pub(super) fn insert(&self, partition: &str, row: &str, number: usize) -> Vec<u8> {
        let entity = work::entity(partition, row, number);
        self.render("POST", TABLE, "", NO_CONTENT, "application/json", entity.as_bytes())
    }

    pub(super) fn upsert(&self, partition: &str, row: &str, number: usize) -> Vec<u8> {
        let entity = work::entity(partition, row, number);
        let path = entity_path(partition, row);
        self.render("PUT", &path, "", "", "application/json", entity.as_bytes())
    }

    pub(super) fn merge(&self, partition: &str, row: &str, number: usize) -> Vec<u8> {
        let body = format!(r#"{{"count":{number},"state":"changed"}}"#);
        let path = entity_path(partition, row);
        self.render("PATCH", &path, "", "If-Match: *\r\n", "application/json", body.as_bytes())
    }

    /// The entities from this one on, as many as a range query returns.
    pub(super) fn range(&self, from: usize) -> Vec<u8> {
        let (partition, first, end) =
            (work::partition_of(from), work::row_of(from), work::row_of(from + work::RANGE));
        let filter = format!(
            "?$filter=PartitionKey%20eq%20%27{partition}%27%20and%20RowKey%20ge%20%27{first}%27\
             %20and%20RowKey%20lt%20%27{end}%27"
        );
        self.render("GET", &format!("{TABLE}()"), &filter, "", "", b"")
    }

    fn render(
        &self,
        verb: &str,
        path: &str,
        query: &str,
        headers: &str,
        content_type: &str,
        body: &[u8],
    ) -> Vec<u8> {
        let (date, address) = (&self.date, self.address);
        let signature = self.key.mac(&format!("{date}\n/{ACCOUNT}/{ACCOUNT}/{path}"));
        let mut head = format!(
            "{verb} /{ACCOUNT}/{path}{query} HTTP/1.1\r\nHost: {address}\r\n\
             User-Agent: planisphere-bench\r\nAccept: application/json;odata=minimalmetadata\r\n\
             x-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nx-ms-date: {date}\r\n\
             Authorization: SharedKeyLite {ACCOUNT}:{signature}\r\n{headers}"
        );
        if !body.is_empty() {
            head.push_str(&format!(
                "Content-Type: {content_type}\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

/// Keys here need no escapes except for the quotes.
fn entity_path(partition: &str, row: &str) -> String {
    format!("{TABLE}(PartitionKey=%27{partition}%27,RowKey=%27{row}%27)")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the protocol's documentation: SharedKeyLite over the list of tables.
    #[test]
    fn signatures_equal_those_of_the_sdks() {
        let mut account = Account::at(([127, 0, 0, 1], 1).into()).unwrap();
        account.date = "Sun, 15 Nov 2026 08:33:40 GMT".to_owned();
        let text = String::from_utf8(account.create_table()).unwrap();
        assert!(text.contains("devstoreaccount1:x1n8NlDuqMozH58ETl3cPtq9CGtacnsxApG23elSoXQ="));
    }
}
