//! `cargo xtask conformance`: the published SDKs against the real server.
//!
//! Each suite is a directory `conformance/<language>` with an executable `run`, which installs the
//! packages it pins, finds the server in `PLANISPHERE_BIN`, and fails when a test does.

use std::process::{Command, Output};

use crate::run::{self, Outcome, cargo};

/// Runs all suites, or the one that is named first; later arguments go to its test runner.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    run::run(&mut cargo(["build", "-p", "planisphere"]))?;
    let suites = suites()?;
    let chosen = arguments.first().filter(|argument| !argument.starts_with('-'));
    let Some(language) = chosen else {
        return suites.iter().try_for_each(|suite| match left_out(suite) {
            None => run_suite(suite, arguments),
            Some(why) => {
                run::leave_out(format!("the {suite} suite: {why}"));
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

/// Why a suite cannot run on a machine that lacks something optional; `None` when it can, or when
/// what it needs is required of every machine. Any other fault makes the suite fail.
pub(crate) fn left_out(language: &str) -> Option<String> {
    let output = |program: &str, argument: &str| {
        let suite = run::root().join("conformance").join(language);
        Command::new(suite.join(program)).arg(argument).output().ok()
    };
    match language {
        "dotnet" => lacks_sdk(&output("dotnet", "--version")?)
            .or_else(|| lacks_packages(&output("run", "--restore")?)),
        "java" => {
            let restored = output("run", "--restore")?;
            lacks_sdk(&restored).or_else(|| lacks_packages(&restored))
        }
        "go" if !run::has("go", "version") => Some("there is no Go in PATH".to_owned()),
        "go" => lacks_modules(&output("run", "--fetch")?),
        "mingo" if !run::has("npm", "--version") => Some("there is no npm in PATH".to_owned()),
        _ => None,
    }
}

/// What Go prints where it is too old for the SDKs and may not get a newer one, or where modules
/// cannot be downloaded. A module missing from a reachable proxy is a mistake.
fn lacks_modules(output: &Output) -> Option<String> {
    const WHY: [&str; 5] = ["requires go >=", "dial tcp", "no such host", "timeout", "GOPROXY=off"];
    let is_it = |line: &str| WHY.iter().any(|why| line.contains(why));
    let said = (!output.status.success()).then(|| first_line(output, is_it))?;
    is_it(&said).then(|| format!("its modules can't be had: {said}"))
}

/// What is printed where there is no SDK of the language, with the status that says so.
fn lacks_sdk(output: &Output) -> Option<String> {
    const UNAVAILABLE: i32 = 69;
    (output.status.code() == Some(UNAVAILABLE)).then(|| first_line(output, |_| true))
}

/// What is printed where packages cannot be downloaded. A package missing from a reachable registry
/// is a mistake.
fn lacks_packages(output: &Output) -> Option<String> {
    // What NuGet and Maven say.
    const UNREACHABLE: [&str; 2] = ["NU1301", "Could not transfer"];
    let is_it = |line: &str| UNREACHABLE.iter().any(|known| line.contains(known));
    let said = (!output.status.success()).then(|| first_line(output, is_it))?;
    is_it(&said).then(|| format!("its packages can't be reached: {said}"))
}

/// The first line of a program's output for which `is_it` holds.
fn first_line(output: &Output, is_it: impl Fn(&str) -> bool) -> String {
    let said = [output.stderr.as_slice(), &output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty() && is_it(line));
    line.unwrap_or("it does not say why").to_owned()
}

/// The languages that have suites.
fn suites() -> Result<Vec<String>, String> {
    let mut names = run::names_in("conformance")?;
    names.retain(|name| run::root().join("conformance").join(name).join("run").is_file());
    if names.is_empty() {
        return Err("there are no suites under conformance/".to_owned());
    }
    Ok(names)
}

/// Suites of which Microsoft's own tests are run, too: they come with the packages, and are quick.
const WITH_PUBLISHED: &[&str] = &["go"];

fn run_suite(language: &str, arguments: &[String]) -> Outcome {
    for (program, argument, install) in needs(language) {
        if !run::has(program, argument) {
            return Err(format!("the {language} suite needs {program}: {install}"));
        }
    }
    run_script(language, "run", &filtered(language, arguments))?;
    match arguments.is_empty() && WITH_PUBLISHED.contains(&language) {
        true => run_script(language, "published", &[]),
        false => Ok(()),
    }
}

fn run_script(language: &str, name: &str, arguments: &[String]) -> Outcome {
    let mut script = Command::new(run::root().join("conformance").join(language).join(name));
    script
        .args(arguments)
        .env("PLANISPHERE_BIN", run::server("debug")?)
        .env("CARGO_TARGET_DIR", run::target_dir()?.join("conformance"))
        .current_dir(run::root());
    run::run(&mut script)
}

/// Programs a suite requires: name, an argument that shows it works, where to get it.
fn needs(language: &str) -> &'static [(&'static str, &'static str, &'static str)] {
    match language {
        "python" => &[("python3", "--version", "Python 3.10 or newer with its venv module")],
        "js" => &[("npm", "--version", "Node.js 20 or newer, which brings npm")],
        _ => &[],
    }
}

/// `-k NAME`, as each test runner spells it.
fn filtered(language: &str, arguments: &[String]) -> Vec<String> {
    let [flag, name] = arguments else { return arguments.to_vec() };
    if flag != "-k" {
        return arguments.to_vec();
    }
    match language {
        "js" => vec!["--test-name-pattern".to_owned(), name.clone()],
        "rust" => vec![name.clone()],
        "go" => vec!["-run".to_owned(), name.clone()],
        _ => arguments.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::os::unix::fs::PermissionsExt;
    #[cfg(unix)]
    use std::os::unix::process::ExitStatusExt;
    #[cfg(unix)]
    use std::path::Path;
    #[cfg(unix)]
    use std::process::ExitStatus;

    use super::*;

    #[cfg(unix)]
    fn ended(code: i32, stdout: &str) -> Output {
        let status = ExitStatus::from_raw(code << 8);
        Output { status, stdout: stdout.into(), stderr: Vec::new() }
    }

    #[cfg(unix)]
    #[test]
    fn a_suite_is_left_out_for_what_nobody_here_can_help() {
        let without = ended(69, "\nthere is no SDK\n");
        assert_eq!(lacks_sdk(&without).as_deref(), Some("there is no SDK"));
        assert_eq!(lacks_sdk(&ended(0, "10.0.401")), None);
        assert_eq!(lacks_sdk(&ended(1, "something else")), None);
        let unreachable = "x.csproj : error NU1301: Unable to load the service index";
        let why = lacks_packages(&ended(1, &format!("Restoring\n{unreachable}\n"))).unwrap();
        assert!(why.ends_with(unreachable), "{why}");
        assert_eq!(lacks_packages(&ended(0, unreachable)), None);
        let unreachable = "go: example: Get \"https://x/\": dial tcp: lookup x: no such host";
        let why = lacks_modules(&ended(1, &format!("{unreachable}\n"))).unwrap();
        assert!(why.ends_with(unreachable), "{why}");
        assert!(lacks_modules(&ended(1, "go: go.mod requires go >= 1.25.0")).is_some());
        assert_eq!(lacks_modules(&ended(0, unreachable)), None);
        assert_eq!(lacks_modules(&ended(1, "go: x@v9.9.9: 404 Not Found")), None);
        let unreachable =
            "[ERROR] Could not transfer artifact x:y:pom:1 from/to central: Connect timed out";
        assert!(
            lacks_packages(&ended(1, unreachable)).is_some_and(|why| why.ends_with(unreachable))
        );
        for mistake in [
            "error NU1102: Unable to find package X with version (>= 9.9.9)",
            "MSB4025",
            "[ERROR] Could not find artifact x:y:pom:9.9.9 in central",
        ] {
            assert_eq!(lacks_packages(&ended(1, mistake)), None, "{mistake}");
        }
    }

    #[cfg(unix)]
    /// Writes a `dotnet` to a directory that lists these SDKs and says where it is.
    fn install(dir: &Path, sdks: &str) {
        std::fs::create_dir_all(dir).unwrap();
        let here = dir.display();
        let text = format!(
            "#!/bin/sh\ncase $1 in --list-sdks) printf '%s' '{sdks}';; *) echo {here};; esac\n"
        );
        let path = dir.join("dotnet");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn the_first_dotnet_with_the_right_sdk_is_taken() {
        let dir = std::env::temp_dir().join(format!("xtask-dotnet-{}", std::process::id()));
        let [runtime, old, root, home] = ["runtime", "old", "root", "home"].map(|n| dir.join(n));
        let own = home.join(".dotnet");
        install(&runtime, "");
        install(&old, "8.0.100 [sdk]\n");
        let find = || {
            let path = format!("{}:{}:/usr/bin:/bin", runtime.display(), old.display());
            Command::new(run::root().join("conformance/dotnet/dotnet"))
                .arg("--version")
                .env("PATH", path)
                .env("DOTNET_ROOT", &root)
                .env("HOME", &home)
                .output()
                .unwrap()
        };
        let found = |output: &Output| first_line(output, |_| true);
        assert!(lacks_sdk(&find()).is_some_and(|why| why.contains("SDK of .NET 10")));
        install(&own, "8.0.100 [sdk]\n10.0.401 [sdk]\n");
        assert_eq!(found(&find()), own.display().to_string());
        install(&root, "10.0.100 [sdk]\n");
        assert_eq!(found(&find()), root.display().to_string());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_filter_is_said_in_the_words_of_the_runner() {
        let given = ["-k".to_owned(), "batch".to_owned()];
        assert_eq!(filtered("python", &given), given);
        assert_eq!(filtered("js", &given), ["--test-name-pattern", "batch"]);
        assert_eq!(filtered("rust", &given), ["batch"]);
        assert_eq!(filtered("go", &given), ["-run", "batch"]);
        assert_eq!(filtered("rust", &[]), Vec::<String>::new());
    }
}
