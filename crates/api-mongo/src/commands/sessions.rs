//! The commands about sessions.

use model::{Object, Value};

use crate::client::{Client, owner_of};
use crate::command::{Command, type_name, wrong_type};
use crate::document::{document, uuid};
use crate::errors::codes as code;
use crate::sessions::{SessionId, TIMEOUT_MINUTES};
use crate::{MongoError, Service};

/// Most sessions of one command.
const SESSIONS_MAX: usize = 10_000;

/// `startSession`.
pub(crate) fn start(service: &Service, client: &Client) -> Object {
    let components = service.engine.components();
    let mut id = [0; 16];
    components.random.fill(&mut id);
    // The bits that say it is a random one.
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    let session = SessionId { id, owner: client.owner() };
    service.sessions.touch(session, components.clock.monotonic());
    document! { "id" => document! { "id" => uuid(id) }, "timeoutMinutes" => TIMEOUT_MINUTES }
}

/// `endSessions`.
pub(crate) fn end(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    named(command, client.owner())?.into_iter().for_each(|session| service.end_session(session));
    Ok(Object::new())
}

/// `refreshSessions`.
pub(crate) fn refresh(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let now = service.engine.components().clock.monotonic();
    for session in named(command, client.owner())? {
        service.sessions.touch(session, now);
    }
    Ok(Object::new())
}

/// `killSessions`: those named, or all of the caller.
pub(crate) fn kill(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let named = named(command, client.owner())?;
    if named.is_empty() {
        service.end_sessions(Some(client.owner()));
    }
    named.into_iter().for_each(|session| service.end_session(session));
    Ok(Object::new())
}

/// `killAllSessions`: those of the users named, or all.
pub(crate) fn kill_all(service: &Service, command: &Command) -> Result<Object, MongoError> {
    let users = elements(command)?;
    if users.is_empty() {
        service.end_sessions(None);
    }
    service.end_sessions_of(users);
    Ok(Object::new())
}

/// `killAllSessionsByPattern`: those with the numbers or of the users named, or all.
pub(crate) fn kill_by_pattern(service: &Service, command: &Command) -> Result<Object, MongoError> {
    let patterns = elements(command)?;
    if patterns.is_empty() {
        service.end_sessions(None);
    }
    for pattern in patterns {
        if let Some(lsid) = pattern.field("lsid").and_then(Value::as_object) {
            service.end_session(SessionId::read(lsid, 0)?);
        }
        let users = pattern.field("users").and_then(Value::as_array).unwrap_or_default();
        service.end_sessions_of(users);
    }
    Ok(Object::new())
}

fn elements(command: &Command) -> Result<&[Value], MongoError> {
    let elements = command.target().as_array().ok_or_else(|| {
        let at = format!("{0}.{0}", command.name);
        wrong_type(&at, type_name(command.target()), "array")
    })?;
    if elements.len() > SESSIONS_MAX {
        return Err(MongoError::new(
            code::INVALID_LENGTH,
            format!("{} may have at most {SESSIONS_MAX} elements", command.name),
        ));
    }
    Ok(elements)
}

fn named(command: &Command, owner: u64) -> Result<Vec<SessionId>, MongoError> {
    let sessions = elements(command)?.iter().map(|session| match session.as_object() {
        Some(lsid) => SessionId::read(lsid, owner),
        None => {
            let at = format!("{0}.{0}", command.name);
            Err(wrong_type(&at, type_name(session), "object"))
        }
    });
    sessions.collect()
}

impl Service {
    /// Ends a session and what belongs to it.
    fn end_session(&self, session: SessionId) {
        self.sessions.end(session);
        self.cursors.close_session(session);
        self.retries.end(session);
    }

    /// Ends all sessions, or those of one user, and what belongs to them.
    fn end_sessions(&self, owner: Option<u64>) {
        for session in self.sessions.end_all(owner) {
            self.end_session(session);
        }
    }

    /// Ends the sessions of users.
    fn end_sessions_of(&self, users: &[Value]) {
        for user in users {
            let text = |name| user.field(name).and_then(Value::as_str);
            if let (Some(user), Some(database)) = (text("user"), text("db")) {
                self.end_sessions(Some(owner_of(user, database)));
            }
        }
    }
}
