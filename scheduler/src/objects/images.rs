//! Names of images.
//!
//! Owns their normal form: a name without a tag or a digest has the tag `latest`.

/// The normal form of an image's name.
pub fn normalized(name: &str) -> String {
    let last_slash = name.rfind('/');
    match name.rfind(':') {
        Some(colon) if last_slash.is_none_or(|slash| colon > slash) => name.to_owned(),
        _ => format!("{name}:latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn names_without_a_tag_get_one() {
        assert_eq!(normalized("a"), "a:latest");
        assert_eq!(normalized("host:5000/a"), "host:5000/a:latest");
        assert_eq!(normalized("host:5000/a:1"), "host:5000/a:1");
        assert_eq!(normalized("a@sha256:0"), "a@sha256:0");
    }
}
