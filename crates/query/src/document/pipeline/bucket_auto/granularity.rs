//! Series of preferred numbers, to which bounds of buckets are rounded.

use model::Value;

use crate::document::expression::number::Number;

/// A series of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Granularity {
    /// The mantissas of a series, ascending, times any power of ten.
    Series(&'static [f64]),
    /// Powers of two.
    PowersOfTwo,
}

const R5: &[f64] = &[1.0, 1.6, 2.5, 4.0, 6.3];
const R10: &[f64] = &[1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0];
const R20: &[f64] = &[
    1.0, 1.12, 1.25, 1.4, 1.6, 1.8, 2.0, 2.24, 2.5, 2.8, 3.15, 3.55, 4.0, 4.5, 5.0, 5.6, 6.3, 7.1,
    8.0, 9.0,
];
const R40: &[f64] = &[
    1.0, 1.06, 1.12, 1.18, 1.25, 1.32, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.12, 2.24, 2.36, 2.5,
    2.65, 2.8, 3.0, 3.15, 3.35, 3.55, 3.75, 4.0, 4.25, 4.5, 4.75, 5.0, 5.3, 5.6, 6.0, 6.3, 6.7,
    7.1, 7.5, 8.0, 8.5, 9.0, 9.5,
];
const R80: &[f64] = &[
    1.0, 1.03, 1.06, 1.09, 1.12, 1.15, 1.18, 1.22, 1.25, 1.28, 1.32, 1.36, 1.4, 1.45, 1.5, 1.55,
    1.6, 1.65, 1.7, 1.75, 1.8, 1.85, 1.9, 1.95, 2.0, 2.06, 2.12, 2.18, 2.24, 2.3, 2.36, 2.43, 2.5,
    2.58, 2.65, 2.72, 2.8, 2.9, 3.0, 3.07, 3.15, 3.25, 3.35, 3.45, 3.55, 3.65, 3.75, 3.87, 4.0,
    4.12, 4.25, 4.37, 4.5, 4.62, 4.75, 4.87, 5.0, 5.15, 5.3, 5.45, 5.6, 5.8, 6.0, 6.15, 6.3, 6.5,
    6.7, 6.9, 7.1, 7.3, 7.5, 7.75, 8.0, 8.25, 8.5, 8.75, 9.0, 9.25, 9.5, 9.75,
];
const ONE_TWO_FIVE: &[f64] = &[1.0, 2.0, 5.0];
const E6: &[f64] = &[1.0, 1.5, 2.2, 3.3, 4.7, 6.8];
const E12: &[f64] = &[1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2];
const E24: &[f64] = &[
    1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0, 3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6,
    6.2, 6.8, 7.5, 8.2, 9.1,
];
const E48: &[f64] = &[
    1.0, 1.05, 1.1, 1.15, 1.21, 1.27, 1.33, 1.4, 1.47, 1.54, 1.62, 1.69, 1.78, 1.87, 1.96, 2.05,
    2.15, 2.26, 2.37, 2.49, 2.61, 2.74, 2.87, 3.01, 3.16, 3.32, 3.48, 3.65, 3.83, 4.02, 4.22, 4.42,
    4.64, 4.87, 5.11, 5.36, 5.62, 5.9, 6.19, 6.49, 6.81, 7.15, 7.5, 7.87, 8.25, 8.66, 9.09, 9.53,
];
const E96: &[f64] = &[
    1.0, 1.02, 1.05, 1.07, 1.1, 1.13, 1.15, 1.18, 1.21, 1.24, 1.27, 1.3, 1.33, 1.37, 1.4, 1.43,
    1.47, 1.5, 1.54, 1.58, 1.62, 1.65, 1.69, 1.74, 1.78, 1.82, 1.87, 1.91, 1.96, 2.0, 2.05, 2.1,
    2.15, 2.21, 2.26, 2.32, 2.37, 2.43, 2.49, 2.55, 2.61, 2.67, 2.74, 2.8, 2.87, 2.94, 3.01, 3.09,
    3.16, 3.24, 3.32, 3.4, 3.48, 3.57, 3.65, 3.74, 3.83, 3.92, 4.02, 4.12, 4.22, 4.32, 4.42, 4.53,
    4.64, 4.75, 4.87, 4.99, 5.11, 5.23, 5.36, 5.49, 5.62, 5.76, 5.9, 6.04, 6.19, 6.34, 6.49, 6.65,
    6.81, 6.98, 7.15, 7.32, 7.5, 7.68, 7.87, 8.06, 8.25, 8.45, 8.66, 8.87, 9.09, 9.31, 9.53, 9.76,
];
const E192: &[f64] = &[
    1.0, 1.01, 1.02, 1.04, 1.05, 1.06, 1.07, 1.09, 1.1, 1.11, 1.13, 1.14, 1.15, 1.17, 1.18, 1.2,
    1.21, 1.23, 1.24, 1.26, 1.27, 1.29, 1.3, 1.32, 1.33, 1.35, 1.37, 1.38, 1.4, 1.42, 1.43, 1.45,
    1.47, 1.49, 1.5, 1.52, 1.54, 1.56, 1.58, 1.6, 1.62, 1.64, 1.65, 1.67, 1.69, 1.72, 1.74, 1.76,
    1.78, 1.8, 1.82, 1.84, 1.87, 1.89, 1.91, 1.93, 1.96, 1.98, 2.0, 2.03, 2.05, 2.08, 2.1, 2.13,
    2.15, 2.18, 2.21, 2.23, 2.26, 2.29, 2.32, 2.34, 2.37, 2.4, 2.43, 2.46, 2.49, 2.52, 2.55, 2.58,
    2.61, 2.64, 2.67, 2.71, 2.74, 2.77, 2.8, 2.84, 2.87, 2.91, 2.94, 2.98, 3.01, 3.05, 3.09, 3.12,
    3.16, 3.2, 3.24, 3.28, 3.32, 3.36, 3.4, 3.44, 3.48, 3.52, 3.57, 3.61, 3.65, 3.7, 3.74, 3.79,
    3.83, 3.88, 3.92, 3.97, 4.02, 4.07, 4.12, 4.17, 4.22, 4.27, 4.32, 4.37, 4.42, 4.48, 4.53, 4.59,
    4.64, 4.7, 4.75, 4.81, 4.87, 4.93, 4.99, 5.05, 5.11, 5.17, 5.23, 5.3, 5.36, 5.42, 5.49, 5.56,
    5.62, 5.69, 5.76, 5.83, 5.9, 5.97, 6.04, 6.12, 6.19, 6.26, 6.34, 6.42, 6.49, 6.57, 6.65, 6.73,
    6.81, 6.9, 6.98, 7.06, 7.15, 7.23, 7.32, 7.41, 7.5, 7.59, 7.68, 7.77, 7.87, 7.96, 8.06, 8.16,
    8.25, 8.35, 8.45, 8.56, 8.66, 8.76, 8.87, 8.98, 9.09, 9.2, 9.31, 9.42, 9.53, 9.65, 9.76, 9.88,
];

/// How far a product may be from the number that it stands for.
const TOLERANCE: f64 = 1e-12;

impl Granularity {
    /// The series with this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(Granularity::Series(match name {
            "R5" => R5,
            "R10" => R10,
            "R20" => R20,
            "R40" => R40,
            "R80" => R80,
            "1-2-5" => ONE_TWO_FIVE,
            "E6" => E6,
            "E12" => E12,
            "E24" => E24,
            "E48" => E48,
            "E96" => E96,
            "E192" => E192,
            "POWERSOF2" => return Some(Granularity::PowersOfTwo),
            _ => return None,
        }))
    }

    /// The least number of the series above a number; zero stays.
    pub(super) fn up(self, value: &Value) -> Value {
        self.neighbour(value, |number, candidate| candidate > number * (1.0 + TOLERANCE), false)
    }

    /// The greatest number of the series below a number; zero stays.
    pub(super) fn down(self, value: &Value) -> Value {
        self.neighbour(value, |number, candidate| candidate < number * (1.0 - TOLERANCE), true)
    }

    fn neighbour(self, value: &Value, is_beyond: fn(f64, f64) -> bool, is_greatest: bool) -> Value {
        let number = Number::of(Some(value)).map_or(0.0, Number::to_f64);
        if number == 0.0 || !number.is_finite() {
            return Value::Double(number);
        }
        let mut beyond: Vec<f64> =
            self.around(number).into_iter().filter(|near| is_beyond(number, *near)).collect();
        beyond.sort_unstable_by(f64::total_cmp);
        let found = if is_greatest { beyond.last() } else { beyond.first() };
        Value::Double(found.copied().unwrap_or(number))
    }

    /// Numbers of the series that are near, on both sides.
    fn around(self, number: f64) -> Vec<f64> {
        match self {
            Granularity::Series(mantissas) => {
                let power = number.log10().floor();
                let scaled = |shift: f64| {
                    // Whole numbers of hundredths are exact, so that only one rounding is left.
                    let power = power + shift - 2.0;
                    mantissas.iter().map(|mantissa| (mantissa * 100.0).round()).map(
                        move |hundredths| match power < 0.0 {
                            true => hundredths / 10_f64.powf(-power),
                            false => hundredths * 10_f64.powf(power),
                        },
                    )
                };
                scaled(-1.0).chain(scaled(0.0)).chain(scaled(1.0)).collect()
            }
            Granularity::PowersOfTwo => {
                let power = number.log2().floor();
                [-1.0, 0.0, 1.0].iter().map(|shift| (power + shift).exp2()).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_strictly_above_and_below() {
        let series = |name| Granularity::named(name).unwrap();
        let up = |name, n| series(name).up(&Value::Double(n)).as_f64().unwrap();
        let down = |name, n| series(name).down(&Value::Double(n)).as_f64().unwrap();
        assert_eq!((up("R5", 16.0), down("R5", 16.0)), (25.0, 10.0));
        assert_eq!((up("1-2-5", 7.0), down("1-2-5", 7.0)), (10.0, 5.0));
        assert_eq!((up("E6", 1.0), down("E6", 1.0)), (1.5, 0.68));
        assert_eq!((up("POWERSOF2", 8.0), down("POWERSOF2", 8.0)), (16.0, 4.0));
        assert_eq!((up("E192", 0.0), down("R80", 0.0)), (0.0, 0.0));
        assert_eq!(Granularity::named("R6"), None);
    }

    #[test]
    fn series_ascend() {
        for name in
            ["R5", "R10", "R20", "R40", "R80", "1-2-5", "E6", "E12", "E24", "E48", "E96", "E192"]
        {
            let Some(Granularity::Series(series)) = Granularity::named(name) else {
                panic!("{name}")
            };
            assert!(series.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
        }
    }
}
