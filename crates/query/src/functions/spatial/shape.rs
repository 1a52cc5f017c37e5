//! How shapes relate to each other, in any space with straight lines.
//!
//! Nothing here knows coordinates: a [`Space`] determines on which side of a line a point is, where
//! two lines meet and how far points are from each other. The intersection of two shapes is found
//! by cutting the edges of one where they meet those of the other and locating each section.

use super::geojson::{Geometry, Position};
use crate::{Budget, EvalError};

/// A space with straight lines and left and right sides.
pub(super) trait Space {
    type Point: Copy;

    fn point(position: Position) -> Self::Point;

    /// The side of `p` when looking from `a` to `b`.
    fn side(a: Self::Point, b: Self::Point, p: Self::Point) -> Side;

    /// How far from `a` to `b` the point `p` of their line is: from 0 to 1 between them; `None` if
    /// it is not even near them.
    fn fraction(a: Self::Point, b: Self::Point, p: Self::Point) -> Option<f64>;

    /// The point at a fraction of the distance from `a` to `b`.
    fn at(a: Self::Point, b: Self::Point, fraction: f64) -> Self::Point;

    /// Where the lines of two edges that cross meet.
    fn meeting(edge: Edge<Self>, other: Edge<Self>) -> Self::Point;

    /// The point moved from the edge to its left by about `share` of the edge's length.
    fn left_of(edge: Edge<Self>, fraction: f64, share: f64) -> Self::Point;

    fn is_same(p: Self::Point, q: Self::Point) -> bool;

    /// The distance with an error of up to one per cent, for choosing what to measure.
    fn estimate(p: Self::Point, edge: Edge<Self>) -> f64;

    fn distance(p: Self::Point, edge: Edge<Self>) -> f64;

    /// The area to the left of a ring, whose closing point is not repeated.
    fn area(ring: &[Self::Point]) -> f64;

    /// Whether a ring is to be reversed so that the smaller part of the space is to its left.
    fn is_turned(ring: &[Self::Point], is_hole: bool) -> bool;
}

/// A side of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    On,
}

impl Side {
    /// The side of a signed distance to the left, where distances within `tolerance` count as zero.
    pub(super) fn of(distance: f64, tolerance: f64) -> Self {
        if distance > tolerance {
            Side::Left
        } else if distance < -tolerance {
            Side::Right
        } else {
            Side::On
        }
    }
}

/// Two points and the line between them.
#[derive(Debug)]
pub(super) struct Edge<S: Space + ?Sized> {
    pub a: S::Point,
    pub b: S::Point,
}

impl<S: Space + ?Sized> Clone for Edge<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Space + ?Sized> Copy for Edge<S> {}

impl<S: Space> Edge<S> {
    fn side(self, p: S::Point) -> Side {
        S::side(self.a, self.b, p)
    }

    /// How far along the edge a point of the line is: between the ends, ends included.
    fn fraction_between(self, p: S::Point) -> Option<f64> {
        S::fraction(self.a, self.b, p).filter(|fraction| (0.0..=1.0).contains(fraction))
    }

    fn has(self, p: S::Point) -> bool {
        S::is_same(p, self.a)
            || S::is_same(p, self.b)
            || (self.side(p) == Side::On && self.fraction_between(p).is_some())
    }

    /// Whether the edges cross at a point that is an end of neither.
    fn crosses(self, other: Self) -> bool {
        let (c, d) = (self.side(other.a), self.side(other.b));
        let (a, b) = (other.side(self.a), other.side(self.b));
        c != Side::On && d != Side::On && c != d && c == b && d == a
    }

    fn touches(self, other: Self) -> bool {
        self.crosses(other)
            || self.has(other.a)
            || self.has(other.b)
            || other.has(self.a)
            || other.has(self.b)
    }

    /// Where this edge must be cut so that no section crosses `other`.
    fn cuts(self, other: Self, cuts: &mut Vec<f64>) {
        if self.crosses(other) {
            cuts.extend(self.fraction_between(S::meeting(self, other)));
        }
        for end in [other.a, other.b] {
            if self.has(end) {
                cuts.extend(self.fraction_between(end));
            }
        }
    }
}

/// The location of a point relative to a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    Inside,
    Boundary,
    Outside,
}

/// Rings: the first around the area, the others around its holes. The inside is to the left of
/// each.
#[derive(Debug)]
struct Polygon<S: Space> {
    rings: Vec<Vec<S::Point>>,
}

/// A geometry in a space.
#[derive(Debug)]
pub(super) struct Shape<S: Space> {
    points: Vec<S::Point>,
    lines: Vec<Vec<S::Point>>,
    polygons: Vec<Polygon<S>>,
    /// How many points there are in all.
    size: u64,
}

fn edges<S: Space>(points: &[S::Point]) -> impl Iterator<Item = Edge<S>> {
    points.windows(2).filter_map(|pair| match pair {
        [a, b] if !S::is_same(*a, *b) => Some(Edge { a: *a, b: *b }),
        _ => None,
    })
}

/// The edges of a ring, the one that closes it last.
fn ring_edges<S: Space>(ring: &[S::Point]) -> impl Iterator<Item = Edge<S>> {
    let closing = ring.last().zip(ring.first()).map(|(a, b)| Edge { a: *a, b: *b });
    edges(ring).chain(closing.filter(|edge: &Edge<S>| !S::is_same(edge.a, edge.b)))
}

impl<S: Space> Polygon<S> {
    fn new(rings: &[Vec<Position>]) -> Self {
        let ring = |(at, positions): (usize, &Vec<Position>)| {
            let open = positions.split_last().map_or(&[][..], |(_, open)| open);
            let mut ring: Vec<S::Point> = open.iter().map(|p| S::point(*p)).collect();
            if S::is_turned(&ring, at > 0) {
                ring.reverse();
            }
            ring
        };
        Self { rings: rings.iter().enumerate().map(ring).collect() }
    }

    fn edges(&self) -> impl Iterator<Item = Edge<S>> {
        self.rings.iter().flat_map(|ring| ring_edges(ring))
    }

    fn locate(&self, p: S::Point) -> Location {
        if self.edges().any(|edge| edge.has(p)) {
            return Location::Boundary;
        }
        match self.rings.iter().all(|ring| is_left_of_ring::<S>(ring, p)) {
            true => Location::Inside,
            false => Location::Outside,
        }
    }

    /// Any point of the inside.
    fn inner_point(&self) -> Option<S::Point> {
        let shares = [0.25, 1e-2, 1e-4, 1e-6];
        let candidates = shares
            .iter()
            .flat_map(|share| self.edges().take(8).map(|edge| S::left_of(edge, 0.5, *share)));
        candidates.into_iter().find(|p| self.locate(*p) == Location::Inside)
    }

    /// The area within the first ring less that of the holes.
    fn area(&self) -> f64 {
        let Some((outer, holes)) = self.rings.split_first() else { return 0.0 };
        // The area to the left of a hole is everything but the hole.
        let hole = |ring: &Vec<S::Point>| {
            let reversed: Vec<S::Point> = ring.iter().rev().copied().collect();
            S::area(&reversed)
        };
        S::area(outer) - holes.iter().map(hole).sum::<f64>()
    }
}

/// Whether a point that is not on a ring is to the left of it. On a path from the point to one of
/// the edges, the side changes at every other edge that is crossed; the side from which the path
/// reaches that edge gives the result.
fn is_left_of_ring<S: Space>(ring: &[S::Point], p: S::Point) -> bool {
    // Paths that touch a corner are inconclusive; these fractions are unrelated to each other.
    const FRACTIONS: [f64; 4] = [0.5, 0.381_966_011, 0.723_606_798, 0.171_572_875];
    let tries = ring_edges::<S>(ring).take(16).enumerate();
    let mut tries = tries.flat_map(|(at, edge)| FRACTIONS.map(|fraction| (at, edge, fraction)));
    tries
        .find_map(|(at, edge, fraction)| left_by_path::<S>(ring, p, (at, edge), fraction))
        .unwrap_or(false)
}

fn left_by_path<S: Space>(
    ring: &[S::Point],
    p: S::Point,
    (at, edge): (usize, Edge<S>),
    fraction: f64,
) -> Option<bool> {
    let is_left = match edge.side(p) {
        Side::Left => true,
        Side::Right => false,
        Side::On => return None,
    };
    let path: Edge<S> = Edge { a: p, b: S::at(edge.a, edge.b, fraction) };
    let mut crossings = 0_u32;
    for (other_at, other) in ring_edges::<S>(ring).enumerate() {
        if other_at == at {
            continue;
        }
        if path.has(other.a) || path.has(other.b) {
            return None;
        }
        crossings += u32::from(path.crosses(other));
    }
    Some(is_left == crossings.is_multiple_of(2))
}

impl<S: Space> Shape<S> {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let line = |line: &Vec<Position>| line.iter().map(|p| S::point(*p)).collect();
        Self {
            points: geometry.points.iter().map(|p| S::point(*p)).collect(),
            lines: geometry.lines.iter().map(line).collect(),
            polygons: geometry.polygons.iter().map(|rings| Polygon::new(rings)).collect(),
            size: geometry.positions().count() as u64,
        }
    }

    /// Pays for comparing everything in one shape with everything in the other.
    fn spend_pairs(&self, other: &Self, budget: &Budget) -> Result<(), EvalError> {
        budget.spend(self.size.saturating_mul(other.size).saturating_mul(4))
    }

    fn edges(&self) -> impl Iterator<Item = Edge<S>> {
        let lines = self.lines.iter().flat_map(|line| edges(line));
        lines.chain(self.polygons.iter().flat_map(Polygon::edges))
    }

    /// One point of each connected part.
    fn representatives(&self) -> impl Iterator<Item = S::Point> {
        let lines = self.lines.iter().filter_map(|line| line.first());
        let rings = self.polygons.iter().flat_map(|p| &p.rings).filter_map(|ring| ring.first());
        self.points.iter().chain(lines).chain(rings).copied()
    }

    /// All points that a distance can be measured from.
    fn vertices(&self) -> impl Iterator<Item = S::Point> {
        let rings = self.polygons.iter().flat_map(|polygon| &polygon.rings);
        self.points.iter().chain(self.lines.iter().flatten()).chain(rings.flatten()).copied()
    }

    /// Edges, and points as edges of no length.
    fn targets(&self) -> impl Iterator<Item = Edge<S>> {
        self.edges().chain(self.points.iter().map(|p| Edge { a: *p, b: *p }))
    }

    fn locate(&self, p: S::Point) -> Location {
        let mut found = Location::Outside;
        for polygon in &self.polygons {
            match polygon.locate(p) {
                Location::Inside => return Location::Inside,
                Location::Boundary => found = Location::Boundary,
                Location::Outside => {}
            }
        }
        for line in self.lines.iter().filter(|line| edges::<S>(line).any(|edge| edge.has(p))) {
            let ends = [line.first(), line.last()];
            let is_end = ends.into_iter().flatten().any(|end| S::is_same(*end, p));
            match is_end && !is_closed::<S>(line) {
                true => found = Location::Boundary,
                false => return Location::Inside,
            }
        }
        match self.points.iter().any(|q| S::is_same(p, *q)) {
            true => Location::Inside,
            false => found,
        }
    }

    /// Whether the shapes have a point in common.
    pub(super) fn intersects(&self, other: &Self, budget: &Budget) -> Result<bool, EvalError> {
        self.spend_pairs(other, budget)?;
        Ok(self.edges().any(|edge| other.edges().any(|against| edge.touches(against)))
            || self.representatives().any(|p| other.locate(p) != Location::Outside)
            || other.representatives().any(|p| self.locate(p) != Location::Outside))
    }

    /// Whether no part of this shape is outside the other and some of it is in the interior.
    pub(super) fn is_within(&self, other: &Self, budget: &Budget) -> Result<bool, EvalError> {
        self.spend_pairs(other, budget)?;
        let mut is_inside = false;
        for p in &self.points {
            match other.locate(*p) {
                Location::Outside => return Ok(false),
                Location::Inside => is_inside = true,
                Location::Boundary => {}
            }
        }
        for edge in self.edges() {
            for piece in section_points(edge, other, budget)? {
                match other.locate(piece) {
                    Location::Outside => return Ok(false),
                    Location::Inside => is_inside = true,
                    Location::Boundary => {}
                }
            }
        }
        for polygon in &self.polygons {
            // If its boundary is in the other shape, an area leaves that shape only through a
            // boundary of it that lies in the area, or as a whole.
            for edge in other.edges() {
                for piece in section_points(edge, self, budget)? {
                    if polygon.locate(piece) == Location::Inside {
                        return Ok(false);
                    }
                }
            }
            match polygon.inner_point() {
                Some(p) if other.locate(p) == Location::Inside => is_inside = true,
                _ => return Ok(false),
            }
        }
        Ok(is_inside)
    }

    /// The least distance between points of the shapes.
    pub(super) fn distance(&self, other: &Self, budget: &Budget) -> Result<Option<f64>, EvalError> {
        if self.intersects(other, budget)? {
            return Ok(Some(0.0));
        }
        self.spend_pairs(other, budget)?;
        let nearest = self.pairs(other).map(|(p, edge)| S::estimate(p, edge)).reduce(f64::min);
        let Some(nearest) = nearest else { return Ok(None) };
        // Only candidates for the least distance are measured.
        let mut least: Option<f64> = None;
        for (p, edge) in self.pairs(other) {
            if S::estimate(p, edge) <= nearest * 1.02 {
                budget.spend(MEASURING_COST)?;
                let distance = S::distance(p, edge);
                least = Some(least.map_or(distance, |least| least.min(distance)));
            }
        }
        Ok(least)
    }

    /// Every point of one shape with every edge of the other. Edges that do not meet are nearest at
    /// an end of one of them.
    fn pairs<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = (S::Point, Edge<S>)> {
        let here = self.vertices().flat_map(|p| other.targets().map(move |edge| (p, edge)));
        let there = other.vertices().flat_map(|p| self.targets().map(move |edge| (p, edge)));
        here.chain(there)
    }

    /// The area of its polygons.
    pub(super) fn area(&self, budget: &Budget) -> Result<f64, EvalError> {
        budget.spend(self.size.saturating_mul(MEASURING_COST))?;
        Ok(self.polygons.iter().map(Polygon::area).sum())
    }
}

/// Steps to pay for one exact distance.
const MEASURING_COST: u64 = 64;

fn is_closed<S: Space>(line: &[S::Point]) -> bool {
    line.first().zip(line.last()).is_some_and(|(a, b)| S::is_same(*a, *b))
}

/// A point within each section of an edge; each section lies wholly inside, outside or on the
/// boundary of a shape.
fn section_points<S: Space>(
    edge: Edge<S>,
    shape: &Shape<S>,
    budget: &Budget,
) -> Result<Vec<S::Point>, EvalError> {
    budget.spend(shape.size)?;
    let mut cuts = vec![0.0, 1.0];
    shape.edges().for_each(|other| edge.cuts(other, &mut cuts));
    cuts.sort_unstable_by(f64::total_cmp);
    cuts.dedup_by(|later, earlier| *later - *earlier < 1e-12);
    // Each section is located, which is a pass over the shape.
    budget.spend(shape.size.saturating_mul(cuts.len() as u64).saturating_mul(2))?;
    let middle = |pair: &[f64]| match pair {
        [from, to] => Some(S::at(edge.a, edge.b, f64::midpoint(*from, *to))),
        _ => None,
    };
    Ok(cuts.windows(2).filter_map(middle).collect())
}
