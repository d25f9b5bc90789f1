//! storage/v1 VolumeAttachment: a volume that is to be attached to a node; its spec never changes.

use std::borrow::Cow;

use orch_schema::json;
use orch_schema::value::Value;

use super::validate_driver_name;
use crate::Action;
use crate::kinds::persistent_volume::validate_inline_spec;
use crate::kinds::pod::defaults::{default_host_path, with_host_path_type};
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::tree::{Tree, child_mut, existing_mut, set};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Most bytes of what an attacher notes of an attachment.
const METADATA_BYTES_MAX: usize = 256 << 10;
/// Most bytes of an error's message.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The rules of volume attachments.
#[derive(Debug)]
pub struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        let source = existing_mut(new, "spec").and_then(|spec| existing_mut(spec, "source"));
        if let Some(inline) = source.and_then(|source| existing_mut(source, "inlineVolumeSpec")) {
            default_host_path(inline);
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({"attached": false}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        if context.action == Action::Status {
            for field in ["annotations", "finalizers", "labels", "ownerReferences"] {
                object_meta::keep_metadata(old, new, field);
            }
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate(context, new));
        let (spec, path) = (new.at("spec"), Path::new("spec"));
        errors.extend(validate_driver_name(spec.text("attacher"), &path.child("attacher")));
        let volume = spec.at("source").text("persistentVolumeName");
        if !volume.is_empty() {
            let path = path.child("source").child("persistentVolumeName");
            errors.extend(invalid_each(&path, volume, names::dns1123_subdomain(volume)));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        // The reference checks the whole object twice: by itself, and with the change.
        let mut errors = FieldErrors::new();
        for _ in 0..2 {
            errors.extend(object_meta::whole(context, new, false, NameRule::Dns1123Subdomain));
            errors.extend(validate(context, new));
        }
        let mut before = Cow::Borrowed(old.at("spec"));
        if let Cow::Owned(inline) = with_host_path_type(old.at("spec").at("source").at("inlineVolumeSpec")) {
            set(child_mut(before.to_mut(), "source"), "inlineVolumeSpec", inline);
        }
        errors.extend(immutable(new.at("spec"), &before, Path::new("spec")));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.text("attacher")),
            json!(spec.at("source").text("persistentVolumeName")),
            json!(spec.text("nodeName")),
            json!(object.at("status").flag("attached")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate(context: &Context<'_>, attachment: &Value) -> FieldErrors {
    let (spec, path) = (attachment.at("spec"), Path::new("spec"));
    let mut errors = FieldErrors::new();
    if spec.text("attacher").is_empty() {
        errors.push(FieldError::required(path.child("attacher"), ""));
    }
    errors.extend(validate_source(context, spec.at("source"), &path.child("source")));
    let node = spec.text("nodeName");
    errors.extend(invalid_each(&path.child("nodeName"), node, names::dns1123_subdomain(node)));
    let (status, path) = (attachment.at("status"), Path::new("status"));
    let metadata = status.at("attachmentMetadata").as_object().into_iter().flatten();
    let bytes: usize =
        metadata.map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
    if bytes > METADATA_BYTES_MAX {
        errors.push(FieldError::too_long(path.child("attachmentMetadata"), METADATA_BYTES_MAX));
    }
    for field in ["attachError", "detachError"] {
        errors.extend(validate_error(status.at(field), &path.child(field)));
    }
    errors
}

fn validate_source(context: &Context<'_>, source: &Value, path: &Path) -> FieldErrors {
    let (inline, name) = (source.at("inlineVolumeSpec"), source.at("persistentVolumeName"));
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let error = match (inline.is_null(), name.as_str()) {
        (true, None) => FieldError::required(path.clone(), one),
        (false, Some(_)) => FieldError::forbidden(path.clone(), one),
        (true, Some("")) => {
            let detail = "must specify non empty persistentVolumeName";
            FieldError::required(path.child("persistentVolumeName"), detail)
        }
        (true, Some(_)) => return FieldErrors::new(),
        (false, None) => return validate_inline_spec(context, inline, &path.child("inlineVolumeSpec")),
    };
    FieldErrors::from(error)
}

/// The reference names the bound of the metadata where a message is too long.
fn validate_error(error: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if error.text("message").len() > MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long(path.child("message"), METADATA_BYTES_MAX));
    }
    if let Some(code) = error.int("errorCode").filter(|&code| code < 0) {
        let detail = "must be between 0 and 2147483647, inclusive";
        errors.push(FieldError::invalid(path.child("errorCode"), &code.to_string(), detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{
        CONTEXT, check_create, check_hostile, check_update, check_update_in, created,
    };

    fn attachment(source: Value) -> Value {
        let spec = json!({"attacher": "d.example.com", "nodeName": "n1", "source": source});
        json!({"metadata": {"namespace": ""}, "spec": spec})
    }

    #[test]
    fn an_attachment_names_driver_node_and_one_volume() {
        check_create(&VolumeAttachment, attachment(json!({"persistentVolumeName": "v"})), &[]);
        let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        check_create(
            &VolumeAttachment,
            json!({"spec": {}}),
            &[
                "spec.attacher: Required value",
                &format!("spec.source: Required value: {one}"),
                "spec.nodeName: Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                 characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
                 used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.attacher: Required value",
            ],
        );
        check_create(
            &VolumeAttachment,
            attachment(json!({"persistentVolumeName": "v", "inlineVolumeSpec": {}})),
            &[&format!("spec.source: Forbidden: {one}")],
        );
        check_create(
            &VolumeAttachment,
            attachment(json!({"persistentVolumeName": ""})),
            &[
                "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
            ],
        );
        check_create(
            &VolumeAttachment,
            attachment(
                json!({"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}),
            ),
            &[
                "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
                "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
                "spec.source.inlineVolumeSpec: Required value: must specify a volume type",
            ],
        );
        check_hostile(&VolumeAttachment);
        let object = created(&VolumeAttachment, attachment(json!({"persistentVolumeName": "v"})));
        assert_eq!(
            json!(VolumeAttachment.table_row(&object, CONTEXT.now)),
            json!(["n", "d.example.com", "v", "n1", false, "<unknown>"])
        );
    }

    #[test]
    fn a_host_path_has_a_type() {
        let source = json!({"inlineVolumeSpec": {"hostPath": {"path": "/x"}}});
        let object = created(&VolumeAttachment, attachment(source));
        let volume = &object["spec"]["source"]["inlineVolumeSpec"];
        assert_eq!(volume["hostPath"], json!({"path": "/x", "type": ""}));
    }

    #[test]
    fn an_attachment_that_was_stored_without_the_type_can_still_be_changed() {
        let old = attachment(json!({"inlineVolumeSpec": {"hostPath": {"path": "/x"}}}));
        let mut new = old.clone();
        VolumeAttachment.default(&CONTEXT, &mut new);
        let shown = "spec: Invalid value";
        let errors = VolumeAttachment.validate_update(&CONTEXT, &old, &new);
        assert!(!errors.iter().any(|error| error.to_string().starts_with(shown)), "{errors:?}");
        set(child_mut(&mut new, "spec"), "nodeName", json!("other"));
        let errors = VolumeAttachment.validate_update(&CONTEXT, &old, &new);
        assert!(errors.iter().any(|error| error.to_string().starts_with(shown)), "{errors:?}");
    }

    #[test]
    fn the_spec_stays_and_the_status_is_bounded() {
        let old = attachment(json!({"persistentVolumeName": "v"}));
        let mut other = old.clone();
        other["spec"]["nodeName"] = json!("n2");
        check_update(
            &VolumeAttachment,
            old.clone(),
            other,
            &[
                "spec: Invalid value: {\"attacher\":\"d.example.com\",\"nodeName\":\"n2\",\"source\":{\"persistentVolumeName\":\
               \"v\"}}: field is immutable",
            ],
        );
        let mut failed = old.clone();
        failed["status"] = json!({"attachError": {"message": "x".repeat(1025), "errorCode": -1}});
        let status = Context { action: Action::Status, ..CONTEXT };
        check_update_in(
            &status,
            &VolumeAttachment,
            old,
            failed,
            &[
                "status.attachError.message: Too long: may not be more than 262144 bytes",
                "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "status.attachError.message: Too long: may not be more than 262144 bytes",
                "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        );
    }
}
