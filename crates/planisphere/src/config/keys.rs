//! The list of settings keys and their forms as flags and environment variables.

use super::DEFAULT_TOML;

/// One settings key.
#[derive(Debug)]
pub(crate) struct Key {
    /// The table of the settings file.
    pub(crate) section: &'static str,
    /// The key within the table.
    pub(crate) name: &'static str,
    /// The long flag, without dashes.
    pub(crate) flag: &'static str,
    /// The name of the flag's value in the help.
    pub(crate) value_name: &'static str,
}

const fn key(
    section: &'static str,
    name: &'static str,
    flag: &'static str,
    value_name: &'static str,
) -> Key {
    Key { section, name, flag, value_name }
}

/// Every key, in the order of the help.
pub(crate) const KEYS: &[Key] = &[
    key("listen", "bind", "bind", "ADDR"),
    key("listen", "ports", "ports", "fixed|auto"),
    key("listen", "port_offset", "port-offset", "N"),
    key("listen", "nosql_port", "nosql-port", "N"),
    key("listen", "nosql_second_port", "nosql-second-port", "N"),
    key("listen", "table_port", "table-port", "N"),
    key("listen", "table_storage_port", "table-storage-port", "N"),
    key("listen", "mongo_port", "mongo-port", "N"),
    key("listen", "mongo_second_port", "mongo-second-port", "N"),
    key("listen", "mongo_cosmos_port", "mongo-cosmos-port", "N"),
    key("listen", "admin_bind", "admin-bind", "ADDR"),
    key("listen", "admin_port", "admin-port", "N"),
    key("listen", "direct", "direct", "auto|off|PORT"),
    key("listen", "public_endpoint", "public-endpoint", "URL"),
    key("listen", "allow_host", "allow-host", "NAME"),
    key("storage", "data", "data", "DIR"),
    key("storage", "data_force", "data-force", "true|false"),
    key("storage", "memory", "memory", "true|false"),
    key("storage", "durability", "durability", "synced|relaxed"),
    key("storage", "memtable_bytes", "memtable-bytes", "N"),
    key("storage", "cache_bytes", "cache-bytes", "N"),
    key("storage", "lookup_cache_bytes", "lookup-cache-bytes", "N"),
    key("account", "key", "key", "BASE64"),
    key("account", "key_file", "key-file", "FILE"),
    key("account", "secondary_key", "secondary-key", "BASE64"),
    key("account", "readonly_key", "readonly-key", "BASE64"),
    key("account", "secondary_readonly_key", "secondary-readonly-key", "BASE64"),
    key("account", "local_auth", "local-auth", "on|off"),
    key("account", "region", "region", "NAME"),
    key("account", "consistency", "consistency", "LEVEL"),
    key("directory", "mode", "directory", "stand-in|verify|trust-any"),
    key("directory", "issuer", "directory-issuer", "URL"),
    key("directory", "audience", "directory-audience", "LIST"),
    key("directory", "jwks", "directory-jwks", "FILE|URL"),
    key("directory", "contributors", "directory-contributors", "LIST"),
    key("directory", "readers", "directory-readers", "LIST"),
    key("table", "accounts", "table-accounts", "LIST"),
    key("table", "throughput", "table-throughput", "N"),
    key("mongo", "auth", "mongo-auth", "on|off"),
    key("mongo", "test_commands", "mongo-test-commands", "on|off"),
    key("mongo", "throttle_wait_s", "mongo-throttle-wait", "SECONDS"),
    key("engine", "throttling", "throttling", "provisioned|on|off"),
    key("engine", "limits", "limits", "service|documents-2018"),
    key("engine", "default_ranges", "default-ranges", "N"),
    key("engine", "partition_ru_planned", "partition-ru-planned", "N"),
    key("engine", "partition_ru_max", "partition-ru-max", "N"),
    key("engine", "partition_bytes_max", "partition-bytes-max", "N"),
    key("engine", "logical_partition_bytes_max", "logical-partition-bytes-max", "N"),
    key("engine", "auto_merge", "auto-merge", "on|off"),
    key("engine", "fault_injection", "fault-injection", "on|off"),
    key("limits", "connections_max", "connections-max", "N"),
    key("limits", "header_bytes_max", "header-bytes-max", "N"),
    key("limits", "head_timeout_s", "head-timeout-s", "N"),
    key("limits", "body_timeout_s", "body-timeout-s", "N"),
    key("limits", "idle_timeout_s", "idle-timeout-s", "N"),
    key("limits", "nosql_idle_timeout_s", "nosql-idle-timeout-s", "N"),
    key("limits", "table_idle_timeout_s", "table-idle-timeout-s", "N"),
    key("limits", "table_storage_idle_timeout_s", "table-storage-idle-timeout-s", "N"),
    key("limits", "mongo_idle_timeout_s", "mongo-idle-timeout-s", "N"),
    key("limits", "admin_idle_timeout_s", "admin-idle-timeout-s", "N"),
    key("limits", "drain_timeout_s", "drain-timeout-s", "N"),
    key("scripts", "timeout_ms", "script-timeout-ms", "N"),
    key("scripts", "memory_bytes", "script-memory-bytes", "N"),
    key("scripts", "stack_bytes", "script-stack-bytes", "N"),
    key("scripts", "output_bytes", "script-output-bytes", "N"),
    key("scripts", "threads", "script-threads", "N"),
    key("log", "filter", "log", "FILTER"),
];

/// Keys of earlier versions, each with what says the same now.
pub(crate) const REPLACED: &[(Key, &str)] = &[(
    key("storage", "copies", "copies", "on|off"),
    "`copies` is gone: `--lookup-cache-bytes 0` (`lookup_cache_bytes = 0` in [storage]) is what \
     `--copies off` was",
)];

/// Flags of everyday settings, in the order of the help; all others are shown only by `--help-all`.
pub(crate) const EVERYDAY: &[&str] = &[
    "memory",
    "data",
    "nosql-port",
    "ports",
    "port-offset",
    "bind",
    "key",
    "key-file",
    "throttling",
    "durability",
    "log",
];

impl Key {
    /// Whether the flag may be repeated; the value is then a comma-separated list.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.flag == "allow-host"
    }

    /// The environment variable of this key.
    pub(crate) fn variable(&self) -> String {
        format!("PLANISPHERE_{}_{}", self.section, self.name).to_uppercase()
    }
}

/// The explanation of a setting, taken from the default file, its only source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// The comment above the key.
    pub(crate) comment: String,
    /// The default, as written there.
    pub(crate) default: String,
}

/// The text in the default file about a key.
pub(crate) fn explain(key: &Key) -> Explanation {
    let mut section = "";
    let mut comment = String::new();
    for line in DEFAULT_TOML.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            comment.clear();
        } else if let Some(text) = line.strip_prefix("# ") {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(text);
        } else if let Some((name, default)) = line.split_once(" = ")
            && (section, name) == (key.section, key.name)
        {
            return Explanation { comment, default: default.to_owned() };
        } else {
            comment.clear();
        }
    }
    Explanation::default()
}
