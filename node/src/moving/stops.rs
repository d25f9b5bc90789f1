//! What ends the following of a source.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals to this process. From the first call on, they end it no more.
pub(super) enum Stops {
    Signals(Signal, Signal),
    #[cfg(test)]
    Asked(tokio::sync::mpsc::Receiver<()>),
}

impl Stops {
    /// SIGINT and SIGTERM.
    ///
    /// # Errors
    /// The system refuses the handlers.
    pub(super) fn signals() -> std::io::Result<Stops> {
        Ok(Stops::Signals(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Completes with the next of them.
    pub(super) async fn next(&mut self) {
        match self {
            Stops::Signals(interrupt, terminate) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
            #[cfg(test)]
            Stops::Asked(asked) => {
                if asked.recv().await.is_none() {
                    std::future::pending().await
                }
            }
        }
    }
}
