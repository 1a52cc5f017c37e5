//! Spatial functions on GeoJSON: one table for containers with coordinates on the globe, one for
//! those with coordinates on a plane.
//!
//! An invalid geometry makes a function *undefined*, except for the functions that test validity.

mod cells;
mod geojson;
mod globe;
mod plane;
mod shape;

use std::sync::Arc;

use model::{Object, Value};

use super::{Args, Function, Outcome, Prepare, Prepared, exactly};
use crate::Budget;
use crate::eval::from_f64;

use geojson::Geometry;
use globe::Globe;
use plane::Plane;
use shape::{Shape, Space};

pub use cells::CellId;

/// How the coordinates of a container are interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Geospatial {
    /// Longitude and latitude on the globe; lengths are metres.
    #[default]
    Geography,
    /// Any numbers, on a plane.
    Geometry,
}

/// A geometry that was read ahead.
#[derive(Clone, Debug)]
pub struct PreparedShape(Arc<AnyShape>);

#[derive(Debug)]
enum AnyShape {
    Globe(Shape<Globe>),
    Plane(Shape<Plane>),
}

impl PartialEq for PreparedShape {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

pub(super) static GEOGRAPHY: &[Function] = &table::<Globe>();
pub(super) static GEOMETRY: &[Function] = &table::<Plane>();

const fn table<S: GeoSpace>() -> [Function; 6] {
    [
        Function::metered("ST_AREA", exactly(1), area::<S>),
        of_two("ST_DISTANCE", distance::<S>, prepare::<S>, S::SPACE),
        of_two("ST_INTERSECTS", intersects::<S>, prepare::<S>, S::SPACE),
        Function::metered("ST_ISVALID", exactly(1), is_valid::<S>),
        Function::metered("ST_ISVALIDDETAILED", exactly(1), is_valid_detailed::<S>),
        of_two("ST_WITHIN", is_within::<S>, prepare::<S>, S::SPACE),
    ]
}

const fn of_two(
    name: &'static str,
    body: fn(&Args<'_>, &Budget) -> Outcome,
    prepare: Prepare,
    space: Geospatial,
) -> Function {
    Function::metered(name, exactly(2), body).prepared(prepare).in_space(space)
}

/// A space whose shapes can be read and stored.
trait GeoSpace: Space + Sized {
    const SPACE: Geospatial;

    /// What is wrong with the coordinates, if anything.
    fn coordinate_error(geometry: &Geometry) -> Option<String>;

    fn into_any(shape: Shape<Self>) -> AnyShape;

    fn from_any(shape: &AnyShape) -> Option<&Shape<Self>>;
}

impl GeoSpace for Globe {
    const SPACE: Geospatial = Geospatial::Geography;

    fn coordinate_error(geometry: &Geometry) -> Option<String> {
        let is_off = |degrees: f64, most: f64| !(-most..=most).contains(&degrees);
        if geometry.positions().any(|p| is_off(p.y, 90.0)) {
            return Some("Latitude values must be between -90 and 90 degrees.".to_owned());
        }
        if geometry.positions().any(|p| is_off(p.x, 180.0)) {
            return Some("Longitude values must be between -180 and 180 degrees.".to_owned());
        }
        None
    }

    fn into_any(shape: Shape<Self>) -> AnyShape {
        AnyShape::Globe(shape)
    }

    fn from_any(shape: &AnyShape) -> Option<&Shape<Self>> {
        match shape {
            AnyShape::Globe(shape) => Some(shape),
            AnyShape::Plane(_) => None,
        }
    }
}

impl GeoSpace for Plane {
    const SPACE: Geospatial = Geospatial::Geometry;

    fn coordinate_error(_: &Geometry) -> Option<String> {
        None
    }

    fn into_any(shape: Shape<Self>) -> AnyShape {
        AnyShape::Plane(shape)
    }

    fn from_any(shape: &AnyShape) -> Option<&Shape<Self>> {
        match shape {
            AnyShape::Plane(shape) => Some(shape),
            AnyShape::Globe(_) => None,
        }
    }
}

fn read<S: GeoSpace>(value: &Value) -> Result<Geometry, String> {
    let geometry = Geometry::read(value)?;
    match S::coordinate_error(&geometry) {
        None => Ok(geometry),
        Some(coordinate_error) => Err(coordinate_error),
    }
}

/// The shape of an argument, paying for the reading; `None` if it is not a geometry.
fn shape<S: GeoSpace>(
    args: &Args<'_>,
    at: usize,
    budget: &Budget,
) -> Result<Option<Shape<S>>, crate::EvalError> {
    let Some(value) = args.get(at) else { return Ok(None) };
    budget.spend_copy_of(value)?;
    Ok(read::<S>(value).ok().map(|geometry| Shape::new(&geometry)))
}

/// Prepares the second argument, which is usually the same for all rows.
#[expect(clippy::unnecessary_wraps, reason = "the type of all preparations")]
fn prepare<S: GeoSpace>(args: &Args<'_>) -> Result<Option<Prepared>, String> {
    let shape = args.get(1).and_then(|value| read::<S>(value).ok());
    let keep = |geometry| PreparedShape(Arc::new(S::into_any(Shape::new(&geometry))));
    Ok(shape.map(|geometry| Prepared::Shape(keep(geometry))))
}

/// Applies a function to both arguments as shapes.
fn with_both<S: GeoSpace, T>(
    args: &Args<'_>,
    budget: &Budget,
    function: impl Fn(&Shape<S>, &Shape<S>) -> Result<T, crate::EvalError>,
) -> Result<Option<T>, crate::EvalError> {
    let Some(first) = shape::<S>(args, 0, budget)? else { return Ok(None) };
    if let Some(Prepared::Shape(PreparedShape(second))) = args.prepared()
        && let Some(second) = S::from_any(second)
    {
        return function(&first, second).map(Some);
    }
    match shape::<S>(args, 1, budget)? {
        Some(second) => function(&first, &second).map(Some),
        None => Ok(None),
    }
}

fn area<S: GeoSpace>(args: &Args<'_>, budget: &Budget) -> Outcome {
    let shape = shape::<S>(args, 0, budget)?;
    shape.map(|shape| shape.area(budget).map(from_f64)).transpose()
}

fn distance<S: GeoSpace>(args: &Args<'_>, budget: &Budget) -> Outcome {
    let distance = with_both::<S, _>(args, budget, |a, b| a.distance(b, budget))?;
    Ok(distance.flatten().map(from_f64))
}

fn intersects<S: GeoSpace>(args: &Args<'_>, budget: &Budget) -> Outcome {
    Ok(with_both::<S, _>(args, budget, |a, b| a.intersects(b, budget))?.map(Value::Bool))
}

fn is_within<S: GeoSpace>(args: &Args<'_>, budget: &Budget) -> Outcome {
    Ok(with_both::<S, _>(args, budget, |a, b| a.is_within(b, budget))?.map(Value::Bool))
}

fn is_valid<S: GeoSpace>(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some(value) = args.get(0) else { return Ok(None) };
    budget.spend_copy_of(value)?;
    Ok(Some(Value::Bool(read::<S>(value).is_ok())))
}

fn is_valid_detailed<S: GeoSpace>(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some(value) = args.get(0) else { return Ok(None) };
    budget.spend_copy_of(value)?;
    let mut detail = Object::with_capacity(2);
    match read::<S>(value) {
        Ok(_) => detail.insert("valid", Value::Bool(true)),
        Err(reason) => {
            detail.insert("valid", Value::Bool(false));
            detail.insert("reason", Value::String(reason))
        }
    };
    Ok(Some(Value::Object(detail)))
}

#[cfg(test)]
mod tests;
