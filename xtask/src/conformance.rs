//! `cargo xtask conformance`: the published SDKs against the real server.
//!
//! Each suite is a directory `conformance/<language>` with an executable `run`, which installs the
//! packages it pins, finds the server in `PLANISPHERE_BIN`, and fails when a test does.

use std::process::Command;

use crate::run::{self, Outcome, cargo};

/// Runs all suites, or the one that is named first; what follows goes to its test runner.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    run::run(&mut cargo(["build", "-p", "planisphere"]))?;
    let suites = suites()?;
    let chosen = arguments.first().filter(|argument| !argument.starts_with('-'));
    let Some(language) = chosen else {
        return suites.iter().try_for_each(|suite| match left_out(suite) {
            None => run_suite(suite, arguments),
            Some(why) => {
                println!("the {suite} suite is left out: {why}");
                Ok(())
            }
        });
    };
    if !suites.contains(language) {
        return Err(format!("there is no suite `{language}`; there are {}", suites.join(", ")));
    }
    match left_out(language) {
        None => run_suite(language, arguments.get(1..).unwrap_or_default()),
        Some(why) => Err(format!("the {language} suite can't run: {why}")),
    }
}

/// Why a suite can't run where not everybody has what it needs; `None` when it can, or when what
/// it needs is asked of everybody.
pub(crate) fn left_out(language: &str) -> Option<String> {
    if language != "dotnet" {
        return None;
    }
    let suite = run::root().join("conformance/dotnet");
    let failed = |program: &str, argument: &str| {
        let output = Command::new(suite.join(program)).arg(argument).output();
        match output {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let said = [output.stderr, output.stdout].concat();
                let said = String::from_utf8_lossy(&said);
                let line = said.lines().map(str::trim).find(|line| !line.is_empty());
                Some(line.unwrap_or("it does not say why").to_owned())
            }
            Err(error) => Some(error.to_string()),
        }
    };
    failed("dotnet", "--version").or_else(|| {
        failed("run", "--restore").map(|why| format!("its packages can't be restored: {why}"))
    })
}

/// The languages there are suites for.
fn suites() -> Result<Vec<String>, String> {
    let mut names = run::names_in("conformance")?;
    names.retain(|name| run::root().join("conformance").join(name).join("run").is_file());
    if names.is_empty() {
        return Err("there are no suites under conformance/".to_owned());
    }
    Ok(names)
}

fn run_suite(language: &str, arguments: &[String]) -> Outcome {
    for (program, argument, install) in needs(language) {
        if !run::has(program, argument) {
            return Err(format!("the {language} suite needs {program}: {install}"));
        }
    }
    let mut suite = Command::new(run::root().join("conformance").join(language).join("run"));
    suite
        .args(filtered(language, arguments))
        .env("PLANISPHERE_BIN", run::server("debug")?)
        .env("CARGO_TARGET_DIR", run::target_dir()?.join("conformance"))
        .current_dir(run::root());
    run::run(&mut suite)
}

/// Programs a suite can't do without: name, an argument that shows it works, where to get it.
fn needs(language: &str) -> &'static [(&'static str, &'static str, &'static str)] {
    match language {
        "python" => &[("python3", "--version", "Python 3.10 or newer with its venv module")],
        "js" => &[("npm", "--version", "Node.js 20 or newer, which brings npm")],
        _ => &[],
    }
}

/// `-k NAME`, in the words of each test runner.
fn filtered(language: &str, arguments: &[String]) -> Vec<String> {
    let [flag, name] = arguments else { return arguments.to_vec() };
    if flag != "-k" {
        return arguments.to_vec();
    }
    match language {
        "js" => vec!["--test-name-pattern".to_owned(), name.clone()],
        "rust" => vec![name.clone()],
        _ => arguments.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_said_in_the_words_of_the_runner() {
        let given = ["-k".to_owned(), "batch".to_owned()];
        assert_eq!(filtered("python", &given), given);
        assert_eq!(filtered("js", &given), ["--test-name-pattern", "batch"]);
        assert_eq!(filtered("rust", &given), ["batch"]);
        assert_eq!(filtered("rust", &[]), Vec::<String>::new());
    }
}
