//! The query functions, and the golden files that prove them.

use super::features::LIST;
use crate::tidy::{Complaint, Tree};

const SOURCES: &str = "crates/query/src/functions/";
const GOLDEN: &str = "golden/nosql/";

/// A table of groups; complains of functions that exist and are not listed.
pub(super) fn table(tree: &Tree, complaints: &mut Vec<Complaint>) -> String {
    let mut out = String::from("| Group | Shown by golden files | Missing |\n|---|---|---|\n");
    let mut listed = Vec::new();
    for line in tree.files.get(LIST).map_or("", String::as_str).lines() {
        let Some(group) = line.strip_prefix("!functions ") else { continue };
        let (group, names) = group.split_once('|').unwrap_or((group, ""));
        let names: Vec<&str> = names.split_whitespace().collect();
        let (shown, missing): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| is_proved(tree, name));
        let code = |names: &[&str]| {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
        };
        out.push_str(&format!("| {} | {} | {} |\n", group.trim(), code(&shown), code(&missing)));
        listed.extend(names.iter().map(|name| name.to_ascii_uppercase()));
    }
    for name in defined(tree) {
        if !name.starts_with('_') && !listed.contains(&name.to_ascii_uppercase()) {
            complaints.push(format!("{LIST}: the function {name} is not listed"));
        }
    }
    out
}

/// Whether a query in a golden file calls a function.
fn is_proved(tree: &Tree, name: &str) -> bool {
    let call = format!("{}(", name.to_ascii_uppercase());
    let files = tree.files.iter().filter(|(path, _)| path.starts_with(GOLDEN));
    files.flat_map(|(_, text)| text.lines()).any(|line| calls(&line.to_ascii_uppercase(), &call))
}

fn calls(line: &str, call: &str) -> bool {
    line.match_indices(call).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
    })
}

/// The names in the tables of built-in functions.
fn defined(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let sources = tree.files.iter().filter(|(path, _)| path.starts_with(SOURCES));
    for (_, text) in sources {
        for start in ["linear(", "metered(", "of_two("] {
            for (at, _) in text.match_indices(start) {
                let rest = text[at + start.len()..].trim_start();
                let name = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
                found.extend(name.map(str::to_owned));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_listed_and_called_in_golden_files() {
        let tree = Tree::of(&[
            (LIST, "!functions Some | ABS LeftOver\n"),
            ("golden/nosql/math.golden", "query   SELECT VALUE abs(-1)\n"),
            ("golden/nosql/other.golden", "query   SELECT VALUE XLEFTOVER(1)\n"),
            ("crates/query/src/functions/math.rs", "linear(\n  \"ABS\", f), metered(\"NEW\", g)"),
        ]);
        let mut complaints = Vec::new();
        let table = table(&tree, &mut complaints);
        assert!(table.contains("| Some | `ABS` | `LeftOver` |"), "{table}");
        assert_eq!(complaints, ["conformance/features.txt: the function NEW is not listed"]);
    }
}
