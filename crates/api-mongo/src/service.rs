//! The service: takes a message through its stages to a reply.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use account::{Caller, KeyKind, KeyRing, Observer};
use arc_swap::ArcSwap;
use bytes::Bytes;
use engine::Engine;
use engine::components::Clock;
use front_http::catch_panic;
use model::{Object, Value};
use tracing::{debug, error, warn};

use crate::client::{Client, Entry, LastCommand};
use crate::cluster_time::ClusterClock;
use crate::command::{Command, whole_number};
use crate::commands::{self, Access, Row};
use crate::cursors::Cursors;
use crate::errors::codes as code;
use crate::fail_points::{FailPoints, Failure};
use crate::observe::{Observation, Operation};
use crate::reply::Reply;
use crate::retries::Retries;
use crate::rights::{ADMIN, Principal, Rights};
use crate::sessions::{SessionId, Sessions};
use crate::temporary_files::TemporaryFiles;
use crate::wire::{Answer, BadMessage, Compressor, Form, Message};
use crate::{MongoError, fields, routes};

/// How the service behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the account, which is also that of its user.
    pub account: String,
    /// The host that clients are told where they do not name one.
    pub host: String,
    /// Whether clients on this machine need credentials, too.
    pub requires_login: bool,
    /// Whether tests may let commands fail.
    pub has_test_commands: bool,
    /// How long a statement waits for request units if its command has no time limit.
    pub throttle_wait: Duration,
}

/// What the process knows of itself and its machine.
pub trait Host: Send + Sync {
    /// The name of the machine.
    fn name(&self) -> String;
    /// The memory of the machine in bytes; 0 if it is not known.
    fn memory_bytes(&self) -> u64;
    /// The memory that the process takes, in bytes; 0 if it is not known.
    fn resident_bytes(&self) -> u64;
    /// How many connections may be open.
    fn connections_max(&self) -> usize;
}

/// Parts that the owner of a service supplies.
#[derive(Clone)]
pub struct Hooks {
    /// Notified of every command.
    pub observer: Option<Arc<dyn Observer<Observation>>>,
    /// Tells about the process.
    pub host: Arc<dyn Host>,
    /// Where stages of pipelines write what they cannot keep in memory; `None` if they may not.
    pub temporary_files: Option<Arc<TemporaryFiles>>,
}

/// The MongoDB API over one engine.
pub struct Service {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    pub(crate) keys: ArcSwap<KeyRing>,
    pub(crate) time: ClusterClock,
    pub(crate) sessions: Sessions,
    pub(crate) cursors: Cursors,
    pub(crate) retries: Retries,
    pub(crate) fail_points: FailPoints,
    pub(crate) logins: commands::login::Logins,
    pub(crate) counters: Counters,
    /// Tells this process from others.
    pub(crate) process_id: [u8; 12],
    /// When it started, by the monotonic clock.
    pub(crate) started: Duration,
    pub(crate) hooks: Hooks,
}

/// What `serverStatus` counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Clients since the start.
    pub(crate) connected: AtomicU64,
    /// Clients now.
    pub(crate) open: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) commands: [AtomicU64; OpCounter::COUNT],
}

/// The kinds of commands that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpCounter {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

impl OpCounter {
    const COUNT: usize = 6;
    /// All of them, with their names.
    pub(crate) const ALL: [(OpCounter, &'static str); Self::COUNT] = [
        (OpCounter::Insert, "insert"),
        (OpCounter::Query, "query"),
        (OpCounter::Update, "update"),
        (OpCounter::Delete, "delete"),
        (OpCounter::GetMore, "getmore"),
        (OpCounter::Command, "command"),
    ];

    fn of(command: &str) -> Self {
        match command {
            "insert" => OpCounter::Insert,
            "find" => OpCounter::Query,
            "update" => OpCounter::Update,
            "delete" => OpCounter::Delete,
            "getMore" => OpCounter::GetMore,
            _ => OpCounter::Command,
        }
    }
}

/// What a connection does after a message.
#[derive(Debug)]
pub struct Served {
    /// The bytes to send.
    pub reply: Vec<u8>,
    /// What yields the next reply to the same message.
    pub next: Option<Next>,
    /// Whether the connection ends then.
    pub ends: bool,
}

/// A command whose next reply is sent without a further message.
#[derive(Debug)]
pub struct Next {
    command: Command,
    response_to: i32,
    form: Form,
    compressor: Option<Compressor>,
}

impl Service {
    /// A service over `engine` for an account with these keys.
    pub fn new(engine: Engine, keys: KeyRing, settings: Settings, hooks: Hooks) -> Arc<Self> {
        let components = engine.components();
        let mut process_id = [0; 12];
        components.random.fill(&mut process_id);
        let started = components.clock.monotonic();
        Arc::new(Self {
            settings,
            keys: ArcSwap::from_pointee(keys),
            time: ClusterClock::default(),
            sessions: Sessions::default(),
            cursors: Cursors::default(),
            retries: Retries::default(),
            fail_points: FailPoints::default(),
            logins: commands::login::Logins::new(engine.secret("mongo-salts")),
            counters: Counters::default(),
            process_id,
            started,
            hooks,
            engine,
        })
    }

    /// Replaces the keys of the account. Clients that logged in with a key that is gone have to log
    /// in again.
    pub fn rotate_keys(&self, keys: &KeyRing) {
        self.keys.store(Arc::new(keys.clone()));
    }

    /// A client that came in by `entry`.
    pub fn connect(self: &Arc<Self>, entry: Entry) -> Client {
        Client::new(Arc::clone(self), entry)
    }

    /// A number that no client can guess.
    pub(crate) fn random_number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.engine.components().random.fill(&mut bytes);
        u64::from_be_bytes(bytes)
    }

    /// Whether a client may do more than log in.
    pub fn admits(&self, client: &Client) -> bool {
        client.principal.is_some() || self.is_trusted(client)
    }

    /// Serves one message.
    pub async fn serve(&self, client: &mut Client, message: Bytes) -> Result<Served, BadMessage> {
        self.counters.bytes_in.fetch_add(message.len() as u64, Ordering::Relaxed);
        let message = Message::read(message)?;
        let (form, compressor) = (message.form, message.compressor);
        let reply = match Command::read(&message) {
            Ok(command) => {
                let reply = self.run(client, command).await;
                if matches!(form, Form::Msg { is_unacknowledged: true, .. }) {
                    let ends = reply.hangs_up;
                    return Ok(Served { reply: Vec::new(), next: None, ends });
                }
                reply
            }
            Err(error) => self.refuse(&error, Operation::UNKNOWN, form == Form::OldQuery),
        };
        let next =
            Next { command: Command::default(), response_to: message.request_id, form, compressor };
        Ok(self.answer(reply, next))
    }

    /// Goes on with the replies to a message.
    pub async fn serve_next(&self, client: &mut Client, next: Next) -> Served {
        let Next { command, response_to, form, compressor } = next;
        let reply = self.run(client, command).await;
        let next = Next { command: Command::default(), response_to, form, compressor };
        self.answer(reply, next)
    }

    fn answer(&self, mut reply: Reply, to: Next) -> Served {
        if reply.hangs_up {
            return Served { reply: Vec::new(), next: None, ends: true };
        }
        let mut body = Vec::new();
        if let Err(error) = reply.write(&mut body) {
            reply = self.refuse(&error, Operation::UNKNOWN, false);
            body.clear();
            // What is written now are numbers and texts of this server.
            let _ = reply.write(&mut body);
        }
        let Next { response_to, form, compressor, .. } = to;
        let next = reply.next.take();
        let request_id = self.next_request_id();
        let mut bytes = Vec::new();
        let more_to_come = next.is_some();
        Answer { request_id, response_to, form, more_to_come, compressor, body: &body }
            .write(&mut bytes);
        self.counters.bytes_out.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let next = next.map(|command| Next {
            command: *command,
            response_to: request_id,
            form,
            compressor,
        });
        Served { reply: bytes, next, ends: false }
    }

    fn next_request_id(&self) -> i32 {
        let total: u64 = self.counters.bytes_out.load(Ordering::Relaxed);
        i32::try_from(total & 0x7fff_ffff).unwrap_or_default()
    }

    /// Carries out a command. Infallible: every error, a panic included, becomes a reply.
    pub async fn run(&self, client: &mut Client, command: Command) -> Reply {
        let clock = &*self.engine.components().clock;
        let received = clock.monotonic();
        let (name, database) = (command.name.clone(), command.database.clone());
        let row = commands::named(&name);
        let operation = row.map_or(Operation::UNKNOWN, |row| Operation(row.index()));
        self.counters.commands[OpCounter::of(&name) as usize].fetch_add(1, Ordering::Relaxed);
        let peer = client.entry.peer.ip();
        let outcome = catch_panic(pin!(self.carry_out(client, row, command))).await;
        let outcome = outcome.unwrap_or_else(|message| {
            error!(command = name, message, "a command panicked");
            Err(MongoError::new(code::INTERNAL_ERROR, "a bug of the server"))
        });
        let elapsed = clock.monotonic().saturating_sub(received);
        let mut status = 200;
        let mut reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                status = error.status();
                if matches!(error.code(), code::UNAUTHORIZED | code::AUTHENTICATION_FAILED) {
                    warn!(target: "audit", %peer, command = name, database, code = error.code(), "access denied");
                }
                if error.code() == code::INTERNAL_ERROR {
                    error!(command = name, error = error.message(), "a command failed");
                }
                Reply::from(error.to_reply())
            }
        };
        if let Some(observer) = &self.hooks.observer {
            observer.answered(&Observation { operation, status, elapsed, format: () });
        }
        debug!(
            command = name,
            database,
            status,
            elapsed_us = elapsed.as_micros(),
            "mongodb command served"
        );
        self.finish(&mut reply, clock);
        if !name.eq_ignore_ascii_case(LAST_STATISTICS) {
            let millis = elapsed.as_secs_f64() * 1000.0;
            let charge = reply.charge.as_milli() as f64 / 1000.0;
            client.last = Some(LastCommand { name, charge, millis });
        }
        reply
    }

    /// Adds what every reply has.
    fn finish(&self, reply: &mut Reply, clock: &dyn Clock) {
        if reply.fields.get("ok").is_none() {
            reply.fields.insert("ok", Value::Double(1.0));
        }
        self.time.reach(self.engine.commit_time());
        self.time.stamp(self.time.now(clock), clock, &mut reply.fields);
    }

    /// The reply to what is no command.
    fn refuse(&self, error: &MongoError, operation: Operation, is_old_query: bool) -> Reply {
        if let Some(observer) = &self.hooks.observer {
            let (status, elapsed) = (error.status(), Duration::ZERO);
            observer.answered(&Observation { operation, status, elapsed, format: () });
        }
        let mut reply = Reply::from(error.to_reply());
        if is_old_query {
            reply.fields.insert("$err", error.message().into());
        }
        self.finish(&mut reply, &*self.engine.components().clock);
        reply
    }

    async fn carry_out(
        &self,
        client: &mut Client,
        row: Option<&'static Row>,
        mut command: Command,
    ) -> Result<Reply, MongoError> {
        let name = command.name.clone();
        let Some(row) = row else { return Err(not_found(&name)) };
        let is_retryable_write = is_retryable_write(&command);
        let failure = self.fail_point(client, row, &command);
        if let Some(failure) = &failure {
            if let Some(time) = failure.block {
                self.engine.components().clock.sleep(time).await;
            }
            if failure.hangs_up {
                return Ok(Reply { hangs_up: true, ..Reply::default() });
            }
            if let Some(error) = failure.to_error(is_retryable_write) {
                return Err(error);
            }
        }
        self.authorize(client, row, &command)?;
        if !row.takes_any_field {
            let has_documents = command.documents.count > 0;
            fields::check((&name, row.fields), has_documents, &mut command.fields)?;
        }
        check_api_version(row, &command)?;
        if row.is_for_admin && command.database != ADMIN {
            return Err(MongoError::new(
                code::UNAUTHORIZED,
                format!("{name} may only be run against the admin database."),
            ));
        }
        let clock = &*self.engine.components().clock;
        if let Some(seen) = command.object("$clusterTime") {
            self.time.advance(seen, &self.engine)?;
        }
        check_concerns(&command)?;
        let mut session = None;
        if let Some(lsid) = command.object("lsid") {
            let id = SessionId::read(lsid, client.owner())?;
            self.sessions.touch(id, clock.monotonic());
            session = Some(id);
        }
        let number = command.get("txnNumber").and_then(whole_number).filter(|_| is_retryable_write);
        let write = session.zip(number).filter(|_| row.access == Access::Write);
        if let Some((session, number)) = write
            && let Some(reply) = self.retries.begin(session, number, clock.monotonic())?
        {
            return Ok(retried(reply));
        }
        let reply = routes::run(self, client, row.kind, command).await;
        let mut reply = match reply {
            Err(error) if is_retryable_write && code::RETRYABLE.contains(&error.code()) => {
                return Err(error.label(crate::errors::RETRYABLE_WRITE));
            }
            reply => reply?,
        };
        if let Some((session, number)) = write {
            self.retries.finish(session, number, &reply.fields);
        }
        if let Some(failure) = failure {
            failure.report(is_retryable_write, &mut reply.fields);
        }
        Ok(reply)
    }

    fn fail_point(&self, client: &Client, row: &Row, command: &Command) -> Option<Failure> {
        if !self.settings.has_test_commands || row.kind == commands::Kind::ConfigureFailPoint {
            return None;
        }
        let namespace =
            command.target().as_str().map(|name| format!("{}.{name}", command.database));
        let random = || {
            let mut bytes = [0; 1];
            self.engine.components().random.fill(&mut bytes);
            f64::from(bytes[0]) / 256.0
        };
        let by = (command.name.as_str(), client.app_name());
        self.fail_points.meet(client.entry.port, by, namespace.as_deref(), random)
    }

    /// What a client may do now.
    pub(crate) fn rights(&self, client: &Client) -> Rights {
        let keys = self.keys.load();
        match &client.principal {
            Some(Principal::Account { key, caller, .. }) => {
                let mut held = KeyKind::ALL.into_iter().filter_map(|kind| keys.get(kind));
                match held.any(|held| held == key) {
                    true => Rights::Account(*caller),
                    false => Rights::None,
                }
            }
            Some(Principal::User { user, database }) => match self.stored_user(user, database) {
                Some(user) => Rights::Roles(user.roles),
                None => Rights::None,
            },
            None if self.is_trusted(client) => Rights::Account(Caller::ReadWrite),
            None => Rights::None,
        }
    }

    /// Whether a client needs no credentials.
    pub(crate) fn is_trusted(&self, client: &Client) -> bool {
        let has_public_key = || self.keys.load().has_well_known();
        client.entry.is_trusted && !self.settings.requires_login && has_public_key()
    }

    fn authorize(&self, client: &Client, row: &Row, command: &Command) -> Result<(), MongoError> {
        if row.access == Access::Anyone {
            return Ok(());
        }
        let rights = self.rights(client);
        if rights.grant(row.access, &command.database) {
            return Ok(());
        }
        let name = &command.name;
        Err(MongoError::new(
            code::UNAUTHORIZED,
            match rights {
                Rights::None => format!("Command {name} requires authentication"),
                Rights::Account(_) | Rights::Roles(_) => {
                    format!("not authorized on {} to execute command {name}", command.database)
                }
            },
        ))
    }
}

/// The command that tells what the one before it took.
const LAST_STATISTICS: &str = "getLastRequestStatistics";

fn not_found(name: &str) -> MongoError {
    match commands::UNSUPPORTED.contains(&name) {
        true => {
            MongoError::new(code::COMMAND_NOT_SUPPORTED, format!("Command {name} is not supported"))
        }
        false => MongoError::new(code::COMMAND_NOT_FOUND, format!("no such command: '{name}'")),
    }
}

/// Whether a command is a write that its client sends again if it learns nothing of its outcome.
fn is_retryable_write(command: &Command) -> bool {
    command.get("txnNumber").is_some() && command.get("autocommit").is_none()
}

/// The reply to a write that was carried out before.
fn retried(mut reply: Object) -> Reply {
    let statements = vec![Value::Int32(0)];
    reply.insert("retriedStmtIds", statements.into());
    reply.into()
}

/// Refuses transactions, and reads of snapshots.
fn check_concerns(command: &Command) -> Result<(), MongoError> {
    let name = &command.name;
    if command.get("startTransaction").is_some() || command.get("autocommit").is_some() {
        return Err(MongoError::new(
            code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            format!("Cannot run '{name}' in a multi-document transaction: there are none yet."),
        ));
    }
    let level = command.object("readConcern").and_then(|concern| concern.get("level"));
    match level.map(|level| level.as_str().unwrap_or_default()) {
        None | Some("local" | "available" | "majority" | "linearizable") => Ok(()),
        Some("snapshot") => Err(MongoError::new(
            code::SNAPSHOT_UNAVAILABLE,
            "reads of a snapshot are not supported",
        )),
        Some(other) => Err(MongoError::new(
            code::FAILED_TO_PARSE,
            format!(
                "Enumeration value '{other}' for field '{name}.readConcern.level' is not a valid \
                 value."
            ),
        )),
    }
}

fn check_api_version(row: &Row, command: &Command) -> Result<(), MongoError> {
    let is_set = |name| command.flag(name) == Some(true);
    let name = row.name;
    match command.text("apiVersion") {
        Some("1") if is_set("apiStrict") && !row.is_stable => Err(MongoError::new(
            code::API_STRICT_ERROR,
            format!(
                "Provided apiStrict:true, but the command {name} is not in API Version 1. \
                 Information on supported commands and migrations in API Version 1 can be found \
                 in the documents of MongoDB's drivers."
            ),
        )),
        Some("1") => Ok(()),
        Some(other) => Err(MongoError::new(
            code::API_VERSION_ERROR,
            format!("Provided apiVersion:{other}, but the server only supports API Version 1."),
        )),
        None if command.get("apiStrict").is_some()
            || command.get("apiDeprecationErrors").is_some() =>
        {
            Err(MongoError::new(
                4_886_600,
                "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
            ))
        }
        None => Ok(()),
    }
}
