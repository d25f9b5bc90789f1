//! Reads files that an operator names and that are read again while a program runs, for both programs.
//!
//! Owns the bounds of such a reading: a regular file alone is read, and no more of it than its reader has use for. A pipe
//! without a writer would hold its reader for ever, and with it every later change, a revocation among them; a device has
//! no end. Owns, too, where such work is done: beside the tasks of the runtime, which would wait for a slow disk or a
//! large list.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::secret::Secret;

/// Bytes of a file of certificates, keys or tokens. The largest in use are tables of tokens and bundles of authorities, of
/// some hundred kilobytes.
pub const MATERIAL_BYTES_MAX: u64 = 16 << 20;

/// Bytes of a file with one bearer token: servers take headers of 8 KiB.
pub const TOKEN_BYTES_MAX: u64 = 16 << 10;

/// Bytes of a file of revocation lists: a million serial numbers. Reading takes eight times as much memory.
pub const LIST_BYTES_MAX: u64 = 32 << 20;

/// Reads the file at `path`.
///
/// # Errors
/// It cannot be read, is no regular file, or has more than `most` bytes ([`ErrorKind::FileTooLarge`]).
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    // Without a writer, opening a pipe would wait for one.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(|_| Error::from(ErrorKind::Unsupported))?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    bounded(&file, most)
}

fn bounded(file: &File, most: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut content)?;
    match u64::try_from(content.len()) {
        Ok(length) if length <= most => Ok(content),
        _ => Err(Error::new(ErrorKind::FileTooLarge, format!("it is larger than {most} bytes"))),
    }
}

/// The same for a file of text.
///
/// # Errors
/// As of [`read`], or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, Error> {
    let not_text = |_| Error::new(ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(read(path, most)?).map_err(not_text)
}

/// Reads a file with a token or a key, on a thread that may wait for its disk: for tasks that read it before a request.
///
/// # Errors
/// As of [`read_text`]; [`ErrorKind::Interrupted`] at the end of the runtime.
pub async fn read_secret(path: &Path, most: u64) -> Result<Secret, Error> {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || read_text(&path, most).map(Secret::new));
    reading.await.unwrap_or_else(|_| Err(ErrorKind::Interrupted.into()))
}

/// Does `work` that reads files, while other threads take over the tasks of this one.
pub fn beside_tasks<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // Tests with one thread, and work without a runtime.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_folders_and_large_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "12345").unwrap();
        assert_eq!(read(&path("file"), 5).unwrap(), b"12345");
        assert_eq!(read(&path("file"), 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        assert_eq!(read_text(&path("link"), 5).unwrap(), "12345");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for refused in [path("pipe"), "/dev/zero".into(), folder.path().to_owned()] {
            assert_eq!(read(&refused, 5).unwrap_err().kind(), ErrorKind::InvalidInput, "{refused:?}");
        }
        assert_eq!(read(&path("none"), 5).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_secret_is_read_within_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_secret(&path, 5).await.unwrap().expose(), "12345");
        assert_eq!(read_secret(&path, 4).await.unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_secret(folder.path(), 5).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn tasks_go_on_beside_a_reading() {
        let (answer, told) = std::sync::mpsc::channel();
        let reader = tokio::spawn(async move {
            let other = tokio::spawn(async move { answer.send(()).unwrap() });
            // The only worker would wait for ever for a task of its own.
            beside_tasks(|| told.recv().unwrap());
            other.await.unwrap();
        });
        reader.await.unwrap();
    }
}
