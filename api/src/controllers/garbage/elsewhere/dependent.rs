//! An object of an aggregated server that has owners, and the requests that change it.
//!
//! Owns reading it from a page, of which the metadata alone is decoded. Each request has its uid and version as preconditions: an object of
//! a server that has none of these is left alone.

use http::Method;
use orch_raft::Store;
use orch_schema::json;
use orch_schema::value::Value;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::ownership::{FOREGROUND, ORPHAN};
use super::look::PAGE_OBJECTS;
use crate::aggregation::Remote;
use crate::controllers::api_services::asking::ask_with;
use crate::controllers::client::{Client, Propagation};

/// Owners of one object. One that names more stays: each may be a question to another server.
const OWNERS_MAX: usize = 16;

/// An object of an aggregated server that has owners.
#[derive(Debug)]
pub(super) struct Dependent {
    /// Empty for cluster scope.
    pub(super) namespace: String,
    pub(super) name: String,
    uid: String,
    version: String,
    pub(super) owners: Vec<Value>,
    pub(super) is_terminating: bool,
    /// The treatment of its own dependents, by its finalizers.
    pub(super) propagation: Propagation,
}

/// A page of a list, of which the metadata is read alone.
#[derive(Default, Deserialize)]
#[serde(default)]
struct List {
    kind: String,
    metadata: ListMetadata,
    #[serde(deserialize_with = "items")]
    items: Option<Vec<Item>>,
}

/// Items of a list, one more than were asked for at most: empty ones take three bytes of a text, and fifty times that of memory.
fn items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Item>>, D::Error> {
    struct Items;

    impl<'de> Visitor<'de> for Items {
        type Value = Option<Vec<Item>>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of objects")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = sequence.next_element()? {
                items.push(item);
                if items.len() > PAGE_OBJECTS {
                    return Err(A::Error::custom("more objects than were asked for"));
                }
            }
            Ok(Some(items))
        }
    }

    deserializer.deserialize_any(Items)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMetadata {
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    owner_references: Option<Vec<Value>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

/// A page of objects.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) dependents: Vec<Dependent>,
    /// The token of the next page; empty behind the last one.
    pub(super) next: String,
}

impl Page {
    /// Reads a list of at most `objects_max` objects.
    ///
    /// # Errors
    /// It is none, or has more.
    pub(super) fn read(text: &[u8], objects_max: usize) -> Result<Page, &'static str> {
        let list: List = serde_json::from_slice(text).map_err(|_| "it answers with no list")?;
        if !list.kind.ends_with("List") {
            return Err("it answers with another document");
        }
        let items = list.items.unwrap_or_default();
        if items.len() > objects_max {
            return Err("its pages have more objects than they were asked for");
        }
        let dependents = items.into_iter().filter_map(|item| Dependent::of(item.metadata)).collect();
        Ok(Page { dependents, next: list.metadata.next })
    }
}

impl Dependent {
    /// An object with this metadata, if it has owners and can be named by uid and version.
    fn of(metadata: Metadata) -> Option<Dependent> {
        let Metadata { name, namespace, uid, resource_version: version, .. } = metadata;
        let owners = metadata.owner_references.unwrap_or_default();
        let is_owned = (1..=OWNERS_MAX).contains(&owners.len());
        if !is_owned || name.is_empty() || uid.is_empty() || version.is_empty() {
            return None;
        }
        let finalizers = metadata.finalizers.unwrap_or_default();
        // few: the finalizers of one object, of a document of bounded size.
        let is_held = |finalizer: &str| finalizers.iter().any(|held| held == finalizer);
        let propagation = match (is_held(ORPHAN), is_held(FOREGROUND)) {
            (true, _) => Propagation::Orphan,
            (false, true) => Propagation::Foreground,
            (false, false) => Propagation::Background,
        };
        let is_terminating = metadata.deletion_timestamp.is_some();
        Some(Dependent { namespace, name, uid, version, owners, is_terminating, propagation })
    }

    /// Has the server of `remote` delete the object, one of `resource`.
    pub(super) async fn delete<S: Store>(&self, client: &Client<S>, remote: &Remote, resource: &str) {
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": self.preconditions(), "propagationPolicy": self.propagation.as_str(),
        });
        self.send(client, remote, (Method::DELETE, resource), ("application/json", &options)).await;
    }

    /// Has the server of `remote` replace the owner references of the object, one of `resource`, by `left`. Whether it has.
    pub(super) async fn set_owners<S: Store>(
        &self,
        client: &Client<S>,
        (remote, resource): (&Remote, &str),
        left: Vec<Value>,
    ) -> bool {
        let mut metadata = self.preconditions();
        metadata["ownerReferences"] = if left.is_empty() { Value::Null } else { json!(left) };
        let patch = json!({"metadata": metadata});
        let patch = ("application/merge-patch+json", &patch);
        self.send(client, remote, (Method::PATCH, resource), patch).await
    }

    fn preconditions(&self) -> Value {
        json!({"uid": self.uid.as_str(), "resourceVersion": self.version.as_str()})
    }

    /// Whether the server has done what it was asked. A failure is looked at again by the next look.
    async fn send<S: Store>(
        &self,
        client: &Client<S>,
        remote: &Remote,
        (method, resource): (Method, &str),
        document: (&str, &Value),
    ) -> bool {
        let path = remote.object(&self.namespace, resource, &self.name);
        let answer = ask_with(client, remote, (method, &path), document).await;
        let code = answer.map(|answer| answer.code);
        let is_done = code.is_some_and(|code| matches!(code, 200..300));
        if !is_done {
            tracing::debug!(server = %remote.name, path, ?code, "an aggregated server does not change a dependent");
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_up_to_the_objects_of_a_page_and_no_further() {
        let list = |items: usize, rest: &str| {
            let items = vec!["{}"; items].join(",");
            format!("{{\"kind\":\"ThingList\",\"items\":[{items}{rest}]}}")
        };
        let read = |text: &str, objects_max| Page::read(text.as_bytes(), objects_max).map(|_| ());
        assert_eq!(read(&list(PAGE_OBJECTS, ""), PAGE_OBJECTS), Ok(()));
        assert_eq!(read(&list(3, ""), 2), Err("its pages have more objects than they were asked for"));
        // The part of a body that lies behind the bound is not read, nor checked to be JSON.
        let error = serde_json::from_str::<List>(&list(PAGE_OBJECTS + 1, ",garbage")).err().unwrap();
        assert!(error.to_string().starts_with("more objects than were asked for"), "{error}");
        assert_eq!(
            serde_json::from_str::<List>("{\"items\":null}").unwrap().items.map(|items| items.len()),
            None
        );
    }
}
