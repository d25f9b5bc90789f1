//! Writes a value as a YAML document in the reference's layout.
//!
//! Owns the layout: two spaces a level, lists at the level of their key, `{}` and `[]` for empty collections, text
//! folded behind column 80, keys too long for one line introduced by `?`. `scalar` decides how a text is quoted,
//! `order` in which order keys come.
//!
//! Invariant: reading the document gives the same value again.

use super::order::sorted;
use super::scalar::{Style, is_printable, style};
use crate::budget::count_step;
use crate::value::{Map, Number, Value};

/// Appends `value` as a YAML document.
pub fn write_yaml(value: &Value, out: &mut Vec<u8>) {
    write_yaml_to(value, out);
}

/// Writes `value` as a YAML document.
pub fn write_yaml_to(value: &Value, out: &mut impl YamlSink) {
    let mut emitter = Emitter::new(out);
    emitter.node(value, Place::Other);
    emitter.new_line();
}

/// Writes the mapping `members` as a YAML document, with `items` as the value of its member `list`, which is
/// an empty list. The items are taken one after the other, each when the one before it is written.
///
/// # Errors
/// The first error among the items; the document is not finished then.
pub fn write_yaml_list<E>(
    members: &Map,
    list: &str,
    items: impl Iterator<Item = Result<Value, E>>,
    out: &mut impl YamlSink,
) -> Result<(), E> {
    let mut emitter = Emitter::new(out);
    let outer = emitter.indent;
    emitter.deeper();
    let mut items = items.peekable();
    for (key, value) in sorted(members).into_iter().take_while(|_| count_step()) {
        emitter.key(key);
        if key != list || items.peek().is_none() {
            emitter.node(value, Place::Member);
            continue;
        }
        for item in items.by_ref().take_while(|_| count_step()) {
            emitter.item(&item?);
        }
    }
    emitter.indent = outer;
    emitter.new_line();
    Ok(())
}

/// A destination of YAML documents.
pub trait YamlSink {
    /// The buffer to which the next bytes are appended.
    fn place(&mut self) -> &mut Vec<u8>;
}

impl YamlSink for Vec<u8> {
    fn place(&mut self) -> &mut Vec<u8> {
        self
    }
}

/// A text is folded at the first space behind this column.
const FOLD_COLUMN: usize = 80;

/// Spaces of a level.
const INDENT: usize = 2;

/// Bytes of the longest key that stands before its colon.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

struct Emitter<'a, S> {
    out: &'a mut S,
    /// Characters in the current line.
    column: usize,
    /// Spaces before the innermost open collection; `None` where none is open.
    indent: Option<usize>,
    /// The next token needs no space before it.
    after_space: bool,
    /// The line has nothing but spaces and the marks of collections yet.
    only_indented: bool,
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A key in front of its colon.
    Key,
    /// A value in a mapping.
    Member,
    /// Anything else.
    Other,
}

impl<'a, S: YamlSink> Emitter<'a, S> {
    fn new(out: &'a mut S) -> Self {
        Emitter { out, column: 0, indent: None, after_space: true, only_indented: true }
    }

    fn node(&mut self, value: &Value, place: Place) {
        match value {
            Value::Null => self.plain("null", false),
            Value::Bool(true) => self.plain("true", false),
            Value::Bool(false) => self.plain("false", false),
            Value::Number(number) => self.plain(&number_text(number), false),
            Value::String(text) => self.text(text, place),
            Value::Array(items) if items.is_empty() => self.plain("[]", false),
            Value::Array(items) => self.items(items, place),
            Value::Object(members) if members.is_empty() => self.plain("{}", false),
            Value::Object(members) => self.members(members),
        }
    }

    fn items(&mut self, items: &[Value], place: Place) {
        let outer = self.indent;
        if place != Place::Member || self.only_indented {
            self.deeper();
        }
        for item in items.iter().take_while(|_| count_step()) {
            self.item(item);
        }
        self.indent = outer;
    }

    fn item(&mut self, item: &Value) {
        self.new_line();
        self.mark(b'-');
        self.node(item, Place::Other);
    }

    fn members(&mut self, members: &Map) {
        let outer = self.indent;
        self.deeper();
        for (key, value) in sorted(members).into_iter().take_while(|_| count_step()) {
            self.key(key);
            self.node(value, Place::Member);
        }
        self.indent = outer;
    }

    /// Writes a key and its colon.
    fn key(&mut self, key: &str) {
        self.new_line();
        if key.len() <= SIMPLE_KEY_BYTES_MAX && !key.contains('\n') {
            self.text(key, Place::Key);
            self.put_byte(b':');
            self.after_space = false;
            self.only_indented = false;
        } else {
            self.mark(b'?');
            self.text(key, Place::Member);
            self.new_line();
            self.mark(b':');
        }
    }

    /// Writes a text in the style that it allows; continuation lines are one level deeper.
    fn text(&mut self, text: &str, place: Place) {
        let outer = self.indent;
        self.indent = Some(outer.map_or(INDENT, |indent| indent + INDENT));
        let folds = place != Place::Key;
        match style(text, place == Place::Key) {
            Style::Plain => self.plain(text, folds),
            Style::Single => self.single_quoted(text, folds),
            Style::Double => self.double_quoted(text, folds),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    fn plain(&mut self, text: &str, folds: bool) {
        self.space();
        let mut after_blank = false;
        for (at, char) in text.char_indices() {
            let next_is_space = text[at + char.len_utf8()..].starts_with(' ');
            if char == ' ' && folds && !after_blank && self.column > FOLD_COLUMN && !next_is_space {
                self.new_line();
            } else {
                self.put(char);
                self.only_indented &= char == ' ';
            }
            after_blank = char == ' ';
        }
        self.close();
    }

    fn single_quoted(&mut self, text: &str, folds: bool) {
        self.open(b'\'');
        let mut after_blank = false;
        for (at, char) in text.char_indices() {
            let rest = &text[at + char.len_utf8()..];
            let inside = at > 0 && !rest.is_empty() && !rest.starts_with(' ');
            if char == ' ' && folds && !after_blank && self.column > FOLD_COLUMN && inside {
                self.new_line();
            } else {
                self.put(char);
                if char == '\'' {
                    self.put(char);
                }
            }
            after_blank = char == ' ';
        }
        self.put_byte(b'\'');
        self.close();
    }

    fn double_quoted(&mut self, text: &str, folds: bool) {
        self.open(b'"');
        let mut after_blank = false;
        for (at, char) in text.char_indices() {
            let rest = &text[at + char.len_utf8()..];
            let may_fold = folds && !after_blank && self.column > FOLD_COLUMN;
            if !is_printable(char) || matches!(char, '\n' | '"' | '\\') {
                self.escape(char);
            } else if char == ' ' && may_fold && at > 0 && !rest.is_empty() {
                self.new_line();
                if rest.starts_with(' ') {
                    self.put_byte(b'\\');
                }
            } else {
                self.put(char);
            }
            after_blank = char == ' ';
        }
        self.put_byte(b'"');
        self.close();
    }

    fn escape(&mut self, char: char) {
        let code = u32::from(char);
        let escape = match char {
            '\0' => "0",
            '\x07' => "a",
            '\x08' => "b",
            '\t' => "t",
            '\n' => "n",
            '\x0b' => "v",
            '\x0c' => "f",
            '\r' => "r",
            '\x1b' => "e",
            '"' => "\"",
            '\\' => "\\",
            '\u{85}' => "N",
            '\u{2028}' => "L",
            '\u{2029}' => "P",
            _ if code <= 0xFF => &format!("x{code:02X}"),
            _ if code <= 0xFFFF => &format!("u{code:04X}"),
            _ => &format!("U{code:08X}"),
        };
        self.put_byte(b'\\');
        escape.bytes().for_each(|byte| self.put_byte(byte));
    }

    /// Writes a text of several lines as it is.
    fn literal(&mut self, text: &str) {
        self.open(b'|');
        if text.starts_with([' ', '\n']) {
            self.put_byte(b'2');
        }
        match text.strip_suffix('\n') {
            None => self.put_byte(b'-'),
            Some(rest) if rest.is_empty() || rest.ends_with('\n') => self.put_byte(b'+'),
            Some(_) => {}
        }
        self.put_break();
        self.after_space = true;
        self.only_indented = true;
        for line in text.split_inclusive('\n') {
            let content = line.strip_suffix('\n').unwrap_or(line);
            if !content.is_empty() {
                self.new_line();
                content.chars().for_each(|char| self.put(char));
                self.only_indented = false;
            }
            if content.len() < line.len() {
                self.put_break();
                self.only_indented = true;
            }
        }
    }

    /// Goes to the level of the current collection, in a new line unless this one has nothing but marks so far.
    fn new_line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.only_indented || self.column > indent || (self.column == indent && !self.after_space) {
            self.put_break();
        }
        while self.column < indent {
            self.put_byte(b' ');
        }
        self.after_space = true;
        self.only_indented = true;
    }

    fn deeper(&mut self) {
        self.indent = Some(self.indent.map_or(0, |indent| indent + INDENT));
    }

    /// Writes the mark of an item, of a long key or of its value.
    fn mark(&mut self, mark: u8) {
        self.space();
        self.put_byte(mark);
        self.after_space = false;
    }

    /// Writes the first character of a quoted text.
    fn open(&mut self, quote: u8) {
        self.mark(quote);
        self.only_indented = false;
    }

    /// Records the end of a text.
    fn close(&mut self) {
        self.after_space = false;
        self.only_indented = false;
    }

    fn space(&mut self) {
        if !self.after_space {
            self.put_byte(b' ');
        }
    }

    fn put_break(&mut self) {
        self.out.place().push(b'\n');
        self.column = 0;
    }

    fn put(&mut self, char: char) {
        self.out.place().extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        self.column += 1;
    }

    fn put_byte(&mut self, byte: u8) {
        self.out.place().push(byte);
        self.column += 1;
    }
}

/// A number with the fewest digits that identify it; a fraction with an exponent from 1e6 on and below 1e-4.
fn number_text(number: &Number) -> String {
    let float = number.as_f64().filter(|_| number.is_f64());
    let Some(float) = float else { return number.to_string() };
    let text = format!("{float:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests;
