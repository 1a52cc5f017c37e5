//! Provisioned throughput: show and change.

use engine::catalog::{OfferBounds, OfferTarget};
use engine::{Catalog, Offer};

use super::Admin;
use super::reply::{AdminError, Reply};
use super::request::Request;
use super::routes::ProvisionedName;
use super::types::{Throughput, ThroughputDetails, ThroughputMode, ThroughputRequest};

impl Admin {
    /// `GET .../throughput`
    pub(super) fn throughput(&self, name: &ProvisionedName) -> Result<Reply, AdminError> {
        let catalog = self.engine.catalog();
        let target = self.target(&catalog, name)?;
        Ok(Reply::ok(&self.describe_throughput(&catalog, name, target)))
    }

    /// `PUT .../throughput`
    pub(super) async fn set_throughput(
        &self,
        name: &ProvisionedName,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let params: ThroughputRequest = request.json()?;
        let catalog = self.engine.catalog();
        let target = self.target(&catalog, name)?;
        let offer = catalog.offer_of(target).ok_or_else(|| no_offer(&catalog, target))?;
        let requested_throughput = requested_throughput(&params, Some(offer.throughput))?;
        self.service.set_throughput(offer, requested_throughput).await?;
        Ok(Reply::ok(&self.describe_throughput(&self.engine.catalog(), name, target)))
    }

    fn target(&self, catalog: &Catalog, name: &ProvisionedName) -> Result<OfferTarget, AdminError> {
        match name {
            ProvisionedName::Database(id) => {
                self.find_database(catalog, id).map(|found| OfferTarget::Database(found.rid))
            }
            ProvisionedName::Container(name) => {
                self.find(catalog, name).map(|found| OfferTarget::Container(found.rid))
            }
        }
    }

    fn describe_throughput(
        &self,
        catalog: &Catalog,
        name: &ProvisionedName,
        target: OfferTarget,
    ) -> ThroughputDetails {
        let (database, container) = match name {
            ProvisionedName::Database(id) => (id.clone(), None),
            ProvisionedName::Container(name) => {
                (name.database.clone(), Some(name.container.clone()))
            }
        };
        let offer = catalog.offer_of(target);
        let bounds = |offer: &std::sync::Arc<Offer>| -> OfferBounds {
            self.engine.bounds_of(offer, offer.throughput.kind())
        };
        let bounds = offer.map(bounds);
        ThroughputDetails {
            database,
            container,
            throughput: match offer {
                Some(offer) => self.describe_offer(offer),
                None => Throughput::without_offer(mode_without_offer(catalog, target)),
            },
            minimum_ru: bounds.as_ref().map(|bounds| bounds.minimum),
            maximum_ru: bounds.as_ref().map(|bounds| bounds.maximum),
            step_ru: bounds.as_ref().map(|bounds| bounds.step),
        }
    }
}

/// The new throughput in place of `now`, if the request changes any; members that the request
/// leaves out stay unchanged.
pub(super) fn requested_throughput(
    params: &ThroughputRequest,
    now: Option<engine::Throughput>,
) -> Result<engine::Throughput, AdminError> {
    let increment_percent = match now {
        Some(engine::Throughput::Autoscale { increment_percent, .. }) => increment_percent,
        Some(engine::Throughput::Manual(_)) | None => 0,
    };
    match (params.manual, params.autoscale_max) {
        (Some(manual), None) => Ok(engine::Throughput::Manual(manual)),
        (None, Some(max)) => Ok(engine::Throughput::Autoscale { max, increment_percent }),
        (None, None) | (Some(_), Some(_)) => Err(AdminError::bad_request(
            "Give either 'manual' or 'autoscaleMax', in request units per second.",
        )),
    }
}

fn mode_without_offer(catalog: &Catalog, target: OfferTarget) -> ThroughputMode {
    let is_shared = match target {
        OfferTarget::Database(_) => false,
        OfferTarget::Container(rid) => {
            catalog.offer_of(OfferTarget::Database(rid.database)).is_some()
        }
    };
    if is_shared { ThroughputMode::Shared } else { ThroughputMode::None }
}

fn no_offer(catalog: &Catalog, target: OfferTarget) -> AdminError {
    let message = match mode_without_offer(catalog, target) {
        ThroughputMode::Shared => {
            "The container shares the throughput of its database; change that of the database."
        }
        ThroughputMode::None | ThroughputMode::Manual | ThroughputMode::Autoscale => {
            "It was created without throughput, and throughput can't be added later."
        }
    };
    AdminError::conflict(message.to_owned())
}
