//! The access key of a bucket.
//!
//! Owns where it comes from: a file in the form of Amazon's tools, or the environment under the names that they use. The file
//! is read for each piece of work, so that a new key is taken up without a restart. Nothing here shows a secret, nor text
//! of the file, which may be one.

use std::path::{Path, PathBuf};

use orch_serving::files;
use rusty_s3::Credentials;
use zeroize::Zeroizing;

/// Bytes of the file: a few lines, one of them a session's token of some kilobytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The section of the file that counts, and what stands before any.
const SECTION: &str = "[default]";

/// Variables of the environment: key, secret and, for a session, its token.
const VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// The same in the file.
const FIELDS: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

/// There is no access key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("cannot read the file of the access key, {path}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path} lacks {field} in its section [default]")]
    Lacks { path: PathBuf, field: &'static str },
    #[error("{path}, line {line}: it is neither a section, NAME = VALUE nor a comment")]
    Line { path: PathBuf, line: usize },
    #[error("there is no access key: name its file, or set {0} in the environment")]
    Variable(&'static str),
}

/// Where the access key is read.
pub(super) struct Access {
    file: Option<PathBuf>,
}

impl Access {
    /// The key in `file`, or else of the environment.
    pub(super) fn new(file: Option<PathBuf>) -> Access {
        Access { file }
    }

    /// Reads the key.
    pub(super) fn read(&self) -> Result<Credentials, AccessError> {
        match &self.file {
            None => from_environment(|name| std::env::var(name).ok()),
            Some(path) => {
                let unreadable = |source| AccessError::File { path: path.clone(), source };
                let text = files::beside_tasks(|| files::read_text(path, FILE_BYTES_MAX));
                parse(&Zeroizing::new(text.map_err(unreadable)?), path)
            }
        }
    }
}

fn from_environment(value: impl Fn(&str) -> Option<String>) -> Result<Credentials, AccessError> {
    let given = |at: usize| {
        let found = value(VARIABLES[at]).map(|value| value.trim().to_owned());
        found.filter(|value| !value.is_empty())
    };
    let needed = |at: usize| given(at).ok_or(AccessError::Variable(VARIABLES[at]));
    Ok(credentials(needed(0)?, needed(1)?, given(2)))
}

fn parse(text: &str, path: &Path) -> Result<Credentials, AccessError> {
    let mut values: [Option<String>; 3] = [None, None, None];
    let mut counts = true;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            counts = line == SECTION;
            continue;
        }
        let malformed = || AccessError::Line { path: path.to_owned(), line: at + 1 };
        let (name, value) = line.split_once('=').ok_or_else(malformed)?;
        let place = FIELDS.iter().position(|field| *field == name.trim());
        if let (true, Some(place)) = (counts, place) {
            values[place] = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    let [key, secret, token] = values;
    let lacks = |at: usize| AccessError::Lacks { path: path.to_owned(), field: FIELDS[at] };
    Ok(credentials(key.ok_or_else(|| lacks(0))?, secret.ok_or_else(|| lacks(1))?, token))
}

fn credentials(key: String, secret: String, token: Option<String>) -> Credentials {
    match token {
        Some(token) => Credentials::new_with_token(key, secret, token),
        None => Credentials::new(key, secret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Credentials, AccessError> {
        parse(text, Path::new("keys"))
    }

    #[test]
    fn the_default_section_counts_and_no_error_shows_a_secret() {
        let text = "# keys\n[other]\naws_access_key_id = no\n\n[default]\nregion = x\naws_access_key_id = AK\n\
                    aws_secret_access_key=s3cr=et\n";
        let found = read(text).unwrap();
        assert_eq!((found.key(), found.secret(), found.token()), ("AK", "s3cr=et", None));
        let found = read("aws_access_key_id=a\naws_secret_access_key=b\naws_session_token=c").unwrap();
        assert_eq!((found.key(), found.secret(), found.token()), ("a", "b", Some("c")));
        for (text, expected) in [
            ("s3cret", "line 1"),
            ("[default]\naws_access_key_id = s3cret", "lacks aws_secret_access_key"),
            ("aws_access_key_id =\naws_secret_access_key = s3cret", "lacks aws_access_key_id"),
            ("[a]\naws_access_key_id = s3cret\naws_secret_access_key = s3cret", "lacks aws_access_key_id"),
        ] {
            let told = read(text).unwrap_err().to_string();
            assert!(told.contains(expected) && !told.contains("s3cret"), "{told}");
        }
    }

    #[test]
    fn the_environment_needs_key_and_secret() {
        let with = |given: &[(&str, &str)]| {
            let value = |name: &str| {
                let found = given.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            from_environment(value)
        };
        let both = [("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_SESSION_TOKEN", "")];
        let found = with(&both).unwrap();
        assert_eq!((found.key(), found.secret(), found.token()), ("AK", "s", None));
        for lacking in [&both[..1], &both[1..], &[]] {
            assert!(matches!(with(lacking), Err(AccessError::Variable(_))));
        }
    }
}
