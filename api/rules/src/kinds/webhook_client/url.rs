//! URLs of webhooks, as the reference's library splits and refuses them.
//!
//! Owns the split of a URL into its parts, and the texts about one that is none. It makes no connection and knows no rule about
//! which URLs may be called.

/// The parts of a URL. Parts that are not there are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url<'a> {
    /// In lower case.
    pub(crate) scheme: String,
    /// User name and password; `None` without an `@`.
    pub(crate) user: Option<&'a str>,
    /// Host with its port.
    pub(crate) host: &'a str,
    /// Behind the `?`.
    pub(crate) query: &'a str,
    /// Behind the `#`.
    pub(crate) fragment: &'a str,
}

/// Whether `text` is a URL with a scheme and a host.
pub(crate) fn has_scheme_and_host(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

impl<'a> Url<'a> {
    /// The parts of `text`.
    ///
    /// # Errors
    /// The reason why it is no URL, in the words of the reference's library.
    pub(crate) fn parse(text: &'a str) -> Result<Url<'a>, String> {
        // once: one pass over a text.
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        check_escapes(fragment)?;
        if rest == "*" {
            return Ok(Url { fragment, ..Url::default() });
        }
        let (scheme, rest) = split_scheme(rest)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                // An opaque URL, such as `mailto:a`.
                return Ok(Url { scheme, query, fragment, ..Url::default() });
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let has_authority = rest.starts_with("//") && (!scheme.is_empty() || !rest.starts_with("///"));
        let (authority, path) = match rest.strip_prefix("//").filter(|_| has_authority) {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        check_escapes(path)?;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host)?;
        if let Some(user) = user {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(is_plain) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            check_escapes(user)?;
        }
        Ok(Url { scheme, user, host, query, fragment })
    }
}

/// The scheme in lower case, and the rest. Without a scheme the text is all rest.
fn split_scheme(text: &str) -> Result<(String, &str), String> {
    for (at, character) in text.char_indices() {
        match character {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text[..at].to_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

/// Each `%` begins an escape of two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let is_escape =
            text.as_bytes().get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
        if !is_escape {
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape \"{shown}\""));
        }
    }
    Ok(())
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => match rest.find(']') {
            Some(end) => &rest[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let digits = port.strip_prefix(':');
    let is_port = port.is_empty() || digits.is_some_and(|rest| rest.bytes().all(|c| c.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port \"{port}\" after host"));
    }
    let is_refused =
        |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-._~!$&'()*+,;=:[]<>\"%".contains(c);
    // once: one pass over a text.
    match host.chars().find(|&c| is_refused(c)) {
        Some(refused) => Err(format!("invalid character \"{refused}\" in host name")),
        None => check_escapes(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_its_parts() {
        let url = Url::parse("HTTPS://me:pw@[::1]:8443/a?b=c#d").unwrap();
        let parts = (url.scheme.as_str(), url.user, url.host, url.query, url.fragment);
        assert_eq!(parts, ("https", Some("me:pw"), "[::1]:8443", "b=c", "d"));
        let host = |text| Url::parse(text).map(|url| url.host.to_owned());
        assert_eq!(host("https://example.com").as_deref(), Ok("example.com"));
        assert_eq!(host("/path//x").as_deref(), Ok(""));
        assert_eq!(host("https:opaque").as_deref(), Ok(""));
        assert!(has_scheme_and_host("https://a/b") && !has_scheme_and_host("//a/b"));
    }

    #[test]
    fn text_that_is_no_url_is_refused() {
        for (text, reason) in [
            ("a\nb", "net/url: invalid control character in URL"),
            (":x", "missing protocol scheme"),
            ("1:x/y", "first path segment in URL cannot contain colon"),
            ("https://a:b/", "invalid port \":b\" after host"),
            ("https://a b/", "invalid character \" \" in host name"),
            ("https://a/%zz", "invalid URL escape \"%zz\""),
            ("https://[::1", "missing ']' in host"),
        ] {
            assert_eq!(Url::parse(text), Err(reason.to_owned()), "{text}");
        }
    }
}
