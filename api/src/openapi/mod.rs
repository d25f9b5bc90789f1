//! OpenAPI documents, generated from the schema and the registry.
//!
//! Owns both versions of the format: a document for each group and version (3.0) with an index over them, and one
//! document for everything (2.0). No kind is described by hand: the descriptions are the comments of the `.proto` files.
//! It knows no HTTP.
//!
//! A document is built when it is first requested, and kept compressed only, a twentieth of its text. The index needs
//! the hash of every document, so that building it builds and drops them all; each is built again when it is requested
//! itself. The number of groups and versions bounds the kept documents. The descriptions are decompressed for each
//! making and dropped with it.
//!
//! Invariant: every reference in a document leads to a definition in it.

mod binary;
mod connect;
mod definitions;
mod descriptions;
mod dialect;
mod document;
mod names;
mod operation;
mod pages;
mod parameters;
mod paths;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orch_schema::json;
use orch_schema::value::Value;

use self::descriptions::Descriptions;
use self::document::Source;
use crate::registry::Registry;

pub use pages::TokenKeys;
pub use text::Document;

/// Path of the index of version 3; its documents lie below.
pub const VERSION_3: &str = "/openapi/v3";

/// Path of the document of version 2.
pub const VERSION_2: &str = "/openapi/v2";

/// Encoding of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// JSON.
    Json,
    /// Protobuf. The index has no such form.
    Protobuf,
}

/// The documents of one registry that were requested so far.
#[derive(Debug, Default)]
pub struct Documents {
    keys: TokenKeys,
    kept: Mutex<DocumentCache>,
}

type DocumentCache = HashMap<(Form, String), Arc<Document>>;

impl Documents {
    /// The documents of a node that serves `keys`.
    pub fn new(keys: TokenKeys) -> Documents {
        Documents { keys, kept: Mutex::default() }
    }

    /// The document at `path` (`/openapi/v2`, `/openapi/v3/apis/apps/v1`); `None`: there is none. The first call for a
    /// path takes tens of milliseconds; callers keep it off threads that serve connections.
    ///
    /// # Errors
    /// Compression or encoding fails, which only a fault of this program causes.
    pub fn find(&self, registry: &Registry, path: &str, form: Form) -> io::Result<Option<Arc<Document>>> {
        let key = (form, path.to_owned());
        // Built under the lock: of several first requests, one builds the document and the others wait.
        let mut kept = self.kept();
        if let Some(known) = kept.get(&key) {
            return Ok(Some(known.clone()));
        }
        let Some(made) = make(registry, self.keys, path, form)? else { return Ok(None) };
        let made = Arc::new(made);
        kept.insert(key, made.clone());
        Ok(Some(made))
    }

    fn kept(&self) -> MutexGuard<'_, DocumentCache> {
        // Entries are complete documents, so that the map is valid after a panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make(registry: &Registry, keys: TokenKeys, path: &str, form: Form) -> io::Result<Option<Document>> {
    let section = path.strip_prefix(VERSION_3).and_then(|path| path.strip_prefix('/'));
    let is_section = |section: &str| document::section_paths(registry, keys).contains(section);
    let is_made = path == VERSION_2 || path == VERSION_3 || section.is_some_and(is_section);
    if !is_made {
        return Ok(None);
    }
    let descriptions = Descriptions::open()?;
    let source = Source { registry, descriptions: &descriptions, keys };
    match (section, form) {
        (Some(section), Form::Json) => document::version3(source, section),
        (Some(section), Form::Protobuf) => document::version3_binary(source, section),
        (None, Form::Json) if path == VERSION_2 => document::version2(source).map(Some),
        (None, Form::Protobuf) if path == VERSION_2 => document::version2_binary(source).map(Some),
        (None, Form::Json) => index(source).map(Some),
        (None, Form::Protobuf) => Ok(None),
    }
}

/// The index: the path of each document with its hash, so that clients may cache documents for ever.
fn index(source: Source<'_>) -> io::Result<Document> {
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    for section in document::section_paths(source.registry, source.keys) {
        if let Some(document) = document::version3(source, &section)? {
            let url = url(&format!("{VERSION_3}/{section}"), &document);
            paths.insert(section, json!({"serverRelativeURL": url}));
        }
    }
    text::whole(&json!({"paths": paths}).to_string())
}

/// The URL of this version of `document`, whose content never changes.
pub fn url(path: &str, document: &Document) -> String {
    format!("{path}?hash={}", document.hash)
}
