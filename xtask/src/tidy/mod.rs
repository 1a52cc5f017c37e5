//! `cargo xtask tidy`: rules for the repository that the compiler does not check.
//!
//! Each check takes the tree and returns complaints: a file, and what is wrong with it.

mod crates;
mod files;
mod map;
mod operations;
mod tree;
mod words;

use crate::compat;
use crate::run::{self, Outcome};
pub(crate) use tree::Tree;

/// A file and what is wrong with it.
pub(crate) type Complaint = String;

/// Checks the repository.
pub(crate) fn run() -> Outcome {
    let tree = Tree::read(run::root()).map_err(|error| format!("can't read the tree: {error}"))?;
    let complaints = complaints(&tree);
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => {
            println!("{} files are tidy", tree.files.len());
            Ok(())
        }
        count => Err(format!("{count} things are not tidy")),
    }
}

fn complaints(tree: &Tree) -> Vec<Complaint> {
    let checks = [
        crates::edges,
        crates::runtime_free,
        crates::unsafe_free,
        crates::planted_bugs,
        files::large,
        files::unnumbered,
        files::machine_paths,
        files::registries,
        files::links,
        map::names,
        map::shape,
        words::private,
        operations::indexed,
        compat::complaints,
    ];
    checks.iter().flat_map(|check| check(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let tree = Tree::read(run::root()).unwrap();
        assert_eq!(complaints(&tree), Vec::<String>::new());
    }
}
