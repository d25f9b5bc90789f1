//! Texts that are made or searched with a bound, and `format`.

use super::calls::{Called, scan, tenths, text};
use super::plain::Plain;
use super::times;

/// The places of `part` in `of`, in characters.
fn places(of: &[char], part: &[char]) -> Vec<usize> {
    (0..=of.len()).filter(|at| of[*at..].starts_with(part)).collect()
}

/// The first or the last place of a text, not before or not behind an offset.
fn place(name: &str, of: &str, part: &str, from: Option<i64>) -> Called {
    let (letters, part): (Vec<char>, Vec<char>) = (of.chars().collect(), part.chars().collect());
    let is_last = name == "lastIndexOf";
    if let (true, Some(from)) = (part.is_empty(), from) {
        return Ok((Plain::Int(from), crate::length(of.len()) / 10));
    }
    let mut found = places(&letters, &part);
    if let Some(from) = from {
        let Ok(from) = usize::try_from(from) else { return Err(format!("index out of range: {from}")) };
        // Offsets behind the text find nothing.
        found.retain(|at| from < letters.len() && if is_last { *at <= from } else { *at >= from });
    }
    let found = if is_last { found.last() } else { found.first() };
    let place = found.map_or(-1, |at| i64::try_from(*at).unwrap());
    Ok((Plain::Int(place), crate::length(of.len()) / 10))
}

/// A text in which at most `most` parts are replaced. Nothing is found between all characters, and at both ends.
fn replaced(of: &str, old: &str, new: &str, most: usize) -> String {
    let (letters, old): (Vec<char>, Vec<char>) = (of.chars().collect(), old.chars().collect());
    let (mut made, mut at, mut left) = (String::new(), 0, most);
    while at <= letters.len() {
        if left > 0 && letters[at..].starts_with(&old) {
            made.push_str(new);
            left -= 1;
            at += old.len();
            if !old.is_empty() {
                continue;
            }
        }
        made.extend(letters.get(at));
        at += 1;
    }
    made
}

/// At most `most` parts, the last of which is the rest.
fn split(of: &str, separator: &str, most: usize) -> Vec<Plain> {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = of.to_owned();
    while most > 0 && !(separator.is_empty() && rest.is_empty()) {
        let end = if separator.is_empty() {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            (first < rest.len()).then_some(first)
        } else {
            rest.find(separator)
        };
        match end.filter(|_| parts.len() + 1 < most) {
            Some(end) => {
                parts.push(rest[..end].to_owned());
                rest = rest[end + separator.len()..].to_owned();
            }
            None => {
                parts.push(rest);
                break;
            }
        }
    }
    parts.into_iter().map(Plain::Text).collect()
}

/// A value as `%s` writes it; inside of a list so that types can be told apart.
fn written(value: &Plain, is_inside: bool) -> String {
    match value {
        Plain::Text(text) if is_inside => format!("\"{text}\""),
        Plain::Duration(nanoseconds) if is_inside => {
            format!("duration(\"{}\")", times::text_of_duration(*nanoseconds))
        }
        Plain::Time(time) if is_inside => format!("timestamp(\"{}\")", times::text_of_time(*time)),
        Plain::List(items) | Plain::Identified(_, items) => {
            let items: Vec<String> = items.iter().map(|item| written(item, true)).collect();
            format!("[{}]", items.join(", "))
        }
        other => text(other),
    }
}

fn formatted(of: &str, values: &[Plain]) -> Result<String, String> {
    let (mut made, mut values, mut letters) = (String::new(), values.iter(), of.chars());
    while let Some(letter) = letters.next() {
        let clause = if letter == '%' { letters.next() } else { None };
        let in_base = |value: Option<&Plain>, base: fn(u64) -> String| match value {
            Some(Plain::Int(number)) if *number < 0 => format!("-{}", base(number.unsigned_abs())),
            Some(Plain::Int(number)) => base(number.unsigned_abs()),
            Some(Plain::Bool(truth)) => u8::from(*truth).to_string(),
            other => panic!("no expression here writes {other:?}"),
        };
        if let (Some(clause @ ('d' | 'b' | 'o' | 'x' | 'X')), Some(Plain::Null)) =
            (clause, values.as_slice().first())
        {
            let what = match clause {
                'd' => "decimal clause can only be used on integers",
                'b' => "only integers and bools can be formatted as binary",
                'o' => "octal clause can only be used on integers",
                _ => "only integers, byte buffers, and strings can be formatted as hex",
            };
            return Err(format!("error during formatting: {what}, was given null_type"));
        }
        match clause {
            None => made.push(letter),
            Some('%') => made.push('%'),
            Some('s' | 'd') => made.push_str(&written(values.next().unwrap(), false)),
            Some('b') => made.push_str(&in_base(values.next(), |number| format!("{number:b}"))),
            Some('o') => made.push_str(&in_base(values.next(), |number| format!("{number:o}"))),
            Some('x') => made.push_str(&in_base(values.next(), |number| format!("{number:x}"))),
            Some('X') => made.push_str(&in_base(values.next(), |number| format!("{number:X}"))),
            Some(other) => panic!("no expression here has the clause {other}"),
        }
    }
    Ok(made)
}

/// Calls that make or search texts with a bound.
pub(super) fn call(name: &str, arguments: &[Plain]) -> Option<Called> {
    let [Plain::Text(of), rest @ ..] = arguments else { return None };
    let bound = |most: i64| usize::try_from(most).unwrap_or(usize::MAX);
    let twice = tenths(crate::length(of.chars().count()), 2);
    Some(match (name, rest) {
        ("indexOf" | "lastIndexOf", [Plain::Text(part)]) => place(name, of, part, None),
        ("indexOf" | "lastIndexOf", [Plain::Text(part), Plain::Int(from)]) => {
            place(name, of, part, Some(*from))
        }
        ("replace", [Plain::Text(old), Plain::Text(new), Plain::Int(most)]) => {
            Ok((Plain::Text(replaced(of, old, new, bound(*most))), twice))
        }
        ("split", [Plain::Text(separator), Plain::Int(most)]) => {
            Ok((Plain::List(split(of, separator, bound(*most))), twice))
        }
        ("strings.quote", []) => {
            let escaped = of.replace('\\', "\\\\").replace('"', "\\\"");
            Ok((Plain::Text(format!("\"{escaped}\"")), scan(of)))
        }
        ("format", [Plain::List(values)]) => formatted(of, values).map(|text| (Plain::Text(text), scan(of))),
        _ => return None,
    })
}
