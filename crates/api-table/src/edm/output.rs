//! Entities in the form of responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lang::odata::Selection;
use model::edm::{DateDigits, EdmType, date_text, guid_text, write_f64};
use model::{Value, json};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Entity, etag_of};

/// How much of types and addresses a response includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// Nothing.
    None,
    /// Types that JSON can't express.
    Minimal,
    /// Everything.
    Full,
}

impl Metadata {
    /// Its word in media types.
    pub fn name(self) -> &'static str {
        match self {
            Metadata::None => "nometadata",
            Metadata::Minimal => "minimalmetadata",
            Metadata::Full => "fullmetadata",
        }
    }
}

/// Whether an entity stands alone or in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It is the whole response.
    Single,
    /// It is one of a list.
    Member,
}

/// How entities of a table are rendered.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// How much metadata is included.
    pub metadata: Metadata,
    /// Which properties are included.
    pub selection: &'a Selection,
    /// Scheme, host and, where it is in the path, account: without a trailing slash.
    pub service_url: &'a str,
    /// The account's name.
    pub account: &'a str,
    /// The table's name.
    pub table: &'a str,
}

/// Characters of a key that stay unescaped in an address.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl Output<'_> {
    /// The address of an entity below the service: `table(PartitionKey='p',RowKey='r')`.
    pub fn edit_link(table: &str, partition_key: &str, row_key: &str) -> String {
        let key = |key: &str| {
            let doubled = key.replace('\'', "''");
            utf8_percent_encode(&doubled, KEY).to_string()
        };
        format!("{table}(PartitionKey='{}',RowKey='{}')", key(partition_key), key(row_key))
    }

    /// Appends an entity.
    pub fn write(&self, entity: &Entity, form: Form, out: &mut Vec<u8>) {
        let mut fields = FieldWriter::new(out);
        self.write_metadata(entity, form, &mut fields);
        for (name, key) in [("PartitionKey", &entity.partition_key), ("RowKey", &entity.row_key)] {
            if self.selection.includes(name) {
                fields.text(name, key);
            }
        }
        if self.selection.includes("Timestamp") {
            if self.metadata == Metadata::Full {
                fields.text("Timestamp@odata.type", EdmType::DateTime.name());
            }
            fields.text("Timestamp", &date_text(entity.timestamp, DateDigits::Seven));
        }
        for (name, value) in entity.properties.iter() {
            if self.selection.includes(name) {
                self.write_property(name, value, &mut fields);
            }
        }
        fields.end();
    }

    fn write_metadata(&self, entity: &Entity, form: Form, fields: &mut FieldWriter<'_>) {
        if self.metadata == Metadata::None {
            return;
        }
        let (service, table) = (self.service_url, self.table);
        if form == Form::Single {
            fields.text("odata.metadata", &format!("{service}/$metadata#{table}/@Element"));
        }
        let link = (self.metadata == Metadata::Full)
            .then(|| Self::edit_link(table, &entity.partition_key, &entity.row_key));
        if let Some(link) = &link {
            fields.text("odata.type", &format!("{}.{table}", self.account));
            fields.text("odata.id", &format!("{service}/{link}"));
        }
        fields.text("odata.etag", &etag_of(entity.timestamp));
        if let Some(link) = &link {
            fields.text("odata.editLink", link);
        }
    }

    fn write_property(&self, name: &str, value: &Value, fields: &mut FieldWriter<'_>) {
        let Some(edm) = EdmType::of(value) else { return };
        if self.metadata != Metadata::None && !is_plain(value, edm) {
            fields.text(&format!("{name}@odata.type"), edm.name());
        }
        fields.name(name);
        write_value(value, fields.out);
    }
}

/// Whether the JSON form alone determines the type.
fn is_plain(value: &Value, edm: EdmType) -> bool {
    match edm {
        EdmType::String | EdmType::Boolean | EdmType::Int32 => true,
        EdmType::Double => value.as_f64().is_some_and(f64::is_finite),
        EdmType::Guid | EdmType::Binary | EdmType::DateTime | EdmType::Int64 => false,
    }
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    if let Value::Double(n) = value {
        write_f64(*n, out);
    } else if let Value::Int64(n) = value {
        out.push(b'"');
        model::number::write_i64(*n, out);
        out.push(b'"');
    } else if let Value::Date(date) = value {
        json::write_str(&date_text(*date, DateDigits::AsNeeded), out);
    } else if let Value::Guid(guid) = value {
        json::write_str(&guid_text(guid), out);
    } else if let Value::Binary { bytes, .. } = value {
        json::write_str(&STANDARD.encode(bytes), out);
    } else {
        json::write(value, out);
    }
}

/// Appends the beginning of a list of entities, or of tables, up to its first member. Members are
/// separated by commas.
pub fn write_list_start(metadata: Metadata, service_url: &str, set: &str, out: &mut Vec<u8>) {
    out.push(b'{');
    if metadata != Metadata::None {
        out.extend_from_slice(b"\"odata.metadata\":");
        json::write_str(&format!("{service_url}/$metadata#{set}"), out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"value\":[");
}

/// Appends the end of a list.
pub fn write_list_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"]}");
}

/// Appends the fields of an object.
struct FieldWriter<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl<'o> FieldWriter<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_first: true }
    }

    fn name(&mut self, name: &str) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.push(b',');
        }
        json::write_str(name, self.out);
        self.out.push(b':');
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        json::write_str(text, self.out);
    }

    fn end(self) {
        self.out.push(b'}');
    }
}
