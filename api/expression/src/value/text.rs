//! Texts and bytes, borrowed or shared.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text.
#[derive(Clone)]
pub enum Text<'v> {
    /// Of a document or a program.
    Borrowed(&'v str),
    /// Made by an evaluation.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Shared(text.into())
    }
}

/// Bytes.
#[derive(Clone)]
pub enum Blob<'v> {
    /// Of a program.
    Borrowed(&'v [u8]),
    /// Made by an evaluation.
    Shared(Arc<[u8]>),
}

impl Deref for Blob<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Blob::Borrowed(bytes) => bytes,
            Blob::Shared(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Blob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
