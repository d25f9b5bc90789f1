//! A member that starts with an older copy of its disk, and how the others tell.
//!
//!     promises   what others voted and acknowledged to this member
//!     recall     what this member tells a peer of that peer's disk
//!     returning  what this member does about what it is told
//!
//! Owns no decision on who is believed (see `trust`).

pub(crate) mod promises;
pub(crate) mod recall;
pub(crate) mod returning;
