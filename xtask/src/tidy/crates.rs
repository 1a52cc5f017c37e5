//! Which crates may depend on which.

use super::Complaint;
use super::tree::Tree;

/// Which of our crates each crate may use, from the bottom up. Front ends do not see each other,
/// nothing below them sees a wire format, and only `storage` and its users see bytes on disk.
const EDGES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("storage", &["model"]),
    ("query", &["model"]),
    ("lang", &["model", "query"]),
    ("script", &["model"]),
    ("engine", &["model", "storage", "query"]),
    ("account", &["model"]),
    ("front-http", &["model", "engine"]),
    ("api-nosql", &["model", "query", "lang", "script", "engine", "account", "front-http"]),
    ("api-table", &["model", "query", "lang", "engine", "account", "front-http"]),
    ("api-mongo", &["model", "query", "lang", "engine", "account", "front-http"]),
    (
        "planisphere",
        &[
            "model",
            "storage",
            "engine",
            "account",
            "front-http",
            "api-nosql",
            "api-table",
            "api-mongo",
        ],
    ),
    ("testkit", &["model", "storage", "query", "lang", "engine", "api-nosql"]),
    ("golden", &[]),
    ("simulator", &["model", "storage", "lang", "engine", "testkit"]),
    ("bench", &["model", "storage", "query", "lang", "engine", "account", "api-nosql", "testkit"]),
];

/// Tests may use more: a store to run on, a language to write queries in, and shared test helpers.
const FOR_TESTS: &[&str] = &["lang", "testkit", "golden", "storage", "bench"];

/// Crates that neither block nor spawn.
const RUNTIME_FREE: &[&str] = &["model", "storage", "query", "lang", "script"];

/// Crates that do without unsafe code: all that hold or handle data.
const UNSAFE_FREE: &[&str] = &[
    "model",
    "storage",
    "query",
    "lang",
    "engine",
    "account",
    "front-http",
    "api-nosql",
    "api-table",
    "api-mongo",
    "planisphere",
];

/// The feature that puts bugs into the engine for tests to find. Only tests may enable it.
const FEATURE_FOR_TESTS: &str = "planted-bugs";
const USERS_OF_FEATURE: &[&str] = &["engine", "simulator"];

/// A line of a manifest that names a dependency.
#[derive(Debug, PartialEq, Eq)]
struct Dependency<'t> {
    name: &'t str,
    for_tests: bool,
}

/// Dependencies that a manifest lists, in any of its tables.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut table = "";
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = name;
        } else if table.ends_with("dependencies")
            && let Some((name, _)) = line.split_once(['.', ' ', '='])
            && !name.is_empty()
            && !name.starts_with('#')
        {
            found.push(Dependency { name, for_tests: table.ends_with("dev-dependencies") });
        }
    }
    found
}

/// Manifests of the crates, with the crate's name.
fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str, &str)> {
    tree.ending("/Cargo.toml").filter_map(|(path, text)| {
        let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!name.contains('/')).then_some((name, path, text))
    })
}

/// Complains about dependencies against the order, and about crates that are not listed in it.
pub(crate) fn edges(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (name, path, manifest) in manifests(tree) {
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("{path}: `{name}` has no place in xtask/src/tidy/crates.rs"));
            continue;
        };
        for dependency in dependencies(manifest) {
            let used = dependency.name;
            let is_ours = EDGES.iter().any(|(known, _)| *known == used);
            let may = allowed.contains(&used)
                || (dependency.for_tests && (FOR_TESTS.contains(&used) || used == name));
            if is_ours && !may {
                complaints.push(format!("{path}: `{name}` may not use `{used}`"));
            }
        }
    }
    complaints
}

/// Complains about a runtime in crates of plain functions.
pub(crate) fn runtime_free(tree: &Tree) -> Vec<Complaint> {
    let runtime_free = manifests(tree).filter(|(name, ..)| RUNTIME_FREE.contains(name));
    let offenders = runtime_free.filter(|(_, _, manifest)| {
        let mut dependencies = dependencies(manifest).into_iter();
        dependencies.any(|dependency| dependency.name.starts_with("tokio"))
    });
    offenders.map(|(name, path, _)| format!("{path}: `{name}` may not use tokio")).collect()
}

/// Complains about crates that could put planted bugs into the product.
pub(crate) fn planted_bugs(tree: &Tree) -> Vec<Complaint> {
    let names_it = |manifest: &str| manifest.contains(FEATURE_FOR_TESTS);
    let crates = manifests(tree).filter(|(name, ..)| !USERS_OF_FEATURE.contains(name));
    let others = crates.filter(|(_, _, manifest)| names_it(manifest)).map(|(_, path, _)| path);
    let workspace = tree.files.get("Cargo.toml").filter(|manifest| names_it(manifest));
    let by_default = manifests(tree).filter(|(_, _, manifest)| {
        let mut lines = manifest.lines();
        lines.any(|line| line.starts_with("default") && line.contains(FEATURE_FOR_TESTS))
    });
    others
        .chain(workspace.map(|_| "Cargo.toml"))
        .chain(by_default.map(|(_, path, _)| path))
        .map(|path| format!("{path}: `{FEATURE_FOR_TESTS}` is for tests of the simulator alone"))
        .collect()
}

/// Complains about crates that do not forbid unsafe code.
pub(crate) fn unsafe_free(tree: &Tree) -> Vec<Complaint> {
    let forbids = |name: &str| {
        ["lib.rs", "main.rs"].iter().any(|file| {
            let text = tree.files.get(&format!("crates/{name}/src/{file}"));
            text.is_some_and(|text| text.contains("#![forbid(unsafe_code)]"))
        })
    };
    let offenders =
        manifests(tree).filter(|(name, ..)| UNSAFE_FREE.contains(name) && !forbids(name));
    offenders.map(|(_, path, _)| format!("{path}: must forbid unsafe code")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_in_every_table() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n# b = 1\n\
                        c = \"1\"\n[target.'cfg(unix)'.dependencies]\nd = { path = \"d\" }\n\
                        [dev-dependencies]\ne.workspace = true\n[features]\nf = []\n";
        let names: Vec<(&str, bool)> =
            dependencies(manifest).iter().map(|d| (d.name, d.for_tests)).collect();
        assert_eq!(names, [("a", false), ("c", false), ("d", false), ("e", true)]);
    }

    #[test]
    fn an_edge_against_the_order_is_found() {
        let upward = [("crates/model/Cargo.toml", "[dependencies]\nengine.workspace = true\n")];
        assert_eq!(edges(&Tree::of(&upward)).len(), 1);
        let unknown = [("crates/misc/Cargo.toml", "")];
        assert_eq!(edges(&Tree::of(&unknown)).len(), 1);
        let downward = [
            ("crates/engine/Cargo.toml", "[dependencies]\nmodel.workspace = true\n"),
            ("crates/api-nosql/Cargo.toml", "[dev-dependencies]\nstorage.workspace = true\n"),
        ];
        assert_eq!(edges(&Tree::of(&downward)), Vec::<String>::new());
    }

    #[test]
    fn a_runtime_below_the_engine_is_found() {
        let manifest = "[dev-dependencies]\ntokio.workspace = true\n";
        assert_eq!(runtime_free(&Tree::of(&[("crates/query/Cargo.toml", manifest)])).len(), 1);
        assert_eq!(runtime_free(&Tree::of(&[("crates/engine/Cargo.toml", manifest)])).len(), 0);
    }

    #[test]
    fn bugs_for_the_product_are_found() {
        let asks = "[dependencies]\nengine = { features = [\"planted-bugs\"] }\n";
        assert_eq!(planted_bugs(&Tree::of(&[("crates/planisphere/Cargo.toml", asks)])).len(), 1);
        assert_eq!(planted_bugs(&Tree::of(&[("Cargo.toml", asks)])).len(), 1);
        assert_eq!(planted_bugs(&Tree::of(&[("crates/simulator/Cargo.toml", asks)])).len(), 0);
        let default = "[features]\ndefault = [\"planted-bugs\"]\n";
        assert_eq!(planted_bugs(&Tree::of(&[("crates/engine/Cargo.toml", default)])).len(), 1);
    }

    #[test]
    fn a_crate_that_allows_unsafe_code_is_found() {
        let manifest = ("crates/model/Cargo.toml", "");
        let allows = Tree::of(&[manifest, ("crates/model/src/lib.rs", "//! x")]);
        assert_eq!(unsafe_free(&allows).len(), 1);
        let forbids = Tree::of(&[manifest, ("crates/model/src/lib.rs", "#![forbid(unsafe_code)]")]);
        assert_eq!(unsafe_free(&forbids).len(), 0);
    }
}
