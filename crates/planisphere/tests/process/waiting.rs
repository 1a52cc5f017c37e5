//! Commands that poll: on one connection, at a reasonable rate, and in spite of a few failures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::support::{binary, stderr_of};

/// The simulated server's response to one request; `None` closes the connection instead.
type Answer = Option<Value>;

/// A simulated server that gives these answers. The handle returns the number of connections.
#[expect(clippy::disallowed_methods, reason = "the commands run in real time")]
fn pretend(mut answers: Vec<Answer>) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    answers.reverse();
    let serve = move || {
        let mut connections = 0;
        while !answers.is_empty() {
            let (stream, _) = listener.accept().unwrap();
            connections += 1;
            serve(&stream, &mut answers);
        }
        connections
    };
    (endpoint, std::thread::spawn(serve))
}

/// Answers requests until either side closes the connection.
fn serve(mut stream: &TcpStream, answers: &mut Vec<Answer>) {
    let mut lines = BufReader::new(stream);
    while !answers.is_empty() {
        let mut body_bytes = 0;
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.to_ascii_lowercase();
            match line.trim_end().strip_prefix("content-length: ") {
                Some(length) => body_bytes = length.parse().unwrap(),
                None if line.trim_end().is_empty() => break,
                None => {}
            }
        }
        lines.read_exact(&mut vec![0; body_bytes]).unwrap();
        let Some(Some(answer)) = answers.pop() else { return };
        let answer = answer.to_string();
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        stream.write_all(reply.as_bytes()).unwrap();
    }
}

fn job(phase: &str, progress: f64) -> Answer {
    let mut job = json!({
        "id": 7, "kind": "split", "reason": "asked", "manual": false, "phase": phase,
        "paused": false, "sources": ["0"], "children": ["1", "2"], "rowsCopied": 0,
        "bytesCopied": 0, "progress": progress, "started": 1,
    });
    if phase == "succeeded" {
        job["tookMs"] = json!(1200.0);
        job["heldMs"] = json!(1.0);
    }
    Some(job)
}

fn ask(endpoint: &str, arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).args(["--endpoint", endpoint]).output().unwrap()
}

#[test]
fn a_split_is_waited_for_on_one_connection() {
    let (endpoint, server) = pretend(vec![
        job("preparing", 0.0),
        job("preparing", 0.2),
        job("preparing", 0.21),
        job("preparing", 0.6),
        job("succeeded", 1.0),
    ]);
    let output = ask(&endpoint, &["partitions", "split", "shop/orders", "0"]);
    assert_eq!(server.join().unwrap(), 1);
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(said, "Split partition 0 into 1 and 2 in 1.2 s; writers were blocked for 1.0 ms.\n");
    assert_eq!(
        stderr_of(&output),
        "Splitting partition 0 into 1 and 2: job 7 is running; Ctrl-C stops waiting, the job \
         continues.\n  copying, 20%\n  copying, 60%\n"
    );
}

#[test]
fn waiting_goes_on_when_the_server_does_not_answer_once() {
    let (endpoint, server) =
        pretend(vec![job("preparing", 0.0), None, None, job("succeeded", 1.0)]);
    let output = ask(&endpoint, &["partitions", "split", "shop/orders", "0", "--json"]);
    assert_eq!(server.join().unwrap(), 3);
    assert!(output.status.success(), "{}", stderr_of(&output));
    assert_eq!(stderr_of(&output).matches("trying again").count(), 2, "{}", stderr_of(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["phase"], "succeeded");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_waiting_but_not_the_job() {
    // The job never ends, so the command does not wait for it.
    let answers = std::iter::repeat_with(|| job("preparing", 0.2)).take(10_000);
    let (endpoint, _server) = pretend(answers.collect());
    let mut waiting = Command::new(binary())
        .args(["partitions", "split", "shop/orders", "0", "--endpoint", &endpoint])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("job 7"));
    assert!(lines.next().unwrap().unwrap().contains("20%"));
    let pid = rustix::process::Pid::from_raw(i32::try_from(waiting.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(1));
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.contains("job 7 continues")), "{rest:?}");
}

#[test]
fn watching_goes_on_when_the_server_does_not_answer_once() {
    let shown = || {
        Some(json!({
            "container": {"database": "shop", "id": "orders", "rid": "x", "partitionKey": ["/pk"],
                          "partitions": 0, "bytes": 0, "items": 0, "skew": 1.0,
                          "throughput": {"mode": "none"}},
            "limits": {"partitionBytesMax": 1, "logicalPartitionBytesMax": 1, "partitionRuMax": 1},
            "partitions": [], "jobs": [],
        }))
    };
    let jobs = || Some(json!({"jobs": []}));
    let (endpoint, server) = pretend(vec![shown(), jobs(), None, shown(), jobs()]);
    let output = ask(&endpoint, &["partitions", "watch", "shop/orders", "--count", "2"]);
    assert_eq!(server.join().unwrap(), 2);
    assert!(output.status.success(), "{}", stderr_of(&output));
    assert_eq!(stderr_of(&output).matches("trying again").count(), 1, "{}", stderr_of(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.matches("shop/orders").count(), 2, "{said}");
}

#[test]
fn watching_does_not_wait_for_a_server_that_never_answered() {
    let (endpoint, server) = pretend(vec![None]);
    let output = ask(&endpoint, &["partitions", "watch", "shop/orders"]);
    server.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
