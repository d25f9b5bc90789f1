//! The warnings that go out with a response.
//!
//! Owns how many there are, how long they are, and their form in headers. It knows no rule that warns.

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

const WARNING: HeaderName = HeaderName::from_static("warning");

/// Warnings in one response: the hundred that a decoder reports, as in the reference, and those of the kind and its
/// rules.
const WARNINGS_MAX: usize = 128;

/// Characters of all warnings of a response that are written whole, as in the reference: a pod may break seven rules, and
/// the warning about it names them all.
const WARNINGS_CHARS_MAX: usize = 4096;

/// Characters of each warning where all together are longer, as in the reference.
const WARNING_CHARS_MAX: usize = 256;

/// The warnings of one request so far.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds `texts`, each once.
    pub(super) fn add(&self, texts: impl IntoIterator<Item = String>) {
        let mut warnings = self.0.lock();
        for text in texts {
            // A linear search: there are at most `WARNINGS_MAX`.
            if warnings.len() < WARNINGS_MAX && !warnings.contains(&text) {
                warnings.push(text);
            }
        }
    }

    /// Removes all of them.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// Adds those that there is room for to `headers`, in the form of RFC 7234, which clients of the reference parse.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        for text in fitting(&self.0.lock()) {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{}\"", quotable(text))) {
                headers.append(WARNING, value);
            }
        }
    }
}

/// The warnings that a response has room for: all of them whole, or the beginnings of the first ones.
fn fitting(warnings: &[String]) -> impl Iterator<Item = &str> {
    let chars = warnings.iter().map(|text| text.chars().count()).sum::<usize>();
    let each_max = if chars <= WARNINGS_CHARS_MAX { WARNINGS_CHARS_MAX } else { WARNING_CHARS_MAX };
    let beginning = move |text| match str::char_indices(text).nth(each_max) {
        Some((end, _)) => &text[..end],
        None => text,
    };
    let mut written = 0;
    warnings.iter().map(move |text| beginning(text.as_str())).take_while(move |text| {
        let has_room = written < WARNINGS_CHARS_MAX;
        written += text.chars().count();
        has_room
    })
}

/// `text` for a quoted string in a header: escaped, without control characters.
fn quotable(text: &str) -> String {
    let mut quotable = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => quotable.extend(['\\', character]),
            control if control.is_control() => quotable.push(' '),
            other => quotable.push(other),
        }
    }
    quotable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(warnings: &Warnings) -> HeaderMap {
        let mut headers = HeaderMap::new();
        warnings.write(&mut headers);
        headers
    }

    #[test]
    fn warnings_are_quoted_bounded_and_told_once() {
        let warnings = Warnings::default();
        let texts = ["unknown field \"a\\b\"".to_owned(), "two\nlines".to_owned(), "x".repeat(5000)];
        warnings.add(texts.clone());
        warnings.add(texts);
        warnings.add((0..500).map(|number| number.to_string()));
        let headers = written(&warnings);
        let texts: Vec<&str> =
            headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
        assert_eq!(texts[0], r#"299 - "unknown field \"a\\b\"""#);
        assert_eq!(texts[1], r#"299 - "two lines""#);
        assert!(texts[2].len() < 600);
        assert_eq!((texts.len(), texts[3]), (WARNINGS_MAX, "299 - \"0\""));
        warnings.clear();
        assert!(!written(&warnings).contains_key("warning"));
        let lengths = |texts: &[&str]| {
            fitting(&texts.iter().map(|text| text.repeat(1000)).collect::<Vec<_>>())
                .map(|text| text.chars().count())
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(&["a", "ü", "c", "d"]), [1000; 4], "whole where they fit");
        assert_eq!(lengths(&["ab", "ü", "c", "d"]), [WARNING_CHARS_MAX; 4]);
        assert_eq!(lengths(&["a"; 100]).len(), WARNINGS_CHARS_MAX / WARNING_CHARS_MAX);
    }
}
