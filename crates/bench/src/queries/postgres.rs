//! The peer: PostgreSQL of the distribution's package, as a separate cluster in a temporary
//! directory that listens only on a socket there.

use std::io::{BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process;
use crate::queries::data::Data;
use crate::queries::query_kind::{CREATE_INDEXES, CREATE_TABLE};

/// The package to install if there is none.
const PACKAGE: &str = "postgresql-15";
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The name of its owner.
const USER: &str = "postgres";
/// All settings but the buffer size are at their defaults. Most of these reduce log files during
/// the load.
const SETTINGS: [&str; 5] = [
    "maintenance_work_mem=256MB",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=512MB",
    "listen_addresses=",
];

/// A running cluster; stopped when dropped.
pub struct Postgres {
    programs: PathBuf,
    /// `None` if this process is not the superuser, so that the cluster runs as its own user.
    owner: Option<Owner>,
    home: PathBuf,
    postmaster: Child,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Postgres {
    /// Creates and starts a cluster with buffers of `cache_mib` below `scratch`, which all users
    /// must be able to enter. Installs the package if it is missing and this process may.
    pub fn start(scratch: &Path, cache_mib: u64) -> anyhow::Result<Self> {
        let programs = find_or_install()?;
        let owner = owner(scratch)?;
        let home = scratch.join("postgres");
        std::fs::create_dir(&home)?;
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700))?;
        if let Some(owner) = owner {
            std::os::unix::fs::chown(&home, Some(owner.uid), Some(owner.gid))?;
        }
        let mut initdb = command(&programs.join("initdb"), owner, &home);
        initdb.args(["--locale=C", "--encoding=UTF8", "--auth=trust", "--username", USER]);
        finish(initdb.args(["--no-sync", "--pgdata"]).arg(home.join("data")))?;
        let mut postmaster = command(&programs.join("postgres"), owner, &home);
        postmaster.arg("-D").arg(home.join("data")).arg("-k").arg(&home);
        postmaster.arg("-c").arg(format!("shared_buffers={cache_mib}MB"));
        for setting in SETTINGS {
            postmaster.args(["-c", setting]);
        }
        let log = std::fs::File::create(home.join("log"))?;
        let postmaster = postmaster.stdout(Stdio::null()).stderr(log).spawn()?;
        let mut cluster = Self { programs, owner, home, postmaster };
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.postmaster.try_wait()? {
                bail!("PostgreSQL ended ({status}): {}", self.log());
            }
            let mut probe = self.client("pg_isready", "postgres");
            if probe.arg("--quiet").status()?.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("PostgreSQL did not start: {}", self.log())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    /// Its version string.
    pub fn version(&self) -> anyhow::Result<String> {
        self.ask("postgres", "SHOW server_version")
    }

    /// Processor time of all processes of the cluster, including those of ended connections.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        process::family_cpu_time(self.postmaster.id())
    }

    /// A client program connected to `database`.
    pub fn client(&self, program: &str, database: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .env("PGHOST", &self.home)
            .env("PGUSER", USER)
            .env("PGDATABASE", database)
            .stdin(Stdio::null());
        command
    }

    /// Runs one statement; the rows as lines.
    pub fn ask(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        let mut psql = self.client("psql", database);
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-v"]);
        let output = finish(psql.args(["ON_ERROR_STOP=1", "-c", sql]))?;
        Ok(output.trim_end().to_owned())
    }

    /// Creates a database with `data` and its indexes, and analyzes it as autovacuum would.
    pub fn load(&self, database: &str, data: Data) -> anyhow::Result<()> {
        self.ask("postgres", &format!("CREATE DATABASE {database}"))?;
        self.copy(database, data)?;
        for statement in CREATE_INDEXES {
            self.ask(database, statement)?;
        }
        self.ask(database, "VACUUM ANALYZE doc")?;
        self.ask(database, "CHECKPOINT")?;
        Ok(())
    }

    /// Reads the documents and their indexes into its buffers.
    pub fn read_all(&self, database: &str) -> anyhow::Result<()> {
        self.ask(database, "CREATE EXTENSION pg_prewarm")?;
        self.ask(database, "SELECT pg_prewarm(oid) FROM pg_class WHERE relname ~ '^doc'")?;
        Ok(())
    }

    /// Creates table and rows in one transaction, so that the rows need no log.
    fn copy(&self, database: &str, data: Data) -> anyhow::Result<()> {
        let mut psql = self.client("psql", database);
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--single-transaction",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
        ])
        .args([CREATE_TABLE, "-c", "COPY doc FROM STDIN"])
        .stdin(Stdio::piped());
        let mut child = psql.spawn().context("could not run psql")?;
        let mut rows = BufWriter::new(child.stdin.take().context("psql's input was not piped")?);
        let sent = (0..data.documents()).try_for_each(|number| {
            let (id, key) = (data.id(number), data.key(number));
            writeln!(rows, "{id}\t{key}\t{}", data.document(number))
        });
        let sent = sent.and_then(|()| rows.flush());
        drop(rows);
        ensure!(child.wait()?.success(), "psql could not copy the documents");
        Ok(sent?)
    }

    /// Bytes of the table and of its indexes.
    pub fn size(&self, database: &str) -> anyhow::Result<u64> {
        Ok(self.ask(database, "SELECT pg_total_relation_size('doc')")?.parse()?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut stop = command(&self.programs.join("pg_ctl"), self.owner, &self.home);
        stop.args(["stop", "--silent", "--mode", "fast", "--pgdata"]).arg(self.home.join("data"));
        if !stop.status().is_ok_and(|status| status.success()) {
            // Its child processes notice that it ended and end too.
            let _ = self.postmaster.kill();
        }
        let _ = self.postmaster.wait();
    }
}

/// The user that the cluster runs as: PostgreSQL refuses to run as the superuser.
fn owner(scratch: &Path) -> anyhow::Result<Option<Owner>> {
    // A directory that was just created belongs to the user of this process.
    if std::fs::metadata(scratch)?.uid() != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let owner = [USER, "nobody"].iter().find_map(|name| owner_in(&users, name));
    owner.map(Some).context("there is neither a user `postgres` nor a user `nobody`")
}

fn owner_in(users: &str, name: &str) -> Option<Owner> {
    let mut fields = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then_some(fields)
    })?;
    Some(Owner { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

fn command(program: &Path, owner: Option<Owner>, home: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(owner) = owner {
        command.uid(owner.uid).gid(owner.gid);
    }
    command.current_dir(home).stdin(Stdio::null());
    command
}

/// Runs a command to its end and returns its output.
fn finish(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_owned();
    let output =
        command.output().with_context(|| format!("could not run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} failed ({}): {}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn find_or_install() -> anyhow::Result<PathBuf> {
    if let Some(programs) = find(Path::new("/usr/lib/postgresql")) {
        return Ok(programs);
    }
    eprintln!("installing {PACKAGE}");
    let install = format!(
        "apt-get update && apt-get install --yes --no-install-recommends {PACKAGE} || \
         apt-get install --yes --no-install-recommends postgresql"
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &install]).env("DEBIAN_FRONTEND", "noninteractive");
    finish(&mut shell).with_context(|| format!("install the Debian package {PACKAGE}"))?;
    find(Path::new("/usr/lib/postgresql")).context("PostgreSQL is not where Debian puts it")
}

/// The programs of version 15, or else of the newest version below `home` that has them all.
fn find(home: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(home).ok()?.flatten();
    versions
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let programs = entry.path().join("bin");
            let has_all = ["initdb", "postgres", "pgbench", "psql"]
                .iter()
                .all(|program| programs.join(program).exists());
            has_all.then_some(((version == 15, version), programs))
        })
        .max()
        .map(|(_, programs)| programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_found_by_name() {
        let users = "root:x:0:0::/root:/bin/sh\npostgres:x:101:104:x:/var:/bin/sh\n";
        assert_eq!(owner_in(users, "postgres"), Some(Owner { uid: 101, gid: 104 }));
        assert_eq!(owner_in(users, "nobody"), None);
    }

    #[test]
    fn version_15_is_preferred_and_an_incomplete_one_passed_over() {
        let home = tempfile::tempdir().unwrap();
        for version in ["13", "14", "15", "16"] {
            let programs = home.path().join(version).join("bin");
            std::fs::create_dir_all(&programs).unwrap();
            for program in ["initdb", "postgres", "pgbench", "psql"] {
                std::fs::write(programs.join(program), "").unwrap();
            }
        }
        let found = || find(home.path()).unwrap();
        assert!(found().ends_with("15/bin"));
        std::fs::remove_file(home.path().join("15/bin/pgbench")).unwrap();
        assert!(found().ends_with("16/bin"));
    }
}
