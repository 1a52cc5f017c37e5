//! MurmurHash3, the 32-bit and the 64-bit-machine 128-bit variants.
//!
//! Not a defence against chosen collisions: where identity depends on a hash, a strong digest is
//! stored beside it.
#![expect(clippy::little_endian_bytes, reason = "MurmurHash3 reads little-endian words")]

/// The 32-bit hash of `data`.
pub fn murmur3_x86_32(data: &[u8], seed: u32) -> u32 {
    const C1: u32 = 0xcc9e_2d51;
    const C2: u32 = 0x1b87_3593;
    let scramble = |k: u32| k.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);

    let (blocks, tail) = data.as_chunks::<4>();
    let mut h = seed;
    for block in blocks {
        h ^= scramble(u32::from_le_bytes(*block));
        h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    // An empty tail scrambles to zero and changes nothing.
    h ^= scramble(u32::from_le_bytes(last));
    h ^= length_mod_2_32(data);

    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

/// The 128-bit hash of `data`: `h1` is the low half of the result, `h2` the high one, and they
/// start from the halves of `seed`.
pub fn murmur3_x64_128(data: &[u8], seed: u128) -> u128 {
    let (mut h1, mut h2) = (low_64(seed), low_64(seed >> 64));
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let word = u128::from_le_bytes(*block);
        h1 ^= scramble_first(low_64(word));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble_second(low_64(word >> 64));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    // Zero halves of the tail scramble to zero and change nothing.
    let word = u128::from_le_bytes(last);
    h1 ^= scramble_first(low_64(word));
    h2 ^= scramble_second(low_64(word >> 64));

    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    u128::from(h2) << 64 | u128::from(h1)
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn scramble_first(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble_second(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

#[expect(clippy::cast_possible_truncation, reason = "keeps the low half")]
fn low_64(n: u128) -> u64 {
    n as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the algorithm counts modulo 2^32")]
fn length_mod_2_32(data: &[u8]) -> u32 {
    data.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outputs of the reference implementation.
    #[test]
    fn agrees_with_the_reference_32_bit() {
        let table: &[(&str, u32, u32)] = &[
            ("", 0, 0),
            ("", 1, 0x514E_28B7),
            ("", 0xFFFF_FFFF, 0x81F1_6F39),
            ("a", 0x9747_B28C, 0x7FA0_9EA6),
            ("aa", 0x9747_B28C, 0x5D21_1726),
            ("aaa", 0x9747_B28C, 0x283E_0130),
            ("aaaa", 0x9747_B28C, 0x5A97_808A),
            ("Hello, world!", 0x9747_B28C, 0x2488_4CBA),
            ("The quick brown fox jumps over the lazy dog", 0x9747_B28C, 0x2FA8_26CD),
        ];
        for (text, seed, expected) in table {
            assert_eq!(murmur3_x86_32(text.as_bytes(), *seed), *expected, "{text}");
        }
    }

    /// Outputs of the reference implementation, `h1` then `h2`.
    #[test]
    fn agrees_with_the_reference_128_bit() {
        let table: &[(&str, u64, u64)] = &[
            ("", 0, 0),
            (
                "The quick brown fox jumps over the lazy dog",
                0xE34B_BC7B_BC07_1B6C,
                0x7A43_3CA9_C49A_9347,
            ),
            (
                "The quick brown fox jumps over the lazy cog",
                0x658C_A970_FF85_269A,
                0x43FE_E3EA_A68E_5C3E,
            ),
        ];
        for (text, low, high) in table {
            let expected = u128::from(*high) << 64 | u128::from(*low);
            assert_eq!(murmur3_x64_128(text.as_bytes(), 0), expected, "{text}");
        }
    }
}
