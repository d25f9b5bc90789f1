//! Waits until no other cluster runs on this machine's target directory, and keeps others waiting.

use std::fs::File;

use anyhow::{Context, Result};

use super::binary;

/// The right to run the only cluster. Dropping it lets the next one start.
#[derive(Debug)]
pub struct Alone {
    _lock: File,
}

/// Waits for the right to run the only cluster: two would compete for the cores and cause elections by slowness.
///
/// # Errors
/// The programs are not built, or the lock cannot be made beside them.
pub async fn alone() -> Result<Alone> {
    let path = binary::find("orch")?.with_file_name("orch-processes.lock");
    let locked = tokio::task::spawn_blocking(move || -> Result<File> {
        let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        file.lock()?;
        Ok(file)
    });
    Ok(Alone { _lock: locked.await?? })
}
