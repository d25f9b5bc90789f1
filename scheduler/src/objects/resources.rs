//! Amounts of resources: CPU in milli-units, everything else in units.
//!
//! Owns the compact form and arithmetic on it. Resources beyond CPU, memory and ephemeral storage are a short list
//! sorted by name symbol.

use std::collections::BTreeMap;

use crate::api::resource::Quantity;

use super::intern::{Interner, Symbol};
use super::quantity;
use super::requests::Amounts;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub cpu_milli: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Every other resource; sorted by name. Entries of zero stay: the name was given.
    pub scalars: Vec<(Symbol, i64)>,
}

impl Resources {
    /// Compiles a list of resources. `pods`, which is a count of its own, is left out.
    pub fn compile(interner: &mut Interner, list: &BTreeMap<String, Quantity>) -> Resources {
        let mut resources = Resources::default();
        for (name, amount) in list {
            match name.as_str() {
                "cpu" => resources.cpu_milli = quantity::milli(&amount.string),
                "memory" => resources.memory = quantity::units(&amount.string),
                "ephemeral-storage" => resources.ephemeral_storage = quantity::units(&amount.string),
                "pods" => {}
                name => {
                    let symbol = interner.intern(name);
                    *resources.scalar_mut(symbol) = quantity::units(&amount.string);
                }
            }
        }
        resources
    }

    /// The amount of a resource beyond the three.
    pub fn scalar(&self, name: Symbol) -> i64 {
        self.scalars.iter().find(|(n, _)| *n == name).map_or(0, |(_, amount)| *amount)
    }

    /// The entry of a resource beyond the three, added if it is absent.
    pub fn scalar_mut(&mut self, name: Symbol) -> &mut i64 {
        let at = match self.scalars.binary_search_by_key(&name, |(n, _)| *n) {
            Ok(at) => at,
            Err(at) => {
                self.scalars.insert(at, (name, 0));
                at
            }
        };
        &mut self.scalars[at].1
    }

    fn merge(&mut self, other: &Resources, combine: impl Fn(i64, i64) -> i64) {
        self.cpu_milli = combine(self.cpu_milli, other.cpu_milli);
        self.memory = combine(self.memory, other.memory);
        self.ephemeral_storage = combine(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            let mine = self.scalar_mut(*name);
            *mine = combine(*mine, *amount);
        }
    }
}

impl Amounts for Resources {
    /// Adds `others`, saturating.
    fn add(&mut self, others: &Resources) {
        self.merge(others, i64::saturating_add);
    }

    fn maximize(&mut self, others: &Resources) {
        self.merge(others, i64::max);
    }

    fn replace(&mut self, others: Resources, names: &BTreeMap<String, Quantity>) {
        if names.contains_key("cpu") {
            self.cpu_milli = others.cpu_milli;
        }
        if names.contains_key("memory") {
            self.memory = others.memory;
        }
        for (name, amount) in others.scalars {
            *self.scalar_mut(name) = amount;
        }
    }
}
