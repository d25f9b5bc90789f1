//! The stored lock: a Lease.
//!
//! Owns how a record becomes a Lease and how the server's refusals become [`LockError`]. A write is conditional on the
//! Lease's version, so that of two contenders one is first.

use std::future::Future;

use parking_lot::Mutex;

use crate::api::coordination::v1::{Lease, LeaseSpec};
use crate::api::core::v1::ObjectReference;
use crate::api::meta::v1::ObjectMeta;
use crate::client::{Client, Error, Object, ObjectKey, Reason};

use super::machine::Version;
use super::record::Record;

/// The failure of a request for the lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another contender was first.
    #[error("another contender wrote the lock first")]
    Conflict,
    /// The server could not be asked, or refused.
    #[error("cannot use the lock")]
    Client(#[from] Error),
}

/// A stored lock.
pub trait Lock: Send + Sync {
    /// Reads it; `None` if it is not stored.
    fn read(&self) -> impl Future<Output = Result<Option<(Record, Version)>, LockError>> + Send;

    /// Creates it.
    fn create(&self, record: &Record) -> impl Future<Output = Result<Version, LockError>> + Send;

    /// Replaces its record if it still has `version`.
    fn update(
        &self,
        version: &Version,
        record: &Record,
    ) -> impl Future<Output = Result<Version, LockError>> + Send;

    /// Writes `record`, which is stored now, where else it is to stand. Failures change nothing.
    fn mirror(&self, record: &Record) -> impl Future<Output = ()> + Send;

    /// The object that events are about.
    fn reference(&self) -> ObjectReference;
}

/// A lock that is a Lease.
pub struct LeaseLock {
    client: Client,
    key: ObjectKey,
    // The Lease as it was last read or written. Labels and fields of others stay when the record is replaced.
    last: Mutex<Lease>,
}

impl LeaseLock {
    /// The Lease called `key`.
    pub fn new(client: Client, key: ObjectKey) -> Self {
        Self { client, key, last: Mutex::default() }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Keeps the Lease, and returns its record and version.
    fn keep(&self, lease: Lease) -> (Record, Version) {
        let record = Record::from_lease(lease.spec.as_ref().unwrap_or(&LeaseSpec::default()));
        let version = Version(lease.resource_version().to_owned());
        *self.last.lock() = lease;
        (record, version)
    }
}

impl Lock for LeaseLock {
    async fn read(&self) -> Result<Option<(Record, Version)>, LockError> {
        match self.client.get::<Lease>(&self.key.namespace, &self.key.name).await {
            Ok(lease) => Ok(Some(self.keep(lease))),
            Err(error) if error.is(Reason::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, record: &Record) -> Result<Version, LockError> {
        let mut spec = LeaseSpec::default();
        record.write_to_lease(&mut spec);
        let metadata = ObjectMeta {
            name: self.key.name.to_string(),
            namespace: self.key.namespace.to_string(),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata: Some(metadata), spec: Some(spec) };
        // Unlike in an update, a missing object is no other contender's doing: the namespace does not exist.
        let created = self.client.create(&self.key.namespace, &lease).await;
        let created = created.map_err(|error| match error.is(Reason::NotFound) {
            true => LockError::Client(error),
            false => conflict(error),
        })?;
        Ok(self.keep(created.object()?).1)
    }

    async fn update(&self, version: &Version, record: &Record) -> Result<Version, LockError> {
        let mut lease = self.last.lock().clone();
        let metadata = lease.metadata.get_or_insert_default();
        metadata.name = self.key.name.to_string();
        metadata.namespace = self.key.namespace.to_string();
        metadata.resource_version.clone_from(&version.0);
        record.write_to_lease(lease.spec.get_or_insert_default());
        let updated = self.client.update(&lease, "").await.map_err(conflict)?;
        Ok(self.keep(updated.object()?).1)
    }

    async fn mirror(&self, _record: &Record) {}

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            kind: Lease::KIND.kind.to_owned(),
            namespace: self.key.namespace.to_string(),
            name: self.key.name.to_string(),
            api_version: self.client.api_version(&Lease::KIND),
            uid: self.last.lock().metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default(),
            ..ObjectReference::default()
        }
    }
}

fn conflict(error: Error) -> LockError {
    if error.is(Reason::Conflict) || error.is(Reason::AlreadyExists) || error.is(Reason::NotFound) {
        return LockError::Conflict;
    }
    LockError::Client(error)
}
