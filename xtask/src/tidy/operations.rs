//! Whether the index of the engine's operations is complete and says where each of them is.

use std::collections::BTreeMap;

use super::Complaint;
use super::tree::Tree;

const SOURCE: &str = "crates/engine/src/";
const INDEX: &str = "crates/engine/src/engine.rs";

/// Complains about public methods of `Engine` that its index does not have, or has elsewhere.
pub(crate) fn indexed(tree: &Tree) -> Vec<Complaint> {
    let Some(text) = tree.files.get(INDEX) else { return Vec::new() };
    let mut stated = index(text);
    let mut complaints = Vec::new();
    for (path, code) in tree.ending(".rs") {
        let Some(file) = path.strip_prefix(SOURCE) else { continue };
        for operation in operations(code) {
            match stated.remove(operation) {
                Some(place) if place == file => {}
                Some(place) if place.ends_with('/') && file.starts_with(place) => {}
                Some(place) => {
                    complaints.push(format!("{path}: {INDEX} says that {operation} is in {place}"));
                }
                None => complaints.push(format!("{path}: {INDEX} does not name {operation}")),
            }
        }
    }
    complaints.extend(stated.keys().map(|name| format!("{INDEX}: {name} is no operation")));
    complaints
}

/// The operations in the index, and the file or folder of each. A row without one is about that of
/// the row before.
fn index(text: &str) -> BTreeMap<&str, &str> {
    let mut names = BTreeMap::new();
    let mut place = "";
    for row in text.lines().filter_map(|line| line.strip_prefix("/// |")) {
        let first = row.split('|').next().unwrap_or_default().trim();
        if !first.is_empty() {
            place = first.trim_matches('`');
        }
        let links = row.split("(Self::").skip(1);
        names.extend(links.filter_map(|link| link.split(')').next()).map(|name| (name, place)));
    }
    names
}

/// The public methods in the blocks `impl Engine` of a file.
fn operations(code: &str) -> impl Iterator<Item = &str> {
    let blocks = code.split("\nimpl Engine {\n").skip(1);
    let lines = blocks.flat_map(|block| block.lines().take_while(|line| *line != "}"));
    lines.filter_map(|line| {
        let rest = line.strip_prefix("    pub ")?;
        let rest = rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?;
        rest.split(['(', '<']).next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "x\nimpl Engine {\n    pub fn a() {\n    }\n    pub async fn b<T>() {}\n    \
                        pub(crate) fn c() {}\n}\nimpl Other {\n    pub fn d() {}\n}\n";

    fn wrong(index: &str) -> usize {
        indexed(&Tree::of(&[(INDEX, index), ("crates/engine/src/x/y.rs", CODE)])).len()
    }

    #[test]
    fn each_operation_is_in_the_index_with_its_place() {
        assert_eq!(wrong("/// | `x/` | [`a`](Self::a) |\n/// | | [`b`](Self::b) |\n"), 0);
        assert_eq!(wrong("/// | `x/y.rs` | [`a`](Self::a), [`b`](Self::b) |\n"), 0);
        assert_eq!(wrong("/// | `x/` | [`a`](Self::a) |\n/// | `z.rs` | [`b`](Self::b) |\n"), 1);
        assert_eq!(wrong("/// | `x/` | [`a`](Self::a) |\n"), 1);
        assert_eq!(wrong("/// | `x/` | [`a`](Self::a), [`b`](Self::b), [`c`](Self::c) |\n"), 1);
    }
}
