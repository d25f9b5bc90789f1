//! The two representations on the side of the small API server.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use orch_proto::Brand;
use orch_schema::{Limits, Schema, TypeId};
use prost::Message;
use serde_json::{Value, json};

use crate::api::meta::v1::WatchEvent;
use crate::api::runtime::RawExtension;

use super::super::codec::envelope;
use super::{Body, whole};

/// A kind as the server knows it.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) type_id: TypeId,
    pub(crate) plural: String,
}

/// Writes and reads bodies.
#[derive(Clone)]
pub(crate) struct Wire {
    brand: &'static Brand,
    schema: Arc<Schema>,
}

impl Wire {
    pub(super) fn new(brand: &'static Brand) -> Self {
        Self { brand, schema: Arc::new(Schema::builtin(brand)) }
    }

    pub(super) fn served(&self, group: &str, plural: &str) -> Option<Served> {
        let found = self.schema.resources().iter().find(|resource| {
            resource.version == "v1" && resource.group == group && resource.plural == plural
        })?;
        Some(Served {
            kind: found.kind.clone(),
            api_version: found.api_version(),
            type_id: found.type_id,
            plural: plural.to_owned(),
        })
    }

    /// A message that is no resource, such as `meta.v1.Status`.
    pub(super) fn body_type(&self, message: &str) -> Served {
        let type_id = self.schema.find_type(message).unwrap();
        let kind = message.rsplit('.').next().unwrap().to_owned();
        Served { kind, api_version: "v1".to_owned(), type_id, plural: String::new() }
    }

    fn is_protobuf(&self, request: &Request<impl Sized>) -> bool {
        let accept =
            request.headers().get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
        accept.contains(self.brand.protobuf_media_type)
    }

    /// Reads a body of either representation. Patches are JSON of any form.
    pub(super) fn read(&self, served: &Served, content_type: &str, body: &Bytes) -> Value {
        if content_type != self.brand.protobuf_media_type {
            return serde_json::from_slice(body).unwrap();
        }
        let read = orch_schema::read_envelope(body.clone()).unwrap();
        let value = orch_schema::decode_protobuf(&self.schema, served.type_id, &read.raw, Limits::default());
        let mut json = Vec::new();
        orch_schema::encode_json(&self.schema, served.type_id, &value.unwrap(), &mut json);
        serde_json::from_slice(&json).unwrap()
    }

    fn message(&self, type_id: TypeId, object: &Value) -> Vec<u8> {
        let decoded =
            orch_schema::decode_json(&self.schema, type_id, object.to_string().as_bytes(), Limits::default());
        let mut message = Vec::new();
        orch_schema::encode_protobuf(&self.schema, type_id, &decoded.unwrap().value, &mut message);
        message
    }

    pub(super) fn object(
        &self,
        request: &Request<impl Sized>,
        served: &Served,
        code: u16,
        object: &Value,
    ) -> Response<Body> {
        let (media_type, body) = self.encoded(request, served, object);
        Response::builder().status(code).header("content-type", media_type).body(whole(body)).unwrap()
    }

    fn encoded(
        &self,
        request: &Request<impl Sized>,
        served: &Served,
        object: &Value,
    ) -> (&'static str, Bytes) {
        if self.is_protobuf(request) {
            let message = self.message(served.type_id, object);
            return (self.brand.protobuf_media_type, envelope(&served.api_version, &served.kind, message));
        }
        let mut object = object.clone();
        object["kind"] = json!(served.kind);
        object["apiVersion"] = json!(served.api_version);
        ("application/json", object.to_string().into())
    }

    pub(super) fn list(
        &self,
        request: &Request<impl Sized>,
        served: &Served,
        list: &Value,
    ) -> Response<Body> {
        let of_list = Served { kind: format!("{}List", served.kind), ..self.list_type(served) };
        self.object(request, &of_list, 200, list)
    }

    fn list_type(&self, served: &Served) -> Served {
        let name = self.schema.get(served.type_id).name.clone();
        let type_id = self.schema.find_type(&format!("{name}List")).unwrap();
        Served { type_id, ..served.clone() }
    }

    /// A frame of a watch.
    pub(super) fn frame(&self, is_protobuf: bool, served: &Served, kind: &str, object: &Value) -> Bytes {
        if !is_protobuf {
            let mut object = object.clone();
            object["kind"] = json!(served.kind);
            object["apiVersion"] = json!(served.api_version);
            return format!("{}\n", json!({ "type": kind, "object": object })).into();
        }
        let raw = envelope(&served.api_version, &served.kind, self.message(served.type_id, object));
        let event = WatchEvent { r#type: kind.to_owned(), object: Some(RawExtension { raw: raw.into() }) };
        let message = event.encode_to_vec();
        let mut frame = u32::try_from(message.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(message);
        frame.into()
    }

    pub(super) fn wants_protobuf(&self, request: &Request<impl Sized>) -> bool {
        self.is_protobuf(request)
    }

    pub(super) fn refusal(
        &self,
        request: &Request<impl Sized>,
        code: u16,
        reason: &str,
        message: &str,
    ) -> Response<Body> {
        let status = json!({ "status": "Failure", "code": code, "reason": reason, "message": message });
        self.object(request, &self.body_type("meta.v1.Status"), code, &status)
    }
}
