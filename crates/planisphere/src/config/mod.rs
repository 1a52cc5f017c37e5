//! Settings: one struct, one TOML file, and the same keys as environment variables and flags.
//!
//! Defaults are compiled in from `planisphere.default.toml`. Layers are merged key by key (file,
//! then environment, then flags), and the error for an invalid value names its layer. Settings are
//! read only at the start.

mod by_listener;
mod direct;
mod keys;
mod layers;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use account::KeyRing;
use serde::Deserialize;

pub(crate) use direct::DirectMode;
pub(crate) use keys::{EVERYDAY, KEYS, Key, REPLACED, explain};
pub(crate) use layers::{Layers, load};
pub(crate) use names::PREFIX;

use crate::listen::{self, Interface, LISTENERS, Listener, Opens};
use crate::origins::AllowedHost;
use crate::protocol::Wire;

/// The defaults, with a comment for each key.
pub(crate) const DEFAULT_TOML: &str = include_str!("../../planisphere.default.toml");

/// All settings of the process.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    pub(crate) storage: Storage,
    pub(crate) account: Account,
    pub(crate) directory: Directory,
    pub(crate) table: Table,
    pub(crate) mongo: Mongo,
    pub(crate) engine: Engine,
    pub(crate) limits: Limits,
    pub(crate) scripts: Scripts,
    pub(crate) log: Log,
    /// Environment variables with the prefix of settings that are not settings, for a warning.
    #[serde(skip)]
    pub(crate) other_variables: Vec<String>,
}

/// Addresses to listen on, and the names by which clients reach the server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Listen {
    pub(crate) bind: Bind,
    pub(crate) ports: Ports,
    pub(crate) port_offset: u16,
    pub(crate) admin_bind: Bind,
    pub(crate) direct: DirectMode,
    pub(crate) public_endpoint: String,
    pub(crate) allow_host: String,
    /// The port of each listener, by its name.
    #[serde(flatten, deserialize_with = "by_listener::ports")]
    pub(crate) port_numbers: BTreeMap<&'static str, u16>,
    /// Listeners whose port was chosen explicitly, so that `ports = auto` and an offset do not
    /// change it. Determined while the layers are merged.
    #[serde(skip)]
    pub(crate) chosen_ports: BTreeSet<&'static str>,
}

/// Where data is stored and when it counts as written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Storage {
    pub(crate) data: PathBuf,
    pub(crate) data_force: bool,
    pub(crate) memory: bool,
    pub(crate) durability: Durability,
    pub(crate) memtable_bytes: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) lookup_cache_bytes: u64,
}

/// The account's keys, where an empty one is not set, whether keys are accepted, region and default
/// consistency level.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    pub(crate) key: Secret,
    pub(crate) key_file: PathBuf,
    pub(crate) secondary_key: Secret,
    pub(crate) readonly_key: Secret,
    pub(crate) secondary_readonly_key: Secret,
    pub(crate) local_auth: Switch,
    pub(crate) region: String,
    pub(crate) consistency: Consistency,
}

/// Which bearer tokens are accepted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Directory {
    pub(crate) mode: DirectoryMode,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) jwks: String,
    pub(crate) contributors: String,
    pub(crate) readers: String,
}

/// The Table API.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) accounts: Secret,
    pub(crate) throughput: u32,
}

/// The MongoDB API.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mongo {
    pub(crate) auth: Switch,
    pub(crate) test_commands: Switch,
    pub(crate) throttle_wait_s: u64,
}

/// How bearer tokens are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DirectoryMode {
    /// By the account key they carry.
    StandIn,
    /// By the issuer's signature.
    Verify,
    /// Not at all.
    TrustAny,
}

/// Settings for the engine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    pub(crate) throttling: Throttling,
    pub(crate) limits: ThroughputLimits,
    pub(crate) default_ranges: u32,
    pub(crate) partition_ru_planned: u32,
    pub(crate) partition_ru_max: u32,
    pub(crate) partition_bytes_max: u64,
    pub(crate) logical_partition_bytes_max: u64,
    pub(crate) auto_merge: Switch,
    pub(crate) fault_injection: Switch,
}

/// Limits on the resources of one client.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
    pub(crate) header_bytes_max: usize,
    pub(crate) head_timeout_s: u64,
    pub(crate) body_timeout_s: u64,
    pub(crate) idle_timeout_s: u64,
    pub(crate) drain_timeout_s: u64,
    /// `idle_timeout_s` of each listener, by its name; 0: the common one.
    #[serde(flatten, deserialize_with = "by_listener::idle_timeouts")]
    pub(crate) listener_idle_timeouts_s: BTreeMap<&'static str, u64>,
}

/// Limits on one run of a script.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scripts {
    pub(crate) timeout_ms: u64,
    pub(crate) memory_bytes: usize,
    pub(crate) stack_bytes: usize,
    pub(crate) output_bytes: usize,
    pub(crate) threads: usize,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) filter: String,
}

/// The address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Bind {
    /// Both loopback addresses.
    Localhost,
    /// One address.
    Address(IpAddr),
}

/// How port numbers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ports {
    /// As configured.
    Fixed,
    /// Free ones, except for those that were configured.
    Auto,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// After it is on disk.
    Synced,
    /// After the operating system has it.
    Relaxed,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Which throughput limits are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Throttling {
    /// All, including the default throughput of containers created without any.
    On,
    /// Explicitly provisioned throughput.
    Provisioned,
    /// None.
    Off,
}

impl From<Throttling> for engine::Throttling {
    fn from(throttling: Throttling) -> Self {
        match throttling {
            Throttling::On => Self::On,
            Throttling::Provisioned => Self::Provisioned,
            Throttling::Off => Self::Off,
        }
    }
}

/// The default consistency level of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Consistency {
    /// Every read sees the last write.
    Strong,
    /// Reads lag by a bounded amount.
    BoundedStaleness,
    /// A session sees its own writes.
    Session,
    /// Reads see some prefix of the writes.
    ConsistentPrefix,
    /// No order is promised.
    Eventual,
}

impl From<Consistency> for api_nosql::Consistency {
    fn from(consistency: Consistency) -> Self {
        match consistency {
            Consistency::Strong => Self::Strong,
            Consistency::BoundedStaleness => Self::BoundedStaleness,
            Consistency::Session => Self::Session,
            Consistency::ConsistentPrefix => Self::ConsistentPrefix,
            Consistency::Eventual => Self::Eventual,
        }
    }
}

/// The allowed range of provisioned throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ThroughputLimits {
    /// The limits of the service today.
    Service,
    /// The limits in the documents of 2018.
    #[serde(rename = "documents-2018")]
    Documents2018,
}

impl From<ThroughputLimits> for engine::catalog::ThroughputLimits {
    fn from(limits: ThroughputLimits) -> Self {
        match limits {
            ThroughputLimits::Service => Self::Service,
            ThroughputLimits::Documents2018 => Self::Documents2018,
        }
    }
}

/// A text that is never logged.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(none)" } else { "***" })
    }
}

impl Listen {
    /// The hosts that requests may name and come from, besides those of the server.
    pub(crate) fn allowed_hosts(&self) -> Result<Vec<AllowedHost>, String> {
        let hosts = self.allow_host.split(',').map(str::trim).filter(|host| !host.is_empty());
        hosts.map(AllowedHost::parse).collect()
    }

    /// Whether only this machine can connect.
    pub(crate) fn is_loopback(&self) -> bool {
        LISTENERS.iter().all(|listener| match listener.interface {
            Interface::Data => self.bind.is_loopback(),
            Interface::Admin => self.port(listener) == 0 || self.admin_bind.is_loopback(),
        })
    }

    /// The port of a listener; 0 if it has none.
    pub(crate) fn port(&self, listener: &Listener) -> u16 {
        match listener.opens {
            Opens::ForDirectMode => self.direct.own_port().unwrap_or_default(),
            Opens::After(first) if !self.is_chosen(listener) => {
                let first = listen::named(first).map_or(0, |first| self.port(first));
                if first == 0 { 0 } else { first.saturating_add(1) }
            }
            Opens::Always | Opens::UnlessZero | Opens::BesideDefaultPort | Opens::After(_) => {
                self.port_numbers.get(listener.name).copied().unwrap_or(listener.port)
            }
        }
    }

    /// Whether the port of a listener was chosen explicitly.
    pub(crate) fn is_chosen(&self, listener: &Listener) -> bool {
        listener.opens == Opens::ForDirectMode || self.chosen_ports.contains(listener.name)
    }

    /// The protocols of a listener over TLS: those of its row, unless clients in Direct mode have
    /// their own port or none.
    pub(crate) fn wires_over_tls(&self, listener: &Listener) -> &'static [Wire] {
        match (listener.tls, self.direct) {
            ([Wire::Rntbd, others @ ..], DirectMode::Off | DirectMode::Port(_))
                if listener.opens != Opens::ForDirectMode =>
            {
                others
            }
            (wires, _) => wires,
        }
    }

    /// Moves ports with default numbers by the offset.
    fn move_ports(&mut self) -> Result<(), String> {
        let (offset, chosen) = (self.port_offset, &self.chosen_ports);
        let ports = self.port_numbers.iter_mut().filter(|(name, _)| !chosen.contains(*name));
        let left: Vec<&mut u16> = ports.map(|(_, port)| port).collect();
        let most = left.iter().map(|port| u16::MAX - **port).min().unwrap_or(u16::MAX);
        check_range("listen.port_offset", u64::from(offset), 0, u64::from(most))?;
        left.into_iter().for_each(|port| *port += offset);
        Ok(())
    }
}

impl Bind {
    /// Whether only this machine can connect.
    pub(crate) fn is_loopback(self) -> bool {
        match self {
            Bind::Localhost => true,
            Bind::Address(address) => address.is_loopback(),
        }
    }
}

impl TryFrom<String> for Bind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("localhost") {
            return Ok(Bind::Localhost);
        }
        text.trim_start_matches('[').trim_end_matches(']').parse().map(Bind::Address).map_err(
            |_| format!("`{text}` is not an address; give `localhost`, `0.0.0.0` or another IP"),
        )
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bind::Localhost => f.write_str("localhost"),
            Bind::Address(address) => address.fmt(f),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Listen {
                bind: Bind::Localhost,
                ports: Ports::Fixed,
                port_offset: 0,
                admin_bind: Bind::Localhost,
                direct: DirectMode::Auto,
                public_endpoint: String::new(),
                allow_host: String::new(),
                port_numbers: by_listener::with_own_port()
                    .map(|listener| (listener.name, listener.port))
                    .collect(),
                chosen_ports: BTreeSet::new(),
            },
            storage: Storage {
                data: PathBuf::from("./planisphere-data"),
                data_force: false,
                memory: false,
                durability: Durability::Synced,
                memtable_bytes: 16 << 20,
                cache_bytes: 64 << 20,
                lookup_cache_bytes: 512 << 20,
            },
            account: Account {
                key: Secret(String::new()),
                key_file: PathBuf::new(),
                secondary_key: Secret(String::new()),
                readonly_key: Secret(String::new()),
                secondary_readonly_key: Secret(String::new()),
                local_auth: Switch::On,
                region: "Local".to_owned(),
                consistency: Consistency::Session,
            },
            directory: Directory {
                mode: DirectoryMode::StandIn,
                issuer: String::new(),
                audience: String::new(),
                jwks: String::new(),
                contributors: String::new(),
                readers: String::new(),
            },
            table: Table { accounts: Secret(String::new()), throughput: 0 },
            mongo: Mongo { auth: Switch::Off, test_commands: Switch::Off, throttle_wait_s: 10 },
            engine: Engine {
                throttling: Throttling::Provisioned,
                limits: ThroughputLimits::Service,
                default_ranges: 1,
                partition_ru_planned: 6000,
                partition_ru_max: 10_000,
                partition_bytes_max: 10 << 30,
                logical_partition_bytes_max: 10 << 30,
                auto_merge: Switch::Off,
                fault_injection: Switch::Off,
            },
            limits: Limits {
                connections_max: 4096,
                header_bytes_max: 65536,
                head_timeout_s: 30,
                body_timeout_s: 60,
                idle_timeout_s: 3600,
                drain_timeout_s: 10,
                listener_idle_timeouts_s: by_listener::with_own_idle_timeout()
                    .map(|name| (name, 0))
                    .collect(),
            },
            scripts: Scripts {
                timeout_ms: 5000,
                memory_bytes: 64 << 20,
                stack_bytes: 512 << 10,
                output_bytes: 2 << 20,
                threads: 0,
            },
            log: Log { filter: "warn".to_owned() },
            other_variables: Vec::new(),
        }
    }
}

impl Settings {
    /// The directory for persistent data; `None` if nothing is persistent.
    pub(crate) fn data_dir(&self) -> Option<&std::path::Path> {
        (!self.storage.memory).then_some(self.storage.data.as_path())
    }

    /// Refuses values that parse but are invalid.
    fn validate(&self) -> Result<(), String> {
        let Limits {
            connections_max,
            header_bytes_max,
            head_timeout_s,
            body_timeout_s,
            idle_timeout_s,
            drain_timeout_s,
            ref listener_idle_timeouts_s,
        } = self.limits;
        check_range("storage.memtable_bytes", self.storage.memtable_bytes, 64 << 10, 1 << 30)?;
        check_range("storage.cache_bytes", self.storage.cache_bytes, 1 << 20, 1 << 40)?;
        let lookup_cache_bytes = self.storage.lookup_cache_bytes;
        check_range("storage.lookup_cache_bytes", lookup_cache_bytes, 0, 1 << 40)?;
        check_range("limits.connections_max", connections_max as u64, 1, 1 << 20)?;
        check_range("limits.header_bytes_max", header_bytes_max as u64, 8 << 10, 1 << 20)?;
        check_range("limits.head_timeout_s", head_timeout_s, 1, 86_400)?;
        check_range("limits.body_timeout_s", body_timeout_s, 1, 86_400)?;
        check_range("limits.idle_timeout_s", idle_timeout_s, 1, 86_400)?;
        for (name, seconds) in listener_idle_timeouts_s {
            check_range(&format!("limits.{name}_idle_timeout_s"), *seconds, 0, 86_400)?;
        }
        self.listen.allowed_hosts()?;
        check_region(&self.account.region)?;
        check_range("limits.drain_timeout_s", drain_timeout_s, 0, 86_400)?;
        check_range("engine.default_ranges", u64::from(self.engine.default_ranges), 1, 1000)?;
        check_range(
            "engine.partition_ru_planned",
            u64::from(self.engine.partition_ru_planned),
            1,
            1_000_000,
        )?;
        let engine = &self.engine;
        check_range("engine.partition_ru_max", u64::from(engine.partition_ru_max), 1, 1_000_000)?;
        check_range("engine.partition_bytes_max", engine.partition_bytes_max, 1 << 10, 1 << 50)?;
        let logical_max = engine.logical_partition_bytes_max;
        check_range("engine.logical_partition_bytes_max", logical_max, 1 << 10, 1 << 50)?;
        self.check_directory()?;
        self.table.other_accounts()?;
        check_range("mongo.throttle_wait_s", self.mongo.throttle_wait_s, 0, 3600)?;
        let scripts = &self.scripts;
        check_range("scripts.timeout_ms", scripts.timeout_ms, 10, 600_000)?;
        check_range("scripts.memory_bytes", scripts.memory_bytes as u64, 1 << 20, 1 << 32)?;
        // Threads have stacks of 2 MB, of which the server itself needs a part.
        check_range("scripts.stack_bytes", scripts.stack_bytes as u64, 64 << 10, 768 << 10)?;
        check_range("scripts.output_bytes", scripts.output_bytes as u64, 1 << 10, 4 << 20)?;
        check_range("scripts.threads", scripts.threads as u64, 0, 256)?;
        check_public_endpoint(&self.listen.public_endpoint)
    }

    fn check_directory(&self) -> Result<(), String> {
        let directory = &self.directory;
        match directory.mode {
            DirectoryMode::StandIn => Ok(()),
            DirectoryMode::TrustAny if self.listen.is_loopback() => Ok(()),
            DirectoryMode::TrustAny => {
                Err("directory.mode = `trust-any` is allowed on loopback only: on another \
                 address any client could read and change all data"
                    .to_owned())
            }
            DirectoryMode::Verify => {
                let who = format!("{}{}", directory.contributors, directory.readers);
                let needed = [
                    ("issuer", &directory.issuer),
                    ("audience", &directory.audience),
                    ("jwks", &directory.jwks),
                    ("contributors or directory.readers", &who),
                ];
                match needed.iter().find(|(_, value)| value.trim().is_empty()) {
                    Some((name, _)) => {
                        Err(format!("directory.mode = `verify` needs directory.{name}"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl Table {
    /// Names and keys of the other accounts.
    pub(crate) fn other_accounts(&self) -> Result<Vec<(String, KeyRing)>, String> {
        let list = self.accounts.0.split(',').map(str::trim).filter(|account| !account.is_empty());
        list.map(read_account).collect()
    }
}

/// Parses `name:key` or `name:key:key`. An error does not quote invalid keys.
fn read_account(text: &str) -> Result<(String, KeyRing), String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let is_name = (3..=24).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric());
    if !is_name {
        return Err("table.accounts: a name has 3 to 24 letters and digits".to_owned());
    }
    let mut keys = parts.map(|key| {
        account::Key::parse(key).map_err(|error| format!("table.accounts: of {name}, {error}"))
    });
    let first = keys.next().ok_or_else(|| format!("table.accounts: {name} has no key"))??;
    let secondary = keys.next().transpose()?;
    if keys.next().is_some() {
        return Err(format!("table.accounts: {name} has more than two keys"));
    }
    Ok((name.to_owned(), KeyRing { secondary, ..KeyRing::single(first) }))
}

fn check_range(key: &str, value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(format!("{key} = {value} is out of range; it can be {min} to {max}"))
}

/// Region names have letters, digits and spaces; clients compare them without the spaces.
fn check_region(name: &str) -> Result<(), String> {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b' ';
    if name.len() <= 64 && name.bytes().all(is_inside) && name.trim() == name && !name.is_empty() {
        return Ok(());
    }
    Err(format!(
        "account.region = `{name}` is not the name of a region; give up to 64 letters, digits and \
         spaces, such as `West US`"
    ))
}

fn check_public_endpoint(url: &str) -> Result<(), String> {
    let is_url = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if url.is_empty() || is_url {
        return Ok(());
    }
    Err(format!(
        "listen.public_endpoint = `{url}` is not a URL; give one such as https://db.example:8081/"
    ))
}

impl Limits {
    /// How long running requests may take to finish on shutdown.
    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_secs(self.drain_timeout_s)
    }

    /// How long connections to a listener may stay open between two requests.
    pub(crate) fn idle_timeout(&self, listener: &Listener) -> Duration {
        let own = self.listener_idle_timeouts_s.get(listener.idle).copied().unwrap_or_default();
        Duration::from_secs(if own == 0 { self.idle_timeout_s } else { own })
    }
}

#[cfg(test)]
mod tests;
