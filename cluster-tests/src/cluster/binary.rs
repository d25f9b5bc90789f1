//! Finds the executables that were built with this test.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The executable in this program's target directory: `target/PROFILE/NAME`.
pub fn find(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let folders = own.ancestors().skip(1).take(2); // programs: target/PROFILE, tests: target/PROFILE/deps
    let mut tried = Vec::new();
    for folder in folders {
        let path = folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        tried.push(path.display().to_string());
    }
    bail!(
        "the `{name}` program is not built (looked for {}): `cargo build --bins` with this profile, or `make test`",
        tried.join(" and ")
    )
}
