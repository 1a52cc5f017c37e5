//! The changes of one group commit, seen as if they were already stored.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use model::PartitionId;
use storage::{Op, StoreError, View, WriteBatch};

type Writes = HashMap<Bytes, Option<Bytes>, foldhash::fast::FixedState>;

/// Changes collected for one durable write, over the state before them. Each request of the group
/// sees what the requests before it did; a request that fails is undone without a trace.
pub(crate) struct Group {
    view: Arc<dyn View>,
    writes: HashMap<PartitionId, Writes, foldhash::fast::FixedState>,
    undo: Vec<(PartitionId, Bytes, Option<Option<Bytes>>)>,
    /// Rows that nobody looks at in this group.
    copies: Vec<Op>,
    bytes: usize,
}

impl Group {
    pub(crate) fn new(view: Arc<dyn View>) -> Self {
        Self { view, writes: HashMap::default(), undo: Vec::new(), copies: Vec::new(), bytes: 0 }
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

    /// Stores a row that nothing else in this group asks for. If something writes it after all,
    /// that wins. It can't be taken back.
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

    /// Takes back what the current request did.
    pub(crate) fn reject(&mut self) {
        while let Some((p, key, before)) = self.undo.pop() {
            let writes = self.writes.entry(p).or_default();
            match before {
                Some(value) => writes.insert(key, value),
                None => writes.remove(&key),
            };
        }
    }

    /// Roughly how much is to be written.
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
