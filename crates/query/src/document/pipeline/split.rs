//! What the source of a pipeline can do for it: filter, order, skip, limit, and read only the fields
//! that are needed.

use std::sync::Arc;

use model::json::FieldMask;

use super::{GroupKey, Pipeline, Stage};
use crate::document::sort::SortPattern;
use crate::document::{Evaluate, Predicate};

/// What a source is asked for. It does all of it, in this order.
#[derive(Clone, Debug)]
pub struct Request {
    /// Only documents that match this.
    pub filter: Option<Arc<Predicate>>,
    /// In this order.
    pub sort: Option<SortPattern>,
    /// Without the first documents.
    pub skip: u64,
    /// At most so many.
    pub limit: Option<u64>,
    /// Only these fields need to be read of a document.
    pub fields: FieldMask,
}

/// A pipeline in two parts.
#[derive(Clone, Debug)]
pub struct SplitPipeline {
    /// What its source does.
    pub request: Request,
    /// What is left to do.
    pub rest: Pipeline,
}

impl Request {
    /// All documents, whole.
    pub fn everything() -> Self {
        Self { filter: None, sort: None, skip: 0, limit: None, fields: FieldMask::All }
    }
}

impl Pipeline {
    /// Separates the stages at the beginning that a source can do.
    pub fn split(&self) -> SplitPipeline {
        let mut request = Request { fields: self.required_fields(), ..Request::everything() };
        let mut filters = Vec::new();
        let mut stages = self.stages.iter().peekable();
        while let Some(Stage::Match(predicate)) = stages.peek() {
            filters.push(Arc::clone(predicate));
            stages.next();
        }
        if let Some(Stage::Sort(sort)) = stages.peek() {
            request.sort = Some(sort.pattern.clone());
            request.limit = sort.limit;
            stages.next();
            // What a sort leaves out, a filter behind it can leave out before.
            while let (Some(Stage::Match(predicate)), None) = (stages.peek(), request.limit) {
                filters.push(Arc::clone(predicate));
                stages.next();
            }
        }
        while let Some(stage) = stages.peek() {
            match Some(stage) {
                Some(Stage::Skip(skip)) => {
                    request.skip = request.skip.saturating_add(*skip);
                    request.limit = request.limit.map(|limit| limit.saturating_sub(*skip));
                }
                Some(Stage::Limit(limit)) => {
                    request.limit =
                        Some(request.limit.map_or(*limit, |earlier| earlier.min(*limit)));
                }
                _ => break,
            }
            stages.next();
        }
        request.filter = match filters.len() {
            0 | 1 => filters.pop(),
            _ => Some(Arc::new(Predicate::And(
                filters.iter().map(|filter| filter.as_ref().clone()).collect(),
            ))),
        };
        SplitPipeline { request, rest: Pipeline::new(stages.cloned().collect()) }
    }

    /// What has to be read of a document of the source.
    pub fn required_fields(&self) -> FieldMask {
        let mut mask = FieldMask::NOTHING;
        if !require(&self.stages, &mut mask) {
            mask = FieldMask::All;
        }
        mask
    }
}

/// Adds what stages read. Whether nothing else of the documents is seen behind them.
fn require(stages: &[Stage], mask: &mut FieldMask) -> bool {
    for stage in stages {
        match stage {
            Stage::Match(predicate) => predicate.require(mask),
            Stage::Project(projection) => {
                projection.require(mask);
                if projection.is_inclusion {
                    return true;
                }
            }
            Stage::AddFields(fields) => {
                fields.fields().iter().for_each(|(_, value)| value.require(mask));
            }
            Stage::Group(group) => {
                match &group.key {
                    GroupKey::Value(key) => key.require(mask),
                    GroupKey::Fields(fields) => {
                        fields.iter().for_each(|(_, key)| key.require(mask));
                    }
                }
                for (_, call) in &group.fields {
                    call.operand.require(mask);
                    call.order.iter().for_each(|order| order.require(mask));
                }
                return true;
            }
            Stage::Sort(sort) => sort.pattern.require(mask),
            Stage::Limit(_) | Stage::Skip(_) | Stage::Sample(_) | Stage::UnionWith { .. } => {}
            Stage::Count(_) => return true,
            Stage::Unwind(unwind) => mask.add(&unwind.path, FieldMask::All),
            Stage::Lookup(lookup) => {
                lookup.values.iter().for_each(|value| value.require(mask));
                lookup.equality.iter().for_each(|equality| {
                    mask.add(first_names(&equality.local), FieldMask::All);
                });
            }
            Stage::GraphLookup(lookup) => lookup.start.require(mask),
            Stage::ReplaceRoot(root) => {
                root.require(mask);
                return true;
            }
            Stage::Facet(facet) => {
                return facet.pipelines.iter().all(|(_, inner)| require(inner.stages(), mask));
            }
            Stage::BucketAuto(buckets) => {
                buckets.key.require(mask);
                for (_, call) in &buckets.fields {
                    call.operand.require(mask);
                    call.order.iter().for_each(|order| order.require(mask));
                }
                return true;
            }
            Stage::Redact(_) | Stage::Output(_) => return false,
            Stage::Documents(_) | Stage::Source { .. } => return true,
        }
    }
    false
}

/// Up to the first name that may be a position.
fn first_names(path: &[String]) -> &[String] {
    let is_position = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let end = path.iter().position(is_position).unwrap_or(path.len());
    &path[..end]
}
