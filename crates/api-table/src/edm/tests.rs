use lang::odata::Selection;
use model::edm::{date_from_ticks, parse_date};
use model::{Date, Object, Value, json};
use proptest::prelude::*;

use super::*;

const NOW: &str = "2026-11-15T08:33:40.9146531Z";

fn now() -> Date {
    parse_date(NOW).expect("a date")
}

fn written(body: &str) -> Result<SentEntity, EntityError> {
    SentEntity::parse(body.as_bytes(), &Rules::STORAGE)
}

fn entity(body: &str) -> Result<Entity, EntityError> {
    let written = written(body)?;
    let entity = Entity::new("p", "r", written, &Rules::STORAGE)?;
    Ok(Entity { timestamp: now(), ..entity })
}

fn shown(entity: &Entity, metadata: Metadata, selection: &Selection, form: Form) -> String {
    let output =
        Output { metadata, selection, service_url: "http://h/a", account: "a", table: "demo" };
    let mut out = Vec::new();
    output.write(entity, form, &mut out);
    String::from_utf8(out).expect("JSON is text")
}

/// The response for an entity with this body, for a client that asks for no metadata, without its
/// system properties.
fn echo(body: &str) -> String {
    let text = shown(&entity(body).expect(body), Metadata::None, &Selection::All, Form::Single);
    let system = format!(r#""PartitionKey":"p","RowKey":"r","Timestamp":"{NOW}""#);
    text.replace(&system, "").replacen("{,", "{", 1)
}

#[test]
fn every_type_is_read_and_written() {
    for (sent, shown) in [
        (r#"{"s":"x"}"#, r#"{"s":"x"}"#),
        (r#"{"s@odata.type":"Edm.String","s":"x"}"#, r#"{"s":"x"}"#),
        (r#"{"i":1}"#, r#"{"i":1}"#),
        (r#"{"i@odata.type":"Edm.Int32","i":"-7"}"#, r#"{"i":-7}"#),
        (r#"{"l":"1099511627776","l@odata.type":"Edm.Int64"}"#, r#"{"l":"1099511627776"}"#),
        (r#"{"l@odata.type":"Edm.Int64","l":5}"#, r#"{"l":"5"}"#),
        (r#"{"d":3.0}"#, r#"{"d":3.0}"#),
        (r#"{"d":1.5}"#, r#"{"d":1.5}"#),
        (r#"{"d":1e300}"#, r#"{"d":1e+300}"#),
        (r#"{"d@odata.type":"Edm.Double","d":3}"#, r#"{"d":3.0}"#),
        (r#"{"d@odata.type":"Edm.Double","d":"1.25"}"#, r#"{"d":1.25}"#),
        (r#"{"d@odata.type":"Edm.Double","d":"NaN"}"#, r#"{"d":"NaN"}"#),
        (r#"{"d@odata.type":"Edm.Double","d":"-Infinity"}"#, r#"{"d":"-Infinity"}"#),
        (r#"{"b":true}"#, r#"{"b":true}"#),
        (r#"{"b@odata.type":"Edm.Boolean","b":"False"}"#, r#"{"b":false}"#),
        (
            r#"{"t@odata.type":"Edm.DateTime","t":"2013-08-22T01:12:06.2608595Z"}"#,
            r#"{"t":"2013-08-22T01:12:06.2608595Z"}"#,
        ),
        (
            r#"{"t@odata.type":"Edm.DateTime","t":"2013-08-22T03:12:06+02:00"}"#,
            r#"{"t":"2013-08-22T01:12:06Z"}"#,
        ),
        (
            r#"{"g@odata.type":"Edm.Guid","g":"C9DA6455-213D-42C9-9A79-3E9149A57833"}"#,
            r#"{"g":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#,
        ),
        (r#"{"x@odata.type":"Edm.Binary","x":"AQI="}"#, r#"{"x":"AQI="}"#),
        (r#"{"n":null,"m":1}"#, r#"{"m":1}"#),
        (r#"{"n@odata.type":"Edm.Int64","n":null}"#, "{}"),
        (r#"{"Timestamp":"x","odata.etag":"y","m":1}"#, r#"{"m":1}"#),
        (
            r#"{"timestamp":"x","ETag":"y","etag":"z"}"#,
            r#"{"timestamp":"x","ETag":"y","etag":"z"}"#,
        ),
        (r#"{"Birthday":1,"birthday":2}"#, r#"{"Birthday":1,"birthday":2}"#),
        (r#"{"id":1,"_ts":2,"ttl":3}"#, r#"{"id":1,"_ts":2,"ttl":3}"#),
        (r#"{"größe":1,"_x1":2}"#, r#"{"größe":1,"_x1":2}"#),
    ] {
        assert_eq!(echo(sent), shown, "{sent}");
    }
}

#[test]
fn wrong_entities_are_refused() {
    let name_of = |chars: usize| format!(r#"{{"{}":1}}"#, "n".repeat(chars));
    let string_of = |chars: usize| format!(r#"{{"s":"{}"}}"#, "x".repeat(chars));
    let many = |count: usize| {
        let fields: Vec<_> = (0..count).map(|n| format!(r#""p{n}":1"#)).collect();
        format!("{{{}}}", fields.join(","))
    };
    for (body, code) in [
        ("", "InvalidInput"),
        ("[]", "InvalidInput"),
        ("{", "InvalidInput"),
        (r#"{"a":[1]}"#, "InvalidInput"),
        (r#"{"a":{}}"#, "InvalidInput"),
        (r#"{"a":2147483648}"#, "InvalidInput"),
        (r#"{"a":1.8e308}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Int32","a":"2147483648"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Int32","a":1.5}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Int64","a":"9223372036854775808"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Double","a":"inf"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Double","a":"1.8e308"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Boolean","a":"yes"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.DateTime","a":"1600-01-01"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Guid","a":"x"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Double","a":null}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.DateTime","a":null}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Binary","a":"*"}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.String","a":1}"#, "InvalidInput"),
        (r#"{"a@odata.type":"Edm.Decimal","a":"1"}"#, "InvalidInput"),
        (r#"{"a@odata.type":1,"a":"1"}"#, "InvalidInput"),
        (r#"{"a":1,"a":2}"#, "DuplicatePropertiesSpecified"),
        (r#"{"123":1}"#, "PropertyNameInvalid"),
        (r#"{"a-b":1}"#, "PropertyNameInvalid"),
        (r#"{"":1}"#, "PropertyNameInvalid"),
        (r#"{"$pk":1}"#, "PropertyNameInvalid"),
        (&name_of(256), "PropertyNameTooLong"),
        (&string_of(32 * 1024 + 1), "PropertyValueTooLarge"),
        (&many(253), "TooManyProperties"),
    ] {
        let refused = entity(body).err().unwrap_or_else(|| panic!("{body} was taken"));
        assert_eq!(refused.code(), code, "{body}");
        assert!(!refused.message().is_empty());
    }
    for body in [name_of(255), string_of(32 * 1024), many(252)] {
        entity(&body).expect("at the limit");
    }
    let cosmos = |body: &str| SentEntity::parse(body.as_bytes(), &Rules::COSMOS);
    let message = |body: &str| cosmos(body).expect_err(body).message();
    assert_eq!(message(r#"{"123":1}"#), "The property name '123' is invalid.");
    assert!(cosmos(r#"{"id":"1"}"#).is_err());
    for body in [r#"{"a":2147483648}"#, r#"{"a":[]}"#] {
        assert_eq!(message(body), "One of the input values is invalid.");
    }
    let kept = cosmos(r#"{"etag":"1","Etag":"2"}"#).expect("an entity").properties;
    assert_eq!(kept.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["etag"]);
}

/// 4 + keys + properties, in the units of the service's formula.
#[test]
fn entities_are_as_large_as_the_service_says() {
    let small = entity(r#"{"ab":"xyz","i":1,"b":true,"d":1.5}"#).expect("an entity");
    let properties = (8 + 4 + 4 + 6) + (8 + 2 + 4) + (8 + 2 + 1) + (8 + 2 + 8);
    assert_eq!(small.bytes(), 4 + 2 * 2 + properties);
    let with_rest = |rest: usize| {
        let fields: Vec<_> =
            (10..25).map(|n| format!(r#""p{n}":"{}""#, "x".repeat(32 * 1024))).collect();
        entity(&format!(r#"{{{},"q":"{}"}}"#, fields.join(","), "y".repeat(rest)))
    };
    let fixed = 4 + 4 + 15 * (8 + 6 + 4 + 64 * 1024) + 8 + 2 + 4;
    let rest = (1024 * 1024 - fixed) / 2;
    assert_eq!(with_rest(rest).expect("at the limit").bytes(), 1024 * 1024);
    assert_eq!(with_rest(rest + 1), Err(EntityError::EntityTooLarge));
}

#[test]
fn keys_are_checked() {
    let storage = |key: &str| check_key("RowKey", key, &Rules::STORAGE).map_err(|e| e.code());
    for key in ["", "a", "with space", "quote'", "ü", "%25", &"x".repeat(512), &"é".repeat(512)] {
        assert_eq!(storage(key), Ok(()), "{key}");
    }
    for key in ["a/b", "a\\b", "a#", "?", "\n", "\u{1f}", "\u{7f}", "\u{9f}"] {
        assert_eq!(storage(key), Err("OutOfRangeInput"), "{key:?}");
    }
    assert_eq!(storage(&"x".repeat(513)), Err("KeyValueTooLarge"));
    assert_eq!(check_key("PartitionKey", "", &Rules::COSMOS), Err(EntityError::KeyEmpty));
    assert_eq!(check_key("RowKey", &"x".repeat(256), &Rules::COSMOS), Err(EntityError::KeyTooLong));
    let refused = check_key("PartitionKey", "a/b", &Rules::STORAGE).expect_err("a slash");
    assert_eq!(refused.message(), "The 'PartitionKey' parameter of value 'a/b' is out of range.");
}

#[test]
fn inserted_entities_name_their_keys() {
    let keys = |body: &str| {
        let written = written(body).expect(body);
        written.keys().map(|(p, r)| (p.to_owned(), r.to_owned()))
    };
    let pair = ("p".to_owned(), String::new());
    assert_eq!(keys(r#"{"PartitionKey":"p","RowKey":""}"#), Ok(pair.clone()));
    assert_eq!(
        keys(r#"{"PartitionKey@odata.type":"Edm.String","PartitionKey":"p","RowKey":""}"#),
        Ok(pair)
    );
    for (body, refused) in [
        (r#"{"PartitionKey":"p"}"#, EntityError::KeyMissing),
        (r#"{"RowKey":"p"}"#, EntityError::KeyMissing),
        (r#"{"PartitionKey":null,"RowKey":"p"}"#, EntityError::KeyMissing),
        (r#"{"PartitionKey":1,"RowKey":"p"}"#, EntityError::Input),
        (
            r#"{"PartitionKey@odata.type":"Edm.Int64","PartitionKey":"1","RowKey":"p"}"#,
            EntityError::Input,
        ),
    ] {
        assert_eq!(keys(body), Err(refused), "{body}");
    }
    let numbers = written(r#"{"PartitionKey":1,"RowKey":2}"#).expect("keys are ignored");
    assert_eq!(numbers.check_sent_keys(&Rules::STORAGE), Ok(()));
    assert_eq!(numbers.check_sent_keys(&Rules::COSMOS), Err(EntityError::InputValue));
}

#[test]
fn responses_say_as_much_as_is_asked() {
    let entity = entity(r#"{"i":1,"l@odata.type":"Edm.Int64","l":"2","d":1.5}"#).expect("one");
    let all = Selection::All;
    let etag = r#""odata.etag":"W/\"datetime'2026-11-15T08%3A33%3A40.9146531Z'\"""#;
    let keys = r#""PartitionKey":"p","RowKey":"r""#;
    let rest = r#""i":1,"l@odata.type":"Edm.Int64","l":"2","d":1.5"#;
    assert_eq!(
        shown(&entity, Metadata::Minimal, &all, Form::Single),
        format!(
            r#"{{"odata.metadata":"http://h/a/$metadata#demo/@Element",{etag},{keys},"Timestamp":"{NOW}",{rest}}}"#
        )
    );
    assert_eq!(
        shown(&entity, Metadata::Full, &all, Form::Member),
        format!(
            r#"{{"odata.type":"a.demo","odata.id":"http://h/a/demo(PartitionKey='p',RowKey='r')",{etag},"odata.editLink":"demo(PartitionKey='p',RowKey='r')",{keys},"Timestamp@odata.type":"Edm.DateTime","Timestamp":"{NOW}",{rest}}}"#
        )
    );
    assert_eq!(
        shown(&entity, Metadata::None, &all, Form::Single),
        format!(r#"{{{keys},"Timestamp":"{NOW}","i":1,"l":"2","d":1.5}}"#)
    );
    let some = Selection::parse("d,i,missing").expect("a selection");
    assert_eq!(shown(&entity, Metadata::None, &some, Form::Single), r#"{"i":1,"d":1.5}"#);
    assert_eq!(
        shown(&entity, Metadata::Minimal, &some, Form::Member),
        format!(r#"{{{etag},"i":1,"d":1.5}}"#)
    );
    let mut list = Vec::new();
    write_list_start(Metadata::Minimal, "http://h/a", "demo", &mut list);
    write_list_end(&mut list);
    assert_eq!(list, br#"{"odata.metadata":"http://h/a/$metadata#demo","value":[]}"#);
    assert_eq!(Output::edit_link("t", "p'1", "r 1"), "t(PartitionKey='p%27%271',RowKey='r%201')");
}

#[test]
fn etags_name_versions() {
    assert_eq!(parse_condition(&etag_of(now())), Ok(Condition::Version(now())));
    assert_eq!(parse_condition("*"), Ok(Condition::Exists));
    for unknown in ["W/\"abc\"", "w/\"wrong\"", "W/\"datetime'soon'\""] {
        assert_eq!(parse_condition(unknown), Ok(Condition::Unknown));
    }
    for wrong in ["", "abc", "\"abc\"", "W/\"a\",W/\"b\""] {
        let refused = parse_condition(wrong).expect_err(wrong);
        assert!(refused.message().contains(&format!("'{wrong}'")));
    }
    assert!(Condition::Exists.is_met_by(now()) && !Condition::Unknown.is_met_by(now()));
    assert!(Condition::Version(now()).is_met_by(now()));
    assert!(!Condition::Version(now()).is_met_by(date_from_ticks(0)));
}

fn item_of(entity: &Entity) -> Value {
    let mut text = Vec::new();
    entity.write_item(&mut text);
    json::parse(&text, 8).expect("items are JSON").value
}

#[test]
fn items_have_the_documented_form() {
    let mut entity = entity(r#"{"age":39,"id":"x"}"#).expect("an entity");
    entity.row_key = String::new();
    let mut text = Vec::new();
    entity.write_item(&mut text);
    assert_eq!(
        String::from_utf8(text).expect("text"),
        "{\"id\":\"\\u0001\",\"$id\":\"\",\"$pk\":\"p\",\
         \"age\":{\"$t\":16,\"$v\":39},\"$$id\":{\"$t\":2,\"$v\":\"x\"}}"
    );
}

#[test]
fn items_of_other_apis_are_entities_too() {
    let item = br#"{"id":"r","$pk":"p","age":{"$t":16,"$v":39},"plain":1,"_ts":7}"#;
    let item = json::parse(item, 8).expect("JSON").value;
    let entity = Entity::from_item(&item, now()).expect("an entity");
    assert_eq!(
        shown(&entity, Metadata::None, &Selection::All, Form::Single),
        r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-11-15T08:33:40.9146531Z","age":39}"#
    );
    for not_one in ["1", "{}", r#"{"id":"r"}"#, r#"{"id":"r","$pk":1}"#] {
        let value = json::parse(not_one.as_bytes(), 8).expect("JSON").value;
        assert_eq!(Entity::from_item(&value, now()), None, "{not_one}");
    }
}

fn any_property() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(Value::Guid),
        (-1e300..1e300_f64).prop_map(Value::Double),
        ".{0,20}".prop_map(Value::String),
        any::<Vec<u8>>().prop_map(|bytes| Value::Binary { subtype: 0, bytes }),
        any::<bool>().prop_map(Value::Bool),
        (504_911_232_000_000_000..3_155_378_975_999_999_999_i64)
            .prop_map(|ticks| Value::Date(date_from_ticks(ticks))),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
    ]
}

proptest! {
    /// Stored and rendered with metadata, then sent back: nothing is lost in either direction.
    #[test]
    fn entities_survive_the_store_and_the_wire(
        properties in prop::collection::btree_map("[a-z_][a-zA-Z0-9_]{0,6}", any_property(), 0..8),
        keys in ("[^/\\\\#?\\p{Cc}]{0,9}", "[^/\\\\#?\\p{Cc}]{0,9}"),
    ) {
        let properties: Object = properties.into_iter().collect();
        let (partition_key, row_key) = keys;
        let entity = Entity { partition_key, row_key, timestamp: now(), properties };
        let stored = Entity::from_item(&item_of(&entity), now());
        prop_assert_eq!(stored.as_ref(), Some(&entity));
        let text = shown(&entity, Metadata::Full, &Selection::All, Form::Single);
        let sent = SentEntity::parse(text.as_bytes(), &Rules::STORAGE).expect("our own text");
        prop_assert_eq!(sent.keys(), Ok((entity.partition_key.as_str(), entity.row_key.as_str())));
        prop_assert_eq!(sent.properties, entity.properties);
    }

    #[test]
    fn no_body_makes_the_reader_panic(body in ".{0,60}") {
        let _ = SentEntity::parse(body.as_bytes(), &Rules::STORAGE);
    }
}
