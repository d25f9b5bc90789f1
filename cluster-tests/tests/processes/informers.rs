//! The needs of clients' caches: every discovered resource in every version is listed and watched as JSON and as
//! Protobuf, and each way gives the same objects.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bytes::{Buf, Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use orch_api::registry::{Registry, Resource};
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use orch_proto::brand::KUBERNETES;

use orch_schema::{Limits, decode_protobuf, read_envelope};
use prost::Message;
use serde::Deserialize;
use serde_json::Value;

use crate::kubectl::kinds::OBJECTS;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Comparisons of a resource before the test gives up: unnamed loops write every few seconds.
const COMPARISONS_MAX: usize = 10;

/// A watch that begins with the objects there are, and marks their end.
const FROM_ALL: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// A resource of a document of discovery.
struct Discovered {
    /// `api/v1` or `apis/GROUP/VERSION`.
    root: String,
    name: String,
    kind: String,
    is_namespaced: bool,
    can_watch: bool,
}

/// Objects by namespace and name.
type Set = BTreeMap<(String, String), Value>;

#[derive(Clone, PartialEq, Message)]
struct ListMessage {
    #[prost(bytes = "vec", repeated, tag = "2")]
    items: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct EventMessage {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct RawMessage {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_resource_is_the_same_set_listed_and_watched_in_both_forms() {
    // Of the loops that have names only the one that pods need: the others would write to objects between two reads.
    let flags = vec!["--controllers=serviceaccount-controller".to_owned()];
    let cluster = Cluster::start(Options { brand: "kubernetes", flags, ..Options::nodes(1) }).await.unwrap();
    let client = cluster.client(0).unwrap();
    let discovered = discover(&client).await.unwrap();
    make_objects(&client, &discovered).await.unwrap();
    let registry = Registry::builtin(&KUBERNETES);
    let mut filled = 0;
    for resource in discovered.iter().filter(|resource| resource.can_watch) {
        let what = format!("{}/{}", resource.root, resource.name);
        let compared = compare(&client, &registry, resource).await.with_context(|| what.clone());
        filled += usize::from(compared.unwrap() > 0);
    }
    assert!(filled > 50, "{filled} resources with objects");
}

async fn discover(client: &Client) -> Result<Vec<Discovered>> {
    let groups = client.get("/apis").await?.success()?;
    let versions = groups["groups"].as_array().context("groups")?.iter().flat_map(|group| {
        let versions = group["versions"].as_array().into_iter().flatten();
        versions.filter_map(|version| Some(format!("apis/{}", version["groupVersion"].as_str()?)))
    });
    let mut found = Vec::new();
    for root in ["api/v1".to_owned()].into_iter().chain(versions) {
        let list = client.get(&format!("/{root}")).await?.success()?;
        for resource in list["resources"].as_array().context("resources")? {
            let verbs = resource["verbs"].as_array().context("verbs")?;
            let text = |member: &str| resource[member].as_str().unwrap_or_default().to_owned();
            if verbs.iter().any(|verb| verb == "list") {
                found.push(Discovered {
                    root: root.clone(),
                    name: text("name"),
                    kind: text("kind"),
                    is_namespaced: resource["namespaced"] == true,
                    can_watch: verbs.iter().any(|verb| verb == "watch"),
                });
            }
        }
    }
    Ok(found)
}

/// Creates each object of [`OBJECTS`] at the path of its kind.
async fn make_objects(client: &Client, discovered: &[Discovered]) -> Result<()> {
    for document in serde_norway::Deserializer::from_str(OBJECTS) {
        let object = Value::deserialize(document)?;
        let (version, kind) = (object["apiVersion"].as_str().context("apiVersion")?, &object["kind"]);
        let root = if version == "v1" { "api/v1".to_owned() } else { format!("apis/{version}") };
        let resource = discovered
            .iter()
            .find(|resource| resource.root == root && *kind == resource.kind)
            .with_context(|| format!("{version} {kind} is not discovered"))?;
        let namespace = object["metadata"]["namespace"].as_str();
        ensure!(namespace.is_some() == resource.is_namespaced, "{kind}");
        let place = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
        client.post(&format!("/{root}/{place}{}", resource.name), &object).await?.success()?;
    }
    Ok(())
}

/// Reads a resource in four ways; returns the number of objects.
async fn compare(client: &Client, registry: &Registry, discovered: &Discovered) -> Result<usize> {
    let (group, version) = match discovered.root.strip_prefix("apis/") {
        Some(version) => version.split_once('/').context("a group and a version")?,
        None => ("", "v1"),
    };
    let resource = registry.find(group, version, &discovered.name).context("a resource of the registry")?;
    let path = format!("/{}/{}", discovered.root, discovered.name);
    // Unnamed loops write now and then; a comparison counts when nothing changed meanwhile.
    for _ in 0..COMPARISONS_MAX {
        let listed = list_json(client, &path).await?;
        let compared = compare_with(&listed, client, &path, resource).await;
        if list_json(client, &path).await? == listed {
            return compared.map(|()| listed.len());
        }
    }
    anyhow::bail!("it changed again and again")
}

async fn compare_with(listed: &Set, client: &Client, path: &str, resource: &Resource) -> Result<()> {
    for (way, found) in [
        ("list as Protobuf", list_protobuf(client, path, resource).await?),
        ("watch as JSON", watch_json(client, path).await?),
        ("watch as Protobuf", watch_protobuf(client, path, resource).await?),
    ] {
        let names = |set: &Set| set.keys().cloned().collect::<Vec<_>>();
        ensure!(names(&found) == names(listed), "{way}: {:?} and not {:?}", names(&found), names(listed));
        for (name, object) in listed {
            ensure!(found[name] == *object, "{way}: {name:?} is {} and not {object}", found[name]);
        }
    }
    Ok(())
}

/// Adds an object without its head, which lists leave to the list.
fn add(set: &mut Set, mut object: Value) -> Result<()> {
    let members = object.as_object_mut().context("an object")?;
    members.shift_remove("kind");
    members.shift_remove("apiVersion");
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
    let name = (text("namespace"), text("name"));
    ensure!(set.insert(name.clone(), object).is_none(), "{name:?} came twice");
    Ok(())
}

fn decoded(resource: &Resource, message: &[u8]) -> Result<Value> {
    let value = decode_protobuf(&resource.schema, resource.type_id, message, Limits::default());
    Ok(serde_json::from_str(&value.map_err(|error| anyhow::anyhow!("{error:?}"))?.to_string())?)
}

async fn list_json(client: &Client, path: &str) -> Result<Set> {
    let list = client.get(path).await?.success()?;
    let mut set = Set::new();
    list["items"].as_array().context("items")?.iter().cloned().try_for_each(|item| add(&mut set, item))?;
    Ok(set)
}

async fn list_protobuf(client: &Client, path: &str, resource: &Resource) -> Result<Set> {
    let answer = client.send(Method::GET, path, &[("accept", PROTOBUF)], Bytes::new()).await?;
    ensure!(answer.status == 200, "{}", answer.status);
    let list = ListMessage::decode(read_envelope(answer.body)?.raw)?;
    let mut set = Set::new();
    list.items.iter().try_for_each(|item| add(&mut set, decoded(resource, item)?))?;
    Ok(set)
}

async fn watch_json(client: &Client, path: &str) -> Result<Set> {
    let mut watch = client.watch(&format!("{path}?{FROM_ALL}")).await?;
    let mut set = Set::new();
    while let Some(event) = watch.line().await? {
        match event["type"].as_str() {
            Some("ADDED") => add(&mut set, event["object"].clone())?,
            Some("BOOKMARK") => return Ok(set),
            _ => anyhow::bail!("{event}"),
        }
    }
    anyhow::bail!("the watch ended before its bookmark")
}

async fn watch_protobuf(client: &Client, path: &str, resource: &Resource) -> Result<Set> {
    let accept = format!("{PROTOBUF};stream=watch");
    let headers = [("accept", accept.as_str())];
    let (_connection, answer) =
        client.start(Method::GET, &format!("{path}?{FROM_ALL}"), &headers, Bytes::new()).await?;
    ensure!(answer.status() == 200, "{}", answer.status());
    let (mut body, mut held, mut set) = (answer.into_body(), BytesMut::new(), Set::new());
    loop {
        while let Some(frame) = take_frame(&mut held) {
            let event = EventMessage::decode(frame)?;
            let object = event.object.context("an object")?;
            match event.kind.as_str() {
                "ADDED" => add(&mut set, decoded(resource, &read_envelope(object.raw)?.raw)?)?,
                "BOOKMARK" => return Ok(set),
                kind => anyhow::bail!("{kind}"),
            }
        }
        let frame = body.frame().await.context("the watch ended before its bookmark")??;
        held.extend_from_slice(frame.data_ref().context("data")?);
    }
}

/// The first message of `held`, which its length in four bytes precedes; `None` while it is not whole.
fn take_frame(held: &mut BytesMut) -> Option<Bytes> {
    let length = usize::try_from(u32::from_be_bytes(held.first_chunk().copied()?)).ok()?;
    if held.len() < 4 + length {
        return None;
    }
    held.advance(4);
    Some(held.split_to(length).freeze())
}
