//! The Unix socket of a development node: a file that its owner alone may open.

use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket};

use super::limits;

/// Bytes of a socket's path: `sun_path` has 108 on Linux, including the terminating NUL.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Mode of the file: every process that can open it is the administrator.
const OWNER_ALONE: u32 = 0o600;

/// A Unix socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {path}{hint}")]
pub struct SocketError {
    /// Path of the socket.
    pub path: PathBuf,
    /// The obstacle, in brackets, with a leading space; empty where `source` names it.
    pub hint: &'static str,
    /// The error of the system call.
    pub source: Error,
}

/// Whether a socket can have this path.
pub fn is_socket_path(path: &Path) -> bool {
    path.as_os_str().as_bytes().len() <= SOCKET_PATH_BYTES_MAX
}

/// Listens on a new socket at `path`. The stale socket of a dead process is replaced. A socket on which a process
/// answers, or a file that is no socket, is left alone and is an error.
pub fn bind_socket(path: &Path) -> Result<UnixListener, SocketError> {
    let failed = |hint| move |source| SocketError { path: path.to_owned(), hint, source };
    remove_stale(path).map_err(|(hint, source)| failed(hint)(source))?;
    listen(path).map_err(failed(""))
}

/// Sets the mode between `bind` and `listen`: before `listen`, no process can connect.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(OWNER_ALONE))?;
    socket.listen(limits::BACKLOG)
}

fn remove_stale(path: &Path) -> Result<(), (&'static str, Error)> {
    let plain = |error| ("", error);
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(plain(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err((" (the file there is no socket)", ErrorKind::AlreadyExists.into()));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err((" (another process answers there)", ErrorKind::AddrInUse.into())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(plain)
        }
        Err(error) => Err(plain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_alone_and_one_of_a_dead_process_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orch.sock");
        for _ in 0..2 {
            let listener = bind_socket(&path).unwrap();
            assert_eq!(mode(&path), 0o600);
            std::os::unix::net::UnixStream::connect(&path).unwrap();
            // The file stays, as when a process is killed.
            drop(listener);
            assert!(path.exists());
        }
    }

    #[tokio::test]
    async fn a_socket_of_a_living_process_and_other_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orch.sock");
        let _living = bind_socket(&path).unwrap();
        let error = bind_socket(&path).unwrap_err();
        assert!(error.to_string().ends_with("(another process answers there)"), "{error}");
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        let file = directory.path().join("thesis.tex");
        std::fs::write(&file, "mine").unwrap();
        let error = bind_socket(&file).unwrap_err();
        assert!(error.to_string().ends_with("(the file there is no socket)"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }

    #[test]
    fn a_path_has_at_most_107_bytes() {
        let path = |bytes: usize| PathBuf::from("x".repeat(bytes));
        assert!(is_socket_path(&path(SOCKET_PATH_BYTES_MAX)));
        assert!(!is_socket_path(&path(SOCKET_PATH_BYTES_MAX + 1)));
        let error = UnixSocket::new_stream().unwrap().bind(path(SOCKET_PATH_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "the limit is the system's");
    }
}
