//! Cells: how an index records where geometries are.
//!
//! Space is halved along each of its axes, each half again, and so on. A cell is the result of a
//! number of halvings. Its number encodes these choices, so that cells within a cell have numbers
//! around its own. An item is found by the few cells that its geometry lies in.
//!
//! The globe is halved along the three axes of the directions from its centre, where poles and the
//! date line are not special. A plane is unbounded; it is halved along a scale that is even around
//! zero and ever denser outwards.

use std::collections::BTreeSet;

use model::Value;

use super::geojson::{Geometry, Position};
use super::globe::Globe;
use super::plane::Plane;
use super::shape::Space;
use super::{Geospatial, read};
use crate::access::ByteRange;

/// Number of halvings of all axes together.
const BITS: u32 = 60;
/// Largest number of cells of an item's geometry.
const CELLS_OF_ITEM_MAX: usize = 8;
/// Largest number of cells of a query's geometry.
const CELLS_OF_QUERY_MAX: usize = 32;
/// Cells of items have only levels that are multiples of this, so that fewer levels around a cell
/// need to be looked up.
const LEVEL_STEP: u32 = 2;
/// No point on the globe is nearer to its centre, in metres.
const LEAST_RADIUS: f64 = 6_356_700.0;
/// An upper bound of the rounding of directions, in radians.
const ROUNDING: f64 = 1e-9;

/// The number of a cell: the choice at each halving, then a one and zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellId(u64);

impl CellId {
    /// Its bytes in keys, which sort like the numbers.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl Geospatial {
    /// The cells that the geometry of an item lies in; none if the value is not a valid geometry.
    pub fn cells_of(self, value: &Value) -> Vec<CellId> {
        let numbers = match self {
            Geospatial::Geography => read::<Globe>(value).map(|geometry| {
                let around = cap_around(&geometry).map_or_else(Region::all, |cap| cap.region());
                item_cells(&around, &is_on_globe)
            }),
            Geospatial::Geometry => read::<Plane>(value)
                .map(|geometry| item_cells(&box_around(&geometry, 0.0), &|_| true)),
        };
        numbers.unwrap_or_default().into_iter().map(CellId).collect()
    }

    /// Ranges of [`CellId::to_bytes`] that hold the cells of all items with a point within `margin`
    /// of a geometry, and of some others; none if the value is not a valid geometry.
    pub(crate) fn cells_near(self, value: &Value, margin: f64) -> Vec<ByteRange> {
        let margin = margin.max(0.0);
        let ranges = match self {
            Geospatial::Geography => read::<Globe>(value).map(|geometry| {
                let around = cap_around(&geometry).and_then(|cap| cap.grown(margin / LEAST_RADIUS));
                let around = around.map_or_else(Region::all, |cap| cap.region());
                query_ranges(&around, &is_on_globe)
            }),
            Geospatial::Geometry => read::<Plane>(value)
                .map(|geometry| query_ranges(&box_around(&geometry, margin), &|_| true)),
        };
        ranges.unwrap_or_default()
    }
}

/// The box between two corners, both included, in units of the smallest cell along each axis.
struct Region<const AXES: usize> {
    low: [u32; AXES],
    high: [u32; AXES],
}

impl<const AXES: usize> Region<AXES> {
    fn all() -> Self {
        Self { low: [0; AXES], high: [u32::MAX; AXES] }
    }
}

/// A cell, by its first coordinate along each axis.
#[derive(Clone, Copy, Debug)]
struct Cell<const AXES: usize> {
    level: u32,
    path: u64,
    low: [u32; AXES],
}

impl<const AXES: usize> Cell<AXES> {
    #[expect(clippy::cast_possible_truncation, reason = "there are two or three")]
    const AXES_BITS: u32 = AXES as u32;
    const LEVELS: u32 = BITS / Self::AXES_BITS;
    const WHOLE: Self = Self { level: 0, path: 0, low: [0; AXES] };

    /// One less than its length along an axis.
    fn reach(&self) -> u32 {
        (1 << (Self::LEVELS - self.level)) - 1
    }

    fn meets(&self, region: &Region<AXES>) -> bool {
        let reach = self.reach();
        let mut axes = self.low.iter().zip(region.low.iter().zip(&region.high));
        axes.all(|(at, (low, high))| at <= high && *low <= at + reach)
    }

    fn halves(&self) -> impl Iterator<Item = Self> {
        let (level, path, low) = (self.level + 1, self.path << AXES, self.low);
        let step = 1 << (Self::LEVELS - level);
        (0..1_u64 << AXES).map(move |choice| {
            let mut half = Self { level, path: path | choice, low };
            for (axis, low) in half.low.iter_mut().enumerate() {
                *low += if choice >> axis & 1 == 1 { step } else { 0 };
            }
            half
        })
    }

    /// The number of the cell that contains this one, that many levels up.
    fn above(&self, levels: u32) -> u64 {
        number(self.path >> (levels * Self::AXES_BITS), (self.level - levels) * Self::AXES_BITS)
    }

    fn number(&self) -> u64 {
        self.above(0)
    }
}

fn number(path: u64, bits: u32) -> u64 {
    (path << 1 | 1) << (BITS - bits)
}

/// The smallest cells that together cover `region`, `max` at most.
fn cover<const AXES: usize>(
    region: &Region<AXES>,
    has_anything: &dyn Fn(&Cell<AXES>) -> bool,
    max: usize,
) -> Vec<Cell<AXES>> {
    let mut cells = vec![Cell::WHOLE];
    loop {
        let level = cells.first().map_or(0, |cell| cell.level);
        if level == Cell::<AXES>::LEVELS {
            return cells;
        }
        let halves = cells.iter().flat_map(Cell::halves);
        let halves: Vec<_> =
            halves.filter(|half| half.meets(region) && has_anything(half)).take(max + 1).collect();
        if halves.is_empty() || halves.len() > max {
            return cells;
        }
        cells = halves;
    }
}

fn item_cells<const AXES: usize>(
    region: &Region<AXES>,
    has_anything: &dyn Fn(&Cell<AXES>) -> bool,
) -> BTreeSet<u64> {
    let cells = cover(region, has_anything, CELLS_OF_ITEM_MAX);
    cells.iter().map(|cell| cell.above(cell.level % LEVEL_STEP)).collect()
}

/// The cells within those of the region, and those that contain them.
fn query_ranges<const AXES: usize>(
    region: &Region<AXES>,
    has_anything: &dyn Fn(&Cell<AXES>) -> bool,
) -> Vec<ByteRange> {
    let mut around = BTreeSet::new();
    let mut ranges = Vec::new();
    for cell in cover(region, has_anything, CELLS_OF_QUERY_MAX) {
        let number = cell.number();
        let reach = (1 << number.trailing_zeros()) - 1;
        ranges.push((number - reach, number + reach));
        let first = match cell.level % LEVEL_STEP {
            0 => LEVEL_STEP,
            rest => rest,
        };
        let levels = (first..=cell.level).step_by(LEVEL_STEP as usize);
        around.extend(levels.map(|levels| cell.above(levels)));
    }
    ranges.extend(around.into_iter().map(|number| (number, number)));
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match joined.last_mut() {
            Some(last) if low <= last.1 + 1 => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    let bytes = |number: u64| number.to_be_bytes().to_vec();
    joined
        .into_iter()
        .map(|(low, high)| ByteRange { lo: bytes(low), hi: bytes(high + 1) })
        .collect()
}

/// All directions within an angle of one.
struct Cap {
    centre: [f64; 3],
    radius: f64,
}

impl Cap {
    /// `None` if it is half of the globe or more.
    fn grown(self, angle: f64) -> Option<Self> {
        let radius = self.radius + angle + ROUNDING;
        (radius < std::f64::consts::FRAC_PI_2).then_some(Self { radius, ..self })
    }

    fn region(&self) -> Region<3> {
        let mut region = Region::all();
        for (axis, centre) in self.centre.iter().enumerate() {
            let angle = centre.clamp(-1.0, 1.0).acos();
            region.low[axis] = halvings((angle + self.radius).min(std::f64::consts::PI).cos());
            region.high[axis] = halvings((angle - self.radius).max(0.0).cos());
        }
        region
    }
}

const GLOBE_LEVELS: u32 = BITS / 3;

/// The integer coordinate of a component of a direction, from -1 to 1, along its axis.
fn halvings(part: f64) -> u32 {
    let places = f64::from(1_u32 << GLOBE_LEVELS);
    // A float that is too large or too small becomes the greatest or the least number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    let at = ((part + 1.0) / 2.0 * places) as u32;
    at.min((1 << GLOBE_LEVELS) - 1)
}

/// Whether a cell contains any direction, which is a vector of length one.
fn is_on_globe(cell: &Cell<3>) -> bool {
    let part = |at: u32| f64::from(at) / f64::from(1_u32 << GLOBE_LEVELS) * 2.0 - 1.0;
    let (mut nearest, mut farthest) = (0.0, 0.0);
    for low in cell.low {
        let (low, high) = (part(low), part(low + cell.reach() + 1));
        let near = if low <= 0.0 && 0.0 <= high { 0.0 } else { low.abs().min(high.abs()) };
        nearest += near * near;
        farthest += low.abs().max(high.abs()).powi(2);
    }
    nearest <= 1.0 + ROUNDING && farthest >= 1.0 - ROUNDING
}

/// A cap around a geometry; `None` if it is half of the globe or more.
///
/// A geometry within less than half of the globe does not extend beyond a cap around its corners. A
/// ring may also enclose everything outside that cap; then its area is the greater part of the
/// globe.
fn cap_around(geometry: &Geometry) -> Option<Cap> {
    let half = Globe::earth_area() / 2.0;
    for outer in geometry.polygons.iter().filter_map(|rings| rings.first()) {
        let open = outer.split_last().map_or(&[][..], |(_, open)| open);
        let ring: Vec<_> = open.iter().map(|position| Globe::point(*position)).collect();
        let area = Globe::area(&ring);
        if !(0.0..half).contains(&area) {
            return None;
        }
    }
    let directions = || geometry.positions().map(|position| Globe::point(position).direction());
    let mut sum = [0.0; 3];
    for direction in directions() {
        sum.iter_mut().zip(direction).for_each(|(sum, part)| *sum += part);
    }
    let length = sum.iter().map(|part| part * part).sum::<f64>().sqrt();
    if length < ROUNDING {
        return None;
    }
    let centre = sum.map(|part| part / length);
    let chord = |direction: [f64; 3]| {
        let square = |(a, b): (f64, f64)| (a - b).powi(2);
        direction.into_iter().zip(centre).map(square).sum::<f64>().sqrt()
    };
    let farthest = directions().map(chord).fold(0.0, f64::max);
    let radius = 2.0 * (farthest / 2.0).min(1.0).asin();
    let is_point = geometry.points.len() == 1 && geometry.lines.is_empty();
    match is_point && geometry.polygons.is_empty() {
        // One cell is enough.
        true => Some(Cap { centre, radius: 0.0 }),
        false => Cap { centre, radius }.grown(0.0),
    }
}

/// The box around the corners of a geometry, extended by `margin`.
fn box_around(geometry: &Geometry, margin: f64) -> Region<2> {
    let along = |part: fn(Position) -> f64| {
        let values = || geometry.positions().map(part);
        let low = values().fold(f64::INFINITY, f64::min) - margin;
        let high = values().fold(f64::NEG_INFINITY, f64::max) + margin;
        // A difference is rounded by less than one step of doubles.
        match margin > 0.0 {
            true => (in_order(low.next_down()), in_order(high.next_up())),
            false => (in_order(low), in_order(high)),
        }
    };
    let (x, y) = (along(|p| p.x), along(|p| p.y));
    Region { low: [x.0, y.0], high: [x.1, y.1] }
}

/// The integer coordinate along an axis. The bits of a double are a scale that is even between
/// powers of two.
fn in_order(value: f64) -> u32 {
    const MIDDLE: u32 = 1 << (BITS / 2 - 1);
    let from_one = (1.0 + value.abs()).to_bits() - 1.0_f64.to_bits();
    let outwards = u32::try_from(from_one >> 33).unwrap_or(u32::MAX).min(MIDDLE - 1);
    if value >= 0.0 { MIDDLE + outwards } else { MIDDLE - 1 - outwards }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::super::super::Args;
    use super::*;
    use crate::Budget;

    fn is_found(space: Geospatial, item: &Value, wanted: &Value, margin: f64) -> bool {
        let ranges = space.cells_near(wanted, margin);
        space.cells_of(item).iter().any(|cell| {
            let bytes = cell.to_bytes().to_vec();
            ranges.iter().any(|range| range.lo <= bytes && bytes < range.hi)
        })
    }

    fn json(text: &str) -> Value {
        model::json::parse(text.as_bytes(), 16).unwrap().value
    }

    fn point(x: f64, y: f64) -> Value {
        json(&format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#))
    }

    /// A ring around a point, with its inside to the left.
    fn square(x: f64, y: f64, half: f64) -> Value {
        let (w, e, s, n) = (x - half, x + half, y - half, y + half);
        let ring = format!("[{w},{s}],[{e},{s}],[{e},{n}],[{w},{n}],[{w},{s}]");
        json(&format!(r#"{{"type":"Polygon","coordinates":[[{ring}]]}}"#))
    }

    fn call(space: Geospatial, name: &str, a: &Value, b: &Value) -> Option<Value> {
        let table = match space {
            Geospatial::Geography => super::super::GEOGRAPHY,
            Geospatial::Geometry => super::super::GEOMETRY,
        };
        let function = table.iter().find(|function| function.name() == name).unwrap();
        let args = [a, b].map(|value| Some(Cow::Borrowed(value)));
        function.call(&Args::new(&args, None), &Budget::per_item()).unwrap()
    }

    fn geometry(space: Geospatial) -> impl Strategy<Value = Value> {
        let width = match space {
            Geospatial::Geography => 170.0,
            Geospatial::Geometry => 1e4,
        };
        let height = match space {
            Geospatial::Geography => 80.0,
            Geospatial::Geometry => 1e4,
        };
        let near = (-width..width, -height..height, 0.001..9.0, any::<bool>());
        near.prop_map(|(x, y, half, is_point)| match is_point {
            true => point(x, y),
            false => square(x, y, half),
        })
    }

    fn check_pair(space: Geospatial, a: &Value, b: &Value) -> Result<(), TestCaseError> {
        for name in ["ST_WITHIN", "ST_INTERSECTS"] {
            if call(space, name, a, b) == Some(Value::Bool(true)) {
                prop_assert!(is_found(space, a, b, 0.0), "{name} of {a:?} and {b:?}");
                prop_assert!(is_found(space, b, a, 0.0), "{name} of {b:?} and {a:?}");
            }
        }
        let distance = call(space, "ST_DISTANCE", a, b);
        if let Some(distance) = distance.as_ref().and_then(Value::as_f64) {
            prop_assert!(is_found(space, a, b, distance), "{distance} from {a:?} to {b:?}");
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_near_on_the_globe_is_found(
            a in geometry(Geospatial::Geography),
            b in geometry(Geospatial::Geography),
        ) {
            check_pair(Geospatial::Geography, &a, &b)?;
            check_pair(Geospatial::Geography, &a, &a)?;
        }

        #[test]
        fn whatever_is_near_on_a_plane_is_found(
            a in geometry(Geospatial::Geometry),
            b in geometry(Geospatial::Geometry),
        ) {
            check_pair(Geospatial::Geometry, &a, &b)?;
            check_pair(Geospatial::Geometry, &a, &a)?;
        }
    }

    #[test]
    fn what_is_far_is_not_found() {
        let (seattle, paris) = (point(-122.33, 47.61), point(2.35, 48.86));
        assert!(!is_found(Geospatial::Geography, &seattle, &paris, 100_000.0));
        assert!(is_found(Geospatial::Geography, &seattle, &paris, 9_000_000.0));
        assert!(!is_found(Geospatial::Geometry, &seattle, &paris, 10.0));
        assert!(is_found(Geospatial::Geometry, &seattle, &paris, 125.0));
    }

    #[test]
    fn a_ring_around_most_of_the_globe_is_everywhere() {
        let most =
            json(r#"{"type":"Polygon","coordinates":[[[0,0],[0,10],[10,10],[10,0],[0,0]]]}"#);
        assert!(is_found(Geospatial::Geography, &point(-150.0, -20.0), &most, 0.0));
        assert!(is_found(Geospatial::Geography, &most, &point(-150.0, -20.0), 0.0));
    }

    #[test]
    fn across_the_date_line_and_around_the_poles_things_are_near() {
        let near = [
            (point(179.9999, 0.0), point(-179.9999, 0.0)),
            (point(0.0, 89.9999), point(180.0, 89.9999)),
            (point(-90.0, -89.9999), point(90.0, -89.9999)),
        ];
        for (a, b) in near {
            assert!(is_found(Geospatial::Geography, &a, &b, 30.0), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_point_has_one_cell_and_what_is_no_geometry_has_none() {
        for space in [Geospatial::Geography, Geospatial::Geometry] {
            assert_eq!(space.cells_of(&point(0.0, 0.0)).len(), 1);
            assert_eq!(space.cells_of(&point(-122.33, 47.61)).len(), 1);
            assert!(space.cells_of(&json(r#"{"type":"Point"}"#)).is_empty());
            assert!(space.cells_of(&json("[1,2]")).is_empty());
            assert!(space.cells_near(&json("null"), 1.0).is_empty());
        }
        assert!(Geospatial::Geography.cells_of(&point(0.0, 91.0)).is_empty());
    }

    #[test]
    fn cells_are_kept_for_ever() {
        let cell = |space: Geospatial| space.cells_of(&point(-122.33, 47.61))[0].0;
        assert_eq!(cell(Geospatial::Geography), 1_346_354_382_075_959_731);
        assert_eq!(cell(Geospatial::Geometry), 1_345_082_879_372_569_361);
    }
}
