//! The account's keys while the server runs: replaced one at a time, without a restart.
//!
//! A regenerated key is kept in the data directory together with the fingerprint of the key it
//! replaced. As long as the settings still contain the replaced key, the new one is used; once the
//! settings change, they apply again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use account::{Key, KeyKind, KeyRing};
use anyhow::{Context, anyhow};
use api_nosql::Service;
use engine::components::Random;
use serde::{Deserialize, Serialize};

use crate::account_keys::generate;
use crate::private_file;

const FILE: &str = "account.keys";

/// The keys of a running server.
pub(crate) struct KeyStore {
    service: Arc<Service>,
    tables: Arc<api_table::Service>,
    mongo: Arc<api_mongo::Service>,
    ring: Mutex<Ring>,
}

struct Ring {
    keys: KeyRing,
    /// Where new keys are kept, and the keys in the settings.
    kept: Option<(PathBuf, KeyRing)>,
}

/// A regenerated key.
#[derive(Serialize, Deserialize)]
struct RegeneratedKey {
    key: String,
    /// Fingerprint of the key in the settings; none if they have no such key.
    instead_of: Option<String>,
}

type RegeneratedKeys = BTreeMap<String, RegeneratedKey>;

impl KeyStore {
    /// The keys that the services accept now. With a directory for new keys and the configured keys,
    /// new keys survive a restart.
    pub(crate) fn new(
        (service, tables, mongo): (Arc<Service>, Arc<api_table::Service>, Arc<api_mongo::Service>),
        keys: KeyRing,
        kept: Option<(PathBuf, KeyRing)>,
    ) -> Self {
        Self { service, tables, mongo, ring: Mutex::new(Ring { keys, kept }) }
    }

    /// The current keys.
    pub(crate) fn ring(&self) -> KeyRing {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).keys.clone()
    }

    /// Generates a new key. From now on the old one is refused. Returns whether the new one is
    /// kept.
    pub(crate) fn regenerate(
        &self,
        kind: KeyKind,
        random: &dyn Random,
    ) -> anyhow::Result<(Key, bool)> {
        let key = generate(random);
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((dir, configured)) = &ring.kept {
            keep(dir, configured, kind, &key)?;
        }
        ring.keys.set(kind, key.clone());
        self.service.rotate_keys(&ring.keys);
        self.tables.rotate_keys(&ring.keys);
        self.mongo.rotate_keys(&ring.keys);
        Ok((key, ring.kept.is_some()))
    }
}

/// The path of the key file in a data directory.
pub(crate) fn file_in(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// The configured keys, replaced by those that were regenerated since.
pub(crate) fn renewed(data_dir: &Path, configured: &KeyRing) -> anyhow::Result<KeyRing> {
    let mut ring = configured.clone();
    for (name, renewed) in read(data_dir)? {
        let path = file_in(data_dir);
        let damaged = || anyhow!("{} is damaged; delete it to use the settings", path.display());
        let kind = KeyKind::parse(&name).ok_or_else(damaged)?;
        let key = Key::parse(&renewed.key).map_err(|_| damaged())?;
        if renewed.instead_of == configured.get(kind).map(Key::fingerprint) {
            ring.set(kind, key);
        }
    }
    Ok(ring)
}

fn keep(dir: &Path, configured: &KeyRing, kind: KeyKind, key: &Key) -> anyhow::Result<()> {
    let mut renewals = read(dir)?;
    let instead_of = configured.get(kind).map(Key::fingerprint);
    let renewed = RegeneratedKey { key: key.expose().to_owned(), instead_of };
    renewals.insert(kind.name().to_owned(), renewed);
    let path = file_in(dir);
    private_file::replace(&path, &serde_json::to_vec_pretty(&renewals)?)
        .with_context(|| format!("can't store the new key in {}", path.display()))
}

fn read(data_dir: &Path) -> anyhow::Result<RegeneratedKeys> {
    let path = file_in(data_dir);
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|_| anyhow!("{} is damaged; delete it to use the settings", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RegeneratedKeys::new()),
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key::from_bytes(&[byte; 64])
    }

    #[test]
    fn a_new_key_holds_until_the_settings_change() {
        let dir = tempfile::tempdir().unwrap();
        let configured = KeyRing::single(key(1));
        assert_eq!(renewed(dir.path(), &configured).unwrap(), configured);
        keep(dir.path(), &configured, KeyKind::Primary, &key(2)).unwrap();
        keep(dir.path(), &configured, KeyKind::Secondary, &key(3)).unwrap();
        keep(dir.path(), &configured, KeyKind::Primary, &key(4)).unwrap();
        let ring = renewed(dir.path(), &configured).unwrap();
        assert_eq!((&ring.primary, ring.secondary.as_ref()), (&key(4), Some(&key(3))));
        let changed = KeyRing { secondary: Some(key(6)), ..KeyRing::single(key(5)) };
        assert_eq!(renewed(dir.path(), &changed).unwrap(), changed);
    }

    #[test]
    fn a_damaged_file_is_told_of_instead_of_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let configured = KeyRing::single(key(1));
        for text in ["", "[]", r#"{"primary":{"key":"short"}}"#, r#"{"other":{"key":"AAAA"}}"#] {
            std::fs::write(file_in(dir.path()), text).unwrap();
            let error = renewed(dir.path(), &configured).unwrap_err().to_string();
            assert!(error.contains("account.keys is damaged"), "{error}");
        }
    }
}
