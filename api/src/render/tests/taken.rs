//! The memory that a response holds while its client reads it.

use std::sync::Weak;

use bytes::Bytes;

use super::*;

/// Number of objects in a list: some megabytes in every representation.
const OBJECTS: usize = 20_000;

/// Bytes that are dropped together with the token.
struct Kept {
    bytes: Bytes,
    _token: Arc<()>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes, and a weak token that tells whether they are still held.
fn watched(bytes: Bytes) -> (Bytes, Weak<()>) {
    let token = Arc::new(());
    let weak = Arc::downgrade(&token);
    (Bytes::from_owner(Kept { bytes, _token: token }), weak)
}

/// Objects that only the list holds, and for each a weak token that tells whether the form shown by `renderer` is still
/// held.
fn objects(renderer: &Renderer) -> (Vec<SharedObject>, Vec<Weak<()>>) {
    let each = (0..OBJECTS).map(|at| {
        let object = stored(renderer, &config_map(&format!("m{at:05}")));
        if renderer.representation.encoding == Encoding::Protobuf {
            assert!(renderer.object(&object, NOW).is_ok(), "makes the message");
        }
        let mut object = Arc::into_inner(object).unwrap();
        let weak;
        if let Some(message) = object.protobuf.take() {
            let message = watched(message);
            (object.protobuf, weak) = (message.0.into(), message.1);
        } else {
            (object.json, weak) = watched(object.json);
        }
        (Arc::new(object), weak)
    });
    each.unzip()
}

#[test]
fn objects_are_kept_no_longer_than_until_they_are_sent() {
    let metadata = Representation { view: ResponseView::MetadataList, ..JSON };
    for representation in [JSON, PRETTY, metadata, PROTOBUF] {
        let renderer = renderer("configmaps", representation);
        let (objects, kept) = objects(&renderer);
        let payload = renderer.list(page(objects), NOW).unwrap();
        let (len, held) = (payload.len(), payload.own_bytes());
        let mut frames = payload.into_frames();
        let alive = || kept.iter().filter(|weak| weak.strong_count() > 0).count();
        assert_eq!(alive(), OBJECTS);
        let mut sent = 0;
        while sent < len / 2 {
            sent += frames.next().unwrap().len();
        }
        // The client has read half of the list, and at most a frame more.
        let (alive, rest) = (alive(), frames.own_bytes());
        assert!((OBJECTS * 2 / 5..=OBJECTS / 2).contains(&alive), "{representation:?}: {alive} objects");
        assert!((held * 2 / 5..=held / 2).contains(&rest), "{representation:?}: {rest} of {held} bytes");
        assert_eq!(sent + frames.by_ref().map(|frame| frame.len()).sum::<usize>(), len);
        assert_eq!(frames.own_bytes(), 0);
    }
}

#[test]
fn documents_are_kept_no_longer_than_until_they_are_sent() {
    let pretty_table = Representation { view: ResponseView::Table, ..PRETTY };
    let yaml_table = Representation { view: ResponseView::Table, ..YAML };
    for representation in [TABLE, pretty_table, yaml_table, YAML] {
        let renderer = renderer("configmaps", representation);
        let payload = renderer.list(page(objects(&renderer).0), NOW).unwrap();
        let (len, held) = (payload.len(), payload.own_bytes());
        assert!(held >= len, "{representation:?}: the document is the answer's own");
        let mut frames = payload.into_frames();
        let mut sent = 0;
        while let Some(frame) = frames.next() {
            assert!(frame.len() < 80 << 10, "{representation:?}: a frame of {} bytes", frame.len());
            assert!(frame.is_unique(), "{representation:?}: what follows is kept with this frame");
            sent += frame.len();
            let (rest, own) = (frames.own_bytes(), size_of::<Bytes>() * (len >> 15));
            assert!(rest <= len - sent + own, "{representation:?}: {rest} bytes for {}", len - sent);
        }
        assert_eq!(sent, len);
    }
}
