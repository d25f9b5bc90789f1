//! An object as a manifest, which another server takes.
//!
//! Owns what a manifest leaves out: identity, status, and whatever names the uid of another object, because the server that takes it gives
//! objects new ones. With a uid that is not there a garbage collector deletes an object, a volume never binds to its claim, and a token is good for
//! nobody.

use orch_proto::Brand;
use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::left_out::{is_token, stem};

/// Members of the metadata that a server gives.
const GIVEN: [&str; 9] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// What a manifest keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// What a person would have written.
    Plain,
    /// Everything.
    Exact,
}

/// An object for a manifest.
#[derive(Debug, PartialEq)]
pub(super) enum Manifest {
    /// It is written so; and what it has lost, if that is worth a word.
    Written(Value, Option<&'static str>),
    /// It is not written, for this reason.
    LeftOut(&'static str),
}

/// The manifest of `object`, an item of a list of `kind`.
pub(super) fn manifest(brand: &Brand, kind: &Kind, mut object: Value, form: Form) -> Manifest {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    if form == Form::Exact {
        return Manifest::Written(object, None);
    }
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    if owners.clone().any(|owner| owner["controller"] == true) {
        return Manifest::LeftOut("a controller makes them of other objects");
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Manifest::LeftOut("they are being deleted");
    }
    let mut lost =
        (owners.count() > 0).then_some("written without their owners, whose uids the other server chooses");
    if is_token(brand, kind, &object) {
        lost = Some("written without their tokens: a server fills in its own");
    }
    members(&mut object, &["metadata"], &GIVEN);
    members(&mut object, &[], &["status"]);
    strip_of_kind(brand, kind, &mut object);
    Manifest::Written(object, lost)
}

/// Takes the members out that name uids of other objects.
fn strip_of_kind(brand: &Brand, kind: &Kind, object: &mut Value) {
    match (stem(brand, kind), kind.plural.as_str()) {
        ("", "persistentvolumes") => {
            members(object, &["spec", "claimRef"], &["uid", "resourceVersion"]);
            strip_binding(brand, object);
        }
        // A claim that says to be bound is lost where its volume does not name its uid.
        ("", "persistentvolumeclaims") => strip_binding(brand, object),
        ("", "secrets") if is_token(brand, kind, object) => {
            members(object, &["data"], &["token", "ca.crt", "namespace"]);
            members(object, &["metadata", "annotations"], &[&brand.label("service-account.uid")]);
        }
        // The selector that a server makes of the uid.
        ("batch", "jobs") if object["spec"]["manualSelector"] != true => {
            let labels = ["controller-uid".to_owned(), format!("batch.{}", brand.label("controller-uid"))];
            let labels = labels.each_ref().map(String::as_str);
            members(object, &["metadata", "labels"], &labels);
            members(object, &["spec", "template", "metadata", "labels"], &labels);
            members(object, &["spec"], &["selector"]);
        }
        ("", "namespaces") => members(object, &[], &["spec"]),
        _ => {}
    }
}

fn strip_binding(brand: &Brand, object: &mut Value) {
    let keys = ["bind-completed", "bound-by-controller"].map(|key| format!("pv.{}", brand.label(key)));
    members(object, &["metadata", "annotations"], &keys.each_ref().map(String::as_str));
}

/// Removes the members `names` of the member of `object` at `path`.
fn members(object: &mut Value, path: &[&str], names: &[&str]) {
    let mut at = Some(object);
    for step in path {
        at = at.and_then(|value| value.get_mut(*step));
    }
    let members: Option<&mut Map<String, Value>> = at.and_then(Value::as_object_mut);
    if let Some(members) = members {
        names.iter().for_each(|name| drop(members.remove(*name)));
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::KUBERNETES;

    use super::*;

    fn kind(group: &str, plural: &str) -> Kind {
        let text = |text: &str| text.to_owned();
        Kind {
            group: text(group),
            version: text("v1"),
            plural: text(plural),
            kind: text("K"),
            namespaced: true,
        }
    }

    /// The manifest of an object without its type.
    fn plain((group, plural): (&str, &str), object: Value) -> (Value, Option<&'static str>) {
        match manifest(&KUBERNETES, &kind(group, plural), object, Form::Plain) {
            Manifest::Written(mut object, lost) => {
                members(&mut object, &[], &["apiVersion", "kind"]);
                (object, lost)
            }
            Manifest::LeftOut(reason) => panic!("left out: {reason}"),
        }
    }

    #[test]
    fn a_manifest_is_what_a_person_would_have_written() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"k": "v"}},
            "spec": {"replicas": 1}, "status": {"replicas": 1},
        });
        let deployments = kind("apps", "deployments");
        let written = manifest(&KUBERNETES, &deployments, object.clone(), Form::Plain);
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "K", "spec": {"replicas": 1},
            "metadata": {"name": "a", "namespace": "n", "labels": {"k": "v"}},
        });
        assert_eq!(written, Manifest::Written(expected, None));
        let Manifest::Written(exact, None) = manifest(&KUBERNETES, &deployments, object, Form::Exact) else {
            panic!("it loses nothing")
        };
        assert_eq!((&exact["metadata"]["uid"], &exact["status"]["replicas"]), (&json!("u"), &json!(1)));
    }

    #[test]
    fn objects_of_controllers_and_objects_being_deleted_have_no_manifest() {
        let owned = |is_controller: bool| {
            json!({"metadata": {"name": "a",
            "ownerReferences": [{"uid": "o", "controller": is_controller}]}})
        };
        let sets = kind("apps", "replicasets");
        assert!(matches!(manifest(&KUBERNETES, &sets, owned(true), Form::Plain), Manifest::LeftOut(_)));
        let (written, lost) = plain(("apps", "replicasets"), owned(false));
        assert!(written == json!({"metadata": {"name": "a"}}) && lost.is_some());
        let ending =
            json!({"metadata": {"name": "a", "deletionTimestamp": "t", "finalizers": ["example.com/f"]}});
        assert!(matches!(manifest(&KUBERNETES, &sets, ending, Form::Plain), Manifest::LeftOut(_)));
    }

    #[test]
    fn no_uid_of_another_object_is_left_in_a_manifest() {
        let annotations = json!({"pv.kubernetes.io/bind-completed": "yes", "k": "v"});
        let claim = json!({"namespace": "n", "name": "c", "uid": "u", "resourceVersion": "7"});
        let volume =
            json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {"claimRef": claim}});
        let (volume, _) = plain(("", "persistentvolumes"), volume);
        assert_eq!(volume["spec"]["claimRef"], json!({"namespace": "n", "name": "c"}));
        assert_eq!(volume["metadata"]["annotations"], json!({"k": "v"}));
        let claim =
            json!({"metadata": {"name": "c", "annotations": annotations}, "spec": {"volumeName": "a"}});
        let (claim, _) = plain(("", "persistentvolumeclaims"), claim);
        assert_eq!(claim["metadata"]["annotations"], json!({"k": "v"}));
        assert_eq!(claim["spec"]["volumeName"], "a");

        let annotations =
            json!({"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "u"});
        let secret = json!({"metadata": {"name": "s", "annotations": annotations},
            "type": "kubernetes.io/service-account-token", "data": {"token": "t", "ca.crt": "c", "mine": "m"}});
        let (secret, lost) = plain(("", "secrets"), secret);
        assert!(lost.is_some());
        assert_eq!(secret["data"], json!({"mine": "m"}));
        assert_eq!(secret["metadata"]["annotations"], json!({"kubernetes.io/service-account.name": "a"}));

        let labels = json!({"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u", "k": "v"});
        let template = json!({"metadata": {"labels": labels}});
        let selector = json!({"matchLabels": {"controller-uid": "u"}});
        let job = |manual: bool| {
            json!({"metadata": {"name": "j", "labels": labels},
            "spec": {"manualSelector": manual, "selector": selector, "template": template}})
        };
        let (made, _) = plain(("batch", "jobs"), job(false));
        assert_eq!(made["spec"]["template"]["metadata"]["labels"], json!({"k": "v"}));
        assert_eq!(
            (&made["spec"]["selector"], &made["metadata"]["labels"]),
            (&Value::Null, &json!({"k": "v"}))
        );
        assert_eq!(plain(("batch", "jobs"), job(true)).0, job(true));
    }
}
