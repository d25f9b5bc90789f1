//! From a schema to type tables.
//!
//! Owns which table type a node of a schema becomes, what the decoder keeps of values there, what an apply takes, and how much memory
//! defaults add to an object. Every field has presence: an explicit zero is a value. Objects that are the same have one type.

use orch_schema::budget::{entry_weight, weight};
use orch_schema::value::{SmolStr, Value};
use orch_schema::{Applied, Field, ListTopology, Member, ObjectType, Scalar, Schema, TypeId, ValueType};

use super::sharing::Shared;
use super::source::{Additional, Source};
use super::{CompileError, Input, root_of};

/// Nesting of schemas. A definition's text is nested at most 100 deep, and each schema takes at least one level of it.
pub(super) const DEPTH_MAX: usize = 100;

/// Nodes of all schemas of a kind. The largest stored object has room for half of them.
pub(super) const NODES_MAX: usize = 1 << 18;

/// Members that objects have beside those of their schema: at the root, and in objects of other kinds within.
pub(super) const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The types of a kind while they are made.
pub(super) struct Tables<'b> {
    pub(super) base: &'b Schema,
    pub(super) types: Vec<ObjectType>,
    /// The types of objects below the root, by their places.
    shared: Shared<usize>,
    pub(super) meta: TypeId,
    /// The type of an object of which no member is declared.
    closed: Option<TypeId>,
    pub(super) depth: usize,
    pub(super) nodes: usize,
}

/// The types of a version: its root, its list, and those within.
pub(super) fn types(
    input: &Input<'_>,
    source: Source<'_>,
    base: &Schema,
) -> Result<Vec<ObjectType>, CompileError> {
    let mut tables = Tables::over(base);
    let name = format!("{}.{}.{}", input.group, input.version, input.kind);
    let root = ValueType::Object(root_of(base));
    let items = ValueType::List { item: Box::new(root), topology: ListTopology::Atomic };
    let list_meta = ValueType::Object(found(base, "meta.v1.ListMeta"));
    let fields = vec![written("metadata", list_meta), written("items", items)];
    let mut list = ObjectType::new(format!("{name}List"), fields);
    list.head = true;
    // The root is put into its place when the types within are there.
    tables.types.push(ObjectType::new("", Vec::new()));
    tables.types.push(list);
    let mut fields = vec![written("metadata", ValueType::Object(tables.meta))];
    if !input.preserve_unknown_fields {
        fields.extend(tables.fields(source, &HEAD)?);
    }
    let mut root = tables.object_type(name.into(), fields);
    root.head = true;
    root.preserve_unknown = input.preserve_unknown_fields || source.preserves_unknown();
    tables.types[0] = root;
    Ok(tables.types)
}

impl<'b> Tables<'b> {
    fn over(base: &'b Schema) -> Self {
        let meta = found(base, "meta.v1.ObjectMeta");
        let shared = Shared::new();
        Tables { base, types: Vec::new(), shared, meta, closed: None, depth: 0, nodes: 0 }
    }

    /// The place of an own type.
    pub(super) fn place(&self, TypeId(id): TypeId) -> Option<usize> {
        (id as usize).checked_sub(self.base.len())
    }

    /// The id of `ty`, which has no name, or of a type that was made before and is the same.
    pub(super) fn add(&mut self, ty: ObjectType) -> TypeId {
        let fields: Vec<(&str, Option<TypeId>)> =
            ty.fields.iter().map(|field| (field.name.as_str(), object_in(&field.value))).collect();
        let hash = self.shared.hash_of(fields);
        let same = self.shared.find(hash, |&at| self.types[at].is_alike(&ty));
        let at = same.unwrap_or_else(|| {
            let at = self.types.len();
            self.types.push(ty);
            self.shared.add(hash, at);
            at
        });
        super::own(self.base, at)
    }

    fn object_type(&self, name: Box<str>, fields: Vec<Field>) -> ObjectType {
        let filled = fields.iter().map(|field| self.filled_by(field)).fold(0, usize::saturating_add);
        let mut ty = ObjectType::new(name, fields);
        ty.any_form = true;
        ty.filled_bytes = u32::try_from(filled).unwrap_or(u32::MAX);
        ty
    }

    /// Fields in the order of their names, but for those called as in `without`.
    fn fields(&mut self, source: Source<'_>, without: &[&str]) -> Result<Vec<Field>, CompileError> {
        let required = source.required();
        let required: std::collections::BTreeSet<&str> = required.into_iter().collect();
        let mut fields = Vec::new();
        for (name, node) in source.properties() {
            // few: three names.
            if without.contains(&name) {
                continue;
            }
            let mut field = Field::new(SmolStr::new(name), 0, self.value_type(node, false)?);
            field.presence = true;
            field.nullable = node.is_nullable();
            field.required = required.contains(name);
            field.default = default_of(node).map(Box::new);
            fields.push(field);
        }
        Ok(fields)
    }

    /// The type of values of the node `source`. `keeps_unknown`: the list around it keeps unknown fields of its items.
    fn value_type(&mut self, source: Source<'_>, keeps_unknown: bool) -> Result<ValueType, CompileError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(CompileError::TooLarge { max: NODES_MAX });
        }
        if self.depth == DEPTH_MAX {
            return Err(CompileError::TooDeep { max: DEPTH_MAX });
        }
        self.depth += 1;
        let keeps_unknown = keeps_unknown || source.preserves_unknown();
        let ty = self.shape(source, keeps_unknown);
        self.depth -= 1;
        let value = ty?;
        let applied = applied(source, &value);
        let keeps_unknown = keeps_unknown && matches!(value, ValueType::List { .. } | ValueType::Map { .. });
        if !keeps_unknown && applied == Applied::OfType {
            return Ok(value);
        }
        let member = Member { value, nullable: false, default: None, keeps_unknown, applied };
        Ok(ValueType::Member(Box::new(member)))
    }

    fn shape(&mut self, source: Source<'_>, keeps_unknown: bool) -> Result<ValueType, CompileError> {
        if source.is_int_or_string() && !keeps_unknown {
            return Ok(ValueType::Scalar(Scalar::IntOrString));
        }
        let has_members = source.at("properties").as_object().is_some_and(|map| !map.is_empty());
        let is_list = source.type_name() == "array" && source.items().is_some();
        if (has_members && !is_list) || source.is_embedded() {
            return self.object(source, keeps_unknown);
        }
        let atomic = source.extension("map-type") == "atomic";
        match (source.type_name(), source.additional()) {
            ("object" | "", Additional::Of(values)) => {
                Ok(ValueType::Map { value: Box::new(self.member(values, false)?), atomic })
            }
            ("object" | "", additional @ (Additional::Any | Additional::Forbidden)) => {
                let value = self.closed_type();
                let is_any = matches!(additional, Additional::Any);
                let applied = if is_any { Applied::Any } else { Applied::Nothing };
                let member = Member { value, nullable: true, default: None, keeps_unknown: false, applied };
                Ok(ValueType::Map { value: Box::new(ValueType::Member(Box::new(member))), atomic })
            }
            // Objects of which no member is declared share a type, which is not atomic.
            ("object", Additional::Unsaid) if atomic => self.object(source, keeps_unknown),
            ("array", _) if source.items().is_some() => {
                let items = source.items().expect("it is there");
                let item = Box::new(self.member(items, keeps_unknown)?);
                Ok(ValueType::List { item, topology: topology(source) })
            }
            _ if keeps_unknown => Ok(ValueType::Untyped),
            ("string", _) => Ok(ValueType::Scalar(Scalar::String(None))),
            ("boolean", _) => Ok(ValueType::Scalar(Scalar::Bool)),
            ("integer", _) => Ok(ValueType::Scalar(Scalar::Int64)),
            ("number", _) => Ok(ValueType::Scalar(Scalar::Double)),
            _ => Ok(self.closed_type()),
        }
    }

    fn object(&mut self, source: Source<'_>, keeps_unknown: bool) -> Result<ValueType, CompileError> {
        let mut fields = Vec::new();
        if source.is_embedded() {
            let mut metadata = Field::new("metadata", 0, ValueType::Object(self.meta));
            metadata.presence = true;
            fields.push(metadata);
        }
        let without: &[&str] = if source.is_embedded() { &HEAD } else { &[] };
        fields.extend(self.fields(source, without)?);
        let mut ty = self.object_type(Box::default(), fields);
        ty.head = source.is_embedded();
        if source.is_embedded() {
            let (of_head, bytes) = self.head_defaults(source)?;
            let filled = (ty.filled_bytes as usize).saturating_add(bytes);
            ty.filled_bytes = u32::try_from(filled).unwrap_or(u32::MAX);
            ty.head_defaults = of_head;
        }
        ty.preserve_unknown = keeps_unknown;
        ty.keeps_closed = matches!(source.additional(), Additional::Any | Additional::Forbidden);
        ty.atomic = source.extension("map-type") == "atomic";
        Ok(ValueType::Object(self.add(ty)))
    }

    /// The type of an item of a list or a value of a map.
    fn member(&mut self, source: Source<'_>, keeps_unknown: bool) -> Result<ValueType, CompileError> {
        let value = self.value_type(source, keeps_unknown)?;
        let (nullable, default) = (source.is_nullable(), default_of(source));
        if !nullable && default.is_none() {
            return Ok(value);
        }
        let applied = Applied::OfType;
        Ok(ValueType::Member(Box::new(Member { value, nullable, default, keeps_unknown: false, applied })))
    }

    /// The type of a value of which nothing is declared.
    fn closed_type(&mut self) -> ValueType {
        let id = self.closed.unwrap_or_else(|| {
            let ty = self.object_type(Box::default(), Vec::new());
            self.add(ty)
        });
        self.closed = Some(id);
        ValueType::Object(id)
    }

    /// Bytes that `field` takes in an object that lacks it.
    fn filled_by(&self, field: &Field) -> usize {
        let Some(default) = &field.default else { return 0 };
        let own = entry_weight(&field.name).saturating_add(weight(default));
        own.saturating_add(self.filled_in(default, &field.value))
    }

    /// Bytes that defaults add to `value`. A field that is there is counted as if it were not, which is too much.
    fn filled_in(&self, value: &Value, ty: &ValueType) -> usize {
        let sum = |parts: &mut dyn Iterator<Item = usize>| parts.fold(0, usize::saturating_add);
        match (ty, value) {
            (ValueType::Object(id), Value::Object(map)) => {
                let Some(ty) = self.place(*id).map(|at| &self.types[at]) else { return 0 };
                let below = map.iter().filter_map(|(name, value)| Some((ty.field(name)?, value)));
                let below = sum(&mut below.map(|(field, value)| self.filled_in(value, &field.value)));
                below.saturating_add(ty.filled_bytes as usize)
            }
            (ValueType::List { item, .. }, Value::Array(items)) => {
                sum(&mut items.iter().map(|value| self.filled_in(value, item)))
            }
            (ValueType::Map { value: ty, .. }, Value::Object(map)) => {
                sum(&mut map.values().map(|value| self.filled_in(value, ty)))
            }
            (ValueType::Member(member), value) => match &member.default {
                Some(default) if value.is_null() => {
                    weight(default).saturating_add(self.filled_in(default, &member.value))
                }
                _ => self.filled_in(value, &member.value),
            },
            _ => 0,
        }
    }
}

/// The values that an apply takes for the node `source`, whose type is `ty`.
fn applied(source: Source<'_>, ty: &ValueType) -> Applied {
    match (source.type_name(), ty) {
        // Content without a type is taken as it is.
        ("", ValueType::Untyped) => Applied::OfType,
        ("", _) => Applied::Any,
        ("object", ValueType::Untyped) => Applied::Objects,
        // Bytes are texts.
        ("string", ValueType::Scalar(_))
            if !matches!(source.at("format").as_str(), None | Some("" | "byte")) =>
        {
            Applied::Scalars
        }
        _ => Applied::OfType,
    }
}

/// The type of objects that are values of `ty`, or items or values in them.
fn object_in(ty: &ValueType) -> Option<TypeId> {
    match ty {
        ValueType::Object(id) => Some(*id),
        ValueType::List { item: inner, .. } | ValueType::Map { value: inner, .. } => object_in(inner),
        ValueType::Member(member) => object_in(&member.value),
        ValueType::Scalar(_) | ValueType::Untyped => None,
    }
}

/// A field that is written even when empty, as lists and metadata are.
fn written(name: &'static str, value: ValueType) -> Field {
    let mut field = Field::new(name, 0, value);
    field.emit_empty = true;
    field
}

/// The built-in type called `name`, which objects of every kind have.
fn found(base: &Schema, name: &str) -> TypeId {
    base.find_type(name).expect("the built-in kinds have it: a test compiles them all")
}

/// The default of a node, with the members of each object in the order of their names, as the decoder keeps them.
pub(super) fn default_of(source: Source<'_>) -> Option<Value> {
    let mut default = source.default()?.clone();
    default.sort_all_objects();
    Some(default)
}

/// How server-side apply merges a list. A list that says nothing is replaced as a whole.
fn topology(source: Source<'_>) -> ListTopology {
    match source.extension("list-type").as_str() {
        Some("set") => ListTopology::Set,
        Some("map") => ListTopology::Map(source.list_keys().into_iter().map(Box::from).collect()),
        _ => ListTopology::Atomic,
    }
}
