//! Merging defaults, file, environment and flags into [`Settings`].

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use toml::{Table, Value};

use super::{ChosenPorts, DEFAULT_TOML, KEYS, Key, Settings};

/// Where settings come from, weakest first.
pub(crate) struct Layers<'a> {
    /// The settings file, if one was named.
    pub(crate) file: Option<PathBuf>,
    /// Looks up an environment variable.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Flags that were given, as text.
    pub(crate) flags: Vec<(&'static Key, String)>,
}

/// Merges the layers. An error names the file, variable or flag that is to blame.
pub(crate) fn load(layers: Layers<'_>) -> anyhow::Result<Settings> {
    let mut table: Table =
        toml::from_str(DEFAULT_TOML).context("the compiled-in defaults are not valid")?;
    if let Some(path) = &layers.file {
        merge_file(&mut table, path)?;
    }
    for key in KEYS {
        let variable = key.variable();
        if let Some(text) = (layers.variable)(&variable) {
            set(&mut table, key, &text).map_err(|why| anyhow!("{variable}: {why}"))?;
        }
    }
    for (key, text) in &layers.flags {
        set(&mut table, key, text).map_err(|why| anyhow!("--{}: {why}", key.flag))?;
    }
    let mut settings = read(&table).map_err(|why| anyhow!("{why}"))?;
    settings.listen.chosen = chosen_ports(&layers, &settings);
    settings.listen.move_ports().map_err(|why| anyhow!("{why}"))?;
    settings.validate().map_err(|why| anyhow!("{why}"))?;
    Ok(settings)
}

/// A port is chosen by a flag or a variable, whatever it says, and in a file by another than the
/// default: a file that `planisphere config` printed has all of them.
fn chosen_ports(layers: &Layers<'_>, settings: &Settings) -> ChosenPorts {
    let is_named = |name: &str| {
        let in_flags = layers.flags.iter().any(|(key, _)| is_port(key, name));
        let mut keys = KEYS.iter().filter(|key| is_port(key, name));
        in_flags || keys.any(|key| (layers.variable)(&key.variable()).is_some())
    };
    let (listen, defaults) = (&settings.listen, Settings::default().listen);
    ChosenPorts {
        nosql_port: is_named("nosql_port") || listen.nosql_port != defaults.nosql_port,
        nosql_second_port: is_named("nosql_second_port")
            || listen.nosql_second_port != defaults.nosql_second_port,
        table_port: is_named("table_port") || listen.table_port != defaults.table_port,
        table_storage_port: is_named("table_storage_port")
            || listen.table_storage_port != defaults.table_storage_port,
        admin_port: is_named("admin_port") || listen.admin_port != defaults.admin_port,
    }
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
        let Some(Value::Table(known)) = table.get_mut(&section) else {
            bail!("in {shown}: there is no section [{section}]; `planisphere config` lists all");
        };
        let Value::Table(keys) = keys else {
            bail!("in {shown}: `{section}` is a section; write [{section}] and its keys below");
        };
        for (name, value) in keys {
            if !known.contains_key(&name) {
                bail!(
                    "in {shown}: [{section}] has no key `{name}`; `planisphere config` lists all"
                );
            }
            known.insert(name, value);
        }
    }
    read(table).map_err(|why| anyhow!("in {shown}: {why}"))?;
    Ok(())
}

/// Sets one key from text, reading it as the type the default has.
fn set(table: &mut Table, key: &Key, text: &str) -> Result<(), String> {
    let slot = table
        .get_mut(key.section)
        .and_then(Value::as_table_mut)
        .and_then(|section| section.get_mut(key.name))
        .ok_or_else(|| format!("{}.{} has no default", key.section, key.name))?;
    *slot = match slot {
        Value::Integer(_) => {
            Value::Integer(text.parse().map_err(|_| format!("`{text}` is not a whole number"))?)
        }
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

fn read(table: &Table) -> Result<Settings, String> {
    Settings::deserialize(table.clone()).map_err(|error| error.message().to_owned())
}
