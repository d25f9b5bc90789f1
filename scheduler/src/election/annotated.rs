//! The locks `endpointsleases` and `configmapsleases`: a Lease, and the same record as an annotation beside it.
//!
//! Owns the second object. The Lease decides; the annotation is written after it, for tools that only know that. A
//! failure to write it is logged and changes nothing, since a contender that gave up a lock that it holds would stop
//! all scheduling.

use serde_json::json;

use crate::api::core::v1::{ConfigMap, Endpoints, ObjectReference};
use crate::api::meta::v1::ObjectMeta;
use crate::client::{Error, Object, PatchType, Reason};

use super::lease::{LeaseLock, Lock, LockError};
use super::machine::Version;
use super::record::{Record, leader_annotation};

/// The kind of the object with the annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Annotated {
    /// `endpointsleases`.
    Endpoints,
    /// `configmapsleases`.
    ConfigMap,
}

/// A Lease with an annotated object of the same name beside it.
pub struct AnnotatedLock {
    lease: LeaseLock,
    beside: Annotated,
}

impl AnnotatedLock {
    /// `lease`, and an object of the kind `beside`.
    pub fn new(lease: LeaseLock, beside: Annotated) -> Self {
        Self { lease, beside }
    }

    async fn write<T: Object + Annotate>(&self, text: &str) -> Result<(), Error> {
        let (client, key) = (self.lease.client(), self.lease.key());
        let name = leader_annotation(client.brand());
        let patch = json!({ "metadata": { "annotations": { &name: text } } });
        let patched = client.patch::<T>(&key.namespace, &key.name, "", PatchType::Merge, &patch).await;
        match patched {
            Err(error) if error.is(Reason::NotFound) => {
                let metadata = ObjectMeta {
                    name: key.name.to_string(),
                    namespace: key.namespace.to_string(),
                    annotations: [(name, text.to_owned())].into(),
                    ..ObjectMeta::default()
                };
                client.create(&key.namespace, &T::with(metadata)).await.map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }
}

impl Lock for AnnotatedLock {
    async fn read(&self) -> Result<Option<(Record, Version)>, LockError> {
        self.lease.read().await
    }

    async fn create(&self, record: &Record) -> Result<Version, LockError> {
        self.lease.create(record).await
    }

    async fn update(&self, version: &Version, record: &Record) -> Result<Version, LockError> {
        self.lease.update(version, record).await
    }

    async fn mirror(&self, record: &Record) {
        let text = record.to_annotation();
        let outcome = match self.beside {
            Annotated::Endpoints => self.write::<Endpoints>(&text).await,
            Annotated::ConfigMap => self.write::<ConfigMap>(&text).await,
        };
        if let Err(error) = outcome {
            let lock = self.lease.key();
            tracing::warn!(%lock, beside = ?self.beside, %error, "cannot write the second lock object");
        }
    }

    fn reference(&self) -> ObjectReference {
        self.lease.reference()
    }
}

/// An object that is nothing but its metadata.
trait Annotate {
    fn with(metadata: ObjectMeta) -> Self;
}

impl Annotate for Endpoints {
    fn with(metadata: ObjectMeta) -> Self {
        Self { metadata: Some(metadata), ..Self::default() }
    }
}

impl Annotate for ConfigMap {
    fn with(metadata: ObjectMeta) -> Self {
        Self { metadata: Some(metadata), ..Self::default() }
    }
}
