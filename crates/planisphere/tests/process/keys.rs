//! Account keys, on and off loopback.

use std::process::{Command, Stdio};

use testkit::http::{Request, Response};
use testkit::server::TestServer;

use crate::support::{ask_admin, binary, builder, in_memory, read_account, run, stderr_of};

const WELL_KNOWN: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const MINE: &str = "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l";

#[test]
fn loopback_has_the_well_known_key() {
    let server = in_memory(&[]);
    assert_eq!(server.key(), WELL_KNOWN);
    assert_eq!(read_account(&server, WELL_KNOWN).status, 200);
    assert_eq!(read_account(&server, MINE).status, 401);
}

#[test]
fn a_key_of_ones_own_replaces_it() {
    let server = in_memory(&["--key", MINE]);
    assert_eq!(read_account(&server, MINE).status, 200);
    assert_eq!(read_account(&server, WELL_KNOWN).status, 401);
}

#[test]
fn the_well_known_key_is_refused_off_loopback() {
    let output =
        run(&["serve", "--memory", "--ports", "auto", "--bind", "0.0.0.0", "--key", WELL_KNOWN]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains("well-known") && said.contains("--key-file"), "{said}");
}

#[test]
fn off_loopback_a_key_is_made_kept_and_private() {
    let mut server = builder().args(["--bind", "0.0.0.0"]).start().unwrap();
    let key = server.key().to_owned();
    assert_ne!(key, WELL_KNOWN);
    assert_eq!(read_account(&server, &key).status, 200);
    assert_eq!(read_account(&server, WELL_KNOWN).status, 401);
    let file = server.data_dir().join("account.key");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), key);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    server.restart().unwrap();
    assert_eq!(server.key(), key);
}

#[test]
fn a_generated_key_is_shown_once() {
    let dir = tempfile::tempdir().unwrap();
    let banner = || {
        let mut child = Command::new(binary())
            .args(["serve", "--ports", "auto", "--bind", "0.0.0.0", "--data"])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut banner = String::new();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
        while !banner.contains("Ctrl-C") {
            assert_ne!(std::io::BufRead::read_line(&mut lines, &mut banner).unwrap(), 0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        banner
    };
    let first = banner();
    let key = std::fs::read_to_string(dir.path().join("account.key")).unwrap();
    assert!(first.contains(&key), "{first}");
    let second = banner();
    assert!(!second.contains(&key) && second.contains("account.key"), "{second}");
}

#[test]
fn a_readonly_key_reads_and_does_not_write() {
    let server = in_memory(&["--readonly-key", MINE]);
    assert_eq!(read_account(&server, MINE).status, 200);
    let create = Request::new("POST", "/dbs")
        .signed(MINE, "dbs", "")
        .header("content-type", "application/json")
        .body(r#"{"id":"x"}"#);
    assert_eq!(create.send(&mut server.connect().unwrap()).unwrap().status, 403);
}

fn short_fingerprint(key: &str) -> String {
    account::Key::parse(key).unwrap().short_fingerprint()
}

/// Requests a new key on the admin port, with or without a key of the account.
fn regenerate(server: &TestServer, kind: &str, key: Option<&str>) -> Response {
    let mut request = Request::new("POST", "/_admin/v1/keys/regenerate");
    if let Some(key) = key {
        request = request.header("authorization", &format!("Bearer {key}"));
    }
    let body = serde_json::json!({"keyKind": kind}).to_string();
    ask_admin(server, &request.header("content-type", "application/json").body(body))
}

#[test]
fn keys_are_replaced_while_the_server_runs_and_stay_replaced() {
    let mut server = builder().args(["--secondary-key", MINE]).start().unwrap();
    assert_eq!(regenerate(&server, "tertiary", None).status, 400);
    let answer = regenerate(&server, "primary", None);
    assert_eq!((answer.status, &answer.json()["kept"]), (200, &true.into()));
    let primary = answer.json()["key"].as_str().unwrap().to_owned();
    let statuses = |server: &TestServer, keys: &[&str]| -> Vec<u16> {
        keys.iter().map(|key| read_account(server, key).status).collect()
    };
    assert_eq!(statuses(&server, &[WELL_KNOWN, &primary, MINE]), [401, 200, 200]);
    // Being on this machine is no longer enough.
    assert_eq!(regenerate(&server, "secondary", None).status, 401);
    let refused = regenerate(&server, "secondary", Some(WELL_KNOWN));
    let (fingerprint, text) = (short_fingerprint(&primary), refused.text());
    assert_eq!((refused.status, text.contains(&fingerprint)), (401, true), "{text}");
    let answer = regenerate(&server, "SECONDARY", Some(&primary));
    let secondary = answer.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(statuses(&server, &[&primary, &secondary, MINE]), [200, 200, 401]);
    let answer = regenerate(&server, "primaryReadonly", Some(&secondary));
    let readonly = answer.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(statuses(&server, &[&readonly]), [200]);
    assert_eq!(regenerate(&server, "primary", Some(&readonly)).status, 403);

    let list = Request::new("GET", "/_admin/v1/keys")
        .header("authorization", &format!("Bearer {readonly}"));
    let list = ask_admin(&server, &list);
    assert_eq!(list.json()["keys"][0]["wellKnown"], false);
    for key in [&primary, &secondary, &readonly] {
        assert!(!list.text().contains(key.as_str()));
    }

    server.restart().unwrap();
    assert_eq!(server.key(), primary);
    assert_eq!(
        statuses(&server, &[WELL_KNOWN, &primary, MINE, &secondary, &readonly]),
        [401, 200, 401, 200, 200]
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = std::fs::metadata(server.data_dir().join("account.keys")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn the_command_line_shows_and_replaces_keys() {
    let server = builder().start().unwrap();
    let data = server.data_dir();
    let data = data.to_str().unwrap();
    let said = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{}", stderr_of(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = said(&["keys", "show", "--data", data]);
    assert!(shown.contains("primary") && shown.contains("well-known key"), "{shown}");
    let told = said(&["keys", "regenerate", "primary", "--data", data, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let key = told["key"].as_str().unwrap();
    assert_eq!(read_account(&server, key).status, 200);
    // It reads the new key from the server's data directory.
    let shown = said(&["keys", "show", "--data", data]);
    assert!(shown.contains("fingerprint") && !shown.contains("well-known"), "{shown}");
    assert!(!shown.contains(key));
    let refused = stderr_of(&run(&["keys", "show", "--data", data, "--key", MINE]));
    assert!(refused.contains(&short_fingerprint(key)), "{refused}");
    assert_eq!(run(&["keys", "regenerate", "other", "--data", data]).status.code(), Some(2));
}
