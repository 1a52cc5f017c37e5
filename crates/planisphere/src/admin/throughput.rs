//! Provisioned throughput, shown and changed.

use engine::catalog::{OfferBounds, OfferTarget};
use engine::{Catalog, Offer};

use super::Admin;
use super::reply::{Refusal, Reply};
use super::request::Request;
use super::routes::ProvisionedName;
use super::types::{Throughput, ThroughputMode, ThroughputOf, ThroughputWish};

impl Admin {
    /// `GET .../throughput`
    pub(super) fn throughput(&self, name: &ProvisionedName) -> Result<Reply, Refusal> {
        let catalog = self.engine.catalog();
        let target = self.target(&catalog, name)?;
        Ok(Reply::ok(&self.throughput_shown(&catalog, name, target)))
    }

    /// `PUT .../throughput`
    pub(super) async fn set_throughput(
        &self,
        name: &ProvisionedName,
        request: &Request,
    ) -> Result<Reply, Refusal> {
        let wish: ThroughputWish = request.json()?;
        let catalog = self.engine.catalog();
        let target = self.target(&catalog, name)?;
        let offer = catalog.offer_of(target).ok_or_else(|| no_offer(&catalog, target))?;
        let wanted = wanted(&wish, Some(offer.throughput))?;
        self.service.set_throughput(offer, wanted).await?;
        Ok(Reply::ok(&self.throughput_shown(&self.engine.catalog(), name, target)))
    }

    fn target(&self, catalog: &Catalog, name: &ProvisionedName) -> Result<OfferTarget, Refusal> {
        match name {
            ProvisionedName::Database(id) => {
                self.find_database(catalog, id).map(|found| OfferTarget::Database(found.rid))
            }
            ProvisionedName::Container(name) => {
                self.find(catalog, name).map(|found| OfferTarget::Container(found.rid))
            }
        }
    }

    fn throughput_shown(
        &self,
        catalog: &Catalog,
        name: &ProvisionedName,
        target: OfferTarget,
    ) -> ThroughputOf {
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
        ThroughputOf {
            database,
            container,
            throughput: match offer {
                Some(offer) => self.described(offer),
                None => Throughput::without_offer(mode_without_offer(catalog, target)),
            },
            minimum_ru: bounds.as_ref().map(|bounds| bounds.minimum),
            maximum_ru: bounds.as_ref().map(|bounds| bounds.maximum),
            step_ru: bounds.as_ref().map(|bounds| bounds.step),
        }
    }
}

/// What takes the place of `now`, if there is anything; what the wish does not speak of stays as it
/// is.
pub(super) fn wanted(
    wish: &ThroughputWish,
    now: Option<engine::Throughput>,
) -> Result<engine::Throughput, Refusal> {
    let increment_percent = match now {
        Some(engine::Throughput::Autoscale { increment_percent, .. }) => increment_percent,
        Some(engine::Throughput::Manual(_)) | None => 0,
    };
    match (wish.manual, wish.autoscale_max) {
        (Some(manual), None) => Ok(engine::Throughput::Manual(manual)),
        (None, Some(max)) => Ok(engine::Throughput::Autoscale { max, increment_percent }),
        (None, None) | (Some(_), Some(_)) => Err(Refusal::bad_request(
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

fn no_offer(catalog: &Catalog, target: OfferTarget) -> Refusal {
    let message = match mode_without_offer(catalog, target) {
        ThroughputMode::Shared => {
            "The container shares the throughput of its database; change that of the database."
        }
        ThroughputMode::None | ThroughputMode::Manual | ThroughputMode::Autoscale => {
            "It was created without throughput, and can't be given any afterwards."
        }
    };
    Refusal::conflict(message.to_owned())
}
