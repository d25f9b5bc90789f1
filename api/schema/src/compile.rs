//! Compiles the descriptors of the `.proto` files into the tables.
//!
//! Owns the meaning of the options in `proto/schema/options.proto`. Compilation runs once at start, for one brand;
//! requests only look up its result. An error here is a mistake in a `.proto` file.

use std::collections::HashMap;

use orch_proto::{Brand, options};
use prost_reflect::{
    DescriptorError, DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, FileDescriptor,
    Kind, MessageDescriptor,
};

use super::compile_resource::resource;
use super::types::{
    Extra, Field, ListTopology, ObjectType, PatchStrategy, Scalar, Schema, TypeId, Union, ValueType, Wire,
};

/// The reason why the descriptors cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The bytes are no descriptor set.
    #[error("cannot read the descriptors")]
    Descriptors(#[source] Box<DescriptorError>),
    /// A message, a field or an option has no form in the tables.
    #[error("{place}: {problem}")]
    Option {
        /// Full name of the field or message.
        place: String,
        /// The problem, without the name.
        problem: String,
    },
}

/// Compiles the built-in kinds, with the names of `brand`.
pub fn compile(brand: &'static Brand) -> Result<Schema, CompileError> {
    let pool = DescriptorPool::decode(orch_proto::descriptors())
        .map_err(|error| CompileError::Descriptors(Box::new(error)))?;
    let compiler = Compiler::new(&pool, brand)?;
    compiler.schema(&pool)
}

/// The look-ups that all steps of the compilation share.
pub(super) struct Compiler {
    pub(super) brand: &'static Brand,
    /// Messages that have a table, by full name.
    pub(super) ids: HashMap<Box<str>, TypeId>,
    api: ExtensionDescriptor,
    message: ExtensionDescriptor,
    resource: ExtensionDescriptor,
    field: ExtensionDescriptor,
}

impl Compiler {
    fn new(pool: &DescriptorPool, brand: &'static Brand) -> Result<Self, CompileError> {
        let extension = |name: &str| {
            pool.get_extension_by_name(name).ok_or_else(|| compile_error(name, "the option is not defined"))
        };
        let mut compiler = Self {
            brand,
            ids: HashMap::new(),
            api: extension("schema.api")?,
            message: extension("schema.message")?,
            resource: extension("schema.resource")?,
            field: extension("schema.field")?,
        };
        for (id, message) in (0..).zip(compiler.tables(pool)) {
            compiler.ids.insert(message.full_name().into(), TypeId(id));
        }
        Ok(compiler)
    }

    fn schema(&self, pool: &DescriptorPool) -> Result<Schema, CompileError> {
        let mut types = Vec::with_capacity(self.ids.len());
        let mut resources = Vec::new();
        for message in self.tables(pool) {
            types.push(self.object_type(&message)?);
            if let Some(options) = option::<options::Resource>(&message.options(), &self.resource) {
                resources.push(resource(self, &message, options)?);
            }
        }
        Ok(Schema::new(types).with_resources(resources))
    }

    /// The messages that are objects in JSON, in the order of their ids.
    fn tables(&self, pool: &DescriptorPool) -> Vec<MessageDescriptor> {
        let is_kind = |message: &MessageDescriptor| {
            let package = message.package_name();
            package != "schema" && !package.starts_with("google.") && !message.is_map_entry()
        };
        let mut messages: Vec<_> = pool
            .all_messages()
            .filter(|message| {
                is_kind(message) && self.message_options(message).form() == options::Form::Object
            })
            .collect();
        messages.sort_by(|left, right| left.full_name().cmp(right.full_name()));
        messages
    }

    fn object_type(&self, message: &MessageDescriptor) -> Result<ObjectType, CompileError> {
        let options = self.message_options(message);
        let mut fields = Vec::new();
        self.add_fields(message, &[], &mut fields)?;
        let mut table = ObjectType::new(message.full_name(), fields);
        table.head = options.head();
        table.atomic = options.ownership() == options::Ownership::Whole;
        table.unions = options.unions.into_iter().map(union).collect();
        Ok(table)
    }

    /// Adds the fields of `message` in the order they are declared; the fields of an inlined message stand in its
    /// place.
    fn add_fields(
        &self,
        message: &MessageDescriptor,
        inlined_in: &[u32],
        fields: &mut Vec<Field>,
    ) -> Result<(), CompileError> {
        let order = message.descriptor_proto().field.iter();
        for number in order.map(|field| u32::try_from(field.number()).unwrap_or(0)) {
            let descriptor = message
                .get_field(number)
                .ok_or_else(|| compile_error(message.full_name(), "field without number"))?;
            let options = option::<options::Field>(&descriptor.options(), &self.field).unwrap_or_default();
            match descriptor.kind() {
                Kind::Message(inner) if options.inline() => {
                    self.add_fields(&inner, &[inlined_in, &[number]].concat(), fields)?;
                }
                _ => fields.push(self.field(&descriptor, inlined_in, &options)?),
            }
        }
        Ok(())
    }

    fn field(
        &self,
        descriptor: &FieldDescriptor,
        inlined_in: &[u32],
        options: &options::Field,
    ) -> Result<Field, CompileError> {
        let (value, wire) = self.value(descriptor, options)?;
        let name = match (&options.json, &options.extension) {
            (Some(json), _) => json.clone(),
            (None, Some(extension)) => format!("{}{extension}", self.brand.extension_prefix),
            (None, None) => descriptor.name().to_owned(),
        };
        let mut field = Field::new(name, descriptor.number(), value);
        field.presence = descriptor.field_descriptor_proto().proto3_optional();
        field.emit_empty = options.emit_empty() || self.is_plain_message(descriptor, options, field.presence);
        field.retains_empty = options.retain_empty();
        field.rounds_amounts = is_map_of_amounts(&field.value) && !options.exact_amounts();
        field.required = options.required();
        field.default = match &options.default {
            Some(text) => Some(Box::new(
                serde_json::from_str(text).map_err(|error| compile_error(descriptor.full_name(), error))?,
            )),
            None => None,
        };
        field.atomic = match options.ownership() {
            options::Ownership::Unset => None,
            ownership => Some(ownership == options::Ownership::Whole),
        };
        field.topology_declared = options.list() != options::List::Unset;
        field.wire = wire;
        let untyped_name = untyped_name(descriptor, &field.value);
        Ok(field.with(Extra { patch: patch_strategy(options), inlined_in: inlined_in.into(), untyped_name }))
    }

    /// Whether the field is a message without presence, neither list nor map: it is written even when empty, unless
    /// `omit_empty` is set.
    fn is_plain_message(
        &self,
        descriptor: &FieldDescriptor,
        options: &options::Field,
        presence: bool,
    ) -> bool {
        match descriptor.kind() {
            Kind::Message(message) => {
                let is_list = self.message_options(&message).form() == options::Form::List;
                !presence
                    && !options.omit_empty()
                    && !is_list
                    && !descriptor.is_list()
                    && !descriptor.is_map()
            }
            _ => false,
        }
    }

    fn value(
        &self,
        descriptor: &FieldDescriptor,
        options: &options::Field,
    ) -> Result<(ValueType, Wire), CompileError> {
        if descriptor.is_map() {
            let Kind::Message(entry) = descriptor.kind() else {
                return Err(compile_error(descriptor.full_name(), "a map without entries"));
            };
            let (value, wire) = self.element(&entry.map_entry_value_field(), options)?;
            let atomic = options.ownership() == options::Ownership::Whole;
            return Ok((ValueType::Map { value: Box::new(value), atomic }, wire));
        }
        let (element, wire) = self.element(descriptor, options)?;
        if !descriptor.is_list() {
            return Ok((element, wire));
        }
        let topology = match options.list() {
            options::List::Unset | options::List::Atomic => ListTopology::Atomic,
            options::List::Set => ListTopology::Set,
            options::List::Map => {
                ListTopology::Map(options.keys.iter().map(|key| key.as_str().into()).collect())
            }
        };
        Ok((ValueType::List { item: Box::new(element), topology }, wire))
    }

    /// The type of one value: of a plain field, of each item, or of each value of a map.
    fn element(
        &self,
        descriptor: &FieldDescriptor,
        options: &options::Field,
    ) -> Result<(ValueType, Wire), CompileError> {
        let scalar = match descriptor.kind() {
            Kind::String => Scalar::String(
                (!options.r#enum.is_empty())
                    .then(|| options.r#enum.iter().map(|v| v.as_str().into()).collect()),
            ),
            Kind::Bool => Scalar::Bool,
            Kind::Int32 => Scalar::Int32,
            Kind::Int64 => Scalar::Int64,
            Kind::Double => Scalar::Double,
            Kind::Bytes => Scalar::Bytes,
            Kind::Message(message) => return self.message(&message),
            other => {
                return Err(compile_error(
                    descriptor.full_name(),
                    format!("{other:?} has no JSON form here"),
                ));
            }
        };
        Ok((ValueType::Scalar(scalar), Wire::Plain))
    }

    fn message(&self, message: &MessageDescriptor) -> Result<(ValueType, Wire), CompileError> {
        use options::Form;
        let scalar = match self.message_options(message).form() {
            Form::Object => return Ok((ValueType::Object(self.id(message.full_name())?), Wire::Plain)),
            Form::Any => return Ok((ValueType::Untyped, Wire::Plain)),
            Form::List => {
                let item = Box::new(ValueType::Scalar(Scalar::String(None)));
                return Ok((ValueType::List { item, topology: ListTopology::Atomic }, Wire::Wrapped));
            }
            Form::SchemaOrBool => {
                return Ok((ValueType::Untyped, Wire::OrBool(self.field_type(message, 2)?)));
            }
            Form::SchemaOrArray => {
                return Ok((ValueType::Untyped, Wire::OrList(self.field_type(message, 1)?)));
            }
            Form::SchemaOrStrings => {
                return Ok((ValueType::Untyped, Wire::OrStrings(self.field_type(message, 1)?)));
            }
            Form::Time => Scalar::Time,
            Form::MicroTime => Scalar::MicroTime,
            Form::Quantity => Scalar::Quantity,
            Form::IntOrString => Scalar::IntOrString,
        };
        Ok((ValueType::Scalar(scalar), Wire::Plain))
    }

    /// The table of the message in field `number` of `message`.
    fn field_type(&self, message: &MessageDescriptor, number: u32) -> Result<TypeId, CompileError> {
        match message.get_field(number).map(|field| field.kind()) {
            Some(Kind::Message(inner)) => self.id(inner.full_name()),
            _ => Err(compile_error(message.full_name(), "the form asks for a message here")),
        }
    }

    pub(super) fn id(&self, name: &str) -> Result<TypeId, CompileError> {
        self.ids.get(name).copied().ok_or_else(|| compile_error(name, "no such object type"))
    }

    pub(super) fn api(&self, file: &FileDescriptor) -> options::Api {
        option(&file.options(), &self.api).unwrap_or_default()
    }

    fn message_options(&self, message: &MessageDescriptor) -> options::Message {
        option(&message.options(), &self.message).unwrap_or_default()
    }
}

/// An error about `place`, the full name of a message, field or option.
pub(super) fn compile_error(place: &str, problem: impl ToString) -> CompileError {
    CompileError::Option { place: place.to_owned(), problem: problem.to_string() }
}

/// The value of a custom option, if it is given.
fn option<T: prost::Message + Default>(given: &DynamicMessage, extension: &ExtensionDescriptor) -> Option<T> {
    if !given.has_extension(extension) {
        return None;
    }
    given.get_extension(extension).as_message()?.transcode_to().ok()
}

/// The full name of the message type of a field whose value the tables leave untyped.
fn untyped_name(descriptor: &FieldDescriptor, value: &ValueType) -> Option<Box<str>> {
    let is_untyped = match value {
        ValueType::Untyped => true,
        ValueType::List { item: inner, .. } | ValueType::Map { value: inner, .. } => {
            matches!(**inner, ValueType::Untyped)
        }
        ValueType::Scalar(_) | ValueType::Object(_) | ValueType::Member(_) => false,
    };
    let message = match descriptor.kind() {
        Kind::Message(entry) if descriptor.is_map() => entry.map_entry_value_field().kind(),
        kind => kind,
    };
    match message {
        Kind::Message(message) if is_untyped => Some(message.full_name().into()),
        _ => None,
    }
}

fn is_map_of_amounts(value: &ValueType) -> bool {
    matches!(value, ValueType::Map { value, .. } if matches!(**value, ValueType::Scalar(Scalar::Quantity)))
}

fn patch_strategy(options: &options::Field) -> PatchStrategy {
    // few: the patch directives of one field.
    let has = |directive: &str| options.patch().split(',').any(|given| given == directive);
    PatchStrategy {
        merge: has("merge"),
        replace: has("replace"),
        retain_keys: has("retainKeys"),
        merge_key: options.merge_key.as_deref().map(Into::into),
    }
}

fn union(options: options::Union) -> Union {
    Union {
        discriminator: options.discriminator.map(Into::into),
        members: options
            .members
            .into_iter()
            .map(|member| (member.field().into(), member.value().into()))
            .collect(),
    }
}
