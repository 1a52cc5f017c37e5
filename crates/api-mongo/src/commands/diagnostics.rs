//! The commands that tell about the server.

use std::sync::atomic::Ordering;

use model::{Object, Value};

use super::{Access, COMMANDS};
use crate::client::{Client, Personality};
use crate::command::{Command, is_true};
use crate::document::{count, document};
use crate::errors::codes as code;
use crate::service::OpCounter;
use crate::{MongoError, Service};

/// The version whose behaviour is followed.
const VERSION: &str = "7.0.12";
const VERSION_PARTS: [i32; 4] = [7, 0, 12, 0];
/// The version of features, which has no patches.
const FEATURE_VERSION: &str = "7.0";

/// `buildInfo`.
pub(crate) fn build_info() -> Object {
    document! {
        "version" => VERSION,
        "gitVersion" => env!("CARGO_PKG_VERSION"),
        "modules" => Vec::<Value>::new(),
        "allocator" => "system",
        "javascriptEngine" => "quickjs",
        "sysInfo" => "deprecated",
        "versionArray" => VERSION_PARTS.map(Value::Int32).to_vec(),
        "openssl" => document! { "running" => "rustls", "compiled" => "rustls" },
        "bits" => 64,
        "debug" => cfg!(debug_assertions),
        "maxBsonObjectSize" => 16 << 20,
        "storageEngines" => vec![Value::from("planisphere")],
    }
}

/// `whatsmyuri`.
pub(crate) fn whats_my_uri(client: &Client) -> Object {
    document! { "you" => client.entry.peer.to_string() }
}

/// `hostInfo`.
pub(crate) fn host_info(service: &Service) -> Object {
    let host = &service.hooks.host;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let megabytes = host.memory_bytes() >> 20;
    let system = document! {
        "currentTime" => service.engine.components().clock.now(),
        "hostname" => host.name(),
        "cpuAddrSize" => i32::try_from(usize::BITS).unwrap_or(64),
        "memSizeMB" => count(megabytes),
        "memLimitMB" => count(megabytes),
        "numCores" => i32::try_from(cores).unwrap_or(i32::MAX),
        "cpuArch" => std::env::consts::ARCH,
        "numaEnabled" => false,
    };
    let os = document! {
        "type" => os_type(),
        "name" => std::env::consts::OS,
        "version" => "",
    };
    document! { "system" => system, "os" => os, "extra" => Object::new() }
}

/// The kind of operating system, as the server's own documents call it.
fn os_type() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        "windows" => "Windows",
        other => other,
    }
}

/// `getCmdLineOpts`: nothing that a client could not see by itself.
pub(crate) fn command_line(service: &Service, client: &Client) -> Object {
    let mut parsed = document! { "net" => document! { "port" => i32::from(client.entry.port) } };
    let has_parameter = service.settings.has_test_commands;
    if has_parameter {
        parsed.insert("setParameter", document! { "enableTestCommands" => "1" }.into());
    }
    if !service.is_trusted(client) {
        let security = document! { "authorization" => "enabled" };
        parsed.insert("security", security.into());
    }
    document! { "argv" => vec![Value::from("planisphere")], "parsed" => parsed }
}

/// The parameters that can be asked for.
fn parameters(service: &Service) -> Object {
    let feature = document! { "version" => FEATURE_VERSION };
    let mechanisms = ["SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN"].map(Value::from).to_vec();
    document! {
        "featureCompatibilityVersion" => feature,
        "authenticationMechanisms" => mechanisms,
        "enableTestCommands" => service.settings.has_test_commands,
        "requireApiVersion" => false,
        "transactionLifetimeLimitSeconds" => 60,
        "localLogicalSessionTimeoutMinutes" => crate::sessions::TIMEOUT_MINUTES,
        "cursorTimeoutMillis" => 600_000i64,
        "maxBSONDepth" => i32::try_from(model::limits::DOCUMENT_DEPTH_MAX).unwrap_or(100),
        "logLevel" => 0,
        "quiet" => false,
    }
}

/// `getParameter`.
pub(crate) fn get_parameter(service: &Service, command: &Command) -> Result<Object, MongoError> {
    let all = parameters(service);
    let asks_all = command.target().as_str() == Some("*")
        || command.target().field("allParameters").is_some_and(is_true);
    if asks_all {
        return Ok(all);
    }
    let is_common = |name: &str| crate::fields::COMMON.iter().any(|field| field.name == name);
    let named = command.fields.iter().skip(1).map(|(name, _)| name);
    // Some clients ask for `getParameter: "name"`.
    let named = named.filter(|name| !is_common(name)).chain(command.target().as_str());
    let found = named.filter_map(|name| Some((name.to_owned(), all.get(name)?.clone())));
    let found = found.collect::<Object>();
    match found.is_empty() {
        true => Err(MongoError::new(code::INVALID_OPTIONS, "no option found to get")),
        false => Ok(found),
    }
}

/// `serverStatus`.
pub(crate) fn server_status(service: &Service, client: &Client) -> Object {
    let components = service.engine.components();
    let uptime = components.clock.monotonic().saturating_sub(service.started);
    let counters = &service.counters;
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let open = read(&counters.open);
    let free = (service.hooks.host.connections_max() as u64).saturating_sub(open);
    let connections = document! {
        "current" => count(open),
        "available" => count(free),
        "totalCreated" => count(read(&counters.connected)),
        "active" => 1,
    };
    let commands = OpCounter::ALL.map(|(kind, _)| read(&counters.commands[kind as usize]));
    let network = document! {
        "bytesIn" => long(read(&counters.bytes_in)),
        "bytesOut" => long(read(&counters.bytes_out)),
        "numRequests" => long(commands.iter().sum()),
    };
    let operations = OpCounter::ALL.iter().zip(commands);
    let operations = operations.map(|((_, name), number)| ((*name).to_owned(), long(number)));
    let resident = service.hooks.host.resident_bytes() >> 20;
    let process = match client.entry.personality {
        Personality::Router => "mongos",
        Personality::ReplicaSet => "mongod",
    };
    let cursors =
        document! { "open" => document! { "total" => count(service.cursors.count() as u64) } };
    let sessions = service.sessions.active(components.clock.monotonic()).len() as u64;
    document! {
        "host" => client.server_name(),
        "version" => VERSION,
        "process" => process,
        "pid" => i64::from(std::process::id()),
        "uptime" => uptime.as_secs_f64().floor(),
        "uptimeMillis" => i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
        "uptimeEstimate" => i64::try_from(uptime.as_secs()).unwrap_or(i64::MAX),
        "localTime" => components.clock.now(),
        "connections" => connections,
        "logicalSessionRecordCache" => document! { "activeSessionsCount" => count(sessions) },
        "network" => network,
        "metrics" => document! { "cursor" => cursors },
        "opcounters" => operations.collect::<Object>(),
        "mem" => document! { "bits" => 64, "resident" => count(resident), "supported" => true },
        "storageEngine" => document! { "name" => "planisphere", "persistent" => true },
    }
}

fn long(number: u64) -> Value {
    Value::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

/// `getLog`. The log goes to standard error and is not kept.
pub(crate) fn get_log(command: &Command) -> Result<Object, MongoError> {
    match command.target().as_str() {
        Some("*") => {
            let names = ["global", "startupWarnings"].map(Value::from).to_vec();
            Ok(document! { "names" => names })
        }
        Some("global" | "startupWarnings") => {
            Ok(document! { "totalLinesWritten" => 0, "log" => Vec::<Value>::new() })
        }
        Some(other) => {
            let message = format!("No log named '{other}'");
            Err(MongoError::new(code::OPERATION_FAILED, message))
        }
        None => {
            Err(MongoError::new(code::TYPE_MISMATCH, "Argument to getLog must be of type String"))
        }
    }
}

/// `listCommands`.
pub(crate) fn list_commands() -> Object {
    let commands = COMMANDS.iter().map(|row| {
        let names = row.fields.iter().map(|field| field.name.into()).collect::<Vec<Value>>();
        let described = document! {
            "help" => row.help,
            "requiresAuth" => row.access != Access::Anyone,
            "secondaryOk" => true,
            "adminOnly" => row.is_for_admin,
            "apiVersions" => if row.is_stable { vec![Value::from("1")] } else { Vec::new() },
            "fields" => names,
        };
        (row.name.to_owned(), Value::Object(described))
    });
    document! { "commands" => commands.collect::<Object>() }
}

/// `isdbgrid`.
pub(crate) fn is_db_grid(service: &Service, client: &Client) -> Result<Object, MongoError> {
    match client.entry.personality {
        Personality::Router => {
            Ok(document! { "isdbgrid" => 1, "hostname" => service.hooks.host.name() })
        }
        Personality::ReplicaSet => {
            Err(MongoError::new(code::COMMAND_NOT_FOUND, "no such command: 'isdbgrid'"))
        }
    }
}

/// `getDefaultRWConcern`.
pub(crate) fn default_concerns() -> Object {
    document! {
        "defaultReadConcern" => document! { "level" => "local" },
        "defaultWriteConcern" => document! { "w" => "majority", "wtimeout" => 0 },
        "defaultWriteConcernSource" => "implicit",
        "defaultReadConcernSource" => "implicit",
    }
}
