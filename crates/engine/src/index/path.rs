//! Names of paths in index keys.

use model::hash::murmur3_x64_128;
use query::access::Step;
use query::functions::spatial::Geospatial;

/// A path within items as index keys name it: a hash that grows with each step, so that a traversal
/// of an item never builds a path's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathHash(u128);

/// The root of every path. Stored on disk, as all values derived from it: it must never change.
const ROOT: u128 = 0x5d1e_90c7_4b8f_2a36_e07b_61d9_3c42_85af;
/// Distinguishes the step to an array's elements from a step to any name.
const ELEMENTS: u128 = 0x93c4_67ff_0b21_de58_1a6d_f4b2_7789_c013;

/// Distinguishes the step to a geometry's cells from both.
const CELLS: u128 = 0x2f71_c86e_95d0_43ba_7ce4_0d18_b6a3_5f92;

impl PathHash {
    pub(crate) const ROOT: Self = Self(ROOT);

    pub(crate) fn name(self, name: &str) -> Self {
        Self(murmur3_x64_128(name.as_bytes(), self.0))
    }

    pub(crate) fn elements(self) -> Self {
        Self(murmur3_x64_128(&[], self.0 ^ ELEMENTS))
    }

    /// The cells of the geometry at this path.
    pub(crate) fn cells(self, space: Geospatial) -> Self {
        let space = match space {
            Geospatial::Geography => "geography",
            Geospatial::Geometry => "geometry",
        };
        Self(murmur3_x64_128(space.as_bytes(), self.0 ^ CELLS))
    }

    pub(crate) fn of(path: &[Step]) -> Self {
        path.iter().fold(Self::ROOT, |at, step| match step {
            Step::Name(name) => at.name(name),
            Step::Elements => at.elements(),
            Step::Cells(space) => at.cells(*space),
        })
    }

    /// The bytes that keys contain.
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.number().to_be_bytes()
    }

    /// The half of the hash that keys contain.
    #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
    pub(crate) fn number(self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_have_different_names() {
        let name = |n: &str| Step::Name(n.to_owned());
        let paths = [
            vec![],
            vec![name("a")],
            vec![name("a"), name("b")],
            vec![name("ab")],
            vec![name("a"), Step::Elements],
            vec![name("a"), Step::Elements, name("b")],
            vec![name("a"), name("")],
            vec![name("a"), name("[]")],
            vec![name("a"), name("geography")],
            vec![name("a"), Step::Cells(Geospatial::Geography)],
            vec![name("a"), Step::Cells(Geospatial::Geometry)],
        ];
        let mut hashes: Vec<_> = paths.iter().map(|p| PathHash::of(p).to_bytes()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), paths.len());
    }

    #[test]
    fn names_of_paths_are_kept_for_ever() {
        let path = [Step::Name("tags".to_owned()), Step::Elements];
        assert_eq!(hex(PathHash::of(&path)), "dd6cebcb6bd73dfe");
        let cells = |space| PathHash::of(&[Step::Name("at".to_owned()), Step::Cells(space)]);
        assert_eq!(hex(cells(Geospatial::Geography)), "f1c7a2829ac52e2e");
        assert_eq!(hex(cells(Geospatial::Geometry)), "77fd38cf2f246e28");
    }

    fn hex(path: PathHash) -> String {
        path.to_bytes().iter().map(|b| format!("{b:02x}")).collect()
    }
}
