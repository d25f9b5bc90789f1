//! The grammar of label selectors, with the recorded error texts.
//!
//! Owns the parser; `label` owns the meaning of a requirement. Parsing is linear in the text.

use orch_schema::excerpt::{part, quoted};

use super::label::{Operator, Requirement};
use crate::validate::{Path, names};

/// Why a label selector is refused. The text is part of the interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelSelectorError(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Identifier(&'a str),
    Symbol(&'static str),
    End,
}

struct Parser<'a> {
    rest: &'a str,
    next: Option<Token<'a>>,
}

type Result<T> = std::result::Result<T, LabelSelectorError>;

/// Longest first, so that `==` is not read as `=` twice.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

/// The binary operators as the error text lists them.
const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Parses `text` into requirements in the order written.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>> {
    let mut parser = Parser { rest: text, next: None };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Identifier(_) | Token::Symbol("!") => {
                let requirement = parser.requirement();
                requirements.push(
                    requirement.map_err(|error| fail(format!("unable to parse requirement: {error}")))?,
                );
            }
            other => return Err(expected(&other, "!, identifier, or 'end of string'")),
        }
        match parser.peek() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => {
                parser.take();
                let after = parser.peek();
                if !matches!(after, Token::Identifier(_) | Token::Symbol("!")) {
                    return Err(expected(&after, "identifier after ','"));
                }
            }
            other => return Err(expected(&other, "',' or 'end of string'")),
        }
    }
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Token<'a> {
        let token = self.next.take().unwrap_or_else(|| self.scan());
        self.next = Some(token.clone());
        token
    }

    fn take(&mut self) -> Token<'a> {
        self.next.take().unwrap_or_else(|| self.scan())
    }

    fn scan(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if self.rest.is_empty() {
            return Token::End;
        }
        for symbol in SYMBOLS {
            if let Some(rest) = self.rest.strip_prefix(symbol) {
                self.rest = rest;
                return Token::Symbol(symbol);
            }
        }
        let end = self.rest.find([' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<']);
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        Token::Identifier(word)
    }

    fn requirement(&mut self) -> Result<Requirement> {
        let mut token = self.take();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.take();
        }
        let Token::Identifier(key) = token else { return Err(expected(&token, "identifier")) };
        check_key(key)?;
        let operator = if negated {
            Operator::DoesNotExist
        } else if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            Operator::Exists
        } else {
            self.operator(key)?
        };
        Ok(Requirement { key: key.into(), operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator> {
        let token = self.take();
        match token {
            Token::Identifier("in") => Ok(Operator::In(checked(key, self.set()?)?)),
            Token::Identifier("notin") => Ok(Operator::NotIn(checked(key, self.set()?)?)),
            Token::Symbol("=" | "==") => Ok(Operator::In(checked(key, vec![self.value()?])?)),
            Token::Symbol("!=") => Ok(Operator::NotIn(checked(key, vec![self.value()?])?)),
            Token::Symbol(">") => Ok(Operator::GreaterThan(self.bound(key)?)),
            Token::Symbol("<") => Ok(Operator::LessThan(self.bound(key)?)),
            other => Err(expected(&other, BINARY_OPERATORS)),
        }
    }

    /// The value behind `=`; a missing value is the empty string.
    fn value(&mut self) -> Result<&'a str> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok("");
        }
        match self.take() {
            Token::Identifier(value) => Ok(value),
            other => Err(expected(&other, "identifier")),
        }
    }

    fn bound(&mut self, key: &str) -> Result<i64> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            fail(format!("values[0][{}]: Invalid value: {}: {detail}", part(key), quoted(value)))
        })
    }

    /// `(a,b)`: missing values between commas are empty strings, and so is the value of `()`.
    fn set(&mut self) -> Result<Vec<&'a str>> {
        let open = self.take();
        if open != Token::Symbol("(") {
            return Err(fail(format!("found '{}' expected: '('", part(open.text()))));
        }
        let mut values = Vec::new();
        loop {
            match self.take() {
                Token::Identifier(value) => {
                    values.push(value);
                    match self.take() {
                        Token::Symbol(",") if self.peek() == Token::Symbol(")") => values.push(""),
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(values),
                        other => return Err(expected(&other, "',' or ')'")),
                    }
                }
                Token::Symbol(",") => values.push(""),
                Token::Symbol(")") => {
                    if values.is_empty() {
                        values.push("");
                    }
                    return Ok(values);
                }
                other => return Err(expected(&other, "',', ')' or identifier")),
            }
        }
    }
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Token::Identifier(text) => text,
            Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

fn expected(found: &Token<'_>, wanted: &str) -> LabelSelectorError {
    fail(format!("found '{}', expected: {wanted}", part(found.text())))
}

fn fail(text: String) -> LabelSelectorError {
    LabelSelectorError(text)
}

fn check_key(key: &str) -> Result<()> {
    let details = names::qualified_name(key);
    match details.first() {
        None => Ok(()),
        Some(_) => Err(fail(format!("<nil>: Invalid value: {}: {}", quoted(key), details.join("; ")))),
    }
}

fn checked(key: &str, values: Vec<&str>) -> Result<Box<[Box<str>]>> {
    for (position, value) in values.iter().enumerate() {
        let details = names::label_value(value);
        if !details.is_empty() {
            let path = Path::new("values").index(position).key(key);
            return Err(fail(format!("{path}: Invalid value: {}: {}", quoted(value), details.join("; "))));
        }
    }
    let mut values: Vec<Box<str>> = values.into_iter().map(Box::from).collect();
    values.sort();
    values.dedup();
    Ok(values.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, message: &str) {
        assert_eq!(parse(text).unwrap_err().0, message, "{text}");
    }

    #[test]
    fn broken_selectors_are_refused_with_the_reference_texts() {
        refused("!!", "unable to parse requirement: found '!', expected: identifier");
        refused("a,", "found '', expected: identifier after ','");
        refused("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        refused("a in b", "unable to parse requirement: found 'b' expected: '('");
        refused("a in (b", "unable to parse requirement: found '', expected: ',' or ')'");
        refused(",", "found ',', expected: !, identifier, or 'end of string'");
        refused("!a=b", "found '=', expected: ',' or 'end of string'");
        refused("a==(", "unable to parse requirement: found '(', expected: identifier");
    }

    #[test]
    fn keys_and_values_that_cannot_exist_are_refused() {
        assert!(parse("-bad=x").is_err());
        assert!(parse("a=-bad-").is_err());
        assert!(parse(&format!("a={}", "x".repeat(64))).is_err());
        assert!(parse("a>x").is_err());
    }
}
