use proptest::prelude::*;

use super::*;

/// The stored procedure in the service's own documentation.
#[test]
fn documented_example() {
    let (container, kind, number) = parse_child_rid("hLEEAI1YjgcBAAAAAAAAgA==").unwrap();
    assert_eq!(container.database.to_string(), "hLEEAA==");
    assert_eq!(container.to_string(), "hLEEAI1Yjgc=");
    assert_eq!((kind, number), (ChildKind::StoredProcedure, 1));
    assert_eq!(child_rid(container, kind, number), "hLEEAI1YjgcBAAAAAAAAgA==");
}

/// Document number 13 of the documentation of `DocumentId`, and a range of a client fixture.
#[test]
fn other_published_ids() {
    let document = DocumentRid::parse("36ZyAPW+uN8NAAAAAAAAAA==").unwrap();
    assert_eq!(document.number, 13);
    assert_eq!(document.to_string(), "36ZyAPW+uN8NAAAAAAAAAA==");
    let (container, kind, number) = parse_child_rid("AAARB4AAAAECAAAAAAAAUA==").unwrap();
    assert_eq!((kind, number), (ChildKind::PartitionKeyRange, 2));
    assert_eq!(container, ContainerRid { database: DatabaseRid(0x1107), number: 1 });
    assert_eq!(DocumentRid::parse("AAARB4AAAAECAAAAAAAAUA=="), None, "not a document");
}

#[test]
fn slash_is_written_as_minus() {
    let rid = DatabaseRid(0xFFFF_FFFF);
    assert_eq!(rid.to_string(), "-----w==");
    assert_eq!(DatabaseRid::parse("-----w=="), Some(rid));
    assert_eq!(DatabaseRid::parse("/////w=="), None);
}

#[test]
fn parsing_is_strict() {
    for bad in [
        "",
        "hLEEAA",
        "hLEEAA=",
        "hLEEAA===",
        "hLEEAB==",
        "hLEEAA=A",
        "mydb",
        " LEEAA==",
        "hLEEAI1Yjgc=",
    ] {
        assert_eq!(DatabaseRid::parse(bad), None, "{bad}");
    }
    // The top bit of the second number is clear: a user, not a container.
    assert_eq!(ContainerRid::parse("hLEEAA1Yjgc="), None);
    assert_eq!(ContainerRid::parse("hLEEAA=="), None);
    // A nibble that no kind has.
    assert_eq!(parse_child_rid("hLEEAI1YjgcBAAAAAAAA8A=="), None);
    for bad in ["", "AAA", "AAAAA", "AA==", "A A ", "ééé"] {
        assert_eq!(OfferRid::parse(bad), None, "{bad}");
    }
}

#[test]
fn offers_have_four_characters() {
    assert_eq!(OfferRid(0).to_string(), "AAAA");
    assert_eq!(OfferRid(0xFF_FFFF).to_string(), "----");
    assert_eq!(OfferRid::parse("AAAB"), Some(OfferRid(1)));
}

#[test]
fn item_ids() {
    let ok = [
        "1",
        " leading and inner",
        "trailing ",
        "%20",
        "ü日本🚀",
        ",=.:~+-@()^${}[]!_",
        "a?b",
        "a#b",
        "a/b",
        "tab\there",
        "line\nfeed",
        "\r",
    ];
    for id in ok {
        assert_eq!(validate_item_id(id), Ok(()), "{id:?}");
    }
    assert_eq!(validate_item_id(""), Err(IdError::Empty));
    assert_eq!(validate_item_id("a\\b"), Ok(()));
    assert_eq!(validate_item_id(&"a".repeat(1536)), Ok(()));
    let too_long = Err(IdError::TooLong { max: 1536, unit: "bytes" });
    assert_eq!(validate_item_id(&"a".repeat(1537)), too_long);
    assert_eq!(validate_item_id(&"ü".repeat(769)), too_long, "bytes count, not characters");
}

#[test]
fn resource_ids() {
    for id in ["db", " leading", "inner space", "ü日本🚀", "a%20b", "hLEEAA=="] {
        assert_eq!(validate_resource_id(id), Ok(()), "{id:?}");
    }
    assert_eq!(validate_resource_id(""), Err(IdError::Empty));
    for (id, c) in [("a/b", '/'), ("a\\b", '\\'), ("a?", '?'), ("#a", '#'), ("a ", ' ')] {
        assert_eq!(validate_resource_id(id), Err(IdError::Forbidden(c)), "{id:?}");
    }
    assert_eq!(validate_resource_id(&"🚀".repeat(255)), Ok(()));
    let too_long = Err(IdError::TooLong { max: 255, unit: "characters" });
    assert_eq!(validate_resource_id(&"a".repeat(256)), too_long);
    assert_eq!(validate_resource_id(&"a".repeat(100_000)), too_long);
}

fn any_container() -> impl Strategy<Value = ContainerRid> {
    (any::<u32>(), 0..1_u32 << 31)
        .prop_map(|(db, number)| ContainerRid { database: DatabaseRid(db), number })
}

proptest! {
    #[test]
    fn ids_round_trip(container in any_container(), number in 0..1_u64 << 60, offer in 0..1_u32 << 24) {
        prop_assert_eq!(ContainerRid::parse(&container.to_string()), Some(container));
        let database = container.database;
        prop_assert_eq!(DatabaseRid::parse(&database.to_string()), Some(database));
        let document = DocumentRid { container, number };
        prop_assert_eq!(DocumentRid::parse(&document.to_string()), Some(document));
        for kind in ChildKind::ALL {
            let text = child_rid(container, kind, number);
            prop_assert_eq!(parse_child_rid(&text), Some((container, kind, number)));
        }
        prop_assert_eq!(OfferRid::parse(&OfferRid(offer).to_string()), Some(OfferRid(offer)));
    }

    /// A text that parses is in the canonical form.
    #[test]
    fn parsed_text_is_canonical(text in "[A-Za-z0-9+/=-]{4}|[A-Za-z0-9+/=-]{6}==|[A-Za-z0-9+/=-]{22}==|.*") {
        if let Some(rid) = DatabaseRid::parse(&text) {
            prop_assert_eq!(rid.to_string(), text.clone());
        }
        if let Some((container, kind, number)) = parse_child_rid(&text) {
            prop_assert_eq!(child_rid(container, kind, number), text.clone());
        }
        if let Some(rid) = OfferRid::parse(&text) {
            prop_assert_eq!(rid.to_string(), text.clone());
        }
        let _ = (validate_item_id(&text), validate_resource_id(&text));
    }
}

#[test]
fn users_and_what_they_hold_have_ids_of_their_own() {
    let database = DatabaseRid(0x84B1_0400);
    let user = UserRid { database, number: 0x0D58_8E07 };
    assert_eq!(user.to_string(), "hLEEAA1Yjgc=");
    assert_eq!(UserRid::parse("hLEEAA1Yjgc="), Some(user));
    assert_eq!(UserRid::parse("hLEEAI1Yjgc="), None, "a container");
    let permission = PermissionRid { user, number: 0x0102_0304_0506_0708 };
    assert_eq!(PermissionRid::parse(&permission.to_string()), Some(permission));
    assert_eq!(parse_child_rid(&permission.to_string()), None, "nothing below a container");
    assert_eq!(PermissionRid::parse("hLEEAI1YjgcBAAAAAAAAgA=="), None, "a stored procedure");
    let key = EncryptionKeyRid { database, number: 7 };
    assert_eq!(EncryptionKeyRid::parse(&key.to_string()), Some(key));
    assert_eq!(EncryptionKeyRid::parse(&permission.to_string()), None);
}
