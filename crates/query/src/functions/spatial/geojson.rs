//! GeoJSON geometries: converts values to coordinates, or says why a geometry is not valid.

use model::Value;

/// A position as given: east and north, or longitude and latitude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub x: f64,
    pub y: f64,
}

/// A geometry as given. Rings end where they begin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Geometry {
    pub points: Vec<Position>,
    pub lines: Vec<Vec<Position>>,
    pub polygons: Vec<Vec<Vec<Position>>>,
}

impl Geometry {
    const NOTHING: Self = Self { points: Vec::new(), lines: Vec::new(), polygons: Vec::new() };

    fn of_points(points: Vec<Position>) -> Self {
        Self { points, ..Self::NOTHING }
    }

    fn of_lines(lines: Vec<Vec<Position>>) -> Self {
        Self { lines, ..Self::NOTHING }
    }

    fn of_polygons(polygons: Vec<Vec<Vec<Position>>>) -> Self {
        Self { polygons, ..Self::NOTHING }
    }

    /// Reads a geometry; the error says what is wrong with it. Does not check whether coordinates
    /// lie on the globe.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let Some(kind) = value.field("type").and_then(Value::as_str) else {
            return Err("The input is not a GeoJSON object: it has no 'type'.".to_owned());
        };
        let Some(coordinates) = value.field("coordinates") else {
            return Err(format!("The {kind} input is not valid because it has no coordinates."));
        };
        let malformed = || {
            format!(
                "The {kind} input is not valid because its coordinates do not have the form that \
                 the type asks for."
            )
        };
        match kind {
            "Point" => position(coordinates).map(|point| Self::of_points(vec![point])),
            "MultiPoint" => positions(coordinates).map(Self::of_points),
            "LineString" => positions(coordinates).map(|line| Self::of_lines(vec![line])),
            "MultiLineString" => list(coordinates, positions).map(Self::of_lines),
            "Polygon" => list(coordinates, positions).map(|rings| Self::of_polygons(vec![rings])),
            "MultiPolygon" => {
                list(coordinates, |rings| list(rings, positions)).map(Self::of_polygons)
            }
            other => return Err(format!("The geometry type '{other}' is not supported.")),
        }
        .ok_or_else(malformed)
        .and_then(|geometry| geometry.checked(kind))
    }

    fn checked(self, kind: &str) -> Result<Self, String> {
        if self.lines.iter().any(|line| !has_distinct(line, 2)) {
            return Err(format!(
                "The {kind} input is not valid because it does not have enough distinct points. \
                 A LineString must have at least two distinct points."
            ));
        }
        for rings in &self.polygons {
            if rings.is_empty() {
                return Err(format!("The {kind} input is not valid because it has no rings."));
            }
            for (number, ring) in rings.iter().enumerate().map(|(at, ring)| (at + 1, ring)) {
                check_ring(kind, number, ring)?;
            }
        }
        Ok(self)
    }

    /// Every position in it.
    pub(super) fn positions(&self) -> impl Iterator<Item = Position> {
        let points = self.points.iter();
        points
            .chain(self.lines.iter().flatten())
            .chain(self.polygons.iter().flatten().flatten())
            .copied()
    }
}

fn check_ring(kind: &str, number: usize, ring: &[Position]) -> Result<(), String> {
    if ring.first() != ring.last() {
        return Err(format!(
            "The {kind} input is not valid because the start and end points of the ring number \
             {number} are not the same. Each ring of a polygon must have the same start and end \
             points."
        ));
    }
    match ring.len() >= 4 && has_distinct(ring, 3) {
        true => Ok(()),
        false => Err(format!(
            "The {kind} input is not valid because the ring number {number} does not have enough \
             distinct points. Each ring of a polygon must contain at least three distinct points."
        )),
    }
}

/// Whether there are at least `wanted` different positions.
fn has_distinct(positions: &[Position], wanted: usize) -> bool {
    let mut seen: Vec<Position> = Vec::with_capacity(wanted);
    for position in positions {
        if seen.len() < wanted && !seen.contains(position) {
            seen.push(*position);
        }
    }
    seen.len() >= wanted
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn positions(value: &Value) -> Option<Vec<Position>> {
    list(value, position)
}

/// Two numbers; further ones, such as a height, are ignored.
fn position(value: &Value) -> Option<Position> {
    let [x, y, ..] = value.as_array()? else { return None };
    let (x, y) = (x.as_f64()?, y.as_f64()?);
    (x.is_finite() && y.is_finite()).then_some(Position { x, y })
}
