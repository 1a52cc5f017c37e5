//! The changes of one group commit, seen as if they were already stored.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use model::PartitionId;
use storage::{Op, StoreError, View, WriteBatch};

use crate::index::TextTotals;
use crate::keys;

type Writes = HashMap<Bytes, Option<Bytes>, foldhash::fast::FixedState>;

/// Changes collected for one durable write, on top of the state before them. Each request of the
/// group sees what the requests before it did; a request that fails is undone completely.
pub(crate) struct Group {
    view: Arc<dyn View>,
    writes: HashMap<PartitionId, Writes, foldhash::fast::FixedState>,
    undo: Vec<(PartitionId, Bytes, Option<Option<Bytes>>)>,
    /// Rows that no request of this group reads.
    copies: Vec<Op>,
    bytes: usize,
}

impl Group {
    pub(crate) fn new(view: Arc<dyn View>) -> Self {
        Self { view, writes: HashMap::default(), undo: Vec::new(), copies: Vec::new(), bytes: 0 }
    }

    /// The state before the group.
    pub(crate) fn view(&self) -> &dyn View {
        self.view.as_ref()
    }

    pub(crate) fn get(&self, p: PartitionId, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match self.writes.get(&p).and_then(|w| w.get(key)) {
            Some(written) => Ok(written.clone()),
            None => self.view.get(p, key),
        }
    }

    pub(crate) fn put(&mut self, p: PartitionId, key: Bytes, value: Bytes) {
        self.set(p, key, Some(value));
    }

    pub(crate) fn delete(&mut self, p: PartitionId, key: Bytes) {
        self.set(p, key, None);
    }

    /// Puts an index entry, and counts it where entries are counted.
    pub(crate) fn put_entry(
        &mut self,
        p: PartitionId,
        key: Bytes,
        value: Bytes,
    ) -> Result<(), StoreError> {
        self.count_text(p, &key, Some(&value))?;
        self.put(p, key, value);
        Ok(())
    }

    /// Deletes an index entry, and counts it where entries are counted.
    pub(crate) fn delete_entry(&mut self, p: PartitionId, key: Bytes) -> Result<(), StoreError> {
        self.count_text(p, &key, None)?;
        self.delete(p, key);
        Ok(())
    }

    /// Counts a text's entry that is about to be written: as one more, one less, or one of another
    /// length, depending on what is there now.
    fn count_text(
        &mut self,
        p: PartitionId,
        entry: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let Some(key) = keys::text_totals_of(entry) else { return Ok(()) };
        let before = self.get(p, entry)?;
        let totals = self.get(p, &key)?.and_then(|totals| TextTotals::decode(&totals));
        let totals = totals.unwrap_or_default();
        let now = totals
            .without(before.as_deref().and_then(TextTotals::of_entry))
            .with(value.and_then(TextTotals::of_entry));
        match now.texts {
            0 => self.delete(p, key),
            _ if now != totals => self.put(p, key, now.encode()),
            _ => {}
        }
        Ok(())
    }

    /// Stores a row that no other request of this group reads. If the group writes the same key
    /// elsewhere, that write wins. This one can't be undone.
    pub(crate) fn put_unseen(&mut self, p: PartitionId, key: Bytes, value: Bytes) {
        self.bytes += key.len() + value.len();
        self.copies.push(Op::Put { p, k: key, v: value });
    }

    fn set(&mut self, p: PartitionId, key: Bytes, value: Option<Bytes>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
        let before = self.writes.entry(p).or_default().insert(key.clone(), value);
        self.undo.push((p, key, before));
    }

    /// What the group does to a partition so far: keys and their new values.
    pub(crate) fn writes_of(
        &self,
        p: PartitionId,
    ) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        self.writes.get(&p).into_iter().flatten()
    }

    /// Keeps what the current request did.
    pub(crate) fn accept(&mut self) {
        self.undo.clear();
    }

    /// Undoes what the current request did.
    pub(crate) fn reject(&mut self) {
        while let Some((p, key, before)) = self.undo.pop() {
            let writes = self.writes.entry(p).or_default();
            match before {
                Some(value) => writes.insert(key, value),
                None => writes.remove(&key),
            };
        }
    }

    /// About how much is to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All changes as one atomic batch, the last one of each key.
    pub(crate) fn into_batch(self) -> WriteBatch {
        debug_assert!(self.undo.is_empty(), "every request was accepted or rejected");
        let mut ops = self.copies;
        ops.reserve_exact(self.writes.values().map(HashMap::len).sum());
        for (p, writes) in self.writes {
            ops.extend(writes.into_iter().map(|(k, v)| match v {
                Some(v) => Op::Put { p, k, v },
                None => Op::Del { p, k },
            }));
        }
        WriteBatch { ops }
    }
}
