//! Defaults that a schema declares for `apiVersion`, `kind` and `metadata` of an object of another kind within an object.
//!
//! Owns their table: types of the fields that have defaults, themselves or below, with nothing but these. They are filled in after the object was
//! decoded. Metadata are those of any object: a default keeps what such metadata have, and nothing else.

use orch_schema::budget::{entry_weight, weight};
use orch_schema::value::{Map, SmolStr, Value};
use orch_schema::{Field, Limits, ObjectType, TypeId, ValueType, decode_json};

use super::CompileError;
use super::source::Source;
use super::tables::{DEPTH_MAX, HEAD, NODES_MAX, Tables, default_of};

/// The part of an object in which fields have defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The object itself, of which the fields of every object count.
    Object,
    Metadata,
    /// Anything in `apiVersion`, `kind` or a field of the metadata.
    Within,
}

impl Tables<'_> {
    /// The type of the defaults of the object `source`, `None` without any, and the bytes that all of them take.
    pub(super) fn head_defaults(
        &mut self,
        source: Source<'_>,
    ) -> Result<(Option<TypeId>, usize), CompileError> {
        let (fields, bytes) = self.default_fields(source, Part::Object)?;
        Ok((self.default_type(fields), bytes))
    }

    /// The fields of `source` that have defaults. Items of lists and values of maps are left out: an object may have any number of them.
    fn default_fields(
        &mut self,
        source: Source<'_>,
        part: Part,
    ) -> Result<(Vec<Field>, usize), CompileError> {
        let (mut fields, mut bytes) = (Vec::new(), 0_usize);
        if self.depth == DEPTH_MAX {
            return Err(CompileError::TooDeep { max: DEPTH_MAX });
        }
        for (name, node) in source.properties() {
            if !self.has_field(part, name) {
                continue;
            }
            self.nodes += 1;
            if self.nodes > NODES_MAX {
                return Err(CompileError::TooLarge { max: NODES_MAX });
            }
            let is_metadata = part == Part::Object && name == "metadata";
            self.depth += 1;
            let below = self.default_fields(node, if is_metadata { Part::Metadata } else { Part::Within });
            self.depth -= 1;
            let (below, bytes_below) = below?;
            let default = default_of(node).and_then(|mut default| {
                self.fill(&mut default, &below);
                match part {
                    Part::Object if is_metadata => self.as_metadata(default),
                    Part::Metadata => self.as_field_of_metadata(name, default),
                    Part::Object | Part::Within => Some(default),
                }
            });
            if default.is_none() && below.is_empty() {
                continue;
            }
            let own =
                default.as_ref().map_or(0, |default| entry_weight(name).saturating_add(weight(default)));
            bytes = bytes.saturating_add(bytes_below).saturating_add(own);
            let value = self.default_type(below).map_or(ValueType::Untyped, ValueType::Object);
            let mut field = Field::new(SmolStr::new(name), 0, value);
            field.presence = true;
            field.nullable = node.is_nullable();
            field.default = default.map(Box::new);
            fields.push(field);
        }
        Ok((fields, bytes))
    }

    /// Whether the field `name` of `part` may have a default.
    fn has_field(&self, part: Part, name: &str) -> bool {
        match part {
            // few: three names.
            Part::Object => HEAD.contains(&name),
            Part::Metadata => self.base.get(self.meta).field(name).is_some(),
            Part::Within => true,
        }
    }

    /// A type of `fields` that is not decoded; `None` without any.
    fn default_type(&mut self, fields: Vec<Field>) -> Option<TypeId> {
        if fields.is_empty() {
            return None;
        }
        let mut ty = ObjectType::new("", fields);
        ty.any_form = true;
        Some(self.add(ty))
    }

    /// Fills the defaults of `fields` into `value`, as they would be filled into an object that has it.
    fn fill(&self, value: &mut Value, fields: &[Field]) {
        let Value::Object(map) = value else { return };
        for field in fields {
            if let Some(default) = field.default.as_deref()
                && map.get(&field.name).is_none_or(|value| value.is_null() && !field.nullable)
            {
                map.insert(field.name.clone(), default.clone());
            }
            if let (Some(value), ValueType::Object(id)) = (map.get_mut(&field.name), &field.value)
                && let Some(at) = self.place(*id)
            {
                self.fill(value, &self.types[at].fields);
            }
        }
    }

    /// The part of `value` that the metadata of an object keep; `None`: it is no metadata, and the definition should have been refused.
    fn as_metadata(&self, value: Value) -> Option<Value> {
        let text = value.to_string();
        Some(decode_json(self.base, self.meta, text.as_bytes(), Limits::default()).ok()?.value)
    }

    /// The part of `value` that the field `name` of an object's metadata keeps.
    fn as_field_of_metadata(&self, name: &str, value: Value) -> Option<Value> {
        let metadata: Map = std::iter::once((SmolStr::new(name), value)).collect();
        self.as_metadata(Value::Object(metadata))?.get(name).cloned()
    }
}
