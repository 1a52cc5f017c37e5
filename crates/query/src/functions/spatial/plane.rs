//! The plane: coordinates as given, without a unit.

use super::geojson::Position;
use super::shape::{Edge, Side, Space};

/// Coordinates on a plane.
#[derive(Debug)]
pub(super) struct Plane;

/// A few units in the last place of the computed coordinates.
const ROUNDING: f64 = 1e-15;

fn minus(a: Position, b: Position) -> Position {
    Position { x: a.x - b.x, y: a.y - b.y }
}

fn cross(a: Position, b: Position) -> f64 {
    a.x * b.y - a.y * b.x
}

fn dot(a: Position, b: Position) -> f64 {
    a.x * b.x + a.y * b.y
}

fn size(p: Position) -> f64 {
    p.x.abs().max(p.y.abs())
}

impl Space for Plane {
    type Point = Position;

    fn point(position: Position) -> Position {
        position
    }

    fn side(a: Position, b: Position, p: Position) -> Side {
        let (along, to) = (minus(b, a), minus(p, a));
        let length = along.x.hypot(along.y);
        let scale = size(a).max(size(b)).max(size(p));
        let tolerance = ROUNDING * scale * (length + to.x.hypot(to.y));
        Side::of(cross(along, to), tolerance)
    }

    fn fraction(a: Position, b: Position, p: Position) -> Option<f64> {
        let along = minus(b, a);
        Some(dot(minus(p, a), along) / dot(along, along))
    }

    fn at(a: Position, b: Position, fraction: f64) -> Position {
        Position { x: a.x + (b.x - a.x) * fraction, y: a.y + (b.y - a.y) * fraction }
    }

    fn meeting(edge: Edge<Self>, other: Edge<Self>) -> Position {
        let (along, across) = (minus(edge.b, edge.a), minus(other.b, other.a));
        let fraction = cross(minus(other.a, edge.a), across) / cross(along, across);
        Self::at(edge.a, edge.b, fraction)
    }

    fn left_of(edge: Edge<Self>, fraction: f64, share: f64) -> Position {
        let (from, along) = (Self::at(edge.a, edge.b, fraction), minus(edge.b, edge.a));
        Position { x: from.x - along.y * share, y: from.y + along.x * share }
    }

    fn is_same(p: Position, q: Position) -> bool {
        size(minus(p, q)) <= ROUNDING * size(p).max(size(q))
    }

    fn estimate(p: Position, edge: Edge<Self>) -> f64 {
        Self::distance(p, edge)
    }

    fn distance(p: Position, edge: Edge<Self>) -> f64 {
        let fraction = Self::fraction(edge.a, edge.b, p).filter(|fraction| fraction.is_finite());
        let nearest = Self::at(edge.a, edge.b, fraction.unwrap_or(0.0).clamp(0.0, 1.0));
        let apart = minus(p, nearest);
        apart.x.hypot(apart.y)
    }

    fn area(ring: &[Position]) -> f64 {
        let Some(origin) = ring.first() else { return 0.0 };
        let corners = ring.windows(2).map(|pair| match pair {
            [a, b] => cross(minus(*a, *origin), minus(*b, *origin)),
            _ => 0.0,
        });
        corners.sum::<f64>() / 2.0
    }

    /// On a plane a ring encloses its inside, whichever direction it has.
    fn is_turned(ring: &[Position], is_hole: bool) -> bool {
        (Self::area(ring) < 0.0) != is_hole
    }
}
