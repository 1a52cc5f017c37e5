//! Properties of the service, and CORS.

use crate::support::TestService;

const PROPERTIES: &str = "/?restype=service&comp=properties";

fn cors(origins: &str) -> String {
    format!(
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>{origins}</AllowedOrigins>\
         <AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders>\
         <ExposedHeaders>etag</ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule>\
         </Cors></StorageServiceProperties>"
    )
}

#[tokio::test]
async fn properties_are_kept() {
    let s = TestService::storage();
    let before = s.get(PROPERTIES).await;
    assert!(before.expect(200).text().contains("<Read>false</Read>"));
    let logging = "<StorageServiceProperties><Logging><Version>1.0</Version><Read>true</Read><Write>\
        false</Write><Delete>true</Delete><RetentionPolicy><Enabled>true</Enabled><Days>7</Days>\
        </RetentionPolicy></Logging></StorageServiceProperties>";
    s.call("PUT", PROPERTIES).body(logging).send().await.expect(202);
    s.call("PUT", PROPERTIES).body(cors("*")).send().await.expect(202);
    let after = s.get(PROPERTIES).await.text();
    assert!(after.contains("<Read>true</Read>") && after.contains("<Days>7</Days>"), "{after}");
    assert!(after.contains("<AllowedOrigins>*</AllowedOrigins>"), "{after}");
    let wrong = logging.replace(">7<", ">366<");
    s.call("PUT", PROPERTIES).body(wrong).send().await.refused(400, "InvalidXmlDocument");
    s.call("PUT", PROPERTIES).body("<x/>").send().await.refused(400, "InvalidXmlDocument");
    s.get("/?restype=service").await.refused(400, "InvalidQueryParameterValue");
}

#[tokio::test]
async fn browsers_are_told_what_rules_say() {
    let s = TestService::with_table().await;
    let ask = |origin: &str, method: &str| {
        let call = s.call("OPTIONS", "/demo()").unsigned().header("origin", origin);
        call.header("access-control-request-method", method).send()
    };
    ask("http://a.test", "GET").await.refused(403, "CorsPreflightFailure");
    s.call("PUT", PROPERTIES).body(cors("http://a.test")).send().await.expect(202);
    let allowed = ask("http://a.test", "GET").await;
    assert_eq!(allowed.expect(200).header("access-control-allow-origin"), Some("http://a.test"));
    assert_eq!(allowed.header("access-control-max-age"), Some("5"));
    ask("http://b.test", "GET").await.refused(403, "CorsPreflightFailure");
    ask("http://a.test", "DELETE").await.refused(403, "CorsPreflightFailure");
    let read = s.call("GET", "/demo()").header("origin", "http://a.test").send().await;
    assert_eq!(read.header("access-control-allow-origin"), Some("http://a.test"));
    assert_eq!(read.header("access-control-expose-headers"), Some("etag"));
    let other = s.call("GET", "/demo()").header("origin", "http://b.test").send().await;
    assert_eq!(other.expect(200).header("access-control-allow-origin"), None);
    assert_eq!(s.get("/demo()").await.header("access-control-allow-origin"), None);
}
