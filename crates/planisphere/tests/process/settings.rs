//! Settings files, environment variables and flags, as the binary takes them.

use testkit::http::Request;

use crate::support::{assert_alive, builder, connect, in_memory, run, stderr_of};

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
fn throttling_is_on_and_can_be_turned_off() {
    let is_throttled = |arguments: &[&str]| {
        let server = in_memory(arguments);
        let mut stream = connect(&server);
        let mut post = |path: &str, kind: &str, link: &str, body: &str| {
            let request = Request::new("POST", path).signed(server.key(), kind, link);
            let request = request.header("x-ms-documentdb-partitionkey", "[\"k\"]").body(body);
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
    assert!(is_throttled(&[]));
    assert!(!is_throttled(&["--throttling", "off"]));
}

#[test]
fn mistakes_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    std::fs::write(&file, "[listen]\nnosql_prot = 1\n").unwrap();
    let cases = [
        (vec!["serve", "--config", file.to_str().unwrap()], "no key `nosql_prot`"),
        (vec!["serve", "--config", "/does/not/exist.toml"], "/does/not/exist.toml"),
        (vec!["serve", "--nosql-port", "http"], "--nosql-port"),
        (vec!["serve", "--durability", "maybe"], "--durability"),
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
