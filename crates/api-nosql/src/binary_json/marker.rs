//! The marker bytes, and the dictionary of strings that both sides share.

pub(super) const LITERAL_INT_LAST: u8 = 0x1F;
pub(super) const SYSTEM_STRING_FIRST: u8 = 0x20;
pub(super) const SYSTEM_STRING_LAST: u8 = 0x3F;
pub(super) const BASE64_1: u8 = 0x71;
pub(super) const BASE64_2: u8 = 0x72;
pub(super) const BASE64_URL_1: u8 = 0x73;
pub(super) const BASE64_URL_2: u8 = 0x74;
pub(super) const GUID_LOWER: u8 = 0x75;
pub(super) const GUID_UPPER: u8 = 0x76;
pub(super) const GUID_QUOTED: u8 = 0x77;
pub(super) const HEX_LOWER: u8 = 0x78;
pub(super) const HEX_UPPER: u8 = 0x79;
pub(super) const DATE_TIME: u8 = 0x7A;
pub(super) const PACKED_4: u8 = 0x7B;
pub(super) const PACKED_5: u8 = 0x7C;
pub(super) const PACKED_6: u8 = 0x7D;
pub(super) const PACKED_7_1: u8 = 0x7E;
pub(super) const PACKED_7_2: u8 = 0x7F;
pub(super) const SHORT_STRING_FIRST: u8 = 0x80;
pub(super) const SHORT_STRING_LAST: u8 = 0xBF;
pub(super) const STRING_1: u8 = 0xC0;
pub(super) const STRING_2: u8 = 0xC1;
pub(super) const STRING_4: u8 = 0xC2;
pub(super) const REFERENCE_1: u8 = 0xC3;
pub(super) const REFERENCE_2: u8 = 0xC4;
pub(super) const REFERENCE_3: u8 = 0xC5;
pub(super) const REFERENCE_4: u8 = 0xC6;
pub(super) const NUMBER_U64: u8 = 0xC7;
pub(super) const NUMBER_U8: u8 = 0xC8;
pub(super) const NUMBER_I16: u8 = 0xC9;
pub(super) const NUMBER_I32: u8 = 0xCA;
pub(super) const NUMBER_I64: u8 = 0xCB;
pub(super) const NUMBER_F64: u8 = 0xCC;
pub(super) const FLOAT32: u8 = 0xCD;
pub(super) const FLOAT64: u8 = 0xCE;
pub(super) const NULL: u8 = 0xD0;
pub(super) const FALSE: u8 = 0xD1;
pub(super) const TRUE: u8 = 0xD2;
pub(super) const GUID: u8 = 0xD3;
pub(super) const UINT8: u8 = 0xD7;
pub(super) const INT8: u8 = 0xD8;
pub(super) const INT16: u8 = 0xD9;
pub(super) const INT32: u8 = 0xDA;
pub(super) const INT64: u8 = 0xDB;
pub(super) const UINT32: u8 = 0xDC;
pub(super) const BINARY_1: u8 = 0xDD;
pub(super) const BINARY_2: u8 = 0xDE;
pub(super) const BINARY_4: u8 = 0xDF;
pub(super) const ARRAY_EMPTY: u8 = 0xE0;
pub(super) const ARRAY_OF_ONE: u8 = 0xE1;
pub(super) const ARRAY_LENGTH_1: u8 = 0xE2;
pub(super) const ARRAY_LENGTH_2: u8 = 0xE3;
pub(super) const ARRAY_LENGTH_4: u8 = 0xE4;
pub(super) const ARRAY_COUNT_1: u8 = 0xE5;
pub(super) const ARRAY_COUNT_2: u8 = 0xE6;
pub(super) const ARRAY_COUNT_4: u8 = 0xE7;
pub(super) const OBJECT_EMPTY: u8 = 0xE8;
pub(super) const OBJECT_OF_ONE: u8 = 0xE9;
pub(super) const OBJECT_LENGTH_1: u8 = 0xEA;
pub(super) const OBJECT_LENGTH_2: u8 = 0xEB;
pub(super) const OBJECT_LENGTH_4: u8 = 0xEC;
pub(super) const OBJECT_COUNT_1: u8 = 0xED;
pub(super) const OBJECT_COUNT_2: u8 = 0xEE;
pub(super) const OBJECT_COUNT_4: u8 = 0xEF;
pub(super) const NUMBERS_1: u8 = 0xF0;
pub(super) const NUMBERS_2: u8 = 0xF1;
pub(super) const NUMBER_ARRAYS_1: u8 = 0xF2;
pub(super) const NUMBER_ARRAYS_2: u8 = 0xF3;

/// Strings encoded as one marker byte: `SYSTEM_STRING_FIRST` plus the index in this list. The
/// protocol defines the order.
pub(super) const SYSTEM_STRINGS: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];

/// The marker of a system string, if `text` is one.
pub(super) fn of_system_string(text: &str) -> Option<u8> {
    // The longest entry has 18 bytes; most strings are longer or start differently.
    if text.len() > 18 {
        return None;
    }
    let at = SYSTEM_STRINGS.iter().position(|s| *s == text)?;
    Some(SYSTEM_STRING_FIRST + u8::try_from(at).ok()?)
}
