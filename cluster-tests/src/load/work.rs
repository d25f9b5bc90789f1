//! The requests of a work: one `Script` for each client, formatted into buffers that it keeps.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memmem;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::wire::{Call, Reply};
use super::{custom, elsewhere};

/// `limit` of a chunked list, as usual with clients of this API.
pub(super) const CHUNK_OBJECTS: u32 = 500;

/// Objects of the short list in the mixed work.
const SHORT_LIST_OBJECTS: u32 = 50;

/// The resource of a work's objects. They have the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objects {
    /// The built-in kind.
    ConfigMaps,
    /// The kind that a definition declares.
    Custom,
}

impl Objects {
    /// `apiVersion` and `kind` of an object.
    fn kind(self) -> (String, &'static str) {
        match self {
            Objects::ConfigMaps => ("v1".to_owned(), "ConfigMap"),
            Objects::Custom => (format!("{}/v1", custom::GROUP), custom::KIND),
        }
    }

    /// The path of the objects of `namespace`.
    pub(super) fn path(self, namespace: &str) -> String {
        match self {
            Objects::ConfigMaps => format!("/api/v1/namespaces/{namespace}/configmaps"),
            Objects::Custom => {
                format!("/apis/{}/v1/namespaces/{namespace}/{}", custom::GROUP, custom::PLURAL)
            }
        }
    }
}

/// The repeated operation of one client.
#[derive(Clone)]
pub(super) enum Kind {
    /// Creates objects, numbered in one series by all clients.
    Create(Arc<AtomicU64>),
    /// Gets one of the first `objects` objects; at any version if `any`, else with a quorum.
    Get { objects: u32, any: bool },
    /// Gets one of the first `objects` objects of an aggregated server.
    GetAggregated { objects: u32 },
    /// Merge-patches one of the first `objects` objects.
    Patch { objects: u32 },
    /// Lists all objects.
    List,
    /// Lists chunk after chunk.
    Chunked,
    /// The mix described in `--help`, over the first `objects` objects. Created objects continue the numbering.
    Mixed { objects: u32, created: Arc<AtomicU64> },
}

/// The requests of one client.
pub(super) struct Script {
    kind: Kind,
    namespace: String,
    /// The path of the objects.
    collection: String,
    /// The begin of a created object, up to the number in its name.
    head: String,
    payload: Arc<str>,
    random: StdRng,
    sequence: u64,
    continue_token: String,
    path: String,
    body: String,
    expected: u16,
}

impl Script {
    /// The script of client number `client` on the config maps of `namespace`.
    pub(super) fn new(kind: Kind, namespace: &str, payload: &Arc<str>, client: u32) -> Self {
        Self::on(Objects::ConfigMaps, kind, namespace, payload, client)
    }

    /// The same on these objects.
    pub(super) fn on(objects: Objects, kind: Kind, namespace: &str, payload: &Arc<str>, client: u32) -> Self {
        let (api_version, object_kind) = objects.kind();
        Self {
            kind,
            namespace: namespace.to_owned(),
            collection: objects.path(namespace),
            head: format!(r#"{{"apiVersion":"{api_version}","kind":"{object_kind}","metadata":{{"name":"o-"#),
            payload: payload.clone(),
            random: StdRng::seed_from_u64(u64::from(client)),
            sequence: 0,
            continue_token: String::new(),
            path: String::new(),
            body: String::new(),
            expected: 200,
        }
    }

    /// The next request.
    pub(super) fn next(&mut self) -> Call<'_> {
        self.sequence += 1;
        self.expected = 200;
        self.path.clear();
        self.body.clear();
        match self.kind.clone() {
            Kind::Create(numbers) => self.create(&numbers),
            Kind::Get { objects, any } => self.get(objects, any),
            Kind::GetAggregated { objects } => self.get_aggregated(objects),
            Kind::Patch { objects } => self.patch(objects),
            Kind::List => self.list(0),
            Kind::Chunked => self.list(CHUNK_OBJECTS),
            Kind::Mixed { objects, created } => match self.random.random_range(0..20) {
                0..12 => self.get(objects, false),
                12..14 => self.get(objects, true),
                14..17 => self.patch(objects),
                17..19 => self.create(&created),
                _ => {
                    self.continue_token.clear();
                    self.list(SHORT_LIST_OBJECTS)
                }
            },
        }
    }

    /// Processes the response; `true` if it has the expected status.
    pub(super) fn answered(&mut self, reply: &Reply, head: &[u8]) -> bool {
        if matches!(self.kind, Kind::Chunked) {
            self.continue_token = if reply.status == 200 { continue_token(head) } else { String::new() };
        }
        reply.status == self.expected
    }

    fn create(&mut self, numbers: &AtomicU64) -> Call<'_> {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        self.expected = 201;
        self.collection();
        let (body, head, payload) = (&mut self.body, &self.head, &self.payload);
        let _ = write!(body, r#"{head}{number}"}},"data":{{"payload":"{payload}"}}}}"#);
        Call { method: "POST", path: &self.path, content_type: "application/json", body: body.as_bytes() }
    }

    fn get(&mut self, objects: u32, any: bool) -> Call<'_> {
        self.object(objects);
        if any {
            self.path.push_str("?resourceVersion=0");
        }
        Call { method: "GET", path: &self.path, content_type: "", body: b"" }
    }

    fn get_aggregated(&mut self, objects: u32) -> Call<'_> {
        let number = self.random.random_range(0..objects);
        let _ = write!(
            self.path,
            "/apis/{}/v1/namespaces/{}/things/o-{number}",
            elsewhere::GROUP,
            self.namespace
        );
        Call { method: "GET", path: &self.path, content_type: "", body: b"" }
    }

    fn patch(&mut self, objects: u32) -> Call<'_> {
        self.object(objects);
        let value = self.random.random::<u64>();
        let _ = write!(self.body, r#"{{"data":{{"sequence":"{}-{value}"}}}}"#, self.sequence);
        let content_type = "application/merge-patch+json";
        Call { method: "PATCH", path: &self.path, content_type, body: self.body.as_bytes() }
    }

    fn list(&mut self, limit: u32) -> Call<'_> {
        self.collection();
        if limit > 0 {
            let _ = write!(self.path, "?limit={limit}");
        }
        if !self.continue_token.is_empty() {
            let _ = write!(self.path, "&continue={}", self.continue_token);
        }
        Call { method: "GET", path: &self.path, content_type: "", body: b"" }
    }

    fn collection(&mut self) {
        self.path.push_str(&self.collection);
    }

    fn object(&mut self, objects: u32) {
        let number = self.random.random_range(0..objects);
        self.collection();
        let _ = write!(self.path, "/o-{number}");
    }
}

/// `size` random letters and digits, which compress no better than such text does.
pub(super) fn payload(size: u32) -> Arc<str> {
    const LETTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut random = StdRng::seed_from_u64(u64::from(size));
    let letters = (0..size).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())]));
    letters.collect::<String>().into()
}

/// The continue token at the start of a list, escaped for a query; empty on the last page.
fn continue_token(head: &[u8]) -> String {
    const MARK: &[u8] = br#""continue":""#;
    let Some(at) = memmem::find(head, MARK) else { return String::new() };
    let token = head[at + MARK.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
    let mut encoded = String::with_capacity(token.len());
    for byte in token {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(kind: Kind) -> Script {
        Script::new(kind, "n", &payload(8), 1)
    }

    #[test]
    fn created_objects_are_numbered_in_one_series() {
        let numbers = Arc::new(AtomicU64::new(0));
        let mut first = script(Kind::Create(numbers.clone()));
        let mut second = script(Kind::Create(numbers));
        for (script, name) in [(&mut first, "o-0"), (&mut second, "o-1")] {
            let body: serde_json::Value = serde_json::from_slice(script.next().body).unwrap();
            assert_eq!(body["metadata"]["name"], name);
        }
        assert!(first.answered(&Reply { status: 201, bytes: 0 }, b""));
        assert!(!first.answered(&Reply { status: 200, bytes: 0 }, b""));
    }

    #[test]
    fn objects_of_both_kinds_have_the_same_form() {
        let made = |objects| {
            let kind = Kind::Create(Arc::new(AtomicU64::new(7)));
            let mut script = Script::on(objects, kind, "n", &payload(8), 1);
            let call = script.next();
            let mut body: serde_json::Value = serde_json::from_slice(call.body).unwrap();
            let kind = body.as_object_mut().unwrap().remove("kind").unwrap();
            let version = body.as_object_mut().unwrap().remove("apiVersion").unwrap();
            (call.path.to_owned(), format!("{version} {kind}"), body)
        };
        let (map, custom) = (made(Objects::ConfigMaps), made(Objects::Custom));
        assert_eq!((&*map.0, &*map.1), ("/api/v1/namespaces/n/configmaps", r#""v1" "ConfigMap""#));
        assert_eq!(custom.0, "/apis/custom.bench.example.com/v1/namespaces/n/benchmaps");
        assert_eq!(custom.1, r#""custom.bench.example.com/v1" "BenchMap""#);
        assert_eq!((&map.2, &map.2["metadata"]["name"]), (&custom.2, &serde_json::json!("o-7")));
    }

    #[test]
    fn chunks_follow_the_continue_token_and_start_again() {
        let mut script = script(Kind::Chunked);
        let base = "/api/v1/namespaces/n/configmaps?limit=500";
        assert_eq!(script.next().path, base);
        script.answered(&Reply { status: 200, bytes: 0 }, br#"{"metadata":{"continue":"a+b="},"items":["#);
        assert_eq!(script.next().path, format!("{base}&continue=a%2Bb%3D"));
        script.answered(&Reply { status: 200, bytes: 0 }, br#"{"metadata":{},"items":["#);
        assert_eq!(script.next().path, base);
    }
}
