//! The registry as it was when a request arrived, and the documents that describe the node.
//!
//! Owns the documents that describe the node and no resource: the versions of the core API with the server's address, and
//! OpenAPI of the node's own pages.
//!
//! Invariant: all documents of one request describe the same registry.

use std::io;
use std::sync::Arc;

use orch_schema::json;
use orch_schema::value::Value;
use tokio::runtime::Handle as Runtime;

use crate::error::ApiError;
use crate::openapi::{Document, Form, NodePages, TokenKeys, document};
use crate::registry::discovery::Plain;
use crate::registry::{Making, Registry, Resource};

/// The registry and the node's documents that one request sees.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) registry: Arc<Registry>,
    pub(super) node: Arc<NodeDocuments>,
}

/// The documents that describe a node.
pub(super) struct NodeDocuments {
    /// The document at `/api`.
    pub(super) versions: Plain,
    pages: NodePages,
}

impl NodeDocuments {
    /// Those of a node that is served at `address` (`HOST:PORT`), if known, beside `keys`.
    pub(super) fn new(address: Option<&str>, keys: TokenKeys) -> Arc<Self> {
        let addresses = address.map(|address| json!({"clientCIDR": "0.0.0.0/0", "serverAddress": address}));
        let addresses: Vec<Value> = addresses.into_iter().collect();
        let core = json!({"versions": ["v1"], "serverAddressByClientCIDRs": addresses});
        Arc::new(NodeDocuments {
            versions: Plain::of_core("APIVersions", &core),
            pages: NodePages::new(keys),
        })
    }
}

/// Makes the tables of `resource` where that has not been done: those of a large definition take tens of milliseconds.
///
/// # Errors
/// `Internal`: making them has panicked, or the node stops.
pub(super) async fn make_tables(resource: &Arc<Resource>) -> Result<(), ApiError> {
    for tables in [&resource.schema, resource.stored_schema()] {
        let Some(making) = tables.to_make() else { continue };
        let own = tables.clone();
        make_once(making, move || drop(own.schema().clone())).await;
        if !tables.are_made() {
            return Err(ApiError::Internal(format!("tables of {resource:?} cannot be made")));
        }
    }
    Ok(())
}

/// Has `work` done on a thread for blocking work by the first that asks, and waits until that is over. All others wait
/// without a thread. Where the first one goes away, the work goes on for them.
pub(super) async fn make_once(making: &Making, work: impl FnOnce() + Send + 'static) {
    if let Some(maker) = making.claim() {
        let work = move || {
            let _maker = maker;
            work();
        };
        match Runtime::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(work)),
            // A simulation has one thread.
            Err(_) => work(),
        }
    }
    making.wait().await;
}

impl Served {
    /// The OpenAPI document at `path`; see [`document`].
    pub(super) fn openapi(&self, path: &str, form: Form) -> io::Result<Option<Arc<Document>>> {
        document(&self.registry, &self.node.pages, path, form)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use orch_proto::brand::ORCH;
    use orch_schema::{ResourceType, Schema};

    use super::*;
    use crate::registry::{Kind, Tables};

    /// A resource whose tables `make` makes.
    fn declared(make: impl FnOnce() -> Arc<Schema> + Send + 'static) -> Arc<Resource> {
        let registry = Registry::builtin(&ORCH);
        let maps = registry.find("", "v1", "configmaps").unwrap().definition.clone();
        let definition = ResourceType { version: "v2".to_owned(), ..(*maps).clone() };
        let kind = Kind::built_in(&registry.schema, registry.brand, &definition).unwrap();
        let kind = Kind { schema: Tables::later(make), storage: "others".into(), ..kind };
        registry.with(vec![kind]).unwrap().find("", "v2", "configmaps").unwrap().clone()
    }

    #[test]
    fn requests_that_wait_for_tables_take_one_thread_together() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(2).build().unwrap();
        let (release, released) = mpsc::channel::<()>();
        runtime.block_on(async {
            let resource = declared(move || {
                released.recv().unwrap();
                Registry::builtin(&ORCH).schema.clone()
            });
            let request = || {
                let own = resource.clone();
                tokio::spawn(async move { make_tables(&own).await })
            };
            let first = request();
            let waiting: Vec<_> = (0..16).map(|_| request()).collect();
            tokio::task::yield_now().await;
            // The second thread is free.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert!(!resource.schema.are_made());
            first.abort();
            release.send(()).unwrap();
            for waited in waiting {
                waited.await.unwrap().unwrap();
            }
        });
    }

    #[tokio::test]
    async fn tables_whose_making_panics_are_an_internal_error_for_all() {
        let resource = declared(|| panic!("the test wants it"));
        for _ in 0..2 {
            assert!(matches!(make_tables(&resource).await, Err(ApiError::Internal(_))));
        }
    }

    #[test]
    fn the_root_tells_where_the_server_is() {
        let core = &NodeDocuments::new(Some("10.0.0.1:6443"), TokenKeys::Absent).versions.value;
        let expected = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}]);
        assert_eq!(core["serverAddressByClientCIDRs"], expected);
        assert_eq!((&core["versions"], &core["apiVersion"]), (&json!(["v1"]), &Value::Null));
    }
}
