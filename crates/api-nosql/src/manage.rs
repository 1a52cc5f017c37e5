//! Databases and containers that the process makes and deletes itself, for people: by the rules of
//! the wire, since they are checked by the same functions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Container, Database, Offer, Throughput};
use model::ErrorKind;

use crate::errors::ApiError;
use crate::faults::FaultSubject;
use crate::observe::Operation;
use crate::{Service, containers, policy, resource};

/// Why something is not made or deleted.
#[derive(Clone, Debug)]
pub struct ManagementError {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// A text for people.
    pub message: String,
    /// How long to wait, if it only has to wait.
    pub retry_after: Option<Duration>,
}

impl From<ApiError> for ManagementError {
    fn from(error: ApiError) -> Self {
        Self {
            kind: error.kind(),
            message: error.plain_message(),
            retry_after: error.retry_after(),
        }
    }
}

impl From<engine::Error> for ManagementError {
    fn from(error: engine::Error) -> Self {
        let (kind, retry_after) = (error.kind(), error.retry_after());
        Self { kind, message: error.to_string(), retry_after }
    }
}

impl Service {
    /// Creates a database, with throughput that its containers share if some is given.
    pub async fn create_database(
        &self,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>, ManagementError> {
        self.check_faults(Operation::Database, None)?;
        Ok(self.engine().create_database(id, throughput).await?)
    }

    /// Deletes a database and everything in it.
    pub async fn delete_database(&self, database: &Database) -> Result<(), ManagementError> {
        self.check_faults(Operation::Database, None)?;
        Ok(self.engine().delete_database(database.rid, None).await?)
    }

    /// Creates a container by its description: the JSON object that the wire has, without members
    /// that no container has.
    pub async fn create_container(
        &self,
        database: &Database,
        description: &[u8],
        throughput: Option<Throughput>,
    ) -> Result<Arc<Container>, ManagementError> {
        self.check_faults(Operation::Container, None)?;
        let body = resource::parse(description)?;
        policy::check_members(&body)?;
        let spec = containers::new_spec(&self.engine().catalog(), database.rid, &body, false)?;
        Ok(self.engine().create_container(database.rid, spec, throughput).await?)
    }

    /// Deletes a container and its items.
    pub async fn delete_container(&self, container: &Container) -> Result<(), ManagementError> {
        self.check_faults(Operation::Container, Some(container))?;
        Ok(self.engine().delete_container(container.rid, None).await?)
    }

    /// Gives a database or container other throughput.
    pub async fn set_throughput(
        &self,
        offer: &Offer,
        throughput: Throughput,
    ) -> Result<(), ManagementError> {
        self.check_faults(Operation::Offer, None)?;
        self.engine().replace_offer(offer.rid, throughput).await?;
        Ok(())
    }

    /// A container's description as the wire has it, as JSON.
    pub fn describe_container(&self, container: &Container) -> Bytes {
        resource::body(&containers::described(container).into())
    }

    /// Fails where a test asked for it, as the same operation does on the wire.
    fn check_faults(
        &self,
        operation: Operation,
        container: Option<&Container>,
    ) -> Result<(), ManagementError> {
        let Some(faults) = self.faults() else { return Ok(()) };
        let subject = FaultSubject::of_process(operation, container);
        let Some(answer) = faults.answer_instead(&subject) else { return Ok(()) };
        let kind = match answer.status {
            429 => ErrorKind::Throttled,
            503 => ErrorKind::Unavailable,
            _ => ErrorKind::BadRequest,
        };
        let message = ApiError::injected(&answer).plain_message();
        Err(ManagementError { kind, message, retry_after: answer.retry_after })
    }
}
