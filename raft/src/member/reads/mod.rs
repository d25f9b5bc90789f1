//! Linearizable reads: which caller waits for which round, and whom the leader asks.
//!
//! Owns nothing but the order of its files: `barrier` gathers callers in rounds, `confirming` asks the voters, and `single_voter` needs to
//! ask nobody.

pub(crate) mod barrier;
pub(crate) mod confirming;
pub(crate) mod single_voter;
