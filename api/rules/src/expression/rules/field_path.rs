//! `fieldPath` of rules: `.a.b`, `.m['some key']`.

/// The path behind that of the rule's node: `a.b`, `m[some key]`. Empty where `text` is; a path that cannot be read is
/// taken as it is, since definitions with one are refused.
pub(super) fn normalized(text: &str) -> String {
    parts(text).unwrap_or_else(|| text.trim_start_matches('.').to_owned())
}

fn parts(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('.') {
            let end = behind.find(['.', '[', ']']).unwrap_or(behind.len());
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&behind[..end]);
            rest = &behind[end..];
            continue;
        }
        let (key, behind) = quoted(rest.strip_prefix("['")?)?;
        out.push('[');
        out.push_str(&key);
        out.push(']');
        rest = behind.strip_prefix(']')?;
    }
    Some(out)
}

/// A text up to the quote that ends it, and what comes behind.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return Some((out, &text[at + 1..])),
            '\\' => out.push(match letters.next()?.1 {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                other @ ('\'' | '\\') => other,
                _ => return None,
            }),
            other => out.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_as_those_of_errors() {
        for (text, shown) in [
            ("", ""),
            (".a.b", "a.b"),
            (".m['some key']", "m[some key]"),
            ("['a\\'b'].c", "[a'b].c"),
            (".x", "x"),
        ] {
            assert_eq!(normalized(text), shown, "{text}");
        }
    }
}
