//! Custom formats of dates: runs of `y M d H h m s f F t` stand for date parts, a backslash for the
//! next character, texts in quotes and all other characters for themselves.

use std::fmt::Write as _;

use super::calendar::{Civil, Ticks};

/// `at` in the format `pattern`.
pub(super) fn format(at: Ticks, pattern: &str) -> String {
    let civil = at.civil();
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = chars.as_slice();
    while let Some((&first, tail)) = rest.split_first() {
        if first == '\\' {
            out.extend(tail.first());
            rest = tail.get(1..).unwrap_or_default();
        } else if first == '\'' || first == '"' {
            let end = tail.iter().position(|c| *c == first).unwrap_or(tail.len());
            out.extend(&tail[..end]);
            rest = tail.get(end + 1..).unwrap_or_default();
        } else {
            let run = rest.iter().take_while(|c| **c == first).count();
            match is_specifier(first) {
                true => write_part(civil, first, run, &mut out),
                false => out.extend(&rest[..run]),
            }
            rest = &rest[run..];
        }
    }
    out
}

fn is_specifier(c: char) -> bool {
    matches!(c, 'y' | 'M' | 'd' | 'H' | 'h' | 'm' | 's' | 'f' | 'F' | 't')
}

fn write_part(civil: Civil, specifier: char, run: usize, out: &mut String) {
    let hour12 = if civil.hour.is_multiple_of(12) { 12 } else { civil.hour % 12 };
    let number = match specifier {
        'y' => {
            let year = civil.year.unsigned_abs();
            if run <= 2 { year % 100 } else { year }
        }
        'M' => civil.month,
        'd' => civil.day,
        'H' => civil.hour,
        'h' => hour12,
        'm' => civil.minute,
        's' => civil.second,
        't' => {
            let half = if civil.hour < 12 { "AM" } else { "PM" };
            return out.push_str(if run == 1 { &half[..1] } else { half });
        }
        _ => return write_fraction(civil.fraction, specifier == 'F', run, out),
    };
    let width = if specifier == 'y' { run } else { run.min(2) };
    let _ = write!(out, "{number:0width$}");
}

/// Writes `run` digits of the fraction; `is_short` drops trailing zeros, and a decimal point that
/// nothing follows.
fn write_fraction(fraction: u32, is_short: bool, run: usize, out: &mut String) {
    let digits = format!("{fraction:07}");
    let shown = digits.get(..run.min(7)).unwrap_or_default();
    if !is_short {
        return out.push_str(shown);
    }
    let shown = shown.trim_end_matches('0');
    if shown.is_empty() && out.ends_with('.') {
        out.pop();
    }
    out.push_str(shown);
}
