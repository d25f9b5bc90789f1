//! Schemas: types by their ids and names.
//!
//! A schema may stand on a base: it refers to the base's types without copying them, and shares ownership of them. Its own types
//! are freed with it, so that no arena only grows.
//!
//! Invariant: an id below the number of the base's types is the base's id of the same type.

use std::collections::HashMap;
use std::sync::Arc;

use orch_proto::Brand;

use super::{ObjectType, TypeId};
use crate::amounts::AmountFields;
use crate::compile::compile;
use crate::resource::ResourceType;

/// All object types that refer to each other: those of the base, and its own.
#[derive(Debug, Default)]
pub struct Schema {
    base: Option<Arc<Schema>>,
    /// Number of the base's types, and the id of the first own one.
    first: usize,
    pub(super) types: Box<[ObjectType]>,
    by_name: HashMap<Box<str>, TypeId>,
    amount_fields: AmountFields,
    resources: Vec<ResourceType>,
}

impl Schema {
    /// A schema of these types, each known by its name; ids are positions.
    pub fn new(types: Vec<ObjectType>) -> Self {
        Self::on(None, types)
    }

    /// A schema of these types beside those of `base`. Ids are those of the base, and behind them positions in `types`. Types
    /// without a name are found by their ids alone.
    ///
    /// # Panics
    /// There are more than 2^32 types, which no limit of a definition allows.
    pub fn over(base: Arc<Schema>, types: Vec<ObjectType>) -> Self {
        Self::on(Some(base), types)
    }

    fn on(base: Option<Arc<Schema>>, types: Vec<ObjectType>) -> Self {
        let first = base.as_ref().map_or(0, |base| base.len());
        let ids = u32::try_from(first).expect("types are fewer than 2^32")..;
        let named = ids.zip(&types).filter(|(_, ty)| !ty.name.is_empty());
        let by_name = named.map(|(id, ty)| (ty.name.clone(), TypeId(id))).collect();
        let amount_fields = AmountFields::of(&types, base.as_deref());
        Self { base, first, amount_fields, types: types.into(), by_name, resources: Vec::new() }
    }

    /// The schema with the definitions of its resources.
    #[must_use]
    pub fn with_resources(mut self, resources: Vec<ResourceType>) -> Self {
        self.resources = resources;
        self
    }

    /// The kinds that are built in, with the names of `brand`.
    ///
    /// # Panics
    /// Where a `.proto` file contradicts itself. They are part of the program, and a test compiles them all.
    pub fn builtin(brand: &'static Brand) -> Self {
        compile(brand).expect("the embedded descriptors compile: a test does the same")
    }

    /// Every resource that has a definition here, not in the base, in no special order; which of them are served is the
    /// caller's choice.
    pub fn resources(&self) -> &[ResourceType] {
        &self.resources
    }

    /// The positions of the fields of the type behind `id` that hold amounts, or hold objects with amounts.
    pub(crate) fn amount_fields(&self, id: TypeId) -> &[usize] {
        let (owner, at) = self.owner(id);
        owner.amount_fields.get(at)
    }

    /// The number of types, those of the base included; their ids are the numbers below it.
    pub fn len(&self) -> usize {
        self.first + self.types.len()
    }

    /// Whether there is no type at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type behind `id`. An id comes from this schema or its base, so it is always there.
    pub fn get(&self, id: TypeId) -> &ObjectType {
        let (owner, at) = self.owner(id);
        &owner.types[at]
    }

    /// The type called `name` (`core.v1.ConfigMap`), of this schema or its base.
    pub fn find_type(&self, name: &str) -> Option<TypeId> {
        let own = self.by_name.get(name).copied();
        own.or_else(|| self.base.as_ref()?.find_type(name))
    }

    /// The schema whose types this one shares.
    pub fn base(&self) -> Option<&Arc<Schema>> {
        self.base.as_ref()
    }

    /// The schema that owns a type, and the type's place there.
    fn owner(&self, id: TypeId) -> (&Schema, usize) {
        let at = id.0 as usize;
        match &self.base {
            Some(base) if at < self.first => base.owner(id),
            _ => (self, at - self.first),
        }
    }
}
