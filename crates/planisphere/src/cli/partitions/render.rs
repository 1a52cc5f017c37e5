//! Formats containers, partitions and jobs as tables.

use crate::admin::types::{
    ContainerPartitions, ContainerSummary, Job, JobKind, JobPhase, Partition, Throughput,
    ThroughputMode,
};
use crate::cli::text::{self, Cell, OutputStyle, Table, Tone};

/// Preferred and least width of the bars for bytes and request units.
const BAR: usize = 24;
const BAR_MIN: usize = 12;
const RU_BAR: usize = 10;
const RU_BAR_MIN: usize = 5;
const KEY_CHARS_MAX: usize = 40;
/// Shown characters of a range's bounds: as many as distinguish all bounds, within these limits.
const EPK_CHARS_MIN: usize = 4;
const EPK_CHARS_MAX: usize = 16;

/// All containers.
pub(super) fn containers(containers: &[ContainerSummary], style: OutputStyle) -> String {
    if containers.is_empty() {
        return "There are no containers yet.\n".to_owned();
    }
    let headings = ["CONTAINER", ">PARTITIONS", ">STORAGE", ">ITEMS", ">SKEW", "THROUGHPUT"];
    let mut table = Table::new(style, &headings);
    for container in containers {
        table.row(vec![
            Cell::plain(format!("{}/{}", container.database, container.id)),
            Cell::plain(text::number(container.partitions as u64)),
            Cell::plain(text::bytes(container.bytes)),
            Cell::plain(text::number(container.items)),
            skew_cell(container.skew, style),
            Cell::plain(throughput(&container.throughput)),
        ]);
    }
    joined(&table.lines())
}

/// One container with all details.
pub(super) fn container(shown: &ContainerPartitions, style: OutputStyle) -> String {
    let is_limited = shown.partitions.iter().any(|partition| partition.ru.limit.is_some());
    let mut lines = heading(&shown.container, is_limited, style);
    lines.push(String::new());
    lines.extend(partitions(shown, style).lines());
    let keys = largest_keys(&shown.partitions, style);
    if !keys.is_empty() {
        lines.push(String::new());
        lines.push(style.paint(Tone::Strong, "Largest keys"));
        lines.extend(keys);
    }
    let keys = busiest_keys(&shown.partitions, style);
    if !keys.is_empty() {
        lines.push(String::new());
        lines.push(style.paint(Tone::Strong, "Busiest keys of the last minutes"));
        lines.extend(keys);
    }
    if !shown.jobs.is_empty() {
        lines.push(String::new());
        lines.extend(jobs_of_one_container(&shown.jobs, style).lines());
    }
    joined(&lines)
}

fn heading(container: &ContainerSummary, is_limited: bool, style: OutputStyle) -> Vec<String> {
    let ContainerSummary { database, id, .. } = container;
    let key = match container.partition_key.as_slice() {
        [] => "no partition key".to_owned(),
        paths => format!("partition key {}", paths.join(" ")),
    };
    let limited = if is_limited { "" } else { ", not limited" };
    let facts = [
        key,
        format!("{}{limited}", throughput(&container.throughput)),
        format!("{} in {} items", text::bytes(container.bytes), text::number(container.items)),
        format!("skew {:.1}, {}", container.skew, skew_label(container.skew)),
    ];
    vec![style.paint(Tone::Strong, &format!("{database}/{id}")), format!("  {}", facts.join("; "))]
}

/// The partitions with bars as wide as fits. On a narrow terminal, redundant columns are left out.
fn partitions(shown: &ContainerPartitions, style: OutputStyle) -> Table {
    let full = table_of_partitions(shown, style, BAR, RU_BAR);
    let over = full.width().saturating_sub(style.columns);
    if over == 0 {
        return full;
    }
    let ru_bar = RU_BAR.saturating_sub(over).max(RU_BAR_MIN);
    let over = over.saturating_sub(RU_BAR - ru_bar);
    let bar = BAR.saturating_sub(over).max(BAR_MIN);
    let mut table = table_of_partitions(shown, style, bar, ru_bar);
    // From the right, so that column numbers stay valid.
    for column in [RU_BAR_COLUMN, SHARE_COLUMN, RANGE_COLUMN] {
        if table.width() > style.columns {
            table.remove(column);
        }
    }
    table
}

const RANGE_COLUMN: usize = 1;
const SHARE_COLUMN: usize = 3;
const RU_BAR_COLUMN: usize = 7;

fn table_of_partitions(
    shown: &ContainerPartitions,
    style: OutputStyle,
    bar_width: usize,
    ru_bar_width: usize,
) -> Table {
    let headings = [
        ">ID",
        "RANGE",
        "STORAGE",
        ">SHARE",
        ">BYTES",
        ">ITEMS",
        ">SKEW",
        "RU/S",
        ">USED",
        ">LIMIT",
        ">THROTTLED",
        "STATUS",
    ];
    let mut table = Table::new(style, &headings);
    let largest = shown.partitions.iter().map(|p| p.bytes).max().unwrap_or(0).max(1) as f64;
    let fair = shown.container.bytes as f64 / shown.partitions.len().max(1) as f64;
    let epk_chars = epk_chars(&shown.partitions);
    for partition in &shown.partitions {
        let bar = style.bar(partition.bytes as f64 / largest, Some(fair / largest), bar_width);
        let limit = partition.ru.limit;
        let used = partition.ru.last_second;
        let ru_part = limit.filter(|limit| *limit > 0.0).map_or(0.0, |limit| used / limit);
        let throttled = text::number(partition.ru.throttled);
        table.row(vec![
            Cell::plain(partition.id.as_str()),
            Cell::plain(range(partition, epk_chars)),
            Cell::painted(style, skew_tone(partition.skew), &bar),
            Cell::plain(text::percent(partition.share)),
            Cell::plain(text::bytes(partition.bytes)),
            Cell::plain(text::number(partition.items)),
            skew_cell(partition.skew, style),
            Cell::painted(style, use_tone(ru_part), &style.bar(ru_part, None, ru_bar_width)),
            Cell::plain(text::units(used)),
            Cell::plain(limit.map_or_else(|| "-".to_owned(), text::units)),
            match partition.ru.throttled {
                0 => Cell::plain(throttled),
                _ => Cell::painted(style, Tone::Bad, &throttled),
            },
            match partition.status.as_str() {
                "online" => Cell::plain("online"),
                other => Cell::painted(style, Tone::Fair, other),
            },
        ]);
    }
    table
}

fn largest_keys(partitions: &[Partition], style: OutputStyle) -> Vec<String> {
    let headings = [">ID", "KEY", "SHARE OF ITS PARTITION", ">", ">BYTES", ">ITEMS"];
    let mut table = Table::new(style, &headings);
    let mut rows = 0;
    let mut notes = Vec::new();
    for partition in partitions {
        let Some(largest) = &partition.largest_keys else { continue };
        for key in &largest.keys {
            rows += 1;
            let tone = if key.share > 0.5 { Tone::Bad } else { Tone::Good };
            table.row(vec![
                Cell::plain(partition.id.as_str()),
                Cell::plain(shown_key(&key.key)),
                Cell::painted(style, tone, &style.bar(key.share, None, BAR)),
                Cell::plain(text::percent(key.share)),
                Cell::plain(text::bytes(key.bytes)),
                Cell::plain(text::number(key.items)),
            ]);
        }
        let id = &partition.id;
        match (largest.complete, largest.counted) {
            (true, _) => {}
            (false, 0) => notes.push(format!("  The keys of partition {id} were not counted.")),
            (false, counted) => notes.push(format!(
                "  Only the first {} keys of partition {id} were counted.",
                text::number(counted)
            )),
        }
    }
    let lines = if rows == 0 { Vec::new() } else { table.lines() };
    lines.into_iter().chain(notes).collect()
}

fn busiest_keys(partitions: &[Partition], style: OutputStyle) -> Vec<String> {
    let mut table = Table::new(style, &[">ID", "KEY", ">RU (EST.)"]);
    let mut rows = 0;
    for partition in partitions {
        for key in &partition.busiest_keys {
            rows += 1;
            table.row(vec![
                Cell::plain(partition.id.as_str()),
                Cell::plain(shown_key(&key.key)),
                Cell::plain(text::units(key.ru)),
            ]);
        }
    }
    if rows == 0 { Vec::new() } else { table.lines() }
}

/// Splits and merges of one container, without a column for it.
fn jobs_of_one_container(all: &[Job], style: OutputStyle) -> Table {
    let mut table = all_columns_of_jobs(all, style);
    table.remove(JOB_CONTAINER_COLUMN);
    narrowed(table, JOB_REASON_COLUMN - 1, style)
}

const JOB_TYPE_COLUMN: usize = 1;
const JOB_CONTAINER_COLUMN: usize = 2;
const JOB_REASON_COLUMN: usize = 4;

/// Splits and merges of any container.
pub(super) fn jobs(jobs: &[Job], style: OutputStyle) -> Table {
    narrowed(all_columns_of_jobs(jobs, style), JOB_REASON_COLUMN, style)
}

/// The table without reasons on a narrow terminal, and without types, which the partitions show as
/// well, on a very narrow one.
fn narrowed(mut table: Table, reason_column: usize, style: OutputStyle) -> Table {
    for column in [reason_column, JOB_TYPE_COLUMN] {
        if table.width() > style.columns {
            table.remove(column);
        }
    }
    table
}

fn all_columns_of_jobs(jobs: &[Job], style: OutputStyle) -> Table {
    let headings = [
        ">JOB",
        "TYPE",
        "CONTAINER",
        "PARTITIONS",
        "REASON",
        "PHASE",
        "COPIED",
        ">",
        ">TOOK",
        ">BLOCKED",
    ];
    let mut table = Table::new(style, &headings);
    for job in jobs {
        let container = match (&job.database, &job.container) {
            (Some(database), Some(container)) => format!("{database}/{container}"),
            (None, _) | (_, None) => "(gone)".to_owned(),
        };
        let tone = match job.phase {
            JobPhase::Succeeded => Tone::Good,
            JobPhase::Preparing | JobPhase::Swapping => Tone::Fair,
            JobPhase::Failed => Tone::Bad,
            JobPhase::Cancelled => Tone::Dim,
        };
        let or_dash = |millis: Option<f64>| millis.map_or_else(|| "-".to_owned(), text::duration);
        table.row(vec![
            Cell::plain(job.id.to_string()),
            Cell::plain(match job.kind {
                JobKind::Split => "split",
                JobKind::Merge => "merge",
            }),
            Cell::plain(container),
            Cell::plain(format!("{} -> {}", job.sources.join("+"), job.children.join("+"))),
            Cell::plain(reason(job)),
            Cell::painted(style, tone, &phase(job)),
            Cell::painted(style, tone, &style.bar(job.progress, None, RU_BAR)),
            Cell::plain(text::bytes(job.bytes_copied)),
            Cell::plain(or_dash(job.took_ms)),
            Cell::plain(or_dash(job.held_ms)),
        ]);
    }
    table
}

/// The reason of a job as text; in JSON a job on request has the reason `asked`.
fn reason(job: &Job) -> &str {
    if job.reason == "asked" { "requested" } else { &job.reason }
}

/// The phase of a job as text.
pub(super) fn phase(job: &Job) -> String {
    let name = match job.phase {
        JobPhase::Preparing if job.paused => "paused",
        JobPhase::Preparing => "copying",
        JobPhase::Swapping => "swapping",
        JobPhase::Succeeded => "done",
        JobPhase::Failed => "failed",
        JobPhase::Cancelled => "cancelled",
    };
    match (&job.error, job.manual && job.took_ms.is_none()) {
        (Some(error), _) => format!("{name}: {}", text::cut(error, KEY_CHARS_MAX)),
        (None, true) => format!("{name} (manual)"),
        (None, false) => name.to_owned(),
    }
}

/// Throughput as text.
pub(in crate::cli) fn throughput(throughput: &Throughput) -> String {
    let ru = text::number(u64::from(throughput.ru.unwrap_or(0)));
    let pending = if throughput.pending { "; partitions are being split for it" } else { "" };
    match throughput.mode {
        ThroughputMode::Manual => format!("{ru} RU/s{pending}"),
        ThroughputMode::Autoscale => {
            let current = text::number(u64::from(throughput.current_ru.unwrap_or(0)));
            format!("autoscale to {ru} RU/s, now {current}{pending}")
        }
        ThroughputMode::Shared => "shares its database's throughput".to_owned(),
        ThroughputMode::None => "no provisioned throughput".to_owned(),
    }
}

/// How many characters of their bounds distinguish all ranges.
fn epk_chars(partitions: &[Partition]) -> usize {
    let is_enough = |chars: &usize| {
        let is_empty = |p: &Partition| start_of(&p.epk_min, *chars) == start_of(&p.epk_max, *chars);
        !partitions.iter().any(is_empty)
    };
    (EPK_CHARS_MIN..EPK_CHARS_MAX).step_by(2).find(is_enough).unwrap_or(EPK_CHARS_MAX)
}

fn start_of(epk: &str, chars: usize) -> &str {
    epk.get(..chars).unwrap_or(epk)
}

fn range(partition: &Partition, chars: usize) -> String {
    let bound = |epk: &str, if_empty: &str| match start_of(epk, chars) {
        "" => if_empty.to_owned(),
        start => start.to_owned(),
    };
    format!("{} - {}", bound(&partition.epk_min, "00"), bound(&partition.epk_max, "FF"))
}

fn shown_key(values: &[serde_json::Value]) -> String {
    let text = match values {
        [only] => only.to_string(),
        several => serde_json::Value::from(several.to_vec()).to_string(),
    };
    text::cut(&text, KEY_CHARS_MAX)
}

fn skew_cell(skew: f64, style: OutputStyle) -> Cell {
    Cell::painted(style, skew_tone(skew), &format!("{skew:.1}"))
}

fn skew_tone(skew: f64) -> Tone {
    match skew {
        skew if skew < 1.5 => Tone::Good,
        skew if skew < 2.5 => Tone::Fair,
        _ => Tone::Bad,
    }
}

fn skew_label(skew: f64) -> &'static str {
    match skew_tone(skew) {
        Tone::Good => "even",
        Tone::Fair => "uneven",
        Tone::Bad | Tone::Dim | Tone::Strong => "very uneven",
    }
}

fn use_tone(part: f64) -> Tone {
    match part {
        part if part < 0.7 => Tone::Good,
        part if part < 1.0 => Tone::Fair,
        _ => Tone::Bad,
    }
}

pub(super) fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: OutputStyle = OutputStyle { has_colour: false, has_blocks: false, columns: 100 };

    fn shown() -> ContainerPartitions {
        let partition = |id: &str, bytes: u64, skew: f64, status: &str| {
            json!({
                "id": id, "epkMin": if id == "1" { "" } else { "1FFFFFFFFFFFFFFF" },
                "epkMax": if id == "1" { "1FFFFFFFFFFFFFFF" } else { "FF" },
                "parents": ["0"], "status": status, "bytes": bytes, "items": 10, "lsn": 10,
                "share": skew / 2.0, "skew": skew,
                "ru": {"limit": 200.0, "lastSecond": 100.0, "recentPeak": 150.0, "consumed": 1234.5,
                       "requests": 10, "throttled": if id == "1" { 7 } else { 0 }},
                "largestKeys": {"keys": [{"key": ["ann"], "bytes": bytes, "items": 10, "share": 1.0}],
                                "counted": 1, "complete": id == "1"},
                "busiestKeys": [{"key": ["ann", {}], "ru": 55.5, "overestimate": 0.0}],
            })
        };
        serde_json::from_value(json!({
            "container": {"database": "shop", "id": "orders", "rid": "x", "partitionKey": ["/pk"],
                          "partitions": 2, "bytes": 4096, "items": 20, "skew": 1.5,
                          "throughput": {"mode": "manual", "ru": 400}},
            "limits": {"partitionBytesMax": 1, "logicalPartitionBytesMax": 1, "partitionRuMax": 1},
            "partitions": [partition("1", 3072, 1.5, "online"), partition("2", 1024, 0.5, "splitting")],
            "jobs": [{"id": 3, "kind": "split", "database": "shop", "container": "orders",
                      "reason": "asked", "manual": true, "phase": "preparing", "paused": false,
                      "sources": ["2"], "children": ["3", "4"], "rowsCopied": 1, "bytesCopied": 2048,
                      "progress": 0.5, "started": 1}],
        }))
        .unwrap()
    }

    #[test]
    fn a_container_is_drawn_with_bars_keys_and_jobs() {
        let text = container(&shown(), PLAIN);
        let expected = "\
shop/orders
  partition key /pk; 400 RU/s; 4.0 KB in 20 items; skew 1.5, uneven

  ID  RANGE      STORAGE        SHARE   BYTES  ITEMS  SKEW  RU/S   USED  LIMIT  THROTTLED  STATUS
   1  00 - 1FFF  ########|####    75%  3.0 KB     10   1.5  ###     100    200          7  online
   2  1FFF - FF  ####    |        25%  1.0 KB     10   0.5  ###     100    200          0  splitting

Largest keys
  ID  KEY    SHARE OF ITS PARTITION           BYTES  ITEMS
   1  \"ann\"  ########################  100%  3.0 KB     10
   2  \"ann\"  ########################  100%  1.0 KB     10
  Only the first 1 keys of partition 2 were counted.

Busiest keys of the last minutes
  ID  KEY         RU (EST.)
   1  [\"ann\",{}]         56
   2  [\"ann\",{}]         56

  JOB  TYPE   PARTITIONS  REASON     PHASE             COPIED              TOOK  BLOCKED
    3  split  2 -> 3+4    requested  copying (manual)  #####       2.0 KB     -        -
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn a_container_that_is_not_limited_is_said_not_to_be() {
        let mut shown = shown();
        shown.partitions.iter_mut().for_each(|partition| partition.ru.limit = None);
        let text = container(&shown, PLAIN);
        let heading =
            "  partition key /pk; 400 RU/s, not limited; 4.0 KB in 20 items; skew 1.5, uneven";
        assert_eq!(text.lines().nth(1), Some(heading), "{text}");
        shown.partitions[0].ru.limit = Some(200.0);
        assert!(!container(&shown, PLAIN).contains("not limited"));
    }

    #[test]
    fn everything_fits_the_terminal() {
        let width = |columns: usize| {
            let text = container(&shown(), OutputStyle { columns, ..PLAIN });
            text.lines().skip(2).map(str::len).max().unwrap()
        };
        assert!(width(200) > 100, "{}", width(200));
        for columns in [76, 80, 90, 100, 110] {
            assert!(width(columns) <= columns, "{} of {columns}", width(columns));
        }
        let narrow = container(&shown(), OutputStyle { columns: 80, ..PLAIN });
        assert!(narrow.contains("STORAGE") && narrow.contains("SKEW"), "{narrow}");
    }

    #[test]
    fn bounds_are_as_long_as_it_takes_to_tell_them_apart() {
        let mut all = shown().partitions;
        assert_eq!(range(&all[0], epk_chars(&all)), "00 - 1FFF");
        all[1].epk_max = "1FFFFFFF80".to_owned();
        all[1].epk_min = "1FFFFFFF00".to_owned();
        assert_eq!(range(&all[1], epk_chars(&all)), "1FFFFFFF00 - 1FFFFFFF80");
        all[1].epk_min = "1FFFFFFF80".to_owned();
        assert_eq!(epk_chars(&all), EPK_CHARS_MAX);
    }

    #[test]
    fn colours_change_nothing_else() {
        let coloured = container(&shown(), OutputStyle { has_colour: true, ..PLAIN });
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once("\x1b[") {
            plain.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
        assert_eq!(trimmed.join("\n") + "\n", container(&shown(), PLAIN));
    }

    #[test]
    fn long_keys_and_odd_ones_stay_readable() {
        assert_eq!(shown_key(&[json!("a")]), "\"a\"");
        assert_eq!(shown_key(&[json!("a"), json!(1)]), "[\"a\",1]");
        assert_eq!(shown_key(&[json!("x".repeat(99))]).chars().count(), KEY_CHARS_MAX);
        // Control characters stay escaped, so that a key can't control the terminal.
        assert_eq!(shown_key(&[json!("\u{1b}[2J")]), "\"\\u001b[2J\"");
    }

    #[test]
    fn no_containers_are_said_in_words() {
        assert_eq!(containers(&[], PLAIN), "There are no containers yet.\n");
        let text = containers(&[shown().container], PLAIN);
        assert!(
            text.contains("shop/orders") && text.contains("4.0 KB") && text.contains("400 RU/s")
        );
    }
}
