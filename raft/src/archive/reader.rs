//! Reads a snapshot file and proves that it is whole.
//!
//! Owns every check of a file's content: the order of its blocks and objects, and their number; those of its bytes are `input`'s.
//! It holds one block before and one after decompression, whose lengths were compared with
//! their limits first. Objects that it has handed out count for nothing until it has reported the end.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use orch_proto::archive as wire;
use prost::Message;
use zstd::bulk::Decompressor;

use super::block::BlockKind;
use super::input::{Input, damaged};
use super::{
    ArchiveError, Count, FORMAT_WITH_KEYS, Header, KeyBundle, OBJECT_BYTES_MAX, header_from_wire,
    is_plain_text,
};
use crate::encoding::{DecodeError, decode, object_from_wire};
use crate::key::{Key, ObjectPath, PART_BYTES_MAX};
use crate::object::SharedObject;

/// An object of a snapshot.
#[derive(Clone, Debug)]
pub struct Record {
    /// The resource's name in the store.
    pub resource: Arc<str>,
    /// `namespace/name`, or `name`; a valid path of a key.
    pub path: Arc<str>,
    /// The object, of a revision not after the header's.
    pub object: SharedObject,
}

/// Reads a snapshot file from `R`. Iterate over it to the end: it yields each [`Record`], and ends only when the whole
/// file was found sound. After an error it yields nothing more.
pub struct Reader<R> {
    input: Input<R>,
    decompressor: Decompressor<'static>,
    header: Header,
    keys: Option<KeyBundle>,
    stream: String,
    /// Bytes to the end of the last block that was read whole.
    sound: u64,
    /// The block that is being read, and where it begins in the file.
    block: Block,
    last: Option<(Arc<str>, Arc<str>)>,
    found: BTreeMap<Arc<str>, Count>,
    blocks: u64,
    has_ended: bool,
}

/// The rest of a block of objects.
#[derive(Default)]
struct Block {
    resource: Arc<str>,
    rest: Bytes,
    at: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header. `source` is read in pieces of a block: buffer it where its reads are small.
    ///
    /// # Errors
    /// It is no snapshot, one of a newer program, or damaged at its beginning.
    pub fn open(source: R) -> Result<Self, ArchiveError> {
        let mut input = Input::new(source);
        let mut decompressor = Decompressor::new()?;
        let mut keys = None;
        let mut header = input.header(&mut decompressor)?;
        if header.format == FORMAT_WITH_KEYS {
            keys = Some(input.keys(&mut decompressor)?);
            let at = input.at();
            header = input.header(&mut decompressor)?;
            if header.format == FORMAT_WITH_KEYS {
                return Err(damaged(at, "it has keys a second time"));
            }
        }
        if !is_plain_text(&header) {
            return Err(damaged(input.at(), "a text of its header has characters that do not show"));
        }
        let named = header.resources.len();
        let header = header_from_wire(header);
        if header.resources.len() != named {
            return Err(damaged(input.at(), "its header names a resource twice"));
        }
        Ok(Reader {
            stream: input.stream(),
            sound: input.at(),
            input,
            decompressor,
            header,
            keys,
            block: Block::default(),
            last: None,
            found: BTreeMap::new(),
            blocks: 0,
            has_ended: false,
        })
    }

    /// Where the file comes from and what is in it. Believed only after the end was reached.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The cluster's keys, where the file has them. They were checked by themselves.
    pub fn keys(&self) -> Option<&KeyBundle> {
        self.keys.as_ref()
    }

    /// The name of the stream that this is the beginning of, as [`super::stream_of`] gives it.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Bytes of the file up to which it was found sound: the end of the last block that was read whole. A stream that broke can
    /// be taken up again there.
    pub fn sound_bytes(&self) -> u64 {
        self.sound
    }

    /// Bytes of the file that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.input.at()
    }

    /// Reads all that is left, and returns the source at its end.
    ///
    /// # Errors
    /// As of the iteration.
    pub fn verify(mut self) -> Result<(Header, R), ArchiveError> {
        while self.advance()?.is_some() {}
        Ok((self.header, self.input.into_source()))
    }

    /// The next object; `None` once the whole file was found sound.
    fn advance(&mut self) -> Result<Option<Record>, ArchiveError> {
        while self.block.rest.is_empty() {
            let at = self.input.at();
            let (kind, plain) = self.input.block(&mut self.decompressor)?;
            self.sound = self.input.at();
            match kind {
                BlockKind::Header => return Err(damaged(at, "it has a second header")),
                BlockKind::Keys => return Err(damaged(at, "it has keys behind its header")),
                BlockKind::Objects => self.begin_block(at, plain)?,
                BlockKind::Trailer => return self.finish(at, &plain).map(|()| None),
            }
        }
        let at = self.block.at;
        self.take_record().map(Some).map_err(|fault| match fault {
            Fault::Decode(error) => ArchiveError::undecodable(at, error),
            Fault::Content(reason) => damaged(at, reason),
        })
    }

    fn begin_block(&mut self, at: u64, plain: Vec<u8>) -> Result<(), ArchiveError> {
        self.blocks += 1;
        let mut rest = Bytes::from(plain);
        let resource = take_text(&mut rest).map_err(|reason| damaged(at, reason))?;
        let is_name = (1..=PART_BYTES_MAX).contains(&resource.len()) && !resource.contains(['/', '\0']);
        if !is_name || resource.starts_with('.') {
            return Err(damaged(at, "a resource has no valid name"));
        }
        if rest.is_empty() {
            return Err(damaged(at, "a block has no objects"));
        }
        let Some((resource, _)) = self.header.resources.get_key_value(&*resource) else {
            return Err(damaged(at, "it holds a resource that its header does not name"));
        };
        let resource = resource.clone();
        self.block = Block { resource, rest, at };
        Ok(())
    }

    fn take_record(&mut self) -> Result<Record, Fault> {
        let resource = self.block.resource.clone();
        let path = take_text(&mut self.block.rest)?;
        let (namespace, name) = ObjectPath::of(&path).parts();
        let is_namespaced = path.contains('/');
        let key = Key::new(&resource, namespace, name);
        if key.is_err() || is_namespaced == namespace.is_empty() {
            return Err(Fault::Content("an object has no valid path"));
        }
        let path: Arc<str> = Arc::from(path);
        let last = self.last.as_ref().map(|(resource, path)| (&**resource, &**path));
        if last >= Some((&*resource, &*path)) {
            return Err(Fault::Content("objects are not in order, or one is in it twice"));
        }
        let length = take_number(&mut self.block.rest)? as usize;
        if length > OBJECT_BYTES_MAX {
            return Err(Fault::Content("an object is over the limit of size"));
        }
        let record = take(&mut self.block.rest, length)?;
        let object = decode("stored object", record).and_then(object_from_wire).map_err(Fault::Decode)?;
        if object.revision > self.header.revision {
            return Err(Fault::Content("an object is newer than the snapshot"));
        }
        let count = self.found.entry(resource.clone()).or_default();
        count.add(Count { objects: 1, bytes: object.json.len() as u64 });
        self.last = Some((resource.clone(), path.clone()));
        Ok(Record { resource, path, object })
    }

    /// Checks the trailer at `at`, the counts, the digest and the end of the file.
    fn finish(&mut self, at: u64, trailer: &[u8]) -> Result<(), ArchiveError> {
        let trailer = wire::Trailer::decode(trailer).map_err(|error| damaged(at, &error.to_string()))?;
        let mut total = Count::default();
        self.found.values().for_each(|count| total.add(*count));
        let found = wire::Trailer { objects: total.objects, bytes: total.bytes, blocks: self.blocks };
        if trailer != found || self.found != self.header.resources {
            return Err(damaged(at, "it does not hold as many objects as it says"));
        }
        self.input.digest(at)?;
        self.input.end()
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.advance().transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// A fault inside a block whose checksum is right.
enum Fault {
    Decode(DecodeError),
    Content(&'static str),
}

impl From<&'static str> for Fault {
    fn from(reason: &'static str) -> Self {
        Fault::Content(reason)
    }
}

/// Takes `length` bytes off `rest`, without copying them.
fn take(rest: &mut Bytes, length: usize) -> Result<Bytes, &'static str> {
    if length > rest.len() {
        return Err("a part of a block reaches behind its end");
    }
    Ok(rest.split_to(length))
}

fn take_number(rest: &mut Bytes) -> Result<u32, &'static str> {
    let bytes = take(rest, 4)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Takes a text behind its length of two bytes.
fn take_text(rest: &mut Bytes) -> Result<String, &'static str> {
    let length = take(rest, 2)?;
    let text = take(rest, usize::from(u16::from_le_bytes([length[0], length[1]])))?;
    String::from_utf8(text.into()).map_err(|_| "a name is not UTF-8")
}
