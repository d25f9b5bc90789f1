//! Whole documents: their paths and definitions, put together.
//!
//! Owns the sections of the interface (each group and version, each group, the two roots), the document's outer
//! structure in each version of the format, and the order. A document is written path by path, so that its text is
//! never held whole.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::sync::Arc;

use orch_schema::value::{Map, Value};
use orch_schema::{Schema, json};

use super::binary::{Binary, VERSION_2, VERSION_3};
use super::definitions::Definitions;
use super::descriptions::Descriptions;
use super::dialect::Dialect;
use super::names::{Names, capitalized};
use super::pages::{Page, TokenKeys, page, pages};
use super::parameters;
use super::paths::{Path, discovery, paths, tag};
use crate::document::{Document, Hash, Text};
use crate::registry::{Registry, Resource};

/// `info.version` of all documents: that of the core group.
const INTERFACE_VERSION: &str = "v1";

/// Bytes that are hashed at once: the parts of a document are written token by token.
const HASHED_AT_ONCE: usize = 16 << 10;

/// A part of the interface that has its own document in version 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The list of groups, or (`core`) the versions of the core group.
    Root { core: bool },
    /// The versions of one group.
    Group(String),
    /// The resources of one group and version.
    Version { group: String, version: String },
    /// A path that is no resource.
    Page(Page),
}

/// The source of a document.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) registry: &'a Registry,
    pub(super) descriptions: &'a Descriptions,
    pub(super) keys: TokenKeys,
}

/// A path, and what the types of its documents belong to.
struct Item {
    path: Path,
    types: Types,
}

/// The owner of types.
enum Types {
    /// The schema that holds them.
    Of(Arc<Schema>),
    /// A declared kind; other types are built in.
    Declared(Arc<Resource>),
}

impl Types {
    fn of(resource: &Arc<Resource>) -> Types {
        match &resource.published {
            Some(_) => Types::Declared(resource.clone()),
            None => Types::Of(resource.schema.schema().clone()),
        }
    }
}

/// The sections of a node that depend on no resource, by path.
pub(super) fn node_sections(keys: TokenKeys) -> impl Iterator<Item = (String, Section)> {
    let roots = [("api", true), ("apis", false)];
    let roots = roots.into_iter().map(|(path, core)| (path.to_owned(), Section::Root { core }));
    pages(keys).map(|(path, page)| (path, Section::Page(page))).chain(roots)
}

/// All sections by path, without slashes at its ends: `apis/apps/v1`.
pub(super) fn sections(registry: &Registry, keys: TokenKeys) -> BTreeMap<String, Section> {
    let mut found: BTreeMap<_, _> = node_sections(keys).collect();
    for group in registry.groups() {
        let root = if group.name.is_empty() { "api" } else { "apis" };
        if !group.name.is_empty() && !group.is_declared() {
            found.insert(format!("{root}/{}", group.name), Section::Group(group.name.clone()));
        }
        for of in &group.versions {
            let (group, version) = (group.name.clone(), of.version.clone());
            found.insert(format!("{root}/{}", of.api_version), Section::Version { group, version });
        }
    }
    found
}

/// The section of resources at `path`; `None`: there is none.
pub(super) fn section(registry: &Registry, path: &str) -> Option<Section> {
    let mut segments = path.split('/');
    let (group, version) = match (segments.next()?, segments.next(), segments.next()) {
        ("api", Some(version), None) => ("", Some(version)),
        ("apis", Some(group), version) if !group.is_empty() => (group, version),
        _ => return None,
    };
    let known = registry.group(group)?;
    if segments.next().is_some() {
        return None;
    }
    match version {
        None => (!known.is_declared()).then(|| Section::Group(group.to_owned())),
        Some(version) => {
            known.version(version)?;
            Some(Section::Version { group: group.to_owned(), version: version.to_owned() })
        }
    }
}

/// The document of version 3 for a section, at its path (`apis/apps/v1`).
pub(super) fn version3(source: Source<'_>, of: (&str, &Section)) -> io::Result<Document> {
    let mut text = Text::new();
    write_version3(source, of, &mut text)?;
    text.finish()
}

/// The hash of [`version3`], for which nothing is compressed.
pub(super) fn version3_hash(source: Source<'_>, of: (&str, &Section)) -> io::Result<String> {
    let mut hash = BufWriter::with_capacity(HASHED_AT_ONCE, Hash::default());
    write_version3(source, of, &mut hash)?;
    Ok(hash.into_inner().map_err(IntoInnerError::into_error)?.finish())
}

fn write_version3(
    source: Source<'_>,
    (path, section): (&str, &Section),
    text: &mut impl Write,
) -> io::Result<()> {
    let Source { registry, descriptions, .. } = source;
    let names = Names::of(registry);
    let mut definitions = Definitions::new(&names, descriptions, Dialect::V3);
    let info = info(&names);
    write!(text, "{{\"openapi\":\"3.0.0\",\"info\":{info},\"paths\":")?;
    write_paths(text, section_items(registry, &names, path, section), &mut definitions)?;
    text.write_all(b",\"components\":{\"schemas\":")?;
    write_members(text, definitions.finish()?)?;
    let schemes = json!({"BearerToken": bearer_token()});
    write!(text, ",\"securitySchemes\":{schemes}}}}}")
}

/// The Protobuf form of [`version3`]. `hash` is that of the JSON form, which clients know from the index whichever form they
/// request.
pub(super) fn version3_binary(
    source: Source<'_>,
    (path, section): (&str, &Section),
    hash: &str,
) -> io::Result<Document> {
    let Source { registry, descriptions, .. } = source;
    let names = Names::of(registry);
    let mut definitions = Definitions::new(&names, descriptions, Dialect::V3);
    let mut binary = Binary::new(&VERSION_3, names.brand);
    binary.member("openapi", &json!("3.0.0"))?;
    binary.member("info", &info(&names))?;
    let items = section_items(registry, &names, path, section).into_iter();
    let items = items.map(|item| Ok((item.path.path.clone(), path_item(&item, &mut definitions))));
    binary.entries("paths", items)?;
    let schemas = definitions.finish()?.into_iter();
    let schemas = schemas.map(|(name, text)| Ok((name, serde_json::from_str(&text)?)));
    let schemas: Map = schemas.collect::<io::Result<_>>()?;
    let schemes = json!({"BearerToken": bearer_token()});
    binary.member("components", &json!({"schemas": schemas, "securitySchemes": schemes}))?;
    let mut text = Text::new();
    text.write_all(&binary.finish())?;
    Ok(text.finish()?.known_by(hash.to_owned()))
}

/// The document of version 2, for all sections.
pub(super) fn version2(source: Source<'_>) -> io::Result<Document> {
    let Source { registry, descriptions, keys } = source;
    let names = Names::of(registry);
    let mut definitions = Definitions::new(&names, descriptions, Dialect::V2);
    let mut text = Text::new();
    let info = info(&names);
    write!(text, "{{\"swagger\":\"2.0\",\"info\":{info},\"paths\":")?;
    write_paths(&mut text, all_items(registry, keys, &names), &mut definitions)?;
    text.write_all(b",\"definitions\":")?;
    write_members(&mut text, definitions.finish()?)?;
    for (name, value) in version2_ends() {
        write!(text, ",{}:{value}", json!(name))?;
    }
    text.write_all(b"}")?;
    text.finish()
}

/// The Protobuf form of [`version2`].
pub(super) fn version2_binary(source: Source<'_>) -> io::Result<Document> {
    let Source { registry, descriptions, keys } = source;
    let names = Names::of(registry);
    let mut definitions = Definitions::new(&names, descriptions, Dialect::V2);
    let mut binary = Binary::new(&VERSION_2, names.brand);
    binary.member("swagger", &json!("2.0"))?;
    binary.member("info", &info(&names))?;
    let items = all_items(registry, keys, &names);
    let items = items.map(|item| Ok((item.path.path.clone(), path_item(&item, &mut definitions))));
    binary.entries("paths", items)?;
    let definitions = definitions.finish()?.into_iter();
    binary
        .entries("definitions", definitions.map(|(name, text)| Ok((name, serde_json::from_str(&text)?))))?;
    for (name, value) in version2_ends() {
        binary.member(name, &value)?;
    }
    let mut text = Text::new();
    text.write_all(&binary.finish())?;
    text.finish()
}

/// The members after `definitions`.
fn version2_ends() -> [(&'static str, Value); 3] {
    [
        ("parameters", shared_parameters()),
        ("securityDefinitions", json!({"BearerToken": bearer_token()})),
        ("security", json!([{"BearerToken": []}])),
    ]
}

/// The paths of all sections, built one section at a time.
fn all_items<'a>(
    registry: &'a Registry,
    keys: TokenKeys,
    names: &'a Names<'a>,
) -> impl Iterator<Item = Item> + 'a {
    sections(registry, keys)
        .into_iter()
        .flat_map(|(path, section)| section_items(registry, names, &path, &section))
}

/// The paths of one section.
fn section_items(registry: &Registry, names: &Names<'_>, path: &str, section: &Section) -> Vec<Item> {
    let own = |path: Path| Item { path, types: Types::Of(names.schema.clone()) };
    let document = |kind: &str, id: String, tag: String| -> Vec<Item> {
        let answer = names.schema.find_type(&format!("meta.v1.{kind}"));
        let path = answer.map(|answer| discovery(names, format!("/{path}/"), id, answer, tag));
        path.map(own).into_iter().collect()
    };
    let group_id = |group: &str| names.in_operation_ids(group);
    match section {
        Section::Root { core: true } => {
            document("APIVersions", "getCoreAPIVersions".to_owned(), "core".to_owned())
        }
        Section::Root { core: false } => {
            document("APIGroupList", "getAPIVersions".to_owned(), "apis".to_owned())
        }
        Section::Group(group) => {
            document("APIGroup", format!("get{}APIGroup", group_id(group)), tag(names, group, ""))
        }
        Section::Page(of) => vec![own(page(path, *of))],
        Section::Version { group, version } => {
            let id = format!("get{}{}APIResources", group_id(group), capitalized(version));
            let found = registry.group(group).and_then(|group| group.version(version));
            let mut items = match found {
                Some(found) if found.is_declared() => Vec::new(),
                _ => document("APIResourceList", id, tag(names, group, version)),
            };
            for resource in found.into_iter().flat_map(|of| &of.resources) {
                let item = |path| Item { path, types: Types::of(resource) };
                items.extend(paths(names, resource).into_iter().map(item));
            }
            items
        }
    }
}

fn write_paths(
    text: &mut impl Write,
    items: impl IntoIterator<Item = Item>,
    definitions: &mut Definitions<'_>,
) -> io::Result<()> {
    let mut before = "{";
    for item in items {
        write!(text, "{before}{}:{}", json!(item.path.path), path_item(&item, definitions))?;
        before = ",";
    }
    text.write_all(if before == "{" { b"{}" } else { b"}" })
}

/// A path item: the operations and their shared parameters.
fn path_item(Item { path, types }: &Item, definitions: &mut Definitions<'_>) -> Value {
    match types {
        Types::Of(schema) => definitions.refer_to(schema),
        Types::Declared(resource) => definitions.refer_to_declared(resource),
    }
    let mut described = Map::new();
    for operation in &path.operations {
        described.insert(operation.method.to_owned(), operation.describe(definitions));
    }
    if !path.parameters.is_empty() {
        let dialect = definitions.dialect;
        let shared = path.parameters.iter().map(|parameter| parameter.in_operation(dialect)).collect();
        described.insert("parameters".to_owned(), shared);
    }
    Value::Object(described)
}

fn write_members(text: &mut impl Write, members: BTreeMap<String, String>) -> io::Result<()> {
    let mut before = "{";
    for (name, value) in members {
        write!(text, "{before}{}:{value}", json!(name))?;
        before = ",";
    }
    text.write_all(if before == "{" { b"{}" } else { b"}" })
}

fn info(names: &Names<'_>) -> Value {
    json!({"title": capitalized(names.brand.name), "version": INTERFACE_VERSION})
}

/// The security scheme: a bearer token, as an API key because version 2 has no other form for it.
fn bearer_token() -> Value {
    json!({
        "type": "apiKey", "in": "header", "name": "authorization", "description": "A bearer token.",
    })
}

/// The parameters that documents of version 2 refer to by name.
fn shared_parameters() -> Value {
    let all = parameters::all().map(|parameter| (parameter.name, parameter.describe(Dialect::V2)));
    json!(all.collect::<BTreeMap<_, _>>())
}
