//! A bucket and a prefix in it: `s3://BUCKET/PREFIX`.
//!
//! Owns the way between names and keys. Invariant: bucket and prefix have only characters that stand for themselves in an
//! address, so that no two encodings of a key exist.

use std::fmt;
use std::str::FromStr;

/// Bytes of a prefix: keys have 1024 at most, names of backups less than a hundred.
const PREFIX_BYTES_MAX: usize = 512;

/// A place for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    bucket: String,
    /// Empty, or with `/` at its end.
    prefix: String,
}

impl Place {
    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The key of the object called `name`.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name of the object with `key`; `None` for one of another place, or of one below this.
    pub(super) fn name<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&*self.prefix).filter(|name| !name.is_empty() && !name.contains('/'))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!(
                "{text:?} is not s3://BUCKET or s3://BUCKET/PREFIX: a bucket has 3 to 63 lower-case letters, digits, '-' and '.', \
                 the parts of a prefix letters, digits, '-', '_' and '.'"
            )
        };
        let rest = text.strip_prefix("s3://").ok_or_else(malformed)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let is_bucket = (3..=63).contains(&bucket.len())
            && bucket.chars().all(is_inner)
            && is_end(bucket.chars().next())
            && is_end(bucket.chars().next_back());
        let prefix = prefix.trim_end_matches('/');
        let is_part = |part: &str| {
            let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part != "." && part != ".." && part.chars().all(is_inner)
        };
        let is_prefix = prefix.is_empty() || prefix.split('/').all(is_part);
        if !is_bucket || !is_prefix || prefix.len() > PREFIX_BYTES_MAX {
            return Err(malformed());
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Place { bucket: bucket.to_owned(), prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_a_prefix_of_plain_characters() {
        for (text, key) in [
            ("s3://backups", "x"),
            ("s3://backups/", "x"),
            ("s3://my.backups-1/orch/Prod_1", "orch/Prod_1/x"),
            ("s3://backups/a/b//", "a/b/x"),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place.key("x"), key, "{text}");
            assert_eq!(place.name(key), Some("x"), "{text}");
            assert_eq!(place.name(&place.key("below/x")), None, "{text}");
        }
        let long = format!("s3://backups/{}", "a".repeat(PREFIX_BYTES_MAX + 1));
        for bad in [
            "",
            "backups",
            "https://backups",
            "s3://",
            "s3://ab",
            "s3://Backups",
            "s3://-backups",
            "s3://back_ups",
            "s3://key:secret@backups",
            "s3://backups//a",
            "s3://backups/a/../b",
            "s3://backups/a b",
            "s3://backups/a?b",
            &long,
        ] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }
}
