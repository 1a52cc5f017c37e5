//! Fault injection, on servers that were started with it.

use std::time::Duration;

use api_nosql::{InjectedAnswer, Operation};

use super::Admin;
use super::partitions::number;
use super::reply::{AdminError, Reply};
use super::request::Request;
use super::types::{FaultAnswer, FaultInfo, FaultRequest, Faults};
use crate::faults::{Effect, FAULTS_MAX, Fault, FaultLimit, Scope};

/// Longest delay of a commit.
const DELAY_MS_MAX: u64 = 10_000;
/// Longest retry delay that a client may be told.
const RETRY_AFTER_MS_MAX: u64 = 60_000;
/// Longest duration of a fault.
const SECONDS_MAX: u64 = 3600;

impl Admin {
    /// `GET /_admin/v1/faults`
    pub(super) fn list_faults(&self) -> Reply {
        let all = self.faults.iter().flat_map(|faults| faults.all());
        Reply::ok(&Faults { faults: all.map(|fault| shown(&fault)).collect() })
    }

    /// `POST /_admin/v1/faults`
    pub(super) fn add_fault(&self, request: &Request) -> Result<Reply, AdminError> {
        let params: FaultRequest = request.json()?;
        let (effect, limit) = (effect(&params)?, limit(&params)?);
        let added = self.faults.as_ref().and_then(|faults| faults.add(effect, limit));
        let fault = added.ok_or_else(|| {
            AdminError::conflict(format!("{FAULTS_MAX} faults are in force already."))
        })?;
        Ok(Reply::created(&shown(&fault), format!("/_admin/v1/faults/{}", fault.id)))
    }

    /// `DELETE /_admin/v1/faults/{id}`, or without an id for all of them.
    pub(super) fn remove_faults(&self, id: Option<u32>) -> Result<Reply, AdminError> {
        let Some(faults) = &self.faults else { return Err(AdminError::internal()) };
        match id {
            Some(id) if !faults.remove(id) => Err(AdminError::not_found(format!(
                "Fault {id} does not exist; it may have expired."
            ))),
            Some(_) => Ok(self.list_faults()),
            None => {
                faults.clear();
                Ok(self.list_faults())
            }
        }
    }
}

fn effect(params: &FaultRequest) -> Result<Effect, AdminError> {
    match (&params.answer, params.delay_commits_ms) {
        (Some(answer), None) => Ok(Effect::Answer(injected(answer)?, scope(params)?)),
        (None, Some(delay)) if delay == 0 || delay > DELAY_MS_MAX => Err(AdminError::bad_request(
            format!("'delayCommitsMs' is a number from 1 to {DELAY_MS_MAX}."),
        )),
        (None, Some(_)) if scope(params)? != Scope::default() => Err(AdminError::bad_request(
            "A commit delay applies to all containers; omit 'database', 'container', \
             'partition' and 'operation'.",
        )),
        (None, Some(delay)) => Ok(Effect::DelayCommits(Duration::from_millis(delay))),
        (None, None) | (Some(_), Some(_)) => {
            Err(AdminError::bad_request("Give either 'answer' or 'delayCommitsMs'."))
        }
    }
}

fn injected(answer: &FaultAnswer) -> Result<InjectedAnswer, AdminError> {
    if !(400..=599).contains(&answer.status) {
        return Err(AdminError::bad_request("'status' is that of an error, from 400 to 599."));
    }
    if answer.retry_after_ms.is_some_and(|wait| wait > RETRY_AFTER_MS_MAX) {
        let message = format!("'retryAfterMs' is at most {RETRY_AFTER_MS_MAX}.");
        return Err(AdminError::bad_request(message));
    }
    Ok(InjectedAnswer {
        status: answer.status,
        substatus: answer.substatus,
        retry_after: answer.retry_after_ms.map(Duration::from_millis),
    })
}

fn scope(params: &FaultRequest) -> Result<Scope, AdminError> {
    if params.container.is_some() && params.database.is_none()
        || params.partition.is_some() && params.container.is_none()
    {
        return Err(AdminError::bad_request(
            "Name a container with its 'database', and a partition with its 'container'.",
        ));
    }
    let operation = params.operation.as_ref().map(|name| {
        Operation::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            let known = Operation::ALL.iter().map(|operation| operation.name().to_owned());
            AdminError::bad_request(format!("There is no operation '{name}'.")).with_help(known)
        })
    });
    Ok(Scope {
        operation: operation.transpose()?,
        database: params.database.clone(),
        container: params.container.clone(),
        partition: params.partition.as_ref().map(number).transpose()?,
    })
}

fn limit(params: &FaultRequest) -> Result<FaultLimit, AdminError> {
    if params.count.is_none() && params.seconds.is_none() {
        let message = "Give 'count', 'seconds' or both.";
        return Err(AdminError::bad_request(message));
    }
    if params.count == Some(0) || params.seconds.is_some_and(|s| s == 0 || s > SECONDS_MAX) {
        let message = format!("'count' is 1 or more, 'seconds' a number from 1 to {SECONDS_MAX}.");
        return Err(AdminError::bad_request(message));
    }
    Ok(FaultLimit { count: params.count, lasts: params.seconds.map(Duration::from_secs) })
}

fn shown(fault: &Fault) -> FaultInfo {
    let mut out = FaultInfo {
        id: fault.id,
        fired: fault.fired,
        params: FaultRequest { count: fault.left, ..FaultRequest::default() },
    };
    // Rounded up, so that a fault in force never shows zero seconds.
    out.params.seconds = fault.remains().map(|left| left.as_secs() + 1);
    match &fault.effect {
        Effect::DelayCommits(delay) => {
            out.params.delay_commits_ms = u64::try_from(delay.as_millis()).ok();
        }
        Effect::Answer(answer, scope) => {
            out.params.answer = Some(FaultAnswer {
                status: answer.status,
                substatus: answer.substatus,
                retry_after_ms: answer
                    .retry_after
                    .and_then(|wait| u64::try_from(wait.as_millis()).ok()),
            });
            out.params.operation = scope.operation.map(|operation| operation.name().to_owned());
            out.params.database.clone_from(&scope.database);
            out.params.container.clone_from(&scope.container);
            out.params.partition =
                scope.partition.map(|range| super::types::PartitionNumber::Number(range.0));
        }
    }
    out
}
