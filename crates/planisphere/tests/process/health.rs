//! `planisphere health`.

use std::process::{Command, Stdio};

use crate::commands::{json_of, on, said};
use crate::support::{binary, builder, in_memory, run, stderr_of};

#[test]
fn a_server_that_serves_is_well() {
    let server = in_memory(&["--key", "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l"]);
    // The command has no key here, and needs none.
    assert!(said(&on(&server, &["health"])).contains("is ready"));
    let shown = json_of(&on(&server, &["health", "--json"]));
    assert_eq!((&shown["ready"], &shown["status"]), (&true.into(), &"ok".into()));
    assert_eq!(shown["store"]["writable"], true);
    let nosql = run(&["health", "--endpoint", server.endpoint()]);
    assert!(said(&nosql).contains(server.endpoint()));
}

#[test]
fn a_server_that_is_not_there_is_not_well() {
    let absent = run(&["health", "--endpoint", "http://127.0.0.1:1"]);
    assert_eq!((absent.status.code(), absent.stdout.len()), (Some(1), 0));
    assert!(stderr_of(&absent).contains("no server answers"), "{}", stderr_of(&absent));
    let absent = run(&["health", "--endpoint", "http://127.0.0.1:1", "--wait", "1", "--json"]);
    assert_eq!(absent.status.code(), Some(1));
    let shown: serde_json::Value = serde_json::from_slice(&absent.stdout).unwrap();
    assert_eq!(shown["ready"], false);
    for arguments in [["health", "--wait", "soon"], ["health", "--wait", "-1"]] {
        assert_eq!(run(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the other program is a thread")]
fn another_program_is_not_taken_for_a_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
    });
    let health = run(&["health", "--endpoint", &format!("127.0.0.1:{port}")]);
    assert_eq!(health.status.code(), Some(1));
    assert!(stderr_of(&health).contains("not a Planisphere server"), "{}", stderr_of(&health));
    other.join().unwrap();
}

#[test]
fn a_server_that_is_being_started_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut waiting = Command::new(binary())
        .args(["health", "--wait", "60", "--data", data.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let server = builder().data_dir(&data).start().unwrap();
    assert!(waiting.wait().unwrap().success());
    drop(server);
}
