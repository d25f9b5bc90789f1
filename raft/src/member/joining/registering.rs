//! Registration: a start of this member becomes known in the cluster's state.
//!
//! Owns the writes that follow enrolment: the cluster's identity, by the first leader; the same on this disk; the directory
//! and the number of this start in the state, after the comparison of the log with the leader's. Each is proposed until the
//! applied state shows it. Whether the member takes part is decided by `enrolment`.
//!
//! Invariant: a start that is refused is not registered.

use std::time::Duration;

use orch_proto::store as wire;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::identity::{ClusterIdentity, Registration, first_transaction, registered, registration};
use crate::member::options::StartError;
use crate::store::ProposeError;
use crate::transaction::Transaction;
use crate::transport::Transport;

/// Time between two attempts to register this member in the cluster's state.
const WRITE_PAUSE: Duration = Duration::from_millis(200);

/// Attempts without a leader, 200 ms apart, before a warning: ten seconds, longer than several elections.
const UNLED_ROUNDS: u64 = 50;

/// Attempts between two such warnings: a minute.
const UNLED_ROUNDS_AGAIN: u64 = 300;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Writes the cluster's identity while this member leads and there is none, saves it on this disk, and registers this
    /// start in the state.
    pub(super) async fn make_known(&self) {
        let now_ms = || (self.options.clock)();
        let mut rounds = 0u64;
        let cluster = loop {
            self.log_unled(&mut rounds);
            if let Some(cluster) = ClusterIdentity::read(&self.applied.state()) {
                break cluster;
            }
            if self.leader().is_some_and(|leader| leader.local) {
                let founding = self.identity().founding.unwrap_or_default();
                self.write(first_transaction(&self.options.seed, &founding, now_ms())).await;
            }
            R::sleep(WRITE_PAUSE).await;
        };
        if !self.remember(&cluster).await {
            return;
        }
        let identity = self.identity();
        let own = Registration {
            directory: identity.directory,
            starts: identity.starts,
            incarnation: self.options.incarnation,
        };
        let name = self.options.node.name.to_string();
        loop {
            self.log_unled(&mut rounds);
            let state = self.applied.state();
            match registered(&state, self.options.id()) {
                Some(known) if known == own => return,
                // Not before the comparison with the leader: registering a start that is then refused would make the sound
                // disk look like an older copy.
                _ if !self.is_leader_compared() => {}
                Some(known) if !known.directory.is_empty() && known.directory != own.directory => {
                    return self.fatal.report(StartError::LostData { name });
                }
                Some(known) if known.starts > self.returning.starts_counted() => {
                    let reason = format!("start {} of it is registered already", known.starts);
                    return self.refuse_older_copy(reason).await;
                }
                _ if !self.announce_start().await => return,
                _ => self.write(registration(&state, self.options.id(), &own, now_ms())).await,
            }
            R::sleep(WRITE_PAUSE).await;
        }
    }

    /// Counts the attempts without a known leader in `rounds`, and logs a warning when there were many.
    fn log_unled(&self, rounds: &mut u64) {
        *rounds = if self.leader().is_some() { 0 } else { *rounds + 1 };
        if *rounds == UNLED_ROUNDS || (*rounds > 0 && rounds.is_multiple_of(UNLED_ROUNDS_AGAIN)) {
            tracing::warn!(
                address = %self.options.node.address,
                "no leader reaches this member: was it added to the cluster, do the others reach it at this address, and is a \
                 majority of them running?"
            );
        }
    }

    /// Notes on the disk that this start may be registered from now on; `false` when the disk fails.
    async fn announce_start(&self) -> bool {
        let is_noted = !self.identity().unannounced;
        is_noted || self.change_identity(|identity| identity.unannounced = false).await.is_ok()
    }

    /// Whether this start of the member is registered in the cluster's state.
    pub(crate) fn is_registered(&self) -> bool {
        let known = registered(&self.applied.state(), self.options.id());
        known.is_some_and(|known| {
            known.starts == self.identity().starts && known.incarnation == self.options.incarnation
        })
    }

    /// Proposes a transaction once. The caller checks that it was applied, and tries again.
    async fn write(&self, transaction: Transaction) {
        match self.propose(transaction).await {
            Ok(_) => {}
            Err(
                error @ (ProposeError::NotProposed { .. }
                | ProposeError::NoSpace { .. }
                | ProposeError::Unknown { .. }),
            ) => {
                tracing::debug!(%error, "writing an identity");
            }
            Err(error @ (ProposeError::TooLarge { .. } | ProposeError::Refused { .. })) => {
                self.fatal.report(error);
            }
        }
    }

    /// Saves the cluster's name and brand on the disk; `false` when the disk is another cluster's, or fails.
    async fn remember(&self, cluster: &ClusterIdentity) -> bool {
        let identity = self.identity();
        if *identity.cluster == *cluster.cluster && !identity.brand.is_empty() {
            return true;
        }
        if !identity.cluster.is_empty() && *identity.cluster != *cluster.cluster {
            let (found, expected) = (identity.cluster, cluster.cluster.to_string());
            self.fatal.report(StartError::WrongCluster { found, expected });
            return false;
        }
        let write = |identity: &mut wire::Identity| {
            identity.cluster = cluster.cluster.to_string();
            identity.brand = cluster.brand.to_string();
        };
        self.change_identity(write).await.is_ok()
    }
}
