//! KMS plugins, version 2: data keys that a service outside of the node seals.
//!
//! Owns one plugin's handle. The plugin is asked at the start, to open the data keys of stored records, and again and again
//! for its status; never for a record. Its thread ends with the handle, or when a reload replaces
//! it; its data keys last as long as its handle.

mod client;
mod config;
mod data_keys;
#[cfg(test)]
mod tests;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use bytes::Bytes;
use orch_raft::disk::cipher::KeyName;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use self::client::Client;
pub(super) use self::client::Failure;
pub(super) use self::config::{FileKms, PluginConfig};
use self::data_keys::DataKeys;
pub(super) use self::data_keys::{PREFIX, plugin_of};
pub(super) use self::worker::Pace;
use self::worker::{Health, Job, Worker};
use super::cipher::Cipher;

/// Waiting jobs. Starts and reloads have one each; more callers are refused.
const JOBS_MAX: usize = 4;
/// Calls that may be under way when a job comes, and its own: a status that is repeated, and a key to seal and to open, twice.
const CALLS_MAX: u32 = 8;

/// A handle on a plugin.
pub(super) struct Plugin {
    config: PluginConfig,
    // `None` once retired.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    keys: Arc<DataKeys>,
    health: Health,
    pace: Pace,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Plugin {
    /// Starts the plugin's thread, without a data key.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn start(config: PluginConfig, pace: Pace) -> std::io::Result<Plugin> {
        let (jobs, received) = mpsc::channel(JOBS_MAX);
        let keys = Arc::<DataKeys>::default();
        let health = Health::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (of_thread, keys_of_thread) = (config.clone(), Arc::clone(&keys));
        let health_of_thread = Arc::clone(&health);
        std::thread::Builder::new().name("kms".to_owned()).spawn(move || {
            runtime.block_on(async {
                let worker = Worker {
                    plugin: of_thread.name.clone(),
                    client: Client::new(of_thread),
                    opened: 0,
                    keys: keys_of_thread,
                    health: health_of_thread,
                    pace,
                };
                worker.run(received).await;
            });
        })?;
        Ok(Plugin { config, jobs: Mutex::new(Some(jobs)), keys, health, pace })
    }

    pub(super) fn config(&self) -> &PluginConfig {
        &self.config
    }

    /// Name of the data key for new records; `None` before the plugin has sealed one.
    pub(super) fn current(&self) -> Option<KeyName> {
        self.keys.current()
    }

    /// How often another data key became that for new records.
    pub(super) fn changes(&self) -> u64 {
        self.keys.changes()
    }

    /// The data key called `name`.
    pub(super) fn cipher(&self, name: &str) -> Option<Arc<Cipher>> {
        self.keys.cipher(name)
    }

    /// See [`orch_raft::disk::cipher::RecordCipher::sealed`].
    pub(super) fn sealed(&self, name: &str) -> Bytes {
        self.keys.sealed(name)
    }

    /// Whether the last look at the plugin found it healthy.
    pub(super) fn is_healthy(&self) -> bool {
        self.health.lock().is_none()
    }

    /// Ends the plugin's thread. The data keys stay usable.
    pub(super) fn retire(&self) {
        self.jobs.lock().take();
    }

    /// Opens a stored data key. Waits for a plugin that does not answer until `deadline`.
    pub(super) fn open(&self, name: &KeyName, sealed: &Bytes, deadline: Instant) -> Result<(), Failure> {
        self.retry(deadline, |done| Job::Open { name: name.clone(), sealed: sealed.clone(), done })
    }

    /// Looks at the plugin, after which [`Plugin::current`] names a key. Waits for a plugin that does not answer until
    /// `deadline`.
    pub(super) fn look(&self, deadline: Instant) -> Result<(), Failure> {
        self.retry(deadline, |done| Job::Look { done })
    }

    fn retry(
        &self,
        deadline: Instant,
        job: impl Fn(SyncSender<Result<(), Failure>>) -> Job,
    ) -> Result<(), Failure> {
        loop {
            match self.ask(&job) {
                Err(failure) if failure.is_absence && Instant::now() < deadline => {
                    tracing::info!(%failure, "waiting for a KMS plugin");
                    std::thread::sleep(self.pace.retry);
                }
                done => return done,
            }
        }
    }

    fn ask(&self, job: impl Fn(SyncSender<Result<(), Failure>>) -> Job) -> Result<(), Failure> {
        let absent = |reason: &str| client::failure(&self.config, reason.to_owned(), true);
        let (done, answer) = sync_channel(1);
        let jobs = self.jobs.lock().clone().ok_or_else(|| absent("it is not used any more"))?;
        jobs.try_send(job(done)).map_err(|_| absent("its thread is busy"))?;
        let answer = answer.recv_timeout(self.config.timeout * CALLS_MAX);
        answer.unwrap_or_else(|_| Err(absent("it does not answer in time")))
    }
}
