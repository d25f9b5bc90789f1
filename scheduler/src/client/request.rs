//! The verbs of the API.
//!
//! Owns request and result of each verb. Bodies of writes are read only by callers who want them: the
//! answers to thousands of binds and events a second are thrown away unread.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};
use orch_proto::Brand;

use crate::api::meta::v1;

use super::codec::{Codec, CodecError};
use super::config::{Config, ConfigError};
use super::error::Error;
use super::kind::{Kind, Listed, Object};
use super::paths::{Query, collection, object};
use super::transport::{ANSWER_BYTES_MAX, Answer, Call, Opened, Transport};
use super::watch::WatchStream;

/// A client of one cluster. Cheap to clone; clones share connections, credentials and the limit of requests a second.
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    codec: Codec,
}

/// Which objects a list or a watch covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// The namespace; empty for all.
    pub namespace: String,
    /// `fieldSelector`; empty for no condition.
    pub field_selector: String,
    /// `labelSelector`; empty for no condition.
    pub label_selector: String,
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct ListPage<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The revision of the whole list, from which a watch goes on.
    pub resource_version: String,
    /// Where the next page starts; empty on the last one.
    pub continue_token: String,
}

/// How a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// JSON merge patch (RFC 7396).
    Merge,
    /// Strategic merge patch: lists of conditions are merged by their type.
    Strategic,
}

impl PatchType {
    fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
        })
    }
}

/// Precondition and grace period of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Only an object of this UID is deleted; empty for any.
    pub uid: String,
    /// Seconds that the object has to end; `None` for its own.
    pub grace_period_seconds: Option<i64>,
}

/// The answer to a write, not read yet.
#[derive(Debug)]
pub struct Created<T> {
    body: Bytes,
    codec: Codec,
    what: String,
    object: PhantomData<T>,
}

impl<T: Object> Created<T> {
    /// Reads the object as the server stored it.
    ///
    /// # Errors
    /// [`Error::Answer`] where it cannot be read; the write has happened all the same.
    pub fn object(self) -> Result<T, Error> {
        let read = self.codec.decode(self.body);
        read.map_err(|error| Error::Answer { what: self.what, problem: super::error::chain(&error) })
    }
}

impl Client {
    /// A client of the cluster that `config` leads to. No connection is made before the first request.
    ///
    /// # Errors
    /// Where certificates or headers of the configuration cannot be used.
    pub fn new(config: &Config, brand: &'static Brand) -> Result<Self, ConfigError> {
        let codec = Codec::with(brand, config.content_type, config.accepted);
        Ok(Self { transport: Arc::new(Transport::new(config)?), codec })
    }

    /// The brand of the cluster.
    pub fn brand(&self) -> &'static Brand {
        self.codec.brand()
    }

    /// Reads one object.
    ///
    /// # Errors
    /// Those of [`Error`]; a missing object is [`super::Reason::NotFound`].
    pub async fn get<T: Object>(&self, namespace: &str, name: &str) -> Result<T, Error> {
        let path = object(self.brand(), &T::KIND, namespace, name, "");
        let (what, answer) = self.call(Method::GET, path, Bytes::new(), None).await?;
        self.read(what, answer)
    }

    /// Reads one page of a list: at most `limit` objects from `continue_token` on, the first page where that is
    /// empty. Pages of one list are of one revision.
    ///
    /// # Errors
    /// Those of [`Error`]; a token that is too old is [`super::Reason::Expired`].
    pub async fn list<T: Listed>(
        &self,
        query: &ListQuery,
        limit: u32,
        continue_token: &str,
    ) -> Result<ListPage<T>, Error> {
        let parameters =
            query.parameters().with("limit", &limit.to_string()).with("continue", continue_token);
        let path = parameters.after(collection(self.brand(), &T::KIND, &query.namespace));
        let (what, answer) = self.call(Method::GET, path, Bytes::new(), None).await?;
        let list = self.codec.decode_list::<T::List>(&T::KIND, answer.body);
        let (metadata, items) = T::split(list.map_err(|error| unreadable(what, &error))?);
        Ok(ListPage {
            items,
            resource_version: metadata.resource_version,
            continue_token: metadata.r#continue,
        })
    }

    /// Watches from behind `resource_version` on, for at most `timeout_seconds`, with bookmarks.
    ///
    /// # Errors
    /// Those of [`Error`]; a version that is too old is [`super::Reason::Expired`], here or as the stream's error.
    pub async fn watch<T: Object>(
        &self,
        query: &ListQuery,
        resource_version: &str,
        timeout_seconds: u32,
    ) -> Result<WatchStream<T>, Error> {
        let parameters = query.parameters().with("watch", "true").with("allowWatchBookmarks", "true");
        let parameters = parameters
            .with("resourceVersion", resource_version)
            .with("timeoutSeconds", &timeout_seconds.to_string());
        let path = parameters.after(collection(self.brand(), &T::KIND, &query.namespace));
        let call = self.form(Method::GET, path, Bytes::new(), None);
        let what = format!("WATCH {}", T::KIND.plural);
        match self.transport.open(&call).await? {
            Opened::Stream(body, server) => {
                Ok(WatchStream::new(body, server, self.codec.clone(), what, timeout_seconds))
            }
            Opened::Answer(answer) => Err(answer.into_error(what, &self.codec)),
        }
    }

    /// Creates `object` in `namespace` (empty for kinds without).
    ///
    /// # Errors
    /// Those of [`Error`]; look at [`Error::is_outcome_unknown`] before trying again.
    pub async fn create<T: Object>(&self, namespace: &str, object: &T) -> Result<Created<T>, Error> {
        let path = collection(self.brand(), &T::KIND, namespace);
        self.write(Method::POST, path, object).await
    }

    /// Creates `body` as sub-resource `subresource` of an object of kind `T`.
    ///
    /// # Errors
    /// Those of [`Error`]; look at [`Error::is_outcome_unknown`] before trying again.
    pub async fn create_subresource<T: Object, B: Object>(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: &B,
    ) -> Result<(), Error> {
        let path = object(self.brand(), &T::KIND, namespace, name, subresource);
        self.write(Method::POST, path, body).await.map(|_| ())
    }

    /// Replaces an object, or its sub-resource `subresource` where that is not empty. The object's resource version
    /// is a condition.
    ///
    /// # Errors
    /// Those of [`Error`]; an object that has changed is [`super::Reason::Conflict`].
    pub async fn update<T: Object>(&self, object_: &T, subresource: &str) -> Result<Created<T>, Error> {
        let key = object_.key();
        let path = object(self.brand(), &T::KIND, &key.namespace, &key.name, subresource);
        self.write(Method::PUT, path, object_).await
    }

    /// Patches an object, or its sub-resource `subresource` where that is not empty.
    ///
    /// # Errors
    /// Those of [`Error`].
    pub async fn patch<T: Object>(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch_type: PatchType,
        patch: &serde_json::Value,
    ) -> Result<Created<T>, Error> {
        let path = object(self.brand(), &T::KIND, namespace, name, subresource);
        let body = Bytes::from(patch.to_string());
        let (what, answer) = self.call(Method::PATCH, path, body, Some(patch_type.media_type())).await?;
        Ok(self.written(what, answer))
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// Those of [`Error`]; another UID than the options name is [`super::Reason::Conflict`].
    pub async fn delete<T: Object>(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let path = object(self.brand(), &T::KIND, namespace, name, "");
        let preconditions = (!options.uid.is_empty())
            .then(|| v1::Preconditions { uid: Some(options.uid.clone()), ..v1::Preconditions::default() });
        let options = v1::DeleteOptions {
            preconditions,
            grace_period_seconds: options.grace_period_seconds,
            ..v1::DeleteOptions::default()
        };
        self.write::<v1::DeleteOptions>(Method::DELETE, path, &options).await.map(|_| ())
    }

    /// Whether a simulation carries the requests.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn is_simulated(&self) -> bool {
        self.transport.is_simulated()
    }

    /// Turns to the next API server, unless that has happened already: `stream` broke or says nothing.
    pub(super) fn leave_server_of<T: Object>(&self, stream: &WatchStream<T>) {
        self.transport.leave_server(stream.server());
    }

    async fn write<T: Object>(&self, method: Method, path: String, body: &T) -> Result<Created<T>, Error> {
        let encoded = self.codec.encode(body);
        let encoded = encoded.map_err(|error| Error::Request {
            what: format!("{method} {path}"),
            problem: super::error::chain(&error),
        })?;
        let media_type = HeaderValue::from_static(self.codec.media_type());
        let (what, answer) = self.call(method, path, encoded, Some(media_type)).await?;
        Ok(self.written(what, answer))
    }

    fn written<T>(&self, what: String, answer: Answer) -> Created<T> {
        Created { body: answer.body, codec: self.codec.clone(), what, object: PhantomData }
    }

    fn read<T: Object>(&self, what: String, answer: Answer) -> Result<T, Error> {
        self.codec.decode(answer.body).map_err(|error| unreadable(what, &error))
    }

    /// Sends a request; an answer outside 200 to 299 is an error.
    async fn call(
        &self,
        method: Method,
        path: String,
        body: Bytes,
        content_type: Option<HeaderValue>,
    ) -> Result<(String, Answer), Error> {
        let call = self.form(method, path, body, content_type);
        let answer = self.transport.send(&call).await?;
        let what = call.described();
        if (200..300).contains(&answer.code) {
            return Ok((what, answer));
        }
        Err(answer.into_error(what, &self.codec))
    }

    fn form(&self, method: Method, path: String, body: Bytes, content_type: Option<HeaderValue>) -> Call {
        let accept = HeaderValue::try_from(self.codec.accept()).expect("media types are valid in headers");
        Call { method, path, body, content_type, accept, answer_bytes_max: ANSWER_BYTES_MAX }
    }

    /// The kind's version under this client's brand, for references to objects.
    pub fn api_version(&self, kind: &Kind) -> String {
        kind.api_version(self.brand())
    }
}

impl ListQuery {
    /// All objects of all namespaces that `field_selector` covers.
    pub fn by_field(field_selector: &str) -> Self {
        Self { field_selector: field_selector.to_owned(), ..Self::default() }
    }

    fn parameters(&self) -> Query {
        Query::default()
            .with("fieldSelector", &self.field_selector)
            .with("labelSelector", &self.label_selector)
    }
}

fn unreadable(what: String, error: &CodecError) -> Error {
    Error::Answer { what, problem: super::error::chain(error) }
}
