//! The globe: longitude and latitude in degrees on the WGS 84 ellipsoid, metres.
//!
//! Edges lie in a plane through the centre of the Earth, so that the side of a point depends on
//! directions only. Lengths and areas are those of geodesics.

use std::sync::LazyLock;

use geographiclib_rs::{Geodesic, InverseGeodesic, PolygonArea, Winding};

use super::geojson::Position;
use super::shape::{Edge, Side, Space};

/// Longitude and latitude on the ellipsoid.
#[derive(Debug)]
pub(super) struct Globe;

static EARTH: LazyLock<Geodesic> = LazyLock::new(Geodesic::wgs84);
/// The squared ratio of the Earth's axes.
static AXES_SQUARED: LazyLock<f64> = LazyLock::new(|| (1.0 - EARTH.flattening()).powi(2));

/// A point: as given, and as a direction from the centre of the Earth.
#[derive(Clone, Copy, Debug)]
pub(super) struct GlobePoint {
    position: Position,
    direction: Vector,
}

impl GlobePoint {
    pub(super) fn direction(&self) -> [f64; 3] {
        self.direction.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Vector([f64; 3]);

impl Vector {
    fn dot(self, other: Self) -> f64 {
        let (Vector([a, b, c]), Vector([x, y, z])) = (self, other);
        a * x + b * y + c * z
    }

    fn cross(self, other: Self) -> Self {
        let (Vector([a, b, c]), Vector([x, y, z])) = (self, other);
        Vector([b * z - c * y, c * x - a * z, a * y - b * x])
    }

    fn plus(self, other: Self) -> Self {
        let (Vector([a, b, c]), Vector([x, y, z])) = (self, other);
        Vector([a + x, b + y, c + z])
    }

    fn times(self, factor: f64) -> Self {
        Vector(self.0.map(|part| part * factor))
    }

    fn minus(self, other: Self) -> Self {
        self.plus(other.times(-1.0))
    }

    fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    fn normalised(self) -> Self {
        let length = self.length();
        if length > 0.0 { self.times(length.recip()) } else { self }
    }
}

/// Smallest angle, in radians, by which directions can differ: some nanometres on the ground.
const RESOLUTION: f64 = 4e-15;

/// The vector normal to the plane of an edge, to its left; its length is the sine of the edge's
/// angle. The sum and difference lose no precision even for points that are a step apart.
fn normal(a: GlobePoint, b: GlobePoint) -> Vector {
    let (a, b) = (a.direction, b.direction);
    a.plus(b).times(0.5).cross(b.minus(a))
}

fn point_of(direction: Vector) -> GlobePoint {
    let direction = direction.normalised();
    let Vector([x, y, z]) = direction;
    let latitude = z.atan2(x.hypot(y) * *AXES_SQUARED).to_degrees();
    let position = Position { x: y.atan2(x).to_degrees(), y: latitude };
    GlobePoint { position, direction }
}

fn metres(p: Position, q: Position) -> f64 {
    EARTH.inverse(p.y, p.x, q.y, q.x)
}

/// The coefficients of `a` and `b` in the direction of `p`.
fn parts(a: GlobePoint, b: GlobePoint, p: GlobePoint) -> (f64, f64) {
    let across = normal(a, b);
    let square = across.dot(across);
    let of_a = normal(p, b).dot(across) / square;
    let of_b = normal(a, p).dot(across) / square;
    (of_a, of_b)
}

impl Globe {
    /// The area of the whole surface.
    pub(super) fn earth_area() -> f64 {
        EARTH.area()
    }
}

impl Space for Globe {
    type Point = GlobePoint;

    fn point(position: Position) -> GlobePoint {
        let (longitude, latitude) = (position.x.to_radians(), position.y.to_radians());
        // Latitudes are angles to the ground; directions have angles to the equator's plane.
        let (sine, cosine) = (latitude.sin() * *AXES_SQUARED, latitude.cos());
        let direction =
            Vector([cosine * longitude.cos(), cosine * longitude.sin(), sine]).normalised();
        GlobePoint { position, direction }
    }

    fn side(a: GlobePoint, b: GlobePoint, p: GlobePoint) -> Side {
        let across = normal(a, b);
        let length = across.length();
        let to = p.direction.minus(a.direction);
        let tolerance = RESOLUTION * (length + 0.1 * to.length());
        Side::of(across.dot(to), tolerance)
    }

    fn fraction(a: GlobePoint, b: GlobePoint, p: GlobePoint) -> Option<f64> {
        let (of_a, of_b) = parts(a, b, p);
        let sum = of_a + of_b;
        // The opposite side of the Earth is on the line too.
        (sum > 0.0).then(|| of_b / sum)
    }

    fn at(a: GlobePoint, b: GlobePoint, fraction: f64) -> GlobePoint {
        point_of(a.direction.times(1.0 - fraction).plus(b.direction.times(fraction)))
    }

    fn meeting(edge: Edge<Self>, other: Edge<Self>) -> GlobePoint {
        let common = normal(edge.a, edge.b).cross(normal(other.a, other.b));
        let near = edge.a.direction.plus(edge.b.direction).dot(common);
        point_of(if near < 0.0 { common.times(-1.0) } else { common })
    }

    fn left_of(edge: Edge<Self>, fraction: f64, share: f64) -> GlobePoint {
        let from = Self::at(edge.a, edge.b, fraction);
        point_of(from.direction.plus(normal(edge.a, edge.b).times(share)))
    }

    fn is_same(p: GlobePoint, q: GlobePoint) -> bool {
        p.direction.minus(q.direction).length() <= RESOLUTION
    }

    fn estimate(p: GlobePoint, edge: Edge<Self>) -> f64 {
        let foot = nearest_by_angle(p, edge);
        let chord = p.direction.minus(foot).length();
        2.0 * (chord / 2.0).min(1.0).asin() * EARTH.equatorial_radius()
    }

    fn distance(p: GlobePoint, edge: Edge<Self>) -> f64 {
        let to = |fraction: f64| metres(p.position, Self::at(edge.a, edge.b, fraction).position);
        let ends = metres(p.position, edge.a.position).min(metres(p.position, edge.b.position));
        if Self::is_same(edge.a, edge.b) {
            return ends;
        }
        ends.min(least(to))
    }

    fn area(ring: &[GlobePoint]) -> f64 {
        let mut area = PolygonArea::new(&EARTH, Winding::CounterClockwise);
        ring.iter().for_each(|p| area.add_point(p.position.y, p.position.x));
        let (_, area, _) = area.compute(false);
        area
    }

    /// The area of a ring is to its left, even if that is most of the globe. Only holes, which are
    /// often written in the wrong direction, are taken as the smaller part.
    fn is_turned(ring: &[GlobePoint], is_hole: bool) -> bool {
        is_hole && Self::area(ring) < EARTH.area() / 2.0
    }
}

/// The direction on an edge with the least angle to a point.
fn nearest_by_angle(p: GlobePoint, edge: Edge<Globe>) -> Vector {
    let across = normal(edge.a, edge.b).normalised();
    let foot = p.direction.minus(across.times(p.direction.dot(across))).normalised();
    let foot = GlobePoint { direction: foot, ..p };
    match Globe::fraction(edge.a, edge.b, foot) {
        Some(fraction) if (0.0..=1.0).contains(&fraction) => foot.direction,
        _ if edge.a.direction.dot(p.direction) >= edge.b.direction.dot(p.direction) => {
            edge.a.direction
        }
        _ => edge.b.direction,
    }
}

/// The minimum between 0 and 1 of a function that falls and then rises.
fn least(function: impl Fn(f64) -> f64) -> f64 {
    // Each step keeps the golden section; this many steps leave a hundred-millionth, which changes
    // the minimum by less than doubles can express.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    const STEPS: u32 = 40;
    let (mut low, mut high) = (0.0, 1.0);
    let (mut left, mut right) = (1.0 - GOLDEN, GOLDEN);
    let (mut at_left, mut at_right) = (function(left), function(right));
    for _ in 0..STEPS {
        if at_left <= at_right {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = function(left);
        } else {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = function(right);
        }
    }
    at_left.min(at_right)
}
