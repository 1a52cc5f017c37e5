//! The queries, in both dialects.

use std::fmt::Write;

use crate::queries::data::{Data, PER_CUSTOMER, PER_PARTITION, PER_PRODUCT};
use crate::request::Draft;
use crate::rng::Rng;

/// Database and container of the documents.
pub const CONTAINER_LINK: &str = "dbs/bench/colls/doc";
/// Documents in the range of a query.
const RANGE: u64 = 10;
/// Documents that are first by time.
const TOP: u64 = 100;
/// More rows than any query has, so that they fit on one page.
const PAGE_ITEMS: &str = "1000";
/// Queries that pgbench runs for one list of random parameters.
const PER_SCRIPT: u64 = 32;

/// One kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueryKind {
    /// Ten documents of one logical partition, by a range of a number.
    PartitionRange,
    /// The fifty documents of a customer, in any partition.
    Filter,
    /// The hundred documents that are first by time.
    Top,
    /// The number of documents of a product, which is a thousand.
    Count,
}

/// The values that parameters take: those of all documents, or as many as a smaller set of
/// documents has. The smaller number of values is spread over all documents. So queries find
/// documents all over the store, but no more of them than in the smaller set.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    data: Data,
    as_many_as: Data,
}

impl Parameters {
    /// The values of `data`, as many as the documents of `fewer` have.
    pub fn new(data: Data, fewer: Data) -> Self {
        Self { data, as_many_as: fewer }
    }

    fn values(self, count: fn(Data) -> u64) -> Values {
        let number = count(self.as_many_as).min(count(self.data));
        Values { number, step: count(self.data) / number }
    }
}

/// So many numbers from 0 on, with this distance.
#[derive(Clone, Copy, Debug)]
struct Values {
    number: u64,
    step: u64,
}

impl Values {
    fn pick(self, random: &mut Rng) -> u64 {
        random.below(self.number) * self.step
    }
}

/// A query with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct QueryInstance {
    question: QueryKind,
    /// Partition key, customer or product.
    which: u64,
    /// The start of the range.
    from: u64,
}

/// A pgbench script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// In pgbench's language.
    pub text: String,
    /// How often it runs the query.
    pub questions: u64,
}

impl QueryKind {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 4] = [Self::PartitionRange, Self::Filter, Self::Top, Self::Count];

    /// The name used in reports and by `--only`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PartitionRange => "range-10",
            Self::Filter => "filter-50",
            Self::Top => "top-100",
            Self::Count => "count-1000",
        }
    }

    /// How many rows the answer has.
    pub fn rows(self) -> u64 {
        match self {
            Self::PartitionRange => RANGE,
            Self::Filter => PER_CUSTOMER,
            Self::Top => TOP,
            Self::Count => 1,
        }
    }

    /// The query with random parameters.
    pub fn pick(self, parameters: Parameters, random: &mut Rng) -> QueryInstance {
        let which = match self {
            Self::PartitionRange => parameters.values(Data::partitions).pick(random),
            Self::Filter => parameters.values(Data::customers).pick(random),
            Self::Top => 0,
            Self::Count => parameters.values(Data::products).pick(random),
        };
        QueryInstance { question: self, which, from: random.below(PER_PARTITION - RANGE + 1) }
    }

    /// Queries that together look every document up and scan every document.
    pub fn about_all(data: Data) -> impl Iterator<Item = QueryInstance> {
        let asked = |question| move |which| QueryInstance { question, which, from: 0 };
        let walks = (0..data.partitions()).map(asked(Self::PartitionRange));
        (0..data.customers()).map(asked(Self::Filter)).chain(walks)
    }

    /// A script that runs the query with random parameters.
    ///
    /// A parameter of type jsonb is text for pgbench, and only a query can assemble text. So one
    /// query makes the parameters for many.
    pub fn script(self, parameters: Parameters) -> Script {
        match self {
            Self::PartitionRange => {
                let Values { number, step } = parameters.values(Data::partitions);
                Script {
                    text: format!(
                        "\\set key random(0, {}) * {step}\n\\set from random(0, {})\n{};\n",
                        number - 1,
                        PER_PARTITION - RANGE,
                        range_sql("body", ":key", ":from")
                    ),
                    questions: 1,
                }
            }
            Self::Filter => contained("body", "customer", 'c', parameters.values(Data::customers)),
            Self::Top => Script { text: format!("{};\n", top_sql("body")), questions: 1 },
            Self::Count => contained("count(*)", "product", 'p', parameters.values(Data::products)),
        }
    }
}

impl QueryInstance {
    /// The request in the form that SDKs send to the container's only range or, if it has one
    /// partition key, to that key.
    pub fn draft(&self, range_id: &str) -> Draft<'static> {
        let (text, parameters) = self.nosql();
        let parameters: Vec<_> = parameters
            .into_iter()
            .map(|(name, value)| serde_json::json!({"name": name, "value": value}))
            .collect();
        let body = serde_json::json!({"query": text, "parameters": parameters}).to_string();
        let draft = Draft::feed("POST", CONTAINER_LINK, "docs")
            .header("Content-Type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-max-item-count", PAGE_ITEMS)
            .body(body);
        match self.question {
            QueryKind::PartitionRange => draft.key(&self.which.to_string()),
            QueryKind::Filter | QueryKind::Top | QueryKind::Count => draft
                .header("x-ms-documentdb-query-enablecrosspartition", "True")
                .header("x-ms-documentdb-partitionkeyrangeid", range_id),
        }
    }

    fn nosql(&self) -> (&'static str, Vec<(&'static str, serde_json::Value)>) {
        match self.question {
            QueryKind::PartitionRange => (
                "SELECT * FROM c WHERE c.seq >= @from AND c.seq < @to",
                vec![("@from", self.from.into()), ("@to", (self.from + RANGE).into())],
            ),
            QueryKind::Filter => (
                "SELECT * FROM c WHERE c.customer = @customer",
                vec![("@customer", format!("c{}", self.which).into())],
            ),
            QueryKind::Top => ("SELECT TOP 100 * FROM c ORDER BY c.at", Vec::new()),
            QueryKind::Count => (
                "SELECT VALUE COUNT(1) FROM c WHERE c.product = @product",
                vec![("@product", format!("p{}", self.which).into())],
            ),
        }
    }

    /// The same query for PostgreSQL, with its parameters inlined. Selects ids instead of whole
    /// documents if `is_ids`.
    pub fn sql(&self, is_ids: bool) -> String {
        let what = if is_ids { "id" } else { "body" };
        let which = self.which;
        match self.question {
            QueryKind::PartitionRange => {
                range_sql(what, &format!("'{which}'"), &self.from.to_string())
            }
            QueryKind::Filter => contained_sql(what, &format!("'{{\"customer\":\"c{which}\"}}'")),
            QueryKind::Top => top_sql(what),
            QueryKind::Count => {
                contained_sql("count(*)", &format!("'{{\"product\":\"p{which}\"}}'"))
            }
        }
    }

    /// The identities of the rows of our result: ids, or the number itself. In their order if the
    /// query sorts, sorted here otherwise.
    pub fn answer(&self, body: &serde_json::Value) -> Vec<String> {
        let rows = body["Documents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts = rows.iter().map(|row| match row["id"].as_str() {
            Some(id) => id.to_owned(),
            None => row.to_string(),
        });
        self.in_order(texts.collect())
    }

    /// Sorts rows unless the query does.
    pub fn in_order(&self, mut rows: Vec<String>) -> Vec<String> {
        if self.question != QueryKind::Top {
            rows.sort_unstable();
        }
        rows
    }
}

/// Tables and indexes: the document as jsonb, with a GIN index for containment, and a B-tree for
/// each of the two properties that queries sort by.
pub const CREATE_TABLE: &str =
    "CREATE TABLE doc (id text NOT NULL, pk text NOT NULL, body jsonb NOT NULL)";
/// Created after the load, which is faster and leaves nothing pending.
pub const CREATE_INDEXES: [&str; 4] = [
    "ALTER TABLE doc ADD PRIMARY KEY (pk, id)",
    "CREATE INDEX doc_body ON doc USING gin (body jsonb_path_ops)",
    "CREATE INDEX doc_seq ON doc (pk, ((body->>'seq')::int))",
    "CREATE INDEX doc_at ON doc (((body->>'at')::bigint))",
];

/// A composite index equivalent to `doc_seq` in PostgreSQL, beside the index of every path.
pub const COMPOSITE_POLICY: &str = r#"{"compositeIndexes":[[{"path":"/pk"},{"path":"/seq"}]]}"#;

fn range_sql(what: &str, key: &str, from: &str) -> String {
    format!(
        "SELECT {what} FROM doc WHERE pk = {key} \
         AND (body->>'seq')::int >= {from} AND (body->>'seq')::int < {from} + {RANGE}"
    )
}

fn top_sql(what: &str) -> String {
    format!("SELECT {what} FROM doc ORDER BY (body->>'at')::bigint LIMIT {TOP}")
}

fn contained_sql(what: &str, part: &str) -> String {
    format!("SELECT {what} FROM doc WHERE body @> {part}")
}

fn contained(what: &str, property: &str, prefix: char, values: Values) -> Script {
    let Values { number, step } = values;
    let mut text = String::from("SELECT ");
    for at in 0..PER_SCRIPT {
        let comma = if at == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{comma}format('{{\"{property}\":\"{prefix}%s\"}}', floor(random() * {number}) * {step}) AS q{at}"
        );
    }
    text.push_str(" \\gset\n");
    for at in 0..PER_SCRIPT {
        text.push_str(&contained_sql(what, &format!(":q{at}")));
        text.push_str(";\n");
    }
    Script { text, questions: PER_SCRIPT }
}

// Both dialects repeat these numbers in their text.
const _: () = assert!(TOP == 100 && PER_PRODUCT <= 1_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: QueryKind) -> QueryInstance {
        QueryInstance { question, which: 7, from: 20 }
    }

    #[test]
    fn both_dialects_ask_for_the_same() {
        let range = asked(QueryKind::PartitionRange);
        let (text, parameters) = range.nosql();
        assert!(text.contains("c.seq >= @from"));
        assert_eq!(parameters[1], ("@to", 30.into()));
        assert_eq!(
            range.sql(true),
            "SELECT id FROM doc WHERE pk = '7' \
             AND (body->>'seq')::int >= 20 AND (body->>'seq')::int < 20 + 10"
        );
        let count = asked(QueryKind::Count);
        assert_eq!(count.nosql().1, [("@product", "p7".into())]);
        assert_eq!(count.sql(true), r#"SELECT count(*) FROM doc WHERE body @> '{"product":"p7"}'"#);
    }

    #[test]
    fn both_sides_pick_among_the_same_values() {
        let (few, many) = (Data::of(10_000).unwrap(), Data::of(1_000_000).unwrap());
        let all = QueryKind::PartitionRange.script(Parameters::new(few, few));
        assert!(all.text.starts_with("\\set key random(0, 99) * 1\n\\set from random(0, 90)\n"));
        let filter = QueryKind::Filter.script(Parameters::new(many, few));
        assert_eq!(filter.questions, 32);
        assert!(filter.text.contains("floor(random() * 200) * 100) AS q31 \\gset\n"));
        let mut random = Rng::new(3);
        for _ in 0..100 {
            let asked = QueryKind::Filter.pick(Parameters::new(many, few), &mut random);
            assert!(asked.which.is_multiple_of(100) && asked.which < many.customers());
        }
        assert!(filter.text.ends_with("WHERE body @> :q31;\n"));
    }

    #[test]
    fn answers_are_compared_by_ids_or_by_value() {
        let body = serde_json::json!({"Documents": [{"id": "b"}, {"id": "a"}]});
        assert_eq!(asked(QueryKind::Filter).answer(&body), ["a", "b"]);
        assert_eq!(asked(QueryKind::Top).answer(&body), ["b", "a"]);
        let count = serde_json::json!({"Documents": [1000]});
        assert_eq!(asked(QueryKind::Count).answer(&count), ["1000"]);
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> =
            QueryKind::ALL.iter().map(|q| q.name()).collect();
        assert_eq!(names.len(), QueryKind::ALL.len());
    }
}
