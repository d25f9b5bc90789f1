//! PEM blocks: writing, and the one reason for texts that are refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Characters on a line of a PEM block, of which base64 uses ASCII only.
const LINE_LENGTH: usize = 64;

/// Reason of a text that the PEM parser refuses. The parser's own error shows the line, of a key file too, as a list of bytes.
pub(crate) const MALFORMED_PEM: &str = "a PEM block is cut off or damaged";

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
