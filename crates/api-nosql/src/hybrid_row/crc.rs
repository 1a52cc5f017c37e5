//! The checksum of rows: CRC-32 of ISO 3309, as in zlib and PNG.
#![expect(clippy::little_endian_bytes, reason = "HybridRow is little-endian")]

/// The polynomial, reflected.
const POLYNOMIAL: u32 = 0xEDB8_8320;
/// Bytes that one step takes.
const STRIDE: usize = 8;

/// `TABLES[n][b]` is what the byte `b` contributes when `n` bytes follow it within a step.
static TABLES: [[u32; 256]; STRIDE] = tables();

const fn tables() -> [[u32; 256]; STRIDE] {
    let mut tables = [[0; 256]; STRIDE];
    let mut byte: u8 = 0;
    loop {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte as usize] = crc;
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    let mut at = 1;
    while at < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[at - 1][byte];
            tables[at][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        at += 1;
    }
    tables
}

/// The checksum of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    let (steps, rest) = bytes.as_chunks::<STRIDE>();
    let mut crc = !0;
    for step in steps {
        let mut step = *step;
        for (byte, crc) in step.iter_mut().zip(u32::to_le_bytes(crc)) {
            *byte ^= crc;
        }
        let ahead = TABLES.iter().rev().zip(step);
        crc = ahead.fold(0, |crc, (table, byte)| crc ^ table[usize::from(byte)]);
    }
    let one =
        |crc: u32, byte: &u8| (crc >> 8) ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)];
    !rest.iter().fold(crc, one)
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn known_checksums() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
    }

    #[test]
    fn steps_and_single_bytes_agree() {
        let bytes: Vec<u8> = (0..100_u8).map(|n| n.wrapping_mul(37)).collect();
        for len in 0..bytes.len() {
            let mut slow = !0_u32;
            for byte in &bytes[..len] {
                slow ^= u32::from(*byte);
                for _ in 0..8 {
                    slow = if slow & 1 == 1 { (slow >> 1) ^ 0xEDB8_8320 } else { slow >> 1 };
                }
            }
            assert_eq!(crc32(&bytes[..len]), !slow, "{len}");
        }
    }
}
