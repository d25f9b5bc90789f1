//! Valid inputs, a list for each target: the test mutates them, and a fuzzer may start from them.

use crate::targets::SCHEMA;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"1"},"finalizers":["x/y"]},
"spec":{"containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"A"}],
"resources":{"requests":{"cpu":0.5,"memory":"1Gi"}}}],"tolerations":[{"operator":"Exists"}]}}"#;

const ROLE: &str = r#"{"metadata":{"name":"r","annotations":{"k":"v"}},
"rules":[{"apiGroups":[""],"resources":["pods","pods/log"],"verbs":["get"]}]}"#;

const CONFIG_MAP: &str = r#"{"metadata":{"name":"c","managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1",
"time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a":{}}}}]},"data":{"a":"\u2028","b":""},
"binaryData":{"k":"AAEC/w=="},"immutable":false}"#;

const YAML: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: &m {name: c}\ndata:\n  a: \"yes\"\n  b: |\n    two\n    lines\n  <<: *m\n";

/// Nested aliases: a short text that expands to a long one.
const ALIASES: &str = "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]\n";

/// The Protobuf form of a config map: envelope, metadata with a name, one entry.
const PROTOBUF: &[u8] =
    b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x11\x0a\x05\x0a\x03cfg\x12\x08\x0a\x01a\x12\x03one";

pub(crate) fn decode() -> Vec<Vec<u8>> {
    let texts = [("core.v1.Pod", POD), ("rbac.v1.Role", ROLE), ("core.v1.ConfigMap", CONFIG_MAP)];
    let yaml = [
        ("core.v1.ConfigMap", YAML),
        ("core.v1.ConfigMap", ALIASES),
        ("core.v1.Pod", "spec: {a: [[[[[]]]]]}"),
    ];
    let mut examples: Vec<_> =
        texts.into_iter().chain(yaml).map(|(name, text)| typed(name, text.as_bytes())).collect();
    examples.push(typed("core.v1.ConfigMap", PROTOBUF));
    examples.push(typed("core.v1.ConfigMap", &PROTOBUF[PROTOBUF.len() - 17..]));
    examples
}

pub(crate) fn label_selector() -> Vec<Vec<u8>> {
    let texts = [
        "a=1,app!=web",
        "tier in (x,y),!gone,app",
        "a notin (1, 2)",
        "example.com/a==b",
        "a>5,b<7",
        "a in (,)",
        "",
    ];
    bytes(&texts)
}

pub(crate) fn field_selector() -> Vec<Vec<u8>> {
    let texts = [
        "metadata.name=web,metadata.namespace!=n",
        "spec.nodeName==node",
        r"status.phase=a\,b\=c\\",
        "metadata.name",
        ",,=",
    ];
    bytes(&texts)
}

pub(crate) fn continue_token() -> Vec<Vec<u8>> {
    let token = "AQAAAAAAAAAqAAAAAAAAAAducy9uYW1lAAAAAAAAAAAAAAAAAAAAAA";
    bytes(&[token, "eyJ2IjoibWV0YSIsInJ2Ijo1LCJzdGFydCI6Im4ifQ", "0123456789abcdefns/name", "===="])
}

pub(crate) fn request() -> Vec<Vec<u8>> {
    let texts = [
        "/api/v1/namespaces/n/pods/p/log\nlimit=5&continue=x%20y&watch=true\napplication/json;as=Table;g=meta.k8s.io;v=v1",
        "/apis/apps/v1/watch/namespaces/n/deployments\nresourceVersion=7&watch=1\napplication/yaml;q=0.5, */*;q=0.1",
        "/apis/g/v/things/%2e%2e/%2F\n=&&a=%ff\n;;,,q=",
        "/api/v1/namespaces/n/finalize",
    ];
    bytes(&texts)
}

pub(crate) fn patch() -> Vec<Vec<u8>> {
    let merges = [
        r#"{"metadata":{"labels":{"a":null,"b":"2"}},"spec":{"containers":[]}}"#,
        r#"{"spec":{"containers":[{"name":"c","$patch":"delete"},{"name":"d","image":"j"}],"$setElementOrder/containers":[{"name":"d"}]}}"#,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/y"],"$retainKeys":["name"]}}"#,
        r#"{"spec":{"containers":[{"$patch":"replace"}],"$patch":"merge"}}"#,
        r#"{"spec":{"priority":888888888888889e233}}"#,
    ];
    let operations = [
        r#"[{"op":"add","path":"/spec/containers/-","value":{"name":"d"}},{"op":"remove","path":"/metadata/labels/a"}]"#,
        r#"[{"op":"copy","from":"/spec","path":"/spec/copy"},{"op":"move","from":"/spec/copy","path":"/x~1y"}]"#,
        r#"[{"op":"test","path":"/spec/containers/-1/name","value":"c"},{"op":"replace","path":"","value":[]}]"#,
    ];
    let pod = |patch: &str| typed("core.v1.Pod", &pair(POD, patch));
    merges.into_iter().chain(operations).map(pod).collect()
}

pub(crate) fn field_paths() -> Vec<Vec<u8>> {
    let texts = [
        "f:metadata",
        r#"k:{"containerPort":80,"protocol":"TCP"}"#,
        r#"v:"x""#,
        r#"k:{"containerPort":888888888888889e238}"#,
        "i:3",
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}},"v:1.5":{},"i:0":{}}}"#,
        r#"[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]"#,
    ];
    bytes(&texts)
}

pub(crate) fn ownership() -> Vec<Vec<u8>> {
    let other = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"b":"2"}},
"spec":{"containers":[{"name":"c","env":[{"name":"B","value":"x"}]},{"name":"d","image":"j"}]}}"#;
    let map = r#"{"metadata":{"name":"c"},"data":{"a":"3"}}"#;
    vec![
        typed("core.v1.Pod", &pair(POD, other)),
        typed("core.v1.Pod", &pair(other, POD)),
        typed("core.v1.ConfigMap", &pair(map, CONFIG_MAP)),
    ]
}

pub(crate) fn price() -> Vec<Vec<u8>> {
    let texts = [
        "device.driver == 'gpu.example.com' && device.attributes['d.io'].size > 3",
        r"device.driver.matches('^[a-z]+(\\.[a-z0-9]{1,63})*$') || 'x'.matches(device.driver)",
        "device.attributes.exists(d, d.startsWith('a')) ? [1, 2].map(a, a + 1) == [] : {'a': 1}.size() > 0",
        r"(?i)^[\w.-]{1,20}[[^a-z]&&\pL]?(?:a|b*|\b)+$",
    ];
    bytes(&texts)
}

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn pair(first: &str, second: &str) -> Vec<u8> {
    [first.as_bytes(), b"\0", second.as_bytes()].concat()
}

fn typed(name: &str, content: &[u8]) -> Vec<u8> {
    let type_id = SCHEMA.find_type(name).expect("a type of the schema");
    let number = u16::try_from(type_id.0).expect("some hundred types");
    [&number.to_be_bytes(), content].concat()
}
