//! Stages that only count, cut or choose, and those that compute fields.

use std::sync::Arc;

use model::{Object, Value};
use query::document::pipeline::{AddFields, Stage, Unwind};
use query::document::types::to_f64;
use query::document::values::{printed, type_name};
use query::document::{Expression, Failure};

use super::Compiler;
use crate::mongo::expression::field_path_names;
use crate::mongo::field_names::path_parts;
use crate::mongo::integers::integer;
use crate::mongo::projection::{self, ProjectionOptions, Rules};

pub(super) fn limit(spec: &Value) -> Result<Stage, Failure> {
    let limit = integer("$limit", spec).and_then(|n| match n < 0 {
        true => Err(format!("Expected a non-negative number in: $limit: {}", printed(Some(spec)))),
        false => Ok(n),
    });
    let limit = limit.map_err(|reason| {
        Failure::new(5107201, format!("invalid argument to $limit stage: {reason}"))
    })?;
    match u64::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(Stage::Limit(limit)),
        _ => Err(Failure::new(15958, "the limit must be positive")),
    }
}

pub(super) fn skip(spec: &Value) -> Result<Stage, Failure> {
    let skip = integer("$skip", spec).and_then(|n| {
        u64::try_from(n).map_err(|_| {
            format!("Expected a non-negative number in: $skip: {}", printed(Some(spec)))
        })
    });
    skip.map(Stage::Skip).map_err(|reason| {
        Failure::new(5107200, format!("invalid argument to $skip stage: {reason}"))
    })
}

pub(super) fn count(spec: &Value) -> Result<Stage, Failure> {
    let failure = |code, text| Err(Failure::new(code, format!("the count field {text}")));
    match spec.as_str() {
        None => failure(40156, "must be a non-empty string"),
        Some("") => failure(40157, "must be a non-empty string"),
        Some(name) if name.starts_with('$') => failure(40158, "cannot be a $-prefixed path"),
        Some(name) if name.contains('\0') => failure(40159, "cannot contain a null byte"),
        Some(name) if name.contains('.') => failure(40160, "cannot contain '.'"),
        Some(name) => Ok(Stage::Count(name.to_owned())),
    }
}

pub(super) fn sample(spec: &Value) -> Result<Stage, Failure> {
    let fields = spec
        .as_object()
        .ok_or_else(|| Failure::new(28745, "the $sample stage specification must be an object"))?;
    let mut size = None;
    for (name, value) in fields.iter() {
        if name != "size" {
            return Err(Failure::new(28748, format!("unrecognized option to $sample: {name}")));
        }
        let number = to_f64(value)
            .ok_or_else(|| Failure::new(28746, "size argument to $sample must be a number"))?;
        let whole = crate::mongo::integers::coerced(value).unwrap_or(0);
        size =
            Some(u64::try_from(whole).ok().filter(|_| number >= 0.0).ok_or_else(|| {
                Failure::new(28747, "size argument to $sample must not be negative")
            })?);
    }
    let size = size.ok_or_else(|| Failure::new(28749, "$sample stage must specify a size"))?;
    Ok(Stage::Sample(size))
}

pub(super) fn unwind(spec: &Value) -> Result<Stage, Failure> {
    let (mut path, mut index, mut keeps_empty) = (None, None, false);
    match (spec.as_str(), spec.as_object()) {
        (Some(text), _) => path = Some(text),
        (None, Some(fields)) => {
            for (name, value) in fields.iter() {
                match name {
                    "path" => path = Some(unwind_path(value)?),
                    "includeArrayIndex" => index = Some(unwind_index(value)?),
                    "preserveNullAndEmptyArrays" => {
                        keeps_empty = value.as_bool().ok_or_else(|| {
                            let given = type_name(Some(value));
                            let message = format!(
                                "expected a boolean for the preserveNullAndEmptyArrays option to \
                                 $unwind stage, got {given}"
                            );
                            Failure::new(28809, message)
                        })?;
                    }
                    _ => {
                        let message = format!("unrecognized option to $unwind stage: {name}");
                        return Err(Failure::new(28811, message));
                    }
                }
            }
        }
        (None, None) => {
            let given = type_name(Some(spec));
            let message = format!(
                "expected either a string or an object as specification for $unwind stage, got \
                 {given}"
            );
            return Err(Failure::new(15981, message));
        }
    }
    let path = path
        .filter(|path| !path.is_empty())
        .ok_or_else(|| Failure::new(28812, "no path specified to $unwind stage"))?;
    let names = path.strip_prefix('$').ok_or_else(|| {
        let message = format!("path option to $unwind stage should be prefixed with a '$': {path}");
        Failure::new(28818, message)
    })?;
    Ok(Stage::Unwind(Arc::new(Unwind { path: field_path_names(names, "")?, index, keeps_empty })))
}

fn unwind_path(value: &Value) -> Result<&str, Failure> {
    value.as_str().ok_or_else(|| {
        let given = type_name(Some(value));
        let message = format!("expected a string as the path for $unwind stage, got {given}");
        Failure::new(28808, message)
    })
}

fn unwind_index(value: &Value) -> Result<Vec<String>, Failure> {
    let Some(path) = value.as_str().filter(|path| !path.is_empty()) else {
        let given = type_name(Some(value));
        let message = format!(
            "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got \
             {given}"
        );
        return Err(Failure::new(28810, message));
    };
    if path.starts_with('$') {
        let message = format!(
            "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {path}"
        );
        return Err(Failure::new(28822, message));
    }
    field_path_names(path, "")
}

impl Compiler<'_> {
    pub(super) fn project(&self, spec: &Value) -> Result<Stage, Failure> {
        let fields = spec
            .as_object()
            .ok_or_else(|| Failure::new(15969, "$project specification must be an object"))?;
        self.projection("$project", fields)
    }

    fn projection(&self, stage: &str, fields: &Object) -> Result<Stage, Failure> {
        let options = ProjectionOptions { rules: Rules::Aggregate, filter: self.filter_options() };
        let projection = projection::compile(fields, &options)
            .map_err(|failure| failure.within(&format!("Invalid {stage}")))?;
        Ok(Stage::Project(Arc::new(projection)))
    }

    /// A projection that drops fields.
    pub(super) fn unset(&self, spec: &Value) -> Result<Stage, Failure> {
        let paths = match (spec.as_str(), spec.as_array()) {
            (Some(_), _) => std::slice::from_ref(spec),
            (None, Some([])) => {
                let message =
                    "$unset specification must be a string or an array with at least one field";
                return Err(Failure::new(31119, message));
            }
            (None, Some(paths)) => paths,
            (None, None) => {
                let message = "$unset specification must be a string or an array";
                return Err(Failure::new(31002, message));
            }
        };
        let mut fields = Vec::with_capacity(paths.len());
        for path in paths {
            let path = path.as_str().ok_or_else(|| {
                let message = "$unset specification must be a string or an array containing only \
                               string values";
                Failure::new(31120, message)
            })?;
            let is_repeated = fields.iter().any(|(other, _)| other == path);
            if is_repeated {
                let message = format!("Invalid $unset :: caused by :: Path collision at {path}");
                return Err(Failure::new(31250, message));
            }
            fields.push((path.to_owned(), Value::Int32(0)));
        }
        self.projection("$unset", &fields.into_iter().collect())
    }

    pub(super) fn add_fields(&self, stage: &str, spec: &Value) -> Result<Stage, Failure> {
        let fields = spec.as_object().ok_or_else(|| {
            let given = type_name(Some(spec));
            let message = format!("{stage} specification stage must be an object, got {given}");
            Failure::new(40272, message)
        })?;
        let mut added = Vec::new();
        self.added_fields(fields, &mut Vec::new(), &mut added)
            .and_then(|()| check_collisions(&added, spec))
            .map_err(|failure| failure.within(&format!("Invalid {stage}")))?;
        Ok(Stage::AddFields(Arc::new(AddFields::new(added))))
    }

    /// The fields of an object, those of objects within it by longer paths.
    fn added_fields(
        &self,
        fields: &Object,
        prefix: &mut Vec<String>,
        added: &mut Vec<(Vec<String>, Expression)>,
    ) -> Result<(), Failure> {
        for (name, value) in fields.iter() {
            if !prefix.is_empty() && name.contains('.') {
                let message = format!("cannot use dotted field name '{name}' in a sub object");
                return Err(Failure::new(40183, message));
            }
            let length = prefix.len();
            prefix.extend(path_parts(name)?.into_iter().map(str::to_owned));
            match value.as_object() {
                Some(inner) if inner.is_empty() => {
                    let path = prefix.join(".");
                    let message = format!(
                        "an empty object is not a valid value. Found empty object at path {path}"
                    );
                    return Err(Failure::new(40180, message));
                }
                Some(inner) if !super::super::expression::is_operator(inner) => {
                    self.added_fields(inner, prefix, added)?;
                }
                Some(inner) if inner.len() != 1 => {
                    let (count, shown) = (inner.len(), printed(Some(value)));
                    let message = format!(
                        "an expression specification must contain exactly one field, the name of \
                         the expression. Found {count} fields in {shown}"
                    );
                    return Err(Failure::new(40181, message));
                }
                _ => added.push((prefix.clone(), self.expression(value)?)),
            }
            prefix.truncate(length);
        }
        Ok(())
    }

    pub(super) fn replace_root(&self, spec: &Value) -> Result<Stage, Failure> {
        let Some(fields) = spec.as_object() else {
            let given = type_name(Some(spec));
            let message =
                format!("expected an object as specification for $replaceRoot stage, got {given}");
            return Err(Failure::new(40229, message));
        };
        if let Some((name, _)) = fields.iter().find(|(name, _)| *name != "newRoot") {
            let message = format!(
                "unrecognized option to $replaceRoot stage: {name}, only valid option is 'newRoot'."
            );
            return Err(Failure::new(40230, message));
        }
        let root = fields.get("newRoot").ok_or_else(|| {
            Failure::new(40231, "no newRoot specified for the $replaceRoot stage")
        })?;
        Ok(Stage::ReplaceRoot(Arc::new(self.expression(root)?)))
    }
}

/// Checks that no path is the same as another or within it.
fn check_collisions(added: &[(Vec<String>, Expression)], spec: &Value) -> Result<(), Failure> {
    let mut paths: Vec<&[String]> = added.iter().map(|(path, _)| path.as_slice()).collect();
    paths.sort_unstable();
    for pair in paths.windows(2) {
        if let [shorter, longer] = pair
            && longer.starts_with(shorter)
        {
            let (a, b) = (longer.join("."), shorter.join("."));
            let shown = printed(Some(spec));
            let message = format!(
                "specification contains two conflicting paths. Cannot specify both '{a}' and \
                 '{b}': {shown}"
            );
            return Err(Failure::new(40176, message));
        }
    }
    Ok(())
}
