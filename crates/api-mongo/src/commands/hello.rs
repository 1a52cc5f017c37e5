//! `hello` and `isMaster`: what the server is, what it can do, and a first step of logging in.

use std::time::Duration;

use model::{Object, Value};

use super::login;
use crate::client::{Client, Personality, REPLICA_SET};
use crate::command::{Command, DOCUMENT_BYTES_MAX};
use crate::document::document;
use crate::errors::codes as code;
use crate::reply::Reply;
use crate::sessions::TIMEOUT_MINUTES;
use crate::wire::{Compressor, MESSAGE_BYTES_MAX, SEQUENCE_DOCUMENTS_MAX};
use crate::{MongoError, Service};

/// The versions of the protocol that are served; 21 is that of MongoDB 7.0.
const WIRE_VERSIONS: (i32, i32) = (0, 21);
/// Longest time for which a reply is held back.
const AWAIT_MAX: Duration = Duration::from_secs(3600);
/// Largest document in which a client may describe itself.
const METADATA_BYTES_MAX: usize = 512;

/// Which greeting it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// `hello`.
    Hello,
    /// `isMaster`, the old form.
    IsMaster,
}

pub(crate) async fn hello(
    service: &Service,
    client: &mut Client,
    command: Command,
    greeting: Greeting,
) -> Result<Reply, MongoError> {
    note_metadata(client, &command)?;
    wait_for_change(service, &command).await?;
    let mut reply = describe(service, client, &command, greeting);
    if let Some(names) = command.array("compression") {
        let wanted = names.iter().filter_map(Value::as_str).filter_map(Compressor::named);
        let agreed = wanted.map(|agreed| agreed.name().into()).collect::<Vec<_>>();
        if !agreed.is_empty() {
            reply.insert("compression", Value::Array(agreed));
        }
    }
    if let Some(user) = command.text("saslSupportedMechs") {
        reply.insert("saslSupportedMechs", login::mechanisms_of(service, user)?);
    }
    if let Some(start) = command.object("speculativeAuthenticate") {
        let mut fields = start.clone();
        // The user's database stands in the document, as the command is sent to another.
        let database = start.get("db").and_then(Value::as_str).unwrap_or("admin").to_owned();
        fields.remove("db");
        // Where it fails, the client tries again in the ordinary way, and learns why.
        if let Ok(answer) = login::start(service, client, &Command::new(database, fields)) {
            reply.insert("speculativeAuthenticate", answer.into());
        }
    }
    let next = next_greeting(service, command);
    Ok(Reply { next, ..Reply::from(reply) })
}

/// Keeps what the client says about itself, which it may do once.
fn note_metadata(client: &mut Client, command: &Command) -> Result<(), MongoError> {
    /// ClientMetadataDocumentTooLarge.
    const TOO_LARGE: i32 = 187;
    let Some(metadata) = command.object("client") else { return Ok(()) };
    if client.metadata.is_some() {
        return Err(MongoError::new(
            code::CLIENT_METADATA_CANNOT_BE_MUTATED,
            "The client metadata document may only be sent in the first hello",
        ));
    }
    let mut bytes = Vec::new();
    let is_small =
        model::bson::write(metadata, &mut bytes).is_ok() && bytes.len() <= METADATA_BYTES_MAX;
    if !is_small {
        return Err(MongoError::new(
            TOO_LARGE,
            format!("The client metadata document may have at most {METADATA_BYTES_MAX} bytes"),
        ));
    }
    client.metadata = Some(metadata.clone());
    Ok(())
}

fn describe(service: &Service, client: &Client, command: &Command, greeting: Greeting) -> Object {
    let mut reply = Object::new();
    if command.flag("helloOk") == Some(true) {
        reply.insert("helloOk", Value::Bool(true));
    }
    let is_writable = match greeting {
        Greeting::Hello => "isWritablePrimary",
        Greeting::IsMaster => "ismaster",
    };
    reply.insert(is_writable, Value::Bool(true));
    match client.entry.personality {
        Personality::Router => {
            reply.insert("msg", "isdbgrid".into());
        }
        Personality::ReplicaSet => add_replica_set(service, client, &mut reply),
    }
    let (version_min, version_max) = WIRE_VERSIONS;
    let whole = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let more = document! {
        "topologyVersion" => topology_version(service),
        "maxBsonObjectSize" => whole(DOCUMENT_BYTES_MAX),
        "maxMessageSizeBytes" => whole(MESSAGE_BYTES_MAX),
        "maxWriteBatchSize" => whole(SEQUENCE_DOCUMENTS_MAX),
        "localTime" => service.engine.components().clock.now(),
        "logicalSessionTimeoutMinutes" => TIMEOUT_MINUTES,
        "connectionId" => client.id,
        "minWireVersion" => version_min,
        "maxWireVersion" => version_max,
        "readOnly" => false,
    };
    for (name, value) in more {
        reply.insert(name, value);
    }
    reply
}

fn add_replica_set(service: &Service, client: &Client, reply: &mut Object) {
    let clock = &service.engine.components().clock;
    let name = client.server_name();
    let time = service.time.now(&**clock).to_value();
    let at = document! { "ts" => time, "t" => 1i64 };
    let now = clock.now();
    let last_write = document! {
        "opTime" => at.clone(),
        "lastWriteDate" => now,
        "majorityOpTime" => at,
        "majorityWriteDate" => now,
    };
    let fields = document! {
        "setName" => REPLICA_SET,
        "setVersion" => 1,
        "secondary" => false,
        "primary" => name.as_str(),
        "hosts" => vec![Value::from(name.as_str())],
        "me" => name.as_str(),
        "electionId" => Value::ObjectId(service.process_id),
        "lastWrite" => last_write,
    };
    for (name, value) in fields {
        reply.insert(name, value);
    }
}

/// The version of what the server says about itself, which stays as it is while the process runs.
fn topology_version(service: &Service) -> Object {
    document! { "processId" => Value::ObjectId(service.process_id), "counter" => 0i64 }
}

/// Holds the reply back if the client knows it already.
async fn wait_for_change(service: &Service, command: &Command) -> Result<(), MongoError> {
    const ONE_WITHOUT_THE_OTHER: i32 = 31_368;
    match (command.object("topologyVersion"), command.natural("maxAwaitTimeMS")?) {
        (Some(known), Some(millis)) => {
            if known == &topology_version(service) {
                let time = Duration::from_millis(millis).min(AWAIT_MAX);
                service.engine.components().clock.sleep(time).await;
            }
            Ok(())
        }
        (None, None) => Ok(()),
        (Some(_), None) | (None, Some(_)) => Err(MongoError::new(
            ONE_WITHOUT_THE_OTHER,
            "Fields 'topologyVersion' and 'maxAwaitTimeMS' must be given together",
        )),
    }
}

/// The greeting that a client expects after this one without asking again.
fn next_greeting(service: &Service, mut command: Command) -> Option<Box<Command>> {
    command.get("topologyVersion")?;
    if !command.manner.allows_exhaust {
        return None;
    }
    command.fields.insert("topologyVersion", topology_version(service).into());
    for once in ["client", "speculativeAuthenticate", "saslSupportedMechs", "compression"] {
        command.fields.remove(once);
    }
    Some(Box::new(command))
}
