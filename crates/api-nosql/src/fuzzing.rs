//! Parsers of client input, opened up for fuzz targets and their saved inputs. Not an API.

pub use crate::binary_json::{BinaryJsonError, Limits, decode, encode};
