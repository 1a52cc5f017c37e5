//! `configureFailPoint`.

use model::{Object, Value};

use crate::client::Client;
use crate::command::Command;
use crate::document::document;
use crate::errors::codes as code;
use crate::{MongoError, Service};

pub(crate) fn configure(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    if !service.settings.has_test_commands {
        return Err(MongoError::new(
            code::COMMAND_NOT_FOUND,
            "no such command: 'configureFailPoint'; --mongo-test-commands on has it",
        ));
    }
    let mode = command.get("mode").unwrap_or(&Value::Null);
    let (port, data) = (client.entry.port, command.object("data"));
    let hits = service.fail_points.configure(port, command.target(), mode, data)?;
    Ok(document! { "count" => hits })
}
