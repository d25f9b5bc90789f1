//! Locators: their parts, and what is read as one.
//!
//! Owns two readings, as the reference's library has them: that of a request line ([`Url::parse`]), which takes an absolute locator or an
//! absolute path, and the general one ([`Url::with_fragment`]), in which `//` begins a host also where there is no scheme, and `#` a
//! fragment. Parts are kept as they are shown, so that a getter computes nothing. Invariant: time and memory grow with the text.

use std::net::Ipv6Addr;

use orch_schema::excerpt::quoted;

use super::address_faults::address_refusal;
use super::escapes::{self, Part, escaped, is_valid, unescaped};

/// A locator.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// Lower case; empty of a path.
    pub(super) scheme: String,
    /// With port and brackets, without escapes.
    pub(super) host: String,
    /// Escaped.
    pub(super) path: String,
    /// Without the `?`.
    pub(super) query: String,
    /// The whole, by which locators are compared.
    pub(crate) text: String,
}

/// How a text is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// As in the request line of HTTP.
    Request,
    /// As a reference; what stands behind a `#` is cut off before.
    Reference,
}

/// User name and password, escaped with the `@` behind them, and the host.
struct Authority {
    user: Option<String>,
    host: String,
}

impl Url {
    /// Reads `text`.
    ///
    /// # Errors
    /// The reason why it is none, with the text in quotes.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        parts(text, Reading::Request).map_err(|reason| refusal(text, &reason))
    }

    /// Reads `text` as [`Url::parse`] does, and again as a reference with a fragment.
    ///
    /// # Errors
    /// As of [`Url::parse`]; the host behind `//` is none; an escape behind the `#` is none.
    pub(crate) fn with_fragment(text: &str) -> Result<Url, String> {
        Url::parse(text)?;
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parts(before, Reading::Reference).map_err(|reason| refusal(before, &reason))?;
        if !fragment.is_empty() {
            escapes::check(fragment, Part::Fragment).map_err(|reason| refusal(text, &reason))?;
            url.text.push('#');
            url.text.push_str(&shown(fragment, Part::Fragment));
        }
        Ok(url)
    }

    /// The host without brackets and port.
    pub(super) fn host_name(&self) -> &str {
        let host = self.port_at().map_or(&*self.host, |at| &self.host[..at]);
        host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
    }

    /// The port; empty if there is none.
    pub(super) fn port(&self) -> &str {
        self.port_at().map_or("", |at| &self.host[at + 1..])
    }

    /// The place of the colon before the port.
    fn port_at(&self) -> Option<usize> {
        self.host.rfind(':').filter(|at| is_port(&self.host[*at..]))
    }
}

fn refusal(text: &str, reason: &str) -> String {
    format!("parse {}: {reason}", quoted(text))
}

fn parts(text: &str, reading: Reading) -> Result<Url, String> {
    // once: a scan of the text.
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && reading == Reading::Request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url { path: text.to_owned(), text: text.to_owned(), ..Url::default() });
    }
    let (scheme, rest) = scheme(text)?;
    // A single `?` at the end stays in the text.
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let mut whole = if scheme.is_empty() { String::new() } else { format!("{scheme}:") };
    let (mut host, mut path) = (String::new(), String::new());
    if rest.starts_with('/') {
        let has_authority = rest.starts_with("//")
            && (!scheme.is_empty() || reading == Reading::Reference && !rest.starts_with("///"));
        let (authority, behind) = match rest.strip_prefix("//").filter(|_| has_authority) {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let authority = read_authority(&scheme, authority)?;
        escapes::check(behind, Part::Path)?;
        path = shown(behind, Part::Path);
        let has_name = authority.user.is_some() || !authority.host.is_empty();
        if has_name || has_authority && !path.is_empty() {
            whole.push_str("//");
            whole.push_str(authority.user.as_deref().unwrap_or_default());
            whole.push_str(&escaped(authority.host.as_bytes(), Part::Host));
        }
        whole.push_str(&path);
        host = authority.host;
    } else if scheme.is_empty() {
        // The first reading refuses what has neither a scheme nor a path.
        return Err("invalid URI for request".to_owned());
    } else {
        whole.push_str(rest);
    }
    if let Some(query) = query {
        whole.push('?');
        whole.push_str(query);
    }
    Ok(Url { scheme, host, path, query: query.unwrap_or_default().to_owned(), text: whole })
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

/// The part `text`, whose escapes are sound, as it is shown: as it is written, if it has no signs that must be escaped.
fn shown(text: &str, part: Part) -> String {
    if is_valid(text, part) { text.to_owned() } else { escaped(&unescaped(text, part), part) }
}

fn read_authority(scheme: &str, authority: &str) -> Result<Authority, String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let host = read_host(scheme, host)?;
    let Some(user) = user else { return Ok(Authority { user: None, host }) };
    if !is_valid(user, Part::User) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let mut written = String::new();
    for (at, part) in user.splitn(2, ':').enumerate() {
        escapes::check(part, Part::User)?;
        if at > 0 {
            written.push(':');
        }
        written.push_str(&escaped(&unescaped(part, Part::User), Part::User));
    }
    written.push('@');
    Ok(Authority { user: Some(written), host })
}

/// The host with its port, without escapes.
fn read_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => return read_literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // Lists of hosts with ports, which locators of databases have, have several colons.
    let is_strict = scheme == "http" || scheme == "https";
    let colon = if is_strict { host.find(':') } else { host.rfind(':') };
    let port = colon.map_or("", |at| &host[at..]);
    if !is_port(port) {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    escapes::check(host, Part::Host)?;
    Ok(String::from_utf8_lossy(&unescaped(host, Part::Host)).into_owned())
}

/// A host that is an address in brackets. A zone behind `%25` may be escaped as it likes.
fn read_literal(host: &str) -> Result<String, String> {
    let end = host.rfind(']').ok_or("missing ']' in host")?;
    let (name, port) = (&host[1..end], &host[end + 1..]);
    if !is_port(port) {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    let (address, zone) = name.split_at(name.find("%25").unwrap_or(name.len()));
    escapes::check(address, Part::Host)?;
    escapes::check(zone, Part::Zone)?;
    let name = [unescaped(address, Part::Host), unescaped(zone, Part::Zone)].concat();
    let name = String::from_utf8_lossy(&name).into_owned();
    let (address, zone) = name.split_once('%').unwrap_or((&name, "zone"));
    if !zone.is_empty() && address.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{name}]{port}"));
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() {
        return Err("invalid IP-literal".to_owned());
    }
    Err(format!("invalid host: {}", address_refusal(&name)))
}

/// Whether `text` is nothing, or a colon with digits or without.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Host, name of the host, port, path and query of `text` under the general reading.
    fn parts_of(text: &str) -> (String, String, String, String, String) {
        let url = Url::with_fragment(text).unwrap_or_else(|reason| panic!("{text}: {reason}"));
        let (name, port) = (url.host_name().to_owned(), url.port().to_owned());
        (url.host, name, port, url.path, url.query)
    }

    #[test]
    fn locators_are_absolute() {
        for (text, reason) in [
            ("https://u:p@ex.com:80/a%20b?k=v#f", None),
            ("/abs", None),
            ("mailto:x", None),
            ("*", None),
            ("//a b/x", None),
            ("../rel", Some("invalid URI for request")),
            ("*x", Some("invalid URI for request")),
            ("", Some("empty url")),
            ("://x", Some("missing protocol scheme")),
            ("https://a:b:c/", Some("invalid port \":b:c\" after host")),
            ("https://a:1:2/", Some("invalid port \":1:2\" after host")),
            ("mongodb://a:1,b:2/", None),
            ("mongodb://a:1,b:c/", Some("invalid port \":c\" after host")),
            ("https://[::1/", Some("missing ']' in host")),
            ("https://a[::1]/", Some("invalid IP-literal")),
            ("https://[1.2.3.4]/", Some("invalid IP-literal")),
            ("https://[::ffff:1.2.3.4]/", None),
            (
                "https://[v1.x]/",
                Some("invalid host: ParseAddr(\"v1.x\"): unexpected character (at \"v1.x\")"),
            ),
            (
                "https://[fe80::1%25]/",
                Some("invalid host: ParseAddr(\"fe80::1%\"): zone must be a non-empty string"),
            ),
            ("https://[fe80::1%25en%20]:1/", None),
            ("https://[fe80::1%25%2f]/", Some("invalid URL escape \"%2f\"")),
            ("https://[::1]x/", Some("invalid port \"x\" after host")),
            ("https://a b/", Some("invalid character \" \" in host name")),
            ("https://x#f", Some("invalid character \"#\" in host name")),
            ("https://x%41/", Some("invalid URL escape \"%41\"")),
            ("https://x%c3%a9/", None),
            ("https://u p@a b/", Some("invalid character \" \" in host name")),
            ("https://u p@x/", Some("net/url: invalid userinfo")),
            ("https://u%zz@x/%zy", Some("invalid URL escape \"%zz\"")),
            ("https://x/%zz", Some("invalid URL escape \"%zz\"")),
            ("https://x/%z", Some("invalid URL escape \"%z\"")),
            ("https://x/%zé", Some("invalid URL escape \"%z\\xc3\"")),
            ("https://x/?%zz", None),
            ("https://x/\u{1}", Some("net/url: invalid control character in URL")),
        ] {
            let told = Url::parse(text).err();
            assert_eq!(told, reason.map(|reason| format!("parse {}: {reason}", quoted(text))), "{text}");
        }
    }

    #[test]
    fn parts_are_those_of_the_text() {
        for (text, host, name, port, path, query) in [
            ("HTTPS://u@[::1]:8443/a b?k=v?w", "[::1]:8443", "::1", "8443", "/a%20b", "k=v?w"),
            ("http://ex.com", "ex.com", "ex.com", "", "", ""),
            ("http://ex.com:/", "ex.com:", "ex.com", "", "/", ""),
            ("//ex.com:1/p", "ex.com:1", "ex.com", "1", "/p", ""),
            ("///p", "", "", "", "///p", ""),
            ("http:////p", "", "", "", "//p", ""),
            ("http:/p", "", "", "", "/p", ""),
            ("http:*?q", "", "", "", "", "q"),
            ("*", "", "", "", "*", ""),
            ("https://[fe80::1%25en%20]:1/", "[fe80::1%en ]:1", "fe80::1%en ", "1", "/", ""),
            ("https://x%c3%a9/%2f%c3%a9", "xé", "xé", "", "/%2f%c3%a9", ""),
            ("https://x/%2f é", "x", "x", "", "//%20%C3%A9", ""),
            ("mongodb://a:1,b:2/", "a:1,b:2", "a:1,b", "2", "/", ""),
            ("https://x/a?k=v#f?g", "x", "x", "", "/a", "k=v"),
        ] {
            let expected = [host, name, port, path, query].map(str::to_owned);
            let found: [String; 5] = parts_of(text).into();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn locators_are_equal_by_their_text() {
        for (one, text) in [
            ("HTTP://u:p@h/a b?#", "http://u:p@h/a%20b?"),
            ("http://u!:p:q@h", "http://u%21:p%3Aq@h"),
            ("http://@h", "http://@h"),
            ("http://x%c3%a9/", "http://x%C3%A9/"),
            ("http://[fe80::1%25en0]/", "http://[fe80::1%25en0]/"),
            ("file:///x", "file:///x"),
            ("file:/x", "file:/x"),
            ("file://", "file:"),
            ("mailto:x y", "mailto:x y"),
            ("/a?q#f g", "/a?q#f%20g"),
            ("/a#f!(g)", "/a#f!(g)"),
            ("//h/x", "//h/x"),
        ] {
            assert_eq!(Url::with_fragment(one).unwrap().text, text, "{one}");
        }
        for (text, reason) in [
            ("/a?k#%zz", "parse \"/a?k#%zz\": invalid URL escape \"%zz\""),
            ("//a b/x#f", "parse \"//a b/x\": invalid character \" \" in host name"),
        ] {
            assert_eq!(Url::with_fragment(text).unwrap_err(), reason);
        }
    }
}
