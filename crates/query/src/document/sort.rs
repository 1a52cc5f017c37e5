//! Orders of documents: fields with directions, as keys whose bytes compare as the documents do.

use model::Value;
use model::json::FieldMask;
use model::order::{TypeOrder, encode_whole};

use super::Failure;
use super::index_keys::{ColumnKind, IndexColumn, sort_values};

/// Fields by which documents are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortPattern {
    columns: Vec<IndexColumn>,
}

impl SortPattern {
    /// An order by these fields, the first above all.
    pub fn new(columns: Vec<IndexColumn>) -> Self {
        Self { columns }
    }

    /// The fields.
    pub fn columns(&self) -> &[IndexColumn] {
        &self.columns
    }

    /// The key of a document: keys compare as the documents are to be ordered. Of an array it is
    /// the least element, or the greatest if the direction is descending; what is missing is null.
    pub fn key_of(&self, document: &Value) -> Result<Vec<u8>, Failure> {
        let mut key = Vec::with_capacity(16 * self.columns.len());
        for (column, value) in self.columns.iter().zip(sort_values(document, &self.columns)?) {
            let start = key.len();
            encode_whole(TypeOrder::Bson, value.as_ref(), &mut key);
            if column.kind == ColumnKind::Descending {
                key[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        Ok(key)
    }

    /// Adds to `mask` what has to be read of a document.
    pub fn require(&self, mask: &mut FieldMask) {
        self.columns.iter().for_each(|column| column.path.require(mask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::FieldPath;

    fn document(value: Option<Value>) -> Value {
        Value::Object(value.into_iter().map(|value| ("a".to_owned(), value)).collect())
    }

    fn key(kind: ColumnKind, document: &Value) -> Vec<u8> {
        let pattern = SortPattern::new(vec![IndexColumn { path: FieldPath::parse("a"), kind }]);
        pattern.key_of(document).unwrap()
    }

    #[test]
    fn arrays_sort_by_their_least_or_greatest_element() {
        let array = |numbers: &[i32]| {
            document(Some(Value::Array(numbers.iter().map(|n| Value::Int32(*n)).collect())))
        };
        let up = |document| key(ColumnKind::Ascending, document);
        let down = |document| key(ColumnKind::Descending, document);
        let ascending = [
            array(&[]),
            document(None),
            array(&[5, 1]),
            document(Some(Value::Double(2.0))),
            array(&[9, 3]),
            document(Some(Value::from("a"))),
        ];
        for pair in ascending.windows(2) {
            assert!(up(&pair[0]) < up(&pair[1]), "{pair:?}");
        }
        let descending = [array(&[9, 1]), array(&[5, 3]), document(Some(Value::Int64(4)))];
        for pair in descending.windows(2) {
            assert!(down(&pair[0]) < down(&pair[1]), "{pair:?}");
        }
        assert_eq!(up(&document(Some(Value::Null))), up(&document(None)));
    }
}
