//! How the recorder spelled the bodies that it sent: with a space behind each comma and colon. Refusals quote them.

use std::io::{self, Write};

use bytes::Bytes;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Error, Value};

/// JSON with a space behind each comma and colon.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// The bytes of a document, as the recorder sent them.
pub(super) fn spelled(document: &Value) -> Result<Bytes, Error> {
    let mut bytes = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced))?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::spelled;

    #[test]
    fn commas_and_colons_are_followed_by_a_space() {
        let bytes = spelled(&json!({"a": [1, {"b": ","}], "c": {}})).unwrap();
        assert_eq!(bytes, r#"{"a": [1, {"b": ","}], "c": {}}"#);
    }
}
