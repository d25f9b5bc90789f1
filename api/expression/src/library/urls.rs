//! Locators: `url`, `isURL`, and their parts.
//!
//! Owns what is read as one: an absolute locator or an absolute path, as in the request line of HTTP. A sign `#` belongs
//! to the path then, and begins a fragment where the parts are asked for ([`Url::with_fragment`]). The parts are kept as they are
//! shown, so that a getter computes nothing.

use std::sync::Arc;

use orch_schema::excerpt::quoted;

use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::{Key, MadeMap, Text, Val};

/// A locator.
#[derive(Debug, PartialEq, Eq)]
pub struct Url {
    /// Lower case; empty of a path.
    scheme: String,
    /// With port and brackets.
    host: String,
    /// Escaped.
    path: String,
    /// Without the `?`.
    query: String,
    /// The whole, by which locators are compared.
    pub(crate) text: String,
}

/// Signs beside letters and digits that a path shows unescaped.
const PATH_SIGNS: &[u8] = b"-_.~$&+,/:;=@!'()*[]%";
/// Signs beside letters and digits that a path keeps if it has no other ones.
const ESCAPED_SIGNS: &[u8] = b"-_.~$&+,/:;=@";
/// Signs beside letters and digits in a host.
const HOST_SIGNS: &[u8] = b"-_.~!$&'()*+,;=:[]<>\"";
/// Signs beside letters and digits before the `@`.
const USER_SIGNS: &[u8] = b"-._:~!$&'()*+,;=%@";

impl Url {
    /// Reads `text`.
    ///
    /// # Errors
    /// The reason why it is none, with the text in quotes.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        parts(text).map_err(|reason| format!("parse {}: {reason}", quoted(text)))
    }

    /// Reads `text` as [`Url::parse`] does, and takes what stands behind a `#` off the path or the query.
    ///
    /// # Errors
    /// As of [`Url::parse`]; an escape behind the `#` is none.
    pub(crate) fn with_fragment(text: &str) -> Result<Url, String> {
        let whole = Url::parse(text)?;
        let Some((before, fragment)) = text.split_once('#') else { return Ok(whole) };
        check_escapes(fragment).map_err(|reason| format!("parse {}: {reason}", quoted(text)))?;
        let mut url = Url::parse(before)?;
        if !fragment.is_empty() {
            url.text = format!("{}#{fragment}", url.text);
        }
        Ok(url)
    }

    /// The host without brackets and port.
    fn host_name(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, _)) => name,
            None => self.host.rsplit_once(':').map_or(&self.host, |(name, _)| name),
        }
    }

    /// The port; empty if there is none.
    fn port(&self) -> &str {
        let behind = self.host.rsplit_once(']').map_or(&*self.host, |(_, behind)| behind);
        behind.rsplit_once(':').map_or("", |(_, port)| port)
    }
}

fn parts(text: &str) -> Result<Url, String> {
    // once: a scan of the text.
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, query),
        None => (rest, ""),
    };
    let shown = if query.is_empty() { String::new() } else { format!("?{query}") };
    if !rest.starts_with('/') && rest != "*" {
        if scheme.is_empty() {
            return Err("invalid URI for request".to_owned());
        }
        let text = format!("{scheme}:{rest}{shown}");
        return Ok(Url { scheme, host: String::new(), path: String::new(), query: query.to_owned(), text });
    }
    let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    if !has_only(user, USER_SIGNS) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_host(host)?;
    let path = escaped_path(path)?;
    let mut whole = if scheme.is_empty() { String::new() } else { format!("{scheme}:") };
    if !authority.is_empty() {
        whole.push_str(&format!("//{authority}"));
    }
    whole.push_str(&path);
    whole.push_str(&shown);
    Ok(Url { scheme, host: host.to_owned(), path, query: query.to_owned(), text: whole })
}

/// The scheme in lower case, and what comes behind it.
fn scheme(text: &str) -> Result<(String, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn has_only(text: &str, signs: &[u8]) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.find(':').map_or("", |at| &host[at..])
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    check_escapes(host)?;
    let is_part = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || c == '%' || is_sign(c, HOST_SIGNS);
    match host.chars().find(|c| !is_part(*c)) {
        Some(other) => Err(format!("invalid character {} in host name", quoted(&other.to_string()))),
        None => Ok(()),
    }
}

fn is_sign(c: char, signs: &[u8]) -> bool {
    u8::try_from(c).is_ok_and(|byte| signs.contains(&byte))
}

/// Each `%` stands before two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quoted(&shown)));
        }
    }
    Ok(())
}

/// The path as it is shown: as it is written, if it has no signs that must be escaped.
fn escaped_path(path: &str) -> Result<String, String> {
    check_escapes(path)?;
    if has_only(path, PATH_SIGNS) {
        return Ok(path.to_owned());
    }
    let mut out = String::new();
    for byte in unescaped(path, false) {
        if byte.is_ascii_alphanumeric() || ESCAPED_SIGNS.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(out)
}

/// The bytes behind escapes; of a part of a query `+` stands for a space.
fn unescaped(text: &str, is_query: bool) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(value) = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out.push(value);
            at += 3;
            continue;
        }
        out.push(if is_query && byte == b'+' { b' ' } else { byte });
        at += 1;
    }
    out
}

/// The pairs of a query in order; pairs with a bad escape or a semicolon are left out.
fn pairs(query: &str) -> Vec<(String, String)> {
    let text = |part: &str| String::from_utf8_lossy(&unescaped(part, true)).into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    let pairs = pairs.filter(|pair| check_escapes(pair).is_ok());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (text(key), text(value)))
        .collect()
}

fn parsed(
    run: &mut Run<'_>,
    arguments: &[Val<'_>],
    parse: fn(&str) -> Result<Url, String>,
) -> Result<Result<Url, String>, Failure> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    // The parts and the whole, each up to three times as long, and once more without a fragment.
    run.make_bytes(text.len().saturating_mul(12))?;
    Ok(parse(text))
}

pub(crate) fn url<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let url = parsed(run, arguments, Url::with_fragment)?;
    let url =
        url.map_err(|reason| fault(format!("URL parse error during conversion from string: {reason}")))?;
    Ok(Val::Url(Arc::new(url)))
}

pub(crate) fn is_url<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(parsed(run, arguments, Url::parse)?.is_ok()))
}

fn part<'v>(run: &mut Run<'v>, arguments: &[Val<'v>], of: fn(&Url) -> &str) -> Outcome<'v> {
    let [Val::Url(url)] = arguments else { return Err(no_overload()) };
    let part = of(url);
    run.make_bytes(part.len())?;
    Ok(Val::text(part))
}

pub(crate) fn scheme_of<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, |url| &url.scheme)
}

pub(crate) fn host<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, |url| &url.host)
}

pub(crate) fn host_name<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, Url::host_name)
}

pub(crate) fn port<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, Url::port)
}

pub(crate) fn path<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, |url| &url.path)
}

/// The query as a map from keys to lists of values.
pub(crate) fn query<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Url(url)] = arguments else { return Err(no_overload()) };
    run.make_bytes(url.query.len())?;
    let mut values: std::collections::BTreeMap<String, Vec<Val<'v>>> = std::collections::BTreeMap::new();
    for (key, value) in pairs(&url.query) {
        run.make_values(4)?;
        values.entry(key).or_default().push(Val::text(value));
    }
    let mut made = MadeMap::default();
    for (key, values) in values {
        // Each key comes once out of the ordered map.
        let _ = made.insert(Key::Text(Text::from(key)), Val::list(values));
    }
    Ok(Val::map(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locators_are_absolute() {
        for (text, reason) in [
            ("https://u:p@ex.com:80/a%20b?k=v#f", None),
            ("/abs", None),
            ("mailto:x", None),
            ("../rel", Some("invalid URI for request")),
            ("", Some("empty url")),
            ("://x", Some("missing protocol scheme")),
            ("https://a:b:c/", Some("invalid port \":b:c\" after host")),
            ("https://[::1/", Some("missing ']' in host")),
            ("https://a b/", Some("invalid character \" \" in host name")),
            ("https://x/%zz", Some("invalid URL escape \"%zz\"")),
            ("https://x/\u{1}", Some("net/url: invalid control character in URL")),
        ] {
            let told = Url::parse(text).err();
            assert_eq!(told, reason.map(|reason| format!("parse {}: {reason}", quoted(text))), "{text}");
        }
    }

    #[test]
    fn parts_are_those_of_the_text() {
        let url = Url::parse("HTTPS://u@[::1]:8443/a b?k=v&k=w&j=x%20y&z=%zz").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str()), ("https", "[::1]:8443"));
        assert_eq!((url.host_name(), url.port(), url.path.as_str()), ("::1", "8443", "/a%20b"));
        assert_eq!(pairs(&url.query).len(), 3);
        let cut = Url::with_fragment("https://x/a?k=v#f?g").unwrap();
        assert_eq!((cut.path.as_str(), cut.query.as_str(), &*cut.text), ("/a", "k=v", "https://x/a?k=v#f?g"));
        assert_eq!(Url::with_fragment("/a#").unwrap(), Url::with_fragment("/a").unwrap());
        let told = Url::with_fragment("/a?k#%zz").unwrap_err();
        assert_eq!(told, "parse \"/a?k#%zz\": invalid URL escape \"%zz\"");
        let plain = Url::parse("http://ex.com").unwrap();
        assert_eq!((plain.host_name(), plain.port(), plain.path.as_str()), ("ex.com", "", ""));
    }
}
