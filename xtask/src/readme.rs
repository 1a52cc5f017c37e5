//! Runs the code in README.md, so that what newcomers copy works.
//!
//! Each snippet is run with the packages that the SDK suites have installed, against a server on
//! its own port, whose address replaces the one in the text.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::conformance;
use crate::run::{self, Outcome, cargo};

/// The address that snippets connect to.
const ADDRESS: &str = "http://127.0.0.1:8081/";
/// How command lines begin.
const PROMPT: &str = "$ planisphere ";
/// Tells commands which server to use.
const ADMIN_VARIABLE: &str = "PLANISPHERE_ADMIN_ENDPOINT";
/// What each snippet prints.
const PRINTED: &str = "13.5";
/// How often each is run: a newcomer may run the same snippet twice.
const RUNS: usize = 2;

/// Runs all snippets.
pub(crate) fn run() -> Outcome {
    run::run(&mut cargo(["build", "-p", "planisphere"]))?;
    let text = read(&run::root().join("README.md"))?;
    let server = Server::start()?;
    let languages = [("python", python as Runner), ("js", js), ("rust", rust), ("csharp", csharp)];
    for (language, command) in languages {
        if language == "csharp"
            && let Some(why) = conformance::left_out("dotnet")
        {
            run::leave_out(format!("the {language} snippet: {why}"));
            continue;
        }
        let code = snippet(&text, language)?.replace(ADDRESS, &server.endpoint);
        let mut command = command(&code)?;
        for run in 1..=RUNS {
            println!("$ {}", run::shown(&command));
            let output = command.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
            let printed = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() || printed.trim() != PRINTED {
                return Err(format!(
                    "the {language} snippet of README.md printed {printed:?} in run {run}"
                ));
            }
        }
    }
    commands(&text).try_for_each(|arguments| {
        let mut command = Command::new(run::server("debug")?);
        command.args(words(arguments)).env(ADMIN_VARIABLE, &server.admin);
        run::run(&mut command)
    })
}

/// The words of a command line, where single quotes group words.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(character)),
        }
    }
    words
}

/// Arguments of the commands that are shown; they use the data that the Python code has written.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix(PROMPT))
}

/// Puts a snippet where it can run, and returns the command to run it.
type Runner = fn(&str) -> Result<Command, String>;

fn python(code: &str) -> Result<Command, String> {
    let file = project_dir()?.join("readme.py");
    write(&file, code)?;
    let mut python = Command::new(installed("python/.venv/bin/python")?);
    python.arg(file);
    Ok(python)
}

fn js(code: &str) -> Result<Command, String> {
    // Modules are searched from the file's directory upwards, so it must be below them.
    let file = installed("js/node_modules")?.join(".readme.mjs");
    write(&file, code)?;
    let mut node = Command::new("node");
    node.arg(file);
    Ok(node)
}

fn rust(code: &str) -> Result<Command, String> {
    let suite = run::root().join("conformance/rust");
    let manifest = read(&suite.join("Cargo.toml"))?;
    let dependencies = section(&manifest, "[dependencies]");
    let profile = section(&manifest, "[profile.dev]");
    let project = project_dir()?;
    let manifest = format!(
        "[workspace]\n[package]\nname = \"readme\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         {dependencies}\n{profile}\n"
    );
    write(&project.join("Cargo.toml"), &manifest)?;
    write(&project.join("Cargo.lock"), &read(&suite.join("Cargo.lock"))?)?;
    write(&project.join("src/main.rs"), code)?;
    let mut cargo = cargo(["run", "--quiet", "--manifest-path"]);
    cargo
        .arg(project.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", run::target_dir()?.join("conformance"));
    Ok(cargo)
}

fn csharp(code: &str) -> Result<Command, String> {
    let suite = run::root().join("conformance/dotnet");
    let project = run::target_dir()?.join("readme/dotnet");
    std::fs::create_dir_all(&project).map_err(|error| error.to_string())?;
    // With the packages that are there, which are more than the code needs.
    let manifest = project.join("readme.csproj");
    write(&manifest, &read(&suite.join("Conformance.csproj"))?)?;
    write(&project.join("Program.cs"), code)?;
    let mut dotnet = Command::new(suite.join("dotnet"));
    dotnet.args(["run", "--verbosity", "quiet", "--project"]).arg(manifest);
    Ok(dotnet)
}

/// A scratch directory with the layout of a Rust project.
fn project_dir() -> Result<PathBuf, String> {
    let project = run::target_dir()?.join("readme");
    std::fs::create_dir_all(project.join("src")).map_err(|error| error.to_string())?;
    Ok(project)
}

/// A path that a suite installs on its first run.
fn installed(path: &str) -> Result<PathBuf, String> {
    let path = run::root().join("conformance").join(path);
    if path.exists() {
        return Ok(path);
    }
    Err(format!("{} is not there; `cargo xtask conformance` installs it", path.display()))
}

/// The first block of code in a language.
fn snippet<'t>(text: &'t str, language: &str) -> Result<&'t str, String> {
    let fence = format!("```{language}\n");
    let code = text.split_once(&fence).and_then(|(_, rest)| rest.split_once("```"));
    code.map(|(code, _)| code).ok_or_else(|| format!("README.md has no {language} snippet"))
}

/// A table of a manifest, with its heading.
fn section(manifest: &str, heading: &str) -> String {
    let lines = manifest.lines().skip_while(|line| *line != heading);
    let mut table: Vec<&str> = Vec::new();
    for line in lines {
        if line.starts_with('[') && !table.is_empty() {
            break;
        }
        table.push(line);
    }
    table.join("\n")
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("can't read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|error| format!("can't write {}: {error}", path.display()))
}

/// A server in memory on a free port; killed when dropped.
struct Server {
    child: Child,
    endpoint: String,
    admin: String,
}

impl Server {
    fn start() -> Result<Self, String> {
        let mut child = Command::new(run::server("debug")?)
            .args(["serve", "--memory", "--ports", "auto", "--ready-json"])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("can't start the server: {error}"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let mut server = Self { child, endpoint: String::new(), admin: String::new() };
        let endpoint = |name: &str| {
            let rest = line.split_once(&format!("\"{name}\":\"")).map(|(_, rest)| rest);
            let found = rest.and_then(|rest| rest.split_once('"')).map(|(url, _)| url.to_owned());
            found.ok_or_else(|| format!("the server said {line:?}"))
        };
        server.endpoint = endpoint("nosql")?;
        server.admin = endpoint("admin")?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_a_snippet_per_language_with_the_address() {
        let text = read(&run::root().join("README.md")).unwrap();
        for language in ["python", "js", "rust", "csharp"] {
            assert!(snippet(&text, language).unwrap().contains(ADDRESS), "{language}");
        }
        assert!(snippet(&text, "cobol").is_err());
        assert!(commands(&text).any(|command| command.starts_with("partitions show ")));
    }

    #[test]
    fn commands_of_the_readme_need_no_shell() {
        let text = read(&run::root().join("README.md")).unwrap();
        for command in commands(&text) {
            // Text within single quotes means nothing to a shell.
            let bare: String = command.split('\'').step_by(2).collect();
            let special = ['&', '|', ';', '<', '>', '$', '`', '"', '\\', '*', '?', '#'];
            assert!(!bare.contains(special), "{command}");
        }
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(
            words("query a/b 'SELECT * FROM c' --json"),
            ["query", "a/b", "SELECT * FROM c", "--json"]
        );
    }

    #[test]
    fn a_table_of_a_manifest_ends_at_the_next() {
        let manifest = "[a]\nx = 1\n[b]\ny = [\n  2,\n]\n\n[c]\n";
        assert_eq!(section(manifest, "[b]"), "[b]\ny = [\n  2,\n]\n");
        assert_eq!(section(manifest, "[d]"), "");
    }
}
