//! Lists of flags: comma-separated values, in which a quoted value may hold commas, and lists of `key=value`.

use super::{Reason, quote};

/// Parses one line of comma-separated values. An empty text is an empty list.
pub fn parse_fields(text: &str) -> Result<Vec<String>, Reason> {
    let mut fields = Vec::new();
    if text.is_empty() {
        return Ok(fields);
    }
    let mut rest = text;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (field, after) = quoted_field(quoted, text)?;
            fields.push(field);
            rest = after;
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let field = &rest[..end];
            if let Some(at) = field.find('"') {
                let column = text.len() - rest.len() + at + 1;
                return Err(Reason::new(format!(
                    "parse error on line 1, column {column}: bare \" in non-quoted-field"
                )));
            }
            fields.push(field.to_owned());
            rest = &rest[end..];
        }
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => return Ok(fields),
        }
    }
}

/// The content of a quoted field, and what follows its closing quote.
fn quoted_field<'t>(mut rest: &'t str, whole: &str) -> Result<(String, &'t str), Reason> {
    let mut field = String::new();
    loop {
        let Some(end) = rest.find('"') else {
            let column = whole.len() + 1;
            return Err(Reason::new(format!(
                "parse error on line 1, column {column}: extraneous or missing \" in quoted-field"
            )));
        };
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.as_bytes().first() {
            Some(b'"') => {
                field.push('"');
                rest = &rest[1..];
            }
            None | Some(b',') => return Ok((field, rest)),
            Some(_) => {
                let column = whole.len() - rest.len();
                return Err(Reason::new(format!(
                    "parse error on line 1, column {column}: extraneous or missing \" in quoted-field"
                )));
            }
        }
    }
}

/// Parses a list of `key=value`. A text with a single `=` is one pair, whose value may hold commas.
pub fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, Reason> {
    let fields = match text.matches('=').count() {
        0 => return Err(unpaired(text)),
        1 => vec![text.trim_matches('"').to_owned()],
        _ => parse_fields(text)?,
    };
    let pair = |field: String| match field.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(unpaired(&field)),
    };
    fields.into_iter().map(pair).collect()
}

fn unpaired(text: &str) -> Reason {
    let shown = if text.is_empty() { quote(text) } else { text.to_owned() };
    Reason::new(format!("{shown} must be formatted as key=value"))
}
