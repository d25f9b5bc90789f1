//! Policies over stored objects, in memory.
