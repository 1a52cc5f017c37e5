//! The documents that are queried, the same on both sides.
//!
//! However many there are, each value of a property belongs to a fixed number of documents, so that
//! a query has a fixed number of results. Documents that share one property's value are scattered
//! over the values of all others.

use crate::rng::Rng;

/// Size of every document as sent.
pub const DOCUMENT_BYTES: usize = 1_024;
/// Documents with the same partition key, numbered from 0 by `seq`.
pub const PER_PARTITION: u64 = 100;
/// Documents of the same `customer`.
pub const PER_CUSTOMER: u64 = 50;
/// Documents of the same `product`.
pub const PER_PRODUCT: u64 = 1_000;

/// Primes that permute the numbers.
const SCATTER_TIME: u64 = 7_919;
const SCATTER_CUSTOMERS: u64 = 104_729;
const SCATTER_PRODUCTS: u64 = 15_485_863;
const CITIES: [&str; 8] =
    ["Tromso", "Ushuaia", "Longyearbyen", "Nuuk", "Hobart", "Utqiagvik", "Kiruna", "Stanley"];
const ALPHABET: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";

/// A set of documents, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    documents: u64,
}

impl Data {
    /// A set of so many documents; must be a multiple of 1,000.
    pub fn of(documents: u64) -> anyhow::Result<Self> {
        let primes = [SCATTER_TIME, SCATTER_CUSTOMERS, SCATTER_PRODUCTS];
        let is_scattered = primes.iter().all(|prime| !documents.is_multiple_of(*prime));
        anyhow::ensure!(
            documents > 0 && documents.is_multiple_of(PER_PRODUCT) && is_scattered,
            "{documents} documents can't be spread evenly; take a multiple of {PER_PRODUCT}"
        );
        Ok(Self { documents })
    }

    /// How many there are.
    pub fn documents(self) -> u64 {
        self.documents
    }

    /// How many partition keys there are: the decimal numbers below this.
    pub fn partitions(self) -> u64 {
        self.documents / PER_PARTITION
    }

    /// How many customers there are, named `c0`, `c1` and so on.
    pub fn customers(self) -> u64 {
        self.documents / PER_CUSTOMER
    }

    /// How many products there are, named `p0`, `p1` and so on.
    pub fn products(self) -> u64 {
        self.documents / PER_PRODUCT
    }

    /// The partition key of a document.
    pub fn key(self, number: u64) -> String {
        (number / PER_PARTITION).to_string()
    }

    /// The id of a document.
    pub fn id(self, number: u64) -> String {
        format!("i{number:012}")
    }

    /// A document of [`DOCUMENT_BYTES`] bytes and fifteen leaves. It holds nothing that JSON or
    /// `COPY` would need to escape.
    pub fn document(self, number: u64) -> String {
        self.document_with(number, number)
    }

    /// The document `number` with all values but id and partition key taken from document `values`,
    /// which need not exist.
    pub fn document_with(self, number: u64, values: u64) -> String {
        let (id, key) = (self.id(number), self.key(number));
        let (seq, at) = (values % PER_PARTITION, self.scattered(values, SCATTER_TIME));
        let customer = self.scattered(values, SCATTER_CUSTOMERS) / PER_CUSTOMER;
        let product = self.scattered(values, SCATTER_PRODUCTS) / PER_PRODUCT;
        let mut random = Rng::new(values);
        let (active, rating) = (random.percent(70), random.below(400));
        let (house, postcode) = (random.below(300), random.below(10_000));
        let city = CITIES[random.index(CITIES.len())];
        let (tag, other) = (random.below(40), random.below(40));
        let mut text = format!(
            r#"{{"id":"{id}","pk":"{key}","seq":{seq},"at":{at},"customer":"c{customer}","product":"p{product}","active":{active},"rating":{}.{:02},"address":{{"street":"{house} Polaris Way","city":"{city}","postcode":"{postcode:04}"}},"tags":["t{tag}","u{other}"],"state":"shipped","note":""#,
            rating / 100,
            rating % 100,
        );
        let end = "\"}";
        while text.len() + end.len() < DOCUMENT_BYTES {
            let letter = char::from(ALPHABET[random.index(ALPHABET.len())]);
            text.push(if text.len() % 7 == 6 { ' ' } else { letter });
        }
        text.push_str(end);
        text
    }

    fn scattered(self, number: u64, prime: u64) -> u64 {
        (number % self.documents) * prime % self.documents
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn documents_are_json_of_the_stated_size() {
        let data = Data::of(1_000_000).unwrap();
        for number in [0, 17, 999_999] {
            let text = data.document(number);
            assert_eq!(text.len(), DOCUMENT_BYTES);
            assert!(!text.contains(['\\', '\t', '\n']));
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["id"], data.id(number));
            assert_eq!(value["pk"], data.key(number));
        }
    }

    #[test]
    fn each_value_is_that_of_equally_many_documents() {
        let data = Data::of(3_000).unwrap();
        let mut seen: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for number in 0..data.documents() {
            let value: serde_json::Value = serde_json::from_str(&data.document(number)).unwrap();
            for name in ["pk", "at", "customer", "product"] {
                *seen.entry((name, value[name].to_string())).or_default() += 1;
            }
        }
        for ((name, value), count) in seen {
            let wanted = match name {
                "pk" => PER_PARTITION,
                "customer" => PER_CUSTOMER,
                "product" => PER_PRODUCT,
                _ => 1,
            };
            assert_eq!(count, wanted, "{name} {value}");
        }
    }

    #[test]
    fn another_version_keeps_id_and_key_only() {
        let data = Data::of(1_000).unwrap();
        let old: serde_json::Value = serde_json::from_str(&data.document(3)).unwrap();
        let new: serde_json::Value = serde_json::from_str(&data.document_with(3, 5_604)).unwrap();
        assert_eq!((&old["id"], &old["pk"]), (&new["id"], &new["pk"]));
        for name in ["seq", "at", "customer", "address", "tags", "note"] {
            assert_ne!(old[name], new[name], "{name}");
        }
    }

    #[test]
    fn uneven_numbers_are_refused() {
        assert!(Data::of(0).is_err());
        assert!(Data::of(10_500).is_err());
        assert!(Data::of(7_919_000).is_err());
    }
}
