use lang::nosql::gateway::Feature;
use lang::nosql::{Environment, PlanScope, gateway_plan};

use super::{check_features, render};
use crate::headers::HeaderName;
use crate::test_support::{key_definition, request_with};

fn plan(paths: &[&str], text: &str) -> String {
    let definition = key_definition(paths);
    let scope = PlanScope { key_paths: &definition.paths, has_partition_key: false };
    let plan = gateway_plan(&Environment::default(), text, &[], scope).unwrap();
    String::from_utf8(render(&plan, &definition).to_vec()).unwrap()
}

#[track_caller]
fn ranges(paths: &[&str], filter: &str, expected: &[(&str, &str, bool)]) {
    let text = plan(paths, &format!("SELECT * FROM c WHERE {filter}"));
    let expected: Vec<String> = expected
        .iter()
        .map(|(min, max, is_max_inclusive)| {
            format!(
                "{{\"min\":\"{min}\",\"max\":\"{max}\",\"isMinInclusive\":true,\
                 \"isMaxInclusive\":{is_max_inclusive}}}"
            )
        })
        .collect();
    let expected = format!("\"queryRanges\":[{}]", expected.join(","));
    assert!(text.contains(&expected), "{filter}: {text}");
}

const X: &str = "11E3F358618BE9AA5BAFF4C7C74F0716";
const FIVE: &str = "19C08621B135968252FB34B4CF66F811";
const TENANT1: &str = "0DAE0B8467B011E957BC0B8B0DEB5ACA";
const TENANT1_U7: &str = "0DAE0B8467B011E957BC0B8B0DEB5ACA2057FA7926CFE22300999FE68BBBF7AE";

#[test]
fn a_plain_query_has_every_member() {
    assert_eq!(
        plan(&["/pk"], "SELECT * FROM c"),
        "{\"partitionedQueryExecutionInfoVersion\":2,\
         \"queryInfo\":{\"distinctType\":\"None\",\"top\":null,\"offset\":null,\"limit\":null,\
         \"orderBy\":[],\"orderByExpressions\":[],\"groupByExpressions\":[],\"groupByAliases\":[],\
         \"aggregates\":[],\"groupByAliasToAggregateType\":{},\"rewrittenQuery\":\"\",\
         \"hasSelectValue\":false,\"dCountInfo\":null,\"hasNonStreamingOrderBy\":false},\
         \"queryRanges\":[{\"min\":\"\",\"max\":\"FF\",\"isMinInclusive\":true,\
         \"isMaxInclusive\":false}],\"hybridSearchQueryInfo\":null}"
    );
}

#[test]
fn a_filter_on_the_key_gives_points() {
    ranges(&["/pk"], "c.pk = 'x'", &[(X, X, true)]);
    ranges(&["/pk"], "c.pk IN (5, 'x', 5.0)", &[(X, X, true), (FIVE, FIVE, true)]);
    ranges(&["/pk"], "c.pk > 5", &[("", "FF", false)]);
    ranges(&["/pk"], "c.pk = 5 AND c.pk = 6", &[("", "", true)]);
}

#[test]
fn a_filter_on_part_of_the_key_gives_its_prefix() {
    let paths = &["/tenant", "/user"];
    let above = format!("{TENANT1}FF");
    ranges(paths, "c.tenant = 'tenant1'", &[(TENANT1, &above, false)]);
    ranges(paths, "c.tenant = 'tenant1' AND c.user = 'u7'", &[(TENANT1_U7, TENANT1_U7, true)]);
    ranges(paths, "c.user = 'u7'", &[("", "FF", false)]);
    // A key within a prefix that is already included adds nothing.
    ranges(
        paths,
        "c.tenant = 'tenant1' OR (c.tenant = 'tenant1' AND c.user = 'u7')",
        &[(TENANT1, &above, false)],
    );
}

#[test]
fn features_the_client_lacks_are_refused() {
    let request =
        |features: &str| request_with(&[(HeaderName::SupportedQueryFeatures, features)], b"");
    let needed = [Feature::OffsetAndLimit, Feature::Top];
    assert!(check_features(&needed, &request("Top, OffsetAndLimit,OrderBy")).is_ok());
    assert!(check_features(&[], &request("")).is_ok());
    let error = check_features(&needed, &request("Top")).unwrap_err();
    assert_eq!((error.status(), error.substatus()), (400, 1004));
    assert!(error.message().contains("Query contained OffsetAndLimit, which the calling client"));
    assert!(!error.message().contains("Query contained Top"));
}
