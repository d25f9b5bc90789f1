//! The Protobuf wire format: tags, varints and lengths.
//!
//! Owns the grammar of the bytes. It knows no tables.

use crate::json::DecodeError;

/// A value as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raw<'a> {
    /// An integer, a boolean.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes. No schema has such a field: they are skipped.
    Fixed32,
    /// A string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// A message that is read from the front.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next field: its number and value. `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Raw<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number > 0);
        let number = number.ok_or_else(|| broken("illegal tag"))?;
        let value = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| broken("illegal length"))?;
                Raw::Bytes(self.take(len)?)
            }
            5 => {
                self.array::<4>()?;
                Raw::Fixed32
            }
            other => return Err(broken(&format!("illegal wire type {other}"))),
        };
        Ok(Some((number, value)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for at in 0..10 {
            let byte = *self.rest.get(at).ok_or_else(truncated)?;
            value |=
                u64::from(byte & 0x7F).checked_shl(u32::try_from(at * 7).unwrap_or(u32::MAX)).unwrap_or(0);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(broken("a number with more than ten bytes"))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| truncated())
    }
}

/// The error of a malformed message.
pub(super) fn broken(problem: &str) -> DecodeError {
    DecodeError::Protobuf(problem.to_owned())
}

fn truncated() -> DecodeError {
    broken("unexpected end")
}

/// Writes `value` in groups of seven bits.
pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Bytes of the varint of `value`.
pub fn varint_len(value: usize) -> usize {
    let bits = (usize::BITS - value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// Offset behind the first field of `message`, if that is field `number` and length-delimited.
pub fn message_field_end(number: u32, message: &[u8]) -> Option<usize> {
    let mut reader = Reader { rest: message };
    match reader.field() {
        Ok(Some((found, Raw::Bytes(_)))) if found == number => Some(message.len() - reader.rest.len()),
        _ => None,
    }
}

/// Writes the tag of an integer field and its value; negative ones take ten bytes.
pub(super) fn write_integer(number: u32, value: i64, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3, out);
    write_varint(u64::from_le_bytes(value.to_le_bytes()), out);
}

/// Writes the tag of a field of eight bytes and its value.
pub(super) fn write_double(number: u32, value: f64, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes the tag and the length of a length-delimited field.
pub fn write_field_open(number: u32, len: usize, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 2, out);
    write_varint(len as u64, out);
}

/// Writes the tag of a length-delimited field, the length and the bytes.
pub(super) fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_field_open(number, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Writes field `number`: its tag, its length, and the message that `write` appends.
pub(super) fn write_nested(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_varint(u64::from(number) << 3 | 2, out);
    let start = out.len();
    // Most messages are short: one byte is reserved for the length, and moved only where that is too small.
    out.push(0);
    write(out);
    let len = out.len() - start - 1;
    if len < 0x80 {
        out[start] = len.to_le_bytes()[0];
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    write_varint(len as u64, &mut prefix);
    out.splice(start..=start, prefix);
}
