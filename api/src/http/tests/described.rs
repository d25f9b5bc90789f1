//! Discovery and OpenAPI, with their hashes.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

use orch_raft::{Index, Key, Operation, Put, Store, Transaction};

use super::*;
use crate::registry::Resource;
use crate::request::Verb;

const AGGREGATED: &str = "application/json;g=apidiscovery.orch.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_BETA: &str = "application/json;g=apidiscovery.orch.io;v=v2beta1;as=APIGroupDiscoveryList";

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answered {
    server.send(Method::GET, path, headers, Body::empty()).await
}

fn header<'a>(answered: &'a Answered, name: &str) -> &'a str {
    answered.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn aggregated_discovery_is_given_to_those_who_ask_for_it() {
    block_on(async {
        let server = Server::new().await;
        let all = format!("{AGGREGATED},{AGGREGATED_BETA},application/json");
        for (path, accept, kind) in [
            ("/api", "application/json", "APIVersions"),
            ("/apis", "*/*", "APIGroupList"),
            ("/apis/", AGGREGATED, "APIGroupDiscoveryList"),
            ("/api", all.as_str(), "APIGroupDiscoveryList"),
            (
                "/apis",
                "application/json;g=other;v=v2;as=APIGroupDiscoveryList,application/json",
                "APIGroupList",
            ),
            ("/apis/apps", all.as_str(), "APIGroup"),
        ] {
            let answered = get(&server, path, &[("accept", accept)]).await;
            assert_eq!(answered.json()["kind"], kind, "{path} {accept}");
        }
        let beta = get(&server, "/apis", &[("accept", AGGREGATED_BETA)]).await;
        assert_eq!(beta.json()["apiVersion"], "apidiscovery.orch.io/v2beta1");
        assert_eq!(header(&beta, "content-type"), AGGREGATED_BETA);
    });
}

#[test]
fn the_documents_of_a_group_are_made_beside_the_threads_that_answer() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(async {
        let server = Server::new().await;
        assert_eq!(get(&server, "/apis/batch/v1", &[]).await.code, 200);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || released.recv().unwrap());
        assert_eq!(get(&server, "/apis/batch/v1", &[]).await.code, 200, "it is there");
        let mut waiting = Vec::new();
        for path in ["/apis/apps/v1", "/apis/apps", "/apis", "/apis"] {
            waiting.push(Box::pin(get(&server, path, &[])));
        }
        for answer in &mut waiting {
            let wait = Duration::from_millis(50);
            assert!(tokio::time::timeout(wait, answer).await.is_err(), "it waits for a thread");
        }
        release.send(()).unwrap();
        busy.await.unwrap();
        for answer in waiting {
            assert_eq!(answer.await.code, 200);
        }
    });
}

#[test]
fn aggregated_discovery_is_given_in_every_form() {
    block_on(async {
        let server = Server::new().await;
        let list = "g=apidiscovery.orch.io;v=v2;as=APIGroupDiscoveryList";
        for path in ["/api", "/apis"] {
            let json = get(&server, path, &[("accept", AGGREGATED)]).await;
            let accept = format!("application/yaml;{list}");
            let yaml = get(&server, path, &[("accept", &accept)]).await;
            assert_eq!((yaml.code.as_u16(), header(&yaml, "content-type")), (200, &*accept), "{path}");
            let value = orch_schema::yaml_value(orch_schema::testing::orch(), yaml.text.as_bytes()).unwrap();
            assert_eq!(value, json.json(), "{path}");
            assert_eq!(header(&yaml, "etag"), header(&json, "etag"), "{path}");
            let accept = format!("application/vnd.orch.protobuf;{list}");
            let headers = [("accept", &*format!("{accept},application/json"))];
            let response = server.open(Method::GET, path, &headers, Body::empty()).await;
            assert_eq!(response.headers()["content-type"], &*accept, "{path}");
            let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
            let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
            assert!(
                bytes.starts_with(b"k8s\0") && holds(b"apidiscovery.orch.io/v2\x12\x15APIGroupDiscoveryList")
            );
            assert!(holds(b"Namespaced") && holds(b"deletecollection") && holds(b"Current"), "{path}");
            let known = [("accept", &*accept), ("if-none-match", header(&json, "etag"))];
            assert_eq!(get(&server, path, &known).await.code, 304, "{path}");
        }
        let pretty = get(&server, "/apis?pretty=true", &[("accept", AGGREGATED)]).await;
        assert!(pretty.text.starts_with("{\n  \"kind\""), "{}", pretty.text);
    });
}

#[test]
fn discovery_is_negotiated_like_everything_else() {
    block_on(async {
        let server = Server::new().await;
        let unknown = "application/json;g=apidiscovery.orch.io;v=v9;as=APIGroupDiscoveryList";
        for path in ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/"] {
            let json = get(&server, path, &[("accept", "application/json")]).await;
            assert_eq!(header(&json, "content-type"), "application/json", "{path}");
            let yaml = get(&server, path, &[("accept", "application/yaml")]).await;
            assert_eq!(header(&yaml, "content-type"), "application/yaml", "{path}");
            // Documents of the core API have no version.
            let first = match path {
                "/api" => "kind: APIVersions\n",
                "/api/v1" => "groupVersion: v1\nkind: APIResourceList\n",
                _ => "apiVersion: v1\n",
            };
            assert!(yaml.text.starts_with(first), "{path}: {}", yaml.text);
            let value = orch_schema::yaml_value(orch_schema::testing::orch(), yaml.text.as_bytes()).unwrap();
            assert_eq!(value, json.json(), "{path}");
            let agent = [("user-agent", "curl/8.0")];
            assert!(get(&server, path, &agent).await.text.starts_with("{\n  \"kind\""), "{path}");
            for accept in ["text/html", unknown, "application/json;as=Table;g=meta.orch.io;v=v1"] {
                let refused = get(&server, path, &[("accept", accept)]).await;
                let reason = refused.json()["reason"].clone();
                assert_eq!((refused.code.as_u16(), reason), (406, json!("NotAcceptable")), "{path} {accept}");
            }
        }
        let headers = [("accept", "application/vnd.orch.protobuf")];
        let response = server.open(Method::GET, "/apis/apps/v1", &headers, Body::empty()).await;
        assert_eq!(response.headers()["content-type"], "application/vnd.orch.protobuf");
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(bytes.starts_with(b"k8s\0") && holds(b"APIResourceList") && holds(b"deployments/status"));
    });
}

#[test]
fn the_version_is_json_for_those_who_take_it() {
    block_on(async {
        let server = Server::new().await;
        for (accept, code) in [
            ("application/json", 200),
            ("*/*", 200),
            ("application/yaml, */*;q=0.1", 200),
            ("application/yaml", 406),
            ("application/vnd.orch.protobuf", 406),
        ] {
            // A refusal is written in the accepted encoding, which may be Protobuf.
            let response = server.open(Method::GET, "/version", &[("accept", accept)], Body::empty()).await;
            assert_eq!(response.status(), code, "{accept}");
        }
        let refused = get(&server, "/version", &[("accept", "text/html")]).await.json();
        let told = "406: Not Acceptable\n\nAvailable representations: application/json";
        assert_eq!(refused["message"], told, "no form is named that would be refused as well");
    });
}

#[test]
fn aggregated_discovery_tells_all_of_a_resource_and_is_known_by_its_hash() {
    block_on(async {
        let server = Server::new().await;
        let answered = get(&server, "/apis", &[("accept", AGGREGATED)]).await;
        let document = answered.json();
        let apps =
            document["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
        assert_eq!(apps["versions"][0]["freshness"], "Current");
        let resources = apps["versions"][0]["resources"].as_array().unwrap();
        let deployments = resources.iter().find(|entry| entry["resource"] == "deployments").unwrap();
        assert_eq!(deployments["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
        assert_eq!(
            (&deployments["scope"], &deployments["shortNames"]),
            (&json!("Namespaced"), &json!(["deploy"]))
        );
        assert_eq!(deployments["singularResource"], "deployment");
        assert_eq!(deployments["categories"], json!(["all"]));
        let status =
            deployments["subresources"].as_array().unwrap().iter().find(|s| s["subresource"] == "status");
        assert_eq!(status.unwrap()["verbs"], json!(["get", "patch", "update"]));
        let etag = header(&answered, "etag");
        assert_eq!((header(&answered, "vary"), header(&answered, "cache-control")), ("Accept", "public"));
        let again = get(&server, "/apis", &[("accept", AGGREGATED), ("if-none-match", etag)]).await;
        assert_eq!((again.code, again.text.as_str()), (StatusCode::NOT_MODIFIED, ""));
        let core = get(&server, "/api", &[("accept", AGGREGATED)]).await.json();
        assert_eq!(core["items"][0]["metadata"], json!({}));
        assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
    });
}

#[test]
fn documents_are_kept_by_clients_until_their_hash_changes() {
    block_on(async {
        let server = Server::new().await;
        let index = get(&server, "/openapi/v3", &[]).await;
        let url = index.json()["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
        let document = get(&server, &url, &[("accept", "application/json")]).await;
        assert_eq!(document.json()["openapi"], "3.0.0");
        assert_eq!(header(&document, "cache-control"), "public, immutable");
        assert_eq!(header(&document, "expires"), "Sat, 02 Jan 2027 02:49:05 GMT");
        let etag = header(&document, "etag").to_owned();
        assert!(url.ends_with(etag.trim_matches('"')));
        let again = get(&server, &url, &[("if-none-match", &etag)]).await;
        assert_eq!((again.code, header(&again, "etag")), (StatusCode::NOT_MODIFIED, etag.as_str()));
        let other = get(&server, &url, &[("if-none-match", "\"other\"")]).await;
        assert_eq!(other.code, StatusCode::OK);
        let stale = get(&server, "/openapi/v3/apis/apps/v1?hash=OLD", &[]).await;
        assert_eq!((stale.code, header(&stale, "location")), (StatusCode::MOVED_PERMANENTLY, url.as_str()));
        let plain = get(&server, "/openapi/v3/apis/apps/v1", &[]).await;
        assert_eq!(header(&plain, "cache-control"), "no-cache, private");
    });
}

#[test]
fn documents_are_refused_in_forms_that_are_not_written() {
    block_on(async {
        let server = Server::new().await;
        for (path, accept, code) in [
            ("/openapi/v3/apis/apps/v1", "text/html", 406),
            ("/openapi/v3/apis/apps/v1", "application/x+protobuf, */*;q=0.1", 200),
            ("/openapi/v3", "text/html", 200),
            ("/openapi/v2", "text/html", 406),
            ("/openapi/v3/apis/apps/v1", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 406),
            ("/openapi/v2", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf", 406),
            ("/openapi/v3/apis/nope/v1", "*/*", 404),
            ("/openapi/v4", "*/*", 404),
        ] {
            assert_eq!(get(&server, path, &[("accept", accept)]).await.code, code, "{path} {accept}");
        }
        let answered = server.send(Method::POST, "/openapi/v2", &[], Body::empty()).await;
        assert_eq!(answered.code, 405);
    });
}

#[test]
fn documents_are_given_in_the_binary_forms_that_older_clients_ask_for() {
    block_on(async {
        let server = Server::new().await;
        let index = get(&server, "/openapi/v3", &[]).await.json();
        let by_hash = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
        let beginnings =
            [("/openapi/v2", "v2", &b"\x0a\x032.0"[..]), (&by_hash, "v3", &b"\x0a\x053.0.0"[..])];
        for (path, version, beginning) in beginnings {
            for sign in ["@", "."] {
                let accept =
                    format!("application/com.github.proto-openapi.spec.{version}{sign}v1.0+protobuf");
                let headers = [("accept", accept.as_str())];
                let response = server.open(Method::GET, path, &headers, Body::empty()).await;
                assert_eq!(response.status(), StatusCode::OK, "{path}");
                let expected = format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf");
                assert_eq!(response.headers()["content-type"], expected);
                let bytes = response.into_body().collect().await.unwrap().to_bytes();
                assert!(bytes.starts_with(beginning), "{path}: {:?}", &bytes[..8]);
            }
        }
    });
}

#[test]
fn documents_go_out_compressed_to_those_who_take_it() {
    block_on(async {
        let server = Server::new().await;
        let plain = get(&server, "/openapi/v3/api/v1", &[]).await;
        let headers = [("accept-encoding", "br, gzip")];
        let response = server.open(Method::GET, "/openapi/v3/api/v1", &headers, Body::empty()).await;
        assert_eq!(response.headers()["content-encoding"], "gzip");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
        assert_eq!(text, plain.text);
        assert!(bytes.len() * 10 < text.len(), "{} of {}", bytes.len(), text.len());
    });
}

#[test]
fn the_version_is_what_its_document_describes() {
    block_on(async {
        let server = Server::new().await;
        let told = get(&server, "/version", &[]).await.json();
        let document = get(&server, "/openapi/v3/version", &[]).await.json();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let (_, info) = schemas.iter().next().unwrap();
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().map(|name| name.to_string()).collect()
        };
        assert_eq!(names(&told), names(&info["properties"]));
        assert!(told.as_object().unwrap().values().all(Value::is_string));
        for required in info["required"].as_array().unwrap() {
            assert!(!told[required.as_str().unwrap()].is_null(), "{required}");
        }
    });
}

/// Puts an object `n` of every stored kind into the store, past the rules of its kind.
async fn plant_every_kind(server: &Server, registry: &Registry) {
    let put = |resource: &Arc<Resource>| {
        let namespace = if resource.namespaced { "ns" } else { "" };
        let key = Key::new(&resource.storage, namespace, "n").unwrap();
        let place = if resource.namespaced { r#""namespace":"ns","# } else { "" };
        let json = format!(r#"{{"metadata":{{"resourceVersion":"",{place}"name":"n","uid":"u"}}}}"#);
        let index = Index { uid: "u".to_owned(), ..Index::default() };
        Operation::Put(Put { key, json: json.into(), revision_at: 32, index })
    };
    let stored = registry.resources().filter(|of| of.review.is_none() && of.stands_for_stored());
    let operations = stored.map(put).collect();
    let transaction = Transaction { proposed_ms: 1, conditions: Vec::new(), operations };
    server.store.propose(transaction).await.unwrap();
}

/// A deletion at once answers with the object or with a Status, by kind: the document says which.
#[test]
fn deletions_are_answered_as_they_are_described() {
    block_on(async {
        let server = Server::new().await;
        let registry = Registry::builtin(&ORCH);
        plant_every_kind(&server, &registry).await;
        let mut objects = BTreeSet::new();
        let deletable = registry.resources().filter(|of| of.allows(Verb::Delete) && of.stands_for_stored());
        for resource in deletable {
            let root = if resource.group.is_empty() { "api" } else { "apis" };
            let group = format!("{root}/{}", resource.api_version());
            let (template, place) = match resource.namespaced {
                true => ("/namespaces/{namespace}", "/namespaces/ns"),
                false => ("", ""),
            };
            let document = get(&server, &format!("/openapi/v3/{group}"), &[]).await.json();
            let path = format!("/{group}{template}/{}/{{name}}", resource.plural);
            let schema = &document["paths"][path.as_str()]["delete"]["responses"]["200"]["content"];
            let described = schema["application/json"]["schema"]["$ref"].as_str().unwrap();
            let described = described.rsplit('.').next().unwrap();
            let path = format!(
                "/{group}{place}/{}/n?gracePeriodSeconds=0&propagationPolicy=Background",
                resource.plural
            );
            let answered = server.send(Method::DELETE, &path, &[], Body::empty()).await;
            assert_eq!(answered.code, 200, "{path}: {}", answered.text);
            // The first deletion of a definition marks it, and answers with it, as the reference does beside the same description.
            let told = if resource.kind == "CustomResourceDefinition" { &resource.kind } else { described };
            assert_eq!(answered.json()["kind"], told, "{path}");
            if described != "Status" {
                objects.insert(resource.kind.clone());
            }
        }
        let expected = [
            "CSIDriver",
            "CSINode",
            "DeviceClass",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceQuota",
            "ResourceSlice",
            "Service",
            "ServiceAccount",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ];
        assert_eq!(objects.into_iter().collect::<Vec<_>>(), expected, "the reference's");
    });
}
