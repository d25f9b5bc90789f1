//! The plain port's own door: only programs on this machine that mean this server.
//!
//! Everybody who reaches the port is the administrator, and a web page in the developer's browser reaches it too.
//! Browsers say where a request comes from (`Origin`) and whom it is meant for (`Host`, which a rebound name betrays):
//! a request is refused unless both are this machine.

use std::net::IpAddr;

use http::header::{HOST, HeaderMap, ORIGIN};
use http::uri::Authority;
use http::{HeaderValue, Uri};

/// Why a request to the plain port is refused, for the answer's text.
pub(super) fn refusal(uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    let host = uri.authority().map(Authority::as_str).or_else(|| headers.get(HOST).and_then(text));
    if !host.is_some_and(is_this_machine) {
        return Some("this port answers only requests addressed to localhost\n");
    }
    let origin = headers.get(ORIGIN)?;
    let local = text(origin)
        .and_then(|origin| origin.split_once("://"))
        .is_some_and(|(_, host)| is_this_machine(host));
    (!local).then_some("this port answers no requests of web pages from elsewhere\n")
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

fn is_this_machine(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, host: Option<&str>, origin: Option<&str>, served: bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        let found = refusal(&uri.parse().unwrap(), &headers);
        assert_eq!(found.is_none(), served, "{uri} host {host:?} origin {origin:?}: {found:?}");
    }

    #[test]
    fn requests_of_this_machine_are_served() {
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.0.0.2"] {
            check("/api", Some(host), None, true);
        }
        check("http://127.0.0.1:8080/api", None, None, true);
        check("/api", Some("localhost:8080"), Some("http://localhost:3000"), true);
    }

    #[test]
    fn requests_of_web_pages_and_rebound_names_are_refused() {
        for host in
            ["evil.example:8080", "localhost.evil.example", "10.0.0.1:8080", "", "127.0.0.1.evil.example"]
        {
            check("/api", Some(host), None, false);
        }
        check("/api", None, None, false);
        check("http://evil.example/api", Some("localhost"), None, false);
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            check("/api", Some("localhost:8080"), Some(origin), false);
        }
    }
}
