//! What requests cost, as Cosmos DB tells it.

use model::Object;

use crate::client::Client;
use crate::document::document;

/// `getLastRequestStatistics`: of the command before it on this connection.
pub(crate) fn last(client: &Client) -> Object {
    let mut reply = document! { "_t" => "GetRequestStatisticsResponse", "ok" => 1.0 };
    if let Some(last) = &client.last {
        reply.insert("CommandName", last.name.as_str().into());
        reply.insert("RequestCharge", last.charge.into());
        reply.insert("RequestDurationInMilliSeconds", last.millis.into());
    }
    reply
}
