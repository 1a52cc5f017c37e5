//! Which keys the account has, and where its primary key came from.
//!
//! The well-known keys of emulators are public knowledge, so they are served on loopback only. On
//! any other address the primary key is the configured one. If none is configured, one is generated
//! on the first start, kept in the data directory and shown once to the user who started the
//! server.

use std::io;
use std::path::{Path, PathBuf};

use account::{Key, KeyRing};
use anyhow::{Context, anyhow, bail};
use engine::components::Random;

use crate::config::{Listen, Secret, Settings};
use crate::{key_store, private_file};

const KEY_FILE: &str = "account.key";

/// Where the primary key came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrigin {
    /// The emulator's well-known key.
    WellKnown,
    /// The settings.
    Configured,
    /// A file of the data directory, written by an earlier start.
    Stored(PathBuf),
    /// Made just now; kept in the file, if any.
    Generated(Option<PathBuf>),
    /// Made while an earlier server ran, in place of one of the above; kept in the file.
    Regenerated(PathBuf),
}

/// The account's keys and the origin of its primary.
#[derive(Debug)]
pub(crate) struct AccountKeys {
    pub(crate) ring: KeyRing,
    /// The ring without regenerated keys.
    pub(crate) configured: KeyRing,
    pub(crate) origin: KeyOrigin,
}

/// Determines the keys. Fails if the well-known key would be served off loopback.
pub(crate) fn resolve(settings: &Settings, random: &dyn Random) -> anyhow::Result<AccountKeys> {
    let account = &settings.account;
    let (primary, origin) = match configured_primary(settings)? {
        Some(key) => (key, KeyOrigin::Configured),
        None if settings.listen.is_loopback() => (Key::well_known(), KeyOrigin::WellKnown),
        None => stored_or_generated(settings.data_dir(), random)?,
    };
    let configured = KeyRing {
        primary,
        secondary: optional(&account.secondary_key, "--secondary-key")?,
        primary_readonly: optional(&account.readonly_key, "--readonly-key")?,
        secondary_readonly: optional(&account.secondary_readonly_key, "--secondary-readonly-key")?,
    };
    let ring = match settings.data_dir() {
        Some(dir) => key_store::renewed(dir, &configured)?,
        None => configured.clone(),
    };
    let origin = match settings.data_dir() {
        Some(dir) if ring.primary != configured.primary => {
            KeyOrigin::Regenerated(key_store::file_in(dir))
        }
        Some(_) | None => origin,
    };
    let listen = &settings.listen;
    refuse_well_known_off_loopback(&ring, listen)?;
    // Already parsed without error when the settings were checked.
    for (name, ring) in settings.table.other_accounts().unwrap_or_default() {
        refuse_well_known_off_loopback(&ring, listen)
            .with_context(|| format!("--table-accounts, {name}"))?;
    }
    Ok(AccountKeys { ring, configured, origin })
}

/// The primary key in the settings, if there is one.
pub(crate) fn configured_primary(settings: &Settings) -> anyhow::Result<Option<Key>> {
    let account = &settings.account;
    let file = &account.key_file;
    if file.as_os_str().is_empty() {
        return optional(&account.key, "--key");
    }
    if !account.key.0.is_empty() {
        bail!("--key and --key-file were both given; give one of them");
    }
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("can't read the key file {}", file.display()))?;
    let key =
        Key::parse(&text).map_err(|error| anyhow!("--key-file {}: {error}", file.display()))?;
    Ok(Some(key))
}

fn optional(secret: &Secret, flag: &str) -> anyhow::Result<Option<Key>> {
    if secret.0.is_empty() {
        return Ok(None);
    }
    Key::parse(&secret.0).map(Some).map_err(|error| anyhow!("{flag}: {error}"))
}

/// The primary key of a server with the setting `configured`: that key, or else the one kept in its
/// data directory, or the key that replaced it since. `None` if it is the unchanged well-known key,
/// or if the regenerated keys can't be read.
pub(crate) fn current_primary(data_dir: &Path, configured: Option<Key>) -> Option<Key> {
    let stored = std::fs::read_to_string(data_dir.join(KEY_FILE)).ok();
    let stored = stored.and_then(|text| Key::parse(&text).ok());
    let given = configured.or(stored);
    let ring = KeyRing::single(given.clone().unwrap_or_else(Key::well_known));
    let renewed = key_store::renewed(data_dir, &ring).ok()?;
    if renewed == ring { given } else { Some(renewed.primary) }
}

fn stored_or_generated(
    data_dir: Option<&Path>,
    random: &dyn Random,
) -> anyhow::Result<(Key, KeyOrigin)> {
    let Some(dir) = data_dir else {
        return Ok((generate(random), KeyOrigin::Generated(None)));
    };
    let path = dir.join(KEY_FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let key = Key::parse(&text).map_err(|error| {
                anyhow!("{}: {error}; delete the file to get a new key", path.display())
            })?;
            Ok((key, KeyOrigin::Stored(path)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = generate(random);
            private_file::create(&path, key.expose().as_bytes())
                .with_context(|| format!("can't store the generated key in {}", path.display()))?;
            Ok((key, KeyOrigin::Generated(Some(path))))
        }
        Err(error) => {
            Err(error).with_context(|| format!("can't read the account key {}", path.display()))
        }
    }
}

pub(crate) fn generate(random: &dyn Random) -> Key {
    let mut bytes = [0; 64];
    random.fill(&mut bytes);
    Key::from_bytes(&bytes)
}

fn refuse_well_known_off_loopback(ring: &KeyRing, listen: &Listen) -> anyhow::Result<()> {
    if listen.is_loopback() || !ring.has_well_known() {
        return Ok(());
    }
    let bind = if listen.bind.is_loopback() { listen.admin_bind } else { listen.bind };
    bail!(
        "an emulator's well-known key is not served on {bind}: the key is public, so any \
         client that reaches that address could read and change all data.\n\
         Omit the key and a random one is generated and printed, or give your own with \
         --key-file FILE or --key BASE64, or stay on loopback with --bind and --admin-bind \
         localhost."
    )
}

#[cfg(test)]
mod tests {
    use account::{DEVELOPMENT_KEY, WELL_KNOWN_KEY};
    use engine::components::SystemRandom;

    use super::*;
    use crate::config::Bind;

    fn settings(bind: &str, key: &str, dir: &Path) -> Settings {
        let mut settings = Settings::default();
        settings.listen.bind = Bind::try_from(bind.to_owned()).unwrap();
        settings.account.key = Secret(key.to_owned());
        settings.storage.data = dir.to_owned();
        settings
    }

    #[test]
    fn loopback_gets_the_well_known_key_unless_one_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let keys = resolve(&settings("localhost", "", dir.path()), &SystemRandom).unwrap();
        assert_eq!(keys.origin, KeyOrigin::WellKnown);
        assert_eq!(keys.ring.primary, Key::well_known());

        let mine = Key::from_bytes(&[7; 64]);
        let keys =
            resolve(&settings("127.0.0.1", mine.expose(), dir.path()), &SystemRandom).unwrap();
        assert_eq!(keys.origin, KeyOrigin::Configured);
        assert_eq!(keys.ring.primary, mine);
    }

    #[test]
    fn other_addresses_get_a_generated_key_that_stays() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings("0.0.0.0", "", dir.path());
        let first = resolve(&settings, &SystemRandom).unwrap();
        let path = dir.path().join(KEY_FILE);
        assert_eq!(first.origin, KeyOrigin::Generated(Some(path.clone())));
        assert_ne!(first.ring.primary, Key::well_known());
        let second = resolve(&settings, &SystemRandom).unwrap();
        assert_eq!(second.origin, KeyOrigin::Stored(path));
        assert_eq!(second.ring.primary, first.ring.primary);
    }

    #[test]
    fn in_memory_a_generated_key_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings("0.0.0.0", "", dir.path());
        settings.storage.memory = true;
        let keys = resolve(&settings, &SystemRandom).unwrap();
        assert_eq!(keys.origin, KeyOrigin::Generated(None));
        assert!(!dir.path().join(KEY_FILE).exists());
    }

    #[test]
    fn the_well_known_key_is_refused_off_loopback_in_every_role() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |settings: &Settings| {
            let error = resolve(settings, &SystemRandom).unwrap_err().to_string();
            assert!(error.contains("well-known"), "{error}");
        };
        refused(&settings("0.0.0.0", WELL_KNOWN_KEY, dir.path()));
        let mut readonly = settings("::", "", dir.path());
        readonly.account.readonly_key = Secret(WELL_KNOWN_KEY.to_owned());
        refused(&readonly);
        refused(&settings("0.0.0.0", DEVELOPMENT_KEY, dir.path()));
        let mut tables = settings("0.0.0.0", "", dir.path());
        tables.table.accounts = Secret(format!("devstoreaccount1:{DEVELOPMENT_KEY}"));
        let error = format!("{:#}", resolve(&tables, &SystemRandom).unwrap_err());
        assert!(error.contains("--table-accounts") && error.contains("well-known"), "{error}");
        tables.listen.bind = Bind::try_from("localhost".to_owned()).unwrap();
        assert!(resolve(&tables, &SystemRandom).is_ok());
    }

    #[test]
    fn a_key_file_is_read_and_excludes_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let mine = Key::from_bytes(&[9; 64]);
        let file = dir.path().join("key.txt");
        std::fs::write(&file, format!("{}\n", mine.expose())).unwrap();
        let mut settings = settings("0.0.0.0", "", dir.path());
        settings.account.key_file = file;
        assert_eq!(resolve(&settings, &SystemRandom).unwrap().ring.primary, mine);
        settings.account.key = Secret(mine.expose().to_owned());
        assert!(resolve(&settings, &SystemRandom).is_err());
    }

    #[test]
    fn a_malformed_key_is_blamed_on_its_flag() {
        let dir = tempfile::tempdir().unwrap();
        let error =
            resolve(&settings("localhost", "nonsense", dir.path()), &SystemRandom).unwrap_err();
        assert!(error.to_string().starts_with("--key: "), "{error}");
    }
}
