//! MurmurHash3 and the 128-bit *distinct hash* of values.
//!
//! The distinct hash is the one the client libraries compute themselves to merge DISTINCT results
//! and to order arrays and objects across partitions, so it must agree with theirs bit by bit.

use crate::decimal::Decimal;
use crate::order::{self, TypeOrder};
use crate::value::Object;
use crate::{Value, number};

mod murmur;

pub use murmur::{murmur3_x64_128, murmur3_x86_32};

/// Builds a seed from its low and high half.
const fn seed(low: u64, high: u64) -> u128 {
    (high as u128) << 64 | low as u128
}

const ROOT: u128 = seed(0xbfc2_359e_afc0_e2b7, 0x8846_e002_84c4_cf1f);
const NULL: u128 = seed(0x1380_f68b_b3b0_cfe4, 0x156c_918b_f564_ee48);
const FALSE: u128 = seed(0xc1be_517f_e893_b40c, 0xe9fc_8a4c_531c_d0dd);
const TRUE: u128 = seed(0xf86d_4abf_9a41_2e74, 0x7884_8836_5c8a_985d);
const STRING: u128 = seed(0x61f5_3f0a_4420_4cfb, 0x0948_1be8_ef4b_56dd);
const NUMBER: u128 = seed(0x2400_e8b8_94ce_9c2a, 0x790b_e1ea_bd7b_9481);
const ARRAY: u128 = seed(0xfa57_3b01_4c4d_c18e, 0xa014_512c_858e_b115);
const OBJECT: u128 = seed(0x77b2_85ac_511a_ef30, 0x3dcf_1872_4582_2449);
const INDEX: u128 = seed(0xfe05_7204_216d_b999, 0x5b1c_c317_8bd9_c593);
const PROPERTY: u128 = seed(0xc915_dde0_5849_2a8a, 0x7c8b_e2eb_a72e_4634);
/// Our own seeds, for the types that client libraries do not know.
const TYPED: u128 = seed(0x9d1f_66c1_5b8e_3a27, 0x2c74_80fb_e1d6_495b);

/// The 128-bit hash under which two values are equal exactly when SQL's `=` (structural, numbers
/// by value, member order ignored) or DISTINCT would call them equal, collisions aside.
///
/// The low half of the result is the `low` of the client libraries; see [`hash_bytes`] for the
/// byte order in which arrays and objects are compared.
pub fn distinct_hash(value: &Value) -> u128 {
    hash_value(value, ROOT)
}

/// [`distinct_hash`] of an object.
pub fn object_hash(object: &Object) -> u128 {
    hash_object(object, ROOT)
}

/// [`distinct_hash`] of an array.
pub fn array_hash(elements: &[Value]) -> u128 {
    hash_array(elements, ROOT)
}

/// A 128-bit hash as 16 bytes, least significant first.
#[expect(clippy::little_endian_bytes, reason = "the order in which client libraries compare")]
pub fn hash_bytes(hash: u128) -> [u8; 16] {
    hash.to_le_bytes()
}

fn mix(hash: u128, seed: u128) -> u128 {
    murmur3_x64_128(&hash_bytes(hash), seed)
}

fn hash_value(value: &Value, seed: u128) -> u128 {
    match value {
        Value::Null => mix(NULL, seed),
        Value::Bool(false) => mix(FALSE, seed),
        Value::Bool(true) => mix(TRUE, seed),
        Value::Int32(n) => hash_i64(i64::from(*n), seed),
        Value::Int64(n) => hash_i64(*n, seed),
        Value::Double(n) => hash_f64(*n, seed),
        Value::Decimal128(bytes) => hash_decimal(value, bytes, seed),
        Value::String(text) => murmur3_x64_128(text.as_bytes(), mix(STRING, seed)),
        Value::Array(elements) => hash_array(elements, seed),
        Value::Object(object) => hash_object(object, seed),
        Value::Binary { .. }
        | Value::Guid(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::JavaScript { .. }
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::Symbol(_)
        | Value::MinKey
        | Value::MaxKey => hash_typed(value, seed),
    }
}

/// Hashes a type that client libraries do not know by its order-preserving encoding.
fn hash_typed(value: &Value, seed: u128) -> u128 {
    let mut bytes = Vec::new();
    order::encode(TypeOrder::NoSql, Some(value), &mut bytes);
    murmur3_x64_128(&bytes, mix(TYPED, seed))
}

fn hash_i64(n: i64, seed: u128) -> u128 {
    let (double, extra_bits) = split_i64(n);
    hash_number(double, extra_bits, seed)
}

fn hash_f64(n: f64, seed: u128) -> u128 {
    hash_number(n, 0, seed)
}

/// A decimal that equals an int64 or a double is hashed as that; any other by its exact encoding.
fn hash_decimal(value: &Value, bytes: &[u8; 16], seed: u128) -> u128 {
    let decimal = Decimal::from_bson(bytes);
    let Decimal::Finite(finite) = decimal else {
        return hash_f64(decimal.to_f64(), seed);
    };
    if let Some(n) = finite.to_i64() {
        return hash_i64(n, seed);
    }
    let near = finite.to_f64();
    if finite.compare_f64(near).is_eq() { hash_f64(near, seed) } else { hash_typed(value, seed) }
}

#[expect(clippy::little_endian_bytes, reason = "the client libraries hash little-endian bytes")]
fn hash_number(n: f64, extra_bits: u16, seed: u128) -> u128 {
    // Both zeros are one value; every NaN is one value.
    let n = if n == 0.0 {
        0.0
    } else if n.is_nan() {
        f64::NAN
    } else {
        n
    };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&n.to_bits().to_le_bytes());
    bytes[8..].copy_from_slice(&extra_bits.to_le_bytes());
    murmur3_x64_128(&bytes, mix(NUMBER, seed))
}

/// An int64 as the double towards zero plus the ten bits that did not fit, in the high end of a
/// 16-bit number, as in the client libraries. Both parts are exact for values that fit a double.
fn split_i64(n: i64) -> (f64, u16) {
    let magnitude = n.unsigned_abs();
    let spare_bits = 64 - (magnitude.leading_zeros() + magnitude.trailing_zeros()).min(64);
    if spare_bits <= 53 {
        return (number::i64_to_f64(n), 0);
    }
    // Left-align to 63 bits, leading one first: 1 + 52 bits for the double, 10 spare.
    let aligned = magnitude << (magnitude.leading_zeros() - 1);
    let extra = u16::try_from(aligned & 0x3FF).unwrap_or(0) << 6;
    let dropped = u64::BITS - 1 - 53 - (magnitude.leading_zeros() - 1);
    let towards_zero = magnitude >> dropped << dropped;
    let double = number::i64_to_f64(i64::try_from(towards_zero).unwrap_or(i64::MAX));
    (if n < 0 { -double } else { double }, extra)
}

fn hash_array(elements: &[Value], seed: u128) -> u128 {
    let mut hash = mix(ARRAY, seed);
    let mut element_seed = INDEX;
    for element in elements {
        hash = mix(hash_value(element, element_seed), hash);
        element_seed = element_seed.wrapping_add(1);
    }
    hash
}

/// Members are combined by exclusive or, so that their order does not matter.
fn hash_object(object: &Object, seed: u128) -> u128 {
    let name_seed = mix(STRING, PROPERTY);
    let members = object
        .iter()
        .map(|(name, value)| hash_value(value, murmur3_x64_128(name.as_bytes(), name_seed)))
        .fold(0, |all, member| all ^ member);
    let hash = mix(OBJECT, seed);
    if members == 0 { hash } else { mix(members, hash) }
}

#[cfg(test)]
mod tests;
