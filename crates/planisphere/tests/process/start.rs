//! The start: its output, and its errors.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::http::Request;
use testkit::server::{Ready, TestServer};

use crate::support::{assert_alive, binary, builder, get, in_memory, run, stderr_of};

#[test]
fn the_ready_line_is_all_that_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(binary())
        .args(["serve", "--ports", "auto", "--ready-json", "--data"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let ready = Ready::parse(&line).unwrap();
    assert_eq!(ready.pid, child.id());
    let mut stream = TcpStream::connect(ready.address).unwrap();
    assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);

    child.kill().unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert_eq!((rest.as_str(), said.as_str()), ("", ""));
}

#[test]
fn people_get_a_banner_with_an_endpoint_that_answers() {
    let mut child = Command::new(binary())
        .args(["--memory", "--ports", "auto"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut banner = Vec::new();
    for line in lines {
        let last = line.contains("Ctrl-C");
        banner.push(line);
        if last {
            break;
        }
    }
    let banner = banner.join("\n");
    let address = banner.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(Request::new("GET", "/healthz").send(&mut stream).unwrap().status, 200);
    assert!(banner.contains("AccountEndpoint=http://"), "{banner}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_taken_port_is_an_error_that_names_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["serve", "--memory", "--nosql-port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains(&port) && said.contains("--nosql-port"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_data_directory_in_use_is_an_error_that_names_the_owner() {
    let server = TestServer::start(binary()).unwrap();
    let error = builder().data_dir(server.data_dir()).start().err().unwrap().to_string();
    assert!(error.contains(&format!("process {}", server.pid())), "{error}");
    assert!(error.contains(server.endpoint()) && error.contains("--data"), "{error}");
    assert_alive(&server);
}

#[test]
fn a_data_directory_that_is_a_file_is_an_error_that_names_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for data in [file.path().to_owned(), file.path().join("below")] {
        let error = builder().data_dir(data).start().err().unwrap().to_string();
        assert!(error.contains(&format!("{} is a file", file.path().display())), "{error}");
        assert!(error.contains("--data") && !error.contains("os error"), "{error}");
    }
}

#[test]
fn a_directory_of_others_is_refused_unless_forced() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    let error = builder().data_dir(dir.path()).start().err().unwrap().to_string();
    assert!(error.contains("thesis.txt") && error.contains("--data-force"), "{error}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(left.len(), 1, "{left:?}");

    let forced = builder().data_dir(dir.path()).args(["--data-force"]).start().unwrap();
    assert_alive(&forced);
    drop(forced);
    // A directory with a store is not taken for a foreign one.
    assert_alive(&builder().data_dir(dir.path()).start().unwrap());
}

#[test]
fn a_directory_that_was_prepared_or_emptied_is_used() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["lost+found", "tls"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    for name in [".DS_Store", ".gitkeep"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    let key = "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l";
    std::fs::write(dir.path().join("account.key"), key).unwrap();
    assert_alive(&builder().data_dir(dir.path()).start().unwrap());
}

#[test]
fn data_outlives_a_crash_of_the_process() {
    let mut server = TestServer::start(binary()).unwrap();
    let create = Request::new("POST", "/dbs")
        .signed(server.key(), "dbs", "")
        .header("content-type", "application/json")
        .body(r#"{"id":"kept"}"#);
    assert_eq!(create.send(&mut server.connect().unwrap()).unwrap().status, 201);
    let endpoint = server.endpoint().to_owned();
    server.restart().unwrap();
    assert_eq!(server.endpoint(), endpoint);
    let read = Request::new("GET", "/dbs/kept").signed(server.key(), "dbs", "dbs/kept");
    assert_eq!(read.send(&mut server.connect().unwrap()).unwrap().status, 200);
}

#[test]
fn in_memory_nothing_is_written() {
    let server = in_memory(&[]);
    assert_eq!(get(&server, "/_explorer/emulator.pem").status, 200);
    assert!(!server.data_dir().exists());
}

#[test]
fn the_second_port_answers_too_when_one_is_chosen() {
    // A port can be taken between the check and its use; several in a row are unlikely to be.
    let answered = (0..5).any(|_| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = in_memory(&["--nosql-second-port", &port.to_string()]);
        assert_alive(&server);
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            return false;
        };
        Request::new("GET", "/ready").send(&mut stream).is_ok_and(|reply| reply.status == 200)
    });
    assert!(answered);
}

/// A taken port, and the offset that moves a default port onto it.
fn taken_by_offset(default: u16) -> (TcpListener, String) {
    loop {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        // The highest of the default ports must stay below 65536.
        if (default..=64_000).contains(&port) {
            return (taken, (port - default).to_string());
        }
    }
}

/// Starts a server on moved ports and returns it with its ready line.
fn start_moved(arguments: &[&str], data: &std::path::Path) -> (Child, Value) {
    let mut child = Command::new(binary())
        .args(["serve", "--nosql-port", "0", "--ready-json", "--data"])
        .arg(data)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

#[test]
fn a_taken_default_port_of_a_further_api_does_not_end_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (taken, offset) = taken_by_offset(8902);
    let port = taken.local_addr().unwrap().port().to_string();
    let (mut child, ready) = start_moved(&["--port-offset", &offset], &dir.path().join("data"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["endpoints"].get("table"), Some(&Value::Null), "{ready}");
    let reason = ready["off"]["table"].as_str().unwrap();
    assert!(reason.contains(&port) && reason.contains("--table-port"), "{reason}");

    // The same port is fatal if it was requested.
    let output = run(&["serve", "--memory", "--ports", "auto", "--table-port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains(&port) && said.contains("--table-port"), "{said}");
}

#[test]
fn commands_find_a_server_whose_admin_port_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (_taken, offset) = taken_by_offset(8085);
    let (mut child, ready) = start_moved(&["--port-offset", &offset], &data);
    let output = run(&["keys", "show", "--data", data.to_str().unwrap()]);
    let nosql = ready["endpoints"]["nosql"].as_str().unwrap();
    let address = nosql.trim_start_matches("http://").trim_end_matches('/');
    let ask = |path| Request::new("GET", path).send(&mut TcpStream::connect(address).unwrap());
    let (page, metrics) = (ask("/_explorer/").unwrap().text(), ask("/metrics").unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ready["endpoints"].get("admin"), Some(&Value::Null), "{ready}");
    let reason = ready["off"]["admin"].as_str().unwrap();
    assert!(reason.contains("--admin-port"), "{ready}");
    assert!(output.status.success(), "{}", stderr_of(&output));
    // The page shows the actual address, and the reason.
    let (admin, off) = (format!("{nosql}_admin/v1<"), format!("off: {reason}"));
    for part in [admin.as_str(), &format!("{nosql}metrics<"), &off] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_ne!(metrics.status, 404);
}

#[test]
fn a_taken_second_port_is_an_error_when_it_was_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["serve", "--memory", "--ports", "auto", "--nosql-second-port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains("--nosql-second-port") && said.contains(&port), "{said}");
}

#[test]
fn who_lets_the_server_find_ports_is_not_told_to() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (flag, ports) in
        [("--nosql-port", "auto"), ("--table-port", "auto"), ("--nosql-port", "fixed")]
    {
        let output = run(&["serve", "--memory", "--ports", ports, flag, &port]);
        let said = stderr_of(&output);
        assert!(said.contains(&port) && said.contains(&format!("{flag} N")), "{said}");
        let is_asked_for = ports == "auto";
        assert_eq!(said.contains("leave that out, and --ports auto"), is_asked_for, "{said}");
        assert_eq!(said.contains("with --ports auto"), !is_asked_for, "{said}");
        assert!(!is_asked_for || !said.contains("--port-offset"), "{said}");
    }
}

#[test]
fn health_is_told_without_a_key_and_everything_else_is_not() {
    let server = in_memory(&[]);
    let health = get(&server, "/healthz");
    assert_eq!(health.status, 200);
    assert_eq!(health.json()["status"], "ok");
    assert_eq!(get(&server, "/").status, 401);
    assert_eq!(get(&server, "/dbs").status, 401);
}

#[test]
fn the_version_and_help_are_printed() {
    let version = run(&["--version"]);
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("planisphere {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = String::from_utf8(run(&["serve", "--help"]).stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("PLANISPHERE_LISTEN_NOSQL_PORT"));
    let mistaken = run(&["serve", "--nosqlport", "1"]);
    assert_eq!(mistaken.status.code(), Some(2));
    assert!(stderr_of(&mistaken).contains("--nosql-port"), "{}", stderr_of(&mistaken));
}
