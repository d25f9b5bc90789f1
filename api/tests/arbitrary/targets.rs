//! Properties of every parser of untrusted input, for any bytes.
//!
//! One function for each parser. It must not panic, overflow the stack or take long. It asserts the parser's properties
//! for valid input, and returns whether the input was valid. `cargo fuzz` calls them (`api/fuzz`), and so does the test
//! in `main.rs`, with mutated examples.

use std::sync::{Arc, LazyLock};

use orch_api::ambient::Timestamp;
use orch_api::fields::{ApplyOptions, FieldSet, Managed, PathElement, Writer, apply, track_update};
use orch_api::negotiate::negotiate;
use orch_api::paging::{ContinueToken, TokenKey};
use orch_api::patch::{JsonPatch, merge_patch, strategic_merge_patch};
use orch_api::request::{Query, TargetPath, Verb, parse_path};
use orch_api::selector::Selector;
use orch_proto::brand::ORCH;
use orch_raft::Fields;
use orch_raft::object::Object;
use orch_raft::{Index, Key, Revision};
use orch_rules::expression::{Allowance, Exhausted, Pattern, PatternLimits, check_device_selector};
use orch_rules::selector::{FieldSelector, LabelSelector, SelectableFields};
use orch_schema::value::Value;
use orch_schema::{
    Limits, Schema, Selectable, TypeId, decode_json, decode_protobuf, decode_protobuf_object, decode_yaml,
    encode_json, encode_protobuf,
};

pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::builtin(&ORCH));

/// Every decoder, for an object of the type that the first two bytes choose. A decoded value is encoded, decoded and
/// encoded again to the same bytes.
pub(crate) fn decode(input: &[u8]) -> bool {
    let Some((type_id, bytes)) = chosen_type(input) else { return false };
    let limits = Limits::default();
    let json = decode_json(&SCHEMA, type_id, bytes, limits).map(|decoded| decoded.value);
    let yaml = decode_yaml(&SCHEMA, type_id, bytes, limits).map(|decoded| decoded.value);
    let message = decode_protobuf(&SCHEMA, type_id, bytes, limits);
    let object = decode_protobuf_object(&SCHEMA, type_id, bytes, limits).map(|decoded| decoded.value);
    let decoded: Vec<_> = [json, yaml, message, object].into_iter().flatten().collect();
    for value in &decoded {
        let (mut text, mut message) = (Vec::new(), Vec::new());
        encode_json(&SCHEMA, type_id, value, &mut text);
        encode_protobuf(&SCHEMA, type_id, value, &mut message);
        let again = decode_json(&SCHEMA, type_id, &text, limits).expect("what was encoded decodes");
        // Compared as bytes: JSON leaves out an empty list, which Protobuf tells from an absent one.
        let mut written = Vec::new();
        encode_json(&SCHEMA, type_id, &again.value, &mut written);
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&text));
        decode_protobuf(&SCHEMA, type_id, &message, limits).expect("what was encoded decodes");
    }
    !decoded.is_empty()
}

/// Label selectors. A selector always matches the same.
pub(crate) fn label_selector(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let Ok(selector) = LabelSelector::parse(&text) else { return false };
    let labels = [("a", "1"), ("app", "web"), ("tier", "")];
    let selector = Selector { labels: selector, fields: FieldSelector::default() };
    let selected = selector.matches("n/web", &object(&labels, &[]));
    assert!(selected || !selector.is_everything());
    assert_eq!(LabelSelector::parse(&text), Ok(selector.labels));
    true
}

fn selectable(name: &&str) -> Selectable {
    Selectable { name: (*name).to_owned(), withheld: false, unindexed: false, coarse: false, synonym: None }
}

/// Field selectors, for a kind with selectable fields of its own and for one without.
pub(crate) fn field_selector(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let mut meant = false;
    for (declared, namespaced) in [(&["spec.nodeName", "status.phase"][..], true), (&[], false)] {
        let declared: Vec<Selectable> = declared.iter().map(selectable).collect();
        let fields = SelectableFields { declared: &declared, namespaced, is_defined: false };
        let Ok(selector) = FieldSelector::parse(&text, fields) else { continue };
        meant = true;
        let selector = Selector { labels: LabelSelector::default(), fields: selector };
        let stored = [("spec.nodeName", "node"), ("status.phase", "Running")];
        let selected = selector.matches("n/web", &object(&[], &stored));
        assert!(selected || !selector.is_everything());
        if let Some(name) = selector.only_name().filter(|_| selected) {
            assert_eq!(name, "web");
        }
        let renamed = FieldSelector::parse_renamed(&text, fields, |name| {
            let names = ["metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"];
            names.into_iter().find(|known| *known == name)
        });
        assert_eq!(renamed.map(|selector| selector.is_everything()), Ok(selector.is_everything()));
    }
    meant
}

/// Continue tokens. Only sealed tokens open, and they open to the sealed value.
pub(crate) fn continue_token(input: &[u8]) -> bool {
    let key = TokenKey::new([7; 32]);
    let text = String::from_utf8_lossy(input);
    assert!(key.open(&text, ("configmaps", "n")).is_err(), "a token that nobody gave");
    let Some((numbers, after)) = input.split_first_chunk::<16>() else { return false };
    let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| numbers[at + byte]));
    let token = ContinueToken {
        revision: Some(Revision(number(0))).filter(|revision| revision.0 != 0),
        issued: Timestamp(number(8)),
        // No path has a zero byte.
        after: String::from_utf8_lossy(after).replace('\0', ""),
        is_earlier: false,
        sent: Some(number(8)).filter(|sent| sent % 2 == 0),
    };
    let sealed = key.seal(&token, ("configmaps", "n"));
    assert_eq!(key.open(&sealed, ("configmaps", "n")), Ok(token));
    assert!(key.open(&sealed, ("configmaps", "")).is_err());
    assert!(key.open(&sealed[..sealed.len() - 1], ("configmaps", "n")).is_err());
    true
}

/// Path, query and `Accept` of a request, a line each. A key has the parts that the path named.
pub(crate) fn request(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (path, query, accept) = (line(), Query::parse(line()), line());
    for name in ["limit", "timeoutSeconds", "resourceVersion"] {
        // Fails for most texts.
        let _ = query.integer(name);
        assert!(query.value(name).unwrap_or_default() == query.text(name));
    }
    // Fails for most headers.
    let _ = negotiate(Some(accept), "curl/8", &query, &ORCH);
    let TargetPath::Resource(target) = parse_path(path) else { return false };
    let verb = Verb::of(&http::Method::GET, &target, &query);
    // Below the deprecated prefix of watches, parts of objects have no verb.
    let has_none = target.deprecated_watch && !target.subresource.is_empty();
    assert!(matches!(verb, Some(Verb::Get | Verb::List | Verb::Watch)) || has_none && verb.is_none());
    if let Ok(key) = Key::new(&Arc::from("things"), &target.namespace, &target.name) {
        assert_eq!((key.namespace(), key.name()), (target.namespace.as_str(), target.name.as_str()));
        assert!(!target.name.contains('/') && !target.namespace.contains('/'));
    }
    true
}

/// All patch formats, on an object of the type that the first two bytes choose: object, zero byte, patch. A patched
/// object can be stored and read again.
pub(crate) fn patch(input: &[u8]) -> bool {
    let Some((type_id, documents)) = chosen_type(input) else { return false };
    let Some((object, patch)) = two_values(documents) else { return false };
    let readable = |result: Result<(), _>, value: &Value| {
        let stored = serde_json::to_vec(value).expect("a value can be written");
        if result.is_ok() {
            assert_eq!(serde_json::from_slice::<Value>(&stored).ok().as_ref(), Some(value));
        }
        result.is_ok()
    };
    let mut target = object.clone();
    let merged = readable(merge_patch(&mut target, patch.clone()), &target);
    let mut target = object.clone();
    let strategic = strategic_merge_patch(&SCHEMA, type_id, &mut target, patch.clone());
    let merged = readable(strategic, &target) || merged;
    let mut target = object;
    let result = JsonPatch::parse(patch).and_then(|patch| {
        assert!(patch.unknown_fields().iter().all(|field| field.starts_with('[')));
        patch.apply(&mut target)
    });
    readable(result, &target) || merged
}

/// Field paths and sets of them, in their wire form. A parsed path is written so that it parses to the same.
pub(crate) fn field_paths(input: &[u8]) -> bool {
    let element = PathElement::parse(&String::from_utf8_lossy(input));
    let mut meant = element.is_ok();
    if let Ok(element) = element {
        let mut text = String::new();
        element.write_wire(&mut text);
        assert_eq!(PathElement::parse(&text), Ok(element), "{text}");
    }
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return meant };
    if let Ok(set) = FieldSet::from_fields_v1(&value) {
        meant = true;
        let written = set.to_fields_v1();
        let again = FieldSet::from_fields_v1(&written);
        if !set.is_empty() {
            assert_eq!(again, Ok(set), "{written}");
        }
    }
    if let Ok(managed) = Managed::decode(Some(&value)) {
        meant = true;
        let count = managed.entries().len();
        let written = managed.encode();
        let again = Managed::decode(written.as_ref()).expect("what was written reads");
        assert_eq!(again.entries().len(), count);
    }
    meant
}

/// Server-side apply and ownership of updates: two configurations of the type that the first two bytes choose, with a
/// zero byte between them. The managers of a stored object can always be decoded.
pub(crate) fn ownership(input: &[u8]) -> bool {
    let Some((type_id, documents)) = chosen_type(input) else { return false };
    let Some((first, second)) = two_values(documents) else { return false };
    let options = ApplyOptions { force: false, brand: &ORCH };
    let applied = |live: Option<&Value>, config: &Value, manager: &str| {
        let object = apply(&SCHEMA, type_id, live.cloned(), config, &writer(manager), options).ok()?;
        Managed::decode(object["metadata"].get("managedFields")).expect("stored managers can be read");
        Some(object)
    };
    let one = applied(None, &first, "one");
    let both = applied(one.as_ref(), &second, "two");
    let Some(live) = both.or(one) else { return false };
    let mut new = second;
    // Fails for a list with indistinguishable items, and leaves the ownership as it was.
    let _ = track_update(&SCHEMA, type_id, Some(&live), &mut new, &writer("three"));
    Managed::decode(new["metadata"].get("managedFields")).expect("stored managers can be read");
    true
}

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        api_version: "v1",
        subresource: "",
        now: "2026-01-02T03:04:05Z",
        reset: &[],
        others: &[],
    }
}

fn chosen_type(input: &[u8]) -> Option<(TypeId, &[u8])> {
    let ([high, low], rest) = input.split_first_chunk::<2>()?;
    let types = u32::try_from(SCHEMA.len()).expect("some hundred types");
    Some((TypeId(u32::from(u16::from_be_bytes([*high, *low])) % types), rest))
}

fn two_values(input: &[u8]) -> Option<(Value, Value)> {
    let middle = input.iter().position(|byte| *byte == 0)?;
    Some((serde_json::from_slice(&input[..middle]).ok()?, serde_json::from_slice(&input[middle + 1..]).ok()?))
}

fn object(labels: &[(&str, &str)], fields: &[(&str, &str)]) -> Object {
    let index = Index {
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        fields: Fields::new(fields.iter().copied()),
        ..Index::default()
    };
    Object {
        revision: Revision(5),
        created: Revision(4),
        written_ms: 0,
        json: bytes::Bytes::new(),
        revision_at: 0,
        index,
        protobuf: std::sync::OnceLock::new(),
    }
}

/// Steps of one input of [`price`] at most: a few milliseconds, since a test has hundreds of inputs.
const PRICE_STEPS_MAX: u64 = 30_000;

/// A device selector and a pattern, with the steps that both were charged for. Without them the answer is that they are
/// used up, and never another one.
pub(crate) fn priced(input: &[u8]) -> (u64, bool) {
    let text = String::from_utf8_lossy(input);
    let compile = |allowance: &mut Allowance| {
        let pattern = Pattern::compile(&text, PatternLimits::STANDING, allowance)?.is_ok();
        let selector = check_device_selector(&text, allowance)?.is_ok();
        Ok::<bool, Exhausted>(pattern || selector)
    };
    let mut allowance = Allowance::of(PRICE_STEPS_MAX);
    let compiled = compile(&mut allowance);
    let steps = PRICE_STEPS_MAX - allowance.left();
    let mut same = Allowance::of(steps);
    assert!(compiled.is_err() || compile(&mut same) == compiled, "equal texts have equal prices");
    assert!(compiled.is_err() || compile(&mut Allowance::of(steps - 1)) == Err(Exhausted));
    (steps, compiled == Ok(true))
}

/// Prices of device selectors and patterns. The fuzz target holds the steps against the clock.
pub(crate) fn price(input: &[u8]) -> bool {
    priced(input).1
}
