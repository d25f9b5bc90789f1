//! Power loss on the real adapter: the RocksDB disk of a member over a layer that forgets what was not synced.
//!
//! A process (`member`) does to a disk what a running member does, under a preloaded library (`shim.c`) that records every
//! change of a file, every sync and every promise in one order (`trace`), and kills it at a random operation. From the
//! records `image` makes a directory that a disk may hold after the power failed there, the next process opens that, and
//! `judge` compares what it shows with what was promised. `run` repeats that; docs/power-loss.md states the model.
//!
//! The disk is used through `member` alone: where the interface of disks changes, that file follows.

pub mod image;
pub mod judge;
pub mod member;
pub mod model;
pub mod run;
pub mod shim;
pub mod trace;
