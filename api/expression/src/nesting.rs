//! Nesting depth of an expression's tree, estimated from its text before it is parsed.
//!
//! Owns the estimate, which is never too low: chains of operators and members nest once for each, and walks over the
//! tree, the parser's too, recurse. `&&` and `||` are balanced by the parser and separate chains, as commas do.

/// Brackets inside each other, one more than the parser takes.
const LEVELS_MAX: usize = 128;

/// An upper bound of the nesting of `source`; `None` where brackets nest too deeply.
pub(crate) fn nesting(source: &str) -> Option<usize> {
    let bytes = source.as_bytes();
    // For each level of brackets the length of the current chain, and of the longest one.
    let mut levels = vec![(0_usize, 0_usize)];
    let mut level = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        match byte {
            b'"' | b'\'' => {
                at = behind_text(bytes, at);
                continue;
            }
            b'/' if next == Some(b'/') => {
                let rest = &bytes[at..];
                // once: the end of a comment.
                at += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'&' | b'|' if next == Some(byte) => levels[level].0 = 0,
            b',' => levels[level].0 = 0,
            b')' | b']' | b'}' => {
                levels[level].0 = 0;
                level = level.saturating_sub(1);
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'.' | b'?' | b':' | b'('
            | b'[' | b'{' => {
                let (current, longest) = &mut levels[level];
                *current += 1;
                *longest = (*longest).max(*current);
                if matches!(byte, b'(' | b'[' | b'{') {
                    level += 1;
                    if level == LEVELS_MAX {
                        return None;
                    }
                    levels.resize(levels.len().max(level + 1), (0, 0));
                }
            }
            _ => {}
        }
        at += 1;
    }
    Some(levels.into_iter().map(|(_, longest)| longest).sum())
}

/// The place behind the text that begins with the quote at `start`.
pub(crate) fn behind_text(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let is_raw = start > 0 && matches!(bytes[start - 1], b'r' | b'R');
    let is_triple = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if is_triple { 3 } else { 1 };
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\\' && !is_raw {
            at += 2;
        } else if is_triple && bytes[at..].starts_with(&[quote; 3]) {
            return at + 3;
        } else if !is_triple && byte == quote {
            return at + 1;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_nest_and_conjunctions_do_not() {
        for (source, expected) in [
            ("a", 0),
            ("a.b.c", 2),
            ("a.b == 1 && a.c == 2 || a.d == 3", 3),
            ("'a.b.c' + \"d\\\".e\"", 1),
            ("r'\\' + '.'", 1),
            ("'''a'.b''' + x", 1),
            ("f(a.b, c.d.e).g.h", 5),
            ("a // .b.c\n.d", 1),
            ("','+','+','", 2),
        ] {
            assert_eq!(nesting(source), Some(expected), "{source}");
        }
        assert_eq!(nesting(&"(".repeat(500)), None);
        assert_eq!(nesting(&"f(x, ".repeat(50)), Some(50));
        assert_eq!(nesting(")]}"), Some(0));
    }
}
