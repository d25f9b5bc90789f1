//! OpenAPI: the interface described for clients, generated from the tables and the registry.
//!
//! Owns both versions of the format: a document for each group and version (3.0) with an index over them, and one
//! document for everything (2.0). No kind is described by hand. It knows no HTTP.
//!
//! Nothing is made before it is asked for. What was asked for is kept compressed, a twentieth of its text, and only
//! that: the index needs the hash of every document, so they are all made once for it and dropped, and each one is
//! made again when a client comes for it. What is kept is bounded by the number of groups and versions.
//!
//! Invariant: every reference in a document leads to a definition in it.

mod binary;
mod definitions;
mod dialect;
mod document;
mod names;
mod operation;
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

use crate::registry::Registry;

pub use text::Document;

/// Where documents of version 3 lie, and the index over them.
pub const VERSION_3: &str = "/openapi/v3";

/// Where the document of version 2 lies.
pub const VERSION_2: &str = "/openapi/v2";

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// JSON.
    Json,
    /// Protobuf, which the index has not.
    Protobuf,
}

/// The documents of one registry, as far as they were asked for. Another registry has another set.
#[derive(Debug, Default)]
pub struct Documents(Mutex<Kept>);

type Kept = HashMap<(Form, String), Arc<Document>>;

impl Documents {
    /// The document behind `path` (`/openapi/v2`, `/openapi/v3/apis/apps/v1`), or `None` where there is none. The
    /// first call for a path takes tens of milliseconds; callers keep it off threads that serve others.
    ///
    /// # Errors
    /// Where compression fails, which only a fault of this program makes it.
    pub fn find(&self, registry: &Registry, path: &str, form: Form) -> io::Result<Option<Arc<Document>>> {
        let key = (form, path.to_owned());
        // Made under the lock: of several who ask first, one does the work and the others wait for it.
        let mut kept = self.kept();
        if let Some(known) = kept.get(&key) {
            return Ok(Some(known.clone()));
        }
        let Some(made) = make(registry, path, form)? else { return Ok(None) };
        let made = Arc::new(made);
        kept.insert(key, made.clone());
        Ok(Some(made))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Whole documents are put in at once, so what a panic left behind is still right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make(registry: &Registry, path: &str, form: Form) -> io::Result<Option<Document>> {
    match (path, form) {
        (VERSION_2, Form::Json) => return document::version2(registry).map(Some),
        (VERSION_2, Form::Protobuf) => return document::version2_binary(registry).map(Some),
        (VERSION_3, Form::Json) => return index(registry).map(Some),
        (VERSION_3, Form::Protobuf) => return Ok(None),
        _ => {}
    }
    let Some(section) = path.strip_prefix(VERSION_3).and_then(|path| path.strip_prefix('/')) else {
        return Ok(None);
    };
    match form {
        Form::Json => document::version3(registry, section),
        Form::Protobuf => document::version3_binary(registry, section),
    }
}

/// Which documents there are, each with its hash, so that clients may keep them for ever.
fn index(registry: &Registry) -> io::Result<Document> {
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    for section in document::section_paths(registry) {
        if let Some(document) = document::version3(registry, &section)? {
            let url = url(&format!("{VERSION_3}/{section}"), &document);
            paths.insert(section, json!({"serverRelativeURL": url}));
        }
    }
    text::whole(&json!({"paths": paths}).to_string())
}

/// The address under which `document` never changes.
pub fn url(path: &str, document: &Document) -> String {
    format!("{path}?hash={}", document.hash)
}
