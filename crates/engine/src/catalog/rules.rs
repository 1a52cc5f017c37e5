//! How much throughput may be provisioned, and for what.

use std::sync::Arc;

use model::{DatabaseRid, limits};

use super::{Catalog, Container, Offer, OfferTarget, Throughput};
use crate::Engine;

/// Least throughput at which a container of the founding documents is split when it grows.
const DOCUMENTS_UNLIMITED_MIN: u32 = 1_000;
/// Most throughput that the founding documents allow without a request to the service's staff.
const DOCUMENTS_UNLIMITED_MAX: u32 = 100_000;
const GIGABYTE: u64 = 1 << 30;

/// Which limits throughput has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThroughputLimits {
    /// Those of the service as it is: 400 RU/s and more, whatever is provisioned can grow.
    #[default]
    Service,
    /// Those of the founding documents: a container with a key that is created with less than
    /// 1,000 RU/s is fixed for ever, others have 1,000 to 100,000 RU/s.
    Documents2018,
}

/// The bounds of an offer's throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferBounds {
    /// The least.
    pub minimum: u32,
    /// The most.
    pub maximum: u32,
    /// It is a multiple of this.
    pub step: u32,
}

/// Why throughput is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferRefused {
    /// Less than the least.
    #[error("throughput {wanted} is less than the minimum {minimum}")]
    BelowMinimum {
        /// The requested throughput.
        wanted: i64,
        /// The least.
        minimum: u32,
    },
    /// More than the most, or between two steps.
    #[error("throughput is not between {} and {} in steps of {}", .0.minimum, .0.maximum, .0.step)]
    OutOfBounds(OfferBounds),
    /// As many containers as can share a database's throughput do.
    #[error("{containers_max} containers share the database's throughput already")]
    SharedByTooMany {
        /// How many can.
        containers_max: usize,
    },
    /// A container without a partition key can't share a database's throughput.
    #[error("a container needs a partition key to share its database's throughput")]
    SharedWithoutKey,
}

impl OfferBounds {
    /// Refuses what is not within the bounds.
    pub fn check(self, wanted: i64) -> Result<u32, OfferRefused> {
        let Self { minimum, maximum, step } = self;
        if wanted < i64::from(minimum) {
            return Err(OfferRefused::BelowMinimum { wanted, minimum });
        }
        let within = |n: &u32| *n <= maximum && n.is_multiple_of(step);
        u32::try_from(wanted).ok().filter(within).ok_or(OfferRefused::OutOfBounds(self))
    }
}

/// The kind of a throughput, whatever its amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThroughputKind {
    /// A fixed number.
    Manual,
    /// Between a tenth of a maximum and the maximum.
    Autoscale,
}

impl Throughput {
    /// Its kind.
    pub fn kind(self) -> ThroughputKind {
        match self {
            Throughput::Manual(_) => ThroughputKind::Manual,
            Throughput::Autoscale { .. } => ThroughputKind::Autoscale,
        }
    }
}

/// A new resource that receives throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSubject {
    /// A database, whose containers share it.
    Database,
    /// A container with a partition key.
    Keyed,
    /// A container without.
    Keyless,
}

/// What throughput is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// A container that always has one partition.
    Fixed,
    /// A container that is split when it grows, or several that share.
    Unlimited,
}

impl Engine {
    /// Bounds for a new resource.
    pub fn bounds_of_new(&self, new: NewSubject, kind: ThroughputKind) -> OfferBounds {
        match new {
            NewSubject::Database => self.bounds(Subject::Unlimited, kind),
            NewSubject::Keyless => self.bounds(Subject::Fixed, kind),
            NewSubject::Keyed => {
                // Under the documents' limits little throughput makes a fixed container.
                let OfferBounds { minimum, .. } = self.bounds(Subject::Fixed, kind);
                OfferBounds { minimum, ..self.bounds(Subject::Unlimited, kind) }
            }
        }
    }

    /// Bounds for changing an offer: by what it provisions, what that stores and the highest peak
    /// the offer had.
    pub fn bounds_of(&self, offer: &Offer, kind: ThroughputKind) -> OfferBounds {
        self.bounds_in(&self.catalog(), offer, kind)
    }

    pub(super) fn bounds_in(
        &self,
        catalog: &Catalog,
        offer: &Offer,
        kind: ThroughputKind,
    ) -> OfferBounds {
        let containers = provisioned_by(catalog, offer.target);
        let is_fixed = match offer.target {
            OfferTarget::Database(_) => false,
            OfferTarget::Container(_) => containers.iter().any(|c| c.is_fixed()),
        };
        let subject = if is_fixed { Subject::Fixed } else { Subject::Unlimited };
        let bounds = self.bounds(subject, kind);
        let bytes = self.bytes_of(&containers);
        let gigabytes = u32::try_from(bytes / GIGABYTE).unwrap_or(u32::MAX);
        let (by_storage, by_peak) = match kind {
            ThroughputKind::Manual => (gigabytes, offer.peak_ever / 100),
            ThroughputKind::Autoscale => (gigabytes.saturating_mul(10), offer.peak_ever / 10),
        };
        let minimum = bounds.minimum.max(by_storage).max(by_peak);
        let minimum = minimum.checked_next_multiple_of(bounds.step).unwrap_or(minimum);
        OfferBounds { minimum, ..bounds }
    }

    /// Bytes that the containers of an offer hold.
    pub fn stored_bytes(&self, offer: &Offer) -> u64 {
        self.bytes_of(&provisioned_by(&self.catalog(), offer.target))
    }

    fn bytes_of(&self, containers: &[&Arc<Container>]) -> u64 {
        containers.iter().flat_map(|c| self.statistics(c)).map(|(_, _, bytes)| bytes).sum()
    }

    fn bounds(&self, subject: Subject, kind: ThroughputKind) -> OfferBounds {
        let limits = self.inner.settings.throughput_limits;
        let maximum = match (subject, limits) {
            // The setting may be smaller in tests; then the rest is provisioned and never served.
            (Subject::Fixed, _) => self.inner.settings.partition_ru_max.max(least(kind)),
            (Subject::Unlimited, ThroughputLimits::Service) => limits::THROUGHPUT_MAX,
            (Subject::Unlimited, ThroughputLimits::Documents2018) => DOCUMENTS_UNLIMITED_MAX,
        };
        let minimum = match (subject, limits) {
            (Subject::Unlimited, ThroughputLimits::Documents2018) => {
                DOCUMENTS_UNLIMITED_MIN.max(least(kind))
            }
            (Subject::Fixed, _) | (_, ThroughputLimits::Service) => least(kind),
        };
        let step = match kind {
            ThroughputKind::Manual => limits::THROUGHPUT_STEP,
            ThroughputKind::Autoscale => limits::AUTOSCALE_MAX_STEP,
        };
        OfferBounds { minimum, maximum, step }
    }

    /// Whether a new container with a key and `own` throughput, if any, always has one partition.
    pub(super) fn is_pinned_when_new(&self, own: Option<Throughput>) -> bool {
        match self.inner.settings.throughput_limits {
            ThroughputLimits::Service => false,
            ThroughputLimits::Documents2018 => {
                own.is_some_and(|own| own.peak() < DOCUMENTS_UNLIMITED_MIN)
            }
        }
    }

    /// Refuses throughput that can't be provisioned for a new resource.
    pub(super) fn check_new(
        &self,
        new: NewSubject,
        throughput: Throughput,
    ) -> Result<(), OfferRefused> {
        let bounds = self.bounds_of_new(new, throughput.kind());
        bounds.check(i64::from(throughput.peak())).map(|_| ())
    }

    /// Refuses a container that would share throughput and can't.
    pub(super) fn check_sharing(
        &self,
        catalog: &Catalog,
        database: DatabaseRid,
        new: NewSubject,
    ) -> Result<(), OfferRefused> {
        const MAX: usize = limits::SHARED_THROUGHPUT_CONTAINERS_MAX;
        let is_keyless = new == NewSubject::Keyless;
        if is_keyless && self.inner.settings.throughput_limits == ThroughputLimits::Documents2018 {
            return Err(OfferRefused::SharedWithoutKey);
        }
        match sharing(catalog, database).count() < MAX {
            true => Ok(()),
            false => Err(OfferRefused::SharedByTooMany { containers_max: MAX }),
        }
    }
}

/// The containers that use the offer of `target`.
fn provisioned_by(catalog: &Catalog, target: OfferTarget) -> Vec<&Arc<Container>> {
    match target {
        OfferTarget::Database(rid) => sharing(catalog, rid).collect(),
        OfferTarget::Container(rid) => catalog.container_by_rid(rid).into_iter().collect(),
    }
}

/// The containers of a database without throughput of their own.
pub(crate) fn sharing(
    catalog: &Catalog,
    database: DatabaseRid,
) -> impl Iterator<Item = &Arc<Container>> {
    let has_own = |c: &Container| catalog.offer_of(OfferTarget::Container(c.rid)).is_some();
    catalog.containers(database).filter(move |c| !has_own(c))
}

fn least(kind: ThroughputKind) -> u32 {
    match kind {
        ThroughputKind::Manual => limits::THROUGHPUT_MIN,
        ThroughputKind::Autoscale => limits::AUTOSCALE_MAX_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_name_what_is_wrong() {
        let bounds = OfferBounds { minimum: 400, maximum: 10_000, step: 100 };
        assert_eq!(bounds.check(400), Ok(400));
        assert_eq!(bounds.check(10_000), Ok(10_000));
        let below = OfferRefused::BelowMinimum { wanted: -200, minimum: 400 };
        assert_eq!(bounds.check(-200), Err(below));
        for wanted in [450, 10_100, i64::MAX] {
            assert_eq!(bounds.check(wanted), Err(OfferRefused::OutOfBounds(bounds)), "{wanted}");
        }
    }
}
