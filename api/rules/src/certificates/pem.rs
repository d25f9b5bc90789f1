//! PEM blocks, read as leniently as the reference reads them.
//!
//! Owns the search for a block: text before a block is skipped, and a block that is malformed is skipped, too. Work is
//! linear in the text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// One PEM block.
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
            let from = begin(rest)?;
            let body = &rest[from..];
            let (line, after) = body.split_once('\n').unwrap_or((body, ""));
            if let Some(label) = line.trim_end().strip_prefix(BEGIN).and_then(|end| end.strip_suffix(DASHES))
                && let Some(found) = block(label, after)
            {
                return Some(found);
            }
            rest = after;
        }
    }
}

/// Where the first line that begins a block starts.
fn begin(text: &str) -> Option<usize> {
    if text.starts_with(BEGIN) {
        return Some(0);
    }
    text.find("\n-----BEGIN ").map(|at| at + 1)
}

/// The block called `label` whose lines begin at `text`, up to its end line.
fn block<'t>(label: &str, text: &'t str) -> Option<(PemBlock, &'t str)> {
    let mut has_headers = false;
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n')
        && line.contains(':')
    {
        (has_headers, rest) = (true, after);
    }
    let end = match rest.starts_with(END) {
        true => 0,
        false => rest.find("\n-----END ")? + 1,
    };
    let (body, end_line) = rest.split_at(end);
    let (line, after) = end_line.split_once('\n').unwrap_or((end_line, ""));
    if line.trim_end().strip_prefix(END)?.strip_suffix(DASHES)? != label {
        return None;
    }
    let compact: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let content = STANDARD.decode(compact).ok()?;
    Some((PemBlock { label: label.to_owned(), has_headers, content }, after))
}
