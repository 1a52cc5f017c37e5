//! `cargo xtask check`: exactly what CI requires, in the order in which mistakes are cheapest.

use std::time::Instant;

use crate::run::{self, Outcome, cargo};
use crate::{conformance, readme, tidy};

/// Enough kills to notice a lost write, and few enough to run for every change.
const CRASH_ROUNDS: &str = "20";

type Step = (&'static str, fn() -> Outcome);

const STEPS: &[Step] = &[
    ("fmt", || run::run(&mut cargo(["fmt", "--all", "--check"]))),
    ("tidy", tidy::run),
    ("lint", lint),
    ("docs", docs),
    ("test", || run::run(&mut cargo(["test", "--workspace"]))),
    ("planted bugs", planted_bugs),
    ("conformance", || conformance::run(&[])),
    ("readme", readme::run),
    ("crash", crash),
    ("deny", || optional("cargo", &["deny", "check"], "cargo install cargo-deny")),
    ("typos", || optional("typos", &[], "cargo install typos-cli")),
];

/// Runs all steps and stops at the first that fails.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return Err("it takes no arguments".to_owned());
    }
    let mut took = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let started = Instant::now();
        step().map_err(|why| format!("step {name}: {why}"))?;
        took.push(format!("  {name:<12} {:>6.1} s", started.elapsed().as_secs_f64()));
    }
    println!("\nall checks passed\n{}", took.join("\n"));
    for what in run::left_out() {
        println!("left out: {what}");
    }
    Ok(())
}

fn lint() -> Outcome {
    let arguments = ["clippy", "--workspace", "--all-targets", "--profile", "lint"];
    run::run(cargo(arguments).args(["--", "-D", "warnings"]))
}

fn docs() -> Outcome {
    let mut doc = cargo(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    // In the profile of the lints, whose builds of dependencies it can use.
    doc.args(["--quiet", "--profile", "lint"]);
    run::run(doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
}

/// Checks that the simulator finds planted bugs. Uses a feature that no other build has.
fn planted_bugs() -> Outcome {
    let arguments = ["test", "-p", "simulator", "--features", "planted-bugs", "--test", "planted"];
    run::run(&mut cargo(arguments))
}

/// The same build as for the tests: the loop looks for lost writes, not for speed.
fn crash() -> Outcome {
    run::run(&mut cargo(["build", "-p", "planisphere", "-p", "bench"]))?;
    let program = run::target_dir()?.join("debug").join(run::executable("bench"));
    for partitions in [&[][..], &["--repartition"], &["--direct", "--repartition"]] {
        let mut bench = std::process::Command::new(&program);
        bench.args(["crash", "--rounds", CRASH_ROUNDS]).args(partitions);
        run::run(bench.env("PLANISPHERE_BIN", run::server("debug")?))?;
    }
    Ok(())
}

/// Runs an optional tool; if it is missing, prints how to get it and continues.
fn optional(program: &str, arguments: &[&str], install: &str) -> Outcome {
    let found = match arguments.first() {
        Some(subcommand) => std::process::Command::new(program)
            .args([subcommand, "--version"])
            .output()
            .is_ok_and(|output| output.status.success()),
        None => run::has(program, "--version"),
    };
    if !found {
        run::leave_out(format!("{program}, which is not installed ({install})"));
        return Ok(());
    }
    run::run(std::process::Command::new(program).args(arguments).current_dir(run::root()))
}
