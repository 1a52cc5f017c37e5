use super::*;

fn origin_policy(allowed: &[&str]) -> OriginPolicy {
    OriginPolicy {
        machine: vec!["workstation".into(), "workstation.corp.example".into()],
        public_endpoint: Origin::parse("https://db.example/"),
        allowed: allowed.iter().map(|text| AllowedHost::parse(text).unwrap()).collect(),
        trusts_any: false,
    }
}

fn request(headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().uri("/dbs");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn check(allowed: &[&str], level: OriginCheck, headers: &[(&str, &str)]) -> Result<(), String> {
    origin_policy(allowed).check(&request(headers), Scheme::Http, level, || false)
}

fn passes(level: OriginCheck, headers: &[(&str, &str)]) -> bool {
    check(&["dashboard.example", "tools.example:3000", "*.wide.example"], level, headers).is_ok()
}

#[test]
fn hosts_that_no_page_can_re_point_are_answered() {
    let host = |host: &str| passes(OriginCheck::HostAndOrigin, &[("host", host)]);
    for ours in [
        "localhost",
        "LOCALHOST:8085",
        "localhost.",
        "localhost.:8081",
        "localhost:",
        "account.table.localhost:10002",
        "localhost-westus2:8081",
        "localhost-secondary:8902",
        "127.0.0.1:8085",
        "127.1.2.3",
        "10.0.0.1:8081",
        "192.0.2.7.",
        "[::1]:8085",
        "[2001:DB8::1]",
        "[fe80::1%25eth0]:8081",
        "host.docker.internal:8081",
        "Host.Containers.Internal",
        "db.example:1",
        "workstation:8081",
        "WORKSTATION.corp.example",
        "dashboard.example:9",
        "tools.example:3000",
        "a.wide.example",
    ] {
        assert!(host(ours), "{ours}");
    }
    for other in [
        "",
        ":8081",
        "evil.example",
        "127.0.0.1.evil.example:8085",
        "localhost.evil",
        "localhost-west.evil.example",
        "localhost-",
        "localhostile",
        "evil-localhost",
        "host.docker.internal.evil.example",
        "workstation.evil.example",
        "tools.example:3001",
        "tools.example",
        "wide.example",
        "evilwide.example",
        "localhost:99999",
        "localhost:8081:8081",
        "user@localhost",
        "evil@localhost b",
        "[localhost]",
        "[::1",
        "::1",
        "127.0.0.1/",
    ] {
        assert!(!host(other), "{other}");
    }
    assert!(!passes(OriginCheck::HostAndOrigin, &[]));
    let two = [("host", "localhost"), ("host", "evil.example")];
    assert!(!passes(OriginCheck::HostAndOrigin, &two));
}

#[test]
fn with_keys_of_ones_own_the_host_does_not_matter() {
    assert!(passes(OriginCheck::Origin, &[("host", "db.internal:8085")]));
    assert!(passes(OriginCheck::Origin, &[]));
    let elsewhere = [("host", "db.internal"), ("origin", "http://evil.example")];
    assert!(!passes(OriginCheck::Origin, &elsewhere));
}

#[test]
fn pages_of_other_sites_are_refused_however_the_browser_says_it() {
    for level in [OriginCheck::Origin, OriginCheck::HostAndOrigin] {
        let from =
            |name: &str, value: &str| passes(level, &[("host", "localhost:8085"), (name, value)]);
        for own in [
            "http://localhost:8085",
            "https://LOCALHOST:8085",
            "https://db.example",
            "https://db.example:443",
            "http://dashboard.example",
            "https://dashboard.example:8443",
            "http://tools.example:3000",
            "https://x.wide.example",
        ] {
            assert!(from("origin", own), "{own}");
        }
        assert!(from("referer", "http://localhost:8085/a/page?x=1"));
        assert!(from("referer", "https://dashboard.example/page"));
        assert!(from("sec-fetch-site", "same-origin") && from("sec-fetch-site", "none"));
        for origin in [
            "http://evil.example",
            "http://localhost:3000",
            "http://127.0.0.1:8085",
            "http://localhost",
            "http://db.example",
            "http://tools.example:3001",
            "null",
            "",
            "file://",
            "chrome-extension://abcdefgh",
        ] {
            assert!(!from("origin", origin), "{origin}");
        }
        assert!(!from("referer", "http://evil.example/localhost:8085"));
        assert!(!from("sec-fetch-site", "cross-site") && !from("sec-fetch-site", "same-site"));
    }
}

#[test]
fn every_mark_of_a_browser_must_fit() {
    let own = ("host", "localhost:8085");
    let check = |marks: &[(&str, &str)]| {
        let headers: Vec<_> = std::iter::once(own).chain(marks.iter().copied()).collect();
        passes(OriginCheck::HostAndOrigin, &headers)
    };
    let page = ("origin", "http://localhost:8085");
    assert!(check(&[page, ("sec-fetch-site", "same-origin")]));
    assert!(!check(&[page, ("sec-fetch-site", "cross-site")]));
    assert!(!check(&[page, ("origin", "http://evil.example")]));
    assert!(!check(&[page, ("referer", "http://evil.example/")]));
    // For the browser an allowed origin is another site.
    let allowed = ("origin", "http://dashboard.example");
    assert!(check(&[
        allowed,
        ("sec-fetch-site", "cross-site"),
        ("referer", "http://dashboard.example/")
    ]));
    assert!(check(&[("sec-fetch-site", "cross-site"), ("referer", "http://dashboard.example/")]));
}

#[test]
fn ports_that_are_not_written_are_those_of_the_scheme() {
    let own = |host: &str, scheme, origin: &str| {
        let request = request(&[("host", host), ("origin", origin)]);
        origin_policy(&[]).check(&request, scheme, OriginCheck::HostAndOrigin, || false).is_ok()
    };
    assert!(own("localhost", Scheme::Http, "http://localhost:80"));
    assert!(own("localhost:443", Scheme::Https, "https://localhost"));
    assert!(own("[::1]:8081", Scheme::Http, "http://[::1]:8081"));
    assert!(!own("localhost:8081", Scheme::Http, "http://localhost"));
    assert!(!own("localhost:443", Scheme::Https, "http://localhost"));
    assert!(own("localhost", Scheme::Https, "https://localhost"));
    // A page of another server, on the other scheme's port.
    assert!(!own("localhost", Scheme::Http, "https://localhost"));
    assert!(!own("localhost", Scheme::Https, "http://localhost"));
}

#[test]
fn a_port_that_is_allowed_is_meant_where_it_is_not_written() {
    let allowed = ["app.example:443", "old.example:80", "dev.example:3000"];
    let page = |origin: &str| {
        let headers = [("host", "localhost:8081"), ("origin", origin)];
        check(&allowed, OriginCheck::HostAndOrigin, &headers).is_ok()
    };
    let host = |host: &str| check(&allowed, OriginCheck::HostAndOrigin, &[("host", host)]).is_ok();
    assert!(page("https://app.example") && page("https://app.example:443"));
    assert!(page("http://old.example") && page("http://dev.example:3000"));
    assert!(!page("http://app.example") && !page("https://old.example"));
    assert!(!page("https://app.example:8443") && !page("http://dev.example"));
    assert!(host("app.example") && host("app.example:443") && host("old.example"));
    assert!(!host("app.example:80") && !host("dev.example"));
}

#[test]
fn two_origins_are_refused_whatever_the_first_is() {
    for first in ["http://localhost:8081", "http://dashboard.example"] {
        let headers = [("host", "localhost:8081"), ("origin", first), ("origin", "http://evil.x")];
        assert!(!passes(OriginCheck::HostAndOrigin, &headers), "{first}");
        let allowed = origin_policy(&["dashboard.example"]);
        let refused =
            allowed.check(&request(&headers), Scheme::Http, OriginCheck::HostAndOrigin, || true);
        assert!(refused.is_err(), "{first}");
        assert_eq!(allowed.allowed_origin(request(&headers).headers()), None);
    }
}

#[test]
fn a_rule_of_the_api_lets_origins_in_and_no_hosts() {
    let request = |host| request(&[("host", host), ("origin", "http://app.example")]);
    let check = |host, is_allowed| {
        let level = OriginCheck::HostAndOrigin;
        origin_policy(&[]).check(&request(host), Scheme::Http, level, || is_allowed).is_ok()
    };
    assert!(check("localhost:10002", true));
    assert!(!check("localhost:10002", false));
    assert!(!check("evil.example", true));
}

#[test]
fn refusals_name_the_flag_with_its_value() {
    let says = |headers: &[(&str, &str)], part: &str| {
        let refusal = check(&[], OriginCheck::HostAndOrigin, headers).unwrap_err();
        assert!(refusal.contains(part), "{part} in {refusal}");
    };
    says(&[("host", "planisphere:8081")], "'planisphere:8081'");
    says(&[("host", "planisphere:8081")], "--allow-host planisphere,");
    says(&[("host", "a b")], "--allow-host NAME");
    says(&[], "--allow-host");
    let own = ("host", "localhost");
    says(&[own, ("origin", "http://localhost:3000")], "--allow-host localhost:3000");
    says(&[own, ("origin", "null")], "--allow-host NAME");
    says(&[own, ("sec-fetch-site", "cross-site")], "--allow-host NAME");
    let long = format!("{}.example", "a".repeat(5000));
    let refusal = check(&[], OriginCheck::HostAndOrigin, &[("host", &long)]).unwrap_err();
    assert!(refusal.len() < 1000, "{refusal}");
}

#[test]
fn values_of_the_flag_are_hosts() {
    for good in
        ["db", "db.example", "DB.Example:3000", "10.0.0.1", "::1", "[::1]:80", "*.x.example"]
    {
        assert!(AllowedHost::parse(good).is_ok(), "{good}");
    }
    for bad in ["", "*", "http://db.example", "db/x", "db:x", "a b", "*.", "db.*"] {
        assert!(AllowedHost::parse(bad).is_err(), "{bad}");
    }
}
