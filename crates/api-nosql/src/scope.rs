//! The scope of a feed or query: one key, a leading part of a key, one range, a range of the hash
//! line, or the whole container.

use engine::ops::Scope;
use engine::{Container, RangeId};
use model::{Epk, EpkRange, epk};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::partition_key_header;
use crate::request::Request;

/// The scope that a request's headers name: the intersection of key, range and bounds.
pub(crate) fn of(container: &Container, request: &Request) -> Result<Scope, ApiError> {
    let bounds = epk_bounds(request)?;
    let range = range_id(request)?;
    let Some(key) = partition_key_header::scope_key(container, request)? else {
        return Ok(sub_range(range, bounds));
    };
    let definition = &container.spec.partition_key;
    if key.0.len() < definition.paths.len() {
        let prefix = epk::key_range(definition, &key);
        return Ok(sub_range(range, Some(cut(prefix, bounds.as_ref()))));
    }
    let point = epk::effective_partition_key(definition, &key);
    let routing = container.routing();
    let in_range = match range {
        Some(id) => routing.by_id(id).ok_or(engine::Error::RangeGone)?.epk.contains(&point),
        None => true,
    };
    let in_bounds = bounds.is_none_or(|bounds| bounds.contains(&point));
    Ok(match in_range && in_bounds {
        true => Scope::Key(key),
        false => Scope::Epk(nothing()),
    })
}

fn sub_range(range: Option<RangeId>, epk: Option<EpkRange>) -> Scope {
    match (range, epk) {
        (Some(id), epk) => Scope::Range { id, epk },
        (None, Some(epk)) => Scope::Epk(epk),
        (None, None) => Scope::All,
    }
}

/// The part of `range` within `bounds`.
fn cut(range: EpkRange, bounds: Option<&EpkRange>) -> EpkRange {
    match bounds {
        Some(bounds) => range.intersect(bounds).unwrap_or_else(nothing),
        None => range,
    }
}

/// A range that holds no key.
fn nothing() -> EpkRange {
    EpkRange { min: Epk::min(), max: Epk::min() }
}

/// The number of the range that a request names; some clients put it behind the container's id.
pub(crate) fn range_id(request: &Request) -> Result<Option<RangeId>, ApiError> {
    let header = request.headers.text_or(HeaderName::PartitionKeyRangeId, "?");
    let Some(text) = header else { return Ok(None) };
    let number = text.rsplit(',').next().unwrap_or_default();
    match number.trim().parse() {
        Ok(number) => Ok(Some(RangeId(number))),
        Err(_) => Err(ApiError::invalid_input(format!(
            "The partition key range id '{text}' is not a number."
        ))),
    }
}

/// The range of the hash line between the bounds in a request; `None` without bounds.
pub(crate) fn epk_bounds(request: &Request) -> Result<Option<EpkRange>, ApiError> {
    let key_type = request.header(HeaderName::ReadKeyType).unwrap_or_default();
    let min = bound(request, HeaderName::StartEpk)?;
    let max = bound(request, HeaderName::EndEpk)?;
    if min.is_none() && max.is_none() {
        return Ok(None);
    }
    if key_type.eq_ignore_ascii_case("EffectivePartitionKey") {
        return Err(invalid("One key was announced, but a range of them given."));
    }
    let range = EpkRange { min: min.unwrap_or_else(Epk::min), max: max.unwrap_or_else(Epk::max) };
    match range.min < range.max {
        true => Ok(Some(range)),
        false => Err(invalid("The start of the range is not before its end.")),
    }
}

fn bound(request: &Request, header: HeaderName) -> Result<Option<Epk>, ApiError> {
    let Some(text) = request.headers.text_or(header, "?") else { return Ok(None) };
    Epk::from_hex(text).map(Some).map_err(|error| invalid(&error.to_string()))
}

fn invalid(reason: &str) -> ApiError {
    ApiError::bad_request(format!("One of the input values is invalid. {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::request_with;

    fn request(headers: &[(HeaderName, &str)]) -> Request {
        request_with(headers, b"")
    }

    #[test]
    fn a_range_is_named_by_number() {
        let range = |text| range_id(&request(&[(HeaderName::PartitionKeyRangeId, text)]));
        assert_eq!(range("7").ok(), Some(Some(RangeId(7))));
        assert_eq!(range("AAARB4AAAAE=,7").ok(), Some(Some(RangeId(7))));
        assert_eq!(range_id(&request(&[])).ok(), Some(None));
        for bad in ["", "x", "-1", "99999999999"] {
            assert_eq!(range(bad).unwrap_err().status(), 400, "{bad}");
        }
    }

    #[test]
    fn bounds_default_to_the_ends_of_the_line() {
        let epk = |text| Epk::from_hex(text).unwrap();
        let both =
            epk_bounds(&request(&[(HeaderName::StartEpk, "1f"), (HeaderName::EndEpk, "3F")]))
                .unwrap();
        assert_eq!(both, Some(EpkRange { min: epk("1F"), max: epk("3F") }));
        let from = epk_bounds(&request(&[(HeaderName::StartEpk, "1F")])).unwrap();
        assert_eq!(from, Some(EpkRange { min: epk("1F"), max: Epk::max() }));
        let all = epk_bounds(&request(&[(HeaderName::StartEpk, ""), (HeaderName::EndEpk, "FF")]))
            .unwrap();
        assert_eq!(all, Some(EpkRange::full()));
        let kind = (HeaderName::ReadKeyType, "EffectivePartitionKeyRange");
        assert_eq!(epk_bounds(&request(&[kind])).unwrap(), None);
    }

    #[test]
    fn bad_bounds_are_refused() {
        let start = |text| (HeaderName::StartEpk, text);
        let end = |text| (HeaderName::EndEpk, text);
        for headers in [
            vec![start("xyz")],
            vec![start("123")],
            vec![start("3F"), end("1F")],
            vec![start("1F"), end("1F")],
            vec![(HeaderName::ReadKeyType, "EffectivePartitionKey"), start("1F"), end("3F")],
        ] {
            let error = epk_bounds(&request(&headers)).unwrap_err();
            assert_eq!(error.status(), 400, "{headers:?}");
            assert!(error.message().contains("One of the input values is invalid"));
        }
    }
}
