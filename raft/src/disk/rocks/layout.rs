//! The names in a data directory that the store and its making take.
//!
//! Owns these names, for the programs that look at a data directory from outside, too. It looks at none.

/// The directory of the store that a node opens.
pub const STORE: &str = "store";

/// The directory of a store that is being made.
pub const DRAFT: &str = "store.new";

/// The directory of the store whose place a new one took.
pub const BEFORE: &str = "store.before";

/// The file that is there while a store is being made: no node starts meanwhile.
pub const MARK: &str = "REMAKING";

/// The file that marks a directory as a store's, within it.
pub const FORMAT: &str = "FORMAT";
