//! Every metric of the catalog is observed by a node that does what it measures, and its page has no other series.
//!
//! Owns one walk: connections, requests of several users, watches, waits under flow control, pods under pod security, objects under policies, tokens of both kinds,
//! audited requests and a backup. A metric that the walk leaves at nothing must stand in [`NEVER`] with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use orch_node::metrics::catalog::{CATALOG, Metric};
use orch_proto::brand::ORCH;
use serde_json::{Value, json};

use super::{PATIENCE, Process, make_certificates};

/// Metrics that the walk does not observe, and why.
const NEVER: [(&str, &str); 15] = [
    ("go_goroutines", "it is there under the brand of the reference"),
    ("orch_agreement_divergences_total", "a member alone has nobody to differ from"),
    ("orch_agreement_quarantined", "as above"),
    ("orch_consensus_leader_changes_total", "a member alone is the only leader"),
    ("orch_consensus_member_clock_skew_seconds", "a member alone has no other clock"),
    ("orch_consensus_member_heard_seconds", "a member hears itself at once"),
    ("orch_disk_growth_refused", "the disk has room"),
    ("orch_disk_pressure", "as above"),
    ("orch_garbage_undecided_dependents", "no server but this one has owners"),
    ("orch_proposals_failed_total", "no proposal fails"),
    ("orch_proposals_forwarded_total", "a member alone leads"),
    ("orch_read_barriers_failed_total", "no read fails"),
    (
        "orch_slow_disk_handovers_total",
        "the disk of this machine is not slow, and a single member leads whatever its disk",
    ),
    ("orch_snapshots_installed_total", "a member alone has nobody to take a snapshot from"),
    ("serviceaccount_stale_tokens_total", "a mounted token is stale an hour after it was made"),
];

/// Metrics that are zero but for moments.
const AT_TIMES: [&str; 6] = [
    "orch_consensus_member_lag_entries",
    "orch_proposals_pending",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
];

/// The reader of a page.
struct Page {
    /// Sums of absolute values by family, without those of buckets.
    sums: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
    helps: BTreeMap<String, String>,
    /// Every set of labels by family, without that of buckets.
    labels: BTreeMap<String, BTreeSet<Vec<String>>>,
}

impl Page {
    fn read(text: &str) -> Page {
        let mut page = Page {
            sums: BTreeMap::new(),
            types: BTreeMap::new(),
            helps: BTreeMap::new(),
            labels: BTreeMap::new(),
        };
        let mut family = String::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let word = |prefix: &str| line.strip_prefix(prefix).and_then(|rest| rest.split_once(' '));
            if let Some((name, help)) = word("# HELP ") {
                assert!(
                    page.helps.insert(name.to_owned(), help.to_owned()).is_none(),
                    "{name} is described twice"
                );
            } else if let Some((name, kind)) = word("# TYPE ") {
                assert!(
                    page.types.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "{name} is there twice"
                );
                name.clone_into(&mut family);
            } else {
                page.add(&family, line);
            }
        }
        page
    }

    fn add(&mut self, family: &str, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let end = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} below {family}"));
        assert!(["", "_bucket", "_sum", "_count"].contains(&end), "{line} below {family}");
        // Values of labels have neither quotes nor commas here.
        let labels =
            labels.trim_end_matches('}').split(',').filter_map(|label| Some(label.split_once('=')?.0));
        let mut names: Vec<String> = labels.filter(|label| *label != "le").map(str::to_owned).collect();
        names.sort();
        self.labels.entry(family.to_owned()).or_default().insert(names);
        let value: f64 = value.parse().unwrap();
        if end != "_bucket" && !value.is_nan() {
            *self.sums.entry(family.to_owned()).or_default() += value.abs();
        }
    }

    fn is_observed(&self, metric: &Metric) -> bool {
        self.sums.get(&metric.name_under(&ORCH)).is_some_and(|sum| *sum > 0.0)
    }

    /// Adds what was observed on an `earlier` page: a gauge may have gone back.
    fn join(&mut self, earlier: &Page) {
        for (family, sum) in &earlier.sums {
            *self.sums.entry(family.clone()).or_default() += sum;
        }
    }
}

/// A development node, whose socket acts as the administrator.
struct Walk {
    node: Process,
    folder: PathBuf,
}

/// Sends a request over the socket at `path`.
fn exchange(path: &Path, method: &str, target: &str, token: &str, body: &Value) -> (u16, String) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: orch\r\nConnection: close\r\nContent-Type: {kind}\r\n{authorization}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    };
    (status.unwrap_or_else(|| panic!("{method} {target}: {answer}")), body)
}

/// The text of a body in chunks, of which each has a line with its length before it.
fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    text
}

impl Walk {
    fn start(folder: &Path) -> Walk {
        let write = |name: &str, text: String| {
            fs::write(folder.join(name), text).unwrap();
            folder.join(name).display().to_string()
        };
        // An authority for the bucket: the machine of the test may have none.
        make_certificates(&folder.join("certs"), &["a"], 6443);
        fs::create_dir(folder.join("backups")).unwrap();
        let audited = "apiVersion: audit.orch.io/v1\nkind: Policy\nrules:\n- {level: Metadata, nonResourceURLs: [/audited]}\n\
                       - {level: None}\n";
        let nowhere = "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                       contexts: [{name: x, context: {cluster: x, user: x}}]\nusers: [{name: x, user: {}}]\ncurrent-context: x\n";
        let exempt = "apiVersion: apiserver.config.orch.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: PodSecurity\n  \
                      configuration: {apiVersion: pod-security.admission.config.orch.io/v1, kind: PodSecurityConfiguration, \
                      exemptions: {namespaces: [exempt]}}\n";
        let access = "aws_access_key_id = AK\naws_secret_access_key = s\n";
        let flags = [
            "dev".to_owned(),
            "--secure-port=0".to_owned(),
            "--no-scheduler".to_owned(),
            format!("--token-auth-file={}", write("tokens", "alice-token,alice,2\n".to_owned())),
            format!("--audit-policy-file={}", write("policy", audited.to_owned())),
            format!("--audit-webhook-config-file={}", write("webhook", nowhere.to_owned())),
            "--audit-webhook-mode=blocking-strict".to_owned(),
            "--audit-webhook-initial-backoff=1ms".to_owned(),
            format!("--admission-control-config-file={}", write("admission", exempt.to_owned())),
            "--backup-schedule=1h".to_owned(),
            format!("--backup-dir={}", folder.join("backups").display()),
            "--backup-s3=s3://backups/orch".to_owned(),
            "--backup-s3-endpoint=http://127.0.0.1:1".to_owned(),
            "--backup-s3-path-style".to_owned(),
            format!("--backup-s3-credentials-file={}", write("access", access.to_owned())),
            format!("--backup-s3-ca-file={}", folder.join("certs/ca.crt").display()),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Walk { node: Process::start(&folder.join("data"), &flags), folder: folder.to_owned() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("data/orch.sock")
    }

    fn ask(&self, method: &str, target: &str, body: &Value) -> (u16, String) {
        exchange(&self.socket(), method, target, "", body)
    }

    /// A request of the administrator that succeeds.
    fn must(&self, method: &str, target: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, target, body);
        assert!((200..300).contains(&status), "{method} {target}: {status} {answer}");
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// A request over HTTPS with `token`.
    async fn with_token(&self, token: &str, target: &str) -> u16 {
        let authority = self.folder.join("data/pki/ca.crt");
        self.node.send_as(Method::GET, target, &authority, None, token, "").await.0
    }

    fn page(&self) -> Page {
        self.page_at("/metrics")
    }

    fn page_at(&self, path: &str) -> Page {
        let (status, text) = self.ask("GET", path, &Value::Null);
        assert_eq!(status, 200, "{text}");
        Page::read(&text)
    }

    /// Connections with a certificate, with a wrong token, and without TLS.
    async fn connect(&self) {
        let pki = self.folder.join("data/pki");
        let (certificate, key) = (pki.join("admin.crt"), pki.join("admin.key"));
        let authority = pki.join("ca.crt");
        let (status, _) = self.node.ask("/api/v1/namespaces", &authority, Some((&certificate, &key))).await;
        assert_eq!(status, 200);
        assert_eq!(self.with_token("wrong", "/api/v1/namespaces").await, 401);
        let url = self.node.endpoints().unwrap()["https"].as_str().unwrap().to_owned();
        let mut plain = std::net::TcpStream::connect(url.strip_prefix("https://").unwrap()).unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // The server may have closed it already.
        let _ = plain.read_to_end(&mut Vec::new());
        assert_eq!(self.ask("GET", "/audited", &Value::Null).0, 500, "its arrival cannot be audited");
    }

    /// An APIService whose server is not there.
    fn register_server(&self) {
        let spec = json!({
            "group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": {"namespace": "default", "name": "nowhere"},
        });
        let path = format!("/apis/apiregistration.{}/v1/apiservices", ORCH.group_domain);
        self.must("POST", &path, &json!({"metadata": {"name": "v1.a.example.com"}, "spec": spec}));
        let begin = Instant::now();
        while self.ask("GET", "/apis/a.example.com/v1/things", &Value::Null).0 != 503 {
            assert!(begin.elapsed() < PATIENCE, "the group is not given away");
            std::thread::sleep(Duration::from_millis(20));
        }
        // A version that is deprecated.
        self.must("GET", "/api/v1/namespaces/default/endpoints", &Value::Null);
    }

    /// Objects under the policies of pod security.
    fn secure_pods(&self) {
        let label = "pod-security.orch.io/enforce";
        self.must(
            "PATCH",
            "/api/v1/namespaces/default",
            &json!({"metadata": {"labels": {label: "restricted"}}}),
        );
        self.must("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "exempt"}}));
        self.must("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "free"}}));
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for namespace in ["exempt", "free"] {
            let account = json!({"metadata": {"name": "robot"}});
            self.must("POST", &format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account);
            let mut pod = pod.clone();
            pod["spec"]["serviceAccountName"] = "robot".into();
            self.must("POST", &format!("/api/v1/namespaces/{namespace}/pods"), &pod);
        }
        let (status, answer) = self.ask("POST", "/api/v1/namespaces/default/pods", &pod);
        assert!(status == 403 && answer.contains("restricted"), "{answer}");
    }

    /// Writes that webhooks are asked about which do not answer, and one that passes beside them.
    fn miss_webhooks(&self) {
        let group = format!("admissionregistration.{}", ORCH.group_domain);
        let kind = format!("/apis/{group}/v1/validatingwebhookconfigurations");
        let webhook = |name: &str, failure: &str, condition: &str| {
            json!({
                "name": format!("{name}.example.com"), "failurePolicy": failure, "sideEffects": "None",
                "clientConfig": {"url": "https://127.0.0.1:1/"}, "admissionReviewVersions": ["v1"],
                "matchConditions": [{"name": "c", "expression": condition}],
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            })
        };
        let webhooks = [
            webhook("fails", "Fail", "object.metadata.name == 'fails'"),
            webhook("open", "Ignore", "object.metadata.name == 'open'"),
            webhook("broken", "Ignore", "object.data.none == 'x'"),
        ];
        let configuration = json!({"metadata": {"name": "missing"}, "webhooks": webhooks});
        self.must("POST", &kind, &configuration);
        let maps = "/api/v1/namespaces/free/configmaps";
        let map = |name: &str| json!({"metadata": {"name": name}, "data": {"k": "v"}});
        for _ in 0..3 {
            let (status, answer) = self.ask("POST", maps, &map("fails"));
            assert!(status == 500 && answer.contains("failed calling webhook"), "{answer}");
        }
        self.must("POST", maps, &map("open"));
        let until = format!("lockout.admission.{}/bypass-until", ORCH.group_domain);
        let time = time::OffsetDateTime::now_utc() + Duration::from_secs(3600);
        let time = time.format(&time::format_description::well_known::Rfc3339).unwrap();
        let bypassed = json!({
            "metadata": {"name": "bypassed", "annotations": {until: time}},
            "webhooks": [webhook("bypassed", "Fail", "object.metadata.name == 'bypassed'")],
        });
        self.must("POST", &kind, &bypassed);
        self.must("POST", maps, &map("bypassed"));
    }

    /// A custom object in a version that nobody converts it to: nothing listens where the webhook is said to be.
    fn convert(&self) {
        let group = "metrics.example.com";
        let version = |name: &str| {
            let schema = json!({"openAPIV3Schema": {"type": "object"}});
            json!({"name": name, "served": true, "storage": name == "v1", "schema": schema})
        };
        let config = json!({"url": "https://127.0.0.1:1/convert"});
        let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": config});
        let spec = json!({
            "group": group, "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1"), version("v2")], "conversion": {"strategy": "Webhook", "webhook": webhook},
        });
        let definition = json!({"metadata": {"name": format!("widgets.{group}")}, "spec": spec});
        let definitions = format!("/apis/apiextensions.{}/v1/customresourcedefinitions", ORCH.group_domain);
        self.must("POST", &definitions, &definition);
        let path = format!("/apis/{group}/v1/widgets");
        let begin = Instant::now();
        while self.ask("GET", &path, &Value::Null).0 != 200 {
            assert!(begin.elapsed() < PATIENCE, "the definition is not served");
            std::thread::sleep(Duration::from_millis(20));
        }
        let widget =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a"}});
        self.must("POST", &path, &widget);
        let (status, answer) = self.ask("GET", &format!("/apis/{group}/v2/widgets/a"), &Value::Null);
        let told = "conversion webhook for metrics.example.com/v1, Kind=Widget failed: ";
        assert!(status == 500 && answer.contains(told), "{status} {answer}");
    }

    /// Uses of a token that a pod mounts, and of those that secrets keep.
    async fn use_tokens(&self) {
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
        let wanted = json!({"spec": {"expirationSeconds": 3607, "boundObjectRef": pod}});
        let accounts = "/api/v1/namespaces/free/serviceaccounts/robot";
        let made = self.must("POST", &format!("{accounts}/token"), &wanted);
        let token = made["status"]["token"].as_str().unwrap();
        // Authenticated, and without a right.
        assert_eq!(self.with_token(token, "/api/v1/nodes").await, 403);

        let annotations = json!({format!("{}/service-account.name", ORCH.label_domain): "robot"});
        let kind = format!("{}/service-account-token", ORCH.label_domain);
        let secret = json!({"metadata": {"name": "kept", "annotations": annotations}, "type": kind});
        self.must("POST", "/api/v1/namespaces/free/secrets", &secret);
        let begin = Instant::now();
        let token = loop {
            let kept = self.must("GET", "/api/v1/namespaces/free/secrets/kept", &Value::Null);
            if let Some(token) = kept["data"]["token"].as_str() {
                break String::from_utf8(BASE64_STANDARD.decode(token).unwrap()).unwrap();
            }
            assert!(begin.elapsed() < PATIENCE, "no token comes: {kept}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(self.with_token(&token, "/api/v1/nodes").await, 403, "made by hand");
        self.must("PATCH", accounts, &json!({"secrets": [{"name": "kept"}]}));
        assert_eq!(self.with_token(&token, "/api/v1/nodes").await, 403, "as if generated");
        let label = format!("{}/legacy-token-invalid-since", ORCH.label_domain);
        let invalid = json!({"metadata": {"labels": {label: "2026-01-01"}}});
        self.must("PATCH", "/api/v1/namespaces/free/secrets/kept", &invalid);
        assert_eq!(self.with_token(&token, "/api/v1/nodes").await, 401, "marked as invalid");
    }

    /// Requests of a user whose level has no seat: they wait, and are refused. Returns a page of meanwhile.
    async fn wait_for_seats(&self) -> Page {
        let rbac = format!("rbac.authorization.{}", ORCH.group_domain);
        let subject = json!({"kind": "User", "apiGroup": rbac, "name": "alice"});
        let role = json!({"kind": "ClusterRole", "apiGroup": rbac, "name": "cluster-admin"});
        let binding = json!({"metadata": {"name": "alice"}, "subjects": [subject], "roleRef": role});
        self.must("POST", &format!("/apis/{rbac}/v1/clusterrolebindings"), &binding);
        // An ordinary level first.
        let maps = "/api/v1/namespaces/free/configmaps";
        let begin = Instant::now();
        while self.with_token("alice-token", maps).await != 200 {
            assert!(begin.elapsed() < PATIENCE, "alice has no right");
        }
        let flow = format!("/apis/flowcontrol.apiserver.{}/v1", ORCH.group_domain);
        let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 10});
        let limited = json!({
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        });
        let level = json!({"metadata": {"name": "none"}, "spec": {"type": "Limited", "limited": limited}});
        self.must("POST", &format!("{flow}/prioritylevelconfigurations"), &level);
        let any = json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
        });
        let rules =
            json!([{"subjects": [{"kind": "User", "user": {"name": "alice"}}], "resourceRules": [any]}]);
        let schema = json!({
            "metadata": {"name": "none"},
            "spec": {"priorityLevelConfiguration": {"name": "none"}, "matchingPrecedence": 10, "rules": rules},
        });
        self.must("POST", &format!("{flow}/flowschemas"), &schema);
        let begin = Instant::now();
        loop {
            // Holds the level's only seat: a large body is waited for with it.
            let _holder = self.slow_create_of("alice");
            let waiting = self.with_token("alice-token", "/api/v1/namespaces/free/configmaps?timeout=4s");
            let looking = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                self.page()
            };
            let (status, page) = tokio::join!(waiting, looking);
            if status == 429 {
                return page;
            }
            assert!(begin.elapsed() < PATIENCE, "alice is never refused: {status}");
        }
    }

    /// Begins to create a large config map as `user`, and sends none of it. The request ends with the result.
    fn slow_create_of(&self, user: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        let head = format!(
            "POST /api/v1/namespaces/free/configmaps HTTP/1.1\r\nHost: orch\r\nImpersonate-User: {user}\r\n\
             Content-Type: application/json\r\nContent-Length: 200000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        stream
    }

    /// The pages about the process, which take the right to their paths.
    async fn assert_pages(&self) {
        let (status, text) = self.ask("GET", "/flagz", &Value::Null);
        assert_eq!(status, 200, "{text}");
        for line in ["backup-schedule=1h", "audit-webhook-mode=blocking-strict", "backup-keep=7"] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let (status, text) = self.ask("GET", "/statusz", &Value::Null);
        assert!(status == 200 && text.contains("Started: ") && text.contains("/metrics/slis"), "{text}");
        for path in ["/flagz", "/statusz", "/metrics/slis"] {
            assert_eq!(self.with_token("alice-token", path).await, 403, "{path}");
            assert_eq!(self.with_token("wrong", path).await, 401, "{path}");
            assert!(self.must("GET", "/", &Value::Null)["paths"].as_array().unwrap().contains(&path.into()));
        }
    }

    /// Config maps under policies of both kinds: one warns of them, one labels them.
    fn judge_by_policies(&self) {
        let group = format!("/apis/admissionregistration.{}/v1", ORCH.group_domain);
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
        });
        let matching = json!({"resourceRules": [rule]});
        let spec = json!({"matchConstraints": matching, "validations": [{"expression": "object.metadata.name == 'x'"}]});
        let label = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
        let mutation =
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}});
        let mutating = json!({
            "matchConstraints": matching, "reinvocationPolicy": "Never", "mutations": [mutation],
        });
        let of = |spec: Value| json!({"metadata": {"name": "p"}, "spec": spec});
        self.must("POST", &format!("{group}/validatingadmissionpolicies"), &of(spec));
        self.must("POST", &format!("{group}/mutatingadmissionpolicies"), &of(mutating));
        let binding = json!({"policyName": "p", "validationActions": ["Warn"]});
        self.must("POST", &format!("{group}/validatingadmissionpolicybindings"), &of(binding));
        self.must(
            "POST",
            &format!("{group}/mutatingadmissionpolicybindings"),
            &of(json!({"policyName": "p"})),
        );
    }

    /// Opens a watch of the metadata of config maps, whose events are rendered; it is under way until the result is dropped.
    fn watch(&self) -> UnixStream {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        let target = "/api/v1/namespaces/free/configmaps?watch=1";
        let group = format!("meta.{}", ORCH.group_domain);
        let accept = format!("application/json;as=PartialObjectMetadata;v=v1;g={group}");
        write!(stream, "GET {target} HTTP/1.1\r\nHost: orch\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    }
}

/// The page has the series of the catalog alone, each with its labels, type and help.
fn assert_described(page: &Page) {
    let rows: BTreeMap<String, &Metric> =
        CATALOG.iter().map(|metric| (metric.name_under(&ORCH), metric)).collect();
    for (family, kind) in &page.types {
        if family.starts_with("process_") {
            // The rim's, of both programs.
            assert!(page.helps.contains_key(family) && page.sums[family] > 0.0, "{family}");
            continue;
        }
        let metric = rows.get(family).unwrap_or_else(|| panic!("{family} has no row in the catalog"));
        assert_eq!(kind, metric.kind.name(), "{family}");
        assert_eq!(page.helps.get(family), Some(&metric.description()), "{family}");
        let expected: Vec<String> = metric.labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(page.labels[family], BTreeSet::from([expected]), "labels of {family}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_of_the_catalog_is_observed_with_its_labels_type_and_help() {
    let folder = tempfile::tempdir().unwrap();
    let walk = Walk::start(folder.path());
    walk.connect().await;
    walk.register_server();
    walk.secure_pods();
    walk.miss_webhooks();
    walk.convert();
    walk.use_tokens().await;
    walk.assert_pages().await;
    walk.judge_by_policies();
    let watches = [walk.watch(), walk.watch()];
    let mut seen = walk.wait_for_seats().await;
    assert_eq!(walk.ask("GET", "/readyz", &Value::Null).0, 200);
    let checks = walk.page_at("/metrics/slis");
    assert_described(&checks);
    seen.join(&checks);
    let begin = Instant::now();
    for number in 0.. {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "x"}});
        walk.must("POST", "/api/v1/namespaces/free/configmaps", &map);
        walk.must("GET", "/api/v1/namespaces/free/configmaps", &Value::Null);
        let page = walk.page();
        assert_described(&page);
        seen.join(&page);
        let is_never = |metric: &Metric| NEVER.iter().any(|(name, _)| *name == metric.name);
        let lacking: Vec<&str> = CATALOG
            .iter()
            .filter(|metric| !seen.is_observed(metric) && !is_never(metric))
            .filter(|metric| !AT_TIMES.contains(&metric.name))
            .map(|metric| metric.name)
            .collect();
        if lacking.is_empty() {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing observes {lacking:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(watches);
    for (name, reason) in NEVER {
        let metric = CATALOG.iter().find(|metric| metric.name == name).expect("it is in the catalog");
        assert!(!seen.is_observed(metric), "{name} is observed after all: {reason}");
    }
}
