//! The static token file: `token,user,uid,"group1,group2"`, one user a line.
//!
//! Owns parsing and lookup. Tokens are kept as SHA-256 digests and looked up by digest in a table with a random
//! seed: how long a lookup takes says nothing about how much of a guess was right, and a memory dump shows no token.
//! Errors and warnings name the file's line, never what stands on it.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};

use super::user::User;

/// A token file of this size holds about 100,000 users. Larger is taken for the wrong file.
const FILE_BYTES_MAX: usize = 16 << 20;

/// Users by the digest of their token.
#[derive(Clone, Default)]
pub struct TokenTable {
    users: HashMap<[u8; 32], Arc<User>>,
    warnings: Vec<String>,
}

/// The tokens of a file that may be read again. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LiveTokens(Arc<ArcSwap<TokenTable>>);

impl LiveTokens {
    /// Uses `table` from the next request on.
    pub fn replace(&self, table: TokenTable) {
        self.0.store(Arc::new(table));
    }

    /// The user of `token`.
    pub fn holder(&self, token: &[u8]) -> Option<Arc<User>> {
        self.0.load().holder(token).cloned()
    }
}

impl From<TokenTable> for LiveTokens {
    fn from(table: TokenTable) -> Self {
        LiveTokens(Arc::new(ArcSwap::from_pointee(table)))
    }
}

/// The error of a refused token file. Never shows a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A line has too few columns.
    #[error("line {line}: at least 3 columns are needed (token, user name, user uid), found {columns}")]
    Columns {
        /// Line of the file, from 1.
        line: u64,
        /// Number of columns found.
        columns: usize,
    },
    /// A line names no user.
    #[error("line {line}: the user name is empty")]
    NoUser {
        /// Line of the file, from 1.
        line: u64,
    },
    /// The file is not valid UTF-8.
    #[error("line {line}: not valid UTF-8")]
    Encoding {
        /// Line of the file, from 1.
        line: u64,
    },
    /// A quoted field is never closed.
    #[error("line {line}: a quoted field that starts here does not end")]
    Quote {
        /// Line of the file, from 1.
        line: u64,
    },
    /// The file exceeds 16 MiB.
    #[error("{bytes} bytes, the limit is {FILE_BYTES_MAX}")]
    TooLarge {
        /// Size of the file.
        bytes: usize,
    },
}

impl TokenTable {
    /// Reads the text of a token file.
    ///
    /// # Errors
    /// The file is too large, or a line is malformed.
    pub fn parse(text: &[u8]) -> Result<TokenTable, TokenFileError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(TokenFileError::TooLarge { bytes: text.len() });
        }
        let mut table = TokenTable::default();
        let mut line = 1;
        let mut rest = text;
        while !rest.is_empty() {
            let record = take_record(rest, line)?;
            table.add(&record.fields, line)?;
            line += record.lines;
            rest = record.rest;
        }
        Ok(table)
    }

    /// The user of `token`.
    pub fn holder(&self, token: &[u8]) -> Option<&Arc<User>> {
        self.users.get(&digest(token))
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether the table has no tokens.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Lines that were accepted but look like mistakes: empty tokens (skipped) and repeated ones (the last counts).
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn add(&mut self, fields: &[String], line: u64) -> Result<(), TokenFileError> {
        let [token, name, uid, more @ ..] = fields else {
            let blank = matches!(fields, [only] if only.is_empty());
            return if blank { Ok(()) } else { Err(TokenFileError::Columns { line, columns: fields.len() }) };
        };
        if token.is_empty() {
            self.warnings.push(format!("line {line}: the token is empty, the line is skipped"));
            return Ok(());
        }
        if name.is_empty() {
            return Err(TokenFileError::NoUser { line });
        }
        let groups = more.first().map(|list| list.split(',').map(str::to_owned).collect());
        let user = User {
            name: name.clone(),
            uid: uid.clone(),
            groups: groups.unwrap_or_default(),
            ..User::default()
        };
        if self.users.insert(digest(token.as_bytes()), Arc::new(user.authenticated())).is_some() {
            self.warnings
                .push(format!("line {line}: the token stands on an earlier line too, this line counts"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for TokenTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenTable").field("tokens", &self.users.len()).finish()
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// One record of comma-separated values, and the text after it.
struct Record<'a> {
    fields: Vec<String>,
    lines: u64,
    rest: &'a [u8],
}

/// Takes the first record of `text`: fields separated by commas, quoted where they hold commas, quotes (doubled) or
/// line ends.
fn take_record(text: &[u8], line: u64) -> Result<Record<'_>, TokenFileError> {
    let mut fields = Vec::new();
    let mut field = Vec::new();
    let (mut quoted, mut lines, mut at) = (false, 0, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' if quoted && text.get(at) == Some(&b'"') => {
                field.push(b'"');
                at += 1;
            }
            b'"' if quoted => quoted = false,
            b'"' if field.is_empty() => quoted = true,
            b',' if !quoted => fields.push(text_of(std::mem::take(&mut field), line)?),
            b'\n' if !quoted => {
                lines += 1;
                break;
            }
            b'\r' if !quoted && matches!(text.get(at), None | Some(b'\n')) => {}
            _ => {
                lines += u64::from(byte == b'\n');
                field.push(byte);
            }
        }
    }
    if quoted {
        return Err(TokenFileError::Quote { line });
    }
    fields.push(text_of(field, line)?);
    Ok(Record { fields, lines, rest: text.get(at..).unwrap_or_default() })
}

fn text_of(field: Vec<u8>, line: u64) -> Result<String, TokenFileError> {
    String::from_utf8(field).map_err(|_| TokenFileError::Encoding { line })
}
