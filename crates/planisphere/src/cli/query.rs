//! `planisphere query` and `planisphere explain`: query a container over all of its partitions, and
//! show the execution plan.

use std::io::Read;

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use super::client::{self, Client};
use super::partitions::{ContainerPath, json_arg};
use super::query_error;
use super::text::{self, Cell, OutputStyle, Table, Tone};
use crate::admin::types::{ExplainedPartition, ExplainedQuery, QueryPage};

const EXAMPLES: &str = "\
Examples:
  planisphere query shop/orders 'SELECT * FROM c WHERE c.total > 100'
  planisphere query shop/orders 'SELECT c.customer, SUM(c.total) AS total FROM c GROUP BY c.customer'
  planisphere query shop/orders 'SELECT * FROM c WHERE c.total > @min' --param min=100
  planisphere query shop/orders 'SELECT * FROM c ORDER BY c.total DESC' -k '\"customer 7\"'
  planisphere query shop/orders - < query.sql --max 0 > rows.jsonl

Rows are JSON, one per line; how many there were and what they cost goes to standard error.
The server queries every partition that can have rows and merges the results; unlike an SDK it also
evaluates GROUP BY, DISTINCT and aggregates across partitions, in one request per page.
`planisphere explain` shows how a query is executed.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  planisphere explain shop/orders 'SELECT * FROM c WHERE c.total > 100 AND c.city = \"Bern\"'
  planisphere explain shop/orders 'SELECT * FROM c ORDER BY c.total DESC' --analyze

Each condition is shown with how an index evaluates it: the path that is looked up, and the number
of value ranges. \"and others\" means that the index also returns items that do not match; the
condition is then tested on each of them. \"everything\" means that no index helps; a path that
would help is named. A partition that reads \"all items\" does not use an index, because there is
none or because it would return too many items to be worth while. A query within one partition key
reads one logical partition, which is named.
With --analyze the query is run to its end, at its usual cost, and every partition shows how many
items and index entries it scanned, how many rows it returned, and what it charged.";

pub(super) fn command() -> Command {
    let max = Arg::new("max")
        .long("max")
        .value_name("N")
        .value_parser(value_parser!(u64))
        .default_value("100")
        .help("Maximum number of rows; 0 shows all");
    let page = Arg::new("page")
        .long("page")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..=1000))
        .default_value("1000")
        .help("Rows per page");
    let parallel = Arg::new("parallel")
        .long("parallel")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..=64))
        .help("Partitions queried in parallel; does not change the order of rows [default: 8]");
    common(Command::new("query"))
        .about("Query a container over all of its partitions")
        .after_help(EXAMPLES)
        .args([max, page, parallel])
        .args(client::args())
}

pub(super) fn explain_command() -> Command {
    let analyze = Arg::new("analyze")
        .long("analyze")
        .action(ArgAction::SetTrue)
        .help("Run the query and show what each partition did");
    common(Command::new("explain"))
        .about("Show how a query is answered: indexes, partitions, cost")
        .after_help(EXPLAIN_EXAMPLES)
        .args([analyze, json_arg()])
        .args(client::args())
}

/// Arguments of a query.
fn common(command: Command) -> Command {
    command.arg_required_else_help(true).args([
        Arg::new("container")
            .value_name("DATABASE/CONTAINER")
            .required(true)
            .value_parser(ContainerPath::parse)
            .help("The container"),
        Arg::new("text")
            .value_name("QUERY")
            .required(true)
            .help("The query; - reads it from standard input"),
        Arg::new("param")
            .long("param")
            .short('p')
            .value_name("NAME=JSON")
            .action(ArgAction::Append)
            .value_parser(parameter)
            .help("A parameter: its name with or without @, and its value as JSON"),
        Arg::new("partition-key")
            .long("partition-key")
            .short('k')
            .value_name("JSON")
            .value_parser(key)
            .help("Only items with this partition key: a value, or an array of values"),
    ])
}

/// A parameter of a query.
fn parameter(text: &str) -> Result<Value, String> {
    let (name, value) =
        text.split_once('=').ok_or("write the name, = and the value as JSON, such as min=100")?;
    let name = format!("@{}", name.trim().trim_start_matches('@'));
    let value: Value = serde_json::from_str(value).map_err(|_| {
        format!("{value} is not JSON; a text has quotes: {}='\"{value}\"'", &name[1..])
    })?;
    Ok(json!({"name": name, "value": value}))
}

fn key(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|_| format!("{text} is not JSON; a text has quotes: '\"{text}\"'"))
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some(container) = matches.get_one::<ContainerPath>("container") else { return Ok(()) };
    let client = Client::of(matches)?;
    let url = format!("{}/query", container.url());
    let request_body = request_body(matches)?;
    let text = text_of(&request_body);
    super::block_on(print_rows(&client, &url, request_body, matches))
        .map_err(|error| query_error::with_caret(error, &text))
}

pub(super) fn run_explain(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some(container) = matches.get_one::<ContainerPath>("container") else { return Ok(()) };
    let client = Client::of(matches)?;
    let url = format!("{}/explain", container.url());
    let mut request_body = request_body(matches)?;
    request_body["analyze"] = matches.get_flag("analyze").into();
    let answer: Value = super::block_on(client.post(&url, &request_body))
        .map_err(|error| query_error::with_caret(error, &text_of(&request_body)))?;
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let explained: ExplainedQuery = serde_json::from_value(answer)?;
    text::print(&explanation_text(&explained, OutputStyle::of_stdout()))
}

fn text_of(request_body: &Value) -> String {
    request_body["query"].as_str().unwrap_or_default().to_owned()
}

/// The body of the request.
fn request_body(matches: &ArgMatches) -> anyhow::Result<Value> {
    let mut text = matches.get_one::<String>("text").cloned().unwrap_or_default();
    if text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).context("the query can't be read")?;
    }
    if text.trim().is_empty() {
        bail!("the query is empty");
    }
    let parameters: Vec<&Value> =
        matches.get_many::<Value>("param").into_iter().flatten().collect();
    let mut request_body = json!({"query": text, "parameters": parameters});
    if let Some(key) = matches.get_one::<Value>("partition-key") {
        request_body["partitionKey"] = key.clone();
    }
    Ok(request_body)
}

async fn print_rows(
    client: &Client,
    url: &str,
    mut request_body: Value,
    matches: &ArgMatches,
) -> anyhow::Result<()> {
    let max = matches.get_one::<u64>("max").copied().filter(|max| *max > 0).unwrap_or(u64::MAX);
    let page_size = matches.get_one::<u32>("page").copied().unwrap_or(1000);
    if let Some(parallel) = matches.get_one::<u32>("parallel") {
        request_body["parallelism"] = (*parallel).into();
    }
    let (mut rows, mut charge) = (0_u64, 0.0);
    let has_more = loop {
        request_body["maxItems"] = u64::from(page_size).min(max - rows).into();
        let page: QueryPage = client.post(url, &request_body).await?;
        rows += page.rows.len() as u64;
        charge += page.request_charge;
        let lines: String = page.rows.iter().flat_map(|row| [row.get(), "\n"]).collect();
        if !text::print_to_reader(&lines)? {
            return Ok(());
        }
        match page.continuation {
            Some(token) if rows < max => request_body["continuation"] = token.into(),
            more => break more.is_some(),
        }
    };
    let more = if has_more { "; more rows exist, use --max 0 for all" } else { "" };
    let plural = if rows == 1 { "row" } else { "rows" };
    eprintln!("{} {plural}, {} RU{more}", text::number(rows), text::units(charge));
    Ok(())
}

fn explanation_text(explained: &ExplainedQuery, style: OutputStyle) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    match &explained.filter {
        Some(filter) => line(&format!("Filter: {}", text::shown(filter))),
        None => line("Filter: none"),
    }
    for condition in &explained.conditions {
        let mark = if condition.exact { "answered by index" } else { "filtered after read" };
        let tone = if condition.exact { Tone::Good } else { Tone::Fair };
        let index = text::shown(&condition.index);
        let text = text::shown(&condition.text);
        line(&format!("  {text}\n    {}: {index}", style.paint(tone, mark)));
        if !condition.unindexed.is_empty() {
            let paths = text::shown(&condition.unindexed.join(", "));
            line(&format!("    {}", style.paint(Tone::Bad, &format!("not indexed: {paths}"))));
        }
    }
    line(&format!("Index: {}", text::shown(&explained.index)));
    line(&format!("Rows: {}", explained.merging));
    match (&explained.rewritten, &explained.client_plan_error) {
        (Some(rewritten), _) => {
            line("SDKs send to each partition:");
            rewritten.lines().for_each(|part| line(&format!("  {}", text::shown(part))));
        }
        (None, Some(error)) => line(&format!("SDKs get an error: {}", text::shown(error))),
        (None, None) => line("SDKs send to each partition: the query as it is"),
    }
    line(&partitions_text(&explained.partitions, style));
    if let Some(outcome) = &explained.outcome {
        let rest = if outcome.complete { "" } else { ", more rows exist" };
        let (rows, charge) = (text::number(outcome.rows), text::units(outcome.request_charge));
        line(&format!("Returned {rows} rows for {charge} RU{rest}."));
    }
    out
}

fn partitions_text(partitions: &[ExplainedPartition], style: OutputStyle) -> String {
    if partitions.is_empty() {
        return "Partitions: none".to_owned();
    }
    let is_run = partitions.iter().any(|partition| partition.work.is_some());
    let mut headings = vec!["PARTITION", "ACCESS"];
    let figures = [">SCANNED", ">READ", ">BYTES", ">ENTRIES", ">ROWS", ">RU"];
    match is_run {
        true => headings.extend(figures),
        false => headings.push(">ENTRIES"),
    }
    let mut table = Table::new(style, &headings);
    for partition in partitions {
        let tone = if partition.indexed { Tone::Good } else { Tone::Fair };
        let id = if partition.ids.is_empty() { "-".to_owned() } else { partition.ids.join("+") };
        let mut cells = vec![Cell::plain(id), Cell::painted(style, tone, &partition.way)];
        let entries = text::number(partition.index_entries);
        match &partition.work {
            Some(work) => cells.extend([
                Cell::plain(text::number(work.items_looked_at)),
                Cell::plain(text::number(work.items_read)),
                Cell::plain(text::bytes(work.bytes_read)),
                Cell::plain(entries),
                Cell::plain(text::number(work.rows)),
                Cell::plain(text::units(work.request_charge)),
            ]),
            None => cells.push(Cell::plain(entries)),
        }
        table.row(cells);
    }
    table.lines().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_names_and_json() {
        assert_eq!(parameter("min=100").unwrap(), json!({"name": "@min", "value": 100}));
        assert_eq!(parameter("@s=\"a=b\"").unwrap(), json!({"name": "@s", "value": "a=b"}));
        assert!(parameter("min").is_err());
        assert!(parameter("s=text").unwrap_err().contains("s='\"text\"'"));
        assert!(key("text").unwrap_err().contains("'\"text\"'"));
        assert_eq!(key("[\"a\", 1]").unwrap(), json!(["a", 1]));
    }

    #[test]
    fn an_explanation_is_told() {
        let explained = json!({
            "filter": "(ROOT.a = 1)",
            "conditions": [
                {"text": "(ROOT.a = 1)", "index": "/a/? 1 range", "exact": true, "unindexed": []},
                {"text": "(ROOT.b = 1)", "index": "everything", "exact": false, "unindexed": ["/b/?"]},
            ],
            "index": "/a/? 1 range",
            "merging": "partition after partition",
            "partitions": [{
                "ids": ["0"], "epkMin": "", "epkMax": "FF", "way": "items that the index names",
                "indexed": true, "indexEntries": 1200,
                "work": {"pages": 1, "itemsLookedAt": 3, "itemsRead": 3, "bytesRead": 2048,
                         "rows": 2, "requestCharge": 2.5},
            }],
            "outcome": {"rows": 2, "pages": 1, "complete": true, "requestCharge": 2.5},
        });
        let style = OutputStyle { has_colour: false, has_blocks: false, columns: 100 };
        let explanation_text = explanation_text(&serde_json::from_value(explained).unwrap(), style);
        for part in [
            "Filter: (ROOT.a = 1)\n  (ROOT.a = 1)\n    answered by index: /a/? 1 range\n",
            "filtered after read: everything\n    not indexed: /b/?\n",
            "Rows: partition after partition",
            "the query as it is",
            "items that the index names",
            "1,200",
            "Returned 2 rows for 2.5 RU.",
        ] {
            assert!(explanation_text.contains(part), "{part} is not in\n{explanation_text}");
        }
    }
}
