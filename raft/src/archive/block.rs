//! A block of a snapshot file: a head of fixed size and compressed bytes.
//!
//! Owns the head: the kind of the block, both lengths, a checksum of the compressed bytes, and a checksum of the head
//! itself, by which a changed length is found before it is believed. It never reads or writes a stream.

/// Bytes of a head: kind, two lengths, two checksums.
pub(super) const HEAD_BYTES: usize = 1 + 4 * 4;

/// Bytes of a head before its own checksum.
const COVERED_BYTES: usize = HEAD_BYTES - 4;

/// The contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// The encoded header.
    Header = 1,
    /// Objects of one resource.
    Objects = 2,
    /// The encoded trailer.
    Trailer = 3,
    /// The encoded keys of the cluster.
    Keys = 4,
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: BlockKind,
    /// Bytes before compression.
    pub(super) plain: u32,
    /// Bytes that follow the head.
    pub(super) packed: u32,
    /// CRC-32 of the bytes that follow the head.
    pub(super) checksum: u32,
}

impl Head {
    /// The head of a block that holds `packed`, compressed from `plain` bytes. `None` for a block of 4 GiB and more.
    pub(super) fn of(kind: BlockKind, plain: usize, packed: &[u8]) -> Option<Head> {
        let (plain, length) = (u32::try_from(plain).ok()?, u32::try_from(packed.len()).ok()?);
        Some(Head { kind, plain, packed: length, checksum: crc32fast::hash(packed) })
    }

    pub(super) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1..5].copy_from_slice(&self.plain.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.packed.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32fast::hash(&bytes[..COVERED_BYTES]);
        bytes[COVERED_BYTES..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// The contradiction found: the checksum, or an unknown kind.
    pub(super) fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Head, &'static str> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if number(COVERED_BYTES) != crc32fast::hash(&bytes[..COVERED_BYTES]) {
            return Err("the checksum of a block's head is another");
        }
        let kind = match bytes[0] {
            1 => BlockKind::Header,
            2 => BlockKind::Objects,
            3 => BlockKind::Trailer,
            4 => BlockKind::Keys,
            _ => return Err("a block is of no known kind"),
        };
        Ok(Head { kind, plain: number(1), packed: number(5), checksum: number(9) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_and_every_changed_bit_of_it_is_found() {
        let head = Head::of(BlockKind::Objects, 70_000, b"packed").unwrap();
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Ok(head));
        for bit in 0..8 * HEAD_BYTES {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::decode(&changed).is_err(), "bit {bit}");
        }
    }
}
