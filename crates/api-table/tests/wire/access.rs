//! Authentication and authorization: keys, shared access signatures, stored policies, tokens.

use account::{Key, sign};

use crate::support::{Answer, TestService, development_key};

const EXPIRY: &str = "2040-01-01T00:00:00Z";

/// A shared access signature of an account.
fn account_sas(permissions: &str, types: &str, extra: &[(&str, &str)]) -> String {
    let field = |name: &str| extra.iter().find(|(n, _)| *n == name).map_or("", |(_, v)| *v);
    let (ip, protocol, start) = (field("sip"), field("spr"), field("st"));
    let payload = format!(
        "devstoreaccount1\n{permissions}\nt\n{types}\n{start}\n{EXPIRY}\n{ip}\n{protocol}\n\
         2019-02-02\n"
    );
    let signature = encoded(&sign(&development_key(), payload.as_bytes()));
    let more: String = extra.iter().map(|(name, value)| format!("&{name}={value}")).collect();
    format!("sv=2019-02-02&ss=t&srt={types}&sp={permissions}&se={EXPIRY}{more}&sig={signature}")
}

/// A shared access signature of table `demo`.
fn table_sas(permissions: &str, range: [&str; 4]) -> String {
    let payload = format!(
        "{permissions}\n\n{EXPIRY}\n/table/devstoreaccount1/demo\n\n\n\n2019-02-02\n{}",
        range.join("\n")
    );
    let signature = encoded(&sign(&development_key(), payload.as_bytes()));
    let mut query = format!("sv=2019-02-02&tn=Demo&sp={permissions}&se={EXPIRY}&sig={signature}");
    for (name, value) in ["spk", "srk", "epk", "erk"].iter().zip(range) {
        if !value.is_empty() {
            query.push_str(&format!("&{name}={value}"));
        }
    }
    query
}

fn encoded(signature: &str) -> String {
    signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

async fn with(s: &TestService, method: &str, path: &str, sas: &str, body: &str) -> Answer {
    let join = if path.contains('?') { '&' } else { '?' };
    let call = s.call(method, &format!("{path}{join}{sas}")).unsigned();
    call.body(body).send().await
}

#[tokio::test]
async fn a_wrong_signature_is_no_signature() {
    let s = TestService::with_table().await;
    let key = Key::from_bytes(&[9; 64]);
    let wrong = s.call("GET", "/Tables").key(key).send().await;
    wrong.refused(403, "AuthenticationFailed");
    for good in [development_key(), Key::well_known(), Key::from_bytes(&[3; 64])] {
        assert!(wrong.text().contains(&good.short_fingerprint()), "{}", wrong.text());
    }
    s.call("GET", "/Tables").unsigned().send().await.refused(403, "AuthenticationFailed");
    let malformed = s.call("GET", "/Tables").authorization("SharedKey devstoreaccount1");
    malformed.send().await.refused(400, "InvalidAuthenticationInfo");
    let unknown = s.call("GET", "/Tables").authorization("Digest x");
    unknown.send().await.refused(400, "InvalidAuthenticationInfo");
    // The server's own keys also open the development account; one of them is read-only.
    s.call("GET", "/Tables").key(Key::well_known()).send().await.expect(200);
    let readonly = Key::from_bytes(&[3; 64]);
    s.call("GET", "/demo()").key(readonly.clone()).send().await.expect(200);
    let write = s.call("POST", "/demo").key(readonly).body(r#"{"PartitionKey":"p","RowKey":"r"}"#);
    write.send().await.refused(403, "AuthorizationPermissionMismatch");
}

#[tokio::test]
async fn an_old_date_is_refused() {
    let s = TestService::with_table().await;
    let date = "Sun, 15 Nov 2015 08:33:40 GMT";
    let payload = format!("{date}\n/devstoreaccount1/devstoreaccount1/Tables");
    let signature = sign(&development_key(), payload.as_bytes());
    let header = format!("SharedKeyLite devstoreaccount1:{signature}");
    // The first date counts; the client of tests adds another.
    let call = s.call("GET", "/Tables").authorization(&header);
    call.send().await.refused(403, "AuthenticationFailed");
}

#[tokio::test]
async fn an_account_may_be_granted_by_kinds_of_resources() {
    let s = TestService::with_table().await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let add = account_sas("a", "o", &[]);
    with(&s, "POST", "/demo", &add, entity).await.expect(201);
    with(&s, "GET", "/demo()", &add, "").await.refused(403, "AuthorizationPermissionMismatch");
    let read = account_sas("r", "o", &[]);
    with(&s, "GET", "/demo()", &read, "").await.expect(200);
    with(&s, "GET", "/demo(PartitionKey='p',RowKey='r')", &read, "").await.expect(200);
    let service = account_sas("rwdlacu", "s", &[]);
    with(&s, "GET", "/demo()", &service, "")
        .await
        .refused(403, "AuthorizationResourceTypeMismatch");
    with(&s, "GET", "/?restype=service&comp=properties", &service, "").await.expect(200);
    let tables = account_sas("lcd", "c", &[]);
    with(&s, "GET", "/Tables", &tables, "").await.expect(200);
    with(&s, "POST", "/Tables", &tables, r#"{"TableName":"new"}"#).await.expect(201);
    with(&s, "DELETE", "/Tables('new')", &tables, "").await.expect(204);
    let all = account_sas("rwdlacu", "sco", &[]);
    let acl = with(&s, "GET", "/demo?comp=acl", &all, "").await;
    acl.refused(403, "AuthorizationPermissionMismatch");
    let broken = all.replace("sp=rwdlacu", "sp=rwdlacup");
    with(&s, "GET", "/demo()", &broken, "").await.refused(403, "AuthenticationFailed");
}

#[tokio::test]
async fn a_signature_may_be_for_some_addresses_protocols_and_times() {
    let s = TestService::with_table().await;
    let from = account_sas("r", "o", &[("sip", "10.0.0.1-10.0.0.9")]);
    let path = format!("/demo()?{from}");
    let call = |peer| s.call("GET", &path).unsigned().from(peer);
    call("10.0.0.5").send().await.expect(200);
    call("10.0.0.10").send().await.refused(403, "AuthorizationSourceIPMismatch");
    let https = account_sas("r", "o", &[("spr", "https")]);
    with(&s, "GET", "/demo()", &https, "").await.refused(403, "AuthorizationProtocolMismatch");
    let later = account_sas("r", "o", &[("st", "2039-01-01T00:00:00Z")]);
    let early = with(&s, "GET", "/demo()", &later, "").await;
    early.refused(403, "AuthenticationFailed");
    assert!(early.text().contains("valid from 2039-01-01T00:00:00Z"), "{}", early.text());
}

#[tokio::test]
async fn a_table_may_be_granted_by_a_range_of_keys() {
    let s = TestService::with_table().await;
    for key in ["a", "b", "c", "d"] {
        for row in ["0", "1", "9"] {
            s.insert(key, row, "").await.expect(201);
        }
    }
    let sas = table_sas("raud", ["a", "1", "c", "1"]);
    let found = with(&s, "GET", "/demo()", &sas, "").await;
    let rows: Vec<String> = found.keys().iter().map(|(k, r)| format!("{k}{r}")).collect();
    assert_eq!(rows, ["a1", "a9", "b0", "b1", "b9", "c0", "c1"]);
    let filtered = with(&s, "GET", "/demo()?$filter=PartitionKey%20ge%20'c'", &sas, "").await;
    assert_eq!(filtered.keys().len(), 2);
    for (key, row, is_inside) in
        [("a", "0", false), ("a", "1", true), ("c", "9", false), ("d", "0", false)]
    {
        let path = format!("/demo(PartitionKey='{key}',RowKey='{row}')");
        for (verb, body) in [("GET", ""), ("PUT", "{}"), ("PATCH", "{}")] {
            let answer = with(&s, verb, &path, &sas, body).await;
            match is_inside {
                true => assert!(answer.status < 300, "{verb} {path}: {}", answer.text()),
                false => {
                    answer.refused(403, "AuthorizationFailure");
                }
            }
        }
    }
    let outside = r#"{"PartitionKey":"z","RowKey":"1"}"#;
    with(&s, "POST", "/demo", &sas, outside).await.refused(403, "AuthorizationFailure");
    s.post("/Tables", r#"{"TableName":"other"}"#).await.expect(201);
    with(&s, "GET", "/other()", &sas, "").await.refused(403, "AuthorizationPermissionMismatch");
    with(&s, "GET", "/Tables", &sas, "").await.refused(403, "AuthorizationPermissionMismatch");
}

#[tokio::test]
async fn rights_that_do_not_suffice_have_a_code_in_each_flavour() {
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    for (s, code) in [
        (TestService::storage(), "AuthorizationPermissionMismatch"),
        (TestService::cosmos(), "Forbidden"),
    ] {
        s.post("/Tables", r#"{"TableName":"demo"}"#).await.expect(201);
        let readonly = Key::from_bytes(&[3; 64]);
        let write = s.call("POST", "/demo").key(readonly).body(entity);
        write.send().await.refused(403, code);
    }
}

#[tokio::test]
async fn a_signature_of_a_table_is_good_for_batches() {
    let s = TestService::with_table().await;
    let body = |partition: &str, method: &str| {
        format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: \
             application/http\r\n\r\n{method} http://h/devstoreaccount1/demo(PartitionKey='{partition}',\
             RowKey='1') HTTP/1.1\r\n\r\n{{}}\r\n--c--\r\n--b--\r\n"
        )
    };
    let send = async |sas: &str, body: String| {
        let call = s.call("POST", &format!("/$batch?{sas}")).unsigned();
        call.header("content-type", "multipart/mixed; boundary=b").body(body).send().await
    };
    let sas = table_sas("au", ["a", "", "b", ""]);
    let answer = send(&sas, body("a", "PUT")).await;
    assert!(answer.expect(202).text().contains("204 No Content"), "{}", answer.text());
    let answer = send(&sas, body("z", "PUT")).await;
    assert!(answer.expect(202).text().contains("AuthorizationFailure"), "{}", answer.text());
    let answer = send(&table_sas("a", [""; 4]), body("a", "PUT")).await;
    assert!(answer.expect(202).text().contains("AuthorizationPermissionMismatch"));
}

#[tokio::test]
async fn stored_policies_fill_in_what_signatures_leave_out() {
    let s = TestService::with_table().await;
    let set = async |inner: &str| {
        let body = format!("<SignedIdentifiers>{inner}</SignedIdentifiers>");
        let call = s.call("PUT", "/demo?comp=acl").header("accept", "application/xml");
        call.body(body).send().await
    };
    let policy = "<SignedIdentifier><Id>p1</Id><AccessPolicy><Expiry>2040-01-01T00:00:00Z</Expiry>\
                  <Permission>r</Permission></AccessPolicy></SignedIdentifier>";
    set(policy).await.expect(204);
    let read = s.get("/demo?comp=acl").await;
    assert!(read.expect(200).text().contains(policy), "{}", read.text());
    assert_eq!(read.header("content-type"), Some("application/xml"));

    let payload = "\n\n\n/table/devstoreaccount1/demo\np1\n\n\n2019-02-02\n\n\n\n";
    let signature = encoded(&sign(&development_key(), payload.as_bytes()));
    let sas = format!("sv=2019-02-02&tn=demo&si=p1&sig={signature}");
    with(&s, "GET", "/demo()", &sas, "").await.expect(200);
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let write = with(&s, "POST", "/demo", &sas, entity).await;
    write.refused(403, "AuthorizationPermissionMismatch");
    // Without the policy the signature is not valid; neither is it for another table of the same
    // name.
    set("").await.expect(204);
    with(&s, "GET", "/demo()", &sas, "").await.refused(403, "AuthenticationFailed");
    set(policy).await.expect(204);
    s.call("DELETE", "/Tables('demo')").send().await.expect(204);
    s.post("/Tables", r#"{"TableName":"demo"}"#).await.expect(201);
    with(&s, "GET", "/demo()", &sas, "").await.refused(403, "AuthenticationFailed");
    let six = "<SignedIdentifier><Id>ID</Id></SignedIdentifier>".repeat(6);
    set(&six).await.refused(400, "InvalidXmlDocument");
    s.get("/missing?comp=acl").await.refused(404, "TableNotFound");
}

#[tokio::test]
async fn a_token_that_carries_a_key_is_good() {
    let s = TestService::with_table().await;
    let key = base64url(Key::well_known().expose());
    let token = format!("Bearer {}.{}.{key}", base64url("{}"), base64url("{}"));
    s.call("GET", "/demo()").authorization(&token).send().await.expect(200);
    let bad = s.call("GET", "/demo()").authorization("Bearer a.b.c").send().await;
    bad.refused(401, "InvalidAuthenticationInfo");
    assert!(bad.header("www-authenticate").unwrap().starts_with("Bearer authorization_uri="));
}

#[tokio::test]
async fn a_server_without_keys_serves_bearers_of_tokens() {
    let s = TestService::without_keys();
    s.get("/Tables").await.refused(403, "AuthenticationFailed");
    let nobody = s.call("GET", "/Tables").unsigned().send().await;
    nobody.refused(401, "AuthenticationFailed");
    assert!(nobody.header("www-authenticate").is_some());
    let token = format!("Bearer {}.{}.", base64url(r#"{"alg":"none"}"#), base64url("{}"));
    s.call("GET", "/Tables").authorization(&token).send().await.expect(200);
}

fn base64url(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

#[tokio::test]
async fn the_secondary_is_read_and_not_written() {
    let s = TestService::with_table().await;
    s.insert("p", "r", "").await.expect(201);
    let at = |method: &str, path: &str| {
        s.call(method, "").path(&format!("/devstoreaccount1-secondary{path}"))
    };
    at("GET", "/demo()").send().await.expect(200);
    let write = at("POST", "/demo").body("{}").send().await;
    assert!(write.expect(403).text().contains("Write operations are not allowed."));
    let stats = at("GET", "/?restype=service&comp=stats").send().await;
    assert!(stats.expect(200).text().contains("<Status>live</Status>"));
    let both = s.call("GET", "").path("/devstoreaccount1-secondary/devstoreaccount1/demo()");
    both.send().await.expect(200);
    let primary = s.get("/?restype=service&comp=stats").await;
    primary.refused(400, "InvalidQueryParameterValue");
}
