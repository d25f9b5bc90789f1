//! Every type that crosses a process or a disk.
//!
//! Owns the `.proto` files of the resource kinds (with options for what the wire format cannot express), the messages
//! of the replicated store and of the peer protocol, and the product's names. It holds no logic: no defaulting, no
//! validation, no network.

pub mod archive;
pub mod brand;
pub mod environment;
pub mod kms;
pub mod version;

/// The envelope of the Protobuf representation of an object: `Unknown` and `TypeMeta`.
#[allow(missing_docs, reason = "generated; the comments stand in envelope.proto")]
pub mod envelope {
    tonic::include_proto!("orch.envelope");
}

/// The custom options of the kinds in [`descriptors`].
#[allow(missing_docs, reason = "generated; the comments stand in options.proto")]
pub mod options {
    include!(concat!(env!("OUT_DIR"), "/schema.rs"));
}

/// The peer protocol: frames of bytes between members.
#[allow(missing_docs, clippy::too_many_lines, reason = "generated; the comments stand in peer.proto")]
pub mod peer {
    tonic::include_proto!("orch.peer.v1");
}

/// Messages that the replicated store keeps on disk and that its members exchange.
#[allow(missing_docs, clippy::too_many_lines, reason = "generated; the comments stand in store.proto")]
pub mod store {
    tonic::include_proto!("orch.store.v1");
}

pub use brand::Brand;

/// The `.proto` files of all kinds as one encoded `FileDescriptorSet`, custom options included.
pub fn descriptors() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/schema.bin"))
}

/// The descriptions of the kinds' messages and fields, which are the comments above them in the `.proto` files: a text,
/// compressed with gzip, with one line for each. A line is a name, a tab and the description. The name of a message is
/// its full name (`core.v1.Pod`); a field has its number behind that of its message (`core.v1.Pod/2`), and the numbers
/// of the inlined messages around it between them (`core.v1.Volume/2/1`).
pub fn descriptions() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.gz"))
}
