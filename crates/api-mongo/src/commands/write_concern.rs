//! What a client wants of its writes before they are acknowledged.

use model::{Object, Value};

use crate::MongoError;
use crate::client::Client;
use crate::command::{Command, whole_number};
use crate::document::document;
use crate::errors::codes as code;

/// Most members that a client may name.
const MEMBERS_MAX: i64 = 50;

/// Reads the write concern. What can't be satisfied, as there is one server, is reported beside the
/// outcome.
pub(crate) fn check(_client: &Client, command: &Command) -> Result<Option<Object>, MongoError> {
    let Some(concern) = command.object("writeConcern") else { return Ok(None) };
    for (name, _) in concern.iter() {
        if !["w", "j", "wtimeout", "fsync", "provenance"].contains(&name) {
            return Err(MongoError::new(
                code::UNKNOWN_FIELD,
                format!("BSON field 'writeConcern.{name}' is an unknown field."),
            ));
        }
    }
    let unsatisfied = |number: i32, name: &str, message: String| {
        let info = document! { "writeConcern" => concern.clone() };
        document! { "code" => number, "codeName" => name, "errmsg" => message, "errInfo" => info }
    };
    match concern.get("w") {
        None => Ok(None),
        Some(Value::String(tag)) if tag == "majority" => Ok(None),
        Some(Value::String(tag)) => Ok(Some(unsatisfied(
            code::UNKNOWN_REPL_WRITE_CONCERN,
            "UnknownReplWriteConcern",
            format!("No write concern mode named '{tag}' found in replica set configuration"),
        ))),
        Some(other) => match whole_number(other) {
            Some(0 | 1) => Ok(None),
            Some(2..=MEMBERS_MAX) => Ok(Some(unsatisfied(
                code::UNSATISFIABLE_WRITE_CONCERN,
                "UnsatisfiableWriteConcern",
                "Not enough data-bearing nodes".to_owned(),
            ))),
            Some(_) | None => Err(MongoError::new(
                code::FAILED_TO_PARSE,
                format!("w has to be a non-negative number and not greater than {MEMBERS_MAX}"),
            )),
        },
    }
}

/// Adds what could not be satisfied to a reply.
pub(crate) fn report(unsatisfied: Option<Object>, reply: &mut Object) {
    if let Some(error) = unsatisfied {
        reply.insert("writeConcernError", error.into());
    }
}
