//! The doors of a development node where every client is the administrator: only programs on this machine that address
//! this server are served.
//!
//! A web page in the developer's browser reaches the plain port too. Browsers state the origin of a request (`Origin`,
//! `Sec-Fetch-Site`) and its target (`Host`, which exposes DNS rebinding). A page of another origin, even of this
//! machine, is refused, and so is a body without a content type, which a page can send without a preflight request.
//! Browsers cannot reach the Unix socket; requests of pages that a proxy forwards to it are refused, too.

use std::net::IpAddr;

use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderValue, Request, StatusCode};
use hyper::body::Body;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A listener that asks for no credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// The plain port on the loopback interface.
    Port,
    /// The Unix socket. The `Host` of a request is not checked.
    Socket,
}

/// Status and text of a refused request.
pub(super) type Refusal = (StatusCode, &'static str);

impl Door {
    /// The refusal of `request`; `None` if it is served.
    pub(super) fn refusal(self, request: &Request<impl Body>) -> Option<Refusal> {
        let forbidden = |text| Some((StatusCode::FORBIDDEN, text));
        let headers = request.headers();
        let in_uri = request.uri().authority().map(Authority::as_str);
        if self == Door::Port && !is_addressed_here(in_uri, headers) {
            return forbidden("this port answers only requests addressed to localhost\n");
        }
        let host = in_uri.or_else(|| headers.get(HOST).and_then(text)).filter(|_| self == Door::Port);
        if !is_from_no_page(headers, host) {
            return forbidden("no requests of web pages of another origin are answered here\n");
        }
        if self == Door::Port && !request.body().is_end_stream() && !headers.contains_key(CONTENT_TYPE) {
            let text = "a body needs a Content-Type here, such as application/json\n";
            return Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        None
    }
}

/// Whether the request names a host, and every host in its URI and `Host` headers is this machine.
fn is_addressed_here(in_uri: Option<&str>, headers: &HeaderMap) -> bool {
    let in_headers = headers.get_all(HOST).iter().map(|host| text(host).unwrap_or_default());
    let mut named = in_uri.into_iter().chain(in_headers).peekable();
    named.peek().is_some() && named.all(is_this_machine)
}

/// Whether the request comes from a program, from the user's own navigation, or from a page of this server at `host`.
fn is_from_no_page(headers: &HeaderMap, host: Option<&str>) -> bool {
    let is_own = |origin: &HeaderValue| {
        let origin = text(origin).and_then(|origin| origin.strip_prefix("http://"));
        origin.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
    };
    let sites = headers.get_all(SEC_FETCH_SITE);
    headers.get_all(ORIGIN).iter().all(is_own)
        && sites.iter().all(|site| matches!(site.as_bytes(), b"none" | b"same-origin"))
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
    use bytes::Bytes;
    use http_body_util::Full;

    use super::*;

    /// Status with which `door` refuses a request for `uri` with `headers`, one `Name: value` each, and `body`.
    fn status(door: Door, uri: &str, headers: &[&str], body: &'static str) -> Option<u16> {
        let mut request = Request::builder().uri(uri);
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
        door.refusal(&request).map(|(status, _)| status.as_u16())
    }

    fn check(uri: &str, headers: &[&str], expected: Option<u16>) {
        assert_eq!(status(Door::Port, uri, headers, ""), expected, "{uri} {headers:?}");
    }

    #[test]
    fn requests_of_this_machine_are_served() {
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.0.0.2"] {
            check("/api", &[&format!("Host: {host}")], None);
        }
        check("http://127.0.0.1:8080/api", &[], None);
    }

    #[test]
    fn requests_to_rebound_names_are_refused() {
        for host in
            ["evil.example:8080", "localhost.evil.example", "10.0.0.1:8080", "", "127.0.0.1.evil.example"]
        {
            check("/api", &[&format!("Host: {host}")], Some(403));
        }
        check("/api", &[], Some(403));
        check("http://evil.example/api", &["Host: localhost"], Some(403));
        check("http://localhost/api", &["Host: evil.example"], Some(403));
        check("/api", &["Host: localhost", "Host: evil.example"], Some(403));
    }

    #[test]
    fn no_origin_but_the_servers_own_is_served() {
        let with = |origin: &str| status(Door::Port, "/api", &["Host: localhost:8080", origin], "");
        assert_eq!(with("Origin: http://localhost:8080"), None);
        for origin in [
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "https://localhost:8080",
            "http://localhost",
            "https://evil.example",
            "http://localhost.evil.example",
            "null",
            "",
        ] {
            assert_eq!(with(&format!("Origin: {origin}")), Some(403), "{origin}");
        }
        let both = ["Host: localhost:80", "Origin: http://localhost:80", "Origin: http://evil.example"];
        check("/api", &both, Some(403));
    }

    #[test]
    fn requests_of_a_browser_for_another_site_are_refused() {
        for (site, expected) in [
            ("none", None),
            ("same-origin", None),
            ("same-site", Some(403)),
            ("cross-site", Some(403)),
            ("news", Some(403)),
        ] {
            let header = format!("Sec-Fetch-Site: {site}");
            check("/api", &["Host: localhost", &header], expected);
            assert_eq!(status(Door::Socket, "/api", &["Host: orch", &header], ""), expected, "{site}");
        }
    }

    #[test]
    fn a_body_has_a_type_at_the_port() {
        let host = "Host: localhost";
        assert_eq!(status(Door::Port, "/api", &[host], "{}"), Some(415));
        assert_eq!(status(Door::Port, "/api", &[host, "Content-Type: application/json"], "{}"), None);
        assert_eq!(status(Door::Port, "/api", &[host], ""), None);
        assert_eq!(status(Door::Socket, "/api", &[host], "{}"), None);
    }

    #[test]
    fn the_socket_goes_by_any_name_and_serves_no_page() {
        for headers in [&["Host: orch"][..], &["Host: evil.example"], &[]] {
            assert_eq!(status(Door::Socket, "/api", headers, ""), None, "{headers:?}");
        }
        let page = ["Host: orch", "Origin: http://orch"];
        assert_eq!(status(Door::Socket, "/api", &page, ""), Some(403));
    }
}
