//! Deciding where a range is split and which range replaces the merged ones.

use std::sync::Arc;

use model::{ContainerRid, Epk, EpkRange, PartitionId, epk};
use storage::{Dir, KeyRange, LocalStore};

use crate::cancellation::CancellationToken;
use crate::catalog::Container;
use crate::commit::logical_bytes;
use crate::keys::{self, COUNTERS_BOUNDS, EpkForm};
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Engine, Error, RangeId, ResourceKind};

use super::job::JobRequest;
use super::{JobReason, SplitPoint};

impl Engine {
    /// The position at which to split the range of a request, strictly inside it; `None` for a
    /// merge.
    pub(super) async fn split_point(&self, request: &JobRequest) -> Result<Option<Epk>, Error> {
        let (Some(point), Some(range)) = (&request.split_at, request.sources.first()) else {
            return Ok(None);
        };
        let (container, range) = self.range_of(request.container, *range)?;
        if container.is_fixed() {
            return Err(Error::NotPartitionable("a fixed container is never split".into()));
        }
        let definition = &container.spec.partition_key;
        let halfway = || {
            epk::midpoint(definition, &range.epk)
                .ok_or_else(|| Error::NotPartitionable("the range is too narrow to divide".into()))
        };
        Ok(Some(match point {
            SplitPoint::Midpoint => halfway()?,
            SplitPoint::At(at) if range.epk.min < *at && *at < range.epk.max => at.clone(),
            SplitPoint::At(at) => {
                return Err(Error::NotPartitionable(format!(
                    "'{at}' does not lie inside the range '{}' to '{}'",
                    range.epk.min, range.epk.max
                )));
            }
            SplitPoint::ByteMedian => {
                let form = EpkForm::of(definition);
                let (store, p) = (Arc::clone(&self.inner.store), range.partition.id);
                let median = self
                    .run_cancellable(move |cancellation| {
                        byte_median(store.as_ref(), p, form, cancellation)
                    })
                    .await?;
                match median {
                    Some(at) => at,
                    None if request.reason == JobReason::Storage => {
                        return Err(Error::NotPartitionable(
                            "all items have the same partition key; choose a key with more values"
                                .into(),
                        ));
                    }
                    None => halfway()?,
                }
            }
        }))
    }

    fn range_of(
        &self,
        container: ContainerRid,
        range: RangeId,
    ) -> Result<(Arc<Container>, PartitionRange), Error> {
        let catalog = self.catalog();
        let owner = catalog.container_by_rid(container).cloned().ok_or_else(|| {
            Error::NotFound { kind: ResourceKind::Container, id: container.to_string() }
        })?;
        let found = owner.routing().by_id(range).cloned().ok_or(Error::RangeGone)?;
        Ok((owner, found))
    }

    /// Checks that `ranges` can become one and returns what they cover.
    pub(super) fn merged_range(
        &self,
        container: &Container,
        routing: &RoutingMap,
        ranges: &[RangeId],
    ) -> Result<EpkRange, Error> {
        let refuse = |why: String| Err(Error::NotPartitionable(why));
        let mut found = Vec::with_capacity(ranges.len());
        for id in ranges {
            found.push(routing.by_id(*id).ok_or(Error::RangeGone)?);
        }
        found.sort_by(|a, b| a.epk.min.cmp(&b.epk.min));
        if found.len() > MERGED_MAX {
            return refuse(format!("a merge takes at most {MERGED_MAX} ranges"));
        }
        if found.len() < 2 {
            return refuse("a merge takes at least two ranges".into());
        }
        if found.windows(2).any(|pair| pair[0].epk.max != pair[1].epk.min) {
            return refuse("only neighbouring ranges can be merged, each named once".into());
        }
        let settings = &self.inner.settings;
        let bytes: u64 = found.iter().map(|r| r.partition.bytes()).sum();
        if bytes > settings.partition_bytes_max {
            return refuse(format!(
                "together they hold {bytes} bytes, more than the {} of one partition",
                settings.partition_bytes_max
            ));
        }
        let left = routing.ranges().len() + 1 - found.len();
        let served = u64::from(settings.partition_ru_max) * left as u64;
        let provisioned = self.provisioned(container.rid);
        if provisioned > served {
            return refuse(format!(
                "{left} partitions serve {served} RU/s, fewer than the {provisioned} provisioned"
            ));
        }
        Ok(EpkRange { min: found[0].epk.min.clone(), max: found[found.len() - 1].epk.max.clone() })
    }

    /// Request units per second provisioned for a container itself; 0 when it shares throughput.
    pub(super) fn provisioned(&self, container: ContainerRid) -> u64 {
        let target = crate::catalog::OfferTarget::Container(container);
        self.catalog().offer_of(target).map_or(0, |offer| u64::from(offer.throughput.peak()))
    }
}

/// Bytes that a level of a key hashes to.
const LEVEL_BYTES: usize = 16;

/// Ranges that one merge puts together.
const MERGED_MAX: usize = 100;

/// Ancestors that a range remembers. A client that knows an older one reads the whole map anew.
const ANCESTORS_MAX: usize = 256;

/// The ranges that the new one comes from, oldest first.
pub(super) fn ancestors(routing: &RoutingMap, sources: &[RangeId]) -> Vec<RangeId> {
    let mut out: Vec<RangeId> = Vec::new();
    let parents = sources.iter().filter_map(|id| routing.by_id(*id)).flat_map(|r| &r.parents);
    for id in parents.chain(sources) {
        if !out.contains(id) {
            out.push(*id);
        }
    }
    out.sort_unstable();
    out.split_off(out.len().saturating_sub(ANCESTORS_MAX))
}

/// The first position on the hash line such that the logical partitions before it hold about half
/// of all bytes. `None` when the partition holds fewer than two hashes. Scans the counters of the
/// logical partitions, not their rows.
fn byte_median(
    store: &dyn LocalStore,
    partition: PartitionId,
    form: EpkForm,
    cancellation: &CancellationToken,
) -> Result<Option<Epk>, Error> {
    let view = store.view();
    let (lo, hi) = (&COUNTERS_BOUNDS.0[..], &COUNTERS_BOUNDS.1[..]);
    let each = |visit: &mut dyn FnMut(Epk, u64) -> bool| -> Result<(), Error> {
        let mut cursor = view.scan(partition, KeyRange::half_open(lo, hi), Dir::Fwd)?;
        let mut step = 0;
        while let Some((key, value)) = cursor.next()? {
            step += 1;
            cancellation.check(step)?;
            let epk = keys::epk_of_counters(form, key)
                .ok_or_else(|| Error::Internal("a counter's key can't be read".into()))?;
            if !visit(epk, logical_bytes(value)) {
                break;
            }
        }
        Ok(())
    };
    let mut total = 0u64;
    each(&mut |_, bytes| {
        total += bytes;
        true
    })?;
    let mut best: Option<(u64, Epk)> = None;
    let mut before = 0u64;
    let mut last: Option<Epk> = None;
    each(&mut |epk, bytes| {
        if let Some(last) = last.as_ref().filter(|last| **last != epk) {
            let distance = (before * 2).abs_diff(total);
            if best.as_ref().is_some_and(|(least, _)| distance >= *least) {
                return false;
            }
            best = Some((distance, bound_between(form, last, &epk)));
        }
        before += bytes;
        last = Some(epk);
        true
    })?;
    Ok(best.map(|(_, epk)| epk))
}

/// A bound such that `last` lies before it and `epk`, which is beyond `last`, does not: the hashes
/// of as many levels of `epk` as distinguish it from `last`. Bounds of whole keys would make
/// positions of change feeds three times as long.
fn bound_between(form: EpkForm, last: &Epk, epk: &Epk) -> Epk {
    match form {
        EpkForm::Fixed(_) => {
            let (before, at) = (last.as_bytes(), epk.as_bytes());
            let common = before.iter().zip(at).take_while(|(a, b)| a == b).count();
            let levels = (common + 1).next_multiple_of(LEVEL_BYTES);
            Epk::from_bytes(&at[..levels.min(at.len())])
        }
        EpkForm::Escaped => epk.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bound_tells_two_places_apart(
            a in proptest::collection::vec(0..3u8, 48),
            b in proptest::collection::vec(0..3u8, 48),
            shared in 0..48usize,
        ) {
            let b = [&a[..shared], &b[shared..]].concat();
            let (a, b) = (Epk::from_bytes(&a), Epk::from_bytes(&b));
            prop_assume!(a != b);
            let (last, epk) = if a < b { (a, b) } else { (b, a) };
            let bound = bound_between(EpkForm::Fixed(48), &last, &epk);
            prop_assert!(last < bound && bound <= epk);
            prop_assert!(epk.as_bytes().starts_with(bound.as_bytes()));
        }
    }

    #[test]
    fn a_bound_has_as_many_levels_as_it_takes() {
        let epk = |levels: [u8; 3]| Epk::from_bytes(&levels.map(|level| [level; 16]).concat());
        let len = |a, b| bound_between(EpkForm::Fixed(48), &epk(a), &epk(b)).as_bytes().len();
        assert_eq!(len([1, 1, 1], [2, 1, 1]), 16);
        assert_eq!(len([1, 1, 1], [1, 2, 1]), 32);
        assert_eq!(len([1, 1, 1], [1, 1, 2]), 48);
    }
}
