//! The thread that talks to one KMS plugin.
//!
//! Owns the order of calls: one at a time. It opens stored data keys when asked to, looks at the plugin's status again and
//! again, and has a new data key sealed, and opened again, when the id of the plugin's key changes. A failing plugin changes nothing but the
//! health: records go on being written and read with the keys in memory, because a log that cannot be written would end
//! the member.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use bytes::Bytes;
use orch_proto::kms::v2::{DecryptRequest, EncryptResponse};
use orch_raft::disk::cipher::KeyName;
use parking_lot::Mutex;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout_at};

use super::client::{Client, Failure};
use super::data_keys::{DataKeys, FreshKey, opening};

/// Times of a plugin's life.
#[derive(Clone, Copy, Debug)]
pub(in crate::encryption) struct Pace {
    /// Between two looks at a healthy plugin: within this time a new key of the plugin is taken up.
    pub(in crate::encryption) healthy: Duration,
    /// Between two looks at a failing one.
    pub(in crate::encryption) failing: Duration,
    /// How long a start waits for a plugin that does not answer.
    pub(in crate::encryption) start: Duration,
    /// Between two attempts at a start.
    pub(in crate::encryption) retry: Duration,
}

impl Default for Pace {
    /// The times after which the reference's health check asks a plugin again, and half a minute for a plugin that starts
    /// together with the node.
    fn default() -> Pace {
        Pace {
            healthy: Duration::from_secs(20),
            failing: Duration::from_secs(3),
            start: Duration::from_secs(30),
            retry: Duration::from_millis(500),
        }
    }
}

/// A request to the thread.
pub(super) enum Job {
    /// Open a stored key.
    Open { name: KeyName, sealed: Bytes, done: SyncSender<Result<(), Failure>> },
    /// Look at the plugin, and take up its key.
    Look { done: SyncSender<Result<(), Failure>> },
}

/// The failure of the last look.
pub(super) type Health = Arc<Mutex<Option<Failure>>>;

/// State of the thread.
pub(super) struct Worker {
    pub(super) plugin: String,
    pub(super) client: Client,
    pub(super) keys: Arc<DataKeys>,
    pub(super) health: Health,
    pub(super) pace: Pace,
    /// Stored keys that were opened.
    pub(super) opened: usize,
}

impl Worker {
    /// Works until every sender of `jobs` is gone. It looks by itself after the first job that looks: before, a stored key
    /// that could be current may not be open yet.
    pub(super) async fn run(mut self, mut jobs: Receiver<Job>) {
        let mut next = None;
        loop {
            let job = match next {
                Some(at) => timeout_at(at, jobs.recv()).await,
                None => Ok(jobs.recv().await),
            };
            match job {
                Ok(None) => return,
                // A caller whose time is up has dropped its receiver.
                Ok(Some(Job::Open { name, sealed, done })) => {
                    drop(done.send(self.open(&name, &sealed).await))
                }
                Ok(Some(Job::Look { done })) => {
                    let looked = self.look().await;
                    next = Some(self.next_look());
                    drop(done.send(looked));
                }
                Err(_) => {
                    // The health holds a failure.
                    let _ = self.look().await;
                    next = Some(self.next_look());
                }
            }
        }
    }

    fn next_look(&self) -> Instant {
        let is_healthy = self.health.lock().is_none();
        Instant::now() + if is_healthy { self.pace.healthy } else { self.pace.failing }
    }

    async fn open(&mut self, name: &KeyName, sealed: &Bytes) -> Result<(), Failure> {
        let request = opening(sealed).map_err(|reason| self.client.failure(reason))?;
        let secret = self.client.open(request).await?;
        self.keys.add_opened(name, sealed, &secret).map_err(|reason| self.client.failure(reason))?;
        self.opened += 1;
        Ok(())
    }

    /// Looks at the plugin and notes its health, with a line in the log when that changes.
    async fn look(&mut self) -> Result<(), Failure> {
        let looked = self.take_up_key().await;
        let mut health = self.health.lock();
        match (&looked, &*health) {
            (Err(failure), None) => {
                tracing::warn!(plugin = %self.plugin, %failure, "a KMS plugin fails; the data keys in memory stay in use");
            }
            (Ok(()), Some(_)) => tracing::info!(plugin = %self.plugin, "the KMS plugin is healthy again"),
            _ => {}
        }
        *health = looked.clone().err();
        looked
    }

    /// Makes a data key current that is sealed under the plugin's key.
    async fn take_up_key(&mut self) -> Result<(), Failure> {
        let key_id = self.client.status().await?;
        if self.keys.current_id().as_deref() == Some(key_id.as_str()) || self.keys.select(&key_id) {
            return Ok(());
        }
        let fault = |reason: &str| self.client.failure(reason.to_owned());
        if self.keys.is_full(self.opened) {
            return Err(fault("it changes its key too often; restart the node to follow it again"));
        }
        let fresh =
            FreshKey::make(&self.plugin).ok_or_else(|| fault("the system gives no random numbers"))?;
        let answer = self.client.seal(fresh.secret()).await?;
        if answer.key_id != key_id {
            return Err(self.client.failure("it seals with another key than its status names".to_owned()));
        }
        self.check_opens(&answer, fresh.secret()).await?;
        self.keys.add(&fresh, answer).map_err(|reason| self.client.failure(reason))?;
        tracing::info!(plugin = %self.plugin, "new records get a new data key");
        Ok(())
    }

    /// Lets the plugin open what it has just sealed. Records under a key that nobody can open again would be lost with the
    /// process, and be noticed at the next start only.
    async fn check_opens(&mut self, sealed: &EncryptResponse, secret: &[u8]) -> Result<(), Failure> {
        let EncryptResponse { ciphertext, key_id, annotations } = sealed.clone();
        let opened =
            self.client.open(DecryptRequest { ciphertext, uid: String::new(), key_id, annotations }).await?;
        if opened != secret {
            return Err(self.client.failure("it does not open the data key that it has sealed".to_owned()));
        }
        Ok(())
    }
}
