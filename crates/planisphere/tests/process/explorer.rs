//! The page at `/_explorer/`.

use std::io::Write;

use testkit::http::Request;

use crate::support::{connect, get, in_memory, read_until_closed};

const MINE: &str = "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l";

#[test]
fn the_page_says_what_there_is() {
    let server = in_memory(&[]);
    let admin = format!("http://{}/_admin/v1", server.ready().admin.unwrap());
    for path in ["/_explorer/", "/_explorer", "/_explorer/index.html"] {
        let page = get(&server, path);
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8"))
        );
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(page.header("access-control-allow-origin"), None);
        let text = page.text();
        for part in [server.endpoint(), &admin, server.key(), "planisphere db create"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        // The page loads nothing from elsewhere and runs nothing.
        assert!(!text.contains("src=") && !text.contains("<script") && !text.contains("@import"));
    }
}

#[test]
fn a_key_of_its_own_is_not_on_the_page() {
    let server = in_memory(&["--key", MINE]);
    let text = get(&server, "/_explorer/").text();
    assert!(text.contains(server.endpoint()) && !text.contains(MINE), "{text}");
    assert!(!text.contains("C2y6yDjf5"), "the well-known key is not that of this account: {text}");
}

#[test]
fn the_page_takes_get_alone_and_is_on_the_nosql_port_alone() {
    let server = in_memory(&[]);
    let page = |method| Request::new(method, "/_explorer/");
    let refused = page("POST").send(&mut connect(&server)).unwrap();
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    let mut stream = connect(&server);
    let head = "HEAD /_explorer/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let head = String::from_utf8(read_until_closed(&mut stream)).unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    let elsewhere = page("GET").send(&mut server.connect_admin().unwrap()).unwrap();
    assert_eq!(elsewhere.status, 404);
}
