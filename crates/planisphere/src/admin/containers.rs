//! Containers: list, show, create and delete.

use std::sync::Arc;

use engine::catalog::OfferTarget;
use engine::{Catalog, Container, PartitionRange};
use serde_json::Value;

use super::reply::{AdminError, Reply};
use super::request::Request;
use super::routes::ContainerName;
use super::throughput::requested_throughput;
use super::types::{
    ContainerDetails, ContainerSummary, Containers, DeletedResource, Throughput, ThroughputMode,
    ThroughputRequest,
};
use super::{Admin, routes};
use crate::nearest::nearest;

impl Admin {
    /// `GET /_admin/v1/containers`
    pub(super) fn containers(&self) -> Reply {
        let catalog = self.engine.catalog();
        let containers = catalog
            .databases()
            .flat_map(|database| catalog.containers(database.rid))
            .map(|container| self.summary(&catalog, container, &ContainerSizes::of(container)))
            .collect();
        Reply::ok(&Containers { containers })
    }

    /// `GET /_admin/v1/containers/{database}`
    pub(super) fn containers_of(&self, database: &str) -> Result<Reply, AdminError> {
        let catalog = self.engine.catalog();
        let database = self.find_database(&catalog, database)?;
        let containers = catalog
            .containers(database.rid)
            .map(|container| self.summary(&catalog, container, &ContainerSizes::of(container)));
        Ok(Reply::ok(&Containers { containers: containers.collect() }))
    }

    /// `POST /_admin/v1/containers/{database}`
    pub(super) async fn create_container(
        &self,
        database: &str,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let mut description: serde_json::Map<String, Value> = request.json()?;
        // On the wire it is a header.
        let params = match description.remove("throughput") {
            Some(params) => serde_json::from_value::<Option<ThroughputRequest>>(params)
                .map_err(|error| AdminError::bad_request(format!("In 'throughput': {error}.")))?,
            None => None,
        };
        let throughput = params.map(|params| requested_throughput(&params, None)).transpose()?;
        let database = self.find_database(&self.engine.catalog(), database)?;
        let text = serde_json::to_vec(&description).map_err(|_| AdminError::internal())?;
        let created = self.service.create_container(&database, &text, throughput).await?;
        let name =
            ContainerName { database: database.id.clone(), container: created.spec.id.clone() };
        Ok(Reply::created(&self.describe_container(&created)?, routes::container_path(&name)))
    }

    /// `GET /_admin/v1/containers/{database}/{container}`
    pub(super) fn container(&self, name: &ContainerName) -> Result<Reply, AdminError> {
        let container = self.find(&self.engine.catalog(), name)?;
        Ok(Reply::ok(&self.describe_container(&container)?))
    }

    /// `DELETE /_admin/v1/containers/{database}/{container}`
    pub(super) async fn delete_container(&self, name: &ContainerName) -> Result<Reply, AdminError> {
        let container = self.find(&self.engine.catalog(), name)?;
        self.service.delete_container(&container).await?;
        let ContainerName { database, container } = name.clone();
        Ok(Reply::ok(&DeletedResource { database, container: Some(container), deleted: true }))
    }

    fn describe_container(&self, container: &Container) -> Result<ContainerDetails, AdminError> {
        let definition = self.service.describe_container(container);
        let definition = serde_json::from_slice(&definition).map_err(|_| AdminError::internal())?;
        let summary =
            self.summary(&self.engine.catalog(), container, &ContainerSizes::of(container));
        Ok(ContainerDetails { summary, definition })
    }

    /// The container of that name.
    pub(super) fn find(
        &self,
        catalog: &Catalog,
        name: &ContainerName,
    ) -> Result<Arc<Container>, AdminError> {
        let database = self.find_database(catalog, &name.database)?;
        catalog.container(database.rid, &name.container).cloned().ok_or_else(|| {
            let known = catalog.containers(database.rid).map(|container| &*container.spec.id);
            let ContainerName { database, container } = name;
            let message = format!("The database '{database}' has no container '{container}'.");
            not_found(&message, container, known)
        })
    }

    pub(super) fn summary(
        &self,
        catalog: &Catalog,
        container: &Container,
        sizes: &ContainerSizes,
    ) -> ContainerSummary {
        ContainerSummary {
            database: container.database_id.clone(),
            id: container.spec.id.clone(),
            rid: container.rid.to_string(),
            partition_key: key_paths(container),
            partitions: sizes.ranges.len(),
            bytes: sizes.bytes(),
            items: sizes.ranges.iter().map(|of_range| of_range.items).sum(),
            skew: sizes.skew(),
            throughput: self.throughput_of(catalog, container),
        }
    }

    fn throughput_of(&self, catalog: &Catalog, container: &Container) -> Throughput {
        let own = catalog.offer_of(OfferTarget::Container(container.rid));
        let shared = catalog.offer_of(OfferTarget::Database(container.rid.database));
        match (own, shared) {
            (Some(offer), _) => self.describe_offer(offer),
            (None, Some(_)) => Throughput::without_offer(ThroughputMode::Shared),
            (None, None) => Throughput::without_offer(ThroughputMode::None),
        }
    }

    /// The throughput of an offer.
    pub(super) fn describe_offer(&self, offer: &engine::Offer) -> Throughput {
        let pending = self.engine.is_scaling(offer);
        let current = self.engine.current_throughput(offer);
        match offer.throughput {
            engine::Throughput::Manual(ru) => {
                Throughput { mode: ThroughputMode::Manual, ru: Some(ru), current_ru: None, pending }
            }
            engine::Throughput::Autoscale { max, .. } => Throughput {
                mode: ThroughputMode::Autoscale,
                ru: Some(max),
                current_ru: Some(current),
                pending,
            },
        }
    }
}

/// An error for a name that does not exist, with the name that was probably meant and the existing
/// ones.
pub(super) fn not_found<'n>(
    message: &str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
) -> AdminError {
    /// Most names in an error.
    const LISTED_MAX: usize = 50;
    let known: Vec<&str> = known.collect();
    let message = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("{message} Did you mean '{meant}'?"),
        None => message.to_owned(),
    };
    AdminError::not_found(message).with_help(known.into_iter().take(LISTED_MAX).map(str::to_owned))
}

impl Throughput {
    pub(super) fn without_offer(mode: ThroughputMode) -> Self {
        Self { mode, ru: None, current_ru: None, pending: false }
    }
}

fn key_paths(container: &Container) -> Vec<String> {
    let definition = &container.spec.partition_key;
    if definition.is_system {
        return Vec::new();
    }
    definition.paths.iter().map(ToString::to_string).collect()
}

/// The sizes of a container's ranges, read at one moment, so that figures that are compared agree
/// with each other.
pub(crate) struct ContainerSizes {
    /// In the order of their ranges.
    pub(crate) ranges: Vec<RangeSize>,
}

/// A range and its size at that moment.
pub(crate) struct RangeSize {
    pub(crate) range: PartitionRange,
    pub(crate) bytes: u64,
    pub(crate) items: u64,
}

impl ContainerSizes {
    pub(crate) fn of(container: &Container) -> Self {
        let sizes = |range: &PartitionRange| RangeSize {
            bytes: range.bytes(),
            items: range.items(),
            range: range.clone(),
        };
        Self { ranges: container.routing().ranges().iter().map(sizes).collect() }
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|of_range| of_range.bytes).sum()
    }

    /// Each range's fraction of all bytes; equal fractions if there are none.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> {
        let (total, count) = (self.bytes(), self.ranges.len() as f64);
        self.ranges.iter().map(move |of_range| match total {
            0 => 1.0 / count,
            total => part(of_range.bytes, total),
        })
    }

    pub(crate) fn skew(&self) -> f64 {
        skew(&self.ranges.iter().map(|of_range| of_range.bytes).collect::<Vec<_>>())
    }
}

/// The size of the largest range relative to its fair share; 1 if all are equal, or empty.
fn skew(bytes: &[u64]) -> f64 {
    let total: u64 = bytes.iter().sum();
    let largest = bytes.iter().max().copied().unwrap_or(0);
    if total == 0 { 1.0 } else { part(largest, total) * bytes.len() as f64 }
}

/// `of` as a fraction of `total`, 0 to 1.
pub(super) fn part(of: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { of as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_says_how_many_fair_shares_the_largest_holds() {
        assert_eq!(skew(&[5, 5, 5, 5]), 1.0);
        assert_eq!(skew(&[40, 0, 0, 0]), 4.0);
        assert_eq!(skew(&[3, 1]), 1.5);
    }

    #[test]
    fn nothing_is_even() {
        assert_eq!(skew(&[0, 0]), 1.0);
        assert_eq!(skew(&[7]), 1.0);
    }
}
