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

use crate::openapi::{Document, Form, NodePages, TokenKeys, document};
use crate::registry::Registry;
use crate::registry::discovery::Plain;

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

impl Served {
    /// The OpenAPI document at `path`; see [`document`].
    pub(super) fn openapi(&self, path: &str, form: Form) -> io::Result<Option<Arc<Document>>> {
        document(&self.registry, &self.node.pages, path, form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_tells_where_the_server_is() {
        let core = &NodeDocuments::new(Some("10.0.0.1:6443"), TokenKeys::Absent).versions.value;
        let expected = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}]);
        assert_eq!(core["serverAddressByClientCIDRs"], expected);
        assert_eq!((&core["versions"], &core["apiVersion"]), (&json!(["v1"]), &Value::Null));
    }
}
