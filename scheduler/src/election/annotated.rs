//! The locks `endpointsleases` and `configmapsleases`: a Lease, and the same record as an annotation beside it.
//!
//! Owns the second object. The Lease decides; the annotation is written after it, for tools that only know that. A
//! failure to write it is logged and changes nothing, since a contender that gave up a lock that it holds would stop
//! all scheduling. It is read and then replaced or created, never patched: those are the rights that roles for these
//! locks grant.

use parking_lot::Mutex;

use crate::api::core::v1::{ConfigMap, Endpoints, ObjectReference};
use crate::api::meta::v1::ObjectMeta;
use crate::client::{Error, Object, Reason, chain};

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
    // The error of the last write that was told; empty after a success. A missing right fails each renewal alike.
    told: Mutex<String>,
}

impl AnnotatedLock {
    /// `lease`, and an object of the kind `beside`.
    pub fn new(lease: LeaseLock, beside: Annotated) -> Self {
        Self { lease, beside, told: Mutex::default() }
    }

    async fn write<T: Object + Annotate>(&self, text: &str) -> Result<(), Error> {
        let (client, key) = (self.lease.client(), self.lease.key());
        let name = leader_annotation(client.brand());
        match client.get::<T>(&key.namespace, &key.name).await {
            Ok(mut object) => {
                object.metadata_mut().annotations.insert(name, text.to_owned());
                client.update(&object, "").await.map(|_| ())
            }
            Err(error) if error.is(Reason::NotFound) => {
                let mut object = T::default();
                *object.metadata_mut() = ObjectMeta {
                    name: key.name.to_string(),
                    namespace: key.namespace.to_string(),
                    annotations: [(name, text.to_owned())].into(),
                    ..ObjectMeta::default()
                };
                client.create(&key.namespace, &object).await.map(|_| ())
            }
            Err(error) => Err(error),
        }
    }

    /// The error of a write that is to be told; `None` after a success, and for an error that was told last time.
    fn news(&self, outcome: Result<(), Error>) -> Option<String> {
        let text = outcome.err().map(|error| chain(&error)).unwrap_or_default();
        let mut told = self.told.lock();
        if *told == text {
            return None;
        }
        told.clone_from(&text);
        Some(text).filter(|text| !text.is_empty())
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
        if let Some(error) = self.news(outcome) {
            let lock = self.lease.key();
            tracing::warn!(%lock, beside = ?self.beside, error, "cannot write the second lock object");
        }
    }

    fn reference(&self) -> ObjectReference {
        self.lease.reference()
    }
}

/// An object that is nothing but its metadata.
trait Annotate: Default {
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
}

impl Annotate for Endpoints {
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.metadata.get_or_insert_default()
    }
}

impl Annotate for ConfigMap {
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.metadata.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ObjectKey;
    use crate::client::testing::{FakeApi, Fault};

    fn record() -> Record {
        Record { holder: "one".to_owned(), ..Record::default() }
    }

    #[tokio::test]
    async fn the_second_object_is_read_and_replaced_and_keeps_the_rest() {
        let api = FakeApi::start().await;
        api.store().put(
            "configmaps",
            serde_json::json!({ "metadata": { "name": "l", "namespace": "n" }, "data": { "x": "y" } }),
        );
        let lease = LeaseLock::new(api.client(), ObjectKey::new("n", "l"));
        AnnotatedLock::new(lease, Annotated::ConfigMap).mirror(&record()).await;
        let stored = api.store().get("configmaps", "n", "l").unwrap();
        assert_eq!(stored["data"]["x"], "y");
        let annotation = &stored["metadata"]["annotations"][leader_annotation(FakeApi::brand())];
        assert_eq!(Record::from_annotation(annotation.as_str().unwrap()).unwrap().holder, "one");
        assert_eq!((api.count("GET"), api.count("PUT"), api.count("PATCH")), (1, 1, 0));
    }

    #[tokio::test]
    async fn an_error_is_told_once() {
        let api = FakeApi::start().await;
        let lease = LeaseLock::new(api.client(), ObjectKey::new("n", "l"));
        let lock = AnnotatedLock::new(lease, Annotated::ConfigMap);
        let mut told = Vec::new();
        for code in [403, 403, 500, 0, 403] {
            if code > 0 {
                api.plant("GET", "/configmaps", 1, Fault::Status(code, 0));
            }
            told.push(lock.news(lock.write::<ConfigMap>("").await).is_some());
        }
        assert_eq!(told, [true, false, true, false, true]);
    }
}
