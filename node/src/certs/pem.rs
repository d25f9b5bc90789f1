//! Writes PEM blocks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Characters on a line of a PEM block, of which base64 uses ASCII only.
const LINE_LENGTH: usize = 64;

/// A PEM block of `content` under `label`.
pub(super) fn to_pem(label: &str, content: &[u8]) -> String {
    let mut rest = STANDARD.encode(content);
    let mut text = format!("-----BEGIN {label}-----\n");
    while !rest.is_empty() {
        let behind = rest.split_off(rest.len().min(LINE_LENGTH));
        text.push_str(&rest);
        text.push('\n');
        rest = behind;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
