//! Compiles the `.proto` files of this crate without protoc: the kinds into one embedded descriptor set, the rest
//! into prost and tonic code.
//!
//! Each family of schemas has its own function, so that options of one (zero-copy bytes, custom options) never leak
//! into another.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    schema()?;
    options()?;
    envelope()?;
    peer()?;
    store()?;
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
    let target = Path::new(&std::env::var("OUT_DIR")?).join("schema.bin");
    std::fs::write(target, compiler.encode_file_descriptor_set())?;
    Ok(())
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
