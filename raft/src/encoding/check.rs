//! Checks an encoded transaction without decoding it: this program must know every field in it.
//!
//! Owns the rule for transactions that may enter the log. `prost` drops unknown fields, so a member that decoded an
//! unknown condition or operation would skip it and diverge. This walk over the bytes refuses every unknown field. It
//! allocates nothing; it runs once where a transaction is proposed, once at the leader that takes it from another
//! member, and once at each follower before the entry counts as received.
//!
//! Invariant: a transaction that passes decodes ([`super::decode_transaction`]) without an error and without dropped
//! fields. Field numbers ascend and only repeated fields repeat: Protobuf merges two copies of a field, and the merged
//! transaction could differ from both.

use super::{DecodeError, LEVEL_NAMED_FIELDS, LEVEL_WRITTEN_AS, misplaced_revision};
use crate::object::takes_revision;

const WIRE_VARINT: u64 = 0;
const WIRE_BYTES: u64 = 2;

/// Bytes of the longest varint.
const VARINT_BYTES_MAX: usize = 10;

type Check = Result<(), DecodeError>;

/// Checks that a program of feature level `reads` knows every field of an encoded transaction.
pub(crate) fn check_transaction(bytes: &[u8], reads: u32) -> Check {
    let checked = transaction(bytes, reads);
    match (&checked, format_of(bytes)) {
        // The unknown field belongs to a newer format: report the format instead.
        (Err(_), Some(format)) if format > reads => {
            Err(DecodeError::newer_format("transaction", format, reads))
        }
        _ => checked,
    }
}

fn transaction(bytes: &[u8], reads: u32) -> Check {
    let mut fields = Walk::over("transaction", bytes, &[3, 4]);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(id)) => proposal_id(id)?,
            (2, Value::Varint(_)) => {}
            (3, Value::Bytes(one)) => condition(one)?,
            (4, Value::Bytes(one)) => operation(one, reads)?,
            (30, Value::Varint(format)) if format <= u64::from(reads) => {}
            (number, _) => return Err(DecodeError::unknown_field("transaction", number)),
        }
    }
    Ok(())
}

/// The format that a transaction states; `None` if it states none or its own fields cannot be read.
fn format_of(bytes: &[u8]) -> Option<u32> {
    let mut fields = Walk::over("transaction", bytes, &[3, 4]);
    while let Ok(Some((number, value))) = fields.next() {
        if let (30, Value::Varint(format)) = (number, value) {
            return u32::try_from(format).ok();
        }
    }
    None
}

fn proposal_id(bytes: &[u8]) -> Check {
    let mut fields = Walk::over("proposal id", bytes, &[]);
    while let Some(field) = fields.next()? {
        match field {
            (1..=3, Value::Varint(_)) => {}
            (number, _) => return Err(DecodeError::unknown_field("proposal id", number)),
        }
    }
    Ok(())
}

fn condition(bytes: &[u8]) -> Check {
    let mut fields = Walk::over("condition", bytes, &[]);
    let mut kinds = 0;
    while let Some(field) = fields.next()? {
        kinds += 1;
        match field {
            (1 | 2, Value::Bytes(named)) => key(named)?,
            (3, Value::Bytes(at)) => key_revision(at)?,
            (4, Value::Bytes(namespace)) => text("condition", namespace)?,
            (number, _) => return Err(DecodeError::unknown_field("condition", number)),
        }
    }
    require_one_kind("condition", kinds)
}

fn operation(bytes: &[u8], reads: u32) -> Check {
    let mut fields = Walk::over("operation", bytes, &[]);
    let mut kinds = 0;
    while let Some(field) = fields.next()? {
        kinds += 1;
        match field {
            (1, Value::Bytes(written)) => put(written, reads)?,
            (2, Value::Bytes(removed)) => key(removed)?,
            (number, _) => return Err(DecodeError::unknown_field("operation", number)),
        }
    }
    require_one_kind("operation", kinds)
}

fn require_one_kind(what: &'static str, kinds: u32) -> Check {
    if kinds == 1 { Ok(()) } else { Err(DecodeError::new(what, format!("it has {kinds} kinds"))) }
}

fn put(bytes: &[u8], reads: u32) -> Check {
    let mut fields = Walk::over("put", bytes, &[]);
    let (mut has_key, mut json, mut revision_at) = (false, [].as_slice(), 0);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(named)) => {
                has_key = true;
                key(named)?;
            }
            (2, Value::Bytes(written)) => json = written,
            (3, Value::Varint(at)) => revision_at = at,
            (4, Value::Bytes(kept)) => index(kept, reads)?,
            (number, _) => return Err(DecodeError::unknown_field("put", number)),
        }
    }
    let has_place = usize::try_from(revision_at).is_ok_and(|at| takes_revision(json, at));
    match (has_key, has_place) {
        (true, true) => Ok(()),
        (false, _) => Err(DecodeError::missing("put", "key")),
        (_, false) => Err(misplaced_revision("put")),
    }
}

fn key(bytes: &[u8]) -> Check {
    let mut fields = Walk::over("key", bytes, &[]);
    while let Some(field) = fields.next()? {
        match field {
            (1 | 2, Value::Bytes(part)) => text("key", part)?,
            (number, _) => return Err(DecodeError::unknown_field("key", number)),
        }
    }
    Ok(())
}

fn key_revision(bytes: &[u8]) -> Check {
    let mut fields = Walk::over("condition", bytes, &[]);
    let mut has_key = false;
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(named)) => {
                has_key = true;
                key(named)?;
            }
            (2, Value::Varint(_)) => {}
            (number, _) => return Err(DecodeError::unknown_field("condition", number)),
        }
    }
    if has_key { Ok(()) } else { Err(DecodeError::missing("condition", "key")) }
}

fn index(bytes: &[u8], reads: u32) -> Check {
    let mut fields = Walk::over("index", bytes, &[2, 3, 4, 30]);
    let (mut by_position, mut by_name) = (false, false);
    while let Some(field) = fields.next()? {
        match field {
            (1 | 4, Value::Bytes(part)) => text("index", part)?,
            (2, Value::Bytes(pair)) => drop(text_pair("label", pair)?),
            (3, Value::Bytes(value)) => {
                by_position = true;
                text("index", value)?;
            }
            (5, Value::Varint(_)) => {}
            (30, Value::Bytes(pair)) if reads >= LEVEL_NAMED_FIELDS => {
                by_name = true;
                let (has_name, has_value) = text_pair("selectable field", pair)?;
                if !has_name || !has_value {
                    return Err(DecodeError::missing("selectable field", "name or value"));
                }
            }
            (31, Value::Bytes(form)) if reads >= LEVEL_WRITTEN_AS => written_as(form)?,
            (number, _) => return Err(DecodeError::unknown_field("index", number)),
        }
    }
    match by_position && by_name {
        true => Err(DecodeError::new("index", "its fields are stored by position and by name")),
        false => Ok(()),
    }
}

fn written_as(bytes: &[u8]) -> Check {
    let mut fields = Walk::over("written form", bytes, &[]);
    let mut has_version = false;
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(version)) => {
                has_version = !version.is_empty();
                text("written form", version)?;
            }
            (2, Value::Varint(_)) => {}
            (number, _) => return Err(DecodeError::unknown_field("written form", number)),
        }
    }
    if has_version { Ok(()) } else { Err(DecodeError::missing("written form", "version")) }
}

/// Checks a message of two strings (a name or key, and a value). Returns for each whether it is present and not empty.
fn text_pair(what: &'static str, bytes: &[u8]) -> Result<(bool, bool), DecodeError> {
    let mut fields = Walk::over(what, bytes, &[]);
    let mut filled = (false, false);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(part)) => {
                filled.0 = !part.is_empty();
                text(what, part)?;
            }
            (2, Value::Bytes(part)) => {
                filled.1 = !part.is_empty();
                text(what, part)?;
            }
            (number, _) => return Err(DecodeError::unknown_field(what, number)),
        }
    }
    Ok(filled)
}

fn text(what: &'static str, bytes: &[u8]) -> Check {
    std::str::from_utf8(bytes).map(drop).map_err(|error| DecodeError::new(what, error))
}

/// The value of one field.
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// Reads the fields of one message in order.
pub(super) struct Walk<'a> {
    what: &'static str,
    rest: &'a [u8],
    /// Field numbers that may occur more than once.
    repeated: &'static [u64],
    last: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn over(what: &'static str, bytes: &'a [u8], repeated: &'static [u64]) -> Self {
        Walk { what, rest: bytes, repeated, last: 0 }
    }

    /// The next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        let again = number == self.last && self.repeated.contains(&number);
        if number <= self.last && !again {
            return Err(DecodeError::new(self.what, format!("field {number} follows field {}", self.last)));
        }
        self.last = number;
        let value = match tag & 7 {
            WIRE_VARINT => Value::Varint(self.varint()?),
            WIRE_BYTES => Value::Bytes(self.bytes()?),
            // No known message has fields of another wire type: a newer program wrote it.
            _ => return Err(DecodeError::unknown_field(self.what, number)),
        };
        Ok(Some((number, value)))
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        let (value, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.cut_short())?;
        self.rest = rest;
        Ok(value)
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        // Fast path: most tags and lengths are one byte long.
        if let Some((first, rest)) = self.rest.split_first().filter(|(first, _)| **first < 0x80) {
            self.rest = rest;
            return Ok(u64::from(*first));
        }
        let mut value = 0u64;
        for (at, byte) in self.rest.iter().copied().enumerate().take(VARINT_BYTES_MAX) {
            let bits = u64::from(byte & 0x7f);
            value |= bits << (7 * at);
            if byte < 0x80 {
                if at + 1 == VARINT_BYTES_MAX && bits > 1 {
                    break;
                }
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(self.cut_short())
    }

    fn cut_short(&self) -> DecodeError {
        DecodeError::new(self.what, "it is cut short, or a number in it is too long")
    }
}

#[cfg(test)]
mod tests;
