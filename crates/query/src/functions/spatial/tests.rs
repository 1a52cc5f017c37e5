//! Laws that hold for all shapes, on the globe and on a plane.

use model::{Value, json};
use proptest::prelude::*;

use super::super::{Args, Function};
use super::{GEOGRAPHY, GEOMETRY};
use crate::Budget;

/// The answer of a function of one of the tables.
fn answer(table: &'static [Function], name: &str, args: &[&str]) -> Option<Value> {
    let function = table.iter().find(|function| function.name() == name).expect(name);
    let values: Vec<_> = args
        .iter()
        .map(|text| json::parse(text.as_bytes(), 16).expect("JSON").value)
        .map(|value| Some(std::borrow::Cow::Owned(value)))
        .collect();
    function.call(&Args::new(&values, None), &Budget::per_item()).expect("within budget")
}

fn truth(table: &'static [Function], name: &str, args: &[&str]) -> bool {
    answer(table, name, args).and_then(|value| value.as_bool()).expect("an answer")
}

fn number(table: &'static [Function], name: &str, args: &[&str]) -> f64 {
    answer(table, name, args).and_then(|value| value.as_f64()).expect("a number")
}

fn point((x, y): (f64, f64)) -> String {
    format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#)
}

fn line(points: &[(f64, f64)]) -> String {
    format!(r#"{{"type":"LineString","coordinates":[{}]}}"#, positions(points))
}

fn polygon(corners: &[(f64, f64)]) -> String {
    let mut ring = corners.to_vec();
    ring.extend(corners.first());
    format!(r#"{{"type":"Polygon","coordinates":[[{}]]}}"#, positions(&ring))
}

fn positions(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("[{x},{y}]")).collect::<Vec<_>>().join(",")
}

fn place() -> impl Strategy<Value = (f64, f64)> {
    (-800..800_i32, -800..800_i32).prop_map(|(x, y)| (f64::from(x) / 10.0, f64::from(y) / 10.0))
}

/// A convex polygon around a point, counterclockwise.
fn convex() -> impl Strategy<Value = Vec<(f64, f64)>> {
    (place(), 3..9_u32, 1..200_u32).prop_map(|((x, y), corners, size)| {
        let radius = f64::from(size) / 20.0;
        let corner = |at: u32| {
            let angle = f64::from(at) / f64::from(corners) * std::f64::consts::TAU;
            (x + radius * angle.cos(), (y + radius * angle.sin()).clamp(-89.0, 89.0))
        };
        (0..corners).map(corner).collect()
    })
}

/// Whether a point is to the left of every edge of a convex polygon, by a margin; `None` if it is
/// too near to the boundary to decide.
fn is_inside_convex(corners: &[(f64, f64)], (x, y): (f64, f64)) -> Option<bool> {
    let next = corners.iter().cycle().skip(1);
    let mut is_inside = true;
    for ((ax, ay), (bx, by)) in corners.iter().zip(next) {
        let cross = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
        if cross.abs() < 1e-9 {
            return None;
        }
        is_inside &= cross > 0.0;
    }
    Some(is_inside)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_point_is_in_a_convex_polygon_if_it_is_left_of_all_edges(
        corners in convex(), p in place(), reversed in any::<bool>(),
    ) {
        if let Some(is_inside) = is_inside_convex(&corners, p) {
            let mut corners = corners;
            if reversed {
                corners.reverse();
            }
            let (p, shape) = (point(p), polygon(&corners));
            prop_assert_eq!(truth(GEOMETRY, "ST_WITHIN", &[&p, &shape]), is_inside);
            prop_assert_eq!(truth(GEOMETRY, "ST_INTERSECTS", &[&p, &shape]), is_inside);
            prop_assert_eq!(number(GEOMETRY, "ST_DISTANCE", &[&p, &shape]) > 0.0, !is_inside);
        }
    }

    #[test]
    fn relations_agree_with_each_other(a in convex(), b in convex()) {
        let (a, b) = (polygon(&a), polygon(&b));
        for table in [GEOGRAPHY, GEOMETRY] {
            let meets = truth(table, "ST_INTERSECTS", &[&a, &b]);
            prop_assert_eq!(meets, truth(table, "ST_INTERSECTS", &[&b, &a]));
            let (there, back) =
                (number(table, "ST_DISTANCE", &[&a, &b]), number(table, "ST_DISTANCE", &[&b, &a]));
            prop_assert!((there - back).abs() <= there * 1e-9, "{} and {}", there, back);
            prop_assert_eq!(there == 0.0, meets);
            if truth(table, "ST_WITHIN", &[&a, &b]) {
                prop_assert!(meets);
                let (inner, outer) =
                    (number(table, "ST_AREA", &[&a]), number(table, "ST_AREA", &[&b]));
                prop_assert!(inner <= outer * (1.0 + 1e-9));
            }
            prop_assert!(truth(table, "ST_WITHIN", &[&a, &a]));
        }
    }

    #[test]
    fn a_ring_and_its_reverse_share_the_globe(corners in convex(), p in place()) {
        let reversed: Vec<_> = corners.iter().rev().copied().collect();
        let (shape, rest, p) = (polygon(&corners), polygon(&reversed), point(p));
        let is_in = |shape: &str| truth(GEOGRAPHY, "ST_INTERSECTS", &[&p, shape]);
        prop_assert!(is_in(&shape) || is_in(&rest));
        prop_assert!(!(truth(GEOGRAPHY, "ST_WITHIN", &[&p, &shape])
            && truth(GEOGRAPHY, "ST_WITHIN", &[&p, &rest])));
        let earth = 510_065_621_724_088.0;
        let area = number(GEOGRAPHY, "ST_AREA", &[&shape]) + number(GEOGRAPHY, "ST_AREA", &[&rest]);
        prop_assert!((area / earth - 1.0).abs() < 1e-9, "{}", area);
    }

    #[test]
    fn no_way_is_shorter_than_the_distance(a in place(), b in place(), p in place()) {
        prop_assume!(a != b);
        let (shape, p) = (line(&[a, b]), point(p));
        for table in [GEOGRAPHY, GEOMETRY] {
            let distance = number(table, "ST_DISTANCE", &[&p, &shape]);
            for end in [a, b] {
                let to_end = number(table, "ST_DISTANCE", &[&p, &point(end)]);
                prop_assert!(distance <= to_end * (1.0 + 1e-9), "{} and {}", distance, to_end);
            }
        }
    }
}

#[test]
fn distances_are_those_of_the_ellipsoid() {
    let metres = |a, b| number(GEOGRAPHY, "ST_DISTANCE", &[&point(a), &point(b)]);
    // A quarter of a meridian, a degree of the equator, and two cities.
    assert!((metres((0.0, 0.0), (0.0, 90.0)) - 10_001_965.729).abs() < 0.001);
    assert!((metres((10.0, 0.0), (11.0, 0.0)) - 111_319.491).abs() < 0.001);
    let (paris, berlin) = ((2.3522, 48.8566), (13.405, 52.52));
    assert!((metres(paris, berlin) / 879_700.0 - 1.0).abs() < 0.001);
}

#[test]
fn shapes_without_end_are_stopped() {
    let ring: Vec<(f64, f64)> = (0..20_000)
        .map(|at| f64::from(at) / 20_000.0 * std::f64::consts::TAU)
        .map(|angle| (angle.cos(), angle.sin()))
        .collect();
    let shape = json::parse(polygon(&ring).as_bytes(), 16).expect("JSON").value;
    let values =
        [Some(std::borrow::Cow::Borrowed(&shape)), Some(std::borrow::Cow::Borrowed(&shape))];
    for name in ["ST_DISTANCE", "ST_INTERSECTS", "ST_WITHIN"] {
        let function = GEOGRAPHY.iter().find(|function| function.name() == name).expect(name);
        let answer = function.call(&Args::new(&values, None), &Budget::per_item());
        assert_eq!(answer, Err(crate::EvalError::BudgetExceeded), "{name}");
    }
}
