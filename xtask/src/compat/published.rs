//! The results of Microsoft's own suites in their last run.

use super::{Expected, LANGUAGES, expected};
use crate::tidy::{Complaint, Tree};

fn results_of(language: &str) -> String {
    format!("conformance/{language}/published-results.txt")
}

/// A row per suite: what was run, when, and the counts.
pub(super) fn table(tree: &Tree, complaints: &mut Vec<Complaint>) -> String {
    let mut out = String::from(
        "They are run beside CI, by `conformance/<language>/published`, and those of Java by hand; those of Go, which take a minute, in `cargo xtask check`. Skipped are tests that their authors skip.\n\n\
         | Suite | Run | Passed | Failed | Skipped | Counts per file |\n|---|---|---|---|---|---|\n",
    );
    for language in LANGUAGES {
        let path = results_of(language);
        let Some(text) = tree.files.get(&path) else { continue };
        let name = path.rsplit('/').next().unwrap_or(&path);
        // Files that were run on another day than the others begin with a line of their own.
        let starts = text.match_indices("# ").filter(|(at, _)| text[..*at].ends_with('\n'));
        let mut starts: Vec<usize> = starts.map(|(at, _)| at).collect();
        starts.insert(0, 0);
        starts.push(text.len());
        starts.dedup();
        for run in starts.windows(2).filter_map(|ends| text.get(ends[0]..ends[1])) {
            let Some((suite, date)) = header(run) else {
                complaints.push(format!("{path}: does not begin with `# suite, date`"));
                continue;
            };
            let [passed, failed, skipped] = sums(run);
            out.push_str(&format!(
                "| {suite} | {date} | {passed} | {failed} | {skipped} | [{language}/{name}](../{path}) |\n"
            ));
        }
        let [_, failed, _] = sums(text);
        let listed: u64 = expected(tree, language, "published").iter().map(times).sum();
        if listed != failed {
            complaints.push(format!(
                "{path}: {failed} tests failed, and expected-failures.txt names {listed}"
            ));
        }
    }
    out
}

/// How often a test is run that has parameters or clients of several kinds: `name x3`.
fn times(entry: &Expected) -> u64 {
    let number = entry.name.rsplit_once(" x").and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}

/// `# suite, date`
fn header(text: &str) -> Option<(&str, &str)> {
    text.lines().next()?.strip_prefix("# ")?.rsplit_once(", ")
}

fn sums(text: &str) -> [u64; 3] {
    let mut sums = [0; 3];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let counts = line.split_whitespace().rev().take(3).map(|count| count.parse().unwrap_or(0));
        for (sum, count) in sums.iter_mut().rev().zip(counts) {
            *sum += count;
        }
    }
    sums
}

/// The tests that fail, by their reasons, and the files that are not run.
pub(super) fn misses(tree: &Tree) -> String {
    let mut out = String::new();
    for language in LANGUAGES {
        let failing = expected(tree, language, "published");
        let left_out = expected(tree, language, "not run");
        if failing.is_empty() && left_out.is_empty() {
            continue;
        }
        out.push_str(&format!("\n### {language}\n\n| Why | Tests |\n|---|---|\n"));
        for (what, entries) in [("", &failing), ("not run: ", &left_out)] {
            for (reason, names) in grouped(entries) {
                out.push_str(&format!("| {what}{reason} | {} |\n", names.join("<br>")));
            }
        }
    }
    out
}

/// Names by reason, in the order in which reasons are first given.
fn grouped(entries: &[Expected]) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for Expected { name, reason } in entries {
        match groups.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_compared_with_what_is_expected() {
        let results = "# sdk 1.0 (repo abc), 2026-11-16\na 3 1 0\nb c 2 0 4\n";
        let failures = "[published]\nt x1 # slow\n[not run]\nf # far\n";
        let mut tree = Tree::of(&[
            ("conformance/js/published-results.txt", results),
            ("conformance/js/expected-failures.txt", failures),
        ]);
        let mut complaints = Vec::new();
        let text = table(&tree, &mut complaints);
        assert!(text.contains("| sdk 1.0 (repo abc) | 2026-11-16 | 5 | 1 | 4 |"), "{text}");
        assert_eq!(complaints, Vec::<String>::new());
        assert!(
            misses(&tree).contains("| slow | t x1 |\n| not run: far | f |"),
            "{}",
            misses(&tree)
        );
        let path = "conformance/js/published-results.txt".to_owned();
        let later = format!("{results}# sdk 1.0, more files, 2026-11-19\nd 7 0 0\n");
        tree.files.insert(path.clone(), later);
        let text = table(&tree, &mut complaints);
        assert!(text.contains("| sdk 1.0 (repo abc) | 2026-11-16 | 5 | 1 | 4 |"), "{text}");
        assert!(text.contains("| sdk 1.0, more files | 2026-11-19 | 7 | 0 | 0 |"), "{text}");
        assert_eq!(complaints, Vec::<String>::new());
        tree.files.insert(path, "# sdk, today\na 1 2 0\n".to_owned());
        table(&tree, &mut complaints);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        let path = "conformance/js/published-results.txt".to_owned();
        tree.files.insert(path, "# sdk, today\na 1 1 0\n".to_owned());
        let path = "conformance/js/expected-failures.txt".to_owned();
        for (name, count) in [("t x1", 0), ("t x2", 1), ("x", 0), ("t x0", 1)] {
            tree.files.insert(path.clone(), format!("[published]\n{name} # slow\n"));
            let mut complaints = Vec::new();
            table(&tree, &mut complaints);
            assert_eq!(complaints.len(), count, "{name}: {complaints:?}");
        }
    }
}
