use std::time::Duration;

use engine::ops::Retrieved;
use model::Value;

use super::{Metrics, key_of};

#[test]
fn keys_are_made_of_scalars() {
    assert!(key_of(&[Some(Value::Int64(1)), None]).is_some());
    assert!(key_of(&[Some(Value::Array(Vec::new()))]).is_none());
}

#[test]
fn metrics_have_every_member_clients_read() {
    let metrics = Metrics {
        compile: Duration::from_micros(50),
        total: Duration::from_micros(430),
        retrieved: Retrieved { rows: 7, bytes: 2100 },
        rows: 3,
        rows_bytes: 900,
    };
    let text = metrics.to_text();
    assert!(text.starts_with("totalExecutionTimeInMs=0.43;queryCompileTimeInMs=0.05;"), "{text}");
    assert!(text.contains("VMExecutionTimeInMs=0.38;"));
    assert!(text.contains("retrievedDocumentCount=7;retrievedDocumentSize=2100;"));
    assert!(text.contains("outputDocumentCount=3;outputDocumentSize=900;"));
    assert_eq!(text.split(';').count(), 17);
    assert!(text.split(';').all(|entry| {
        entry.split_once('=').is_some_and(|(_, number)| number.parse::<f64>().is_ok())
    }));
}
