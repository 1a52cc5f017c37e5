//! Databases: list, show, create and delete, one by one or all together.

use std::sync::Arc;

use engine::catalog::OfferTarget;
use engine::{Catalog, Database};

use super::containers::not_found;
use super::reply::{AdminError, Reply};
use super::request::Request;
use super::throughput::requested_throughput;
use super::types::{
    DatabaseRequest, DatabaseSummary, Databases, DeletedResource, ResetRequest, ResetSummary,
    Throughput, ThroughputMode,
};
use super::{Admin, routes};

impl Admin {
    /// `GET /_admin/v1/databases`
    pub(super) fn databases(&self) -> Reply {
        let catalog = self.engine.catalog();
        let databases =
            catalog.databases().map(|database| self.describe_database(&catalog, database));
        Reply::ok(&Databases { databases: databases.collect() })
    }

    /// `POST /_admin/v1/databases`
    pub(super) async fn create_database(&self, request: &Request) -> Result<Reply, AdminError> {
        let params: DatabaseRequest = request.json()?;
        let throughput =
            params.throughput.map(|params| requested_throughput(&params, None)).transpose()?;
        let created = self.service.create_database(&params.id, throughput).await?;
        let shown = self.describe_database(&self.engine.catalog(), &created);
        Ok(Reply::created(&shown, routes::database_path(&created.id)))
    }

    /// `GET /_admin/v1/databases/{database}`
    pub(super) fn database(&self, id: &str) -> Result<Reply, AdminError> {
        let catalog = self.engine.catalog();
        let database = self.find_database(&catalog, id)?;
        Ok(Reply::ok(&self.describe_database(&catalog, &database)))
    }

    /// `DELETE /_admin/v1/databases/{database}`
    pub(super) async fn delete_database(&self, id: &str) -> Result<Reply, AdminError> {
        let database = self.find_database(&self.engine.catalog(), id)?;
        self.service.delete_database(&database).await?;
        let database = id.to_owned();
        Ok(Reply::ok(&DeletedResource { database, container: None, deleted: true }))
    }

    /// `POST /_admin/v1/reset`: leaves the server as empty as on its first start, except for the
    /// account's keys, which clients have. Resource ids are not used again.
    pub(super) async fn reset(&self, request: &Request) -> Result<Reply, AdminError> {
        let params: ResetRequest = request.json()?;
        if !self.is_memory && !params.yes {
            return Err(AdminError::forbidden(
                "This server stores its data on disk. A reset deletes all of it; confirm with \
                 {\"yes\": true}, on the command line with --yes."
                    .to_owned(),
            ));
        }
        let faults = self.faults.as_ref().map_or(0, |faults| {
            let ended = faults.all().len();
            faults.clear();
            ended
        });
        let deleted = self.engine.delete_all_databases(&self.service.operator_context()).await?;
        let engine::catalog::Deleted { databases, containers } = deleted;
        Ok(Reply::ok(&ResetSummary { databases, containers, faults }))
    }

    /// The database of that name.
    pub(super) fn find_database(
        &self,
        catalog: &Catalog,
        id: &str,
    ) -> Result<Arc<Database>, AdminError> {
        catalog.database(id).cloned().ok_or_else(|| {
            let known = catalog.databases().map(|database| &*database.id);
            not_found(&format!("There is no database '{id}'."), id, known)
        })
    }

    fn describe_database(&self, catalog: &Catalog, database: &Database) -> DatabaseSummary {
        let offer = catalog.offer_of(OfferTarget::Database(database.rid));
        DatabaseSummary {
            id: database.id.clone(),
            rid: database.rid.to_string(),
            containers: catalog.containers(database.rid).count(),
            throughput: match offer {
                Some(offer) => self.describe_offer(offer),
                None => Throughput::without_offer(ThroughputMode::None),
            },
        }
    }
}
