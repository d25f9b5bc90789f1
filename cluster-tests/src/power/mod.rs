//! Power loss on the real adapter: the RocksDB disk of a member over a layer that loses unsynced writes.
//!
//! A process (`member`) uses a disk as a running member does, under a preloaded library (`shim.c`) that records every
//! change of a file, every sync and every promise in one order (`trace`), and kills it at a random operation. From the
//! records `image` makes a possible content of the disk after a power loss there, the next process opens it, and
//! `judge` compares its content with the promises. `run` repeats that; docs/power-loss.md states the model.
//!
//! Only `member` uses the disk: a change of the disk's interface changes that file alone.

pub mod image;
pub mod judge;
pub mod member;
pub mod model;
pub mod run;
pub mod shim;
pub mod trace;
