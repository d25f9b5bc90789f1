//! Quoted texts in messages.

/// `text` in double quotes, with quotes, backslashes and unprintable characters escaped.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            char if u32::from(char) < 0x20 || u32::from(char) == 0x7f => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(char)));
            }
            char if char.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
