//! Schemas of the types, built from the type tables.
//!
//! Owns the published form of a type: descriptions, types, required fields, defaults, enumerations, and the extensions
//! that tell clients how lists and maps merge. A type is defined once and referred to by name elsewhere. Types without a
//! reference are not defined.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use orch_schema::json;
use orch_schema::value::{Map, Value};
use orch_schema::{Field, ListTopology, ObjectType, PatchStrategy, Scalar, Schema, TypeId, Union, ValueType};

use super::declared::{Declared, References};
use super::descriptions::Descriptions;
use super::dialect::{Dialect, plain};
use super::names::Names;
use super::operation::Described;
use super::pages::{VERSION_INFO, version_info};
use crate::registry::{Published, Resource};

/// The body of a patch, whatever its media type.
const PATCH: &str = "meta.v1.Patch";

/// Its description: it has no message, because it has a form for each media type.
const PATCH_DESCRIPTION: &str = "A change of an object: a JSON patch, a merge patch, a strategic merge patch or an applied \
    configuration, as the media type of the request says.";

/// Untyped values that are objects. Other untyped values may be anything.
const OBJECTS: [&str; 3] = ["meta.v1.FieldsV1", "runtime.RawExtension", PATCH];

/// The definitions of one document, which grow with its references.
pub(super) struct Definitions<'a> {
    pub(super) names: &'a Names<'a>,
    descriptions: &'a Descriptions,
    pub(super) dialect: Dialect,
    /// Text of each definition by published name; empty while the type is in `waiting`.
    texts: BTreeMap<String, String>,
    waiting: Vec<(String, Waiting)>,
    /// The schema of the types that are referred to.
    schema: Arc<Schema>,
    /// The declared kind whose path is described.
    declared: Option<Arc<Resource>>,
}

/// A type that is referred to and not yet defined.
enum Waiting {
    Type(Arc<Schema>, TypeId),
    Declared(Arc<Resource>),
    DeclaredList(Arc<Resource>),
}

impl<'a> Definitions<'a> {
    pub(super) fn new(names: &'a Names<'a>, descriptions: &'a Descriptions, dialect: Dialect) -> Self {
        let (texts, schema) = (BTreeMap::new(), names.schema.clone());
        Self { names, descriptions, dialect, texts, waiting: Vec::new(), schema, declared: None }
    }

    /// References are to the types of the declared `resource` from now on, and to built-in ones.
    pub(super) fn refer_to_declared(&mut self, resource: &Arc<Resource>) {
        let built_in = self.names.schema;
        self.refer_to(built_in);
        self.declared = Some(resource.clone());
    }

    /// A reference to the type `of` a path, which [`Definitions::finish`] defines.
    pub(super) fn refer(&mut self, of: Described) -> Value {
        match (of, self.declared.clone()) {
            (Described::Type(id), _) => self.reference(id),
            (Described::Declared, Some(resource)) => self.reference_to_object(resource),
            (Described::DeclaredList, Some(resource)) => {
                let name = self.declared_name(&resource, &resource.list_kind);
                self.wait(name, |_| Waiting::DeclaredList(resource))
            }
            // No other path has such a type.
            (Described::Declared | Described::DeclaredList, None) => json!({}),
        }
    }

    fn reference_to_object(&mut self, resource: Arc<Resource>) -> Value {
        let name = self.declared_name(&resource, &resource.kind);
        self.wait(name, |_| Waiting::Declared(resource))
    }

    fn declared_name(&self, resource: &Resource, kind: &str) -> String {
        self.names.definition(&format!("{}.{kind}", resource.api_version()))
    }

    /// A reference to the type called `name`, which waits for its definition.
    fn wait(&mut self, name: String, of: impl FnOnce(&Self) -> Waiting) -> Value {
        let reference = self.reference_to(&name);
        if !self.texts.contains_key(&name) {
            let waiting = of(self);
            self.texts.insert(name.clone(), String::new());
            self.waiting.push((name, waiting));
        }
        reference
    }

    /// References are to the types of `schema` from now on.
    pub(super) fn refer_to(&mut self, schema: &Arc<Schema>) {
        self.declared = None;
        if !Arc::ptr_eq(&self.schema, schema) {
            self.schema = schema.clone();
        }
    }

    /// A reference to the type, which [`Definitions::finish`] defines.
    pub(super) fn reference(&mut self, id: TypeId) -> Value {
        let name = self.names.definition(&self.schema.get(id).name);
        self.wait(name, |known| Waiting::Type(known.schema.clone(), id))
    }

    /// A reference to the body of a patch.
    pub(super) fn patch(&mut self) -> Value {
        self.untyped(Some(PATCH))
    }

    /// A reference to the version of a server.
    pub(super) fn version_info(&mut self) -> Value {
        let name = self.names.definition(VERSION_INFO);
        let reference = self.reference_to(&name);
        self.texts.entry(name).or_insert_with(|| version_info().to_string());
        reference
    }

    /// Defines all referenced types, and returns the texts of all definitions by name.
    ///
    /// # Errors
    /// A stored definition cannot be read, which only a fault of this program causes.
    pub(super) fn finish(mut self) -> io::Result<BTreeMap<String, String>> {
        while let Some((name, waiting)) = self.waiting.pop() {
            let definition = match waiting {
                Waiting::Type(schema, id) => {
                    self.refer_to(&schema);
                    self.object(id)
                }
                Waiting::Declared(resource) => {
                    let schema = resource.published.as_ref().map(Published::schema).transpose()?;
                    let (references, fields) = (self.references(), selectable_fields(&resource)?);
                    self.declared(&references).object(&resource, &schema.unwrap_or_default(), &fields)
                }
                Waiting::DeclaredList(resource) => {
                    let (references, items) = (self.references(), self.reference_to_object(resource.clone()));
                    let fields = selectable_fields(&resource)?;
                    self.declared(&references).list(&resource, items, &fields)
                }
            };
            self.texts.insert(name, definition.to_string());
        }
        Ok(self.texts)
    }

    /// The built-in definitions that those of declared kinds refer to.
    fn references(&mut self) -> References {
        let schema = self.names.schema;
        self.refer_to(schema);
        let mut reference = |name: &str| {
            let found = schema.find_type(name);
            found.map(|id| self.reference(id)).unwrap_or_default()
        };
        let (object_meta, list_meta) = (reference("meta.v1.ObjectMeta"), reference("meta.v1.ListMeta"));
        References { object_meta, list_meta }
    }

    fn declared<'r>(&self, references: &'r References) -> Declared<'r> {
        Declared { dialect: self.dialect, prefix: self.names.brand.extension_prefix, references }
    }

    fn reference_to(&self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.dialect.definitions())})
    }

    /// The definition of an object type.
    fn object(&mut self, id: TypeId) -> Value {
        let (names, schema) = (self.names, self.schema.clone());
        let table: &ObjectType = schema.get(id);
        let mut properties = BTreeMap::new();
        if table.head {
            properties.extend(head());
        }
        for field in &table.fields {
            properties.insert(field.name.to_string(), self.property(table, field));
        }
        let mut definition = described(self.descriptions.of_type(&table.name));
        definition.insert("type".to_owned(), json!("object"));
        if !properties.is_empty() {
            definition.insert("properties".to_owned(), json!(properties));
        }
        let required: Vec<&str> =
            table.fields.iter().filter(|field| field.required).map(|field| &*field.name).collect();
        if !required.is_empty() {
            definition.insert("required".to_owned(), json!(required));
        }
        let mut extend = |name: &str, value: Value| {
            definition.insert(format!("{}{name}", names.brand.extension_prefix), value);
        };
        let kinds = names.kinds(&schema, table);
        if !kinds.is_empty() {
            extend("group-version-kind", Value::Array(kinds));
        }
        if table.atomic {
            extend("map-type", json!("atomic"));
        }
        if table.preserve_unknown {
            extend("preserve-unknown-fields", json!(true));
        }
        if !table.unions.is_empty() {
            extend("unions", table.unions.iter().map(union).collect());
        }
        Value::Object(definition)
    }

    fn property(&mut self, table: &ObjectType, field: &Field) -> Value {
        let schema = self.value(&field.value, field.untyped_name());
        let mut more = described(self.descriptions.of_field(&table.name, field));
        if let Some(default) = default_of(field).filter(|_| self.dialect.has_defaults()) {
            more.insert("default".to_owned(), default);
        }
        for (name, value) in merging(field) {
            more.insert(format!("{}{name}", self.names.brand.extension_prefix), value);
        }
        self.dialect.beside(schema, more)
    }

    fn value(&mut self, value: &ValueType, untyped_name: Option<&str>) -> Value {
        match value {
            ValueType::Scalar(scalar) => self.scalar(scalar),
            ValueType::Object(id) => self.reference(*id),
            ValueType::List { item, .. } => {
                json!({"type": "array", "items": self.element(item, untyped_name)})
            }
            ValueType::Map { value, .. } => {
                json!({"type": "object", "additionalProperties": self.element(value, untyped_name)})
            }
            ValueType::Untyped => self.untyped(untyped_name),
            ValueType::Member(member) => self.value(&member.value, untyped_name),
        }
    }

    /// The element of a list or a map. It is never absent, so that its zero value is its default.
    fn element(&mut self, value: &ValueType, untyped_name: Option<&str>) -> Value {
        let schema = self.value(value, untyped_name);
        let mut more = Map::new();
        if let Some(zero) = zero_of(value).filter(|_| self.dialect.has_defaults()) {
            more.insert("default".to_owned(), zero);
        }
        self.dialect.beside(schema, more)
    }

    fn scalar(&mut self, scalar: &Scalar) -> Value {
        let Some((name, definition)) = self.dialect.leaf(scalar) else { return plain(scalar) };
        self.named(name, &definition)
    }

    fn untyped(&mut self, name: Option<&str>) -> Value {
        match name {
            Some(name) if OBJECTS.contains(&name) => self.named(name, &json!({"type": "object"})),
            Some(name) => self.named(name, &json!({})),
            None => {
                let mut anything = Map::new();
                let name = format!("{}preserve-unknown-fields", self.names.brand.extension_prefix);
                anything.insert(name, json!(true));
                Value::Object(anything)
            }
        }
    }

    /// A reference to the definition `full_name`, which has no references itself.
    fn named(&mut self, full_name: &str, definition: &Value) -> Value {
        let name = self.names.definition(full_name);
        let reference = self.reference_to(&name);
        let description = match full_name {
            PATCH => Some(PATCH_DESCRIPTION),
            name => self.descriptions.of_type(name),
        };
        let dialect = self.dialect;
        self.texts
            .entry(name)
            .or_insert_with(|| dialect.beside(definition.clone(), described(description)).to_string());
        reference
    }
}

/// A schema with nothing but its description, if it has one.
fn described(description: Option<&str>) -> Map {
    let text = description.map(|text| ("description".to_owned(), json!(text)));
    text.into_iter().collect()
}

/// `apiVersion` and `kind`, which every kind has and no table lists.
pub(super) fn head() -> [(String, Value); 2] {
    let text = |name: &str, description: &str| {
        (name.to_owned(), json!({"description": description, "type": "string"}))
    };
    [
        text(
            "apiVersion",
            "The group and version that this form of the object belongs to, such as `apps/v1`; `v1` alone is the \
             core group. Taken from the path of the request where it is absent.",
        ),
        text(
            "kind",
            "The kind of the object, in CamelCase, such as `Pod`. Taken from the path of the request where it is \
             absent; never changes.",
        ),
    ]
}

/// The selectable fields that a declared kind publishes.
fn selectable_fields(resource: &Resource) -> io::Result<Vec<String>> {
    let fields = resource.published.as_ref().map(Published::selectable_fields).transpose()?;
    Ok(fields.unwrap_or_default())
}

/// The published default of an absent field, if any.
fn default_of(field: &Field) -> Option<Value> {
    match (&field.default, &field.value) {
        (Some(default), _) => Some((**default).clone()),
        (None, ValueType::Object(_) | ValueType::Scalar(_)) if field.emit_empty && !field.presence => {
            zero_of(&field.value)
        }
        _ => None,
    }
}

/// The zero value of an object, or of a scalar that is described in place. The schemas of other scalars allow none.
fn zero_of(value: &ValueType) -> Option<Value> {
    match value {
        ValueType::Object(_) => Some(json!({})),
        ValueType::Scalar(
            scalar @ (Scalar::String(_) | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Double),
        ) => Some(scalar.zero_value()),
        ValueType::Scalar(_)
        | ValueType::List { .. }
        | ValueType::Map { .. }
        | ValueType::Untyped
        | ValueType::Member(_) => None,
    }
}

/// The extensions that describe how the field merges, without their prefix.
fn merging(field: &Field) -> Vec<(&'static str, Value)> {
    let mut found = Vec::new();
    match &field.value {
        ValueType::List { topology, .. } if field.topology_declared => match topology {
            ListTopology::Atomic => found.push(("list-type", json!("atomic"))),
            ListTopology::Set => found.push(("list-type", json!("set"))),
            ListTopology::Map(keys) => {
                found.push(("list-map-keys", json!(keys)));
                found.push(("list-type", json!("map")));
            }
        },
        ValueType::Map { atomic: true, .. } => found.push(("map-type", json!("atomic"))),
        ValueType::Object(_) if field.atomic == Some(true) => found.push(("map-type", json!("atomic"))),
        ValueType::Object(_) if field.atomic == Some(false) => found.push(("map-type", json!("granular"))),
        _ => {}
    }
    if let Some(key) = &field.patch().merge_key {
        found.push(("patch-merge-key", json!(key)));
    }
    let strategy = strategy(field.patch());
    if !strategy.is_empty() {
        found.push(("patch-strategy", json!(strategy)));
    }
    found
}

/// The directives of `patch-strategy`, joined by commas.
fn strategy(patch: &PatchStrategy) -> String {
    let directives = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
    let given: Vec<&str> = directives.into_iter().filter(|(given, _)| *given).map(|(_, name)| name).collect();
    given.join(",")
}

fn union(union: &Union) -> Value {
    let members: BTreeMap<&str, &str> =
        union.members.iter().map(|(field, value)| (&**field, &**value)).collect();
    let mut described = Map::new();
    if let Some(discriminator) = &union.discriminator {
        described.insert("discriminator".to_owned(), json!(discriminator));
    }
    described.insert("fields-to-discriminateBy".to_owned(), json!(members));
    Value::Object(described)
}
