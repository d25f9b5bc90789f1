//! Forms of events: which are rendered, how much that reads, and which are the same.

use super::*;

fn form_of(group: &str, plural: &str, representation: Representation, include: IncludeObject) -> Form {
    Renderer::new(&REGISTRY, &resource(group, plural), representation, include).form()
}

#[test]
fn events_that_hand_out_what_an_object_holds_read_nothing() {
    let object = stored(&renderer("configmaps", JSON), &config_map("a"));
    let whole = object.json.len();
    let at = Some(Revision(8));
    for (representation, renders, reads) in [
        (JSON, [false, false], [0, 0]),
        (PRETTY, [false, false], [0, 0]),
        (TABLE, [true, true], [whole, whole]),
        (METADATA, [true, true], [whole / 8, whole / 8]),
        (PROTOBUF, [false, true], [whole, whole]),
        (Representation { view: ResponseView::Metadata, ..PROTOBUF }, [false, true], [whole, whole]),
    ] {
        let form = renderer("configmaps", representation).form();
        assert_eq!([None, at].map(|revision| form.renders_each(revision)), renders, "{representation:?}");
        assert_eq!(
            [None, at].map(|revision| form.bytes_read_for(&object, revision)),
            reads,
            "{representation:?}"
        );
    }
    let renderer = renderer("configmaps", PROTOBUF);
    renderer.event(EventType::Added, &object, None, true, NOW, &mut Vec::new()).unwrap();
    let reads = [None, at].map(|revision| renderer.form().bytes_read_for(&object, revision));
    assert_eq!(reads, [0, whole], "the message is kept with the object");
}

#[test]
fn converted_events_are_read_in_every_encoding() {
    let events = resource("events.orch.io", "events");
    let object = stored(&renderer("events", JSON), &core_event());
    for representation in [JSON, PROTOBUF] {
        let form = Renderer::new(&REGISTRY, &events, representation, IncludeObject::Metadata).form();
        assert!(form.renders_each(None));
        assert_eq!(form.bytes_read_for(&object, None), object.json.len());
    }
}

#[test]
fn forms_differ_where_their_events_do() {
    let (none, metadata) = (IncludeObject::None, IncludeObject::Metadata);
    let older = |view| Representation { view, meta_version: crate::negotiate::MetaVersion::V1Beta1, ..JSON };
    let of_maps = |representation, include| form_of("", "configmaps", representation, include);
    assert_eq!(
        of_maps(JSON, none),
        of_maps(PRETTY, metadata),
        "events are on one line, and whole objects have no part"
    );
    assert_eq!(of_maps(JSON, none), of_maps(older(ResponseView::Whole), none));
    assert_eq!(of_maps(METADATA, none), of_maps(METADATA, metadata));
    let different = [
        of_maps(JSON, none),
        of_maps(PROTOBUF, none),
        of_maps(TABLE, none),
        of_maps(TABLE, metadata),
        of_maps(older(ResponseView::Table), none),
        of_maps(METADATA, none),
        of_maps(older(ResponseView::Metadata), none),
        form_of("", "secrets", TABLE, none),
        form_of("", "events", TABLE, none),
        form_of("events.orch.io", "events", TABLE, none),
    ];
    for (at, form) in different.iter().enumerate() {
        assert!(!different[..at].contains(form), "{form:?}");
    }
}
