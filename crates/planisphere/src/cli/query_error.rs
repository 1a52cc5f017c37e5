//! Shows the position of a mistake in a query: the line with carets below it.

use super::client::InvalidQuery;
use super::text;

/// Most characters of the shown line.
const WIDTH_MAX: usize = 76;
/// Characters shown before the mistake, if the line is longer.
const BEFORE: usize = 40;
const INDENT: &str = "  ";
const LEFT_OUT: &str = "...";

/// The same error, with the query and the position if it is a query error.
pub(super) fn with_caret(error: anyhow::Error, query: &str) -> anyhow::Error {
    let Some(InvalidQuery { message, query_error }) = error.downcast_ref() else { return error };
    let code = query_error.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    let caret_lines = caret_lines(query, query_error.start, query_error.end);
    anyhow::anyhow!("{}{code}\n{caret_lines}", text::shown(message))
}

/// The line in which a position begins, and a caret below each of its characters. Positions are
/// counted in UTF-16 code units.
fn caret_lines(query: &str, start: usize, end: usize) -> String {
    let (from, to) = (byte_at(query, start), byte_at(query, end.max(start)));
    // For a mistake at the end of a text, the last line that is not blank is shown.
    let from = if from == query.len() { query.trim_end().len() } else { from };
    let line_start = query[..from].rfind('\n').map_or(0, |at| at + 1);
    let line_end = query[from..].find('\n').map_or(query.len(), |at| from + at);
    let to = to.clamp(from, line_end);
    let line: Vec<char> = query[line_start..line_end].trim_end().chars().map(one_column).collect();
    let at = query[line_start..from].chars().count();
    let length = query[from..to].trim_end().chars().count().max(1);

    let first = if line.len() > WIDTH_MAX { at.saturating_sub(BEFORE) } else { 0 };
    let last = line.len().min(first + WIDTH_MAX);
    let before = if first > 0 { LEFT_OUT } else { "" };
    let after = if last < line.len() { LEFT_OUT } else { "" };
    let shown: String = line[first..last].iter().collect();
    let blank = " ".repeat(before.len() + at - first);
    let carets = "^".repeat(length.min((last - first).saturating_sub(at - first).max(1)));
    let number = match query.trim_end().contains('\n') {
        true => format!("line {}:\n", 1 + query[..line_start].matches('\n').count()),
        false => String::new(),
    };
    format!("{number}{INDENT}{before}{shown}{after}\n{INDENT}{blank}{carets}")
}

/// The byte at which a UTF-16 code unit begins.
fn byte_at(query: &str, unit: usize) -> usize {
    let mut units = 0;
    for (at, c) in query.char_indices() {
        if units >= unit {
            return at;
        }
        units += c.len_utf16();
    }
    query.len()
}

/// On a terminal each character must take one column.
fn one_column(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_stands_under_each_character_of_the_mistake() {
        let query = "SELECT * FORM c";
        assert_eq!(caret_lines(query, 9, 13), "  SELECT * FORM c\n           ^^^^");
        assert_eq!(caret_lines("SELECT", 6, 6), "  SELECT\n        ^");
        assert_eq!(
            caret_lines("SELECT 'é\u{1F600}' FORM", 13, 17),
            "  SELECT 'é\u{1F600}' FORM\n              ^^^^"
        );
        assert_eq!(caret_lines("a\tb ?", 4, 5), "  a b ?\n      ^");
        assert_eq!(caret_lines("", 0, 0), "  \n  ^");
        // Positions beyond the query.
        assert_eq!(caret_lines("ab", 7, 9), "  ab\n    ^");
        assert_eq!(caret_lines("ab", 1, 0), "  ab\n   ^");
    }

    #[test]
    fn of_a_longer_query_the_line_is_shown() {
        let query = "SELECT c.id\nFROM c\nWHERE c.a ==== 1\nORDER BY c.id\n";
        let at = query.find("==").unwrap();
        assert_eq!(
            caret_lines(query, at + 2, at + 4),
            "line 3:\n  WHERE c.a ==== 1\n              ^^"
        );
        // A position that extends beyond its line, and the end of the text.
        assert!(caret_lines(query, at, query.len()).ends_with("\n            ^^^^^^"));
        let end = caret_lines(query, query.len(), query.len());
        assert_eq!(end, "line 4:\n  ORDER BY c.id\n               ^");
    }

    #[test]
    fn of_a_long_line_a_part_is_shown() {
        let query = format!("SELECT {} FORM {}", "a,".repeat(100), "b".repeat(100));
        let at = query.find("FORM").unwrap();
        let caret_lines = caret_lines(&query, at, at + 4);
        let [shown, carets] = caret_lines.lines().collect::<Vec<_>>()[..] else {
            panic!("{caret_lines}")
        };
        assert!(shown.starts_with("  ...") && shown.ends_with("..."), "{shown}");
        assert_eq!(shown.find("FORM"), carets.find("^^^^"), "{caret_lines}");
        assert!(carets.ends_with(" ^^^^") && shown.len() < 90, "{caret_lines}");
    }
}
