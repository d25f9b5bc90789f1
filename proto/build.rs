//! Compiles the `.proto` files of this crate without protoc: the kinds into one embedded descriptor set and, apart from
//! it, their comments, the rest into prost and tonic code.
//!
//! Each family of schemas has its own function, so that options of one (zero-copy bytes, custom options) never leak
//! into another.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use protox::prost_reflect::{DescriptorPool, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};

fn main() -> Result<(), Box<dyn Error>> {
    schema()?;
    options()?;
    envelope()?;
    peer()?;
    store()?;
    archive()?;
    kms()?;
    Ok(())
}

/// The resource kinds: only descriptors, with their custom options, read through `orch_proto::descriptors()`.
fn schema() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=schema");
    let files = proto_files(Path::new("schema"))?;
    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_imports(true);
    compiler.open_files(&files)?;
    let target = std::env::var("OUT_DIR")?;
    // Without comments, which nobody reads but the maker of OpenAPI documents.
    std::fs::write(Path::new(&target).join("schema.bin"), compiler.encode_file_descriptor_set())?;
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(descriptions(&compiler.descriptor_pool()).as_bytes())?;
    std::fs::write(Path::new(&target).join("descriptions.gz"), compressed.finish()?)?;
    Ok(())
}

/// The comments above the kinds' messages and fields, in the form that `orch_proto::descriptions()` tells.
fn descriptions(pool: &DescriptorPool) -> String {
    let comments: BTreeMap<String, Comments> =
        pool.files().map(|file| (file.name().to_owned(), comments(&file))).collect();
    let mut lines = Vec::new();
    for message in pool.all_messages().filter(is_of_kinds) {
        let name = message.full_name();
        if let Some(comment) = comment_at(&comments, &message.parent_file(), message.path()) {
            lines.push(format!("{name}\t{comment}\n"));
        }
        add_fields(&comments, &message, name, &mut lines);
    }
    lines.sort_unstable();
    lines.concat()
}

fn is_of_kinds(message: &MessageDescriptor) -> bool {
    let package = message.package_name();
    package != "schema" && !package.starts_with("google.") && !message.is_map_entry()
}

/// Adds the fields of `message`, which stand at `place`; those of an inlined message below it.
fn add_fields(
    comments: &BTreeMap<String, Comments>,
    message: &MessageDescriptor,
    place: &str,
    lines: &mut Vec<String>,
) {
    for field in message.fields() {
        let place = format!("{place}/{}", field.number());
        match field.kind() {
            Kind::Message(inner) if is_inlined(&field) => add_fields(comments, &inner, &place, lines),
            _ => {
                if let Some(comment) = comment_at(comments, &message.parent_file(), field.path()) {
                    lines.push(format!("{place}\t{comment}\n"));
                }
            }
        }
    }
}

fn is_inlined(field: &FieldDescriptor) -> bool {
    let options = field.options();
    let of_field = options.extensions().find(|(extension, _)| extension.full_name() == "schema.field");
    let inline = of_field.and_then(|(_, value)| value.as_message()?.get_field_by_name("inline")?.as_bool());
    inline.unwrap_or(false)
}

/// The comments of one file, by the path of what they stand above.
type Comments = BTreeMap<Vec<i32>, String>;

fn comments(file: &FileDescriptor) -> Comments {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let locations = info.map_or(&[][..], |info| &info.location).iter();
    locations.filter_map(|at| Some((at.path.clone(), one_line(at.leading_comments.as_ref()?)))).collect()
}

fn comment_at<'a>(
    comments: &'a BTreeMap<String, Comments>,
    file: &FileDescriptor,
    path: &[i32],
) -> Option<&'a String> {
    comments.get(file.name())?.get(path)
}

/// A comment without its line breaks.
fn one_line(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The custom options, as structs by which the schema crate reads them.
fn options() -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(["schema/options.proto"], ["."])?;
    let descriptors = prost_types::FileDescriptorSet {
        file: descriptors.file.into_iter().filter(|file| file.package() == "schema").collect(),
    };
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}

/// The envelope of the Protobuf representation of an object.
fn envelope() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=envelope");
    let descriptors = protox::compile(["envelope/envelope.proto"], ["."])?;
    tonic_prost_build::configure().bytes(".orch.envelope").compile_fds(descriptors)?;
    Ok(())
}

/// The peer protocol: one service of byte frames. Bodies are `Bytes`, so that a received frame is passed on without a
/// copy.
fn peer() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=peer");
    let descriptors = protox::compile(["peer/peer.proto"], ["."])?;
    tonic_prost_build::configure().bytes(".orch.peer.v1").compile_fds(descriptors)?;
    Ok(())
}

/// Messages of the replicated store. Their bytes fields are slices of the decoded buffer.
fn store() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=store");
    let descriptors = protox::compile(["store/store.proto"], ["."])?;
    let one_at_a_time =
        "#[expect(clippy::large_enum_variant, reason = \"it is made, encoded and gone: none is kept\")]";
    tonic_prost_build::configure()
        .bytes(".orch.store.v1")
        .type_attribute(".orch.store.v1.ControlResponse.kind", one_at_a_time)
        .type_attribute(".orch.store.v1.SnapshotFrame.kind", one_at_a_time)
        .compile_fds(descriptors)?;
    Ok(())
}

/// Header and trailer of a snapshot file, and the cluster's keys. Messages that hold a key are not printed: `src/archive.rs`.
fn archive() -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(["store/archive.proto"], ["."])?;
    tonic_prost_build::configure().skip_debug([".orch.archive.v1.KeyFile"]).compile_fds(descriptors)?;
    Ok(())
}

/// The protocol of KMS plugins, and data keys on a disk. Messages that hold a data key are not printed: `src/kms.rs`.
fn kms() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=kms");
    let descriptors = protox::compile(["kms/v2.proto", "kms/sealed.proto"], ["."])?;
    tonic_prost_build::configure()
        .btree_map(".")
        .skip_debug([".v2.DecryptResponse", ".v2.EncryptRequest"])
        .compile_fds(descriptors)?;
    Ok(())
}

/// Every `.proto` file under `folder`, in a fixed order.
fn proto_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(proto_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
