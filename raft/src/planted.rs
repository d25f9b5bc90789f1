//! Bugs that a simulation plants on its thread, to show that its oracles find them. A release has no bug and no place for one.
//!
//! Owns how a bug is planted and taken away again. The bugs themselves stand beside the code that has them.

use std::cell::Cell;
use std::thread::LocalKey;

/// The place of a bug, one for each thread.
pub struct Planted<B>(Cell<Option<B>>);

impl<B> std::fmt::Debug for Planted<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Planted")
    }
}

impl<B: Copy + PartialEq> Planted<B> {
    /// A place without a bug.
    pub const fn none() -> Self {
        Planted(Cell::new(None))
    }

    /// Whether `bug` is there.
    pub fn is(&self, bug: B) -> bool {
        self.0.get() == Some(bug)
    }
}

/// Runs `work` with `bug` in `place` on this thread.
pub fn with_bug<B: Copy + PartialEq + 'static, T>(
    place: &'static LocalKey<Planted<B>>,
    bug: B,
    work: impl FnOnce() -> T,
) -> T {
    struct Reset<B: Copy + PartialEq + 'static>(&'static LocalKey<Planted<B>>);
    impl<B: Copy + PartialEq + 'static> Drop for Reset<B> {
        fn drop(&mut self) {
            self.0.with(|place| place.0.set(None));
        }
    }
    let _reset = Reset(place);
    place.with(|place| place.0.set(Some(bug)));
    work()
}
