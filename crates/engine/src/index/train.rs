//! Making the cells of vectors from a sample of them.
//!
//! Cells are made when a container has enough vectors, and again when it has several times more
//! than they were made for. They take effect as any other change of the indexing policy: entries
//! are brought up to date in the background, and until that is done queries read all vectors.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use model::ContainerRid;
use model::hash::murmur3_x64_128;
use storage::{Dir, KeyRange, View};

use super::cells::{Cells, Matrix, directed};
use super::policy::VectorIndex;
use super::search::path_of;
use super::vectors::decode_into;
use super::words::{read, unreadable};
use crate::catalog::{Container, ContainerSpec};
use crate::engine::Inner;
use crate::repartition::upgrade;
use crate::{Engine, Error, keys};

/// Cells are made again when there are this many times more vectors.
const GROWTH: u64 = 4;
/// Vectors that are read for each cell.
const SAMPLE_PER_CELL: usize = 16;
/// Fewest and most cells.
const CELLS_MIN: usize = 16;
const CELLS_MAX: usize = 4096;
/// Most numbers in all centres together, which are kept in memory and in the catalog.
const NUMBERS_MAX: usize = 1 << 20;
/// How often centres are moved to the mean of the vectors nearest to them.
const ROUNDS: usize = 6;

/// With how many items an attempt to make cells found too few vectors.
pub(super) type Attempts = BTreeMap<ContainerRid, u64>;

/// Makes cells for all containers that have enough vectors.
pub(super) async fn make_cells(engine: &Weak<Inner>, attempts: &mut Attempts) -> Result<(), Error> {
    let catalog = upgrade(engine)?.catalog();
    for container in catalog.containers.values() {
        let engine = upgrade(engine)?;
        let items = items_of(container);
        let was_tried = attempts.get(&container.rid).is_some_and(|before| items < 2 * before);
        if was_tried || !container.indexes.former.is_empty() {
            continue;
        }
        let from = engine.settings().vectors_in_cells.max(CELLS_MIN as u64);
        let is_due = |index: &&VectorIndex| {
            let trained_on = index.cells.as_ref().map_or(0, Cells::trained_on);
            !index.is_exact && items >= from && items >= trained_on.saturating_mul(GROWTH)
        };
        let due: Vec<_> = container.spec.indexing.vectors.iter().filter(is_due).cloned().collect();
        for index in due {
            attempts.insert(container.rid, items);
            engine.make_cells_of(container, index, from).await?;
        }
    }
    attempts.retain(|rid, _| catalog.container_by_rid(*rid).is_some());
    Ok(())
}

fn items_of(container: &Container) -> u64 {
    container.routing().ranges().iter().map(|range| range.partition.items()).sum()
}

impl Engine {
    async fn make_cells_of(
        &self,
        container: &Arc<Container>,
        index: VectorIndex,
        vectors_min: u64,
    ) -> Result<(), Error> {
        let (engine, of) = (self.clone(), Arc::clone(container));
        let sampled = index.clone();
        let made = self.run_blocking(move || {
            let partitions: Vec<_> =
                of.routing().ranges().iter().map(|range| range.partition.id).collect();
            let view = engine.inner.store.view();
            let (vectors, sample) = sample(view.as_ref(), &partitions, &sampled, items_of(&of))?;
            let is_enough = vectors >= vectors_min;
            Ok(is_enough.then(|| train(vectors, &sample)).flatten())
        });
        let Some(cells) = made.await? else { return Ok(()) };
        let mut change = self.begin_change().await;
        let Some(now) = change.catalog.container_by_rid(container.rid).cloned() else {
            return Ok(());
        };
        let mut indexing = now.spec.indexing.clone();
        let Some(kept) = indexing.vectors.iter_mut().find(|known| **known == index) else {
            return Ok(());
        };
        kept.cells = Some(cells);
        let spec = ContainerSpec { indexing, ..now.spec.clone() };
        let indexes = Arc::new(now.indexes.succeeded_by(&spec));
        change.put_container(Arc::new(Container { spec, indexes, ..now.same() }));
        self.finish_change(change).await?;
        tracing::info!(container = %now.spec.id, "vectors are put into cells");
        self.rebuild_indexes();
        Ok(())
    }
}

/// How many cells to make for this many vectors of a length.
fn cells_for(vectors: u64, dimensions: usize) -> usize {
    let wanted = usize::try_from(vectors.isqrt().saturating_mul(8)).unwrap_or(CELLS_MAX);
    let most = (NUMBERS_MAX / dimensions.max(1)).clamp(CELLS_MIN, CELLS_MAX);
    wanted.clamp(CELLS_MIN, most)
}

/// How many vectors there are, and a sample of them.
fn sample(
    view: &dyn View,
    partitions: &[model::PartitionId],
    index: &VectorIndex,
    expected: u64,
) -> Result<(u64, Matrix), Error> {
    let wanted = cells_for(expected, index.dimensions) * SAMPLE_PER_CELL;
    let one_of = (expected / wanted as u64).max(1);
    let (mut count, mut sample) = (0_u64, Matrix::new(index.dimensions));
    let mut lo = Vec::new();
    keys::push_vector_term(path_of(&index.path), &mut lo);
    let hi = keys::successor(&lo);
    for partition in partitions {
        let mut cursor = view.scan(*partition, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
        while let Some((key, value)) = cursor.next()? {
            count += 1;
            let (number, _, payload) = read(key, value)?;
            if !hash(number).is_multiple_of(one_of) || sample.len() >= 2 * wanted {
                continue;
            }
            let mut vector = Vec::with_capacity(index.dimensions);
            decode_into(payload, &mut vector);
            if vector.len() != index.dimensions {
                return Err(unreadable());
            }
            sample.numbers.extend(directed(index.metric, vector));
        }
    }
    Ok((count, sample))
}

/// Numbers of items follow the order of their creation; the sample must not.
#[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
fn hash(number: u64) -> u64 {
    murmur3_x64_128(&number.to_be_bytes(), 1) as u64
}

/// Makes cells for this many vectors from a sample: first groups, then the cells of each.
fn train(vectors: u64, sample: &Matrix) -> Option<Cells> {
    let cells = cells_for(vectors, sample.columns);
    let groups = cells.isqrt().max(1);
    let (centres, nearest) = cluster(sample, groups);
    let mut all = Vec::with_capacity(centres.len());
    for group in 0..centres.len() {
        let mut members = Matrix::new(sample.columns);
        for (row, _) in sample.rows().zip(&nearest).filter(|(_, at)| **at == group) {
            members.numbers.extend_from_slice(row);
        }
        let share = (cells * members.len()).div_ceil(sample.len().max(1));
        all.push(match members.len() {
            0 => Matrix { columns: sample.columns, numbers: centres.row(group).to_vec() },
            _ => cluster(&members, share.max(1)).0,
        });
    }
    Cells::new(vectors, &centres, &all)
}

/// At most `count` centres of rows, and which one is nearest to each row (k-means).
fn cluster(rows: &Matrix, count: usize) -> (Matrix, Vec<usize>) {
    let count = count.min(rows.len()).max(1);
    let mut centres = Matrix::new(rows.columns);
    for at in 0..count.min(rows.len()) {
        // Rows are in no relevant order, so any that are spread out will do.
        centres.numbers.extend_from_slice(rows.row(at * rows.len() / count));
    }
    let mut nearest = Vec::new();
    for _ in 0..ROUNDS {
        nearest = rows.rows().map(|row| centres.nearest(row)).collect();
        let mut sums = vec![0.0_f32; centres.numbers.len()];
        let mut counts = vec![0_u32; centres.len()];
        for (row, at) in rows.rows().zip(&nearest) {
            counts[*at] += 1;
            let sum = &mut sums[at * rows.columns..(at + 1) * rows.columns];
            sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        }
        for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let range = at * rows.columns..(at + 1) * rows.columns;
            for (centre, sum) in centres.numbers[range.clone()].iter_mut().zip(&sums[range]) {
                *centre = sum / *count as f32;
            }
        }
    }
    (centres, nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_lie_where_the_vectors_are() {
        let mut sample = Matrix::new(2);
        for n in 0..400_u16 {
            let angle = f32::from(n % 8) * std::f32::consts::FRAC_PI_4;
            let (far, off) = (10.0, f32::from(n / 8) / 1000.0);
            sample.numbers.extend([far * angle.cos() + off, far * angle.sin() - off]);
        }
        let cells = train(400, &sample).expect("cells");
        assert!((CELLS_MIN..=2 * 160).contains(&cells.len()), "{}", cells.len());
        assert_eq!(cells.trained_on(), 400);
        // Opposite directions share no cell.
        let (east, west) = (cells.of(&[10.0, 0.0]), cells.of(&[-10.0, 0.0]));
        assert!(east.iter().all(|cell| !west.contains(cell)));
    }

    #[test]
    fn more_vectors_have_more_cells_within_bounds() {
        assert_eq!(cells_for(100_000, 384), 2528);
        assert_eq!(cells_for(3, 2), CELLS_MIN);
        assert_eq!(cells_for(u64::MAX, 2), CELLS_MAX);
        assert_eq!(cells_for(u64::MAX, 4096), 256);
    }

    #[test]
    fn few_rows_have_few_centres() {
        let one = Matrix { columns: 2, numbers: vec![1.0, 2.0] };
        let (centres, nearest) = cluster(&one, 5);
        assert_eq!((centres.numbers, nearest), (vec![1.0, 2.0], vec![0]));
    }
}
