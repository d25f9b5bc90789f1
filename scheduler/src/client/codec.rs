//! The two representations of objects: Protobuf in an envelope, and JSON.
//!
//! Owns the translation between bodies and messages. Protobuf is read directly. JSON goes by way of the schema's codec
//! into the same messages, which costs several times as much: it is for debugging, and for servers that know no other.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use orch_proto::Brand;
use orch_proto::envelope::{TypeMeta, Unknown};
use orch_schema::{Limits, Schema};
use prost::Message;

use crate::api::meta::v1::{Status, WatchEvent};

use super::kind::{Kind, Object};

/// Before the envelope of a Protobuf body.
const PREFIX: &[u8] = b"k8s\0";

/// Bytes that a decoded list may hold: many objects.
const LIST_HELD_BYTES_MAX: usize = 1 << 30;

/// The representation of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentType {
    /// Messages in an envelope.
    #[default]
    Protobuf,
    /// JSON.
    Json,
}

impl ContentType {
    /// The first representation of a list of media types that this client can read, such as `acceptContentTypes` is;
    /// `None` for an empty list.
    ///
    /// # Errors
    /// Where it can read none of them; the error names the first.
    pub fn first_of(list: &str) -> Result<Option<ContentType>, UnknownContentType> {
        let types = list.split(',').map(|entry| entry.split(';').next().unwrap_or_default().trim());
        let mut first = None;
        for text in types.filter(|text| !text.is_empty()) {
            // A client that accepts any media type accepts the one that is preferred here.
            let parsed = if text == "*/*" { Ok(ContentType::default()) } else { text.parse() };
            match parsed {
                Ok(found) => return Ok(Some(found)),
                Err(unknown) => drop(first.get_or_insert(unknown)),
            }
        }
        first.map_or(Ok(None), Err)
    }
}

/// A media type that is neither of the two.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a JSON nor a Protobuf media type")]
pub struct UnknownContentType(String);

impl FromStr for ContentType {
    type Err = UnknownContentType;

    /// Reads the value of `--*-api-content-type`; empty is JSON, as in the reference.
    fn from_str(text: &str) -> Result<Self, UnknownContentType> {
        let is_protobuf = |brand: &Brand| text == brand.protobuf_media_type;
        match text {
            "" | "application/json" => Ok(ContentType::Json),
            _ if is_protobuf(&orch_proto::brand::ORCH) || is_protobuf(&orch_proto::brand::KUBERNETES) => {
                Ok(ContentType::Protobuf)
            }
            _ => Err(UnknownContentType(text.to_owned())),
        }
    }
}

/// Errors in decoding a body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodecError {
    /// Another object than was asked for.
    #[error("the body is a {found} and no {wanted}")]
    Kind {
        /// Version and kind in the body.
        found: String,
        /// Version and kind of the request.
        wanted: String,
    },
    /// No envelope.
    #[error("the body is no Protobuf envelope")]
    Envelope,
    /// A message that cannot be read.
    #[error("the message cannot be read")]
    Message(#[from] prost::DecodeError),
    /// JSON that cannot be read.
    #[error("the JSON cannot be read: {0}")]
    Json(String),
    /// A kind that the schema does not know.
    #[error("no schema of {0}")]
    Schema(String),
}

/// Writes and reads bodies of one representation. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Codec {
    brand: &'static Brand,
    // Of the bodies that are sent, and of those that come back.
    written: ContentType,
    read: ContentType,
    // `None`: Protobuf in both directions, which needs no schema.
    schema: Option<Arc<Schema>>,
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Codec").field(&self.written).field(&self.read).finish()
    }
}

impl Codec {
    pub(crate) fn new(brand: &'static Brand, content_type: ContentType) -> Self {
        Self::with(brand, content_type, content_type)
    }

    /// Writes one representation and reads another.
    pub(super) fn with(brand: &'static Brand, written: ContentType, read: ContentType) -> Self {
        let needs_schema = [written, read].contains(&ContentType::Json);
        let schema = needs_schema.then(|| Arc::new(Schema::builtin(brand)));
        Self { brand, written, read, schema }
    }

    pub(super) fn brand(&self) -> &'static Brand {
        self.brand
    }

    /// The representation of what is read.
    pub(super) fn content_type(&self) -> ContentType {
        self.read
    }

    /// The media type of bodies that are sent.
    pub(super) fn media_type(&self) -> &'static str {
        match self.written {
            ContentType::Protobuf => self.brand.protobuf_media_type,
            ContentType::Json => "application/json",
        }
    }

    /// The `Accept` header. Errors may come as JSON from a proxy before the server.
    pub(super) fn accept(&self) -> String {
        match self.read {
            ContentType::Protobuf => format!("{},application/json", self.brand.protobuf_media_type),
            ContentType::Json => "application/json".to_owned(),
        }
    }

    /// The body of `object`.
    pub(crate) fn encode<T: Object>(&self, object: &T) -> Result<Bytes, CodecError> {
        let message = object.encode_to_vec();
        let api_version = T::KIND.api_version(self.brand);
        let Some(schema) = self.schema_for(self.written) else {
            return Ok(envelope(&api_version, T::KIND.kind, message));
        };
        let type_id = find(schema, T::KIND.message)?;
        let value = orch_schema::decode_protobuf(schema, type_id, &message, Limits::default());
        let value = value.map_err(|error| CodecError::Json(error.to_string()))?;
        let mut body =
            serde_json::json!({ "kind": T::KIND.kind, "apiVersion": api_version }).to_string().into_bytes();
        let mut members = Vec::new();
        orch_schema::encode_json(schema, type_id, &value, &mut members);
        if members.len() > 2 {
            body.pop();
            body.push(b',');
            body.extend_from_slice(&members[1..]);
        }
        Ok(body.into())
    }

    /// Reads an object.
    pub(crate) fn decode<T: Object>(&self, body: Bytes) -> Result<T, CodecError> {
        self.message(T::KIND.message, &T::KIND, T::KIND.kind, body)
    }

    /// Reads a list of `kind` in the message `L`.
    pub(super) fn decode_list<L: Message + Default>(
        &self,
        kind: &Kind,
        body: Bytes,
    ) -> Result<L, CodecError> {
        self.message(&format!("{}List", kind.message), kind, &format!("{}List", kind.kind), body)
    }

    /// Reads the `Status` of a refusal, in whichever form it came; `None` if it is none.
    pub(super) fn decode_status(&self, body: Bytes) -> Option<Status> {
        if body.starts_with(PREFIX) {
            return unwrap(body).ok().and_then(|unknown| Status::decode(unknown.raw).ok());
        }
        status_of_json(&serde_json::from_slice(&body).ok()?)
    }

    /// Reads the frame of a watch: the event's type, and the object's body.
    pub(super) fn decode_event(&self, frame: Bytes) -> Result<(String, Bytes), CodecError> {
        if self.read == ContentType::Protobuf {
            let event = WatchEvent::decode(frame)?;
            return Ok((event.r#type, event.object.unwrap_or_default().raw.into()));
        }
        #[derive(serde::Deserialize)]
        struct Line<'a> {
            r#type: String,
            #[serde(borrow)]
            object: &'a serde_json::value::RawValue,
        }
        let line: Line<'_> =
            serde_json::from_slice(&frame).map_err(|error| CodecError::Json(error.to_string()))?;
        Ok((line.r#type, Bytes::copy_from_slice(line.object.get().as_bytes())))
    }

    /// The schema, where `content_type` needs one.
    fn schema_for(&self, content_type: ContentType) -> Option<&Schema> {
        self.schema.as_deref().filter(|_| content_type == ContentType::Json)
    }

    /// Reads the message `name`, of the version of `kind` and called `kind_name`.
    fn message<M: Message + Default>(
        &self,
        name: &str,
        kind: &Kind,
        kind_name: &str,
        body: Bytes,
    ) -> Result<M, CodecError> {
        let wanted = TypeMeta { api_version: kind.api_version(self.brand), kind: kind_name.to_owned() };
        let Some(schema) = self.schema_for(self.read) else {
            let unknown = unwrap(body)?;
            expect(&wanted, &unknown.type_meta.unwrap_or_default())?;
            return Ok(M::decode(unknown.raw)?);
        };
        expect(&wanted, &type_meta_of_json(&body)?)?;
        let type_id = find(schema, name)?;
        let limits = Limits { held_bytes_max: LIST_HELD_BYTES_MAX, ..Limits::default() };
        let decoded = orch_schema::decode_json(schema, type_id, &body, limits);
        let decoded = decoded.map_err(|error| CodecError::Json(error.to_string()))?;
        let mut message = Vec::new();
        orch_schema::encode_protobuf(schema, type_id, &decoded.value, &mut message);
        Ok(M::decode(Bytes::from(message))?)
    }
}

fn find(schema: &Schema, name: &str) -> Result<orch_schema::TypeId, CodecError> {
    schema.find_type(name).ok_or_else(|| CodecError::Schema(name.to_owned()))
}

/// `message` in its envelope.
pub(crate) fn envelope(api_version: &str, kind: &str, message: Vec<u8>) -> Bytes {
    let type_meta = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let unknown = Unknown { type_meta: Some(type_meta), raw: message.into(), ..Unknown::default() };
    let mut body = Vec::with_capacity(PREFIX.len() + unknown.encoded_len());
    body.extend_from_slice(PREFIX);
    unknown.encode_raw(&mut body);
    body.into()
}

/// The envelope `body`.
fn unwrap(body: Bytes) -> Result<Unknown, CodecError> {
    if !body.starts_with(PREFIX) {
        return Err(CodecError::Envelope);
    }
    Ok(Unknown::decode(body.slice(PREFIX.len()..))?)
}

/// Version and kind of a JSON document.
fn type_meta_of_json(body: &[u8]) -> Result<TypeMeta, CodecError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
    }
    let head: Head = serde_json::from_slice(body).map_err(|error| CodecError::Json(error.to_string()))?;
    Ok(TypeMeta { api_version: head.api_version, kind: head.kind })
}

/// Fails where `found` is not what was asked for: fields of one kind's message would be read as another's.
fn expect(wanted: &TypeMeta, found: &TypeMeta) -> Result<(), CodecError> {
    let text = |of: &TypeMeta| format!("{} {}", of.api_version, of.kind).trim().to_owned();
    if wanted == found {
        return Ok(());
    }
    Err(CodecError::Kind { found: text(found), wanted: text(wanted) })
}

fn status_of_json(json: &serde_json::Value) -> Option<Status> {
    use crate::api::meta::v1::{StatusCause, StatusDetails};
    if json.get("kind")?.as_str()? != "Status" {
        return None;
    }
    let text = |value: &serde_json::Value, name: &str| {
        value.get(name).and_then(|text| text.as_str()).unwrap_or_default().to_owned()
    };
    let cause = |value: &serde_json::Value| StatusCause {
        reason: text(value, "reason"),
        message: text(value, "message"),
        field: text(value, "field"),
    };
    let details = json.get("details").map(|details| StatusDetails {
        causes: details
            .get("causes")
            .and_then(|causes| causes.as_array())
            .into_iter()
            .flatten()
            .map(cause)
            .collect(),
        retry_after_seconds: details
            .get("retryAfterSeconds")
            .and_then(serde_json::Value::as_i64)
            .and_then(|seconds| i32::try_from(seconds).ok())
            .unwrap_or_default(),
        name: text(details, "name"),
        ..StatusDetails::default()
    });
    Some(Status {
        message: text(json, "message"),
        reason: text(json, "reason"),
        details,
        ..Status::default()
    })
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::api::core::v1::{Pod, PodList, PodSpec};
    use crate::api::meta::v1::{ListMeta, ObjectMeta, Time};

    fn pod() -> Pod {
        let metadata = ObjectMeta {
            name: "a".to_owned(),
            namespace: "b".to_owned(),
            resource_version: "7".to_owned(),
            labels: [("x".to_owned(), "\"y\"".to_owned())].into(),
            creation_timestamp: Some(Time { seconds: 1_700_000_000, nanos: 0 }),
            ..ObjectMeta::default()
        };
        let spec = PodSpec { node_name: "n".to_owned(), priority: Some(-3), ..PodSpec::default() };
        Pod { metadata: Some(metadata), spec: Some(spec), ..Pod::default() }
    }

    #[test]
    fn objects_are_the_same_after_either_representation() {
        for content_type in [ContentType::Protobuf, ContentType::Json] {
            let codec = Codec::new(&ORCH, content_type);
            let body = codec.encode(&pod()).unwrap();
            let read = codec.decode::<Pod>(body).unwrap();
            assert_eq!(read.metadata, pod().metadata, "{content_type:?}");
            let spec = read.spec.unwrap();
            assert_eq!((spec.node_name.as_str(), spec.priority), ("n", Some(-3)), "{content_type:?}");
        }
    }

    #[test]
    fn json_has_kind_and_version() {
        let body = Codec::new(&ORCH, ContentType::Json).encode(&pod()).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&json["kind"], &json["apiVersion"]), (&"Pod".into(), &"v1".into()));
        assert_eq!(json["metadata"]["labels"]["x"], "\"y\"");
    }

    #[test]
    fn lists_of_either_representation_are_read() {
        let list = PodList {
            metadata: Some(ListMeta { resource_version: "9".to_owned(), ..ListMeta::default() }),
            items: vec![pod(), pod()],
        };
        let body = envelope("v1", "PodList", list.encode_to_vec());
        let read: PodList = Codec::new(&ORCH, ContentType::Protobuf).decode_list(&Pod::KIND, body).unwrap();
        assert_eq!(read, list);
        let json = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}}]}"#;
        let codec = Codec::new(&ORCH, ContentType::Json);
        let read: PodList = codec.decode_list(&Pod::KIND, Bytes::from_static(json.as_bytes())).unwrap();
        assert_eq!(read.items[0].key().to_string(), "a");
    }

    #[test]
    fn an_object_of_another_kind_or_version_is_an_error() {
        let message = pod().encode_to_vec();
        let protobuf = Codec::new(&ORCH, ContentType::Protobuf);
        let read = |version: &str, kind: &str| {
            let read = protobuf.decode::<Pod>(envelope(version, kind, message.clone()));
            read.map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(read("v1", "Pod"), Ok(()));
        assert_eq!(read("v1", "Node"), Err("the body is a v1 Node and no v1 Pod".to_owned()));
        assert_eq!(read("v2", "Pod"), Err("the body is a v2 Pod and no v1 Pod".to_owned()));
        let list = protobuf.decode_list::<PodList>(&Pod::KIND, envelope("v1", "NodeList", Vec::new()));
        assert_eq!(list.unwrap_err().to_string(), "the body is a v1 NodeList and no v1 PodList");
        let json = Codec::new(&ORCH, ContentType::Json);
        let body = Bytes::from_static(br#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}"#);
        assert_eq!(json.decode::<Pod>(body).unwrap_err().to_string(), "the body is a v1 Node and no v1 Pod");
    }

    #[test]
    fn bad_bodies_are_errors() {
        let protobuf = Codec::new(&ORCH, ContentType::Protobuf);
        assert!(protobuf.decode::<Pod>(Bytes::from_static(b"{}")).is_err());
        assert!(protobuf.decode::<Pod>(Bytes::from_static(b"k8s\0\xff")).is_err());
        let json = Codec::new(&ORCH, ContentType::Json);
        assert!(json.decode::<Pod>(Bytes::from_static(b"k8s\0")).is_err());
        assert!(json.decode_event(Bytes::from_static(b"[]")).is_err());
    }

    #[test]
    fn the_status_is_read_in_either_form() {
        let codec = Codec::new(&ORCH, ContentType::Protobuf);
        let json = br#"{"kind":"Status","reason":"Conflict","message":"m","details":{"retryAfterSeconds":3,
            "causes":[{"reason":"x"}]}}"#;
        let status = codec.decode_status(Bytes::from_static(json)).unwrap();
        assert_eq!((status.reason.as_str(), status.message.as_str()), ("Conflict", "m"));
        let details = status.details.unwrap();
        assert_eq!((details.retry_after_seconds, details.causes[0].reason.as_str()), (3, "x"));
        let told = Status { reason: "Expired".to_owned(), ..Status::default() };
        let body = codec.encode(&told).unwrap();
        assert_eq!(codec.decode_status(body), Some(told));
        assert_eq!(codec.decode_status(Bytes::from_static(b"<html>")), None);
    }

    #[test]
    fn written_and_read_forms_may_differ() {
        let codec = Codec::with(&ORCH, ContentType::Protobuf, ContentType::Json);
        assert_eq!(
            (codec.media_type(), codec.accept().as_str()),
            (ORCH.protobuf_media_type, "application/json")
        );
        assert!(codec.encode(&pod()).unwrap().starts_with(PREFIX));
        let json = Codec::new(&ORCH, ContentType::Json).encode(&pod()).unwrap();
        assert_eq!(codec.decode::<Pod>(json).unwrap().metadata, pod().metadata);
    }

    #[test]
    fn the_first_media_type_that_can_be_read_counts() {
        let both = format!("text/plain, {};q=0.5,application/json", ORCH.protobuf_media_type);
        assert_eq!(ContentType::first_of(&both), Ok(Some(ContentType::Protobuf)));
        assert_eq!(ContentType::first_of("application/json,*/*"), Ok(Some(ContentType::Json)));
        assert_eq!(ContentType::first_of("*/*"), Ok(Some(ContentType::Protobuf)));
        assert_eq!(ContentType::first_of(" , "), Ok(None));
        assert!(
            ContentType::first_of("text/plain,text/html").unwrap_err().to_string().contains("text/plain")
        );
    }

    #[test]
    fn content_types_parse() {
        assert_eq!("application/json".parse(), Ok(ContentType::Json));
        assert_eq!("".parse(), Ok(ContentType::Json));
        assert_eq!(ORCH.protobuf_media_type.parse(), Ok(ContentType::Protobuf));
        assert!("text/plain".parse::<ContentType>().is_err());
    }
}
