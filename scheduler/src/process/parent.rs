//! The process that started this one, where it says that this one is to end with it.

use std::io::Read;

use orch_proto::environment::STOP_WITH_STDIN;
use tokio_util::sync::CancellationToken;

/// A token that is cancelled when standard input closes; never where the environment does not ask for it.
pub(super) fn gone() -> CancellationToken {
    let gone = CancellationToken::new();
    if std::env::var_os(STOP_WITH_STDIN).is_some() {
        let told = gone.clone();
        // A thread that nothing waits for: the read has no end while the parent lives, and must not keep this process.
        #[expect(clippy::disallowed_methods, reason = "a read of standard input blocks its thread")]
        std::thread::spawn(move || {
            let mut ignored = [0; 64];
            while std::io::stdin().read(&mut ignored).is_ok_and(|read| read > 0) {}
            told.cancel();
        });
    }
    gone
}
