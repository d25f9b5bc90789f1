//! The document that asks another server for a conversion, and the reading of its answer.
//!
//! Owns the forms of a `ConversionReview` in both versions, and what is checked of the answer as a whole: its kind and uid, its
//! result, the number of its objects. Each object of it is judged by `restored`. It sends nothing.
//! Forms and texts of faults are the reference's.

use bytes::Bytes;
use orch_proto::Brand;
use orch_schema::value::Value;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::Piece;

/// A version of the review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1beta1 => "v1beta1",
        }
    }
}

/// The reviews of one definition.
#[derive(Debug)]
pub(crate) struct Reviews {
    version: ReviewVersion,
    /// `apiVersion` of the documents.
    api_version: String,
}

/// The kind of the documents.
const KIND: &str = "ConversionReview";

/// The reason why an answer is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It is no review: a failure of the call.
    NoReview(String),
    /// It is a review of something else, or says that the conversion failed.
    Refused(String),
}

impl Reviews {
    /// Reviews in the first of `versions` that this server knows.
    ///
    /// # Errors
    /// The text for the client: it knows none of them.
    pub(crate) fn of(brand: &Brand, versions: &[&str]) -> Result<Reviews, String> {
        let known = |version: &&str| match *version {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        };
        let version = versions.iter().find_map(known);
        let version = version.ok_or_else(|| "no supported conversion review versions".to_owned())?;
        let api_version = format!("{}/{}", brand.group("apiextensions"), version.name());
        Ok(Reviews { version, api_version })
    }

    /// The document that asks for `pieces`, of the kind `kind` in `group`, in the version `desired`, in their order.
    pub(super) fn document(
        &self,
        uid: &str,
        (group, kind): (&str, &str),
        desired: &str,
        pieces: &[Piece],
    ) -> Bytes {
        let objects = pieces
            .iter()
            .map(|Piece { written_as, object }| Typed {
                api_version: format!("{group}/{}", written_as.version),
                kind,
                object,
            })
            .collect();
        let request = Request { uid, desired: format!("{group}/{desired}"), objects };
        let document = Document { kind: KIND, api_version: &self.api_version, request };
        Bytes::from(serde_json::to_vec(&document).expect("texts and values are JSON"))
    }

    /// The objects in `document`, which [`Reviews::document`] has made, or their parts that `T` names, with the members that tell
    /// their types.
    ///
    /// # Errors
    /// One of them is nested so deeply that this server does not read it.
    pub(super) fn objects_in<T: DeserializeOwned>(document: &[u8]) -> Result<Vec<T>, serde_json::Error> {
        let asked: Asked<T> = serde_json::from_slice(document)?;
        Ok(asked.request.objects)
    }

    /// The objects in `answer`, an answer to the document with this `uid`.
    ///
    /// # Errors
    /// The text for the client, without its beginning.
    pub(super) fn objects_of(&self, uid: &str, answer: &[u8]) -> Result<Vec<Value>, Unanswered> {
        let answer: Answer = serde_json::from_slice(answer)
            .map_err(|error| Unanswered::NoReview(format!("the answer is no {KIND}: {error}")))?;
        let is_other = |found: &str, own: &str| !found.is_empty() && found != own;
        if is_other(&answer.kind, KIND) || is_other(&answer.api_version, &self.api_version) {
            let (found, own) = (named(&answer.api_version, &answer.kind), named(&self.api_version, KIND));
            return Err(Unanswered::NoReview(format!("no kind {found} was asked for: {own}")));
        }
        self.accepted(uid, answer).map_err(Unanswered::Refused)
    }

    fn accepted(&self, uid: &str, answer: Answer) -> Result<Vec<Value>, String> {
        let Answer { kind, api_version, response } = answer;
        let is_v1 = self.version == ReviewVersion::V1;
        // A member that is not empty was compared before.
        if is_v1 && (kind.is_empty() || api_version.is_empty()) {
            let (expected, got) = (named(&self.api_version, KIND), named(&api_version, &kind));
            return Err(format!("expected webhook response of {expected}, got {got}"));
        }
        let Some(Response { uid: answered, result, converted_objects }) = response else {
            return Err("no response provided".to_owned());
        };
        if is_v1 && answered != uid {
            return Err(format!("expected response.uid={uid:?}, got {answered:?}"));
        }
        let Outcome { status, message } = result;
        match (&*status, message.is_empty()) {
            ("Success", _) => Ok(converted_objects),
            (_, false) => Err(message),
            (status, true) => Err(format!("response.result.status was '{status}', not 'Success'")),
        }
    }
}

/// A kind as the client reads it.
pub(super) fn named(api_version: &str, kind: &str) -> String {
    let slash = if api_version.is_empty() { "/" } else { "" };
    format!("{slash}{api_version}, Kind={kind}")
}

#[derive(Serialize)]
struct Document<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    request: Request<'a>,
}

#[derive(Serialize)]
struct Request<'a> {
    uid: &'a str,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    objects: Vec<Typed<'a>>,
}

/// A tree with the members that tell its type, which a stored object lacks.
struct Typed<'a> {
    api_version: String,
    kind: &'a str,
    object: &'a Value,
}

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("apiVersion", &self.api_version)?;
        map.serialize_entry("kind", self.kind)?;
        for (name, value) in self.object.as_object().into_iter().flatten() {
            map.serialize_entry(name.as_str(), value)?;
        }
        map.end()
    }
}

/// The part of a document that is read again.
#[derive(Deserialize)]
struct Asked<T> {
    request: AskedRequest<T>,
}

#[derive(Deserialize)]
struct AskedRequest<T> {
    objects: Vec<T>,
}

/// An object that was sent, as far as its conversion leaves it alone.
#[derive(Deserialize)]
pub(super) struct Sent {
    #[serde(default)]
    pub(super) metadata: Value,
}

/// A member that is null reads as absent, as in the reference.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    #[serde(deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    api_version: String,
    response: Option<Response>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Response {
    #[serde(deserialize_with = "or_default")]
    uid: String,
    #[serde(deserialize_with = "or_default")]
    result: Outcome,
    #[serde(deserialize_with = "or_default")]
    converted_objects: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Outcome {
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    message: String,
}

fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orch_proto::brand::ORCH;
    use orch_raft::{Revision, WrittenAs};
    use orch_schema::json;

    use super::*;

    fn reviews(versions: &[&str]) -> Reviews {
        Reviews::of(&ORCH, versions).unwrap()
    }

    #[test]
    fn the_first_known_version_is_asked() {
        for (versions, expected) in
            [(&["v1", "v1beta1"][..], "v1"), (&["v7", "v1beta1", "v1"], "v1beta1"), (&["v1"], "v1")]
        {
            assert_eq!(reviews(versions).version.name(), expected, "{versions:?}");
        }
        for versions in [&[][..], &["v2"]] {
            let refused = Reviews::of(&ORCH, versions).unwrap_err();
            assert_eq!(refused, "no supported conversion review versions", "{versions:?}");
        }
    }

    #[test]
    fn a_document_has_the_objects_in_order_with_their_types() {
        let piece = |version: &str, object: Value| Piece {
            written_as: Arc::new(WrittenAs { version: version.into(), definition: Revision(1) }),
            object,
        };
        let pieces = [piece("v1", json!({"metadata": {"name": "a"}, "n": 1.5})), piece("v1beta1", json!({}))];
        let document = reviews(&["v1beta1"]).document("u-1", ("stable.example.com", "Widget"), "v2", &pieces);
        let document: Value = serde_json::from_slice(&document).unwrap();
        let expected = json!({
            "kind": "ConversionReview", "apiVersion": "apiextensions.orch.io/v1beta1",
            "request": {"uid": "u-1", "desiredAPIVersion": "stable.example.com/v2", "objects": [
                {"apiVersion": "stable.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "n": 1.5},
                {"apiVersion": "stable.example.com/v1beta1", "kind": "Widget"},
            ]},
        });
        assert_eq!(document, expected);
    }

    fn answer(of: Value) -> Result<Vec<Value>, Unanswered> {
        reviews(&["v1"]).objects_of("u-1", of.to_string().as_bytes())
    }

    fn review(response: Value) -> Value {
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.orch.io/v1", "response": response})
    }

    #[test]
    fn an_answer_is_refused_in_the_references_words() {
        let right = json!({"uid": "u-1", "result": {"status": "Success"}, "convertedObjects": [{"a": 1}]});
        assert_eq!(answer(review(right.clone())), Ok(vec![json!({"a": 1})]));
        let result = |result: Value| review(json!({"uid": "u-1", "result": result}));
        for (of, expected) in [
            (
                json!({"response": right}),
                "expected webhook response of apiextensions.orch.io/v1, Kind=ConversionReview, got /, Kind=",
            ),
            (review(json!(null)), "no response provided"),
            (review(json!({"uid": "other"})), "expected response.uid=\"u-1\", got \"other\""),
            (review(json!({})), "expected response.uid=\"u-1\", got \"\""),
            (result(json!({"status": "Failure", "message": "cannot"})), "cannot"),
            (result(json!({"status": "Failure"})), "response.result.status was 'Failure', not 'Success'"),
            (result(json!(null)), "response.result.status was '', not 'Success'"),
        ] {
            assert_eq!(answer(of), Err(Unanswered::Refused(expected.to_owned())), "{expected}");
        }
    }

    #[test]
    fn the_older_review_is_asked_neither_for_its_kind_nor_for_its_uid() {
        let older = reviews(&["v1beta1"]);
        let read = |of: Value| older.objects_of("u-1", of.to_string().as_bytes());
        let right =
            json!({"response": {"uid": "other", "result": {"status": "Success"}, "convertedObjects": [{}]}});
        assert_eq!(read(right), Ok(vec![json!({})]));
        let none = Unanswered::Refused("no response provided".to_owned());
        assert_eq!(read(json!({})), Err(none));
        let failed = "response.result.status was 'x', not 'Success'".to_owned();
        assert_eq!(read(json!({"response": {"result": {"status": "x"}}})), Err(Unanswered::Refused(failed)));
    }

    #[test]
    fn a_document_of_another_kind_or_version_is_no_review_in_either_version() {
        let response = json!({"uid": "u-1", "result": {"status": "Success"}});
        for (asked, kind, version) in [
            ("v1", "Gadget", "apiextensions.orch.io/v1"),
            ("v1", "ConversionReview", "apiextensions.orch.io/v1beta1"),
            ("v1beta1", "ConversionReview", "apiextensions.orch.io/v1"),
            ("v1beta1", "Gadget", "v1"),
        ] {
            let of = json!({"kind": kind, "apiVersion": version, "response": response.clone()});
            let refused = reviews(&[asked]).objects_of("u-1", of.to_string().as_bytes()).unwrap_err();
            let told = format!("no kind {version}, Kind={kind} was asked for: ");
            assert!(matches!(&refused, Unanswered::NoReview(text) if text.starts_with(&told)), "{refused:?}");
        }
    }

    #[test]
    fn garbage_is_no_review() {
        let deep = format!("{{\"response\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for garbage in ["", "not json", "[7]", "{\"response\": 7}", "{\"response\": {\"result\": 7}}", &deep]
        {
            let refused = reviews(&["v1"]).objects_of("u-1", garbage.as_bytes()).unwrap_err();
            assert!(
                matches!(refused, Unanswered::NoReview(text) if text.starts_with("the answer is no ConversionReview: "))
            );
        }
    }
}
