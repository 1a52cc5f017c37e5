//! Tests as data: reads `*.golden` files, compares the answers of a runner, rewrites them on
//! demand.
//!
//! A file states its reason, the items it needs and commands with their expected answers:
//!
//! ```text
//! # Lines like this one and empty lines are for the reader.
//! reason  a missing property is not equal to anything
//! key     /pk
//! item    {"id":"1","pk":"a"}
//!
//! param   @x 1
//! query   SELECT VALUE c.id FROM c WHERE c.missing = @x
//! => the expected lines, each behind an arrow; none here
//! ```
//!
//! `reason`, `key`, `item`, `planar` (coordinates are on a plane, not on the globe) and `computed`
//! (the name and the definition of a property) come before the first command. A `param` belongs to
//! the next command only. The runner defines what a command means. With `BLESS=1` in the
//! environment the answers are written into the files instead of being compared.
//!
//! Used by tests only; this crate depends on nothing, so that every crate can use it.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The lines before the first command of a file.
#[derive(Debug, Default)]
pub struct Setup {
    /// Why the file exists.
    pub reason: String,
    /// Partition-key paths.
    pub keys: Vec<String>,
    /// JSON texts of the items, in order.
    pub items: Vec<String>,
    /// Whether coordinates are on a plane.
    pub is_planar: bool,
    /// Names and definitions of computed properties.
    pub computed: Vec<(String, String)>,
}

/// A command and its expected answer.
#[derive(Debug)]
pub struct Case {
    /// Number of its line, from 1.
    pub line: usize,
    /// Its first word.
    pub command: String,
    /// The rest of its line.
    pub text: String,
    /// Names and JSON texts of its parameters.
    pub parameters: Vec<(String, String)>,
    /// The lines after the arrows.
    pub expected: Vec<String>,
}

/// A parsed file.
#[derive(Debug)]
pub struct Golden {
    path: PathBuf,
    lines: Vec<String>,
    setup: Setup,
    cases: Vec<Case>,
}

/// Runs every `*.golden` file directly in `directory` through `run`, which answers one command.
///
/// # Panics
/// If the directory holds no such file, a file is malformed, or an answer is not the expected one.
pub fn check_directory(directory: &Path, mut run: impl FnMut(&Setup, &Case) -> Vec<String>) {
    let mut report = String::new();
    let is_bless = env::var_os("BLESS").is_some_and(|value| value == "1");
    for path in golden_files(directory) {
        let golden = Golden::read(&path).unwrap_or_else(|error| panic!("{error}"));
        let answers: Vec<_> = golden.cases.iter().map(|case| run(&golden.setup, case)).collect();
        if is_bless {
            golden.bless(&answers).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        } else {
            report.push_str(&golden.differences(&answers));
        }
    }
    assert!(report.is_empty(), "answers differ (BLESS=1 rewrites the files):\n{report}");
}

fn golden_files(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "golden"))
        .collect();
    assert!(!paths.is_empty(), "{} holds no golden file", directory.display());
    paths.sort();
    paths
}

impl Golden {
    /// Reads a file; the error names the line that is wrong.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(path, &text)
    }

    /// The lines before the commands.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The commands in order.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut golden = Self {
            path: path.to_owned(),
            lines: Vec::new(),
            setup: Setup::default(),
            cases: vec![],
        };
        let mut parameters = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            golden
                .parse_line(at + 1, line, &mut parameters)
                .map_err(|error| format!("{}:{}: {error}", path.display(), at + 1))?;
        }
        if golden.setup.reason.is_empty() {
            return Err(format!("{}: no reason is stated", path.display()));
        }
        golden.lines = lines;
        Ok(golden)
    }

    fn parse_line(
        &mut self,
        line: usize,
        text: &str,
        parameters: &mut Vec<(String, String)>,
    ) -> Result<(), &'static str> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        if let Some(expected) = arrow(text) {
            let case = self.cases.last_mut().ok_or("an answer without a command")?;
            case.expected.push(expected.to_owned());
            return Ok(());
        }
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim().to_owned();
        let is_setup = matches!(word, "reason" | "key" | "item" | "planar" | "computed");
        if is_setup && !self.cases.is_empty() {
            return Err("what describes the container must come before the first command");
        }
        match word {
            "reason" => self.setup.reason = rest,
            "key" => self.setup.keys.push(rest),
            "item" => self.setup.items.push(rest),
            "planar" => self.setup.is_planar = true,
            "computed" => {
                let (name, text) = rest.split_once(' ').ok_or("computed is a name and a query")?;
                self.setup.computed.push((name.to_owned(), text.trim().to_owned()));
            }
            "param" => {
                let (name, value) = rest.split_once(' ').ok_or("a param is a name and a value")?;
                parameters.push((name.to_owned(), value.trim().to_owned()));
            }
            command => self.cases.push(Case {
                line,
                command: command.to_owned(),
                text: rest,
                parameters: std::mem::take(parameters),
                expected: Vec::new(),
            }),
        }
        Ok(())
    }

    /// A readable list of the cases whose answer differs from the expected one.
    fn differences(&self, answers: &[Vec<String>]) -> String {
        let mut report = String::new();
        for (case, answer) in self.cases.iter().zip(answers) {
            if case.expected != *answer {
                let place = format!("{}:{}", self.path.display(), case.line);
                let (expected, answer) = (case.expected.join("\n    "), answer.join("\n    "));
                let _ = write!(
                    report,
                    "{place}: {} {}\n  expected\n    {expected}\n  got\n    {answer}\n",
                    case.command, case.text
                );
            }
        }
        report
    }

    /// Rewrites the file with these answers.
    fn bless(&self, answers: &[Vec<String>]) -> std::io::Result<()> {
        fs::write(&self.path, self.with_answers(answers))
    }

    fn with_answers(&self, answers: &[Vec<String>]) -> String {
        let mut text = String::new();
        let mut answers = self.cases.iter().map(|case| case.line).zip(answers).peekable();
        for (at, line) in self.lines.iter().enumerate() {
            if arrow(line).is_some() {
                continue;
            }
            text.push_str(line);
            text.push('\n');
            if let Some((_, answer)) = answers.next_if(|(number, _)| *number == at + 1) {
                for line in answer {
                    text.push_str(format!("=> {line}").trim_end());
                    text.push('\n');
                }
            }
        }
        text
    }
}

/// The text after the arrow, if the line has one.
fn arrow(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("=>")?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# about\nreason  why\nkey     /pk\nitem    {\"id\":\"1\"}\nplanar\ncomputed p SELECT VALUE 1\n\
        \n\
        param   @x 1 2\nquery   SELECT 1\n=> 1\n=>   indented\nquery   SELECT 2\n";

    fn parse(text: &str) -> Result<Golden, String> {
        Golden::parse(Path::new("a.golden"), text)
    }

    #[test]
    fn a_file_is_read_in_full() {
        let golden = parse(TEXT).unwrap();
        assert_eq!(golden.setup().reason, "why");
        assert_eq!(golden.setup().keys, ["/pk"]);
        assert_eq!(golden.setup().items, ["{\"id\":\"1\"}"]);
        assert!(golden.setup().is_planar);
        assert_eq!(golden.setup().computed, [("p".to_owned(), "SELECT VALUE 1".to_owned())]);
        let [first, second] = golden.cases() else { panic!("two cases") };
        assert_eq!(
            (first.command.as_str(), first.text.as_str(), first.line),
            ("query", "SELECT 1", 9)
        );
        assert_eq!(first.parameters, [("@x".to_owned(), "1 2".to_owned())]);
        assert_eq!(first.expected, ["1", "  indented"]);
        assert!(second.parameters.is_empty() && second.expected.is_empty());
    }

    #[test]
    fn blessing_replaces_answers_and_nothing_else() {
        let golden = parse(TEXT).unwrap();
        let same = [vec!["1".to_owned(), "  indented".to_owned()], vec![]];
        assert_eq!(golden.with_answers(&same), TEXT);
        let other = [vec![], vec!["2".to_owned()]];
        let blessed = golden.with_answers(&other);
        assert!(blessed.ends_with("query   SELECT 1\nquery   SELECT 2\n=> 2\n"), "{blessed}");
        assert_eq!(golden.differences(&same), "");
        assert!(golden.differences(&other).contains("a.golden:9: query SELECT 1"));
    }

    #[test]
    fn malformed_files_are_refused() {
        for text in [
            "query x\n",
            "=> 1\nreason x\n",
            "reason x\nquery x\nitem {}\n",
            "reason x\nparam @x\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
