//! The protocol of KMS plugins, version 2, and the stored form of data keys.
//!
//! Owns the generated messages and the `Debug` of those that hold a data key, which shows its length alone.

use std::fmt;

/// The protocol of KMS plugins: `KeyManagementService`.
#[allow(missing_docs, clippy::too_many_lines, reason = "generated; the comments stand in v2.proto")]
pub mod v2 {
    tonic::include_proto!("v2");
}

/// Data keys on a disk.
#[allow(missing_docs, reason = "generated; the comments stand in sealed.proto")]
pub mod stored {
    tonic::include_proto!("orch.kms.v1");
}

impl fmt::Debug for v2::EncryptRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.plaintext.len();
        f.debug_struct("EncryptRequest").field("bytes", &bytes).field("uid", &self.uid).finish()
    }
}

impl fmt::Debug for v2::DecryptResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecryptResponse").field("bytes", &self.plaintext.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_show_the_key_that_they_hold() {
        let request = v2::EncryptRequest { plaintext: vec![77; 3], uid: "u".to_owned() };
        assert_eq!(format!("{request:?}"), r#"EncryptRequest { bytes: 3, uid: "u" }"#);
        let response = v2::DecryptResponse { plaintext: vec![77; 3] };
        assert_eq!(format!("{response:?}"), "DecryptResponse { bytes: 3 }");
    }
}
