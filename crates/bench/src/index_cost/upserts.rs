//! Upserts of whole documents over several connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::load::drive::{Outcome, Source, one_connection};
use crate::load::subject::Measured;
use crate::process;
use crate::queries::data::Data;
use crate::queries::ours::Ours;
use crate::queries::query_kind::CONTAINER_LINK;
use crate::request::{Account, Draft};
use crate::rng::Rng;
use crate::sign::date_now;

/// Connections that write.
pub const CONNECTIONS: usize = 16;
/// As many distinct values as a million documents have.
const VALUES: u64 = 1_000_000;
const WARM_UP: Duration = Duration::from_millis(300);
const SETTLE: Duration = Duration::from_secs(3);

/// The kind of upserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upserts {
    /// New documents: every path gets an index entry.
    New,
    /// Existing documents with other values: every path loses an entry and gets one.
    Rewrite,
}

impl Upserts {
    /// Both, in the order of the report.
    pub const ALL: [Self; 2] = [Self::New, Self::Rewrite];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "upsert-new",
            Self::Rewrite => "upsert-rewrite",
        }
    }

    fn accepts(self, status: u16) -> bool {
        match self {
            Self::New => status == 201,
            Self::Rewrite => status == 200,
        }
    }
}

/// The document `number` with the values of document `values`, and its partition key.
pub fn document(number: u64, values: u64) -> (String, String) {
    let data = values_of_a_million();
    (data.document_with(number, values), data.key(number))
}

fn values_of_a_million() -> Data {
    Data::of(VALUES).expect("a million is a multiple of a thousand")
}

/// Document numbers, shared by all connections that write to one server.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Documents that the server was loaded with.
    loaded: u64,
    next: Arc<AtomicU64>,
}

impl Numbers {
    /// For a server that was loaded with so many documents.
    pub fn after(loaded: u64) -> Self {
        Self { loaded, next: Arc::new(AtomicU64::new(loaded)) }
    }
}

/// The upserts of one connection.
struct Stream {
    upserts: Upserts,
    account: Account,
    date: String,
    numbers: Numbers,
    random: Rng,
    request: Vec<u8>,
}

impl Source for Stream {
    fn next_request(&mut self) -> &[u8] {
        let fresh = self.numbers.next.fetch_add(1, Ordering::Relaxed);
        let number = match self.upserts {
            Upserts::New => fresh,
            Upserts::Rewrite => self.random.below(self.numbers.loaded),
        };
        let (text, key) = document(number, fresh);
        let draft = Draft::feed("POST", CONTAINER_LINK, "docs").upsert().key(&key).body(text);
        self.request = self.account.render_at(&draft, &self.date);
        &self.request
    }
}

/// Writes to a server for `duration` and returns the cost, including background work that the
/// writes caused.
pub async fn measure(
    upserts: Upserts,
    server: &Ours,
    numbers: &Numbers,
    duration: Duration,
) -> anyhow::Result<Measured> {
    let pid = server.pid();
    drive(upserts, server.account(), numbers, WARM_UP).await?;
    process::settle(pid, SETTLE).await?;
    let batches = server.batches().await?;
    let before = process::cpu_time(pid)?;
    let outcome = drive(upserts, server.account(), numbers, duration).await?;
    let resident_bytes = process::resident_bytes(pid)?;
    process::settle(pid, SETTLE).await?;
    let spent = process::cpu_time(pid)? - before;
    let batches = server.batches().await? - batches;
    if let Some(refusal) = &outcome.refusal {
        anyhow::bail!("{} was refused: {refusal}", upserts.name());
    }
    anyhow::ensure!(batches > 0, "{} wrote no batch", upserts.name());
    let per_sync = Some(outcome.operations as f64 / batches as f64);
    Ok(Measured { per_sync, ..Measured::new(&outcome, spent, resident_bytes) })
}

async fn drive(
    upserts: Upserts,
    account: &Account,
    numbers: &Numbers,
    duration: Duration,
) -> anyhow::Result<Outcome> {
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|worker| {
            let mut stream = Stream {
                upserts,
                account: account.clone(),
                date: date_now(),
                numbers: numbers.clone(),
                random: Rng::new(numbers.next.load(Ordering::Relaxed)).fork(worker as u64),
                request: Vec::new(),
            };
            tokio::spawn(async move {
                let accepts = |status| upserts.accepts(status);
                let address = stream.account.address;
                one_connection(address, duration, accepts, &mut stream).await
            })
        })
        .collect();
    let mut total = Outcome::default();
    for worker in workers {
        total.absorb(worker.await??);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(upserts: Upserts, numbers: &Numbers) -> String {
        let account = Account::new("http://127.0.0.1:1/", "AAAA").unwrap();
        let mut stream = Stream {
            upserts,
            account,
            date: date_now(),
            numbers: numbers.clone(),
            random: Rng::new(1),
            request: Vec::new(),
        };
        String::from_utf8(stream.next_request().to_vec()).unwrap()
    }

    #[test]
    fn new_documents_are_new_and_rewrites_are_of_loaded_ones() {
        let numbers = Numbers::after(1_000);
        assert!(next(Upserts::New, &numbers).contains(r#""id":"i000000001000","pk":"10""#));
        assert!(next(Upserts::New, &numbers).contains(r#""id":"i000000001001","pk":"10""#));
        let rewrite = next(Upserts::Rewrite, &numbers);
        assert!(rewrite.contains(r#""id":"i000000000"#), "{rewrite}");
        assert!(rewrite.contains(r#""seq":2,"#), "the values are those of number 1,002: {rewrite}");
    }
}
