//! From a command to the function that carries it out.

use crate::client::Client;
use crate::command::Command;
use crate::commands::{
    Kind, aggregate, collections, delete, diagnostics, fail_point, find, hello, indexes, insert,
    login, requests, sessions, update, users,
};
use crate::reply::Reply;
use crate::{MongoError, Service};

/// Carries out a command whose caller and fields were checked.
pub(crate) async fn run(
    service: &Service,
    client: &mut Client,
    kind: Kind,
    command: Command,
) -> Result<Reply, MongoError> {
    match kind {
        Kind::Hello => {
            Box::pin(hello::hello(service, client, command, hello::Greeting::Hello)).await
        }
        Kind::IsMaster => {
            Box::pin(hello::hello(service, client, command, hello::Greeting::IsMaster)).await
        }
        Kind::Ping => Ok(Reply::ok()),
        Kind::BuildInfo => Ok(diagnostics::build_info().into()),
        Kind::WhatsMyUri => Ok(diagnostics::whats_my_uri(client).into()),
        Kind::HostInfo => Ok(diagnostics::host_info(service).into()),
        Kind::GetCmdLineOpts => Ok(diagnostics::command_line(service, client).into()),
        Kind::GetParameter => diagnostics::get_parameter(service, &command).map(Reply::from),
        Kind::ServerStatus => Ok(diagnostics::server_status(service, client).into()),
        Kind::GetLog => diagnostics::get_log(&command).map(Reply::from),
        Kind::ListCommands => Ok(diagnostics::list_commands().into()),
        Kind::IsDbGrid => diagnostics::is_db_grid(service, client).map(Reply::from),
        Kind::GetDefaultRwConcern => Ok(diagnostics::default_concerns().into()),
        Kind::GetNonce => Ok(login::nonce(service).into()),
        Kind::SaslStart => login::start(service, client, &command).map(Reply::from),
        Kind::SaslContinue => login::proceed(service, client, &command).map(Reply::from),
        Kind::Authenticate => login::authenticate(&command).map(Reply::from),
        Kind::Logout => Ok(login::logout(client).into()),
        Kind::ConnectionStatus => Ok(login::status(service, client, &command).into()),
        Kind::StartSession => Ok(sessions::start(service, client).into()),
        Kind::EndSessions => sessions::end(service, client, &command).map(Reply::from),
        Kind::RefreshSessions => sessions::refresh(service, client, &command).map(Reply::from),
        Kind::KillSessions => sessions::kill(service, client, &command).map(Reply::from),
        Kind::KillAllSessions => sessions::kill_all(service, &command).map(Reply::from),
        Kind::KillAllSessionsByPattern => {
            sessions::kill_by_pattern(service, &command).map(Reply::from)
        }
        Kind::CreateUser => {
            Box::pin(users::create(service, client, &command)).await.map(Reply::from)
        }
        Kind::UpdateUser => {
            Box::pin(users::update(service, client, &command)).await.map(Reply::from)
        }
        Kind::DropUser => Box::pin(users::remove(service, client, &command)).await.map(Reply::from),
        Kind::DropAllUsersFromDatabase => {
            Box::pin(users::remove_all(service, client, &command)).await.map(Reply::from)
        }
        Kind::GrantRolesToUser => {
            Box::pin(users::grant(service, client, &command)).await.map(Reply::from)
        }
        Kind::RevokeRolesFromUser => {
            Box::pin(users::revoke(service, client, &command)).await.map(Reply::from)
        }
        Kind::UsersInfo => users::info(service, client, &command).map(Reply::from),
        Kind::Insert => Box::pin(insert::run(service, client, command)).await,
        Kind::Find => Box::pin(find::run(service, client, command)).await,
        Kind::GetMore => Box::pin(find::more(service, client, command)).await,
        Kind::KillCursors => find::kill(service, client, &command).map(Reply::from),
        Kind::Update => Box::pin(update::run(service, client, command)).await,
        Kind::Delete => Box::pin(delete::run(service, client, command)).await,
        Kind::FindAndModify => Box::pin(update::find_and_modify(service, client, command)).await,
        Kind::Aggregate => Box::pin(aggregate::run(service, client, command)).await,
        Kind::Count => Box::pin(find::count_documents(service, client, &command)).await,
        Kind::Distinct => Box::pin(find::distinct(service, client, &command)).await,
        Kind::Create => {
            Box::pin(collections::create(service, client, &command)).await.map(Reply::from)
        }
        Kind::Drop => Box::pin(collections::drop(service, client, &command)).await.map(Reply::from),
        Kind::DropDatabase => {
            Box::pin(collections::drop_database(service, client, &command)).await.map(Reply::from)
        }
        Kind::ListDatabases => {
            collections::list_databases(service, client, &command).map(Reply::from)
        }
        Kind::ListCollections => Box::pin(collections::list(service, client, command)).await,
        Kind::ListIndexes => Box::pin(indexes::list(service, client, command)).await,
        Kind::CreateIndexes => {
            Box::pin(indexes::create(service, client, &command)).await.map(Reply::from)
        }
        Kind::DropIndexes => {
            Box::pin(indexes::drop(service, client, &command)).await.map(Reply::from)
        }
        Kind::CollStats => Box::pin(collections::stats(service, &command)).await.map(Reply::from),
        Kind::DbStats => collections::database_stats(service, &command).map(Reply::from),
        Kind::LastRequestStatistics => Ok(requests::last(client).into()),
        Kind::ConfigureFailPoint => {
            fail_point::configure(service, client, &command).map(Reply::from)
        }
    }
}
