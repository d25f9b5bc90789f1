//! Headers of requests and answers that are passed on.
//!
//! Owns what never crosses: credentials and identities of clients, headers of a single connection, permissions for web
//! pages of other origins and orders about this server's own, which are not the backend's to give.
//!
//! Invariant: no upgrade to another form of HTTP (h2c, TLS) is passed on. Requests in such a tunnel would be ones that were never authorized, under an identity of
//! the client's choice, on a connection that the backend takes for this server's.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, STRICT_TRANSPORT_SECURITY, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::authn::impersonate;
use crate::authn::websocket::TOKEN_PROTOCOL;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Headers of a single connection.
const OF_CONNECTION: [HeaderName; 10] = [
    CONNECTION,
    HTTP2_SETTINGS,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Beginnings of the names of protocols of an upgrade that are HTTP, or carry it.
const HTTP_PROTOCOLS: [&str; 3] = ["h2", "http", "tls"];

/// Permissions for web pages of other origins, and orders about this server's own: its other addresses, its cookies, its encryption.
const OF_ORIGINS: [HeaderName; 7] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ALT_SVC,
    CLEAR_SITE_DATA,
    STRICT_TRANSPORT_SECURITY,
];

/// Whether a request with these headers asks to leave HTTP. An upgrade to h2c or TLS is none: the request is passed on without it.
pub(crate) fn asks_for_upgrade(headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    let asks = headers.get_all(CONNECTION).iter().any(|value| text(value).contains("upgrade"));
    let protocols: Vec<String> = headers.get_all(UPGRADE).iter().map(text).collect();
    // once: a header of bounded size; few: the names above.
    let mut names = protocols.iter().flat_map(|text| text.split(','));
    let is_http = |protocol: &str| {
        let name = protocol.trim_matches(|char: char| char == '"' || char.is_whitespace());
        HTTP_PROTOCOLS.iter().any(|begin| name.starts_with(begin))
    };
    asks && !protocols.is_empty() && !names.any(is_http)
}

/// The headers of a client's request as the backend gets them. `headers` have no headers of identity any more. `host`: as the
/// client named this server.
pub(crate) fn of_request(
    headers: &HeaderMap,
    host: &str,
    client: Option<IpAddr>,
    forwarded_uri: Option<&str>,
) -> HeaderMap {
    let upgrade = headers.get(UPGRADE).filter(|_| asks_for_upgrade(headers)).cloned();
    let mut passed = headers.clone();
    remove_of_connection(&mut passed);
    for name in [AUTHORIZATION, EXPECT] {
        passed.remove(name);
    }
    let personal: Vec<HeaderName> =
        passed.keys().filter(|name| name.as_str().starts_with(impersonate::PREFIX)).cloned().collect();
    for name in personal {
        passed.remove(name);
    }
    remove_token_protocols(&mut passed);
    if let Some(upgrade) = upgrade {
        passed.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        passed.insert(UPGRADE, upgrade);
    }
    if let Some(client) = client {
        append_client(&mut passed, client);
    }
    insert_text(&mut passed, HOST, host);
    if let Some(uri) = forwarded_uri {
        insert_text(&mut passed, FORWARDED_URI, uri);
    }
    passed
}

/// Removes from the headers of a backend's answer what is not the client's.
pub(crate) fn strip_answer(headers: &mut HeaderMap) {
    // Of both the coding counts (RFC 9112 6.3); a length that stayed would cut the body.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    remove_of_connection(headers);
    for name in OF_ORIGINS {
        headers.remove(name);
    }
}

/// Removes headers of a single connection, those that it names itself among them.
fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named.into_iter().chain(OF_CONNECTION) {
        headers.remove(name);
    }
}

/// Removes subprotocols that carry a bearer token, of whatever product.
fn remove_token_protocols(headers: &mut HeaderMap) {
    let values: Vec<HeaderValue> = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().cloned().collect();
    let is_token = |protocol: &str| protocol.trim().to_ascii_lowercase().starts_with(TOKEN_PROTOCOL);
    let texts: Vec<&str> = values.iter().filter_map(|value| value.to_str().ok()).collect();
    let protocols = || texts.iter().flat_map(|text| text.split(','));
    if !protocols().any(is_token) {
        return;
    }
    let kept: Vec<&str> = protocols().filter(|protocol| !is_token(protocol)).map(str::trim).collect();
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if !kept.is_empty() {
        insert_text(headers, SEC_WEBSOCKET_PROTOCOL, &kept.join(", "));
    }
}

fn append_client(headers: &mut HeaderMap, client: IpAddr) {
    let mut chain: Vec<String> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    chain.push(client.to_canonical().to_string());
    insert_text(headers, FORWARDED_FOR, &chain.join(", "));
}

fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
