//! Settings files, environment variables and flags of the binary.

use std::process::Command;

use testkit::http::Request;

use crate::support::{assert_alive, binary, builder, connect, fill, in_memory, run, stderr_of};

const FROM_FILE: &str = "ZnJvbSB0aGUgc2V0dGluZ3MgZmlsZQ==";
const FROM_VARIABLE: &str = "ZnJvbSB0aGUgZW52aXJvbm1lbnQgdmFyaWFibGU=";
const FROM_FLAG: &str = "ZnJvbSB0aGUgY29tbWFuZCBsaW5lIGZsYWc=";

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    let text = format!("[account]\nkey = \"{FROM_FILE}\"\n[storage]\nmemory = true\n");
    std::fs::write(&file, text).unwrap();
    let config = file.to_str().unwrap();

    let from_file = builder().args(["--config", config]);
    assert_eq!(from_file.clone().start().unwrap().key(), FROM_FILE);
    let from_variable = from_file.env("PLANISPHERE_ACCOUNT_KEY", FROM_VARIABLE);
    assert_eq!(from_variable.clone().start().unwrap().key(), FROM_VARIABLE);
    let from_flag = from_variable.args(["--key", FROM_FLAG]);
    assert_eq!(from_flag.start().unwrap().key(), FROM_FLAG);
}

#[test]
fn the_settings_file_can_be_named_by_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    std::fs::write(&file, format!("[account]\nkey = \"{FROM_FILE}\"\n")).unwrap();
    let server = builder().args(["--memory"]).env("PLANISPHERE_CONFIG", &file).start().unwrap();
    assert_eq!(server.key(), FROM_FILE);
}

#[test]
fn the_printed_settings_can_be_used_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    std::fs::write(&file, run(&["config"]).stdout).unwrap();
    let config = file.to_str().unwrap();
    assert_alive(&builder().args(["--config", config, "--memory"]).start().unwrap());
}

#[test]
fn throughput_limits_where_it_was_asked_for_or_everywhere_or_nowhere() {
    let is_throttled = |arguments: &[&str], throughput: Option<&str>| {
        let server = in_memory(arguments);
        let mut stream = connect(&server);
        let mut post = |path: &str, kind: &str, link: &str, body: &str| {
            let request = Request::new("POST", path).signed(server.key(), kind, link);
            let request = request.header("x-ms-documentdb-partitionkey", "[\"k\"]").body(body);
            let request = match throughput.filter(|_| kind == "colls") {
                Some(throughput) => request.header("x-ms-offer-throughput", throughput),
                None => request,
            };
            request.send(&mut stream).unwrap().status
        };
        assert_eq!(post("/dbs", "dbs", "", r#"{"id":"d"}"#), 201);
        let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
        assert_eq!(post("/dbs/d/colls", "colls", "dbs/d", container), 201);
        // Each write costs more than two seconds of 400 RU/s, so even a slow machine is throttled.
        let large = "x".repeat(1_900_000);
        let statuses: Vec<u16> = (0..6)
            .map(|n| format!(r#"{{"id":"{n}","pk":"k","x":"{large}"}}"#))
            .map(|body| post("/dbs/d/colls/c/docs", "docs", "dbs/d/colls/c", &body))
            .collect();
        assert!(statuses.iter().all(|status| [201, 429].contains(status)), "{statuses:?}");
        statuses.contains(&429)
    };
    assert!(is_throttled(&[], Some("400")));
    assert!(!is_throttled(&[], None));
    assert!(is_throttled(&["--throttling", "provisioned"], Some("400")));
    assert!(is_throttled(&["--throttling", "on"], None));
    assert!(!is_throttled(&["--throttling", "off"], Some("400")));
}

#[test]
fn an_account_has_the_consistency_of_the_settings() {
    let levels = ["Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"];
    for (at, (setting, level)) in
        ["strong", "bounded-staleness", "session", "consistent-prefix", "eventual"]
            .into_iter()
            .zip(levels)
            .enumerate()
    {
        let server = in_memory(&["--consistency", setting]);
        let mut stream = connect(&server);
        let account = Request::new("GET", "/").signed(server.key(), "", "");
        let account = account.send(&mut stream).unwrap().json();
        let policy = &account["userConsistencyPolicy"];
        assert_eq!(policy["defaultConsistencyLevel"], level);
        let is_bounded = level == "BoundedStaleness";
        assert_eq!(policy["maxStalenessPrefix"].is_u64(), is_bounded, "{policy}");
        for (strength, requested) in levels.into_iter().enumerate() {
            let list = Request::new("GET", "/dbs").signed(server.key(), "dbs", "");
            let list = list.header("x-ms-consistency-level", requested).send(&mut stream).unwrap();
            let expected = if strength < at { 400 } else { 200 };
            assert_eq!(list.status, expected, "{requested} of {level}: {}", list.text());
            if strength < at {
                let text = list.text();
                assert!(text.contains(requested) && text.contains(level), "{text}");
            }
        }
        fill(&server);
        // A position that no range has reached.
        let read = Request::new("GET", "/dbs/shop/colls/orders/docs/1");
        let read = read.signed(server.key(), "docs", "dbs/shop/colls/orders/docs/1");
        let read = read.header("x-ms-documentdb-partitionkey", "[\"k1\"]");
        let read = read.header("x-ms-session-token", "0:-1#999999").send(&mut stream).unwrap();
        let honours_tokens = at <= 2;
        assert_eq!(read.status, if honours_tokens { 404 } else { 200 }, "{level}");
    }
    assert!(run(&["serve", "--help-all"]).stdout.windows(13).any(|part| part == b"--consistency"));
}

#[test]
fn mistakes_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    std::fs::write(&file, "[listen]\nnosql_prot = 1\n").unwrap();
    let cases = [
        (vec!["serve", "--config", file.to_str().unwrap()], "no key `nosql_prot`"),
        (vec!["serve", "--config", file.to_str().unwrap()], "did you mean `nosql_port`?"),
        (vec!["serve", "--nosql-port", "99999"], "`99999` is out of range; it can be 0 to 65535"),
        (vec!["serve", "--nosql-port", "-1"], "--nosql-port: `-1` is out of range"),
        (vec!["serve", "--port-offset", "60000"], "0 to 38517"),
        (vec!["serve", "--memory=false", "--ports", "auto", "--data", ""], "--data is empty"),
        (vec!["serve", "--config", "/does/not/exist.toml"], "/does/not/exist.toml"),
        (vec!["serve", "--nosql-port", "http"], "--nosql-port"),
        (vec!["serve", "--durability", "maybe"], "--durability"),
        (vec!["serve", "--consistency", "weak"], "`weak` is not known; it can be `strong`"),
        (vec!["serve", "--memory", "--ports", "auto", "--key", "short"], "--key"),
        (vec!["serve", "--memory", "--ports", "auto", "--log", "a=b=c"], "--log"),
    ];
    for (arguments, part) in cases {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = stderr_of(&output);
        assert!(said.starts_with("planisphere: ") && said.contains(part), "{said}");
    }
}

#[test]
fn misplaced_flags_and_values_are_explained() {
    for arguments in [["--memory", "serve"], ["--memory", "true"]] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr_of(&output);
        assert!(said.contains("planisphere serve --memory"), "{said}");
        assert!(said.contains("--memory=true"), "{said}");
    }
}

/// Fails to start because of an invalid setting, and returns the error.
fn refused(variables: &[(&str, &str)]) -> String {
    let arguments = ["serve", "--memory", "--ports", "auto", "--key", "short"];
    let variables = variables.iter().copied();
    let output = Command::new(binary()).args(arguments).envs(variables).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    stderr_of(&output)
}

#[test]
fn a_variable_that_is_almost_a_setting_is_refused_with_the_nearest() {
    let said = refused(&[("PLANISPHERE_ENGINE_THROTLING", "off")]);
    assert!(said.contains("PLANISPHERE_ENGINE_THROTLING is not a setting"), "{said}");
    assert!(said.contains("PLANISPHERE_ENGINE_THROTTLING"), "{said}");
}

#[test]
fn other_variables_are_warned_of_once_and_stop_nothing() {
    let others = [
        ("PLANISPHERE_BIN", "target/debug/planisphere"),
        ("PLANISPHERE_PORT", "tcp://10.0.0.1:8081"),
        ("PLANISPHERE_PORT_8081_TCP_PROTO", "tcp"),
        ("PLANISPHERE_SERVICE_HOST", "10.0.0.1"),
        ("PLANISPHERE_TABLE_PORT", "tcp://10.0.0.1:8902"),
        ("PLANISPHERE_TABLE_SERVICE_PORT_HTTP", "8902"),
        ("PLANISPHERE_LISTEN_NOSQL_PORT", "tcp://10.0.0.1:8081"),
    ];
    let server = others
        .iter()
        .fold(builder().args(["--memory"]), |builder, (name, value)| builder.env(*name, *value));
    let server = server.start().unwrap();
    assert_alive(&server);
    let said = server.stderr();
    let warnings: Vec<&str> =
        said.lines().filter(|line| line.contains("are not settings")).collect();
    let [warning] = warnings.as_slice() else { panic!("{said}") };
    for (name, _) in others {
        assert!(warning.contains(name), "{name}: {warning}");
    }
}

#[test]
fn help_shows_every_flag_when_it_is_asked_to() {
    for arguments in [&["--help-all"][..], &["serve", "--help-all"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Usage: planisphere"), "{help}");
        for (heading, flag) in [("Tables:", "--table-accounts"), ("Scripts:", "--script-threads")] {
            let below = help.split_once(&format!("\n{heading}\n")).unwrap().1;
            let group = below.split("\n\n").next().unwrap();
            assert!(group.trim_start().starts_with("--"), "{group}");
            let next = below.lines().position(|line| !line.is_empty() && !line.starts_with(' '));
            let at = below.lines().position(|line| line.trim_start().starts_with(flag));
            assert!(at.unwrap() < next.unwrap(), "{flag} is not below {heading}");
        }
    }
    let help = String::from_utf8(run(&["serve", "--help"]).stdout).unwrap();
    assert!(help.contains("--help-all") && help.contains("--port-offset"), "{help}");
    assert!(!help.contains("      --script-threads"), "{help}");
}
