//! Starts and stops the server.
//!
//! The order matters: sockets are bound before the data directory is touched, so that a taken port
//! has no side effects; connections queue in the operating system until the engine is open; on
//! shutdown requests finish before the engine closes, and the engine before the process ends.

use std::sync::Arc;

use account::{Directory, KeyRing};
use anyhow::Context;
use api_nosql::{Account, FaultInjector, Hooks, ScriptLimits, Service};
use engine::{Components, Engine};
use front_http::RequestLimits;
use storage::LocalStore;
use tracing::{info, warn};

use crate::account_keys::{self, AccountKeys};
use crate::admin::Admin;
use crate::announce::{self, Announcement};
use crate::config::{Bind, DirectMode, DirectoryMode, Settings, Switch};
use crate::connection_threads::ConnectionThreads;
use crate::connections::{ConnectionLimits, Connections};
use crate::data_dir::DataDir;
use crate::explorer::Explorer;
use crate::faults::{DelayedStore, Faults};
use crate::gateway::{self, Gateway};
use crate::health::Health;
use crate::key_store::KeyStore;
use crate::metrics::{Metrics, Requests};
use crate::origins::{AllowedHost, Origin, OriginPolicy};
use crate::shutdown::Signals;
use crate::tls::Tls;
use crate::{bind, data_dir_check, directory, machine, mongo, open_files, tls};

/// The account name for clients; one SDK fails if it is `localhost`.
pub(crate) const ACCOUNT_NAME: &str = "planisphere";

/// Threads for blocking disk work. More of them would only wait for the disk in parallel, each with
/// its own stack.
const BLOCKING_THREADS_MAX: usize = 16;

/// Threads for background work and for accepting connections.
const BACKGROUND_THREADS: usize = 2;

/// The form of the announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnnounceAs {
    /// Text for people.
    Banner,
    /// One line of JSON for programs.
    Json,
}

/// Serves until a signal arrives, then shuts down in order.
pub(crate) fn run(settings: Settings, announce_as: AnnounceAs) -> anyhow::Result<()> {
    crate::private_file::create_all_private();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("planisphere")
        .worker_threads(BACKGROUND_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .context("can't start the threads of the server")?;
    let outcome = runtime.block_on(serve(settings, announce_as));
    // Remaining background work was asked to stop and had time for it.
    runtime.shutdown_background();
    outcome
}

async fn serve(settings: Settings, announce_as: AnnounceAs) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let listeners = bind::bind(&settings.listen)?;
    data_dir_check::check(&settings.storage)?;
    let components = Components::system(tokio::runtime::Handle::current());
    let keys = account_keys::resolve(&settings, components.random.as_ref())
        .map_err(data_dir_check::with_advice)?;
    let data = DataDir::open(&settings.storage).map_err(data_dir_check::with_advice)?;
    let faults = (settings.engine.fault_injection == Switch::On).then(Arc::<Faults>::default);
    let engine =
        Engine::open(store(&data, faults.as_ref()), components, engine_settings(&settings, &data))
            .context("can't open the engine")?;

    let announcement = Announcement {
        nosql: listeners.address("nosql").context("the NoSQL API has no address")?,
        open: listeners.addresses.clone(),
        off: listeners.off.clone(),
        direct: settings.listen.direct,
        key: keys.ring.primary.clone(),
        key_origin: keys.origin.clone(),
        data_dir: settings.data_dir().map(ToOwned::to_owned),
        throttling: settings.engine.throttling,
        mongo_is_open: settings.mongo.auth == Switch::Off
            && settings.listen.bind.is_loopback()
            && keys.ring.has_well_known(),
    };
    let directory = directory::open(&settings.directory).await?;
    let explorer = Explorer::new(&announcement, &settings.listen.public_endpoint);
    let gateway = Arc::new(new_gateway(&settings, keys, &engine, faults, directory, explorer));
    let threads =
        Arc::new(ConnectionThreads::start().context("can't start the threads of the server")?);
    let accepting = listeners.accept(&gateway, &threads, &settings);
    data.note_endpoints(&announcement.endpoint(), &announcement.admin_endpoint_or_nosql());
    announce::print(&announcement, announce_as).context("can't print the start message")?;
    info!(endpoint = announcement.endpoint(), "serving");

    let signal = signals.next().await;
    info!(signal, "stopping");
    signals.force_exit_on_next();
    // Before the listeners close: a client that finds them closed gets no reply that keeps its
    // connection open.
    gateway.connections.close_after_replies();
    accepting.iter().for_each(tokio::task::JoinHandle::abort);
    let cut_short = gateway.connections.drain(settings.limits.drain_timeout()).await;
    if cut_short > 0 {
        warn!(connections = cut_short, "connections ended before their requests were done");
    }
    engine.close().await.context("can't close the engine")?;
    data.close();
    info!("stopped");
    Ok(())
}

fn new_gateway(
    settings: &Settings,
    keys: AccountKeys,
    engine: &Engine,
    faults: Option<Arc<Faults>>,
    directory: Arc<Directory>,
    explorer: Explorer,
) -> Gateway {
    let AccountKeys { ring, configured, origin: _ } = keys;
    let account = Account {
        name: ACCOUNT_NAME.to_owned(),
        keys: ring.clone(),
        public_endpoint: Some(settings.listen.public_endpoint.clone())
            .filter(|url| !url.is_empty()),
        region: settings.account.region.clone(),
        consistency: settings.account.consistency.into(),
        local_auth: settings.account.local_auth == Switch::On,
        direct: api_nosql::Direct {
            is_on: settings.listen.direct != DirectMode::Off,
            port: settings.listen.direct.own_port(),
        },
    };
    let requests = Arc::new(Requests::default());
    let limits = request_limits(settings);
    let hooks = api_table::Hooks {
        observer: Some(Arc::<Requests>::clone(&requests)),
        directory: Arc::clone(&directory),
    };
    let tables =
        api_table::Service::new(engine.clone(), table_accounts(settings, &ring), limits, hooks);
    let injector = faults.clone().map(|faults| -> Arc<dyn FaultInjector> { faults });
    let hooks =
        Hooks { observer: Some(Arc::<Requests>::clone(&requests)), faults: injector, directory };
    let service =
        Service::with_limits(engine.clone(), account, limits, script_limits(settings), hooks);
    let kept = settings.data_dir().map(|dir| (dir.to_owned(), configured));
    let limits = connection_limits(settings);
    let hooks = api_mongo::Hooks {
        observer: Some(Arc::<Requests>::clone(&requests)),
        host: Arc::new(mongo::Host { connections_max: limits.open_max }),
        temporary_files: settings.data_dir().map(temporary_files),
    };
    let mongo =
        api_mongo::Service::new(engine.clone(), ring.clone(), mongo_settings(settings), hooks);
    let apis = (Arc::clone(&service), Arc::clone(&tables), Arc::clone(&mongo));
    let keys = KeyStore::new(apis, ring, kept);
    let connections = Connections::new(limits);
    let health = Arc::new(Health::new(engine.clone()));
    let direct = Arc::clone(&requests.direct);
    let metrics = Metrics::new(engine, requests, connections.clone(), Arc::clone(&health));
    let admin = Admin::new(
        engine.clone(),
        Arc::clone(&service),
        keys,
        metrics,
        faults,
        limits.body,
        settings.storage.memory,
    );
    let tls = Tls::new(settings.data_dir(), certificate_names(settings));
    let origin_policy = origin_policy(settings);
    let http = gateway::http(settings.limits.header_bytes_max);
    Gateway {
        service,
        tables,
        mongo,
        admin,
        explorer,
        health,
        tls,
        connections,
        origin_policy,
        http,
        direct,
        is_on_loopback: settings.listen.bind.is_loopback(),
    }
}

/// Most bytes of the temporary files of all pipelines together.
const TEMPORARY_BYTES_MAX: u64 = 8 << 30;

fn temporary_files(data: &std::path::Path) -> Arc<api_mongo::TemporaryFiles> {
    let directory = data.join("temporary");
    Arc::new(api_mongo::TemporaryFiles::new(&directory, TEMPORARY_BYTES_MAX))
}

fn mongo_settings(settings: &Settings) -> api_mongo::Settings {
    let host = host_of(&settings.listen.public_endpoint);
    api_mongo::Settings {
        account: ACCOUNT_NAME.to_owned(),
        host: host.unwrap_or_else(|| "localhost".to_owned()),
        requires_login: settings.mongo.auth == Switch::On,
        has_test_commands: settings.mongo.test_commands == Switch::On,
        throttle_wait: std::time::Duration::from_secs(settings.mongo.throttle_wait_s),
    }
}

/// Which hosts and origins are accepted while a key is well known.
fn origin_policy(settings: &Settings) -> OriginPolicy {
    OriginPolicy {
        machine: machine::names(),
        public_endpoint: Origin::parse(&settings.listen.public_endpoint),
        // Already parsed without error when the settings were checked.
        allowed: settings.listen.allowed_hosts().unwrap_or_default(),
        trusts_any: settings.directory.mode == DirectoryMode::TrustAny,
    }
}

/// The accounts whose tables are served. The well-known key is accepted where only this machine can
/// connect.
fn table_accounts(settings: &Settings, ring: &KeyRing) -> api_table::Accounts {
    let is_loopback = settings.listen.bind.is_loopback();
    api_table::Accounts {
        keys: ring.clone(),
        has_development_key: is_loopback,
        has_local_auth: settings.account.local_auth == Switch::On,
        // Already parsed without error when the settings were checked.
        others: settings.table.other_accounts().unwrap_or_default(),
        checks_dates: !is_loopback,
        default_throughput: Some(settings.table.throughput).filter(|throughput| *throughput > 0),
    }
}

/// The store, with delayed commits if tests may inject them.
fn store(data: &DataDir, faults: Option<&Arc<Faults>>) -> Arc<dyn LocalStore> {
    let Some(faults) = faults else { return data.store() };
    warn!("every caller of the admin API can inject faults");
    Arc::new(DelayedStore { store: data.store(), faults: Arc::clone(faults) })
}

fn engine_settings(settings: &Settings, data: &DataDir) -> engine::Settings {
    engine::Settings {
        partition_ru_planned: settings.engine.partition_ru_planned,
        throttling: settings.engine.throttling.into(),
        throughput_limits: settings.engine.limits.into(),
        default_ranges: settings.engine.default_ranges,
        partition_ru_max: settings.engine.partition_ru_max,
        partition_bytes_max: settings.engine.partition_bytes_max,
        logical_partition_bytes_max: settings.engine.logical_partition_bytes_max,
        copy_rows_max: usize::MAX,
        auto_merge: settings.engine.auto_merge == Switch::On,
        old_version_bytes_min: engine::Settings::default().old_version_bytes_min,
        vectors_in_cells: engine::Settings::default().vectors_in_cells,
        durability: data.durability(),
        script_threads: script_threads(settings),
        items_at_once_max: engine::Settings::default().items_at_once_max,
        expiry_interval: engine::Settings::default().expiry_interval,
    }
}

/// Half of the processors by default: scripts must not slow down everything else.
fn script_threads(settings: &Settings) -> usize {
    match settings.scripts.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get() / 2).max(1),
        threads => threads,
    }
}

fn request_limits(settings: &Settings) -> RequestLimits {
    RequestLimits {
        head_bytes_max: settings.limits.header_bytes_max,
        body_timeout: std::time::Duration::from_secs(settings.limits.body_timeout_s),
        ..RequestLimits::default()
    }
}

fn script_limits(settings: &Settings) -> ScriptLimits {
    ScriptLimits {
        time: std::time::Duration::from_millis(settings.scripts.timeout_ms),
        memory_bytes: settings.scripts.memory_bytes,
        stack_bytes: settings.scripts.stack_bytes,
        output_bytes: settings.scripts.output_bytes,
        ..ScriptLimits::default()
    }
}

fn connection_limits(settings: &Settings) -> ConnectionLimits {
    let limits = &settings.limits;
    let seconds = std::time::Duration::from_secs;
    ConnectionLimits {
        open_max: limits.connections_max.min(open_files::connections_max()),
        head: seconds(limits.head_timeout_s),
        body: seconds(limits.body_timeout_s),
    }
}

/// Names under which clients may reach the server: its bound addresses and its configured names.
fn certificate_names(settings: &Settings) -> Vec<String> {
    let listen = &settings.listen;
    let bound = [listen.bind, listen.admin_bind].into_iter().flat_map(|bind| match bind {
        Bind::Address(address) if address.is_unspecified() => machine::addresses(),
        Bind::Address(address) => vec![address],
        Bind::Localhost => Vec::new(),
    });
    // Already parsed without error when the settings were checked.
    let allowed = listen.allowed_hosts().unwrap_or_default();
    let allowed = allowed.iter().map(AllowedHost::pattern);
    let names = bound.map(|address| address.to_string());
    tls::server_names(names.chain(host_of(&listen.public_endpoint)).chain(allowed))
}

/// The host of a URL, without port and brackets.
fn host_of(url: &str) -> Option<String> {
    let uri: hyper::Uri = url.parse().ok()?;
    Some(uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_everybody_knows_is_good_on_loopback_only() {
        let ring = KeyRing::single(account::Key::well_known());
        let mut settings = Settings::default();
        for (bind, is_loopback) in [("127.0.0.1", true), ("::1", true), ("0.0.0.0", false)] {
            settings.listen.bind = bind.to_owned().try_into().expect("an address");
            let accounts = table_accounts(&settings, &ring);
            assert_eq!(accounts.has_development_key, is_loopback, "{bind}");
            assert_eq!(accounts.checks_dates, !is_loopback, "{bind}");
        }
    }

    #[test]
    fn a_certificate_has_all_names_and_addresses_of_the_settings() {
        let mut settings = Settings::default();
        settings.listen.bind = "10.1.2.3".to_owned().try_into().expect("an address");
        settings.listen.admin_bind = "::2".to_owned().try_into().expect("an address");
        settings.listen.public_endpoint = "https://db.example:8081/".to_owned();
        settings.listen.allow_host = "a.example:1,*.b.example,10.4.5.6".to_owned();
        let names = certificate_names(&settings);
        for name in ["localhost", "127.0.0.1", "::1", "10.1.2.3", "::2", "db.example"]
            .into_iter()
            .chain(["a.example", "*.b.example", "10.4.5.6"])
        {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        settings.listen.bind = "0.0.0.0".to_owned().try_into().expect("an address");
        let names = certificate_names(&settings);
        assert!(!names.iter().any(|name| name == "0.0.0.0"), "{names:?}");
        for address in machine::addresses() {
            assert!(names.contains(&address.to_string()), "{address} in {names:?}");
        }
    }

    #[test]
    fn the_host_of_a_url_is_found() {
        assert_eq!(host_of("https://db.example:8081/"), Some("db.example".to_owned()));
        assert_eq!(host_of("http://[::1]:80/"), Some("::1".to_owned()));
        assert_eq!(host_of(""), None);
    }
}
