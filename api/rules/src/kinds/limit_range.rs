//! core/v1 LimitRange: bounds and defaults for what pods, their containers and volume claims ask for.

use std::collections::BTreeSet;

use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::quoted;
use orch_schema::quantity::Amount;
use orch_schema::value::Value;

use crate::kinds::pod::resources::{
    is_huge_pages_quota, is_native, validate_container_resource_name, validate_resource_name,
};
use crate::kinds::{Context, NameRule, Strategy, object_meta};
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, child_mut, items_mut, set, set_default};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const POD: &str = "Pod";
const CONTAINER: &str = "Container";
const CLAIM: &str = "PersistentVolumeClaim";
const TYPES: [&str; 3] = [POD, CONTAINER, CLAIM];

/// The rules of limit ranges.
#[derive(Debug)]
pub struct LimitRange;

impl Strategy for LimitRange {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        for limit in items_mut(child_mut(new, "spec"), "limits") {
            if limit.text("type") == CONTAINER {
                fill(limit, "max", "default");
                fill(limit, "default", "defaultRequest");
                fill(limit, "min", "defaultRequest");
            }
        }
    }

    // As in the reference, a range needs no name. Its own would be a second identifier, which it does not need.
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        let metadata = child_mut(new, "metadata");
        if metadata.text("name").is_empty() {
            let name = metadata.text("uid").to_owned();
            set(metadata, "name", name);
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_limits(context, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, _old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, true, NameRule::Dns1123Subdomain);
        errors.extend(validate_limits(context, new));
        errors
    }
}

/// Copies the amounts of `from` that `to` lacks.
fn fill(limit: &mut Value, from: &str, to: &str) {
    let given: Vec<(String, Value)> =
        limit.entries(from).into_iter().map(|(name, amount)| (name.to_owned(), amount.clone())).collect();
    if given.is_empty() {
        return;
    }
    let target = child_mut(limit, to);
    for (name, amount) in given {
        if !count_step() {
            break;
        }
        set_default(target, &name, amount);
    }
}

fn validate_limits(context: &Context<'_>, new: &Value) -> FieldErrors {
    let path = Path::new("spec").child("limits");
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, limit) in new.at("spec").items("limits").iter().numbered() {
        let (path, kind) = (path.index(at), limit.text("type"));
        errors.extend(validate_type(kind, &path.child("type")));
        if seen.is_repeated(kind) {
            errors.push(FieldError::duplicate(path.child("type"), &quoted(kind)));
        }
        errors.extend(validate_limit(context, limit, &path));
    }
    errors
}

fn validate_type(kind: &str, path: &Path) -> FieldErrors {
    let errors = invalid_each(path, kind, names::qualified_name(kind));
    // few: the types.
    if errors.is_empty() && !kind.contains('/') && !TYPES.contains(&kind) {
        let detail = "must be a standard limit type or fully qualified";
        return FieldErrors::from(FieldError::invalid_str(path.clone(), kind, detail));
    }
    errors
}

fn validate_limit(context: &Context<'_>, limit: &Value, path: &Path) -> FieldErrors {
    let kind = limit.text("type");
    let mut errors = FieldErrors::new();
    let mut resources = BTreeSet::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let (path, entries) = (path.child(field), limit.entries(field));
        if kind == POD && field.starts_with("default") {
            if !entries.is_empty() {
                errors.push(FieldError::forbidden(path, "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (name, _) in entries {
            let path = path.key(name);
            errors.extend(match kind {
                POD | CONTAINER => validate_container_resource_name(context.brand, name, &path),
                _ => validate_resource_name(name, &path),
            });
            resources.insert(name);
        }
    }
    if kind == CLAIM && ["min", "max"].into_iter().all(|field| !limit.at(field).has("storage")) {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(path.child("limits"), detail));
    }
    for resource in resources {
        let overcommits = is_native(context.brand, resource) && !is_huge_pages_quota(resource);
        errors.extend(Bounds::of(limit, resource).validate(path, overcommits));
    }
    errors
}

/// The amounts of one resource in one limit.
struct Bounds<'a> {
    resource: &'a str,
    min: Option<Amount>,
    max: Option<Amount>,
    default: Option<Amount>,
    default_request: Option<Amount>,
    ratio: Option<Amount>,
}

impl<'a> Bounds<'a> {
    fn of(limit: &Value, resource: &'a str) -> Self {
        let is_pod = limit.text("type") == POD;
        let amount = |field: &str| Amount::parse(limit.at(field).text(resource));
        let default = |field: &str| amount(field).filter(|_| !is_pod);
        Bounds {
            resource,
            min: amount("min"),
            max: amount("max"),
            default: default("default"),
            default_request: default("defaultRequest"),
            ratio: amount("maxLimitRequestRatio"),
        }
    }

    fn validate(&self, path: &Path, overcommits: bool) -> FieldErrors {
        let &Bounds { min, max, default, default_request, .. } = self;
        // Lower amount, higher amount, field and value of the error, and what the two amounts are called.
        let orders = [
            (min, max, "min", min, "min value", "max value"),
            (min, default_request, "defaultRequest", default_request, "min value", "default request value"),
            (default_request, max, "defaultRequest", default_request, "default request value", "max value"),
            (
                default_request,
                default,
                "defaultRequest",
                default_request,
                "default request value",
                "default limit value",
            ),
            (min, default, "default", min, "min value", "default value"),
            (default, max, "default", max, "default value", "max value"),
        ];
        let mut errors = FieldErrors::new();
        for (lower, higher, field, value, lower_name, higher_name) in orders {
            let (Some(lower), Some(higher), Some(value)) = (lower, higher, value) else { continue };
            if lower.quantity() > higher.quantity() {
                let detail = format!("{lower_name} {lower} is greater than {higher_name} {higher}");
                errors.push(self.invalid(path, field, value, &detail));
            }
        }
        errors.extend(self.validate_ratio(path));
        if let (false, Some(limit), Some(request)) = (overcommits, default, default_request)
            && limit.quantity() != request.quantity()
        {
            let resource = self.resource;
            let detail =
                format!("default value {limit} must equal to defaultRequest value {request} in {resource}");
            errors.push(self.invalid(path, "defaultRequest", request, &detail));
        }
        errors
    }

    fn validate_ratio(&self, path: &Path) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let Some(ratio) = self.ratio else { return errors };
        let field = "maxLimitRequestRatio";
        if ratio.quantity() < Amount::count(1).quantity() {
            errors.push(self.invalid(path, field, ratio, &format!("ratio {ratio} is less than 1")));
        }
        if let (Some(min), Some(max)) = (self.min, self.max) {
            let most = max.quantity().ratio_to(min.quantity());
            if ratio.quantity().ratio_to(Amount::count(1).quantity()) > most {
                let detail = format!("ratio {ratio} is greater than max/min = {most:.6}");
                errors.push(self.invalid(path, field, ratio, &detail));
            }
        }
        errors
    }

    fn invalid(&self, path: &Path, field: &str, value: Amount, detail: &str) -> FieldError {
        FieldError::invalid_str(path.child(field).key(self.resource), &value.to_string(), detail)
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, defaulted};

    fn check(limits: Value, expected: &[&str]) {
        check_create(&LimitRange, json!({"spec": {"limits": limits}}), expected);
    }

    #[test]
    fn containers_get_defaults_from_bounds() {
        let range = |limit: Value| json!({"spec": {"limits": [limit]}});
        for (given, expected) in [
            (
                json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}}),
                json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"},
                    "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}}),
            ),
            (json!({"type": "Pod", "max": {"cpu": "2"}}), json!({"type": "Pod", "max": {"cpu": "2"}})),
            (
                json!({"type": "Container", "default": {"cpu": "1"}}),
                json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}),
            ),
        ] {
            assert_eq!(defaulted(&LimitRange, range(given)), range(expected));
        }
        check_hostile(&LimitRange);
    }

    #[test]
    fn a_range_without_a_name_gets_one() {
        for (given, expected) in [("", "u"), ("own", "own")] {
            let mut range = json!({"metadata": {"name": given, "uid": "u"}});
            LimitRange.prepare_for_create(&CONTEXT, &mut range);
            assert_eq!(range["metadata"]["name"], expected);
        }
    }

    #[test]
    fn limit_types_are_known_and_distinct() {
        check(json!([{"type": "Pod"}, {"type": "example.com/x"}]), &[]);
        check(
            json!([{"type": "Node"}, {"type": "Pod"}, {"type": "Pod"}]),
            &[
                "spec.limits[0].type: Invalid value: \"Node\": must be a standard limit type or fully qualified",
                "spec.limits[2].type: Duplicate value: \"Pod\"",
            ],
        );
        check(
            json!([{"type": "Pod", "default": {"cpu": "1"}}]),
            &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        );
        check(
            json!([{"type": "PersistentVolumeClaim", "max": {"x": "1"}}]),
            &[
                "spec.limits[0].max[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but \
                 neither was provided",
            ],
        );
    }

    #[test]
    fn bounds_are_in_order() {
        check(
            json!([{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]),
            &[
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default \
                 request value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 1",
            ],
        );
        check(
            json!([{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"},
                "maxLimitRequestRatio": {"cpu": "3", "memory": "500m"}}]),
            &[
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = \
                 2.000000",
                "spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: \"500m\": ratio 500m is less than 1",
            ],
        );
        check(
            json!([{"type": "Container", "default": {"example.com/x": "2"},
                "defaultRequest": {"example.com/x": "1"}}]),
            &[
                "spec.limits[0].defaultRequest[example.com/x]: Invalid value: \"1\": default value 2 must equal to \
                 defaultRequest value 1 in example.com/x",
            ],
        );
    }
}
