//! The largest logical partitions of a range.

use engine::RangeId;
use engine::ops::ItemOp;
use model::PartitionKeyComponent;
use testkit::harness::{Harness, body, string_key, test_context};

async fn fill(h: &Harness, c: &std::sync::Arc<engine::Container>) {
    for (key, items) in [("a", 1), ("b", 7), ("c", 3), ("d", 5)] {
        for id in 0..items {
            let text = format!(r#"{{"id":"{id}","pk":"{key}","text":"{}"}}"#, "x".repeat(100));
            h.write(c, key, ItemOp::Create { body: body(&text) }).await.expect("an item");
        }
    }
}

#[tokio::test]
async fn the_largest_come_first_with_their_key_values() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let found =
        h.engine.largest_keys(&mut test_context(), &c, RangeId(0), 2, 1000).await.expect("a list");
    assert_eq!((found.counted, found.is_complete), (4, true));
    let shown: Vec<_> = found.keys.iter().map(|k| (k.key.clone(), k.items)).collect();
    assert_eq!(shown, [(string_key("b"), 7), (string_key("d"), 5)]);
    assert!(found.keys[0].bytes > found.keys[1].bytes && found.keys[1].bytes > 500);
    assert_eq!(found.keys[0].key.0[0], PartitionKeyComponent::String("b".into()));
}

#[tokio::test]
async fn a_bounded_look_says_that_there_is_more() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let exactly =
        h.engine.largest_keys(&mut test_context(), &c, RangeId(0), 9, 4).await.expect("a list");
    assert_eq!((exactly.keys.len(), exactly.counted, exactly.is_complete), (4, 4, true));
    let fewer =
        h.engine.largest_keys(&mut test_context(), &c, RangeId(0), 9, 3).await.expect("a list");
    assert_eq!((fewer.keys.len(), fewer.counted, fewer.is_complete), (3, 3, false));
    let none =
        h.engine.largest_keys(&mut test_context(), &c, RangeId(0), 0, 1000).await.expect("a list");
    assert_eq!((none.keys.len(), none.counted), (0, 4));
}

#[tokio::test]
async fn emptied_logical_partitions_and_gone_ranges_have_no_keys() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let delete = ItemOp::Delete { id: "0".into(), if_match: None };
    h.write(&c, "a", delete).await.expect("it was there");
    let found =
        h.engine.largest_keys(&mut test_context(), &c, RangeId(0), 9, 1000).await.expect("a list");
    assert_eq!(found.keys.len(), 3);
    let gone = h.engine.largest_keys(&mut test_context(), &c, RangeId(9), 9, 1000).await;
    assert!(matches!(gone, Err(engine::Error::RangeGone)));
}
