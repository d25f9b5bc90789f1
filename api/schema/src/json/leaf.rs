//! Leaves in the JSON decoder: scalars in canonical form, untyped content, skipped values, and the paths of errors.

use std::borrow::Cow;

use super::decode::{Decoder, Step};
use super::error::{DecodeError, StrictError};
use super::scalar;
use crate::budget::count_step;
use crate::excerpt::part;
use crate::instant::{self, Precision};
use crate::quantity;
use crate::types::Scalar;
use crate::value::Value;

/// Unknown and duplicate fields that are reported; the reference stops there too.
const STRICT_ERRORS_MAX: usize = 100;

/// Bytes of a path in a message, and of each of its steps. Real paths are far shorter; keys may be as long as the body,
/// and every error below a key repeats it.
const PATH_BYTES_MAX: usize = 1024;

/// How a path shows keys of maps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// `labels.app`
    Plain,
    /// `labels[app]`
    Bracketed,
}

/// `name` as the next step of `path`.
fn with_dot(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!(".{name}") }
}

impl<'a> Decoder<'_, 'a> {
    /// Reads a leaf that is not null. The result is null for a time that means unset.
    pub(super) fn scalar(&mut self, scalar: &Scalar) -> Result<Value, DecodeError> {
        Ok(match scalar {
            Scalar::String(_) => Value::from(self.text("a string")?),
            Scalar::Bool => Value::Bool(self.boolean()?),
            Scalar::Int32 => Value::from(self.integer::<i32>("a 32-bit integer")?),
            Scalar::Int64 => Value::from(self.integer::<i64>("a 64-bit integer")?),
            Scalar::Double => {
                let text = self.number("a number")?;
                let float = text.parse().ok().and_then(scalar::float);
                float.ok_or_else(|| self.form(format!("the number {} is out of range", part(text))))?
            }
            Scalar::Bytes => {
                let text = self.text("a base64 string")?;
                let canonical = scalar::bytes(&text);
                Value::from(canonical.ok_or_else(|| self.form("illegal base64 data".to_owned()))?)
            }
            Scalar::Time => self.time(Precision::Seconds)?,
            Scalar::MicroTime => self.time(Precision::Micros)?,
            Scalar::Quantity => {
                let text = match self.reader.peek() {
                    Some(b'"') => self.reader.string()?,
                    _ => Cow::Borrowed(self.number("a quantity")?),
                };
                Value::from(quantity::canonical(text.trim())?)
            }
            Scalar::IntOrString => match self.reader.peek() {
                Some(b'"') => Value::from(self.reader.string()?),
                _ => Value::from(self.integer::<i32>("a 32-bit integer or a string")?),
            },
        })
    }

    fn time(&mut self, precision: Precision) -> Result<Value, DecodeError> {
        let text = self.text("a time")?;
        let layout = match precision {
            Precision::Seconds => "2006-01-02T15:04:05Z",
            Precision::Micros => "2006-01-02T15:04:05.000000Z",
        };
        let canonical = instant::canonical(&text, precision).ok_or_else(|| {
            self.form(format!("cannot parse the time {:?}: it must look like {layout}", part(&text)))
        })?;
        Ok(Value::from(canonical))
    }

    fn boolean(&mut self) -> Result<bool, DecodeError> {
        let is_true = match self.reader.peek() {
            Some(b't') => true,
            Some(b'f') => false,
            _ => return Err(self.mismatch("a boolean")),
        };
        self.reader.literal(if is_true { "true" } else { "false" })?;
        Ok(is_true)
    }

    fn integer<T: std::str::FromStr>(&mut self, expected: &'static str) -> Result<T, DecodeError> {
        let text = self.number(expected)?;
        text.parse().map_err(|_| DecodeError::Type {
            path: self.place(None, Keys::Plain),
            expected,
            found: format!("the number {}", part(text)),
        })
    }

    fn number(&mut self, expected: &'static str) -> Result<&'a str, DecodeError> {
        match self.reader.peek() {
            Some(b'-' | b'0'..=b'9') => self.reader.number(),
            _ => Err(self.mismatch(expected)),
        }
    }

    pub(super) fn text(&mut self, expected: &'static str) -> Result<Cow<'a, str>, DecodeError> {
        match self.reader.peek() {
            Some(b'"') => self.reader.string(),
            _ => Err(self.mismatch(expected)),
        }
    }

    /// Takes `null` if it is next.
    pub(super) fn null(&mut self) -> Result<bool, DecodeError> {
        let is_null = self.reader.peek() == Some(b'n');
        if is_null {
            self.reader.literal("null")?;
        }
        Ok(is_null)
    }

    /// Reads content that has no declared type.
    pub(super) fn untyped(&mut self) -> Result<Value, DecodeError> {
        match self.reader.peek() {
            Some(b'{') => Ok(Value::Object(self.entries(Self::untyped)?)),
            Some(b'[') => self.items(Self::untyped),
            Some(b'"') => Ok(Value::from(self.reader.string()?)),
            Some(b't' | b'f') => Ok(Value::Bool(self.boolean()?)),
            Some(b'n') => self.reader.literal("null").map(|()| Value::Null),
            Some(b'-' | b'0'..=b'9') => {
                let text = self.reader.number()?;
                scalar::number(text)
                    .ok_or_else(|| self.form(format!("the number {} is out of range", part(text))))
            }
            _ => Err(self.reader.unexpected("looking for the start of a value")),
        }
    }

    /// Skips a value; only its grammar and its depth are checked.
    pub(super) fn skip(&mut self) -> Result<(), DecodeError> {
        match self.reader.peek() {
            Some(open @ (b'{' | b'[')) => self.skip_members(open),
            Some(b'"') => self.reader.string().map(drop),
            Some(b't') => self.reader.literal("true"),
            Some(b'f') => self.reader.literal("false"),
            Some(b'n') => self.reader.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.reader.number().map(drop),
            _ => Err(self.reader.unexpected("looking for the start of a value")),
        }
    }

    fn skip_members(&mut self, open: u8) -> Result<(), DecodeError> {
        let close = if open == b'{' { b'}' } else { b']' };
        self.open(open, "a value")?;
        let mut more = !self.is_closed(close);
        while more {
            if open == b'{' {
                self.key()?;
            } else if !count_step() {
                return Err(DecodeError::OverBudget);
            }
            self.skip()?;
            more = self.reader.has_more(close)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Takes the opening bracket of an object or a list.
    pub(super) fn open(&mut self, bracket: u8, expected: &'static str) -> Result<(), DecodeError> {
        if self.reader.peek() != Some(bracket) {
            return Err(self.mismatch(expected));
        }
        if self.depth == self.limits.depth_max {
            return Err(DecodeError::TooDeep { depth_max: self.limits.depth_max });
        }
        self.depth += 1;
        self.reader.bump();
        Ok(())
    }

    /// Takes the closing bracket if it follows at once.
    pub(super) fn is_closed(&mut self, bracket: u8) -> bool {
        let is_closed = self.reader.peek() == Some(bracket);
        if is_closed {
            self.reader.bump();
        }
        is_closed
    }

    /// Takes a member's name and the colon.
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        if self.reader.peek() != Some(b'"') {
            return Err(self.reader.unexpected("looking for the start of an object key"));
        }
        if !count_step() {
            return Err(DecodeError::OverBudget);
        }
        let key = self.reader.string()?;
        self.reader.expect(b':', "after an object key")?;
        Ok(key)
    }

    /// Leaves the map value that was entered last, and returns its key.
    pub(super) fn leave_key(&mut self) -> Cow<'a, str> {
        match self.path.pop() {
            Some(Step::Key(key)) => key,
            Some(Step::Field(_) | Step::Index(_)) | None => unreachable!("a key was entered last"),
        }
    }

    /// Records a strict error of the member `name` of the current object, each once.
    pub(super) fn report(&mut self, kind: fn(String) -> StrictError, name: &str) {
        if self.strict.len() >= STRICT_ERRORS_MAX {
            return;
        }
        let mut error = kind(self.place(Some(name), Keys::Plain));
        if let StrictError::UnknownInMetadata(path) = &mut error {
            *path = self.place(Some(name), Keys::Bracketed);
        }
        // few: at most a hundred are kept.
        if !self.strict.contains(&error) {
            self.strict.push(error);
        }
    }

    fn form(&self, problem: String) -> DecodeError {
        DecodeError::Form { path: self.place(None, Keys::Plain), problem }
    }

    /// The error of a value that has another type than `expected`, or is missing.
    pub(super) fn mismatch(&mut self, expected: &'static str) -> DecodeError {
        let found = match self.reader.peek() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            Some(b'-' | b'0'..=b'9') => "a number",
            _ => return self.reader.unexpected("looking for the start of a value"),
        };
        DecodeError::Type { path: self.place(None, Keys::Plain), expected, found: found.to_owned() }
    }

    /// The path of the current value, or of its member `name`: `spec.containers[0].image`.
    fn place(&self, name: Option<&str>, keys: Keys) -> String {
        let mut path = String::new();
        let last = name.map(Step::Field);
        for step in self.path.iter().chain(&last) {
            if path.len() > PATH_BYTES_MAX {
                path.truncate(path.floor_char_boundary(PATH_BYTES_MAX));
                path.push_str("...");
                break;
            }
            let cut = |name: &str| name[..name.floor_char_boundary(PATH_BYTES_MAX)].to_owned();
            path.push_str(&match step {
                Step::Index(index) => format!("[{index}]"),
                Step::Key(key) if keys == Keys::Bracketed => format!("[{}]", cut(key)),
                Step::Field(name) => with_dot(&path, &cut(name)),
                Step::Key(key) => with_dot(&path, &cut(key)),
            });
        }
        path
    }
}
