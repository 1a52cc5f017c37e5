//! `cargo xtask compat`: docs/COMPAT.md, generated from the list of features, the tests that prove
//! them and the counts of Microsoft's own suites.
//!
//! A test in one of our suites must pass unless `expected-failures.txt` names it, and then must
//! fail. So files of the repository determine which tests pass, and tidy can tell whether the
//! document matches them.

mod features;
mod functions;
mod published;

use crate::run::{self, Outcome};
use crate::tidy::{Complaint, Tree};

const DOCUMENT: &str = "docs/COMPAT.md";

/// Languages that have a suite.
const LANGUAGES: [&str; 6] = ["python", "js", "rust", "dotnet", "java", "go"];

/// Writes the document.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return Err("it takes no arguments".to_owned());
    }
    let tree = Tree::read(run::root()).map_err(|error| format!("can't read the tree: {error}"))?;
    let text = document(&tree).map_err(|complaints| complaints.join("\n"))?;
    std::fs::write(run::root().join(DOCUMENT), text).map_err(|error| error.to_string())
}

/// Where the document differs from the tests.
pub(crate) fn complaints(tree: &Tree) -> Vec<Complaint> {
    match document(tree) {
        Err(complaints) => complaints,
        Ok(text) if tree.files.get(DOCUMENT) == Some(&text) => Vec::new(),
        Ok(_) => vec![format!("{DOCUMENT}: out of date; run `cargo xtask compat`")],
    }
}

fn document(tree: &Tree) -> Result<String, Vec<Complaint>> {
    let mut complaints = Vec::new();
    let mut out = String::from(INTRODUCTION);
    out.push_str("\n## Microsoft's own suites\n\n");
    out.push_str(&published::table(tree, &mut complaints));
    out.push_str(&features::sections(tree, &mut complaints));
    out.push_str("\n## Functions of queries\n\n");
    out.push_str(&functions::table(tree, &mut complaints));
    out.push_str("\n## What fails in Microsoft's suites, and why\n");
    out.push_str(&published::misses(tree));
    if complaints.is_empty() { Ok(out) } else { Err(complaints) }
}

const INTRODUCTION: &str = "\
# Compatibility

What this server does of the NoSQL API of Azure Cosmos DB, and the test that shows it.
Made by `cargo xtask compat` from `conformance/features.txt`, the tests, `expected-failures.txt` of each suite and the \
counts of Microsoft's suites; `cargo xtask tidy` fails when it is out of date. Do not edit it.

**yes** means that the tests named pass in every run of `cargo xtask check` (those of .NET, Java and Go where these are installed); **partial** that something is missing, or \
that one of them is expected to fail; **no** that it is not there.

Clients of .NET and Java work in their default mode, Direct, at `https://localhost:8081/`, without options, where the \
machine trusts the certificate that `planisphere cert --out planisphere-ca.pem` writes:

```sh
# .NET on Linux (elsewhere the system's store), or `DisableServerCertificateValidation=true;` in the connection string
SSL_CERT_FILE=planisphere-ca.pem dotnet run
# Java, or `java -DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true`
keytool -importcert -alias planisphere -cacerts -storepass changeit -noprompt -file planisphere-ca.pem
```
";

/// A line of `expected-failures.txt`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expected {
    name: String,
    reason: String,
}

/// The lines in a section of a language's `expected-failures.txt`.
fn expected(tree: &Tree, language: &str, section: &str) -> Vec<Expected> {
    let path = format!("conformance/{language}/expected-failures.txt");
    let text = tree.files.get(&path).map_or("", String::as_str);
    let (header, mut is_ours, mut found) = (format!("[{section}]"), false, Vec::new());
    for line in text.lines() {
        if line.starts_with('[') {
            is_ours = line == header;
        } else if is_ours && !line.is_empty() && !line.starts_with('#') {
            let (name, reason) = line.split_once(" # ").unwrap_or((line, ""));
            let (name, reason) = (name.trim().to_owned(), reason.trim().to_owned());
            found.push(Expected { name, reason });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_told_apart_and_reasons_kept() {
        let text = "# about\n[own]\na::b # why\n\n[published]\n# note\nc\n";
        let tree = Tree::of(&[("conformance/js/expected-failures.txt", text)]);
        let of = |name: &str, reason: &str| Expected { name: name.into(), reason: reason.into() };
        assert_eq!(expected(&tree, "js", "own"), [of("a::b", "why")]);
        assert_eq!(expected(&tree, "js", "published"), [of("c", "")]);
        assert_eq!(expected(&tree, "rust", "own"), []);
    }

    #[test]
    fn a_document_that_is_out_of_date_is_a_complaint() {
        let mut tree = Tree::of(&[("conformance/features.txt", "## A\nf | | why not\n")]);
        let text = document(&tree).unwrap();
        assert!(text.contains("| f | no |"), "{text}");
        assert_eq!(complaints(&tree).len(), 1);
        tree.files.insert(DOCUMENT.to_owned(), text);
        assert_eq!(complaints(&tree), Vec::<String>::new());
    }
}
