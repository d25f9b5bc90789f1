//! The bytes that blocks take of the allocator, for tests of what series hold.

/// Bytes that the allocator takes for a block of `bytes`: its sizes are multiples of 16 up to 128, and then four to each power of two.
pub(super) fn block(bytes: usize) -> usize {
    match bytes {
        ..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    }
}

#[test]
fn blocks_have_the_sizes_of_the_allocator() {
    let blocks = [0, 1, 16, 128, 129, 184, 200, 256, 257, 5000].map(block);
    assert_eq!(blocks, [0, 16, 16, 128, 160, 192, 224, 256, 320, 5120]);
}
