//! What a process with secrets does for them at its start: files for its owner alone, no core dump, no tracing.
//!
//! Its memory holds private keys, tokens and the objects of the cluster in clear. A core dump would write all of it into
//! a file that somebody else reads, and a process of the same user could attach to it.

use rustix::fs::Mode;
use rustix::io;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit, umask};

/// Keeps this process's memory and the files it makes from others. Before anything is read or made.
///
/// # Errors
/// The system refuses what every process may ask for.
pub fn keep_secrets() -> io::Result<()> {
    // Whatever this process makes is for its owner alone, under any mask it was started with.
    umask(Mode::RWXG | Mode::RWXO);
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not hold for dumps that the system pipes to a program.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

#[cfg(test)]
mod tests {
    use rustix::process::{dumpable_behavior, getrlimit};

    use super::*;

    #[test]
    fn nothing_is_dumped_and_files_are_for_their_owner() {
        keep_secrets().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
        assert_eq!(umask(Mode::RWXG | Mode::RWXO), Mode::RWXG | Mode::RWXO);
    }
}
