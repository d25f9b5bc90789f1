//! Compiles the `.proto` files of this crate without protoc.
//!
//! Each family of schemas has its own function, so that options of one (zero-copy bytes, custom options) never leak
//! into another.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    peer()?;
    store()?;
    Ok(())
}

/// The peer protocol: one service of byte frames. Bodies are `Bytes`, so that a received frame is handed on without
/// a copy.
fn peer() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=peer");
    let descriptors = protox::compile(["peer/peer.proto"], ["."])?;
    tonic_prost_build::configure().bytes(".orch.peer.v1").compile_fds(descriptors)?;
    Ok(())
}

/// What the replicated store keeps and says. Bytes are slices of what they were decoded from.
fn store() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=store");
    let descriptors = protox::compile(["store/store.proto"], ["."])?;
    tonic_prost_build::configure().bytes(".orch.store.v1").compile_fds(descriptors)?;
    Ok(())
}
