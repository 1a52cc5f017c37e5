use model::Value;

use super::key_of;

#[test]
fn keys_are_made_of_scalars() {
    assert!(key_of(&[Some(Value::Int64(1)), None]).is_some());
    assert!(key_of(&[Some(Value::Array(Vec::new()))]).is_none());
}
