//! OpenAPI documents of aggregated servers that are kept: the parts of their documents of version 2, and what is made of them.
//!
//! Owns which documents are kept, in which bounds, and the document of version 2 over all servers, which is made when somebody asks
//! for it, and again when one of them has changed. A server that fails keeps its last document, and nobody waits for one: the loop
//! `controllers::api_services::described` asks.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use orch_proto::Brand;
use orch_schema::value::Value;
use parking_lot::Mutex;

use crate::document::{Document, whole};
use crate::openapi::{Form, foreign};

/// Bytes of all documents, compressed: a hundred times those of usual servers. Documents beyond are not kept.
const BYTES_MAX: usize = 16 << 20;

/// Bytes of the name by which a server knows a version of its document.
const ETAG_BYTES_MAX: usize = 256;

/// A document that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// By which the server knows it; empty where it names none.
    etag: String,
    /// The part about the group and version.
    part: Arc<Document>,
    /// The document of version 3 made of it, as JSON and as Protobuf, where the server has none of its own.
    version3: Option<(Arc<Document>, Option<Arc<Document>>)>,
}

/// The documents of a node.
#[derive(Debug, Default)]
pub(crate) struct OpenApi(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<Arc<str>, Kept>,
    bytes: usize,
    /// The documents that were merged last, JSON and Protobuf, each with the hashes of what it was made of.
    merged: [Option<(Vec<String>, Arc<Document>)>; 2],
    /// Held while a document is merged: the next one that asks finds it.
    merging: Arc<Mutex<()>>,
}

impl Kept {
    /// The kept parts of the document `text` of version 2, which a server calls `etag`, about the group and version at `path`; `None`: it
    /// has nothing about them. `makes_version3`: the server has no document of version 3. Takes some milliseconds for each
    /// megabyte.
    pub(crate) fn of(
        (text, etag): (&[u8], &str),
        path: &str,
        makes_version3: bool,
        brand: &'static Brand,
    ) -> Option<Kept> {
        let document: Value = serde_json::from_slice(text).ok()?;
        let part = foreign::part(&document, path)?;
        drop(document);
        let version3 = match makes_version3 {
            true => {
                let (json, binary) = foreign::version3_forms(&part, path, brand).ok()?;
                Some((Arc::new(json), binary.map(Arc::new)))
            }
            false => None,
        };
        let part = Arc::new(whole(&part.to_string()).ok()?);
        let etag = if etag.len() <= ETAG_BYTES_MAX { etag.to_owned() } else { String::new() };
        Some(Kept { etag, part, version3 })
    }

    fn bytes(&self) -> usize {
        let made = self.version3.iter().map(|(json, binary)| {
            json.compressed.len() + binary.as_ref().map_or(0, |binary| binary.compressed.len())
        });
        self.part.compressed.len() + made.sum::<usize>()
    }
}

impl OpenApi {
    /// Keeps the document of the APIService `name`; `None`: it has none.
    pub(crate) fn set(&self, name: &Arc<str>, kept: Option<Kept>) {
        let mut inner = self.0.lock();
        if let Some(old) = inner.known.remove(name) {
            inner.bytes -= old.bytes();
        }
        let Some(kept) = kept else { return };
        let bytes = kept.bytes();
        if inner.bytes + bytes <= BYTES_MAX {
            inner.bytes += bytes;
            inner.known.insert(name.clone(), kept);
        } else {
            tracing::debug!(
                name = &**name,
                "there is no room for an OpenAPI document of an aggregated server"
            );
        }
    }

    /// The name by which the server of the APIService `name` knows the document that is kept, and whether that of version 3 was made.
    pub(crate) fn etag(&self, name: &str) -> Option<(String, bool)> {
        let inner = self.0.lock();
        let kept = inner.known.get(name).filter(|kept| !kept.etag.is_empty())?;
        Some((kept.etag.clone(), kept.version3.is_some()))
    }

    /// The document of version 3 that was made for the APIService `name`; without a Protobuf form where the document has none.
    pub(crate) fn version3(&self, name: &str, form: Form) -> Option<Arc<Document>> {
        let inner = self.0.lock();
        let (json, binary) = inner.known.get(name)?.version3.as_ref()?;
        match form {
            Form::Json => Some(json.clone()),
            Form::Protobuf => binary.clone(),
        }
    }

    /// Whether there is something to be merged of the APIServices `names`.
    pub(crate) fn has_any<'n>(&self, mut names: impl Iterator<Item = &'n Arc<str>>) -> bool {
        let inner = self.0.lock();
        // once: each is looked up by hash.
        !inner.known.is_empty() && names.any(|name| inner.known.contains_key(name))
    }

    /// The document of version 2 over `own`, this server's in JSON, and those of the APIServices `names`, in the form of `asked`, which is
    /// this server's document in that form. Takes tens of milliseconds where something has changed.
    ///
    /// # Errors
    /// A document cannot be read or compressed, which only a fault of this program causes.
    pub(crate) fn merged(
        &self,
        (own, asked, form): (&Document, &Document, Form),
        names: &[Arc<str>],
        brand: &'static Brand,
    ) -> io::Result<Arc<Document>> {
        let merging = self.0.lock().merging.clone();
        let _merging = merging.lock();
        let parts: Vec<Arc<Document>> = {
            let inner = self.0.lock();
            names.iter().filter_map(|name| Some(inner.known.get(name)?.part.clone())).collect()
        };
        let of = parts.iter().map(|part| part.hash.clone());
        let of: Vec<String> = std::iter::once(own.hash.clone()).chain(of).collect();
        let place = match form {
            Form::Json => 0,
            Form::Protobuf => 1,
        };
        if let Some((known, document)) = &self.0.lock().merged[place]
            && *known == of
        {
            return Ok(document.clone());
        }
        let read = |part: &Arc<Document>| -> io::Result<Value> { Ok(serde_json::from_slice(&part.text()?)?) };
        let parts: Vec<Value> = parts.iter().map(read).collect::<io::Result<_>>()?;
        let made = Arc::new(match form {
            Form::Json => foreign::merged(own, &parts)?,
            Form::Protobuf => foreign::merged_binary(own, asked, &parts, brand)?,
        });
        self.0.lock().merged[place] = Some((of, made.clone()));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use orch_schema::json;

    use super::*;

    fn text(kind: &str) -> String {
        let answer = json!({"200": {"description": kind, "schema": {"$ref": "#/definitions/Thing"}}});
        let paths = json!({"/apis/a/v1/things": {"get": {"responses": answer}}});
        json!({"swagger": "2.0", "paths": paths, "definitions": {"Thing": {"description": kind}}}).to_string()
    }

    #[test]
    fn documents_are_merged_once_until_one_changes() {
        let (kept, name) = (OpenApi::default(), Arc::<str>::from("v1.a"));
        let own = whole(&json!({"paths": {}, "definitions": {"Thing": {}}}).to_string()).unwrap();
        let merged = || kept.merged((&own, &own, Form::Json), std::slice::from_ref(&name), &ORCH).unwrap();
        assert!(!kept.has_any(std::iter::once(&name)));
        kept.set(&name, Kept::of((text("one").as_bytes(), "\"1\""), "/apis/a/v1", true, &ORCH));
        assert!(kept.has_any(std::iter::once(&name)));
        assert_eq!(kept.etag("v1.a"), Some(("\"1\"".to_owned(), true)));
        let first = merged();
        assert!(Arc::ptr_eq(&first, &merged()));
        let value: Value = serde_json::from_slice(&first.text().unwrap()).unwrap();
        assert_eq!(value["definitions"]["Thing_v2"]["description"], "one");
        assert!(kept.version3("v1.a", Form::Json).is_some());
        kept.set(&name, Kept::of((text("two").as_bytes(), ""), "/apis/a/v1", false, &ORCH));
        assert!(!Arc::ptr_eq(&first, &merged()));
        assert_eq!((kept.etag("v1.a"), kept.version3("v1.a", Form::Json).is_none()), (None, true));
        kept.set(&name, None);
        assert_eq!(kept.0.lock().bytes, 0);
    }

    #[test]
    fn a_document_about_nothing_and_one_beyond_the_bound_are_not_kept() {
        assert!(Kept::of((b"{", ""), "/apis/a/v1", true, &ORCH).is_none());
        assert!(Kept::of((text("x").as_bytes(), ""), "/apis/b/v1", true, &ORCH).is_none());
        let (kept, name) = (OpenApi::default(), Arc::<str>::from("v1.a"));
        kept.0.lock().bytes = BYTES_MAX;
        kept.set(&name, Kept::of((text("x").as_bytes(), ""), "/apis/a/v1", false, &ORCH));
        assert!(!kept.has_any(std::iter::once(&name)));
    }
}
