//! Indented JSON, two spaces a level.
//!
//! Owns an indenter that works on the bytes of canonical JSON, without a tree and without white space to remove. Its
//! output can be measured without being written, so that a response's length is known before its first byte.

use orch_schema::budget::count_step;

use super::scan::string_end;

/// Receives output: a buffer, or a counter.
pub(super) trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct Counter(usize);

impl Sink for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Appends `json` indented; all lines but the first start with `depth` levels of spaces.
pub(super) fn indent(json: &[u8], depth: usize, out: &mut impl Sink) {
    write(json, depth, out);
}

/// Bytes that [`indent`] would append.
pub(super) fn indented_len(json: &[u8], depth: usize) -> usize {
    let mut counter = Counter(0);
    write(json, depth, &mut counter);
    counter.0
}

fn write(json: &[u8], mut depth: usize, sink: &mut impl Sink) {
    let mut at = 0;
    while let Some(&byte) = json.get(at).filter(|_| count_step()) {
        let mut end = at + 1;
        match byte {
            b'"' => {
                end = string_end(json, at);
                sink.put(&json[at..end]);
            }
            b'{' | b'[' if matches!(json.get(end), Some(b'}' | b']')) => {
                end += 1;
                sink.put(&json[at..end]);
            }
            b'{' | b'[' => {
                depth += 1;
                sink.put(&json[at..end]);
                new_line(depth, sink);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(depth, sink);
                sink.put(&json[at..end]);
            }
            b',' => {
                sink.put(b",");
                new_line(depth, sink);
            }
            b':' => sink.put(b": "),
            _ => {
                let delimiter = |byte: &u8| matches!(byte, b',' | b'}' | b']');
                // once: for each literal; the next pass starts at its end.
                end = json[at..].iter().position(delimiter).map_or(json.len(), |found| at + found);
                sink.put(&json[at..end]);
            }
        }
        at = end;
    }
}

fn new_line(depth: usize, sink: &mut impl Sink) {
    sink.put(b"\n");
    for _ in 0..depth {
        sink.put(b"  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, depth: usize, expected: &str) {
        let mut out = Vec::new();
        indent(json.as_bytes(), depth, &mut out);
        assert_eq!(indented_len(json.as_bytes(), depth), out.len());
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn members_and_items_stand_on_their_own_lines() {
        check(
            r#"{"a":1,"b":[true,null],"c":{"d":"x,{}[]:\"y"}}"#,
            0,
            "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    null\n  ],\n  \"c\": {\n    \"d\": \"x,{}[]:\\\"y\"\n  }\n}",
        );
    }

    #[test]
    fn empty_collections_stay_together() {
        check(r#"{"a":{},"b":[],"c":[{}]}"#, 0, "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    {}\n  ]\n}");
        check("{}", 0, "{}");
        check("12", 0, "12");
    }

    #[test]
    fn deeper_objects_are_indented_from_their_second_line_on() {
        check(r#"{"a":1}"#, 2, "{\n      \"a\": 1\n    }");
    }

    #[test]
    fn indenting_ends_with_its_request() {
        let json = format!("[{}]", vec!["{}"; 30_000].join(","));
        orch_schema::budget::stopping::check_stops("several lines", 30_000, || {
            indented_len(json.as_bytes(), 0)
        });
    }
}
