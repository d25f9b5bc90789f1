//! The messages of a snapshot file: header, trailer, and the cluster's keys.
//!
//! Owns the generated messages and the `Debug` of the one that holds keys, which shows name and length alone.

use std::fmt;

pub use self::messages::{Header, KeyBundle, KeyFile, Member, Resource, Trailer};

#[allow(missing_docs, reason = "generated; the comments stand in archive.proto")]
mod messages {
    tonic::include_proto!("orch.archive.v1");
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile").field("name", &self.name).field("bytes", &self.content.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_does_not_show_the_keys_that_it_holds() {
        let file = KeyFile { name: "ca.key".to_owned(), content: vec![77; 3] };
        let shown = format!("{:?}", KeyBundle { files: vec![file] });
        assert_eq!(shown, r#"KeyBundle { files: [KeyFile { name: "ca.key", bytes: 3 }] }"#);
    }
}
