//! Gaps of the other open server of this API that this server does not have: one test for each gap,
//! by number. Ranges of keys, addresses and batches of signatures (5 and 14) are in `access.rs`,
//! the other flavour and throughput (19) in files of their names.

use crate::support::{Answer, TestService};

async fn batch(s: &TestService, parts: &[String]) -> Answer {
    let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
    for part in parts {
        body.push_str(&format!("--c\r\nContent-Type: application/http\r\n\r\n{part}\r\n"));
    }
    body.push_str("--c--\r\n--b--\r\n");
    let call = s.call("POST", "/$batch").header("content-type", "multipart/mixed; boundary=b");
    call.body(body).send().await
}

fn insert(partition: &str, row: &str) -> String {
    format!("POST /demo HTTP/1.1\r\n\r\n{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}")
}

/// 1: entities of two partitions in one batch.
#[tokio::test]
async fn gap_01_a_batch_is_of_one_partition() {
    let s = TestService::with_table().await;
    let answer = batch(&s, &[insert("a", "1"), insert("b", "1")]).await;
    assert!(answer.text().contains("CommandsInBatchActOnDifferentPartitions"));
    assert_eq!(s.keys("").await.0.len(), 0);
}

/// 2: too many properties, and names that are none.
#[tokio::test]
async fn gap_02_properties_have_limits() {
    let s = TestService::with_table().await;
    let many = |n: usize| (0..n).map(|i| format!(r#""p{i}":1"#)).collect::<Vec<_>>().join(",");
    s.insert("p", "252", &many(252)).await.expect(201);
    s.insert("p", "253", &many(253)).await.refused(400, "TooManyProperties");
    let named = |name: &str| format!(r#""{name}":1"#);
    s.insert("p", "255", &named(&"n".repeat(255))).await.expect(201);
    s.insert("p", "256", &named(&"n".repeat(256))).await.refused(400, "PropertyNameTooLong");
    for name in ["1a", "a-b", "a b", ""] {
        s.insert("p", "x", &named(name)).await.refused(400, "PropertyNameInvalid");
    }
}

/// 3: values that do not fit their types.
#[tokio::test]
async fn gap_03_values_fit_their_types() {
    let s = TestService::with_table().await;
    for (edm, value) in [
        ("Edm.Int32", "\"2147483648\""),
        ("Edm.Int64", "\"9223372036854775808\""),
        ("Edm.Guid", "\"nonsense\""),
        ("Edm.DateTime", "\"yesterday\""),
        ("Edm.Binary", "\"!\""),
        ("Edm.Boolean", "\"maybe\""),
        ("Edm.Double", "\"much\""),
        ("Edm.Unknown", "\"x\""),
    ] {
        let rest = format!(r#""v@odata.type":"{edm}","v":{value}"#);
        s.insert("p", "r", &rest).await.refused(400, "InvalidInput");
    }
    s.insert("p", "r", r#""v":2147483648"#).await.refused(400, "InvalidInput");
    s.insert("p", "r", r#""v":[1]"#).await.refused(400, "InvalidInput");
}

/// 4: large entities and values, also those that a merge would make.
#[tokio::test]
async fn gap_04_entities_have_a_size() {
    let s = TestService::with_table().await;
    let text = |n: usize| "x".repeat(n);
    s.insert("p", "1", &format!(r#""s":"{}""#, text(32 * 1024))).await.expect(201);
    let long = format!(r#""s":"{}""#, text(32 * 1024 + 1));
    s.insert("p", "2", &long).await.refused(400, "PropertyValueTooLarge");
    let many = |n: usize| -> String {
        let each = |i: usize| format!(r#""s{i}":"{}""#, text(32 * 1024));
        (0..n).map(each).collect::<Vec<_>>().join(",")
    };
    s.insert("p", "3", &many(15)).await.expect(201);
    s.insert("p", "4", &many(17)).await.refused(400, "EntityTooLarge");
    let more = format!(r#"{{"more":"{}","evenmore":"{}"}}"#, text(32 * 1024), text(32 * 1024));
    let merge = s.call("PATCH", "/demo(PartitionKey='p',RowKey='3')").body(more).send().await;
    merge.refused(400, "EntityTooLarge");
}

/// 6: a preference that was not sent. 7: the metadata of a list.
#[tokio::test]
async fn gaps_06_and_07_replies_say_what_they_are() {
    let s = TestService::with_table().await;
    assert_eq!(s.insert("p", "r", "").await.header("preference-applied"), None);
    let list = s.get("/demo()").await.json();
    let url = list["odata.metadata"].as_str().unwrap();
    assert!(url.ends_with("$metadata#demo"), "{url}");
}

/// 8: numbers of different types, keys that are numbers, batches of nothing.
#[tokio::test]
async fn gap_08_numbers_compare_and_nothing_fails_inside() {
    let s = TestService::with_table().await;
    s.insert("p", "1", r#""n@odata.type":"Edm.Int64","n":"1""#).await.expect(201);
    s.insert("p", "2", r#""n":1"#).await.expect(201);
    s.insert("p", "3", r#""n":1.0"#).await.expect(201);
    for literal in ["1", "1L", "1.0"] {
        let (keys, _) = s.keys(&format!("$filter=n%20eq%20{literal}")).await;
        assert_eq!(keys.len(), 3, "{literal}");
    }
    s.post("/demo", r#"{"PartitionKey":"p","RowKey":5}"#).await.refused(400, "InvalidInput");
    batch(&s, &[]).await.refused(400, "InvalidInput");
}

/// 9: a response to a batch of 101 operations that no client can parse.
#[tokio::test]
async fn gap_09_a_batch_that_is_too_long_is_answered_in_form() {
    let s = TestService::with_table().await;
    let parts: Vec<String> = (0..101).map(|n| insert("p", &n.to_string())).collect();
    let answer = batch(&s, &parts).await;
    let text = answer.expect(202).text();
    let after_head = text.split("Content-Transfer-Encoding: binary\r\n\r\n").nth(1).unwrap();
    assert!(after_head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
    assert!(text.contains("100:The batch request operation exceeds the maximum 100 changes"));
}

/// 10: unsupported options are not ignored.
#[tokio::test]
async fn gap_10_options_that_are_not_there_are_refused() {
    let s = TestService::with_table().await;
    for option in ["$orderby=a", "$skip=1", "$count=true", "$expand=a", "$inlinecount=allpages"] {
        s.get(&format!("/demo()?{option}")).await.refused(501, "NotImplemented");
    }
}

/// 11: spellings of true and false, empty headers in rules, policies with few members.
#[tokio::test]
async fn gap_11_what_is_unusual_is_taken() {
    let s = TestService::with_table().await;
    s.insert("p", "r", r#""b@odata.type":"Edm.Boolean","b":"False""#).await.expect(201);
    let cors = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins>\
        <AllowedMethods>GET</AllowedMethods><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0\
        </MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";
    s.call("PUT", "/?restype=service&comp=properties").body(cors).send().await.expect(202);
    let acl = "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy /></SignedIdentifier>\
        <SignedIdentifier><Id>b</Id></SignedIdentifier></SignedIdentifiers>";
    s.call("PUT", "/demo?comp=acl").body(acl).send().await.expect(204);
    let read = s.get("/demo?comp=acl").await.text();
    assert!(read.contains("<Id>b</Id>") && !read.contains("AccessPolicy"), "{read}");
}

/// 12: errors about names have codes. 13: a wrong signature has its own.
#[tokio::test]
async fn gaps_12_and_13_errors_have_their_codes() {
    let s = TestService::with_table().await;
    s.post("/Tables", r#"{"TableName":"a$b"}"#).await.refused(400, "InvalidResourceName");
    let key = account::Key::from_bytes(&[9; 64]);
    s.call("GET", "/Tables").key(key).send().await.refused(403, "AuthenticationFailed");
}

/// 15: a version of the protocol that is not known yet. 18: a client that accepts any media type
/// gets JSON.
#[tokio::test]
async fn gaps_15_and_18_new_versions_and_any_media_type_are_served() {
    let s = TestService::with_table().await;
    s.call("GET", "/demo()").header("x-ms-version", "2031-05-05").send().await.expect(200);
    let any = s.call("GET", "/demo()").header("accept", "*/*").send().await;
    assert!(any.expect(200).header("content-type").unwrap().starts_with("application/json"));
    let atom = s.call("GET", "/demo()").header("accept", "application/atom+xml").send().await;
    atom.refused(415, "AtomFormatNotSupported");
}

/// 16: concurrent batches do not interfere with each other.
#[tokio::test]
async fn gap_16_batches_overlap() {
    let s = std::sync::Arc::new(TestService::with_table().await);
    let mut running = tokio::task::JoinSet::new();
    for n in 0..8 {
        let s = std::sync::Arc::clone(&s);
        running.spawn(async move {
            let parts: Vec<String> =
                (0..5).map(|r| insert(&format!("p{n}"), &r.to_string())).collect();
            let answer = batch(&s, &parts).await;
            assert_eq!(answer.text().matches("201 Created").count(), 5, "{}", answer.text());
        });
    }
    running.join_all().await;
    assert_eq!(s.keys("").await.0.len(), 40);
}

/// 17: a page reads about as many entities as it returns, however many there are.
#[tokio::test]
async fn gap_17_a_page_costs_what_it_returns() {
    let s = TestService::with_table().await;
    for n in 0..200 {
        s.insert(&format!("p{}", n % 7), &format!("{n:03}"), "").await.expect(201);
    }
    let charge = async |query: &str| -> f64 {
        let answer = s.get(&format!("/demo()?{query}")).await;
        answer.header("x-ms-request-charge").unwrap().parse().unwrap()
    };
    let (ten, all) = (charge("$top=10").await, charge("").await);
    assert!(ten < 3.0 && all > 2.0 * ten, "{ten} and {all}");
    let range = "$filter=PartitionKey%20eq%20'p3'%20and%20RowKey%20lt%20'050'";
    assert!(charge(range).await < 3.0);
}
