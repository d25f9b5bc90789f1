//! A bucket of an S3-compatible server.
//!
//!     place         bucket, prefix, endpoint and region as an operator names them
//!     access        the access key, from a file or the environment
//!     exchange      one signed request: its bounds, its attempts, and refusals
//!     upload        a file in parts, compared with what the server then has
//!
//! Owns the acts on the bucket. Requests are signed by `rusty-s3` and sent over the connections of [`crate::egress`],
//! whose rules hold here, too: redirects are not followed, and plain HTTP is for this machine alone. A signature stands in the
//! address of a request, so that no address is logged or told; neither is the access key.
//!
//! Invariant: an object that is not there whole has no name: its parts become an object in one step.

mod access;
mod exchange;
mod place;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod upload;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use bytes::Bytes;
use orch_api::egress::{Reach, Scheme, Url};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, UrlStyle};

use self::access::Access;
pub(crate) use self::access::AccessError;
pub(crate) use self::exchange::ObjectStoreError;
use self::exchange::{Exchange, Fault};
pub use self::place::Place;
pub(crate) use self::upload::Digest;
use crate::egress::{Credentials, Target, Trust};

/// Lists of a thousand names each that are read: a prefix with more is not one of backups.
const LISTS_MAX: usize = 100;

/// Bytes of a part: the memory that an upload takes. Smaller ones are more requests, and servers take none below 5 MiB.
const PART_BYTES: usize = 16 << 20;

/// Parts of an object, by the interface: 156 GiB of such parts, which no state has.
const PARTS_MAX: u16 = 10_000;

/// A place in a bucket, and how it is reached.
pub(crate) struct ObjectStore {
    place: Place,
    bucket: Bucket,
    access: Access,
    exchange: Exchange,
    part_bytes: usize,
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectStore({})", self.place)
    }
}

/// An object in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The part of its key behind the prefix.
    pub(crate) name: String,
    /// Its size.
    pub(crate) bytes: u64,
}

/// The way to a bucket.
pub(crate) struct Options {
    pub(crate) place: Place,
    /// `https://HOST[:PORT]`; `None` for Amazon's own.
    pub(crate) endpoint: Option<String>,
    pub(crate) region: String,
    pub(crate) style: UrlStyle,
    /// The file of the access key; `None` for the environment.
    pub(crate) access_file: Option<PathBuf>,
    pub(crate) trust: Trust,
}

/// A bucket cannot be used as it is named.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionsError {
    #[error(
        "the endpoint {0} is no URL such as https://s3.example.com:9000: it has a scheme and a host, and nothing else"
    )]
    Endpoint(String),
    #[error(
        "the endpoint {0}: plain HTTP is only for this machine, since objects and signatures could be read on the way"
    )]
    Plain(String),
    #[error("the bucket cannot be a part of the host {0}: ask for it by path")]
    Style(String),
    #[error("the region {0} is none: it has letters, digits and '-'")]
    Region(String),
    #[error(transparent)]
    Access(#[from] AccessError),
}

impl ObjectStore {
    /// The bucket that `options` name. The access key is read, and nothing is asked yet.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub(crate) fn new(options: Options) -> Result<ObjectStore, OptionsError> {
        let Options { place, endpoint, region, style, access_file, trust } = options;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if region.is_empty() || !region.chars().all(is_part) {
            return Err(OptionsError::Region(region));
        }
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let malformed = || OptionsError::Endpoint(endpoint.clone());
        let url = Url::parse(&endpoint).map_err(|_| malformed())?;
        if url.target != "/" {
            return Err(malformed());
        }
        let parsed = url.to_string().parse().map_err(|_| malformed())?;
        let unfit = |_| OptionsError::Style(url.host.clone());
        let bucket = Bucket::new(parsed, style, place.bucket().to_owned(), region).map_err(unfit)?;
        let asked = Url::parse(bucket.base_url().as_str()).map_err(|_| malformed())?;
        if asked.scheme == Scheme::Http && !is_this_machine(&asked.host) {
            return Err(OptionsError::Plain(endpoint));
        }
        let access = Access::new(access_file);
        access.read()?;
        let exchange = Exchange::new(Target::new(Reach::of([&asked]), &trust, Credentials::None));
        Ok(ObjectStore { place, bucket, access, exchange, part_bytes: PART_BYTES })
    }

    /// Bucket and prefix.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The objects whose names begin with `begin`, ordered by their names.
    pub(crate) async fn list(&self, begin: &str) -> Result<Vec<Stored>, ObjectStoreError> {
        let (prefix, access) = (self.place.key(begin), self.access.read()?);
        let failed = |fault| ObjectStoreError::new("list", &prefix, fault);
        let (mut found, mut token) = (Vec::new(), None::<String>);
        for _ in 0..LISTS_MAX {
            let mut action = self.bucket.list_objects_v2(Some(&access));
            action.with_prefix(&*prefix);
            if let Some(token) = token.take() {
                action.with_continuation_token(token);
            }
            let answer = self.exchange.call(&action, Bytes::new()).await.map_err(failed)?;
            let list = ListObjectsV2::parse_response(&answer.body);
            let list = list.map_err(|_| failed(Fault::Unreadable("it is no list of objects")))?;
            for object in list.contents {
                // Names were asked for in the encoding of URLs; a prefix has no other character that it changes.
                let key = object.key.replace("%2F", "/").replace("%2f", "/");
                if let Some(name) = self.place.name(&key) {
                    found.push(Stored { name: name.to_owned(), bytes: object.size });
                }
            }
            token = list.next_continuation_token.filter(|token| !token.is_empty());
            if token.is_none() {
                found.sort_by(|one, other| one.name.cmp(&other.name));
                return Ok(found);
            }
        }
        Err(failed(Fault::Unreadable("there are more objects than a place of backups has")))
    }

    /// Removes the object called `name`. One that is not there is removed.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), ObjectStoreError> {
        let (key, access) = (self.place.key(name), self.access.read()?);
        let action = self.bucket.delete_object(Some(&access), &key);
        let removed = self.exchange.call(&action, Bytes::new()).await;
        removed.map(drop).map_err(|fault| ObjectStoreError::new("remove", &key, fault))
    }
}

/// Whether `host` is an address of this machine's loopback, or its name, or a name below it: with the bucket in the host.
fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}
