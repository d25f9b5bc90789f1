//! The cost of the most expensive bodies that a client may send: each known case near the largest accepted size.
//!
//! Owns the cases. A case that grows with the square of its body takes minutes and gigabytes; the bounds here are wide
//! enough for a busy machine and far below that. The figures are printed with `--no-capture`.

#![expect(clippy::unwrap_used, reason = "a test")]

mod server;

use http::Method;
use serde_json::{Value, json};
use server::{Cost, Server};

/// Bytes of the bodies: just below the limit.
const BODY_BYTES: usize = 3_000_000;

/// Most memory for each byte sent.
const HELD_MAX: usize = 20;

/// Memory that a request may take whatever its size: the look-ahead of the YAML scanner, the threads' arenas with freed
/// memory that was not returned, the first pages of code. It does not grow with the body, so that [`HELD_MAX`] does not
/// cover it.
const HELD_FLOOR: usize = 8 << 20;

/// Approximate stored size of these tests' large config maps, managed fields included.
const STORED_BYTES: usize = 1_150_000;

/// Processor time that only a nested loop exceeds, ten times the desired figure.
const CPU_MS_MAX: u64 = 2000;

/// Bytes of a response with a hundred errors, each with a value that is escaped byte by byte.
const ANSWER_BYTES_MAX: usize = 1_000_000;

const JSON: &str = "application/json";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const PODS: &str = "/api/v1/namespaces/ns/pods";

fn check(name: &str, cost: &Cost, codes: &[u16]) {
    check_held(name, cost, codes, HELD_MAX);
}

fn check_held(name: &str, cost: &Cost, codes: &[u16], held_max: usize) {
    let Cost { code, sent, cpu_ms, peak, .. } = cost;
    let (ratio, kilobytes) = (peak / sent, cost.answer.len() / 1000);
    eprintln!(
        "{name}: {code}, {sent} bytes, {cpu_ms} ms, {} MB peak ({ratio}/byte), answer {kilobytes} kB",
        peak >> 20
    );
    let text = String::from_utf8_lossy(&cost.answer);
    assert!(codes.contains(code), "{name}: {code} {}", text.chars().take(500).collect::<String>());
    assert!(*cpu_ms < CPU_MS_MAX, "{name}: {cpu_ms} ms");
    assert!(*peak <= held_max * sent + HELD_FLOOR, "{name}: {ratio} bytes for each");
    if *code >= 400 {
        assert!(cost.answer.len() < ANSWER_BYTES_MAX, "{name}: an answer of {kilobytes} kB");
        let causes = serde_json::from_slice::<Value>(&cost.answer).unwrap()["details"]["causes"].clone();
        assert!(causes.as_array().map_or(0, Vec::len) <= 100, "{name}: too many causes");
    }
}

/// As many of `item`, called with its index, as fit between `head` and `tail`.
fn filled(head: &str, item: impl Fn(usize) -> String, tail: &str, bytes: usize) -> String {
    let mut body = String::with_capacity(bytes);
    body.push_str(head);
    for at in 0.. {
        let item = item(at);
        if body.len() + item.len() + 1 + tail.len() > bytes {
            break;
        }
        if at > 0 {
            body.push(',');
        }
        body.push_str(&item);
    }
    body + tail
}

/// Adds the bytes of a list's response, which the client in this process holds whole.
fn with_answer(cost: Cost) -> Cost {
    let answer = cost.answer.len();
    cost.on(answer)
}

/// A distinct short word for each number: `x` with digits of base 36.
fn short(mut at: usize) -> String {
    let mut word = String::from("x");
    loop {
        word.push(char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[at % 36]));
        at /= 36;
        if at == 0 {
            return word;
        }
    }
}

fn posted(name: &str, path: &str, body: String, codes: &[u16]) {
    let server = Server::new();
    check(name, &server.measure(Method::POST, path, JSON, body), codes);
}

#[test]
fn owner_references_that_quote_themselves() {
    let item = |at: usize| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"n","uid":"{at}","controller":true}}"#)
    };
    for bytes in [130_000, BODY_BYTES] {
        let body = filled(r#"{"metadata":{"name":"a","ownerReferences":["#, item, "]}}", bytes);
        // The larger body exceeds the memory budget of a document.
        let code = if bytes == BODY_BYTES { 413 } else { 422 };
        posted("owner references, all controllers", MAPS, body, &[code]);
    }
}

#[test]
fn owner_references_that_are_repeated() {
    let item = |at: usize| format!(r#"{{"apiVersion":"v1","kind":"P","name":"n","uid":"{}"}}"#, at / 2);
    let body = filled(r#"{"metadata":{"name":"a","ownerReferences":["#, item, "]}}", BODY_BYTES);
    posted("owner references, each twice", MAPS, body, &[413]);
    let body = filled(r#"{"metadata":{"name":"a","ownerReferences":["#, item, "]}}", 500_000);
    posted("fewer owner references, each twice", MAPS, body, &[201]);
}

#[test]
fn a_manager_of_many_unprintable_characters() {
    let server = Server::new();
    let path = format!("{MAPS}?fieldManager={}", "%01".repeat(20_000));
    let body = json!({"metadata": {"name": "a"}}).to_string();
    check("manager in the URL", &server.measure(Method::POST, &path, JSON, body), &[422]);
}

#[test]
fn a_json_patch_that_moves_a_large_value_again_and_again() {
    let server = Server::new();
    let data: Value =
        (0..50_000).map(|at| (format!("k{at}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    server.create(MAPS, &json!({"metadata": {"name": "a", "annotations": {"a": "b"}}, "data": data}));
    for (there, back) in [("/x", "/data"), ("/metadata/annotations/x", "/data")] {
        let moves = |at: usize| {
            let (from, to) = if at.is_multiple_of(2) { (back, there) } else { (there, back) };
            json!({"op": "move", "from": from, "path": to}).to_string()
        };
        let body = format!("[{}]", (0..9_998).map(moves).collect::<Vec<_>>().join(","));
        let cost = server.measure(Method::PATCH, &format!("{MAPS}/a"), "application/json-patch+json", body);
        check("JSON patch, moves", &cost.on(STORED_BYTES), &[200, 422]);
    }
}

#[test]
fn a_json_patch_that_inserts_at_the_front() {
    let server = Server::new();
    server.create(MAPS, &json!({"metadata": {"name": "a", "finalizers": ["a.b/c"]}}));
    let long = filled("[", |at| format!("\"a.b/{at}\""), "]", 1_000_000);
    let add = json!({"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/d"}).to_string();
    let first = format!(r#"{{"op":"replace","path":"/metadata/finalizers","value":{long}}}"#);
    let body = format!("[{first},{}]", vec![add; 9_990].join(","));
    let cost = server.measure(Method::PATCH, &format!("{MAPS}/a"), "application/json-patch+json", body);
    check("JSON patch, inserts at the front", &cost, &[422]);
}

#[test]
fn node_addresses() {
    let item = |at: usize| format!(r#"{{"type":"InternalIP","address":"{at}"}}"#);
    let server = Server::new();
    server.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}}));
    let body = filled(r#"{"status":{"addresses":["#, item, "]}}", 1_400_000);
    let path = "/api/v1/nodes/n/status";
    let cost = server.measure(Method::PATCH, path, "application/merge-patch+json", body);
    check("node addresses", &cost, &[200, 413, 500]);
}

#[test]
fn data_against_binary_data() {
    let keys = |at: usize| format!(r#""k{at}":"""#);
    let data = filled(r#"{"metadata":{"name":"a"},"data":{"#, keys, "},", BODY_BYTES / 2);
    let body = filled(&format!(r#"{data}"binaryData":{{"#), keys, "}}", BODY_BYTES);
    posted("data against binaryData", MAPS, body, &[413, 422]);
}

#[test]
fn data_against_binary_data_that_could_be_stored_alone() {
    let keys = |at: usize| format!(r#""k{at}":"""#);
    let data = filled(r#"{"metadata":{"name":"a"},"data":{"#, keys, "},", BODY_BYTES / 3);
    let body = filled(&format!(r#"{data}"binaryData":{{"#), keys, "}}", 2 * BODY_BYTES / 3);
    posted("data against binaryData, fewer", MAPS, body, &[413, 422, 500]);
}

#[test]
fn volumes_against_mounts() {
    let volume = |at: usize| format!(r#"{{"name":"v{at}","emptyDir":{{}}}}"#);
    let mount = |at: usize| format!(r#"{{"name":"v{}","mountPath":"/{at}"}}"#, at * 2);
    for bytes in [400_000, BODY_BYTES] {
        let volumes = filled(r#"{"metadata":{"name":"a"},"spec":{"volumes":["#, volume, "],", bytes / 2);
        let containers = format!(r#"{volumes}"containers":[{{"name":"c","image":"i","volumeMounts":["#);
        posted("volumes against mounts", PODS, filled(&containers, mount, "]}]}}", bytes), &[413, 422]);
    }
}

#[test]
fn claims_against_volumes() {
    let claim = |at: usize| {
        format!(
            r#"{{"metadata":{{"name":"a{at}"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1"}}}}}}}}"#
        )
    };
    let head = r#"{"metadata":{"name":"s"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"volumeClaimTemplates":["#;
    let path = "/apis/apps/v1/namespaces/ns/statefulsets";
    posted("claims of a stateful set", path, filled(head, claim, "]}}", BODY_BYTES), &[413, 422, 500]);
}

#[test]
fn containers_of_nothing() {
    for (bytes, kind) in [(20_000, "few"), (BODY_BYTES, "many")] {
        let body =
            filled(r#"{"metadata":{"name":"a"},"spec":{"containers":["#, |_| "{}".to_owned(), "]}}", bytes);
        posted(&format!("containers of nothing, {kind}"), PODS, body, &[413, 422]);
    }
}

#[test]
fn items_of_nothing_where_anything_goes() {
    for item in ["{}", "1", "[]"] {
        let head = r#"{"metadata":{"name":"a","unknown":{}},"subjects":["#;
        let path = "/apis/rbac.authorization.orch.io/v1/namespaces/ns/rolebindings";
        posted(
            "items of nothing",
            path,
            filled(head, |_| item.to_owned(), "]}", BODY_BYTES),
            &[400, 413, 422],
        );
    }
    let server = Server::new();
    server.create(MAPS, &json!({"metadata": {"name": "a"}}));
    let body = filled(r#"{"x":["#, |_| "{}".to_owned(), "]}", BODY_BYTES);
    let cost = server.measure(Method::PATCH, &format!("{MAPS}/a"), "application/merge-patch+json", body);
    check("items of nothing in a patch", &cost, &[413]);
}

#[test]
fn repeated_and_unknown_keys() {
    for (name, item) in [("unknown keys", r#""u"#), ("duplicate keys", r#""data"#)] {
        let unknown = name == "unknown keys";
        let key =
            |at: usize| format!("{item}{}\":null", if unknown { at.to_string() } else { String::new() });
        let head = r#"{"metadata":{"name":"a"},"#;
        for validation in ["Warn", "Strict"] {
            let path = format!("{MAPS}?fieldValidation={validation}&dryRun=All");
            posted(name, &path, filled(head, key, "}", BODY_BYTES), &[201, 400]);
        }
    }
    let long = "k".repeat(1_000_000);
    let head = format!(r#"{{"metadata":{{"name":"a","managedFields":[{{"fieldsV1":{{"{long}":{{"#);
    let body = filled(&head, |_| r#""a":1"#.to_owned(), "}}}]}}", BODY_BYTES);
    posted("duplicate keys below a long one", &format!("{MAPS}?fieldValidation=Strict"), body, &[413]);
}

#[test]
fn yaml_of_many_keys() {
    let server = Server::new();
    let lines = |repeated: bool| {
        let key = |at: usize| format!("  k{}: v\n", if repeated { 0 } else { at });
        let lines: String = (0..66_000).map(key).collect();
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n{lines}")
    };
    let send = |body: String, path: &str| server.measure(Method::POST, path, "application/yaml", body);
    // With its managed fields the object exceeds the store's limit.
    check("YAML of 66,000 keys", &send(lines(false), MAPS), &[500]);
    let dry = format!("{MAPS}?dryRun=All&fieldValidation=Strict");
    check("YAML of one key 66,000 times", &send(lines(true), &dry), &[400]);
}

/// One case, so that each has a process of its own: memory freed by one case would hide what the next takes.
fn yaml(name: &str, body: String) {
    let server = Server::new();
    let path = format!("{MAPS}?dryRun=All&fieldValidation=Strict");
    let cost = server.measure(Method::POST, &path, "application/yaml", body);
    check(name, &cost, &[400, 413, 422]);
}

fn yaml_of(name: &str, head: &str, item: &str, tail: &str) {
    yaml(name, filled(head, |_| item.to_owned(), tail, BODY_BYTES));
}

#[test]
fn yaml_in_braces() {
    yaml("YAML in braces", filled("{data: {", |at| format!("k{at}: v"), "}}", BODY_BYTES));
}

#[test]
fn yaml_in_brackets() {
    yaml_of("YAML in brackets", "[", "a", "]");
}

#[test]
fn yaml_of_flow_items() {
    yaml_of("YAML of flow items", "a: [", "{b: c}", "]");
}

#[test]
fn yaml_of_flow_keys() {
    yaml_of("YAML of flow keys", "{ ? {", "a: b", "} : c }");
}

#[test]
fn yaml_of_anchors() {
    yaml("YAML of anchors", (0..220_000).map(|at| format!("- &a{at} b\n")).collect());
}

#[test]
fn yaml_of_aliases() {
    yaml("YAML of aliases", format!("- &a b\n{}", "- *a\n".repeat(BODY_BYTES / 6)));
}

#[test]
fn yaml_of_tags() {
    let tags: String = (0..180_000).map(|at| format!("%TAG !a{at}! b\n")).collect();
    yaml("YAML of tags", format!("{tags}--- c"));
}

#[test]
fn yaml_of_nothing() {
    yaml("YAML of nothing", "-\n".repeat(BODY_BYTES / 2));
}

#[test]
fn yaml_of_comments() {
    yaml("YAML of comments", "#\n".repeat(BODY_BYTES / 2));
}

#[test]
fn yaml_of_complex_keys() {
    yaml("YAML of complex keys", "? a\n".repeat(BODY_BYTES / 5));
}

#[test]
fn large_objects_that_are_fine() {
    let server = Server::new();
    // JSON on one line with the media type of YAML, as clients apply it.
    let map = filled(
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"#,
        |at| format!(r#""k{at}":"a value of some forty bytes, as they often are""#),
        "}}",
        1_000_000,
    );
    let path = format!("{MAPS}/a?fieldManager=m");
    let cost = server.measure(Method::PATCH, &path, "application/apply-patch+yaml", map.clone());
    check("an applied config map", &cost, &[201]);
    let cost = server.measure(Method::PATCH, &path, "application/apply-patch+yaml", map);
    check("the same again", &cost, &[200]);
    let long = "x".repeat(700);
    let body =
        filled(r#"{"metadata":{"name":"b"},"data":{"#, |at| format!(r#""k{at}":"{long}""#), "}}", 1_045_000);
    check("a config map of 1 MB", &server.measure(Method::POST, MAPS, JSON, body.clone()), &[201]);
    let body = body.replace("\"b\"", "\"c\"");
    check("the same in YAML", &server.measure(Method::POST, MAPS, "application/yaml", body), &[201]);
    let text: String = (0..25_000).map(|at| format!("    - {{ line: {at}, of: [a, b] }}\n")).collect();
    let body = format!("metadata:\n  name: d\ndata:\n  k: |\n{text}");
    check("a long text in YAML", &server.measure(Method::POST, MAPS, "application/yaml", body), &[201]);
}

#[test]
fn names_of_managers_and_fields() {
    let server = Server::new();
    server.create(MAPS, &json!({"metadata": {"name": "a"}}));
    let item = |at: usize| format!(r#""k{at}":null"#);
    for format in ["merge-patch", "strategic-merge-patch"] {
        let body = filled(r#"{"data":{"#, item, "}}", BODY_BYTES);
        let cost =
            server.measure(Method::PATCH, &format!("{MAPS}/a"), &format!("application/{format}+json"), body);
        check(&format!("{format} of nulls"), &cost, &[200, 413]);
    }
}

#[test]
fn selectors_of_many_terms() {
    let server = Server::new();
    for at in 0..20_000 {
        let labels = json!({"app": format!("x{at}"), "tier": "front"});
        server.create(MAPS, &json!({"metadata": {"name": format!("m{at}"), "labels": labels}}));
    }
    for (name, term) in [("different", "!k"), ("same", "app!=y")] {
        let terms = |at: usize| format!("{term}{at}");
        let selector = filled("", terms, "", 60_000);
        let path = format!("{MAPS}?labelSelector={selector}");
        check(
            &format!("selector of {name} labels"),
            &with_answer(server.measure(Method::GET, &path, "", String::new())),
            &[200],
        );
    }
    // As many values as fit into a URL. `selector::label` tests twenty thousand terms.
    for operator in ["in", "notin"] {
        let selector = filled(&format!("app+{operator}+("), short, ")", 64_000);
        let path = format!("{MAPS}?labelSelector={selector}");
        let cost = server.measure(Method::GET, &path, "", String::new());
        check(&format!("selector of values, {operator}"), &with_answer(cost), &[200]);
    }
    let selector = filled("", |at| format!("metadata.name!=y{at}"), "", 60_000);
    let path = format!("{MAPS}?fieldSelector={selector}");
    check("selector of fields", &with_answer(server.measure(Method::GET, &path, "", String::new())), &[200]);
}

#[test]
fn a_list_in_yaml() {
    let server = Server::new();
    // Many small values: as a tree they take fifty times their bytes.
    let data: serde_json::Map<String, Value> = (0..200).map(|at| (format!("k{at}"), json!("v"))).collect();
    for at in 0..1_000 {
        server.create(MAPS, &json!({"metadata": {"name": format!("m{at}")}, "data": data}));
    }
    for accept in ["application/yaml", "application/yaml;as=Table;g=meta.orch.io;v=v1"] {
        let cost = with_answer(server.measure(Method::GET, MAPS, accept, String::new()));
        check_held(accept, &cost, &[200], 3);
    }
}

#[test]
fn the_smallest_entries() {
    let server = Server::new();
    let body = filled(r#"{"metadata":{"name":"a"},"data":{"#, |at| format!(r#""{at}":"""#), "}}", 1_480_000);
    let cost = server.measure(Method::POST, MAPS, JSON, body);
    check("the smallest entries", &cost, &[413, 500]);
}

#[test]
fn options_of_a_delete() {
    let server = Server::new();
    server.create(MAPS, &json!({"metadata": {"name": "a"}}));
    let path = format!("{MAPS}/a");
    for (name, item) in [("few dry runs", "1"), ("dry runs of nothing", "\"\"")] {
        let body = filled(r#"{"dryRun":["#, |_| item.to_owned(), "]}", BODY_BYTES);
        let code = if item == "1" { 400 } else { 413 };
        check(name, &server.measure(Method::DELETE, &path, JSON, body), &[code]);
    }
    for (format, body) in [
        ("application/yaml", format!("dryRun: [{}]", "\"\",".repeat(BODY_BYTES / 4))),
        ("application/yaml", format!("dryRun:\n{}", "- a\n".repeat(BODY_BYTES / 5))),
    ] {
        check("dry runs in YAML", &server.measure(Method::DELETE, &path, format, body), &[413]);
    }
}

#[test]
fn a_large_map_that_is_fine() {
    let server = Server::new();
    let body = filled(r#"{"metadata":{"name":"a"},"data":{"#, |at| format!(r#""k{at}":"v""#), "}}", 560_000);
    check("a large config map", &server.measure(Method::POST, MAPS, JSON, body), &[201]);
    let patch = json!({"data": {"k7": "w"}}).to_string();
    let path = format!("{MAPS}/a");
    let cost = server.measure(Method::PATCH, &path, "application/merge-patch+json", patch);
    eprintln!("a small patch of it: {} ms, {} MB", cost.cpu_ms, cost.peak >> 20);
    assert_eq!(cost.code, 200);
}

#[test]
fn an_apply_that_conflicts_with_all_of_a_large_map() {
    let server = Server::new();
    let data: Value =
        (0..47_000).map(|at| (format!("k{at}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    server.create(MAPS, &json!({"metadata": {"name": "a"}, "data": data}));
    let body = filled(
        r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"#,
        |at| format!(r#""k{at}":"w""#),
        "}}",
        560_000,
    );
    let path = format!("{MAPS}/a?fieldManager=other");
    let cost = server.measure(Method::PATCH, &path, "application/apply-patch+yaml", body);
    check("an apply that conflicts with all of it", &cost.on(STORED_BYTES), &[409]);
}

#[test]
fn managers_of_one_object() {
    let item = |at: usize| {
        format!(
            r#"{{"manager":"m{at}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"f:k":{{}}}}}}}}"#
        )
    };
    let body =
        filled(r#"{"metadata":{"name":"a","managedFields":["#, item, r#"]},"data":{"k":"v"}}"#, 1_400_000);
    posted("managers", MAPS, body, &[201, 500]);
    let body = filled(
        r#"{"metadata":{"name":"a","managedFields":["#,
        |_| r#"{"operation":"?"}"#.to_owned(),
        "]}}",
        BODY_BYTES,
    );
    posted("broken managers", MAPS, body, &[413, 422]);
}

#[test]
fn a_failed_patch_of_a_secret_shows_none_of_it() {
    let server = Server::new();
    let secrets = "/api/v1/namespaces/ns/secrets";
    server.create(secrets, &json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden"}}));
    let path = format!("{secrets}/s?fieldManager=m");
    let patches = [
        ("application/merge-patch+json", r#"{"data":{"k2":"hidden!","k3":5},"stringData":{"a":"hidden"}}"#),
        ("application/strategic-merge-patch+json", r#"{"data":{"k2":"hidden!"}}"#),
        ("application/strategic-merge-patch+json", r#"{"data":{"$patch":"hidden","k":"hidden"}}"#),
        ("application/json-patch+json", r#"[{"op":"add","path":"/data/k2","value":"hidden!"}]"#),
        ("application/json-patch+json", r#"[{"op":"add","path":"hidden","from":{"hidden":"hidden"}}]"#),
        ("application/json-patch+json", r#"["hidden"]"#),
        ("application/merge-patch+json", r#"{"data":"hidden"#),
        (
            "application/apply-patch+yaml",
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k2":["hidden"]}}"#,
        ),
        (
            "application/apply-patch+yaml",
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k2":"hidden!"}}"#,
        ),
    ];
    for (format, patch) in patches {
        let cost = server.measure(Method::PATCH, &path, format, patch.to_owned());
        let text = String::from_utf8_lossy(&cost.answer);
        assert!((400..500).contains(&cost.code), "{format} {patch}: {} {text}", cost.code);
        // Neither in base64.
        assert!(!text.contains("hidden") && !text.contains("aGlkZGVu"), "{format} {patch}: {text}");
    }
}
