//! Exact handling of integers and doubles: conversion, comparison and printing.

use std::cmp::Ordering;

use crate::Value;

/// The exact integer behind a plain number, if it is one.
pub fn as_i64(value: &Value) -> Option<i64> {
    todo!("{value:?}")
}

/// The nearest double of a plain number (int32, int64, double).
pub fn as_f64(value: &Value) -> Option<f64> {
    todo!("{value:?}")
}

/// Compares two plain numbers exactly: 2^53 + 1 as int64 is greater than 2^53 as double.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    todo!("{a:?} {b:?}")
}

/// Appends `n` as JSON: shortest digits that read back as the same double, integers without a
/// fraction or exponent up to 2^53, as the service prints them.
pub fn write_f64(n: f64, out: &mut Vec<u8>) {
    todo!("{n} {out:?}")
}
