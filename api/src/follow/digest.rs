//! Names as digests, for values derived from very many objects.
//!
//! Owns their keys, which are random for each process: a client cannot find two names with the same digest, and a billion
//! names have two with a chance of one in 10^20. So a view may hold sixteen bytes instead of a name.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

/// Two hashes of 64 bits each, in parts that need no alignment of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest([u32; 4]);

impl Digest {
    /// Of a name with what tells its kind.
    pub(crate) fn of(value: impl Hash) -> Digest {
        static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
        let [a, b] = &*KEYS;
        let (a, b) = (a.hash_one(&value).to_ne_bytes(), b.hash_one(&value).to_ne_bytes());
        let quarter =
            |of: [u8; 8], at: usize| u32::from_ne_bytes([of[at], of[at + 1], of[at + 2], of[at + 3]]);
        Digest([quarter(a, 0), quarter(a, 4), quarter(b, 0), quarter(b, 4)])
    }
}
