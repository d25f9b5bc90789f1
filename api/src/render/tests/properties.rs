//! Lists of arbitrary objects in every representation: exact lengths, bounded frames, and the same JSON as from a tree.

use orch_schema::yaml_value;
use proptest::prelude::*;

use super::*;

/// Names, and sizes of values; a few values are larger than a frame.
fn contents() -> impl Strategy<Value = Vec<(String, usize)>> {
    let size = prop_oneof![4 => 0..200usize, 2 => 0..30_000usize, 1 => 60_000..200_000usize];
    prop::collection::vec(("[a-z<>\"\\\\{}\\[\\],: é\n]{1,12}", size), 0..12)
}

fn representations() -> impl Iterator<Item = Representation> {
    let views = [ResponseView::Whole, ResponseView::MetadataList, ResponseView::Table];
    views.into_iter().flat_map(|view| {
        [JSON, PRETTY, YAML, PROTOBUF].map(|representation| Representation { view, ..representation })
    })
}

fn objects(contents: &[(String, usize)]) -> Vec<SharedObject> {
    let renderer = renderer("configmaps", JSON);
    let object = |(text, size): &(String, usize)| {
        let mut value = config_map(text);
        value["metadata"]["annotations"] = json!({ (text.clone()): text });
        value["data"] = json!({ (text.clone()): "x".repeat(*size), "{\"metadata\":": text });
        stored(&renderer, &value)
    };
    contents.iter().map(object).collect()
}

/// The expected list, built as a tree.
fn expected(view: ResponseView, objects: &[SharedObject]) -> Option<Value> {
    let values = objects.iter().map(|object| serde_json::from_slice::<Value>(&object.json).unwrap());
    let metadata = json!({ "resourceVersion": "9" });
    match view {
        ResponseView::Whole => Some(json!({
            "kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata,
            "items": values.collect::<Vec<_>>(),
        })),
        ResponseView::Metadata | ResponseView::MetadataList => {
            let version = "meta.orch.io/v1";
            let items = values.map(|value| {
                json!({ "kind": "PartialObjectMetadata", "apiVersion": version, "metadata": value["metadata"] })
            });
            Some(json!({
                "kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata,
                "items": items.collect::<Vec<_>>(),
            }))
        }
        ResponseView::Table => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn frames_join_to_the_announced_length_and_the_same_document(contents in contents()) {
        let objects = objects(&contents);
        let largest = objects.iter().map(|object| object.json.len()).max().unwrap_or_default();
        for representation in representations() {
            let renderer = renderer("configmaps", representation);
            let payload = renderer.list(page(objects.clone()), NOW).unwrap();
            let is_streamed = representation.view == ResponseView::Whole && representation.encoding != Encoding::Yaml;
            let len = payload.len();
            let mut joined = Vec::new();
            for frame in payload.into_frames() {
                prop_assert!(!is_streamed || frame.len() <= 64 * 1024 + 2 * largest + 1024);
                joined.extend_from_slice(&frame);
            }
            prop_assert_eq!(joined.len(), len);
            let found: Option<Value> = match representation.encoding {
                Encoding::Json => Some(serde_json::from_slice(&joined).unwrap()),
                Encoding::Yaml => Some(yaml_value(orch_schema::testing::orch(), &joined).unwrap()),
                Encoding::Protobuf => None,
            };
            if let (Some(found), Some(expected)) = (found, expected(representation.view, &objects)) {
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn pretty_lists_are_what_a_tree_prints(contents in contents()) {
        let objects = objects(&contents);
        let found = text(renderer("configmaps", PRETTY).list(page(objects.clone()), NOW).unwrap());
        let tree = expected(ResponseView::Whole, &objects).unwrap();
        // The tree's printer does not escape `<`, `>` and `&`.
        let printed = serde_json::to_string_pretty(&tree).unwrap();
        let printed = printed.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        prop_assert_eq!(found, printed);
    }
}
