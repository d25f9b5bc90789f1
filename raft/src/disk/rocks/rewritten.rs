//! Reports of a rewrite of the records: its progress, its end, and the keys that are no longer needed.

use std::fmt;

/// How far a rewrite is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records examined so far.
    pub examined: u64,
    /// Records among them that were rewritten.
    pub rewritten: u64,
    /// Records that the store holds, estimated by the database when the rewrite began.
    pub estimated: u64,
    /// Bytes of the records examined so far.
    pub bytes: u64,
    /// Ranges of the store whose older forms are gone, after all records were examined.
    pub compacted: u64,
    /// Ranges of the store; 0 until all records were examined.
    pub ranges: u64,
}

/// How a rewrite ended. Unless it is complete, older forms of records are still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteEnd {
    /// Every record has the key that a new one in its place gets, and older forms are gone.
    Complete,
    /// The caller ended it.
    Stopped,
    /// Another state was installed meanwhile, whose records were not all examined.
    StateReplaced,
    /// The keys of new records changed meanwhile: records examined before that may have other ones.
    KeysChanged,
}

/// The result of a rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The final counts.
    pub progress: Progress,
    /// Names of keys that no record needs any more, sorted.
    pub unneeded: Vec<String>,
    /// How it ended.
    pub end: RewriteEnd,
}

impl fmt::Display for RewriteEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RewriteEnd::Complete => "complete",
            RewriteEnd::Stopped => "stopped before the end",
            RewriteEnd::StateReplaced => "another state was installed meanwhile",
            RewriteEnd::KeysChanged => "the keys of new records changed meanwhile",
        })
    }
}

impl fmt::Display for Rewritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} records rewritten", self.progress.rewritten, self.progress.examined)?;
        if self.end != RewriteEnd::Complete {
            write!(f, "; {}", self.end)?;
        }
        match &self.unneeded[..] {
            [] => Ok(()),
            keys => write!(f, "; no record needs these keys any more: {}", keys.join(", ")),
        }
    }
}
