//! The document that a webhook is sent: an AdmissionReview with its request.
//!
//! Owns its bytes. All members of the request but its uid are the same for every webhook that sees the write in one version,
//! so they are written once for them ([`Request`]); a document is that text behind a head and a uid.

use bytes::Bytes;
use orch_proto::Brand;
use orch_rules::validate::tree::unset;
use orch_schema::value::Value;

use crate::admission::matching::{Asked, Names};

/// The versions of AdmissionReview that this server writes and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// The first one of `versions`, which are in the webhook's order, that this server knows.
    pub(super) fn first_of(versions: &[&str]) -> Option<ReviewVersion> {
        versions.iter().find_map(|version| match *version {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        }
    }

    /// The `apiVersion` of its documents.
    pub(super) fn api_version(self, brand: &Brand) -> String {
        format!("{}/{}", brand.group("admission"), self.name())
    }
}

/// The kind of the documents.
pub(super) const KIND: &str = "AdmissionReview";

/// The request of a review without its uid: members, each behind a comma, and two closing brackets.
#[derive(Clone, Debug)]
pub(super) struct Request(Vec<u8>);

impl Request {
    /// The write `asked` with these objects, which are in the version of `shown`; `own` is the version of the request.
    pub(super) fn of(
        asked: &Asked<'_>,
        (shown, own): (&Names, &Names),
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Request {
        let members = asked.document((shown, shown), own).to_string();
        let mut text = Vec::with_capacity(2 * members.len());
        text.push(b',');
        text.extend_from_slice(&members.as_bytes()[1..members.len() - 1]);
        for (name, object) in [("object", object), ("oldObject", old)] {
            text.extend_from_slice(format!(",\"{name}\":").as_bytes());
            match object {
                Some(object) => write_object(&mut text, shown, object),
                None => text.extend_from_slice(b"null"),
            }
        }
        text.extend_from_slice(b"}}");
        Request(text)
    }

    /// The review with this request under `uid`, which is a UUID.
    pub(super) fn document(&self, version: ReviewVersion, uid: &str, brand: &Brand) -> Bytes {
        let head = format!(
            "{{\"kind\":\"{KIND}\",\"apiVersion\":\"{}\",\"request\":{{\"uid\":\"{uid}\"",
            version.api_version(brand)
        );
        let mut text = Vec::with_capacity(head.len() + self.0.len());
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(&self.0);
        text.into()
    }

    /// Bytes of a document, but for its head.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Writes `object` behind its kind and `apiVersion`, which its tree does not have.
fn write_object(text: &mut Vec<u8>, names: &Names, object: &Value) {
    let head = orch_schema::json!({"kind": &*names.kind, "apiVersion": &*names.api_version}).to_string();
    // An object that a converter returned may have them.
    // few: two names.
    let has_head = ["kind", "apiVersion"].into_iter().any(|name| object.get(name).is_some());
    let members = match has_head {
        false => object.to_string(),
        true => {
            let mut object = object.clone();
            unset(&mut object, "kind");
            unset(&mut object, "apiVersion");
            object.to_string()
        }
    };
    let is_empty = members.len() <= 2;
    text.extend_from_slice(&head.as_bytes()[..head.len() - usize::from(!is_empty)]);
    if !is_empty {
        text.push(b',');
        text.extend_from_slice(&members.as_bytes()[1..]);
    }
}
