//! core/v1 PersistentVolumeClaim: access modes, size, classes and sources; a spec that is immutable but for a few fields.

mod class;
mod source;
mod status;

use orch_proto::Brand;
use orch_schema::json;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

pub(super) use self::class::shown_class;
use self::class::{class_annotation, validate_attributes_class, validate_class};
use self::source::prepare_sources;
use self::status::validate_status;
use crate::Action;
use crate::kinds::pod::diff::claim_diff;
use crate::kinds::pod::resources::validate_quantity;
use crate::kinds::pod::warnings::fractional;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta, value_at};
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::{Tree, carry, carry_entries, child_mut, is_unchanged, set, set_default_text};
use crate::validate::{FieldError, FieldErrors, Path, names};

const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOnce", "RWO"),
    ("ReadWriteOncePod", "RWOP"),
];
const UNCHANGED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// The rules of volume claims.
#[derive(Debug)]
pub struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        set_default_text(child_mut(new, "status"), "phase", "Pending");
        set_default_text(child_mut(new, "spec"), "volumeMode", "Filesystem");
    }

    fn prepare_for_create(&self, context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({"phase": "Pending"}));
        prepare_sources(context.brand, &Value::Null, new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        prepare_sources(context.brand, old, new);
        object_meta::separate_status(context, old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_claim_spec(context, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            errors.extend(validate_status(context.brand, new.at("status")));
            return errors;
        }
        errors.extend(object_meta::whole(context, new, true, NameRule::Dns1123Subdomain));
        errors.extend(validate_claim_spec(context, new.at("spec"), &Path::new("spec")));
        errors.extend(validate_kept(context.brand, old, new));
        errors
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        value_at(object, if name == "name" { "metadata.name" } else { name })
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        if context.action == Action::Status {
            return Vec::new();
        }
        let annotation = class_annotation(context.brand);
        let mut warnings = Vec::new();
        if new.at("metadata").at("annotations").has(&annotation) {
            warnings.push(format!(
                "metadata.annotations[{annotation}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        warnings.extend(warn_about_sizes(new.at("spec"), &Path::new("spec")));
        warnings
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let going = object.at("metadata").has("deletionTimestamp");
        let bound = !spec.text("volumeName").is_empty();
        let or_unset = |field: &str| json!(spec.at(field).as_str().unwrap_or("<unset>"));
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(if going { "Terminating" } else { status.text("phase") }),
            json!(spec.text("volumeName")),
            json!(if bound { status.at("capacity").at("storage").as_str().unwrap_or("0") } else { "" }),
            json!(if bound { access_modes(status) } else { String::new() }),
            json!(shown_class(object)),
            or_unset("volumeAttributesClassName"),
            json!(age::age(object, now)),
            or_unset("volumeMode"),
        ])
    }
}

/// Warnings about sizes of storage that are no whole number of bytes. `spec` is that of a claim, or of a template of one.
pub(crate) fn warn_about_sizes(spec: &Value, path: &Path) -> Vec<String> {
    let path = path.child("resources");
    let sizes = ["requests", "limits"].into_iter().filter_map(|list| {
        let size = spec.at("resources").at(list).at("storage").as_str()?;
        fractional(size, &path.child(list).key("storage"))
    });
    sizes.collect()
}

/// Rules for the spec of a claim, in a claim or in the template of one.
pub(crate) fn validate_claim_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_access_modes(spec, &path.child("accessModes"));
    errors.extend(validate_label_selector(spec.at("selector"), &path.child("selector")));
    let size = spec.at("resources").at("requests").at("storage");
    let size_path = path.child("resources").key("storage");
    match size.as_str().and_then(Quantity::parse) {
        None => errors.push(FieldError::required(size_path, "")),
        Some(amount) if amount <= Quantity::ZERO => {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid_str(size_path, size.as_str().unwrap_or_default(), detail));
        }
        Some(_) => errors.extend(validate_quantity(context.brand, "storage", size, &size_path)),
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.text(field);
        if !class.is_empty() {
            errors.extend(invalid_each(&path.child(field), class, names::dns1123_subdomain(class)));
        }
    }
    let modes = ["Block", "Filesystem"];
    if let Some(mode) = spec.at("volumeMode").as_str().filter(|mode| !modes.contains(mode)) {
        errors.push(FieldError::not_supported(path.child("volumeMode"), mode, &modes));
    }
    let (old, new) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for field in ["dataSource", "dataSourceRef"] {
        if spec.has(field) {
            errors.extend(validate_source(spec.at(field), &path.child(field)));
        }
    }
    let namespace = new.text("namespace");
    if !namespace.is_empty() {
        let path = path.child("dataSourceRef").child("namespace");
        errors.extend(invalid_each(&path, namespace, names::dns1123_label(namespace)));
    }
    if old.is_object() && new.is_object() {
        let is_same =
            ["apiGroup", "kind", "name"].into_iter().all(|field| old.text(field) == new.text(field));
        let detail = if !namespace.is_empty() {
            Some("may not be specified when dataSourceRef.namespace is specified")
        } else {
            (!is_same).then_some("must match dataSourceRef")
        };
        // The reference shows the path of the field in place of its value, and of that no part.
        errors.extend(detail.map(|detail| FieldError::invalid(path.clone(), "{}", detail)));
    }
    errors
}

fn validate_access_modes(spec: &Value, path: &Path) -> FieldErrors {
    let modes = spec.texts("accessModes");
    if modes.is_empty() {
        return FieldErrors::from(FieldError::required(path.clone(), "at least 1 access mode is required"));
    }
    let known = ACCESS_MODES.map(|(mode, _)| mode);
    let unknown = modes.iter().filter(|mode| !known.contains(mode));
    let mut errors: FieldErrors =
        unknown.map(|mode| FieldError::not_supported(path.clone(), mode, &known)).collect();
    // few: four modes.
    let supported: Vec<&str> = known.into_iter().filter(|mode| modes.contains(mode)).collect();
    // few: the modes of one claim.
    if supported.len() > 1 && supported.contains(&"ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(path.clone(), detail));
    }
    errors
}

fn validate_source(source: &Value, path: &Path) -> FieldErrors {
    let missing = ["name", "kind"].into_iter().filter(|field| source.text(field).is_empty());
    let mut errors: FieldErrors = missing.map(|field| FieldError::required(path.child(field), "")).collect();
    if source.text("apiGroup").is_empty() && source.text("kind") != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid_str(path.clone(), source.text("kind"), detail));
    }
    let group = source.text("apiGroup");
    if !group.is_empty() {
        errors.extend(invalid_each(&path.child("apiGroup"), group, names::dns1123_subdomain(group)));
    }
    errors
}

fn validate_kept(brand: &Brand, old: &Value, new: &Value) -> FieldErrors {
    let (before, after, path) = (old.at("spec"), new.at("spec"), Path::new("spec"));
    let mut allowed = after.clone();
    if before.text("volumeName").is_empty() {
        carry(before, &mut allowed, "volumeName");
    }
    let mut errors: FieldErrors = validate_class(brand, old, new, &mut allowed).into_iter().collect();
    if new.at("status").text("phase") == "Bound" {
        if after.at("resources").has("requests") {
            carry_entries(
                before.at("resources"),
                child_mut(&mut allowed, "resources"),
                "requests",
                &["storage"],
            );
        }
        carry(before, &mut allowed, "volumeAttributesClassName");
    }
    if !is_unchanged(before, &allowed) {
        let diff = claim_diff(before, &allowed);
        errors.push(FieldError::forbidden(path.clone(), &format!("{UNCHANGED}\n{diff}")));
    }
    let size = |amounts: &Value| Quantity::parse(amounts.text("storage")).unwrap_or_default();
    let (old_size, new_size) =
        (size(before.at("resources").at("requests")), size(after.at("resources").at("requests")));
    if new_size < old_size && new_size <= size(old.at("status").at("capacity")) {
        let path = path.child("resources").child("requests").child("storage");
        errors.push(FieldError::forbidden(path, "field can not be less than status.capacity"));
    }
    errors.extend(immutable(after.at("volumeMode"), before.at("volumeMode"), Path::new("volumeMode")));
    errors.extend(validate_attributes_class(old, new));
    errors
}

/// The access modes of a claim's status or a volume's spec as tables show them: `RWO,ROX`.
pub(super) fn access_modes(of: &Value) -> String {
    let given = of.texts("accessModes");
    let order = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let short = |mode: &&str| ACCESS_MODES.iter().find(|(name, _)| name == mode).map(|(_, short)| *short);
    order.iter().filter(|mode| given.contains(mode)).filter_map(short).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    pub(super) fn claim(size: &str) -> Value {
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
    }

    #[test]
    fn old_annotations_and_parts_of_bytes_are_warned_of() {
        let claim = json!({
            "metadata": {"annotations": {"volume.beta.orch.io/storage-class": "x"}},
            "spec": {"resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "1Gi"}}},
        });
        assert_eq!(
            PersistentVolumeClaim.warnings(&CONTEXT, None, &claim),
            [
                "metadata.annotations[volume.beta.orch.io/storage-class]: deprecated since v1.8; use \"storageClassName\" \
                 attribute instead",
                "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            ]
        );
    }

    #[test]
    fn a_new_claim_waits() {
        let object = created(&PersistentVolumeClaim, claim("1Gi"));
        assert_eq!(
            (&object["status"], &object["spec"]["volumeMode"]),
            (&json!({"phase": "Pending"}), &json!("Filesystem"))
        );
        assert_eq!(
            json!(PersistentVolumeClaim.table_row(&object, CONTEXT.now)),
            json!(["n", "Pending", "", "", "", "", "<unset>", "<unknown>", "Filesystem"])
        );
        let mut bound = object;
        set(child_mut(&mut bound, "spec"), "volumeName", "v");
        assert_eq!(PersistentVolumeClaim.table_row(&bound, CONTEXT.now).unwrap()[3], "0");
    }

    #[test]
    fn a_claim_says_how_and_how_much() {
        check_create(&PersistentVolumeClaim, claim("1Gi"), &[]);
        check_create(
            &PersistentVolumeClaim,
            json!({"spec": {}}),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        );
        check_create(
            &PersistentVolumeClaim,
            claim("0"),
            &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
        );
        check_create(
            &PersistentVolumeClaim,
            json!({"spec": {"accessModes": ["ReadWriteOncePod", "X"], "resources": {"requests": {"storage": "1"}}}}),
            &[
                "spec.accessModes: Unsupported value: \"X\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \
                 \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            ],
        );
        check_hostile(&PersistentVolumeClaim);
    }

    #[test]
    fn a_claim_stays_as_it_is() {
        let mut bound = claim("1Gi");
        set(child_mut(&mut bound, "spec"), "volumeName", "pv");
        check_update(&PersistentVolumeClaim, claim("1Gi"), bound, &[]);
        let old = created(&PersistentVolumeClaim, claim("1Gi"));
        let mut new = old.clone();
        set(child_mut(&mut new, "spec"), "accessModes", json!(["ReadOnlyMany"]));
        let errors = PersistentVolumeClaim.validate_update(&CONTEXT, &old, &new);
        let text = errors[0].to_string();
        assert!(text.starts_with(&format!("spec: Forbidden: {UNCHANGED}\n@@ ")), "{text}");
        assert!(text.contains("-  \"ReadWriteOnce\"\n+  \"ReadOnlyMany\"\n"), "{text}");
    }
}
