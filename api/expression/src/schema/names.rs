//! Names of properties as expressions spell them.
//!
//! Owns the escapes: `__dot__`, `__dash__`, `__slash__`, `__underscores__`, and `__word__` for a reserved word. A name that
//! no escape makes a name of the language is not visible to expressions.

/// Words that are no names of the language.
const RESERVED: [&str; 20] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "void",
    "while",
];
/// The same, of which there is one more.
const VAR: &str = "var";
/// Reserved words that may not stand behind a dot.
const NEVER_PLAIN: [&str; 4] = ["false", "in", "null", "true"];

/// Escapes of signs.
const SIGNS: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

fn is_reserved(name: &str) -> bool {
    name == VAR || RESERVED.binary_search(&name).is_ok()
}

/// Whether `name` is a reserved word that the grammar takes behind a dot.
pub(crate) fn is_plain_reserved(name: &str) -> bool {
    is_reserved(name) && NEVER_PLAIN.binary_search(&name).is_err()
}

/// The name of `property` in expressions; `None` if there is none.
pub fn escape(property: &str) -> Option<String> {
    if is_reserved(property) {
        return Some(format!("__{property}__"));
    }
    let is_sign = |c: char| matches!(c, '_' | '.' | '-' | '/');
    let is_part = |c: char| c.is_ascii_alphanumeric() || is_sign(c);
    if property.is_empty()
        || property.starts_with(|c: char| c.is_ascii_digit())
        || !property.chars().all(is_part)
    {
        return None;
    }
    if !property.contains("__") && !property.contains(['.', '-', '/']) {
        return Some(property.to_owned());
    }
    let mut out = String::new();
    let mut rest = property;
    while let Some(first) = rest.chars().next() {
        // few: the signs.
        let found = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign));
        match found {
            Some((sign, escaped)) => {
                out.push_str(escaped);
                rest = &rest[sign.len()..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        for (property, escaped) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a__b", "a__underscores__b"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("namespace", "__namespace__"),
            ("var", "__var__"),
            ("int", "int"),
        ] {
            assert_eq!(escape(property).as_deref(), Some(escaped));
        }
        for property in ["", "1a", "a b", "\u{e4}", "$ref"] {
            assert_eq!(escape(property), None, "{property}");
        }
        assert!(RESERVED.is_sorted() && NEVER_PLAIN.is_sorted());
    }
}
