//! Formats numbers, bars and colours for people.

use std::io::{IsTerminal, Write};

/// The style of output for the terminal or file that it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputStyle {
    /// Whether colours are shown.
    pub(super) has_colour: bool,
    /// Whether bars may use other characters than ASCII.
    pub(super) has_blocks: bool,
    /// Width in columns.
    pub(super) columns: usize,
}

/// Width of output that is not a terminal.
const COLUMNS: usize = 100;
/// Least and greatest assumed width of a terminal.
const COLUMNS_RANGE: std::ops::RangeInclusive<usize> = 20..=1000;

/// Columns of the terminal that standard output goes to.
fn columns() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    let columns = size.map_or(COLUMNS, |(width, _)| usize::from(width.0));
    columns.clamp(*COLUMNS_RANGE.start(), *COLUMNS_RANGE.end())
}

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Fair,
    Bad,
    Dim,
    Strong,
}

impl OutputStyle {
    /// The style for standard output.
    pub(super) fn of_stdout() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let is_plain =
            variable("NO_COLOR").is_some() || variable("TERM").as_deref() == Some("dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name));
        let is_utf8 = locale.map_or(cfg!(windows), |locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        let has_colour = std::io::stdout().is_terminal() && !is_plain;
        Self { has_colour, has_blocks: is_utf8, columns: columns() }
    }

    /// `text` in a colour, if colours are shown.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.has_colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Fair => "33",
            Tone::Bad => "31",
            Tone::Dim => "2",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A bar of `width` columns, filled to the fraction `part`. `mark` draws a line at another
    /// fraction.
    pub(super) fn bar(self, part: f64, mark: Option<f64>, width: usize) -> String {
        let at = |part: f64| (part.clamp(0.0, 1.0) * width as f64 * 8.0).round();
        let eighths = at(part);
        let mark = mark.map(|mark| (at(mark) / 8.0).ceil() - 1.0);
        let cell = |column: usize| {
            let left = eighths - column as f64 * 8.0;
            let is_mark = mark.is_some_and(|mark| (mark.max(0.0) - column as f64).abs() < 0.5);
            match (self.has_blocks, is_mark) {
                (true, true) if left >= 8.0 => '▓',
                (true, true) => '┊',
                (false, true) => '|',
                (true, false) => block(left),
                (false, false) if left >= 4.0 => '#',
                (false, false) => ' ',
            }
        };
        (0..width).map(cell).collect()
    }
}

fn block(eighths: f64) -> char {
    const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let full = (1..=8).rev().find(|n| eighths >= f64::from(*n));
    full.and_then(|n: u8| BLOCKS.get(usize::from(n) - 1)).copied().unwrap_or(' ')
}

/// Bytes with three digits at most: `17 B`, `1.5 KB`, `10 GB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 999.5 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(amount < 9.95);
    format!("{amount:.digits$} {}", UNITS[unit])
}

/// A whole number with separators between thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Request units, with a decimal when there are few.
pub(super) fn units(ru: f64) -> String {
    if ru < 9.95 && ru.fract() != 0.0 {
        return format!("{ru:.1}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shown roughly")]
    let whole = ru.max(0.0).round() as u64;
    number(whole)
}

/// A fraction in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

/// Milliseconds in a suitable unit.
pub(super) fn duration(millis: f64) -> String {
    match millis {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 60_000.0 => format!("{:.1} s", ms / 1000.0),
        ms => format!("{:.0} min", ms / 60_000.0),
    }
}

/// `text` cut to at most `width` characters, keeping its beginning.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Blanks before a column.
const GAP: usize = 2;

/// A table whose columns are as wide as necessary. Cells may have colours; only visible characters
/// count as width.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<(String, usize)>>,
    right: Vec<bool>,
}

impl Table {
    /// Headings; one that starts with `>` marks a right-aligned column.
    pub(super) fn new(style: OutputStyle, headings: &[&str]) -> Self {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let names = headings.iter().map(|heading| heading.trim_start_matches('>'));
        let names = names.map(|name| (style.paint(Tone::Dim, name), name.chars().count()));
        Self { rows: vec![names.collect()], right }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells.into_iter().map(|cell| (cell.painted, cell.width)).collect());
    }

    /// Removes a column.
    pub(super) fn remove(&mut self, column: usize) {
        self.right.remove(column);
        for row in &mut self.rows {
            row.remove(column);
        }
    }

    /// Width of the widest possible line.
    pub(super) fn width(&self) -> usize {
        self.widths().iter().map(|width| width + GAP).sum()
    }

    /// The lines of the table.
    pub(super) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let of_row = |row: &Vec<(String, usize)>| row.get(column).map_or(0, |cell| cell.1);
            self.rows.iter().map(of_row).max().unwrap_or(0)
        };
        (0..self.right.len()).map(width).collect()
    }

    fn line(&self, row: &[(String, usize)], widths: &[usize]) -> String {
        let mut line = String::from(" ");
        for (column, (text, seen)) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column].saturating_sub(*seen));
            let is_right = self.right.get(column).copied().unwrap_or(false);
            line.push(' ');
            line.push_str(&if is_right {
                format!("{fill}{text}")
            } else {
                format!("{text}{fill}")
            });
            line.push(' ');
        }
        line.trim_end().to_owned()
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    painted: String,
    width: usize,
}

impl Cell {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        let painted = shown(&text.into());
        Self { width: painted.chars().count(), painted }
    }

    pub(super) fn painted(style: OutputStyle, tone: Tone, text: &str) -> Self {
        let text = shown(text);
        Self { width: text.chars().count(), painted: style.paint(tone, &text) }
    }
}

/// Writes to standard output. A reader that closes the pipe has seen enough, so that is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    print_to_reader(text).map(|_| ())
}

/// Writes to standard output; returns whether the reader is still there.
pub(super) fn print_to_reader(text: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true)?),
    }
}

/// Escapes a name for the terminal: the client that created a resource chose its name, which must
/// not control the terminal.
pub(super) fn shown(name: &str) -> String {
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    name.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: OutputStyle = OutputStyle { has_colour: false, has_blocks: false, columns: 100 };
    const BLOCKS: OutputStyle = OutputStyle { has_blocks: true, ..PLAIN };

    #[test]
    fn bars_fill_by_eighths_where_they_can() {
        assert_eq!(PLAIN.bar(0.5, None, 4), "##  ");
        assert_eq!(BLOCKS.bar(0.5, None, 4), "██  ");
        assert_eq!(BLOCKS.bar(1.0 / 32.0, None, 4), "▏   ");
        assert_eq!(BLOCKS.bar(7.0, None, 2), "██");
        assert_eq!(BLOCKS.bar(-1.0, None, 2), "  ");
    }

    #[test]
    fn a_mark_shows_on_full_and_on_empty_bars() {
        assert_eq!(PLAIN.bar(0.25, Some(0.5), 4), "#|  ");
        assert_eq!(BLOCKS.bar(0.25, Some(0.5), 4), "█┊  ");
        assert_eq!(BLOCKS.bar(1.0, Some(0.5), 4), "█▓██");
        assert_eq!(BLOCKS.bar(0.0, Some(0.0), 2), "┊ ");
    }

    #[test]
    fn amounts_are_short() {
        for (amount, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KB"),
            (10 << 10, "10 KB"),
            (1023 << 10, "1.0 MB"),
            (10 << 30, "10 GB"),
            (u64::MAX, "16384 PB"),
        ] {
            assert_eq!(bytes(amount), shown);
        }
        assert_eq!((number(0), number(999)), ("0".into(), "999".into()));
        assert_eq!((number(1000), number(1_234_567)), ("1,000".into(), "1,234,567".into()));
        assert_eq!(
            (units(5.37), units(10.0), units(12_000.4)),
            ("5.4".into(), "10".into(), "12,000".into())
        );
        assert_eq!((duration(0.42), duration(17.0)), ("0.4 ms".into(), "17 ms".into()));
        assert_eq!((duration(2500.0), duration(120_000.0)), ("2.5 s".into(), "2 min".into()));
        assert_eq!((cut("abcdef", 5), cut("abcde", 5)), ("ab...".into(), "abcde".into()));
    }

    #[test]
    fn columns_line_up_whatever_is_painted() {
        let style = OutputStyle { has_colour: true, ..PLAIN };
        let mut table = Table::new(style, &["NAME", ">BYTES"]);
        table.row(vec![Cell::painted(style, Tone::Bad, "a"), Cell::plain("1")]);
        table.row(vec![Cell::plain("longer"), Cell::plain("12345")]);
        let lines = table.lines();
        assert_eq!(lines[1], "  \x1b[31ma\x1b[0m           1");
        assert_eq!(lines[2], "  longer  12345");
        assert_eq!(table.width(), lines[2].len());
        table.remove(0);
        assert_eq!(table.lines()[2], "  12345");
    }
}
