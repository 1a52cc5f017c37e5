//! The list of features and the tests that prove them.

use super::{LANGUAGES, expected};
use crate::tidy::{Complaint, Tree};

pub(super) const LIST: &str = "conformance/features.txt";

/// One section per area, with a table of its features.
pub(super) fn sections(tree: &Tree, complaints: &mut Vec<Complaint>) -> String {
    let mut out = String::new();
    for line in tree.files.get(LIST).map_or("", String::as_str).lines() {
        if let Some(area) = line.strip_prefix("## ") {
            out.push_str(&format!(
                "\n## {area}\n\n| Feature | | Shown by | Missing |\n|---|---|---|---|\n"
            ));
        } else if !line.is_empty() && !line.starts_with(['#', '!']) {
            out.push_str(&row(tree, line, complaints));
        }
    }
    out
}

fn row(tree: &Tree, line: &str, complaints: &mut Vec<Complaint>) -> String {
    let mut fields = line.split('|').map(str::trim);
    let (feature, proofs) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
    let mut missing = fields.next().unwrap_or("").to_owned();
    let proofs: Vec<Proof> =
        proofs.split(", ").filter(|text| !text.is_empty()).map(Proof::parse).collect();
    for proof in &proofs {
        if !proof.exists(tree) {
            complaints.push(format!("{LIST}: `{feature}` has no proof `{}`", proof.shown()));
        }
        for failure in proof.failures(tree) {
            missing.push_str(if missing.is_empty() { "" } else { "; " });
            missing.push_str(&failure);
        }
    }
    if proofs.is_empty() && missing.is_empty() {
        complaints.push(format!("{LIST}: `{feature}` has neither a proof nor a reason"));
    }
    let state = match (proofs.is_empty(), missing.is_empty()) {
        (true, _) => "no",
        (false, true) => "yes",
        (false, false) => "partial",
    };
    let shown: Vec<_> = proofs.iter().map(Proof::link).collect();
    format!("| {feature} | {state} | {} | {missing} |\n", shown.join(", "))
}

/// A file of tests, or one test in it.
struct Proof {
    path: String,
    test: Option<String>,
}

impl Proof {
    fn parse(text: &str) -> Self {
        let (file, test) = match text.split_once("::") {
            Some((file, test)) => (file, Some(test.to_owned())),
            None => (text, None),
        };
        let is_of_suite =
            LANGUAGES.iter().any(|language| file.starts_with(&format!("{language}/")));
        let path = if is_of_suite { format!("conformance/{file}") } else { file.to_owned() };
        Self { path, test }
    }

    fn exists(&self, tree: &Tree) -> bool {
        let Some(text) = tree.files.get(&self.path) else { return false };
        let Some(test) = &self.test else { return true };
        [
            format!("def {test}("),
            format!("fn {test}("),
            format!("Task {test}("),
            format!("func {test}("),
            format!("void {test}("),
            format!("test(\"{test}\""),
        ]
        .iter()
        .any(|definition| text.contains(definition))
    }

    /// Why its tests are expected to fail.
    fn failures(&self, tree: &Tree) -> Vec<String> {
        let Some(language) = self.path.strip_prefix("conformance/") else { return Vec::new() };
        let Some((language, file)) = language.split_once('/') else { return Vec::new() };
        let entries = expected(tree, language, "own").into_iter();
        let ours = entries.filter(|entry| self.covers(tree, file, &entry.name));
        ours.map(|entry| entry.reason).collect()
    }

    /// Whether it covers the test with this name in a list of expected failures.
    fn covers(&self, tree: &Tree, file: &str, name: &str) -> bool {
        let is_wanted = |test: &str| self.test.as_deref().is_none_or(|wanted| wanted == test);
        match name.split_once("::") {
            // Python, C#, Java: file::test[variant]. Rust: module::test.
            Some((of, rest)) => {
                let test = rest.split('[').next().unwrap_or(rest);
                let stem = file.rsplit('/').next().and_then(|name| name.split('.').next());
                (of == file || Some(of) == stem) && is_wanted(test)
            }
            // Go: test/variant.
            None if file.ends_with(".go") => {
                let test = name.split('/').next().unwrap_or(name);
                let text = tree.files.get(&self.path).map_or("", String::as_str);
                text.contains(&format!("func {test}(")) && is_wanted(test)
            }
            // JavaScript: suite > test.
            None => {
                let test = name.rsplit(" > ").next().unwrap_or(name);
                let text = tree.files.get(&self.path).map_or("", String::as_str);
                text.contains(&format!("\"{test}\"")) && is_wanted(test)
            }
        }
    }

    fn shown(&self) -> String {
        match &self.test {
            Some(test) => format!("{}::{test}", self.path),
            None => self.path.clone(),
        }
    }

    fn link(&self) -> String {
        let short = self.path.strip_prefix("conformance/").unwrap_or(&self.path);
        let name = self.test.as_ref().map_or_else(
            || short.to_owned(),
            |test| format!("{}: {test}", short.rsplit('/').next().unwrap_or(short)),
        );
        format!("[{name}](../{})", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(list: &str, failures: &str) -> (String, Vec<Complaint>) {
        let tree = Tree::of(&[
            (LIST, list),
            ("conformance/python/test_a.py", "async def test_one(x):\n"),
            ("conformance/js/a.test.js", "test(\"does it\", () => {})"),
            ("conformance/go/a_test.go", "func TestOne(t *testing.T) {"),
            ("conformance/python/expected-failures.txt", failures),
            ("conformance/go/expected-failures.txt", failures),
        ]);
        let mut complaints = Vec::new();
        (sections(&tree, &mut complaints), complaints)
    }

    #[test]
    fn a_feature_is_what_its_tests_say() {
        let list = "## A\nall | python/test_a.py, js/a.test.js::does it\nsome | js/a.test.js | the rest\nnone | | later\n";
        let (text, complaints) = rendered(list, "");
        assert!(text.contains("| all | yes |") && text.contains("| some | partial |"), "{text}");
        assert!(text.contains("| none | no |  | later |"), "{text}");
        assert_eq!(complaints, Vec::<String>::new());
    }

    #[test]
    fn a_test_that_fails_makes_it_partial() {
        let failures = "[own]\ntest_a.py::test_one[sync] # it is late\n";
        let (text, _) = rendered("## A\nf | python/test_a.py::test_one\n", failures);
        assert!(text.contains("| f | partial |") && text.contains("it is late"), "{text}");
        let (text, _) = rendered("## A\nf | js/a.test.js\n", failures);
        assert!(text.contains("| f | yes |"), "{text}");
        let failures = "[own]\nTestOne/https # it is late\n";
        let (text, _) = rendered("## A\nf | go/a_test.go\ng | go/a_test.go::TestOne\n", failures);
        assert!(text.contains("| f | partial |") && text.contains("| g | partial |"), "{text}");
    }

    #[test]
    fn proofs_that_are_not_there_are_complained_about() {
        for line in ["f | python/none.py", "f | python/test_a.py::test_two", "f |"] {
            let (_, complaints) = rendered(&format!("## A\n{line}\n"), "");
            assert_eq!(complaints.len(), 1, "{line}: {complaints:?}");
        }
    }
}
