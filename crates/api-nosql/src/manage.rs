//! Databases and containers that the admin API creates and deletes: the same functions check them,
//! so the same rules hold as on the wire.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Container, Database, Offer, Throughput};
use model::ErrorKind;

use crate::errors::{ApiError, texts};
use crate::faults::FaultSubject;
use crate::operation::Operation;
use crate::policy::ClientVersion;
use crate::{Service, containers, policy, resource};

/// Why a resource is not created or deleted.
#[derive(Clone, Debug)]
pub struct ManagementError {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// A text for people.
    pub message: String,
    /// How long to wait before a retry, if a retry helps.
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
        let message = if let engine::Error::InvalidRequest(invalid) = &error {
            texts::invalid_request(invalid).into_owned()
        } else if let engine::Error::Busy(busy) = error {
            texts::busy(busy)
        } else {
            error.to_string()
        };
        Self { kind, message, retry_after }
    }
}

impl Service {
    /// Creates a database, with throughput that its containers share if any is given.
    pub async fn create_database(
        &self,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>, ManagementError> {
        self.check_faults(Operation::Database, None)?;
        Ok(self.engine().create_database(&self.operator_context(), id, throughput).await?)
    }

    /// Deletes a database and everything in it.
    pub async fn delete_database(&self, database: &Database) -> Result<(), ManagementError> {
        self.check_faults(Operation::Database, None)?;
        Ok(self.engine().delete_database(&self.operator_context(), database.rid, None).await?)
    }

    /// Creates a container from its description: the JSON object of the wire, without unknown
    /// members.
    pub async fn create_container(
        &self,
        database: &Database,
        description: &[u8],
        throughput: Option<Throughput>,
    ) -> Result<Arc<Container>, ManagementError> {
        self.check_faults(Operation::Container, None)?;
        let body = resource::parse(description)?;
        policy::check_members(&body)?;
        let spec = containers::new_spec(
            &self.engine().catalog(),
            database.rid,
            &body,
            ClientVersion::Current,
        )?;
        Ok(self
            .engine()
            .create_container(&self.operator_context(), database.rid, spec, throughput)
            .await?)
    }

    /// Deletes a container and its items.
    pub async fn delete_container(&self, container: &Container) -> Result<(), ManagementError> {
        self.check_faults(Operation::Container, Some(container))?;
        Ok(self.engine().delete_container(&self.operator_context(), container.rid, None).await?)
    }

    /// Changes the throughput of a database or container.
    pub async fn set_throughput(
        &self,
        offer: &Offer,
        throughput: Throughput,
    ) -> Result<(), ManagementError> {
        self.check_faults(Operation::Offer, None)?;
        self.engine().replace_offer(&self.operator_context(), offer.rid, throughput).await?;
        Ok(())
    }

    /// A container's description as JSON, as on the wire.
    pub fn describe_container(&self, container: &Container) -> Bytes {
        resource::body(&containers::described(container).into())
    }

    /// Fails if a test injected a fault for this operation, as on the wire.
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
