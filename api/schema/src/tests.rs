//! Checks of the compiled tables.

use orch_proto::brand::{KUBERNETES, ORCH};

use super::*;

mod definitions;
mod owners;
mod random;
pub(crate) mod vectors;

#[test]
fn every_kind_compiles_under_every_brand() {
    for brand in [&ORCH, &KUBERNETES] {
        let schema = compile(brand).unwrap();
        assert!(schema.resources().len() > 60);
        assert!(schema.find_type("core.v1.Pod").is_some());
    }
}

#[test]
fn groups_and_extension_fields_carry_the_brand() {
    for (brand, group, field) in [
        (&ORCH, "rbac.authorization.orch.io", "x-orch-list-type"),
        (&KUBERNETES, "rbac.authorization.k8s.io", "x-kubernetes-list-type"),
    ] {
        let schema = compile(brand).unwrap();
        assert!(schema.resources().iter().any(|resource| resource.group == group));
        let props = schema.find_type("apiextensions.v1.JSONSchemaProps").unwrap();
        assert!(schema.get(props).field(field).is_some());
    }
}
