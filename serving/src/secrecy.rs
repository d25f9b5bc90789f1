//! Protects the secrets of a program at its start: files for their owner alone, no core dump, no tracing.
//!
//! The memory of `orch` holds private keys, tokens and the cluster's objects in clear, that of `scheduler` a key, tokens and the
//! objects that it schedules by. A core dump would write them to a file
//! that another user may read, and a process of the same user could attach with ptrace.

use rustix::fs::Mode;
use rustix::io;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit, umask};

/// Sets the umask, forbids core dumps and makes the process undumpable. Call it before any file is read or made.
///
/// # Errors
/// A system call failed, though none needs privileges.
pub fn keep_secrets() -> io::Result<()> {
    // Files that this process makes are for their owner alone, under any umask it was started with.
    umask(Mode::RWXG | Mode::RWXO);
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not apply to dumps that the kernel pipes to a program.
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
