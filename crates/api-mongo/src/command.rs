//! A command: its name, its database, its fields, and how they are read.

use bytes::Bytes;
use model::bson::{self, BsonError, BsonLimits, RawDocument, RawValue};
use model::decimal::Decimal;
use model::limits::BSON_DEPTH_MAX;
use model::{Object, Value};

use crate::MongoError;
use crate::errors::codes as code;
use crate::wire::{Form, Message, SEQUENCE_DOCUMENTS_MAX};

/// Largest document of a client.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Room that a command has beside such a document.
const COMMAND_BYTES_MORE: usize = 16 << 10;
/// Longest name of a database.
const DATABASE_NAME_BYTES_MAX: usize = 63;

/// The field whose elements stay bytes.
const DOCUMENTS: &str = "documents";
/// The command that has it.
const INSERT: &str = "insert";

/// A command with its arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    /// Its name, as it was sent.
    pub name: String,
    /// The database it is for.
    pub database: String,
    /// All fields; the first one has the name. Empty values of optional fields are left out.
    pub fields: Object,
    /// The documents to insert, as they were sent.
    pub documents: Documents,
    /// How the client wants to be answered.
    pub(crate) manner: Manner,
}

/// Documents that a client sent. The bytes of each are well-formed; its size is not checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    /// The documents, of which only so many are kept as one command may have.
    pub kept: Vec<Bytes>,
    /// How many were sent.
    pub count: usize,
}

/// How a client wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Not at all.
    pub(crate) is_unacknowledged: bool,
    /// Several times, if there is more to tell.
    pub(crate) allows_exhaust: bool,
    /// In the form of replies to queries.
    pub(crate) is_query: bool,
}

impl Command {
    /// Reads the command in a message.
    pub fn read(message: &Message) -> Result<Self, MongoError> {
        let manner = match message.form {
            Form::Msg { is_unacknowledged, allows_exhaust } => {
                Manner { is_unacknowledged, allows_exhaust, is_query: false }
            }
            Form::Query => Manner { is_query: true, ..Manner::default() },
            Form::OldQuery => {
                return Err(MongoError::new(
                    code::UNSUPPORTED_OP_QUERY_COMMAND,
                    "Unsupported OP_QUERY command. The client driver may require an upgrade.",
                ));
            }
        };
        let limits = BsonLimits {
            bytes_max: DOCUMENT_BYTES_MAX + COMMAND_BYTES_MORE,
            depth_max: BSON_DEPTH_MAX,
        };
        let raw = bson::check(&message.body, limits).map_err(|error| malformed(&error))?;
        // Old clients put the command into a query with options.
        let raw = match raw.get("$query").or_else(|| raw.get("query")) {
            Some(query) if manner.is_query && is_wrapper(raw) => query.as_document().unwrap_or(raw),
            Some(_) | None => raw,
        };
        let mut command = Self::of_raw(raw, &message.body, manner)?;
        for sequence in &message.sequences {
            command.add_sequence(sequence)?;
        }
        command.database = match (&message.database, command.fields.get("$db")) {
            (Some(database), _) => database.clone(),
            (None, Some(Value::String(database))) => database.clone(),
            (None, Some(_)) => return Err(command.wrong_type("$db", "string")),
            (None, None) => {
                return Err(MongoError::new(
                    code::MISSING_FIELD,
                    "BSON field 'OP_MSG.$db' is missing but a required field",
                ));
            }
        };
        check_database_name(&command.database)?;
        Ok(command)
    }

    /// A command of these fields, of which the first has its name.
    pub fn new(database: impl Into<String>, fields: Object) -> Self {
        let name = fields.iter().next().map(|(name, _)| name.to_owned()).unwrap_or_default();
        let documents = Documents::default();
        Self { name, database: database.into(), fields, documents, manner: Manner::default() }
    }

    fn of_raw(raw: RawDocument<'_>, body: &Bytes, manner: Manner) -> Result<Self, MongoError> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        let mut documents = None;
        for field in raw.iter() {
            let name = field.name();
            let is_first_inserts = || fields.first().is_some_and(|(first, _)| first == INSERT);
            if name == DOCUMENTS
                && is_first_inserts()
                && let Some(elements) = field.value().as_array()
            {
                if documents.is_some() {
                    return Err(duplicate_field(INSERT, name));
                }
                documents = Some(kept_documents(elements, body)?);
                continue;
            }
            let value = field.value().to_value().map_err(|error| malformed(&error))?;
            fields.push((name.to_owned(), value));
        }
        let name = fields.first().map(|(name, _)| name.clone()).unwrap_or_default();
        let count = fields.len();
        let (fields, _) = Object::from_fields(fields);
        if fields.len() < count {
            let names = raw.iter().map(|field| field.name()).collect::<Vec<_>>();
            let mut repeated = names
                .iter()
                .enumerate()
                .filter(|(at, name)| names.get(..*at).is_some_and(|before| before.contains(name)));
            let repeated = repeated.next().map_or("", |(_, name)| name);
            return Err(duplicate_field(&name, repeated));
        }
        let documents = documents.unwrap_or_default();
        Ok(Self { name, database: String::new(), fields, documents, manner })
    }

    fn add_sequence(&mut self, sequence: &crate::wire::Sequence) -> Result<(), MongoError> {
        let name = sequence.identifier.as_str();
        let limits = BsonLimits { bytes_max: usize::MAX, depth_max: BSON_DEPTH_MAX };
        for document in &sequence.documents {
            bson::check(document, limits).map_err(|error| malformed(&error))?;
        }
        if name == DOCUMENTS && self.name == INSERT {
            if self.documents.count > 0 {
                return Err(duplicate_field(INSERT, name));
            }
            let (kept, count) = (sequence.documents.clone(), sequence.count);
            self.documents = Documents { kept, count };
            return Ok(());
        }
        let elements = sequence.documents.iter().map(|document| bson::read(document));
        let elements = elements.map(|read| read.map(Value::Object)).collect::<Result<Vec<_>, _>>();
        let mut elements = elements.map_err(|error| malformed(&error))?;
        // A command that may have fewer elements counts them, and refuses this many.
        if sequence.count > SEQUENCE_DOCUMENTS_MAX {
            elements.push(Value::Null);
        }
        match self.fields.get(name) {
            Some(_) => Err(duplicate_field(&self.name, name)),
            None => {
                self.fields.push_unique(name.to_owned(), Value::Array(elements));
                Ok(())
            }
        }
    }

    /// The value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// The value of the field that has the command's name.
    pub(crate) fn target(&self) -> &Value {
        self.fields.iter().next().map_or(&Value::Null, |(_, value)| value)
    }

    /// The collection that the command is for.
    pub(crate) fn collection(&self) -> Result<&str, MongoError> {
        let name = self.target().as_str().ok_or_else(|| {
            MongoError::new(
                code::INVALID_NAMESPACE,
                format!("collection name has invalid type {}", type_name(self.target())),
            )
        })?;
        check_collection_name(&self.database, name)?;
        Ok(name)
    }

    /// The names of database and collection with a dot between them.
    pub(crate) fn namespace(&self) -> Result<String, MongoError> {
        Ok(format!("{}.{}", self.database, self.collection()?))
    }

    /// Whether a flag is set. Its type was checked.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(is_true)
    }

    /// A text. Its type was checked.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// A document. Its type was checked.
    pub(crate) fn object(&self, name: &str) -> Option<&Object> {
        self.get(name).and_then(Value::as_object)
    }

    /// An array. Its type was checked.
    pub(crate) fn array(&self, name: &str) -> Option<&[Value]> {
        self.get(name).and_then(Value::as_array)
    }

    /// A whole number of any numeric type.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, MongoError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        whole_number(value).map(Some).ok_or_else(|| {
            MongoError::new(
                code::FAILED_TO_PARSE,
                format!("Expected an integer, but found '{}.{name}' of another kind", self.name),
            )
        })
    }

    /// A whole number that is not negative.
    pub(crate) fn natural(&self, name: &str) -> Result<Option<u64>, MongoError> {
        let Some(number) = self.integer(name)? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| {
            MongoError::new(
                51024,
                format!("BSON field '{name}' value must be >= 0, actual value '{number}'"),
            )
        })
    }

    /// The failure that a field has another type than it must.
    pub(crate) fn wrong_type(&self, field: &str, expected: &str) -> MongoError {
        let found = self.get(field).map_or("missing", type_name);
        wrong_type(&format!("{}.{field}", self.name), found, expected)
    }
}

/// Whether a document has only what old clients put around a command.
fn is_wrapper(raw: RawDocument<'_>) -> bool {
    raw.iter().all(|field| field.name().starts_with('$') || field.name() == "query")
}

fn kept_documents(elements: RawDocument<'_>, body: &Bytes) -> Result<Documents, MongoError> {
    let mut documents = Documents::default();
    for element in elements.iter() {
        documents.count += 1;
        if documents.count <= SEQUENCE_DOCUMENTS_MAX {
            let document = element.value().as_document().ok_or_else(|| {
                let at = format!("insert.documents.{}", element.name());
                wrong_type(&at, raw_type_name(element.value()), "object")
            })?;
            documents.kept.push(body.slice_ref(document.as_bytes()));
        }
    }
    Ok(documents)
}

/// The failure that bytes are no document.
fn malformed(error: &BsonError) -> MongoError {
    match error {
        BsonError::TooLong { .. } => {
            MongoError::new(code::BSON_OBJECT_TOO_LARGE, format!("BSONObj size: {error}"))
        }
        BsonError::TooDeep { .. } => {
            MongoError::new(code::OVERFLOW, format!("cannot nest deeper: {error}"))
        }
        BsonError::TooShort { .. }
        | BsonError::BytesAfterEnd { .. }
        | BsonError::WrongLength { .. }
        | BsonError::NoTerminator { .. }
        | BsonError::UnknownType { .. }
        | BsonError::NotUtf8 { .. }
        | BsonError::NotBoolean { .. }
        | BsonError::ZeroByteInName => {
            MongoError::new(code::INVALID_BSON, format!("invalid BSON: {error}"))
        }
    }
}

fn duplicate_field(command: &str, name: &str) -> MongoError {
    MongoError::new(
        code::DUPLICATE_FIELD,
        format!("BSON field '{command}.{name}' is a duplicate field"),
    )
}

pub(crate) fn wrong_type(field: &str, found: &str, expected: &str) -> MongoError {
    let expected = match expected.contains(',') {
        true => format!("expected types '[{expected}]'"),
        false => format!("expected type '{expected}'"),
    };
    MongoError::new(
        code::TYPE_MISMATCH,
        format!("BSON field '{field}' is the wrong type '{found}', {expected}"),
    )
}

/// The name of a value's type in messages and in `$type`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    bson::ElementType::of(value).alias()
}

fn raw_type_name(value: RawValue<'_>) -> &'static str {
    value.element_type().alias()
}

/// A number that is whole, of any numeric type.
pub(crate) fn whole_number(value: &Value) -> Option<i64> {
    let Value::Decimal128(bytes) = value else { return value.as_i64() };
    match Decimal::from_bson(bytes) {
        Decimal::Finite(finite) => finite.to_i64(),
        Decimal::NaN | Decimal::Infinity { .. } => None,
    }
}

/// Whether a value counts as true: a number that is not 0, a boolean that is true.
pub(crate) fn is_true(value: &Value) -> bool {
    query::document::types::is_truthy(value)
}

fn check_database_name(name: &str) -> Result<(), MongoError> {
    let is_bad = |byte: u8| matches!(byte, 0 | b'/' | b'\\' | b'.' | b' ' | b'"' | b'$');
    // `$external` is where users of other directories are looked up.
    let is_fine = name == "$external"
        || (!name.is_empty() && name.len() <= DATABASE_NAME_BYTES_MAX && !name.bytes().any(is_bad));
    match is_fine {
        true => Ok(()),
        false => Err(MongoError::new(
            code::INVALID_NAMESPACE,
            format!("Invalid database name: '{name}'"),
        )),
    }
}

pub(crate) fn check_collection_name(database: &str, name: &str) -> Result<(), MongoError> {
    /// Longest name of a namespace.
    const NAMESPACE_BYTES_MAX: usize = 255;
    let namespace = || format!("{database}.{name}");
    let is_dotted_at_end = name.starts_with('.') || name.ends_with('.');
    let is_fine = !name.is_empty()
        && !is_dotted_at_end
        && !name.contains('\0')
        && (!name.contains('$') || name.starts_with("$cmd"))
        && database.len() + name.len() < NAMESPACE_BYTES_MAX;
    match is_fine {
        true => Ok(()),
        false => Err(MongoError::new(
            code::INVALID_NAMESPACE,
            format!("Invalid namespace specified '{}'", namespace()),
        )),
    }
}
