//! Settings that each listener has, named after it: `table_port`, `table_idle_timeout_s`.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::listen::{LISTENERS, Listener, Opens};

/// The numbers in keys `<listener>_port`; there may be no other key.
pub(super) fn ports<'de, D>(section: D) -> Result<BTreeMap<&'static str, u16>, D::Error>
where
    D: Deserializer<'de>,
{
    by_name(section, "_port", |name| {
        with_own_port().map(|listener| listener.name).find(|own| *own == name)
    })
}

/// The numbers in keys `<listener>_idle_timeout_s`; there may be no other key.
pub(super) fn idle_timeouts<'de, D>(section: D) -> Result<BTreeMap<&'static str, u64>, D::Error>
where
    D: Deserializer<'de>,
{
    by_name(section, "_idle_timeout_s", |name| with_own_idle_timeout().find(|own| *own == name))
}

/// The listeners whose port is a setting of its own.
pub(super) fn with_own_port() -> impl Iterator<Item = &'static Listener> {
    LISTENERS.iter().filter(|listener| listener.opens != Opens::ForDirectMode)
}

/// The listeners whose idle timeout is a setting, for themselves and others.
pub(super) fn with_own_idle_timeout() -> impl Iterator<Item = &'static str> {
    LISTENERS.iter().filter(|listener| listener.idle == listener.name).map(|row| row.name)
}

fn by_name<'de, D, T>(
    section: D,
    suffix: &str,
    listener: impl Fn(&str) -> Option<&'static str>,
) -> Result<BTreeMap<&'static str, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let others = BTreeMap::<String, T>::deserialize(section)?;
    let named = others.into_iter().map(|(key, number)| {
        let name = key.strip_suffix(suffix).and_then(&listener);
        name.map(|name| (name, number)).ok_or_else(|| Error::unknown_field(&key, &[]))
    });
    named.collect()
}
