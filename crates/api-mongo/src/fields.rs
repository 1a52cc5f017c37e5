//! The fields of commands: which there are, of which types, and the check of a command against
//! them.

use model::{Object, Value};

use crate::MongoError;
use crate::command::{type_name, wrong_type};
use crate::errors::codes as code;

/// A field of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: &'static str,
    /// The types that its value may have.
    pub(crate) types: Types,
    /// Whether the command must have it.
    pub(crate) is_required: bool,
}

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u16);

impl Types {
    /// Any number.
    pub(crate) const NUMBER: Types = Types(1);
    /// A boolean, or a number that counts as one.
    pub(crate) const BOOL: Types = Types(1 << 1);
    /// A text.
    pub(crate) const STRING: Types = Types(1 << 2);
    /// A document.
    pub(crate) const OBJECT: Types = Types(1 << 3);
    /// An array.
    pub(crate) const ARRAY: Types = Types(1 << 4);
    /// Bytes.
    pub(crate) const BINARY: Types = Types(1 << 5);
    /// A timestamp of the server.
    pub(crate) const TIMESTAMP: Types = Types(1 << 6);
    /// Any value, null included.
    pub(crate) const ANY: Types = Types(u16::MAX);

    /// Those of both sets.
    pub(crate) const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    fn has(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    fn of(value: &Value) -> Types {
        match value {
            Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
                Types::NUMBER.or(Types::BOOL)
            }
            Value::Bool(_) => Types::BOOL,
            Value::String(_) => Types::STRING,
            Value::Object(_) => Types::OBJECT,
            Value::Array(_) => Types::ARRAY,
            Value::Binary { .. } | Value::Guid(_) => Types::BINARY,
            Value::Timestamp { .. } => Types::TIMESTAMP,
            Value::Null
            | Value::Undefined
            | Value::Date(_)
            | Value::ObjectId(_)
            | Value::Regex { .. }
            | Value::JavaScript { .. }
            | Value::Symbol(_)
            | Value::DbPointer { .. }
            | Value::MinKey
            | Value::MaxKey => Types(0),
        }
    }

    /// The names in messages.
    fn names(self) -> String {
        if self == Types::BOOL {
            return "bool, long, int, decimal, double".to_owned();
        }
        let names = [
            (Types::NUMBER, "long, int, decimal, double"),
            (Types::BOOL, "bool"),
            (Types::STRING, "string"),
            (Types::OBJECT, "object"),
            (Types::ARRAY, "array"),
            (Types::BINARY, "binData"),
            (Types::TIMESTAMP, "timestamp"),
        ];
        let names = names.iter().filter(|(types, _)| self.has(*types)).map(|(_, name)| *name);
        names.collect::<Vec<_>>().join(", ")
    }
}

/// A field that a command may have.
pub(crate) const fn field(name: &'static str, types: Types) -> Field {
    Field { name, types, is_required: false }
}

/// A field that a command must have.
pub(crate) const fn required(name: &'static str, types: Types) -> Field {
    Field { name, types, is_required: true }
}

/// Fields that every command may have.
pub(crate) static COMMON: &[Field] = &[
    field("$db", Types::STRING),
    field("lsid", Types::OBJECT),
    field("txnNumber", Types::NUMBER),
    field("autocommit", Types::BOOL),
    field("startTransaction", Types::BOOL),
    field("stmtId", Types::NUMBER),
    field("stmtIds", Types::ARRAY),
    field("recoveryToken", Types::OBJECT),
    field("readConcern", Types::OBJECT),
    field("writeConcern", Types::OBJECT),
    field("$readPreference", Types::OBJECT),
    field("$clusterTime", Types::OBJECT),
    field("$audit", Types::OBJECT),
    field("$client", Types::OBJECT),
    field("$configServerState", Types::OBJECT),
    field("$configTime", Types::TIMESTAMP),
    field("$topologyTime", Types::TIMESTAMP),
    field("$traceCtx", Types::OBJECT),
    field("$queryOptions", Types::OBJECT),
    field("comment", Types::ANY),
    field("maxTimeMS", Types::NUMBER),
    field("maxTimeMSOpOnly", Types::NUMBER),
    field("apiVersion", Types::STRING),
    field("apiStrict", Types::BOOL),
    field("apiDeprecationErrors", Types::BOOL),
    field("rawData", Types::BOOL),
    field("help", Types::BOOL),
];

/// Checks the fields of a command, of which the first is its name. Fields that are null are as if
/// they were not there, unless they may have any value, and are removed.
pub(crate) fn check(
    (command, own): (&str, &[Field]),
    has_documents: bool,
    fields: &mut Object,
) -> Result<(), MongoError> {
    let mut empty = Vec::new();
    for (name, value) in fields.iter().skip(1) {
        let mut known = own.iter().chain(COMMON).filter(|field| field.name == name);
        let Some(field) = known.next() else {
            return Err(MongoError::new(
                code::UNKNOWN_FIELD,
                format!("BSON field '{command}.{name}' is an unknown field."),
            ));
        };
        if field.types == Types::ANY {
            continue;
        }
        if matches!(value, Value::Null | Value::Undefined) {
            empty.push(name.to_owned());
            continue;
        }
        if !field.types.has(Types::of(value)) {
            let at = format!("{command}.{name}");
            return Err(wrong_type(&at, type_name(value), &field.types.names()));
        }
    }
    for name in empty {
        fields.remove(&name);
    }
    let is_missing = |field: &&Field| {
        field.is_required
            && fields.get(field.name).is_none()
            && !(has_documents && field.name == "documents")
    };
    match own.iter().find(is_missing) {
        None => Ok(()),
        Some(field) => Err(MongoError::new(
            code::MISSING_FIELD,
            format!("BSON field '{command}.{}' is missing but a required field", field.name),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::document;

    static FIND: &[Field] = &[
        field("filter", Types::OBJECT),
        field("limit", Types::NUMBER),
        field("singleBatch", Types::BOOL),
        required("x", Types::STRING.or(Types::OBJECT)),
    ];

    fn checked(mut fields: Object) -> Result<Object, (i32, String)> {
        check(("find", FIND), false, &mut fields)
            .map(|()| fields)
            .map_err(|error| (error.code(), error.message().to_owned()))
    }

    #[test]
    fn fields_are_those_of_the_table_and_of_their_types() {
        let fine = document! {
            "find" => "c", "limit" => 5.0, "singleBatch" => 1, "x" => "", "comment" => Value::Null,
        };
        assert_eq!(checked(fine.clone()), Ok(fine));
        let (number, text) = checked(document! { "find" => "c", "foo" => 1 }).unwrap_err();
        assert_eq!((number, text.as_str()), (40415, "BSON field 'find.foo' is an unknown field."));
        let (number, text) = checked(document! { "find" => "c", "limit" => "5" }).unwrap_err();
        assert_eq!(
            (number, text.as_str()),
            (
                14,
                "BSON field 'find.limit' is the wrong type 'string', expected types \
                 '[long, int, decimal, double]'"
            )
        );
        let (number, text) = checked(document! { "find" => "c", "filter" => 1 }).unwrap_err();
        assert_eq!(number, 14);
        assert!(text.ends_with("wrong type 'int', expected type 'object'"), "{text}");
        let (number, _) = checked(document! { "find" => "c" }).unwrap_err();
        assert_eq!(number, 40414);
        let empty = document! { "find" => "c", "limit" => Value::Null, "x" => "" };
        assert_eq!(checked(empty), Ok(document! { "find" => "c", "x" => "" }));
    }
}
