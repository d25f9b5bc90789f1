//! A registry with the documents that describe it.
//!
//! Invariant: all documents describe the same registry. A request keeps the one that it began with.

use std::io;
use std::sync::Arc;

use super::discovery;
use crate::openapi::{self, Document, Form, TokenKeys};
use crate::registry::Registry;

/// A registry, with its discovery and OpenAPI documents.
pub(super) struct Served {
    pub(super) registry: Arc<Registry>,
    pub(super) discovery: discovery::Documents,
    openapi: openapi::Documents,
}

impl Served {
    /// The documents of `registry`, served at `address` (`HOST:PORT`), if known, beside `keys`.
    pub(super) fn new(registry: Arc<Registry>, address: Option<&str>, keys: TokenKeys) -> Arc<Self> {
        let discovery = discovery::Documents::of(&registry, address);
        Arc::new(Served { registry, discovery, openapi: openapi::Documents::new(keys) })
    }

    /// The OpenAPI document at `path`; see [`openapi::Documents::find`].
    pub(super) fn openapi(&self, path: &str, form: Form) -> io::Result<Option<Arc<Document>>> {
        self.openapi.find(&self.registry, path, form)
    }
}
