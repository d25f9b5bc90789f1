//! The grammar of paths.
//!
//! Owns the bounds of a path's text and nesting. Peculiarities are the reference's: a quoted member name is parsed as the text
//! of a path again, so that its dots need a backslash, and a comma inside brackets separates paths even within quotes.

use orch_schema::json;
use orch_schema::value::Value;

use super::{Filter, Operator, Slice, SliceEnd, Step, unquote};

/// Bytes of a path: the longest known one has two hundred.
const TEXT_BYTES_MAX: usize = 4096;

/// Nesting of filters and unions.
const DEPTH_MAX: usize = 8;

/// The reason why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text is longer than [`TEXT_BYTES_MAX`] bytes, or nested deeper than [`DEPTH_MAX`].
    #[error("the path is too long or nested too deeply")]
    TooLarge,
    /// A bracket, filter or text has no end.
    #[error("unterminated {0}")]
    Unterminated(&'static str),
    /// The text between brackets is no place, slice, name or filter.
    #[error("invalid array index {0}")]
    Index(String),
    /// A character that begins no step.
    #[error("unrecognized character in action: {0:?}")]
    Character(char),
    /// A recursive step right behind another.
    #[error("invalid multiple recursive descent")]
    Recursion,
    /// Digits that are no number.
    #[error("cannot parse number {0}")]
    Number(String),
    /// A text in quotes with an escape that is none.
    #[error("unquote string {0} error invalid syntax")]
    Text(String),
}

/// The steps of the path `text`.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, ParseError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ParseError::TooLarge);
    }
    nested(text, DEPTH_MAX)
}

fn nested(text: &str, depth_left: usize) -> Result<Vec<Step>, ParseError> {
    let depth_left = depth_left.checked_sub(1).ok_or(ParseError::TooLarge)?;
    let mut parser = Parser { rest: text, depth_left, steps: Vec::new() };
    while !parser.rest.is_empty() {
        parser.step()?;
    }
    Ok(parser.steps)
}

struct Parser<'t> {
    rest: &'t str,
    depth_left: usize,
    steps: Vec<Step>,
}

impl<'t> Parser<'t> {
    /// Parses the next step, of which there is a character at least.
    fn step(&mut self) -> Result<(), ParseError> {
        if let Some(filter) = self.rest.strip_prefix("[?(") {
            return self.filter(filter);
        }
        if let Some(rest) = self.rest.strip_prefix("..") {
            if self.steps.last() == Some(&Step::Recursive) {
                return Err(ParseError::Recursion);
            }
            self.rest = rest;
            self.steps.push(Step::Recursive);
            // A name behind the dots is a member.
            let begins_name = rest.chars().next().is_some_and(|next| is_word(next) || next.is_numeric());
            return if begins_name { self.field() } else { Ok(()) };
        }
        let Some(first) = self.rest.chars().next() else { return Ok(()) };
        let behind = &self.rest[first.len_utf8()..];
        match first {
            ' ' | '@' | '$' => self.rest = behind,
            '.' => {
                self.rest = behind;
                self.field()?;
            }
            '[' => self.brackets(behind)?,
            '"' | '\'' => self.quoted(first, behind)?,
            '+' | '-' | '0'..='9' => self.number()?,
            _ if is_word(first) => self.word(),
            other => return Err(ParseError::Character(other)),
        }
        Ok(())
    }

    /// A member's name, or `*`. A backslash takes the next character into the name, but for another backslash.
    fn field(&mut self) -> Result<(), ParseError> {
        let (mut name, mut chars) = (String::new(), self.rest.char_indices());
        let mut end = self.rest.len();
        while let Some((at, next)) = chars.next() {
            match next {
                '\\' => name.extend(chars.next().map(|(_, escaped)| escaped).filter(|&next| next != '\\')),
                _ if is_terminator(next) => {
                    end = at;
                    break;
                }
                _ => name.push(next),
            }
        }
        let is_wildcard = &self.rest[..end] == "*";
        self.rest = &self.rest[end..];
        self.steps.push(if is_wildcard { Step::Wildcard } else { Step::Field(name) });
        Ok(())
    }

    /// A word that is no path: `true`, `false`, or nothing known.
    fn word(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.steps.push(match word {
            "true" => Step::Constant(json!(true)),
            "false" => Step::Constant(json!(false)),
            other => Step::Word(other.to_owned()),
        });
    }

    fn number(&mut self) -> Result<(), ParseError> {
        let signed = self.rest.strip_prefix(['+', '-']).unwrap_or(self.rest);
        let digits = signed.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(signed.len());
        let (text, rest) = self.rest.split_at(self.rest.len() - signed.len() + digits);
        self.rest = rest;
        let integer = text.parse::<i64>().map(|number| json!(number));
        let number = integer.or_else(|_| text.parse::<f64>().map(|number| json!(number)));
        let number: Value = number.map_err(|_| ParseError::Number(text.to_owned()))?;
        self.steps.push(Step::Constant(number));
        Ok(())
    }

    /// A text in quotes, of which `rest` is what follows the first. A quote behind a backslash does not end it, whatever is before that.
    fn quoted(&mut self, quote: char, rest: &'t str) -> Result<(), ParseError> {
        let mut before = quote;
        for (at, next) in rest.char_indices() {
            match next {
                '\n' => break,
                _ if next == quote && before != '\\' => {
                    let text = &rest[..at];
                    let unquoted = unquote::unquoted(text, quote);
                    let unquoted = unquoted.ok_or_else(|| ParseError::Text(text.to_owned()))?;
                    self.rest = &rest[at + next.len_utf8()..];
                    self.steps.push(Step::Constant(json!(unquoted)));
                    return Ok(());
                }
                _ => before = next,
            }
        }
        Err(ParseError::Unterminated("quoted string"))
    }

    /// Parses the text between brackets; `rest` is the text behind the opening one.
    fn brackets(&mut self, rest: &'t str) -> Result<(), ParseError> {
        let end = rest.find([']', '\n']).filter(|end| rest[*end..].starts_with(']'));
        let end = end.ok_or(ParseError::Unterminated("array"))?;
        let (text, depth_left) = (&rest[..end], self.depth_left);
        self.rest = &rest[end + 1..];
        if text.contains(',') {
            let paths =
                text.split(',').map(|path| nested(&format!("[{}]", path.trim_matches(' ')), depth_left));
            self.steps.push(Step::Union(paths.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(name) = quoted.filter(|name| !name.contains('\'')) {
            self.steps.extend(nested(&format!(".{name}"), depth_left)?);
            return Ok(());
        }
        self.steps.push(Step::Slice(slice(text)?));
        Ok(())
    }

    /// A filter, of which `rest` is what follows `[?(`.
    fn filter(&mut self, rest: &'t str) -> Result<(), ParseError> {
        let end = end_of_filter(rest).ok_or(ParseError::Unterminated("filter"))?;
        let behind = rest[end + 1..].strip_prefix(']').ok_or(ParseError::Unterminated("filter"))?;
        self.rest = behind;
        let text = &rest[..end];
        let filter = match comparison(text) {
            None => Filter { left: nested(text, self.depth_left)?, comparison: None },
            Some((left, operator, right)) => {
                let right = nested(right, self.depth_left)?;
                Filter { left: nested(left, self.depth_left)?, comparison: Some((operator, right)) }
            }
        };
        self.steps.push(Step::Filter(filter));
        Ok(())
    }
}

/// The byte of the parenthesis that ends a filter: the first one outside of quotes. A filter has one quoted text at most.
fn end_of_filter(text: &str) -> Option<usize> {
    let (mut quote, mut is_closed, mut before) = (None, false, ' ');
    for (at, next) in text.char_indices() {
        match (next, quote) {
            ('\n', _) => return None,
            ('"' | '\'', None) => quote = Some(next),
            ('"' | '\'', Some(open)) if next == open && before != '\\' => is_closed = true,
            (')', _) if quote.is_some() == is_closed => return Some(at),
            _ => {}
        }
        before = next;
    }
    None
}

/// The two sides of a filter's text and the operator between them; `None` where it has none.
fn comparison(text: &str) -> Option<(&str, Operator, &str)> {
    let is_operator = |next: char| matches!(next, '!' | '<' | '>' | '=');
    let begin = text.find(is_operator).filter(|begin| *begin > 0)?;
    let behind = &text[begin..];
    let len = behind.find(|c: char| !is_operator(c))?;
    let operator = match &behind[..len] {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => Operator::Unknown(other.to_owned()),
    };
    Some((&text[..begin], operator, &behind[len..]))
}

/// A place (`0`, `-1`), a slice (`1:`, `-1:`, `:3`, `0:4:2`) or `*`.
fn slice(text: &str) -> Result<Slice, ParseError> {
    let invalid = || ParseError::Index(text.to_owned());
    let all = Slice { start: None, end: SliceEnd::OfList, step: None };
    if text == "*" {
        return Ok(all);
    }
    let part = |part: &str| match part {
        "" => Ok(None),
        digits if digits.strip_prefix('-').unwrap_or(digits).bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse::<i64>().map(Some).map_err(|_| invalid())
        }
        _ => Err(invalid()),
    };
    let mut parts = text.split(':');
    let start = part(parts.next().unwrap_or_default())?;
    let end = match parts.next() {
        None => SliceEnd::AfterStart,
        Some(end) => part(end)?.map_or(SliceEnd::OfList, SliceEnd::At),
    };
    let step = parts.next().map_or(Ok(None), part)?;
    if parts.next().is_some() { Err(invalid()) } else { Ok(Slice { start, end, step }) }
}

/// Whether a name ends before `next`.
fn is_terminator(next: char) -> bool {
    matches!(next, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_word(first: char) -> bool {
    first == '_' || first.is_alphabetic()
}
