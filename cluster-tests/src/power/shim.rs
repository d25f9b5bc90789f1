//! Compiles the preloaded library with the system's C compiler.
//!
//! It is C because Rust code of this house has no `unsafe`, which replacing functions of the C library would need.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("shim.c");

/// The library, compiled into `folder`.
pub fn compile(folder: &Path) -> Result<PathBuf> {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, SOURCE)?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o"]).arg(&library).arg(&source);
    let output = command.args(["-ldl", "-lpthread"]).output().context("start the C compiler cc")?;
    ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(library)
}
