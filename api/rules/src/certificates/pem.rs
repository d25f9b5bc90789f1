//! PEM blocks, read as leniently as the reference reads them.
//!
//! Owns the search for a block: text before a block is skipped, and a block that is malformed is skipped, too. An end is
//! looked for first, and from there back its begin: a client may send any number of begins, and work stays linear.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "\n-----END ";
const DASHES: &str = "-----";

/// A PEM block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemBlock {
    /// The text behind `BEGIN`: `CERTIFICATE`.
    pub label: String,
    /// Lines `Key: value` precede the content.
    pub has_headers: bool,
    /// The decoded content.
    pub content: Vec<u8>,
}

impl PemBlock {
    /// The first well-formed block of `text`, and the text behind it.
    pub fn first(text: &str) -> Option<(PemBlock, &str)> {
        let mut rest = text;
        loop {
            let (before, behind) = rest.split_once(END)?;
            let (end_label, after) = behind.split_once('\n').unwrap_or((behind, ""));
            let end_label = end_label.trim_end().strip_suffix(DASHES);
            let begin = before.rfind(BEGIN).filter(|&at| at == 0 || before[..at].ends_with('\n'));
            let block = begin.map(|at| &before[at + BEGIN.len()..]).and_then(PemBlock::between);
            match block {
                Some(block) if end_label == Some(block.label.as_str()) => return Some((block, after)),
                _ => rest = behind,
            }
        }
    }

    /// The block between `BEGIN ` and the line of its end.
    fn between(text: &str) -> Option<PemBlock> {
        let (label, mut body) = text.split_once('\n').unwrap_or((text, ""));
        let label = label.trim_end().strip_suffix(DASHES)?;
        let mut has_headers = false;
        while let Some((line, rest)) = body.split_once('\n')
            && line.contains(':')
        {
            (has_headers, body) = (true, rest);
        }
        let compact: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let content = STANDARD.decode(compact).ok()?;
        Some(PemBlock { label: label.to_owned(), has_headers, content })
    }
}
