//! A disk that gets full under a server and has room again.
//!
//! The first test needs its own small file system, which only root may mount; the engine's tests do
//! the same with a simulated disk. In the second test writes fail permanently because of a limit on
//! the size of files, which the server cannot foresee.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use testkit::http::{Request, Response};
use testkit::server::{ServerBuilder, TestServer};

use crate::support::{TIMEOUT, binary, builder, connect, fill, get};

/// The server requires a third of it to be free, some 21 MB.
const SIZE: &str = "size=64m";

struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(&at);
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(at))
    }

    /// Leaves so many bytes free.
    fn leave(&self, bytes: u64) {
        let ballast = self.0.join("ballast");
        let _ = fs::remove_file(&ballast);
        let free = {
            let disk = rustix::fs::statvfs(&self.0).unwrap();
            disk.f_bavail * disk.f_frsize
        };
        let taken = rustix::fs::fallocate(
            File::create(&ballast).unwrap(),
            rustix::fs::FallocateFlags::empty(),
            0,
            free - bytes,
        );
        taken.unwrap();
    }

    fn clear(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn item(server: &TestServer, method: &'static str, path: &str, link: &str, key: &str) -> Response {
    let request = Request::new(method, path).signed(server.key(), "docs", link);
    let request = request.header("x-ms-documentdb-partitionkey", &format!("[\"{key}\"]"));
    let request = match method {
        "POST" => request
            .header("content-type", "application/json")
            .body(json!({"id": "1", "pk": key}).to_string()),
        _ => request,
    };
    request.send(&mut connect(server)).unwrap()
}

fn create(server: &TestServer, key: &str) -> Response {
    item(server, "POST", "/dbs/shop/colls/orders/docs", "dbs/shop/colls/orders", key)
}

fn delete(server: &TestServer, key: &str) -> Response {
    let link = "dbs/shop/colls/orders/docs/1";
    item(server, "DELETE", &format!("/{link}"), link, key)
}

/// Repeats a request until the response has this status.
#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn until(status: u16, ask: impl Fn() -> Response) -> Response {
    let deadline = std::time::Instant::now() + TIMEOUT;
    loop {
        let response = ask();
        if response.status == status {
            return response;
        }
        assert!(std::time::Instant::now() < deadline, "{} {}", response.status, response.text());
    }
}

/// Waits until the log contains this text, without writing anything.
#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn until_said(server: &TestServer, what: &str) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    while !server.stderr().contains(what) {
        assert!(std::time::Instant::now() < deadline, "{}", server.stderr());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn start_on(disk: &Path) -> TestServer {
    builder().args(["--throttling", "off"]).data_dir(disk.join("data")).start().unwrap()
}

#[test]
fn writes_wait_for_room_and_go_on_by_themselves() {
    let home = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(home.path().join("disk")) else {
        eprintln!("left out: a small file system can't be mounted here");
        return;
    };
    let server = start_on(&disk.0);
    fill(&server);

    disk.leave(15 << 20);
    let serial = std::cell::Cell::new(0);
    let refused = until(503, || {
        serial.set(serial.get() + 1);
        create(&server, &format!("new{}", serial.get()))
    });
    assert!(refused.text().contains("almost full"), "{}", refused.text());
    assert_eq!(delete(&server, "k0").status, 204);
    let ready = until(503, || get(&server, "/ready"));
    assert!(ready.text().contains("almost full"), "{}", ready.text());
    let health = get(&server, "/healthz");
    assert_eq!((health.status, &health.json()["store"]["writable"]), (503, &json!(false)));
    assert!(health.text().contains("almost full"), "{}", health.text());
    assert!(get(&server, "/metrics").text().contains("planisphere_store_writable 0"));
    assert!(server.stderr().contains("almost full"), "{}", server.stderr());

    disk.leave(0);
    until(503, || delete(&server, "k1"));
    disk.clear();
    until(200, || get(&server, "/ready"));
    until_said(&server, "the disk has room");
    until(201, || create(&server, "k0"));
    assert!(get(&server, "/metrics").text().contains("planisphere_store_writable 1"));
    assert_eq!(create(&server, "k2").status, 409, "nothing was lost");
}

/// Limits the size of files that the server may write.
#[cfg(target_os = "linux")]
fn limit_files(server: &TestServer, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn writes_go_on_after_one_has_failed() {
    use std::os::unix::fs::PermissionsExt;

    let home = tempfile::tempdir().unwrap();
    // Otherwise the limit's signal ends the process.
    let script = home.path().join("start");
    let line = format!("#!/bin/sh\ntrap '' XFSZ\nexec '{}' \"$@\"\n", binary());
    fs::write(&script, line).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let data = home.path().join("data");
    let builder = ServerBuilder::new(script).args(["--throttling", "off"]).data_dir(data);
    let mut server = builder.start().unwrap();
    fill(&server);
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        limit_files(&server, Some(100_000 * (round + 1)));
        for n in 0.. {
            let key = format!("round{round}-{n}");
            let response = create(&server, &key);
            if response.status != 201 {
                assert_eq!(response.status, 503, "{}", response.text());
                break;
            }
            acknowledged.push(key);
        }
        until(503, || get(&server, "/ready"));
        limit_files(&server, None);
        until(200, || get(&server, "/ready"));
        until(201, || create(&server, &format!("after{round}")));
        acknowledged.push(format!("after{round}"));
    }
    for key in &acknowledged {
        assert_eq!(create(&server, key).status, 409, "{key} is lost");
    }
    assert!(acknowledged.len() > 10, "{acknowledged:?}");
    assert_eq!(server.stderr().matches("the store was opened again").count(), 3);
    server.kill().unwrap();
    server.restart().unwrap();
    for key in &acknowledged {
        assert_eq!(create(&server, key).status, 409, "{key} is lost");
    }
}
