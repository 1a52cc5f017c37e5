//! The partitions of a container: status, splits and merges.

use std::collections::BTreeMap;

use engine::repartition::{JobInfo, Progression, SplitPoint};
use engine::{Container, PartitionStatus, RangeId, Usage};
use model::{Charge, Epk, PartitionKey, PartitionKeyComponent};
use serde_json::{Value, json};

use super::containers::{ContainerSizes, RangeSize, part};
use super::jobs::job_reply;
use super::reply::{AdminError, Reply};
use super::request::Request;
use super::routes::ContainerName;
use super::types::{
    ContainerPartitions, KeyBytes, KeyUse, LargestKeys, Limits, MergeRequest, Partition,
    PartitionNumber, RuUse, SplitRequest,
};
use super::{Admin, routes};

/// Default number of the largest and of the busiest keys per partition.
const KEYS_SHOWN: usize = 5;
/// Most keys that a request can ask for.
const KEYS_SHOWN_MAX: usize = 100;
/// Most partitions that one merge combines.
const MERGED_MAX: usize = 100;

impl Admin {
    /// `GET /_admin/v1/containers/{database}/{container}/partitions`
    pub(super) async fn partitions(
        &self,
        name: &ContainerName,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let shown = request.number("top", KEYS_SHOWN_MAX)?.unwrap_or(KEYS_SHOWN);
        let catalog = self.engine.catalog();
        let container = self.find(&catalog, name)?;
        let settings = self.engine.settings();
        let limits = Limits {
            partition_bytes_max: settings.partition_bytes_max,
            logical_partition_bytes_max: settings.logical_partition_bytes_max,
            partition_ru_max: settings.partition_ru_max,
        };
        let jobs: Vec<JobInfo> =
            self.engine.jobs().into_iter().filter(|job| job.container == container.rid).collect();
        let jobs: Vec<JobInfo> = jobs.into_iter().filter(|job| !job.phase.is_over()).collect();
        // Read once, so that all figures of the response agree, however long it takes to make.
        let sizes = ContainerSizes::of(&container);
        let partitions = self.partitions_of(&container, &sizes, &jobs, shown).await?;
        Ok(Reply::ok(&ContainerPartitions {
            container: self.summary(&catalog, &container, &sizes),
            limits,
            partitions,
            jobs: jobs.iter().map(|job| self.describe_job(&catalog, job)).collect(),
        }))
    }

    async fn partitions_of(
        &self,
        container: &Container,
        sizes: &ContainerSizes,
        jobs: &[JobInfo],
        keys_shown: usize,
    ) -> Result<Vec<Partition>, AdminError> {
        let mut usage: BTreeMap<RangeId, Usage> =
            self.engine.usage(container).into_iter().collect();
        let mut largest = match keys_shown {
            0 => BTreeMap::new(),
            count => self.largest_keys(container, sizes, count).await?,
        };
        let shares = sizes.shares();
        let shown = sizes.ranges.iter().zip(shares).map(|(of_range, share)| {
            let RangeSize { range, bytes, items } = of_range;
            let usage = usage.remove(&range.id);
            let (ru, busiest) = usage.as_ref().map(used).unwrap_or_default();
            let job = jobs.iter().find(|job| job.sources.contains(&range.id));
            Partition {
                id: range.id.to_string(),
                epk_min: range.epk.min.to_hex(),
                epk_max: range.epk.max.to_hex(),
                parents: range.parents.iter().map(ToString::to_string).collect(),
                status: status(range.status()).to_owned(),
                bytes: *bytes,
                items: *items,
                lsn: range.lsn().0,
                share,
                skew: share * sizes.ranges.len() as f64,
                ru,
                largest_keys: largest.remove(&range.id),
                busiest_keys: busiest.into_iter().take(keys_shown).collect(),
                job: job.map(|job| job.id.0),
            }
        });
        Ok(shown.collect())
    }

    /// The largest keys of each range. The number of counters to read is limited and divided evenly
    /// between ranges; those that need less than their part leave the rest to others.
    async fn largest_keys(
        &self,
        container: &Container,
        sizes: &ContainerSizes,
        count: usize,
    ) -> Result<BTreeMap<RangeId, LargestKeys>, AdminError> {
        // There are no more keys than items, so the ranges with the fewest items leave most.
        let mut ranges: Vec<&RangeSize> = sizes.ranges.iter().collect();
        ranges.sort_by_key(|of_range| of_range.items);
        let mut budget = self.key_scans.counted_max;
        let mut out = BTreeMap::new();
        for (done, of_range) in ranges.iter().enumerate() {
            let part = budget / (ranges.len() - done) as u64;
            let found = self.largest_keys_of(container, of_range, count, part).await?;
            budget = budget.saturating_sub(found.counted);
            out.insert(of_range.range.id, found);
        }
        Ok(out)
    }

    async fn largest_keys_of(
        &self,
        container: &Container,
        RangeSize { range, bytes, .. }: &RangeSize,
        count: usize,
        counted_max: u64,
    ) -> Result<LargestKeys, AdminError> {
        let _turn = self.key_scans.acquire().await?;
        let ctx = &mut self.service.operator_context();
        let found = self.engine.largest_keys(ctx, container, range.id, count, counted_max).await;
        let found = match found {
            Ok(found) => found,
            // It was split or merged in the meantime.
            Err(engine::Error::RangeGone) => engine::LargestKeys::default(),
            Err(error) => return Err(error.into()),
        };
        let keys = found.keys.iter().map(|size| KeyBytes {
            key: key_values(&size.key),
            bytes: size.bytes,
            items: size.items,
            share: part(size.bytes, (*bytes).max(size.bytes)),
        });
        Ok(LargestKeys {
            keys: keys.collect(),
            counted: found.counted,
            complete: found.is_complete,
        })
    }

    /// `POST /_admin/v1/containers/{database}/{container}/partitions/{id}/split`
    pub(super) async fn split(
        &self,
        name: &ContainerName,
        range: RangeId,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let params: SplitRequest = request.json()?;
        let at = split_point(params.at.as_deref())?;
        let job = self.start_split(name, range, at, progression(params.manual)).await?;
        Ok(job_reply(&self.describe_job(&self.engine.catalog(), &job)))
    }

    /// Starts a split, once it may search for the split point.
    pub(super) async fn start_split(
        &self,
        name: &ContainerName,
        range: RangeId,
        at: SplitPoint,
        progression: Progression,
    ) -> Result<JobInfo, AdminError> {
        let container = self.find(&self.engine.catalog(), name)?;
        check_ids(&container, &[range])?;
        let _turn = match at {
            SplitPoint::ByteMedian => Some(self.key_scans.acquire().await?),
            SplitPoint::Midpoint | SplitPoint::At(_) => None,
        };
        Ok(self
            .engine
            .start_split(&self.service.operator_context(), container.rid, range, at, progression)
            .await?)
    }

    /// Starts a merge.
    pub(super) async fn start_merge(
        &self,
        name: &ContainerName,
        ids: &[RangeId],
        progression: Progression,
    ) -> Result<JobInfo, AdminError> {
        let container = self.find(&self.engine.catalog(), name)?;
        check_ids(&container, ids)?;
        Ok(self
            .engine
            .start_merge(&self.service.operator_context(), container.rid, ids, progression)
            .await?)
    }

    /// `POST /_admin/v1/containers/{database}/{container}/partitions/merge`
    pub(super) async fn merge(
        &self,
        name: &ContainerName,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let params: MergeRequest = request.json()?;
        if params.ids.len() > MERGED_MAX {
            let message = format!("One merge takes at most {MERGED_MAX} partitions.");
            return Err(AdminError::bad_request(message));
        }
        let ids: Vec<RangeId> = params.ids.iter().map(number).collect::<Result<_, _>>()?;
        let job = self.start_merge(name, &ids, progression(params.manual)).await?;
        Ok(job_reply(&self.describe_job(&self.engine.catalog(), &job)))
    }
}

/// Refuses ids that no partition of the container has, and lists the valid ones.
fn check_ids(container: &Container, ids: &[RangeId]) -> Result<(), AdminError> {
    /// Most ids in the list.
    const LISTED_MAX: usize = 50;
    let routing = container.routing();
    let Some(unknown) = ids.iter().find(|id| routing.by_id(**id).is_none()) else { return Ok(()) };
    let (database, id) = (&container.database_id, &container.spec.id);
    let message = format!(
        "Partition {unknown} does not exist in {database}/{id}; it may have been split or merged."
    );
    let known = routing.ranges().iter().take(LISTED_MAX).map(|range| range.id.to_string());
    Err(AdminError::not_found(message).with_help(known))
}

pub(super) fn number(id: &PartitionNumber) -> Result<RangeId, AdminError> {
    match id {
        PartitionNumber::Number(number) => Ok(RangeId(*number)),
        PartitionNumber::Text(text) => routes::range_id(text),
    }
}

fn split_point(at: Option<&str>) -> Result<SplitPoint, AdminError> {
    match at {
        None | Some("median") => Ok(SplitPoint::ByteMedian),
        Some("midpoint") => Ok(SplitPoint::Midpoint),
        Some(hex) => Epk::from_hex(hex).map(SplitPoint::At).map_err(|error| {
            AdminError::bad_request(format!(
                "'at' must be 'median', 'midpoint' or an effective partition key: {error}."
            ))
        }),
    }
}

pub(super) fn progression(is_manual: bool) -> Progression {
    if is_manual { Progression::Manual } else { Progression::Automatic }
}

fn status(status: PartitionStatus) -> &'static str {
    match status {
        PartitionStatus::Online => "online",
        PartitionStatus::Splitting => "splitting",
        PartitionStatus::Merging => "merging",
        PartitionStatus::Swapping => "swapping",
        PartitionStatus::Gone => "gone",
    }
}

fn used(usage: &Usage) -> (RuUse, Vec<KeyUse>) {
    let ru = RuUse {
        limit: usage.limit.map(units),
        last_second: units(usage.last_second),
        recent_peak: units(usage.recent_peak),
        consumed: units(usage.consumed),
        requests: usage.served,
        throttled: usage.throttled,
    };
    let busiest = usage.top_keys.iter().filter_map(|used| {
        Some(KeyUse {
            key: key_values(&PartitionKey::decode(&used.key)?),
            ru: units(used.charge),
            overestimate: units(used.overestimate),
        })
    });
    (ru, busiest.collect())
}

impl Default for RuUse {
    fn default() -> Self {
        Self {
            limit: None,
            last_second: 0.0,
            recent_peak: 0.0,
            consumed: 0.0,
            requests: 0,
            throttled: 0,
        }
    }
}

pub(super) fn units(charge: Charge) -> f64 {
    charge.as_milli() as f64 / 1000.0
}

/// A key's values as clients send them; a missing one is `{}`.
fn key_values(key: &PartitionKey) -> Vec<Value> {
    let value = |component: &PartitionKeyComponent| match component {
        PartitionKeyComponent::Undefined => json!({}),
        PartitionKeyComponent::Null => Value::Null,
        PartitionKeyComponent::Bool(flag) => Value::Bool(*flag),
        PartitionKeyComponent::Number(number) => match component.to_value() {
            Some(model::Value::Int64(whole)) => Value::from(whole),
            _ => Value::from(*number),
        },
        PartitionKeyComponent::String(text) => Value::from(text.as_str()),
        PartitionKeyComponent::Encoded(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "$encoded": hex })
        }
    };
    key.0.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_clients_send_them() {
        use PartitionKeyComponent as C;
        let key = [C::String("a\"b".into()), C::Number(7.0), C::Number(0.5), C::Bool(true)];
        let shown = key_values(&PartitionKey(key.into_iter().collect()));
        assert_eq!(Value::from(shown), json!(["a\"b", 7, 0.5, true]));
        let key = [C::Undefined, C::Null].into_iter().collect();
        assert_eq!(Value::from(key_values(&PartitionKey(key))), json!([{}, null]));
    }

    #[test]
    fn a_split_point_is_a_word_or_a_place() {
        assert_eq!(split_point(None).unwrap(), SplitPoint::ByteMedian);
        assert_eq!(split_point(Some("midpoint")).unwrap(), SplitPoint::Midpoint);
        let place = Epk::from_hex("1F").unwrap();
        assert_eq!(split_point(Some("1f")).unwrap(), SplitPoint::At(place));
        assert!(split_point(Some("middle")).is_err() && split_point(Some("1")).is_err());
    }

    #[test]
    fn partitions_are_numbered_either_way() {
        assert_eq!(number(&PartitionNumber::Number(3)).unwrap(), RangeId(3));
        assert_eq!(number(&PartitionNumber::Text("3".into())).unwrap(), RangeId(3));
        assert!(number(&PartitionNumber::Text("three".into())).is_err());
    }
}
