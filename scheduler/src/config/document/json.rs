//! Reads JSON. Syntax errors have the reference's texts, which a library of another language does not give.

use super::{DEPTH_MAX, Document, Node};

/// Parses JSON; a second document is an error.
pub(super) fn parse_json(text: &str) -> Result<Document, String> {
    let mut reader = Reader { text, at: 0, duplicates: Vec::new(), path: String::new() };
    let root = reader.value(0)?;
    match reader.peek() {
        None => Ok(Document { root, duplicates: reader.duplicates }),
        Some(char) => Err(unexpected(char, "after top-level value")),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    duplicates: Vec<String>,
    /// Path of the value under way, for messages about duplicates.
    path: String,
}

const END: &str = "unexpected end of JSON input";

impl Reader<'_> {
    /// The next character that is no white space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        self.at += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.text[self.at..].chars().next()?;
        self.at += char.len_utf8();
        Some(char)
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        match self.peek().ok_or(END)? {
            '{' => self.object(depth),
            '[' => self.list(depth),
            '"' => self.string().map(Node::Text),
            't' => self.literal("true", Node::Bool(true)),
            'f' => self.literal("false", Node::Bool(false)),
            'n' => self.literal("null", Node::Null),
            '-' | '0'..='9' => self.number(),
            char => Err(unexpected(char, "looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node, String> {
        self.next();
        let mut members: Vec<(String, Node)> = Vec::new();
        if self.peek().ok_or(END)? == '}' {
            self.next();
            return Ok(Node::Object(members));
        }
        loop {
            match self.peek().ok_or(END)? {
                '"' => {}
                char => return Err(unexpected(char, "looking for beginning of object key string")),
            }
            let name = self.string()?;
            match self.peek().ok_or(END)? {
                ':' => self.next(),
                char => return Err(unexpected(char, "after object key")),
            };
            let before = self.path.len();
            if before > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            if members.iter().any(|(known, _)| *known == name) {
                self.duplicates.push(format!("duplicate field \"{}\"", self.path));
            }
            let value = self.value(depth + 1)?;
            self.path.truncate(before);
            members.push((name, value));
            match self.peek().ok_or(END)? {
                ',' => self.next(),
                '}' => {
                    self.next();
                    return Ok(Node::Object(members));
                }
                char => return Err(unexpected(char, "after object key:value pair")),
            };
        }
    }

    fn list(&mut self, depth: usize) -> Result<Node, String> {
        self.next();
        let mut items = Vec::new();
        if self.peek().ok_or(END)? == ']' {
            self.next();
            return Ok(Node::List(items));
        }
        loop {
            let before = self.path.len();
            self.path.push_str(&format!("[{}]", items.len()));
            items.push(self.value(depth + 1)?);
            self.path.truncate(before);
            match self.peek().ok_or(END)? {
                ',' => self.next(),
                ']' => {
                    self.next();
                    return Ok(Node::List(items));
                }
                char => return Err(unexpected(char, "after array element")),
            };
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        self.next();
        loop {
            match self.next().ok_or(END)? {
                '"' => break,
                '\\' => match self.next().ok_or(END)? {
                    'u' => {
                        for _ in 0..4 {
                            let char = self.next().ok_or(END)?;
                            if !char.is_ascii_hexdigit() {
                                return Err(unexpected(char, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => {}
                    char => return Err(unexpected(char, "in string escape code")),
                },
                char if u32::from(char) < 0x20 => return Err(unexpected(char, "in string literal")),
                _ => {}
            }
        }
        // Only unpaired surrogates are left as a fault.
        serde_json::from_str(&self.text[start..self.at]).map_err(|error| error.to_string())
    }

    fn literal(&mut self, word: &'static str, value: Node) -> Result<Node, String> {
        for expected in word.chars() {
            let char = self.next().ok_or(END)?;
            if char != expected {
                return Err(unexpected(char, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Node, String> {
        let start = self.at;
        if self.text[self.at..].starts_with('-') {
            self.next();
        }
        if self.text[self.at..].starts_with('0') {
            self.next();
        } else {
            self.digits("in numeric literal")?;
        }
        if self.text[self.at..].starts_with('.') {
            self.next();
            self.digits("after decimal point in numeric literal")?;
        }
        if self.text[self.at..].starts_with(['e', 'E']) {
            self.next();
            if self.text[self.at..].starts_with(['+', '-']) {
                self.next();
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(Node::Number(self.text[start..self.at].to_owned()))
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        let rest = &self.text[self.at..];
        let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
        if end == 0 {
            let char = rest.chars().next().ok_or(END)?;
            return Err(unexpected(char, place));
        }
        self.at += end;
        Ok(())
    }
}

fn unexpected(char: char, place: &str) -> String {
    let shown = match char {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        char => format!("'{}'", char.escape_debug()),
    };
    format!("invalid character {shown} {place}")
}
