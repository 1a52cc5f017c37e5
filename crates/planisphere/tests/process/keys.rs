//! Account keys, on and off loopback.

use std::process::{Command, Stdio};

use crate::support::{binary, builder, in_memory, read_account, run, stderr_of};

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
    let create = testkit::http::Request::new("POST", "/dbs")
        .signed(MINE, "dbs", "")
        .header("content-type", "application/json")
        .body(r#"{"id":"x"}"#);
    assert_eq!(create.send(&mut server.connect().unwrap()).unwrap().status, 403);
}
