//! The identity under which a request is passed on: headers that name the user, which aggregated servers believe because of this
//! server's certificate.
//!
//! Owns which headers these are and how keys are written in them. Headers that a client sent under such a name never pass, also
//! where they are written with `_` for `-`, which some servers take for the same.

use http::{HeaderMap, HeaderName, HeaderValue};
use orch_proto::Brand;

use crate::authn::{GROUP_MASTERS, User};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
/// The rest of the name is the key of an attribute.
const EXTRA_PREFIX: &str = "x-remote-extra-";
/// All headers of identity begin so.
const PREFIX: &str = "x-remote-";

/// The name of a user cannot be written in a header.
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

/// Has `headers` name `user`, and nobody else.
///
/// # Errors
/// A text of the user cannot be written in a header.
pub(crate) fn name_user(headers: &mut HeaderMap, user: &User) -> Result<(), Unwritable> {
    let sent: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().replace('_', "-").starts_with(PREFIX)).cloned().collect();
    for name in sent {
        headers.remove(name);
    }
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Unwritable);
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
