//! The items of groups in aggregated discovery, as bytes that all documents share.
//!
//! Owns their text, their hashes, and how documents are put together from them, plain and compressed: a change of one group makes
//! the bytes of that group anew and no others. No tree of an item is kept.
//!
//! A compressed document is one gzip member. It is compressed in runs of items that follow one another, each into blocks of deflate that
//! refer to nothing outside and end at a byte, so that a run that is the same in another document is not compressed again; the checksums
//! of the runs are combined. A large item is a run of its own. Small ones are compressed together: by itself, the item of a group of one
//! kind takes ten times the bytes. Where a run of small ones ends depends on their bytes alone, so that a change of one leaves other runs.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use flate2::{Compress, Compression, Crc, FlushCompress};
use orch_schema::value::Value;
use orch_schema::write_value;
use parking_lot::Mutex;
use sha2::{Digest, Sha512};

/// Bytes from which on a part is sent as it is. Smaller ones are copied together: there may be a group for each of thousands of kinds.
const FRAME_BYTES: usize = 16 << 10;

/// Bytes of small items that are compressed together, at most (and one item more): twice the window of deflate.
const RUN_BYTES_MAX: usize = 64 << 10;

/// A run of small items ends behind one in so many. Items of a group of one kind have some 400 bytes.
const RUN_ITEMS: u8 = 64;

/// Level of compression. A part is compressed once and sent many times.
const LEVEL: u32 = 6;

/// The head of a gzip member: deflate, no name, no time, unknown system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A last block of deflate without content.
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];

/// The item of a group.
pub(crate) struct Item {
    /// A comma and the item as compact JSON.
    text: Bytes,
    digest: Digested,
    /// The last run that began with this item, and the hash of its items.
    run: Mutex<Option<(Digested, Deflated)>>,
}

/// SHA-512.
type Digested = [u8; 64];

/// A compressed part of a document.
#[derive(Clone)]
struct Deflated {
    /// Blocks of deflate, none of which is the last one.
    blocks: Bytes,
    /// Checksum and length of what they hold.
    crc: Arc<Crc>,
}

impl Item {
    pub(crate) fn of(item: &Value) -> Item {
        let mut text = vec![b','];
        write_value(item, &mut text);
        text.shrink_to_fit();
        Item { digest: Sha512::digest(&text).into(), text: text.into(), run: Mutex::default() }
    }

    /// The hash of the item.
    pub(super) fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// The text as number `at` in a list: all but the first have a comma before.
    pub(super) fn json(&self, at: usize) -> Bytes {
        if at == 0 { self.text.slice(1..) } else { self.text.clone() }
    }

    /// The item as a tree.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.text[1..]).expect("this server has written it")
    }

    fn is_large(&self) -> bool {
        self.text.len() >= FRAME_BYTES
    }
}

/// The items that are compressed together at the begin of `items`, which has some.
fn run(items: &[Arc<Item>]) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for item in items {
        if item.is_large() {
            return count.max(1);
        }
        count += 1;
        bytes += item.text.len();
        if bytes >= RUN_BYTES_MAX || item.digest[0].is_multiple_of(RUN_ITEMS) {
            break;
        }
    }
    count
}

/// The texts of `run`, compressed, unless they were in the last document that had a run with the same begin.
fn deflated(run: &[Arc<Item>]) -> Option<Deflated> {
    let first = run.first()?;
    let mut hash = Sha512::new();
    run.iter().for_each(|item| hash.update(item.digest));
    let digest: Digested = hash.finalize().into();
    // Documents are made one after the other, but for those of two versions.
    let mut kept = first.run.lock();
    match &*kept {
        Some((of, made)) if *of == digest => Some(made.clone()),
        _ => {
            let text = match run {
                [one] => one.text.clone(),
                several => several.iter().map(|item| &*item.text).collect::<Vec<_>>().concat().into(),
            };
            let made = deflate(&text);
            *kept = Some((digest, made.clone()));
            Some(made)
        }
    }
}

/// `head`, `parts` and `tail` one after the other, with few frames.
pub(super) fn gathered(head: &Bytes, parts: impl Iterator<Item = Bytes>, tail: &'static str) -> Vec<Bytes> {
    let (mut frames, mut open) = (Vec::new(), BytesMut::new());
    for part in std::iter::once(head.clone()).chain(parts).chain([Bytes::from_static(tail.as_bytes())]) {
        if part.len() >= FRAME_BYTES || open.len() >= FRAME_BYTES {
            frames.extend((!open.is_empty()).then(|| open.split().freeze()));
        }
        match part.len() >= FRAME_BYTES {
            true => frames.push(part),
            false => open.extend_from_slice(&part),
        }
    }
    frames.extend((!open.is_empty()).then(|| open.freeze()));
    frames
}

/// The same of the texts of `items`, as one gzip member.
pub(super) fn gzipped(head: &Bytes, items: &[Arc<Item>], tail: &'static str) -> Vec<Bytes> {
    let mut crc = Crc::new();
    let mut take = |part: Deflated| {
        crc.combine(&part.crc);
        part.blocks
    };
    // The first item has no comma before it, so that its bytes are compressed with the head.
    let first = items.first().map(|item| item.json(0)).unwrap_or_default();
    let begin = take(deflate(&[&head[..], &first].concat()));
    let mut parts: Vec<Bytes> = vec![begin];
    let mut rest = items.get(1..).unwrap_or_default();
    while !rest.is_empty() {
        let (of, behind) = rest.split_at(run(rest));
        parts.extend(deflated(of).map(&mut take));
        rest = behind;
    }
    parts.push(take(deflate(tail.as_bytes())));
    let mut end = LAST_BLOCK.to_vec();
    end.extend(crc.sum().to_le_bytes());
    end.extend(crc.amount().to_le_bytes());
    parts.push(end.into());
    gathered(&Bytes::from_static(&GZIP_HEAD), parts.into_iter(), "")
}

fn deflate(text: &[u8]) -> Deflated {
    let mut crc = Crc::new();
    crc.update(text);
    let mut compress = Compress::new(Compression::new(LEVEL), false);
    // Room for text that does not shrink, and for the end of the last block.
    let mut blocks = Vec::with_capacity(text.len() + text.len() / 100 + 64);
    let mut taken = 0;
    // It ends: each round has more room, and room that is left means that all is written.
    loop {
        let rest = text.get(taken..).unwrap_or_default();
        compress.compress_vec(rest, &mut blocks, FlushCompress::Sync).expect("deflate takes every input");
        taken = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        if blocks.len() < blocks.capacity() {
            break;
        }
        blocks.reserve(text.len() / 10 + 64);
    }
    blocks.shrink_to_fit();
    Deflated { blocks: blocks.into(), crc: crc.into() }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use orch_schema::json;

    use super::*;

    fn items(count: usize, bytes: usize) -> Vec<Arc<Item>> {
        let item = |at: usize| {
            Arc::new(Item::of(&json!({"name": format!("g{at}"), "text": "xyz".repeat(bytes / 3)})))
        };
        (0..count).map(item).collect()
    }

    #[test]
    fn documents_of_any_sizes_are_the_same_compressed_and_not() {
        let head = Bytes::from_static(br#"{"items":["#);
        for (count, bytes) in [(0, 0), (1, 3), (3, 100_000), (2000, 60), (40, 20_000), (100, 12_000)] {
            let items = items(count, bytes);
            let parts = items.iter().enumerate().map(|(at, item)| item.json(at));
            let text = gathered(&head, parts, "]}").concat();
            let value: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(value["items"].as_array().unwrap().len(), count);
            let mut unpacked = Vec::new();
            let packed = gzipped(&head, &items, "]}").concat();
            // One member: a reader that stops behind the first gets all of it.
            GzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, text, "{count} of {bytes}");
        }
    }

    #[test]
    fn large_items_are_shared_and_small_ones_gathered() {
        let head = Bytes::from_static(b"[");
        let frames = |items: &[Arc<Item>]| {
            gathered(&head, items.iter().enumerate().map(|(at, item)| item.json(at)), "]")
        };
        let large = items(3, 20_000);
        let sent = frames(&large);
        assert!(sent.iter().any(|frame| frame.as_ptr() == large[1].text.as_ptr()), "its own bytes");
        assert!(frames(&items(1000, 60)).len() < 10);
    }

    /// Items of groups of one kind each, as they are made of definitions.
    fn groups(count: usize) -> Vec<Arc<Item>> {
        let verbs =
            json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
        let item = |at: usize| {
            let group = format!("g{at}.example.com");
            let resource = json!({
                "resource": format!("things{at}"), "scope": "Namespaced", "singularResource": format!("thing{at}"),
                "responseKind": {"group": group, "version": "v1", "kind": format!("Thing{at}")}, "verbs": verbs,
            });
            let version = json!({"version": "v1", "resources": [resource], "freshness": "Current"});
            Arc::new(Item::of(&json!({"metadata": {"name": group}, "versions": [version]})))
        };
        (0..count).map(item).collect()
    }

    #[test]
    fn many_small_groups_are_compressed_together_and_a_change_of_one_compresses_few_again() {
        let (head, mut items) = (Bytes::from_static(b"["), groups(2000));
        let text: usize = items.iter().map(|item| item.text.len()).sum();
        let packed: usize = gzipped(&head, &items, "]").iter().map(Bytes::len).sum();
        assert!(packed * 10 < text, "{packed} of {text}");
        let kept = |items: &[Arc<Item>]| -> Vec<*const u8> {
            let runs = items.iter().filter_map(|item| Some(item.run.lock().as_ref()?.1.blocks.as_ptr()));
            runs.collect()
        };
        let before = kept(&items);
        assert!((20..200).contains(&before.len()), "{}", before.len());
        items.insert(1000, Arc::new(Item::of(&json!({"metadata": {"name": "new.example.com"}}))));
        gzipped(&head, &items, "]");
        let after = kept(&items);
        let made = after.iter().filter(|run| !before.contains(run)).count();
        assert!((1..=3).contains(&made), "{made} of {}", after.len());
    }

    #[test]
    fn text_that_does_not_shrink_is_compressed_as_well() {
        let noise: Vec<u8> =
            (0..100_000u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let Deflated { blocks, crc } = deflate(&noise);
        let mut unpacked = Vec::new();
        let whole = [&blocks[..], &LAST_BLOCK].concat();
        flate2::read::DeflateDecoder::new(&*whole).read_to_end(&mut unpacked).unwrap();
        assert_eq!((unpacked == noise, crc.amount()), (true, 100_000));
    }
}
