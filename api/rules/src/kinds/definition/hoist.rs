//! The places in messages: which fields of the versions the reference reports above them.
//!
//! The reference judges a definition in an older form. A field that all versions have alike stands above them there (with one
//! version always), and errors about it name that place, such as `spec.validation.openAPIV3Schema`, once.

use orch_schema::value::Value;

use crate::validate::tree::{Tree, is_unchanged};

/// Which fields of the versions are reported above them. Each is judged apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hoisted {
    pub(super) schema: bool,
    pub(super) subresources: bool,
    pub(super) columns: bool,
    pub(super) selectable_fields: bool,
}

impl Hoisted {
    /// Those of `versions`.
    pub(super) fn of(versions: &[Value]) -> Hoisted {
        let Some((first, others)) = versions.split_first() else { return Hoisted::default() };
        // once: each version is compared with the first.
        let alike = |field: &str| others.iter().all(|other| is_unchanged(first.at(field), other.at(field)));
        Hoisted {
            schema: alike("schema"),
            subresources: alike("subresources"),
            columns: alike("additionalPrinterColumns"),
            selectable_fields: alike("selectableFields"),
        }
    }
}
