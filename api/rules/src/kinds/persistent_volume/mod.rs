//! core/v1 PersistentVolume: capacity, access modes and class; one source, which never changes.

mod kept;
mod source;

use orch_schema::json;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use self::kept::validate_kept;
use self::source::{source_of, validate_sources};
use crate::Action;
use crate::kinds::pod::defaults::{default_host_path, with_host_path_type};
use crate::kinds::pod::scheduling::validate_node_selector;
use crate::kinds::volume_claim::{access_modes, shown_class};
use crate::kinds::{Cell, Context, NameRule, Strategy, age, node_label, object_meta};
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{
    Tree, carry, child_mut, is_unchanged, set, set_default_text, shown, sorted_entries,
};
use crate::validate::{FieldError, FieldErrors, Path, names};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const INLINE: &str = "may not be specified in the context of inline volumes";

/// Sources that no longer work, and since when.
const DEPRECATED: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The rules of volumes.
#[derive(Debug)]
pub struct PersistentVolume;

/// Where a volume's spec stands.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// In a volume.
    Object {
        /// Its name.
        name: &'a str,
        /// The affinity that it has already; null for a new volume.
        old_affinity: &'a Value,
    },
    /// In an attachment, without capacity, class and affinity.
    Inline,
}

impl Strategy for PersistentVolume {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        set_default_text(child_mut(new, "status"), "phase", "Pending");
        let spec = child_mut(new, "spec");
        set_default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_default_text(spec, "volumeMode", "Filesystem");
        default_host_path(spec);
    }

    fn prepare_for_create(&self, context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({"phase": "Pending", "lastPhaseTransitionTime": context.now}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        if context.action == Action::Status {
            date_phase(context.now, old.at("status"), child_mut(new, "status"));
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_object(context, &Value::Null, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        if context.action == Action::Status {
            let mut errors = object_meta::on_update(context, old, new);
            if new.at("metadata").text("resourceVersion").is_empty() {
                errors.push(FieldError::required(Path::new("resourceVersion"), ""));
            }
            return errors;
        }
        let mut errors = object_meta::whole(context, new, false, NameRule::Dns1123Subdomain);
        errors.extend(validate_object(context, old, new));
        let before = with_host_path_type(old.at("spec"));
        errors.extend(validate_kept(context.brand, &before, new.at("spec")));
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        if context.action == Action::Status {
            return Vec::new();
        }
        let (spec, annotations) = (new.at("spec"), new.at("metadata").at("annotations"));
        let mut warnings = Vec::new();
        for (name, since) in [
            ("storage-class", "v1.8; use \"storageClassName\" attribute instead"),
            ("mount-options", "v1.31; use \"mountOptions\" attribute instead"),
        ] {
            let key = beta_annotation(context, name);
            if annotations.get(&key).is_some() {
                warnings.push(format!("metadata.annotations[{key}]: deprecated since {since}"));
            }
        }
        if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
            warnings.push(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
                 approach is to use dynamic provisioning."
                    .to_owned(),
            );
        }
        let path = Path::new("spec").child("nodeAffinity").child("required");
        let required = spec.at("nodeAffinity").at("required");
        warnings.extend(node_label::warn_about_node_selector(context.brand, required, &path));
        let deprecated = DEPRECATED.iter().filter(|(source, _, _)| spec.has(source));
        warnings.extend(deprecated.map(|(_, shown, since)| format!("spec.{shown}: {since}")));
        warnings
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let (spec, status, metadata) = (object.at("spec"), object.at("status"), object.at("metadata"));
        let claim = spec.at("claimRef");
        let claim = match claim.is_object() {
            true => format!("{}/{}", claim.text("namespace"), claim.text("name")),
            false => String::new(),
        };
        let or_unset = |field: &str| json!(spec.at(field).as_str().unwrap_or("<unset>"));
        let is_going = metadata.has("deletionTimestamp");
        Some(vec![
            metadata.at("name").clone(),
            json!(spec.at("capacity").at("storage").as_str().unwrap_or("0")),
            json!(access_modes(spec)),
            json!(spec.text("persistentVolumeReclaimPolicy")),
            json!(if is_going { "Terminating" } else { status.text("phase") }),
            json!(claim),
            json!(shown_class(object)),
            or_unset("volumeAttributesClassName"),
            json!(status.text("reason")),
            json!(age::age(object, now)),
            or_unset("volumeMode"),
        ])
    }
}

fn beta_annotation(context: &Context<'_>, name: &str) -> String {
    format!("volume.beta.{}/{name}", context.brand.label_domain)
}

/// Notes when the phase changed, unless the client says when.
fn date_phase(now: &str, old: &Value, new: &mut Value) {
    let field = "lastPhaseTransitionTime";
    let is_same_phase = old.text("phase") == new.text("phase");
    if is_same_phase && !new.has(field) {
        carry(old, new, field);
    } else if !is_same_phase && (!new.has(field) || new.at(field) == old.at(field)) {
        set(new, field, now);
    }
}

/// Rules for a whole volume. `old` is null for a new one.
fn validate_object(context: &Context<'_>, old: &Value, volume: &Value) -> FieldErrors {
    let (metadata, spec) = (volume.at("metadata"), volume.at("spec"));
    let place =
        Place::Object { name: metadata.text("name"), old_affinity: old.at("spec").at("nodeAffinity") };
    let mut errors = validate_spec(context, place, spec, &Path::new("spec"));
    let key = beta_annotation(context, "mount-options");
    if metadata.at("annotations").get(&key).is_some()
        && !source_of(spec).is_some_and(|found| found.mounts_options)
    {
        let path = Path::new("metadata").child("annotations").child(&key);
        errors.push(FieldError::forbidden(path, "may not specify mount options for this volume type"));
    }
    errors
}

/// Rules for the spec of a volume within an attachment.
pub(super) fn validate_inline_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    validate_spec(context, Place::Inline, spec, path)
}

fn validate_spec(context: &Context<'_>, place: Place<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if matches!(place, Place::Inline) {
        let given = ["claimRef", "capacity"].into_iter().filter(|field| !spec.is_empty_at(field));
        errors.extend(given.map(|field| FieldError::forbidden(path.child(field), INLINE)));
        if !spec.has("csi") {
            let detail = "has to be specified in the context of inline volumes";
            errors.push(FieldError::required(path.child("csi"), detail));
        }
    }
    errors.extend(validate_access_modes(&spec.texts("accessModes"), &path.child("accessModes")));
    if matches!(place, Place::Object { .. }) {
        errors.extend(validate_capacity(spec.at("capacity"), &path.child("capacity")));
    }
    errors.extend(validate_reclaim_policy(place, spec, path));
    if spec.has("nodeAffinity") {
        let path = path.child("nodeAffinity");
        match place {
            Place::Inline => errors.push(FieldError::forbidden(path, INLINE)),
            // An affinity from before the check of its values stays.
            Place::Object { old_affinity, .. }
                if !old_affinity.is_null() && is_unchanged(old_affinity, spec.at("nodeAffinity")) => {}
            Place::Object { .. } => errors.extend(validate_affinity(spec.at("nodeAffinity"), &path)),
        }
    }
    let name = match place {
        Place::Object { name, .. } => name,
        Place::Inline => "",
    };
    errors.extend(validate_sources(context, spec, name, path));
    errors.extend(validate_classes(place, spec, path));
    errors
}

fn validate_access_modes(modes: &[&str], path: &Path) -> FieldErrors {
    if modes.is_empty() {
        return FieldErrors::from(FieldError::required(path.clone(), ""));
    }
    // few: four modes.
    let is_known = |mode: &&&str| ACCESS_MODES.contains(mode);
    let unknown = modes.iter().filter(|mode| !is_known(mode));
    let mut errors: FieldErrors =
        unknown.map(|mode| FieldError::not_supported(path.clone(), mode, &ACCESS_MODES)).collect();
    let (alone, others): (Vec<&&str>, Vec<&&str>) =
        modes.iter().filter(is_known).partition(|mode| **mode == "ReadWriteOncePod");
    if !alone.is_empty() && !others.is_empty() {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(path.clone(), detail));
    }
    errors
}

fn validate_capacity(capacity: &Value, path: &Path) -> FieldErrors {
    let amounts = capacity.as_object().map(|amounts| amounts.len()).unwrap_or_default();
    let mut errors = FieldErrors::new();
    if amounts == 0 {
        errors.push(FieldError::required(path.clone(), ""));
    }
    if amounts != 1 || !capacity.has("storage") {
        errors.push(FieldError::not_supported_value(path.clone(), &shown(capacity), &["storage"]));
    }
    for (name, amount) in sorted_entries(capacity) {
        let path = path.key(name);
        let Some(quantity) = amount.as_str().and_then(Quantity::parse) else { continue };
        if quantity.is_negative() {
            let units = quantity.units().unwrap_or(i64::MIN).to_string();
            errors.push(FieldError::invalid(path.clone(), &units, "must be a valid resource quantity"));
        }
        if quantity <= Quantity::ZERO {
            let text = amount.as_str().unwrap_or_default();
            errors.push(FieldError::invalid_str(path, text, "must be greater than zero"));
        }
    }
    errors
}

fn validate_reclaim_policy(place: Place<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let (policy, path) =
        (spec.text("persistentVolumeReclaimPolicy"), path.child("persistentVolumeReclaimPolicy"));
    let mut errors = FieldErrors::new();
    match place {
        Place::Inline if !matches!(policy, "" | "Retain") => {
            let detail = "may only be Retain in the context of inline volumes";
            errors.push(FieldError::forbidden(path, detail));
        }
        // few: three policies.
        Place::Object { .. } if !policy.is_empty() && !RECLAIM_POLICIES.contains(&policy) => {
            errors.push(FieldError::not_supported(path, policy, &RECLAIM_POLICIES));
        }
        _ => {}
    }
    errors
}

/// Whether the path leads to the root of the host's file system.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn validate_affinity(affinity: &Value, path: &Path) -> FieldErrors {
    let path = path.child("required");
    match affinity.at("required") {
        Value::Null => {
            FieldErrors::from(FieldError::required(path, "must specify required node constraints"))
        }
        required => validate_node_selector(required, &path),
    }
}

fn validate_classes(place: Place<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let is_of_root = spec.at("hostPath").at("path").as_str().is_some_and(is_root);
    if is_of_root && spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let path = path.child("persistentVolumeReclaimPolicy");
        errors.push(FieldError::forbidden(path, "may not be 'recycle' for a hostPath mount of '/'"));
    }
    let (class, class_path) = (spec.text("storageClassName"), path.child("storageClassName"));
    match place {
        _ if class.is_empty() => {}
        Place::Inline => errors.push(FieldError::forbidden(class_path, INLINE)),
        Place::Object { .. } => {
            errors.extend(invalid_each(&class_path, class, names::dns1123_subdomain(class)))
        }
    }
    if let Some(mode) = spec.at("volumeMode").as_str() {
        let path = path.child("volumeMode");
        match place {
            Place::Inline if mode != "Filesystem" => {
                let detail =
                    "may not specify volumeMode other than Filesystem in the context of inline volumes";
                errors.push(FieldError::forbidden(path, detail));
            }
            // few: two modes.
            Place::Object { .. } if !VOLUME_MODES.contains(&mode) => {
                errors.push(FieldError::not_supported(path, mode, &VOLUME_MODES));
            }
            _ => {}
        }
    }
    if let Some(class) = spec.at("volumeAttributesClassName").as_str() {
        let class_path = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.push(FieldError::required(class_path, "an empty string is disallowed"));
        } else {
            errors.extend(invalid_each(&class_path, class, names::dns1123_subdomain(class)));
        }
        if !spec.has("csi") {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required(path.child("csi"), detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests;
