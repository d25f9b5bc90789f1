//! Compiles the kinds that the scheduler reads and writes into structs, from the `.proto` files of `orch-proto`.

use std::error::Error;
use std::path::Path;

/// Groups and versions, by the folder or file below `proto/schema`.
const READ: [&str; 12] = [
    "apps/v1.proto",
    "authentication/v1.proto",
    "authorization/v1.proto",
    "coordination/v1.proto",
    "core/v1",
    "events/v1.proto",
    "meta/v1/options.proto",
    "meta/v1/status.proto",
    "node/v1.proto",
    "policy/v1.proto",
    "resource/v1",
    "storage/v1",
];

fn main() -> Result<(), Box<dyn Error>> {
    let proto = Path::new("../proto");
    println!("cargo::rerun-if-changed=../proto/schema");
    let mut files = Vec::new();
    for read in READ {
        let path = proto.join("schema").join(read);
        if path.is_dir() {
            let mut inside = std::fs::read_dir(path)?
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<Vec<_>>>()?;
            inside.sort();
            files.extend(inside);
        } else {
            files.push(path);
        }
    }
    let mut descriptors = protox::compile(files, [proto])?;
    descriptors.file.retain(|file| !matches!(file.package(), "schema" | "google.protobuf"));
    // Comments of the sources are for readers of the API; they hold texts that rustdoc would take for links.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    prost_build::Config::new().btree_map(["."]).include_file("objects.rs").compile_fds(descriptors)?;
    Ok(())
}
