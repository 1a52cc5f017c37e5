//! The project's commands. `cargo xtask` alone lists them.
//!
//! Only the standard library is used, so that the first command after a clone runs at once.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "printing is what a command line tool does")]
#![expect(clippy::disallowed_methods, reason = "commands run in real time")]

mod check;
mod compat;
mod conformance;
mod readme;
mod run;
mod tidy;

use std::process::ExitCode;

use run::{Outcome, cargo};

/// One command.
struct Task {
    name: &'static str,
    arguments: &'static str,
    does: &'static str,
    run: fn(&[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task {
        name: "check",
        arguments: "",
        does: "everything CI requires: fmt, tidy, lint, docs, tests, SDK suites, crash loop",
        run: check::run,
    },
    Task {
        name: "tidy",
        arguments: "",
        does: "check crate edges, file sizes and other structure",
        run: |_| tidy::run(),
    },
    Task {
        name: "conformance",
        arguments: "[python|js|rust] [-k NAME]",
        does: "run the suites of the official SDKs against the server",
        run: conformance::run,
    },
    Task {
        name: "compat",
        arguments: "",
        does: "regenerate docs/COMPAT.md from the features, the tests and the counts of suites",
        run: compat::run,
    },
    Task {
        name: "readme",
        arguments: "",
        does: "run the code in README.md, with what the SDK suites have installed",
        run: |_| readme::run(),
    },
    Task {
        name: "crash",
        arguments: "[--rounds N] [--repartition] [--direct]",
        does: "kill the server under load again and again, compare with what it acknowledged",
        run: |arguments| bench("crash", arguments),
    },
    Task {
        name: "simulate",
        arguments: "[--seeds N] [--from SEED]",
        does: "run the engine in simulated worlds, each decided by its seed",
        run: simulate,
    },
    Task {
        name: "direct",
        arguments: "[--requests N] [--check]",
        does: "compare what requests cost in Direct mode with the same ones over HTTPS",
        run: |arguments| bench("direct", arguments),
    },
    Task {
        name: "bench",
        arguments: "[--seconds N] [--only NAME]",
        does: "compare the release build with a no-op server, the bare store and a peer",
        run: |arguments| bench("run", arguments),
    },
    Task {
        name: "query-bench",
        arguments: "[--million] [--only NAME]",
        does: "run the same queries on the release build and on PostgreSQL, compare CPU time",
        run: |arguments| bench("query", arguments),
    },
    Task {
        name: "index-cost",
        arguments: "[--million]",
        does: "measure what the index costs writes, and what holding documents takes",
        run: |arguments| bench("index-cost", arguments),
    },
    Task {
        name: "counts",
        arguments: "[--million]",
        does: "count items of the release build, compare the processor time with point reads",
        run: |arguments| bench("counts", arguments),
    },
    Task {
        name: "search-bench",
        arguments: "--cache DIR",
        does: "measure vector and full-text search",
        run: |arguments| bench("search", arguments),
    },
    Task {
        name: "splits",
        arguments: "[--splits N] [--megabytes N]",
        does: "split and merge a partition under load, measure how long requests are blocked",
        run: |arguments| bench("splits", arguments),
    },
    Task {
        name: "throttle",
        arguments: "[--seconds N]",
        does: "overload partitions and compare what they serve with what is provisioned",
        run: |arguments| bench("throttle", arguments),
    },
    Task {
        name: "beside",
        arguments: "[--hostile N,N] [--seconds N]",
        does: "measure latencies of small requests next to hostile queries (noisy neighbours)",
        run: |arguments| bench("beside", arguments),
    },
    Task {
        name: "scripts",
        arguments: "[--scripts N] [--rate N]",
        does: "insert by a stored procedure, then read next to hostile scripts, compare the cost",
        run: |arguments| bench("scripts", arguments),
    },
    Task {
        name: "tables",
        arguments: "[--entities N] [--only NAME]",
        does: "run the same requests on the Table API and on Azurite, compare time and memory",
        run: |arguments| bench("tables", arguments),
    },
    Task {
        name: "soak",
        arguments: "[--minutes N]",
        does: "write steadily for half an hour, look for stalls and growth",
        run: |arguments| bench("soak", arguments),
    },
    Task {
        name: "golden",
        arguments: "[--bless]",
        does: "run the golden tests only; --bless rewrites what they expect",
        run: golden,
    },
    Task {
        name: "fuzz",
        arguments: "TARGET [--seconds N]",
        does: "fuzz a parser (needs a nightly toolchain and cargo-fuzz)",
        run: fuzz,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print_tasks();
        return ExitCode::SUCCESS;
    };
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprintln!("there is no command `{name}`\n");
        print_tasks();
        return ExitCode::from(2);
    };
    match (task.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\ncargo xtask {name}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn print_tasks() {
    println!("usage: cargo xtask COMMAND\n");
    for task in TASKS {
        let call = format!("{} {}", task.name, task.arguments);
        println!("  {call:<40} {}", task.does);
    }
}

/// The `bench` crate drives load and crashes, against the release build of the server.
fn bench(command: &str, arguments: &[String]) -> Outcome {
    run::run(&mut cargo(["build", "--release", "-p", "planisphere", "-p", "bench"]))?;
    let program = run::target_dir()?.join("release").join(run::executable("bench"));
    let mut bench = std::process::Command::new(program);
    run::run(bench.arg(command).args(arguments).env("PLANISPHERE_BIN", run::server("release")?))
}

/// Uses the profile of the tests, so that assertions in the engine are active.
fn simulate(arguments: &[String]) -> Outcome {
    run::run(cargo(["run", "--quiet", "-p", "simulator", "--"]).args(arguments))
}

/// Golden tests have the word in their name.
fn golden(arguments: &[String]) -> Outcome {
    let bless = match arguments {
        [] => "0",
        [flag] if flag == "--bless" => "1",
        _ => return Err("usage: cargo xtask golden [--bless]".to_owned()),
    };
    run::run(cargo(["test", "--workspace", "golden"]).env("BLESS", bless))
}

fn fuzz(arguments: &[String]) -> Outcome {
    let Some((target, rest)) = arguments.split_first() else {
        let targets = run::names_in("fuzz/corpus")?.join(", ");
        return Err(format!("name a target; there are {targets}"));
    };
    let seconds = match rest {
        [] => "60",
        [flag, seconds] if flag == "--seconds" => seconds,
        _ => return Err("usage: cargo xtask fuzz TARGET [--seconds N]".to_owned()),
    };
    let limit = format!("-max_total_time={seconds}");
    let arguments = ["+nightly", "fuzz", "run", target, "--", &limit];
    run::run(cargo(arguments).current_dir(run::root())).map_err(|why| {
        format!(
            "{why}\nfuzzing needs `rustup toolchain install nightly` and `cargo install cargo-fuzz`"
        )
    })
}
