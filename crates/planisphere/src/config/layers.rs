//! Merging defaults, file, environment and flags into [`Settings`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use toml::{Table, Value};

use super::{DEFAULT_TOML, KEYS, Key, Settings, by_listener, names};
use crate::listen::Listener;

/// The sources of settings, weakest first.
pub(crate) struct Layers {
    /// The settings file, if one was given.
    pub(crate) file: Option<PathBuf>,
    /// Environment variables that begin with [`super::PREFIX`].
    pub(crate) variables: BTreeMap<String, String>,
    /// The given flags, as text.
    pub(crate) flags: Vec<(&'static Key, String)>,
}

impl Layers {
    /// The value of a key's environment variable. Addresses of services are ignored: Kubernetes
    /// sets them, and their names may equal ours.
    fn variable(&self, key: &Key) -> Option<&str> {
        let variable = key.variable();
        let value = self.variables.get(&variable)?;
        let rest = variable.strip_prefix(super::PREFIX)?;
        (!names::is_of_service(rest, value)).then_some(value)
    }
}

/// Merges the layers. An error names the file, variable or flag that caused it.
pub(crate) fn load(layers: Layers) -> anyhow::Result<Settings> {
    let mut table: Table =
        toml::from_str(DEFAULT_TOML).context("the compiled-in defaults are not valid")?;
    if let Some(path) = &layers.file {
        merge_file(&mut table, path)?;
    }
    let other_variables =
        names::other_variables(&layers.variables).map_err(|why| anyhow!("{why}"))?;
    for key in KEYS {
        if let Some(text) = layers.variable(key) {
            set(&mut table, key, text).map_err(|why| anyhow!("{}: {why}", key.variable()))?;
        }
    }
    for (key, text) in &layers.flags {
        set(&mut table, key, text).map_err(|why| anyhow!("--{}: {why}", key.flag))?;
    }
    let mut settings = read(&table).map_err(|why| anyhow!("{why}"))?;
    settings.other_variables = other_variables;
    settings.listen.chosen_ports = chosen_ports(&layers, &settings);
    settings.listen.move_ports().map_err(|why| anyhow!("{why}"))?;
    settings.validate().map_err(|why| anyhow!("{why}"))?;
    Ok(settings)
}

/// Which ports were chosen explicitly. A flag or variable chooses a port whatever its value; a file
/// does only with a value other than the default, because a file printed by `planisphere config`
/// contains all ports.
fn chosen_ports(layers: &Layers, settings: &Settings) -> BTreeSet<&'static str> {
    let is_named = |name: &str| {
        let in_flags = layers.flags.iter().any(|(key, _)| is_port(key, name));
        let mut keys = KEYS.iter().filter(|key| is_port(key, name));
        in_flags || keys.any(|key| layers.variable(key).is_some())
    };
    let is_chosen = |listener: &&Listener| {
        is_named(&format!("{}_port", listener.name))
            || settings.listen.port(listener) != listener.port
    };
    by_listener::with_own_port().filter(is_chosen).map(|listener| listener.name).collect()
}

fn is_port(key: &Key, name: &str) -> bool {
    key.section == "listen" && key.name == name
}

fn merge_file(table: &mut Table, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("can't read the settings file {shown}"))?;
    // The error itself would show the line, which may hold a key.
    let file: Table = toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        anyhow!("in {shown}, line {line}: {}", error.message())
    })?;
    for (section, keys) in file {
        if !matches!(table.get(&section), Some(Value::Table(_))) {
            let meant = names::meant_section(&section).unwrap_or_default();
            bail!(
                "in {shown}: there is no section [{section}]; did you mean [{meant}]? \
                 `planisphere config` lists all"
            );
        }
        let Value::Table(keys) = keys else {
            bail!("in {shown}: `{section}` is a section; write [{section}] and its keys below");
        };
        for (name, value) in keys {
            let known = table.get_mut(&section).and_then(Value::as_table_mut);
            let Some(known) = known.filter(|known| known.contains_key(&name)) else {
                bail!("in {shown}: {}", unknown_key(&section, &name));
            };
            known.insert(name.clone(), value);
            read(table).map_err(|why| anyhow!("in {shown}: {section}.{name}: {why}"))?;
        }
    }
    Ok(())
}

fn unknown_key(section: &str, name: &str) -> String {
    if let Some(text) = names::replacement(section, name) {
        return text.to_owned();
    }
    let meant = match names::meant(section, name) {
        Some(key) if key.section == section => format!("`{}`", key.name),
        Some(key) => format!("`{}` in [{}]", key.name, key.section),
        None => String::new(),
    };
    format!("[{section}] has no key `{name}`; did you mean {meant}? `planisphere config` lists all")
}

/// Sets one key from text, reading it as the type the default has.
fn set(table: &mut Table, key: &Key, text: &str) -> Result<(), String> {
    let slot = table
        .get_mut(key.section)
        .and_then(Value::as_table_mut)
        .and_then(|section| section.get_mut(key.name))
        .ok_or_else(|| format!("{}.{} has no default", key.section, key.name))?;
    *slot = match slot {
        Value::Integer(_) => Value::Integer(text.trim().parse().map_err(|_| not_a_number(text))?),
        Value::Boolean(_) => Value::Boolean(match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => true,
            "false" | "off" | "no" | "0" => false,
            _ => return Err(format!("`{text}` is neither true nor false")),
        }),
        Value::String(_)
        | Value::Float(_)
        | Value::Datetime(_)
        | Value::Array(_)
        | Value::Table(_) => Value::String(text.to_owned()),
    };
    read(table).map(|_| ())
}

fn not_a_number(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("`{text}` is too large");
    }
    format!("`{text}` is not a whole number")
}

fn read(table: &Table) -> Result<Settings, String> {
    Settings::deserialize(table.clone()).map_err(|error| in_words(error.message()))
}

/// The message of the deserializer, without names of types.
fn in_words(message: &str) -> String {
    let numbers = |kind: &str| match kind {
        "u16" => Some("0 to 65535"),
        "u32" => Some("0 to 4294967295"),
        "u64" | "usize" => Some("0 or more"),
        _ => None,
    };
    let range = message.rsplit_once(", expected ").and_then(|(_, kind)| numbers(kind));
    let given =
        |prefix| message.strip_prefix(prefix).and_then(|rest| rest.rsplit_once(", expected "));
    if let (Some((value, _)), Some(range)) = (given("invalid value: integer "), range) {
        return format!("{value} is out of range; it can be {range}");
    }
    if let (Some((value, _)), Some(_)) = (given("invalid type: "), range) {
        return format!("{value} is not a whole number");
    }
    if let Some((value, known)) = given("unknown variant ") {
        let known = known.strip_prefix("one of ").unwrap_or(known);
        return format!("{value} is not known; it can be {known}");
    }
    message.to_owned()
}
