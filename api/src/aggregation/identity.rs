//! The identity under which a request is passed on: headers that name the user, which aggregated servers believe because of this
//! server's certificate.
//!
//! Owns which headers these are and how keys are written in them, and the headers by which the server could take a request for another
//! one than was authorized. Headers that a client sent under such a name never pass, also where they are written with `_` for
//! `-`, which some servers take for the same.

use http::{HeaderMap, HeaderName, HeaderValue};
use orch_proto::Brand;

use crate::authn::{GROUP_MASTERS, User, impersonate};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
/// The rest of the name is the key of an attribute.
const EXTRA_PREFIX: &str = "x-remote-extra-";
/// All headers of identity begin so.
const PREFIX: &str = "x-remote-";

/// Headers in place of the method or the path, which frameworks of web servers obey.
const OVERRIDES: [&str; 6] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
];

/// The name of a user cannot be written in a header, or would be read there as another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("net/http: invalid header field value for a header of the user's identity")]
pub(crate) struct Unwritable;

/// As whom this server asks whether an aggregated server is there, and what it serves.
pub(crate) fn aggregator(brand: &Brand) -> User {
    User {
        name: format!("system:{}-aggregator", brand.component_prefix),
        groups: vec![GROUP_MASTERS.to_owned()],
        ..User::default()
    }
}

/// Replaces all identity headers by those of `user`, and removes those that name another method or path.
///
/// # Errors
/// A text of the user cannot be written in a header.
pub(crate) fn name_user(headers: &mut HeaderMap, user: &User) -> Result<(), Unwritable> {
    // once: headers of bounded number and size.
    let sent: Vec<HeaderName> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
    for name in sent {
        headers.remove(name);
    }
    headers.insert(USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA_PREFIX}{}", escaped(key));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Unwritable)?;
        for text in values {
            headers.append(&name, value(text)?);
        }
    }
    Ok(())
}

/// Whether the header `name` says who the user is, or which request this is.
fn is_ours(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    // few: the names above.
    name.starts_with(PREFIX) || name.starts_with(impersonate::PREFIX) || OVERRIDES.contains(&name.as_str())
}

/// `text` as a header's value. Readers of headers leave out the blanks at its ends: the group ` system:masters` would be another one there.
fn value(text: &str) -> Result<HeaderValue, Unwritable> {
    match text.trim_matches([' ', '\t']) == text {
        true => HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Unwritable),
        false => Err(Unwritable),
    }
}

/// `key` as a part of a header's name: bytes that a name cannot have, upper case and `%` are escaped.
fn escaped(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => escaped.push(char::from(byte)),
            // few: the other characters of names.
            _ if b"!#$&'*+-.^_`|~".contains(&byte) => escaped.push(char::from(byte)),
            // Names of headers are the same in either case, and keys are not.
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped
}
