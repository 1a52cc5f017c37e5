//! The data directory: its permissions, its content, and the commands on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::http::Request;
use testkit::server::TestServer;

use crate::support::{binary, builder, connect, fill, get, stderr_of};

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn start(dir: &Path) -> TestServer {
    builder().data_dir(dir).start().unwrap()
}

/// A data directory with some items, whose server has stopped, and its temporary parent directory.
fn stopped() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let mut server = start(&dir);
    fill(&server);
    server.terminate().unwrap();
    assert!(server.wait().unwrap().success());
    (home, dir)
}

fn has_items(server: &TestServer) -> bool {
    let list = Request::new("GET", "/dbs/shop/colls").signed(server.key(), "colls", "dbs/shop");
    list.send(&mut connect(server)).unwrap().text().contains("orders")
}

/// The error of a start that must fail.
fn refusal(dir: &Path) -> String {
    let mut serve = Command::new(binary());
    serve.args(["serve", "--ports", "auto", "--ready-json", "--data"]).arg(dir);
    let output = serve.output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "it was ready");
    stderr_of(&output)
}

#[cfg(unix)]
mod modes {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn assert_private(dir: &Path) {
        for path in files(dir) {
            let meta = fs::symlink_metadata(&path).unwrap();
            let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(meta.permissions().mode() & 0o777, wanted, "{}", path.display());
        }
    }

    #[test]
    fn only_its_owner_can_read_it() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("data");
        let mut server = builder().args(["--bind", "0.0.0.0"]).data_dir(&dir).start().unwrap();
        fill(&server);
        // Creates the certificate authority.
        assert_eq!(get(&server, "/_explorer/emulator.pem").status, 200);
        assert!(dir.join("account.key").exists() && dir.join("tls").exists());
        assert_private(&dir);
        server.terminate().unwrap();
        assert!(server.wait().unwrap().success());
        assert_private(&dir);
    }

    #[test]
    fn one_that_begins_with_a_certificate_is_private_too() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("data");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let output = Command::new(binary()).args(["cert", "--data"]).arg(&dir).output().unwrap();
        assert!(output.status.success(), "{}", stderr_of(&output));
        assert!(files(&dir).len() > 2);
        assert_private(&dir);
    }

    #[test]
    fn one_that_others_could_read_is_mended() {
        let (_home, dir) = stopped();
        let notes = dir.join("notes.txt");
        fs::write(&notes, "not the server's").unwrap();
        for path in files(&dir) {
            let mode = if path.is_dir() { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let server = start(&dir);
        let mode = fs::metadata(&notes).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "what is not the server's is left alone");
        fs::remove_file(notes).unwrap();
        assert!(has_items(&server));
        assert_private(&dir);
    }
}

#[test]
fn a_missing_file_stops_the_start_and_costs_nothing() {
    let (home, dir) = stopped();
    let kv = dir.join("kv");
    for gone in ["keyspaces/1/current", "keyspaces/2/current", "0.jnl"] {
        let (path, aside) = (kv.join(gone), home.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        let said = refusal(&dir);
        assert!(said.contains(gone) && said.contains("is missing"), "{said}");
        fs::rename(&aside, &path).unwrap();
    }
    assert!(has_items(&start(&dir)));
}

#[test]
fn a_journal_cut_short_stops_the_start() {
    let (_home, dir) = stopped();
    let journal = dir.join("kv").join("0.jnl");
    let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let said = refusal(&dir);
    assert!(said.contains("0.jnl") && said.contains("acknowledged"), "{said}");
}

#[test]
fn a_copy_of_a_stopped_directory_is_as_good() {
    let (home, dir) = stopped();
    let copy = home.path().join("copy");
    let copied = Command::new("cp").arg("-a").args([&dir, &copy]).status().unwrap();
    assert!(copied.success());
    assert!(has_items(&start(&copy)));
    // Older servers wrote no manifest.
    fs::remove_file(dir.join("store.manifest")).unwrap();
    assert!(has_items(&start(&dir)));
    assert!(dir.join("store.manifest").exists());
}

#[test]
fn all_but_certificates_and_key_may_be_removed() {
    let (_home, dir) = stopped();
    fs::create_dir_all(dir.join("tls")).unwrap();
    fs::write(dir.join("account.key"), "a2V5\n").unwrap();
    for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
        match entry.file_name().to_str().unwrap() {
            "tls" | "account.key" => {}
            _ if entry.path().is_dir() => fs::remove_dir_all(entry.path()).unwrap(),
            _ => fs::remove_file(entry.path()).unwrap(),
        }
    }
    let server = start(&dir);
    assert!(!has_items(&server));
    fill(&server);
}
