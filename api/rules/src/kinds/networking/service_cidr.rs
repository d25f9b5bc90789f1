//! networking/v1 ServiceCIDR: ranges from which services get their cluster addresses.

use std::collections::BTreeSet;

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::address::{Cidr, Family, validate_cidr};
use crate::validate::tree::{Tree, set, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// Ranges of one object: one of each family.
const RANGES_MAX: usize = 2;
const IMMUTABLE: &str = "field is immutable";

/// The rules of ranges of cluster addresses.
#[derive(Debug)]
pub struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        if context.action == Action::Status {
            object_meta::keep_client_metadata(old, new);
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_ranges(new.at("spec"), &Path::new("spec").child("cidrs")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Object {
            errors.extend(validate_change(old.at("spec"), new.at("spec")));
        }
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.at("spec").texts("cidrs").join(",")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_ranges(spec: &Value, path: &Path) -> FieldErrors {
    let ranges = spec.texts("cidrs");
    if ranges.is_empty() {
        return FieldErrors::from(FieldError::required(path.clone(), "at least one CIDR required"));
    }
    if ranges.len() > RANGES_MAX {
        // The reference shows the spec, with its internal names.
        let value = json!({"CIDRs": spec.at("cidrs")});
        let detail = "may only hold up to 2 values";
        return FieldErrors::from(FieldError::invalid(path.clone(), &shown(&value), detail));
    }
    let mut errors = FieldErrors::new();
    for (at, range) in ranges.iter().numbered() {
        errors.extend(validate_cidr(&path.index(at), range));
    }
    let families: BTreeSet<Family> =
        ranges.iter().filter_map(|range| Cidr::parse(range)).map(Cidr::family).collect();
    let known = ranges.iter().filter(|range| Cidr::parse(range).is_some()).count();
    if known == RANGES_MAX && families.len() == 1 {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path.clone(), &shown(spec.at("cidrs")), detail));
    }
    errors
}

/// Ranges stay; a single one may get a second of the other family.
fn validate_change(old: &Value, new: &Value) -> FieldErrors {
    let (before, after, path) = (old.texts("cidrs"), new.texts("cidrs"), Path::new("spec").child("cidrs"));
    let mut errors = FieldErrors::new();
    let is_extended = before.len() == 1 && after.len() == RANGES_MAX;
    if before.len() != after.len() && !is_extended {
        errors.push(FieldError::invalid(path, &shown(new.at("cidrs")), IMMUTABLE));
        return errors;
    }
    for (at, (_, now)) in before.iter().zip(&after).enumerate().filter(|(_, (before, now))| before != now) {
        errors.push(FieldError::invalid_str(path.index(at), now, IMMUTABLE));
    }
    if is_extended {
        errors.extend(validate_ranges(new, &path));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_hostile, check_update, created, updated};

    #[test]
    fn ranges_are_one_of_each_family_at_most() {
        let object = |ranges: Value| json!({"spec": {"cidrs": ranges}});
        for (ranges, expected) in [
            (json!(["10.0.0.0/24", "2001:db8::/64"]), &[][..]),
            (json!([]), &["spec.cidrs: Required value: at least one CIDR required"]),
            (
                json!(["10.0.0.1/24"]),
                &[
                    "spec.cidrs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length",
                ],
            ),
            (
                json!(["10.0.0.0/24", "10.1.0.0/24"]),
                &[
                    "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each \
                   IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
                ],
            ),
        ] {
            check_create(&ServiceCidr, object(ranges), expected);
        }
        let old = || object(json!(["10.0.0.0/24"]));
        check_update(&ServiceCidr, old(), object(json!(["10.0.0.0/24", "2001:db8::/64"])), &[]);
        check_update(
            &ServiceCidr,
            old(),
            object(json!(["10.1.0.0/24"])),
            &["spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"],
        );
        check_update(
            &ServiceCidr,
            old(),
            object(json!([])),
            &["spec.cidrs: Invalid value: []: field is immutable"],
        );
        let stored = created(&ServiceCidr, old());
        let mut new = stored.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        let status = updated(&ServiceCidr, Action::Status, &stored, new);
        assert_eq!(status["metadata"], stored["metadata"]);
        check_hostile(&ServiceCidr);
    }
}
