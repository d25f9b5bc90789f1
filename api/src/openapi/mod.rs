//! OpenAPI documents, generated from the schema and the registry.
//!
//! Owns both versions of the format: a document for each group and version (3.0) with an index over them, and one
//! document for everything (2.0). No kind is described by hand: the descriptions are the comments of the `.proto` files.
//! It knows no HTTP.
//!
//! A document is built when it is first requested, and kept compressed only, a twentieth of its text: with the group and version
//! that it describes (`registry::Section`), so that a change of what is served builds the documents of its own group again and no
//! other. The index needs the hash of every document, so that building it writes them all into hashes, compresses none and
//! keeps the hashes; a document is built when it is requested itself. The number of groups and versions bounds the kept documents. The
//! descriptions are decompressed for each making and dropped with it. Documents of other servers are merged into that of version 2 by
//! `foreign`.
//!
//! Invariant: every reference in a document leads to a definition in it.

mod binary;
mod connect;
mod declared;
mod definitions;
mod descriptions;
mod dialect;
mod document;
mod expanded;
pub(crate) mod foreign;
mod names;
mod operation;
mod pages;
mod parameters;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use orch_schema::json;
use orch_schema::value::Value;

use self::descriptions::Descriptions;
use self::document::{Section, Source};
use crate::document::whole;
use crate::registry::{self, Registry};

pub use crate::document::Document;
pub(crate) use expanded::expanded;
pub use pages::TokenKeys;

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

/// Room for the documents of what a node serves whatever its registry is: its pages, and the two roots of discovery.
pub struct NodePages {
    keys: TokenKeys,
    sections: BTreeMap<String, (Section, registry::Section)>,
}

impl NodePages {
    /// The documents of a node that serves `keys`.
    pub fn new(keys: TokenKeys) -> NodePages {
        let sections = document::node_sections(keys);
        let sections = sections.map(|(path, section)| (path, (section, registry::Section::default())));
        NodePages { keys, sections: sections.collect() }
    }
}

impl Default for NodePages {
    fn default() -> Self {
        NodePages::new(TokenKeys::default())
    }
}

/// The document at `path` (`/openapi/v2`, `/openapi/v3/apis/apps/v1`) for what `registry` serves; `None`: there is none. The
/// first call for a path takes tens of milliseconds; callers keep it off threads that serve connections.
///
/// # Errors
/// Compression or encoding fails, which only a fault of this program causes.
pub fn document(
    registry: &Registry,
    node: &NodePages,
    path: &str,
    form: Form,
) -> io::Result<Option<Arc<Document>>> {
    let asked = Asked { registry, node };
    let over_all = &registry.openapi[usize::from(node.keys == TokenKeys::Served)];
    let made = match (path, form) {
        (VERSION_2, Form::Json) => {
            let make = || document::version2(asked.source(&Descriptions::open()?));
            over_all.version2.json.get_or_make(make)
        }
        (VERSION_2, Form::Protobuf) => {
            let make = || document::version2_binary(asked.source(&Descriptions::open()?));
            over_all.version2.binary.get_or_make(make)
        }
        (VERSION_3, Form::Json) => over_all.index.get_or_make(|| asked.index()),
        (VERSION_3, Form::Protobuf) => return Ok(None),
        _ => match path.strip_prefix(VERSION_3).and_then(|path| path.strip_prefix('/')) {
            Some(section) => return asked.section(section, form),
            None => return Ok(None),
        },
    };
    made.map(Some)
}

/// The sources of documents.
#[derive(Clone, Copy)]
struct Asked<'a> {
    registry: &'a Registry,
    node: &'a NodePages,
}

impl<'a> Asked<'a> {
    fn source(self, descriptions: &'a Descriptions) -> Source<'a> {
        Source { registry: self.registry, descriptions, keys: self.node.keys }
    }

    /// The section at `path`, with the room for its documents.
    fn find(self, path: &str) -> Option<(Section, &'a registry::Section)> {
        if let Some((section, room)) = self.node.sections.get(path) {
            return Some((section.clone(), room));
        }
        let section = document::section(self.registry, path)?;
        let room = match &section {
            Section::Group(group) => &self.registry.group(group)?.openapi,
            Section::Version { group, version } => &self.registry.group(group)?.version(version)?.openapi,
            Section::Root { .. } | Section::Page(_) => return None,
        };
        Some((section, room))
    }

    fn section(self, path: &str, form: Form) -> io::Result<Option<Arc<Document>>> {
        let Some((section, room)) = self.find(path) else { return Ok(None) };
        let of = (path, &section);
        let made = match form {
            Form::Json => {
                room.json.get_or_make(|| document::version3(self.source(&Descriptions::open()?), of))
            }
            Form::Protobuf => room.binary.get_or_make(|| {
                let descriptions = Descriptions::open()?;
                let hash = self.hash(of, room, &descriptions)?;
                document::version3_binary(self.source(&descriptions), of, &hash)
            }),
        };
        made.map(Some)
    }

    /// The hash of the JSON form of a section, by which clients know all its forms.
    fn hash(
        self,
        of: (&str, &Section),
        room: &registry::Section,
        descriptions: &Descriptions,
    ) -> io::Result<Arc<String>> {
        room.hash.get_or_make(|| match room.json.get() {
            Some(known) => Ok(known.hash.clone()),
            None => document::version3_hash(self.source(descriptions), of),
        })
    }

    /// The index: the path of each document with its hash, so that clients may cache documents for ever.
    fn index(self) -> io::Result<Document> {
        let descriptions = Descriptions::open()?;
        let mut paths: BTreeMap<String, Value> = BTreeMap::new();
        for path in document::sections(self.registry, self.node.keys).into_keys() {
            let Some((section, room)) = self.find(&path) else { continue };
            let hash = self.hash((&path, &section), room, &descriptions)?;
            let url = url_of(&format!("{VERSION_3}/{path}"), &hash);
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        whole(&json!({"paths": paths}).to_string())
    }
}

/// The URL of this version of `document`, whose content never changes.
pub fn url(path: &str, document: &Document) -> String {
    url_of(path, &document.hash)
}

fn url_of(path: &str, hash: &str) -> String {
    format!("{path}?hash={hash}")
}
