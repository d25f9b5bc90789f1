//! A file becomes an object, in parts.
//!
//! Owns the order: the parts, then the object, then its bytes read again and compared. A failure before the object takes the parts
//! away. A process that is killed leaves them; they are no object, and the bucket's own rule for unfinished uploads
//! removes them. The memory for it is one part.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rusty_s3::Credentials;
use rusty_s3::actions::CreateMultipartUpload;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::exchange::{Fault, ObjectStoreError, Receive};
use super::{ObjectStore, PARTS_MAX};

/// Longest removal of parts: a node that stops has no more time.
const ABORT_MAX: Duration = Duration::from_secs(60);

/// SHA-256 and length of a file or an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) sha256: [u8; 32],
    pub(crate) bytes: u64,
}

impl ObjectStore {
    /// Makes the file at `path` the object called `name`, and compares it with what the server then gives back. The file must be
    /// that of `expected`: one that changed becomes no object. Once `given_up`, its parts are taken away.
    ///
    /// # Errors
    /// It is not known to be there whole. Where the server could not be asked for it, it may be there: [`ObjectStore::holds`]
    /// tells later.
    pub(crate) async fn upload(
        &self,
        name: &str,
        path: &Path,
        expected: &Digest,
        given_up: &CancellationToken,
    ) -> Result<(), ObjectStoreError> {
        let (key, access) = (self.place.key(name), self.access.read()?);
        let failed = |act, fault| ObjectStoreError::new(act, &key, fault);
        let mut parts = Parts::open(path, self.part_bytes).await?;
        if parts.length.div_ceil(self.part_bytes as u64) > u64::from(PARTS_MAX) {
            return Err(failed("upload", Fault::TooLarge(parts.length)));
        }
        let create = self.bucket.create_multipart_upload(Some(&access), &key);
        let created = self.exchange.call(&create, Bytes::new()).await;
        let created = created.map_err(|fault| failed("begin to upload", fault))?;
        let id = CreateMultipartUpload::parse_response(&created.body)
            .map_err(|_| failed("begin to upload", Fault::Unreadable("it names no upload")))?;
        let id = id.upload_id();
        let sending = async {
            let etags = self.send_parts(&mut parts, &access, &key, id).await?;
            match parts.digest() == *expected {
                true => Ok(etags),
                false => Err(failed("upload", Fault::Changed)),
            }
        };
        let sent = Box::pin(given_up.run_until_cancelled(sending)).await;
        let completed = match sent.unwrap_or_else(|| Err(failed("upload", Fault::GivenUp))) {
            Ok(etags) => self.complete(&etags, &access, &key, id).await,
            Err(error) => {
                self.abort(&access, &key, id).await;
                return Err(error);
            }
        };
        match (completed, self.holds(name, expected).await) {
            // An answer that was lost may have been one of success.
            (_, Ok(true)) => Ok(()),
            (Ok(()), Ok(false)) => {
                self.remove(name).await?;
                Err(failed("upload", Fault::Differs))
            }
            (Ok(()), Err(error)) => Err(error),
            (Err(fault), _) => {
                self.abort(&access, &key, id).await;
                Err(failed("finish the upload of", fault))
            }
        }
    }

    /// Whether the object called `name` is there and is that of `expected`. All of it is read.
    pub(crate) async fn holds(&self, name: &str, expected: &Digest) -> Result<bool, ObjectStoreError> {
        let (key, access) = (self.place.key(name), self.access.read()?);
        let action = self.bucket.get_object(Some(&access), &key);
        let mut found = Hashing { hash: Sha256::new(), bytes: 0, most: expected.bytes };
        match self.exchange.read(&action, &mut found).await {
            Ok(()) => {
                let sha256 = found.hash.finalize().into();
                Ok(Digest { sha256, bytes: found.bytes } == *expected)
            }
            Err(Fault::Refused { status: http::StatusCode::NOT_FOUND, .. }) => Ok(false),
            Err(fault) => Err(ObjectStoreError::new("read again", &key, fault)),
        }
    }

    /// Sends every part, one after the other, and returns their tags.
    async fn send_parts(
        &self,
        parts: &mut Parts,
        access: &Credentials,
        key: &str,
        id: &str,
    ) -> Result<Vec<String>, ObjectStoreError> {
        let mut etags = Vec::new();
        for number in 1..=PARTS_MAX {
            let Some(part) = parts.next().await? else { break };
            let action = self.bucket.upload_part(Some(access), key, number, id);
            let sent = self.exchange.call(&action, part).await;
            let sent = sent.map_err(|fault| ObjectStoreError::new("upload a part of", key, fault))?;
            if sent.etag.is_empty() {
                let fault = Fault::Unreadable("it has no tag of the part");
                return Err(ObjectStoreError::new("upload a part of", key, fault));
            }
            etags.push(sent.etag);
        }
        Ok(etags)
    }

    /// Makes the parts an object.
    async fn complete(
        &self,
        etags: &[String],
        access: &Credentials,
        key: &str,
        id: &str,
    ) -> Result<(), Fault> {
        let tags = || etags.iter().map(String::as_str);
        let body = self.bucket.complete_multipart_upload(Some(access), key, id, tags()).body();
        let action = self.bucket.complete_multipart_upload(Some(access), key, id, tags());
        self.exchange.call(&action, Bytes::from(body)).await.map(drop)
    }

    /// Takes the parts of an upload away that failed. A failure of that is told: they cost space.
    async fn abort(&self, access: &Credentials, key: &str, id: &str) {
        let action = self.bucket.abort_multipart_upload(Some(access), key, id);
        let aborted = timeout(ABORT_MAX, self.exchange.call(&action, Bytes::new())).await;
        if let Err(fault) = aborted.unwrap_or(Err(Fault::Timeout)) {
            let place = &self.place;
            tracing::warn!(%fault, %place, key, "the parts of a failed upload stay in the bucket");
        }
    }
}

/// A file that is read in parts.
struct Parts {
    file: Option<File>,
    length: u64,
    part_bytes: usize,
    hash: Sha256,
    read: u64,
    parts: u32,
}

impl Parts {
    async fn open(path: &Path, part_bytes: usize) -> std::io::Result<Parts> {
        let path = path.to_owned();
        let opened = spawn_blocking(move || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            std::io::Result::Ok((file, length))
        });
        let (file, length) = opened.await.map_err(std::io::Error::other)??;
        Ok(Parts { file: Some(file), length, part_bytes, hash: Sha256::new(), read: 0, parts: 0 })
    }

    /// The next part; an empty file has one, which is empty. Read and hashed beside the threads of requests.
    async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let Some(mut file) = self.file.take() else { return Ok(None) };
        let (most, mut hash) = (self.part_bytes, self.hash.clone());
        let read = spawn_blocking(move || {
            let mut part = Vec::with_capacity(most);
            (&mut file).take(most as u64).read_to_end(&mut part)?;
            hash.update(&part);
            std::io::Result::Ok((file, hash, part))
        });
        let (file, hash, part) = read.await.map_err(std::io::Error::other)??;
        if part.is_empty() && self.parts > 0 {
            return Ok(None);
        }
        (self.file, self.hash, self.parts) = (Some(file), hash, self.parts + 1);
        self.read += part.len() as u64;
        Ok(Some(Bytes::from(part)))
    }

    /// The digest of what was read.
    fn digest(&self) -> Digest {
        Digest { sha256: self.hash.clone().finalize().into(), bytes: self.read }
    }
}

/// The digest of an object while it comes.
struct Hashing {
    hash: Sha256,
    bytes: u64,
    most: u64,
}

impl Receive for Hashing {
    fn begin(&mut self) {
        (self.hash, self.bytes) = (Sha256::new(), 0);
    }

    fn take(&mut self, piece: &[u8]) -> bool {
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
        self.bytes <= self.most
    }
}
