//! A registry as HTTP shows it: what is served, with the documents that describe it.
//!
//! Owns that all of them speak of the same registry. A request takes one and ends with it.

use std::io;
use std::sync::Arc;

use super::discovery;
use crate::openapi::{self, Document, Form};
use crate::registry::Registry;

/// A registry and its documents.
pub(super) struct Served {
    pub(super) registry: Arc<Registry>,
    pub(super) discovery: discovery::Documents,
    openapi: openapi::Documents,
}

impl Served {
    /// The documents of `registry`, which is served at `address` (`HOST:PORT`), if that is known.
    pub(super) fn new(registry: Arc<Registry>, address: Option<&str>) -> Arc<Self> {
        let discovery = discovery::Documents::of(&registry, address);
        Arc::new(Served { registry, discovery, openapi: openapi::Documents::default() })
    }

    /// The OpenAPI document behind `path`; see [`openapi::Documents::find`].
    pub(super) fn openapi(&self, path: &str, form: Form) -> io::Result<Option<Arc<Document>>> {
        self.openapi.find(&self.registry, path, form)
    }
}
