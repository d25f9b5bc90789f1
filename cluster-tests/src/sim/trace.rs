//! The events of a run, in order, and a hash of them.
//!
//! Two runs of one seed must give the same hash, which shows that the simulator is deterministic. A failure prints the
//! last lines.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::runtime::NodeRuntime;

/// Lines kept for printing; older ones count in the hash only. A run makes a few thousand.
const LINES_MAX: usize = 20_000;

/// The record of a run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    lines: VecDeque<String>,
    hash: Hash64,
    events: u64,
    echo: bool,
}

/// FNV-1a over words of 64 bits: stable across builds, which the standard hasher does not promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash64(pub u64);

impl Default for Hash64 {
    fn default() -> Self {
        Hash64(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash64 {
    /// Adds bytes, and their number, so that neighbours do not run together.
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    /// Adds a number.
    pub fn word(&mut self, word: u64) {
        // The high half is folded in: a product alone carries no bit downwards.
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// The hash of `bytes` alone.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = Hash64::default();
        hash.add(bytes);
        hash
    }
}

impl Trace {
    /// Prints each event to standard error as it happens, too.
    pub fn echo(&self) {
        self.0.lock().echo = true;
    }

    /// Records an event at the current virtual time.
    pub fn event(&self, what: impl fmt::Display) {
        let line = format!("{:>10.6} {what}", NodeRuntime::elapsed().as_secs_f64());
        let mut inner = self.0.lock();
        inner.hash.add(line.as_bytes());
        inner.events += 1;
        if inner.echo {
            eprintln!("{line}");
        }
        if inner.lines.len() == LINES_MAX {
            inner.lines.pop_front();
        }
        inner.lines.push_back(line);
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.0.lock().events
    }

    /// The hash of all events so far.
    pub fn hash(&self) -> Hash64 {
        self.0.lock().hash
    }

    /// The newest `count` lines.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let inner = self.0.lock();
        inner.lines.iter().skip(inner.lines.len().saturating_sub(count)).cloned().collect()
    }
}
