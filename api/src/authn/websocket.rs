//! Bearer tokens of browsers, whose WebSockets send no headers but the list of subprotocols.
//!
//! Owns the subprotocol that carries a token, in base64url, and its way into the `Authorization` header, where the methods
//! look for tokens. Headers that go on to another server have neither (`connect::headers`).
//!
//! Invariant: a token that cannot be read becomes a credential that is bad, and never none.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};
use orch_proto::Brand;

/// Prefix of the subprotocol, before the domain of the brand's groups.
pub(crate) const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.";

/// A credential that nobody has: no token has a sign like this.
const UNREADABLE: HeaderValue = HeaderValue::from_static("Bearer \"");

/// Moves the token in the subprotocols of a WebSocket handshake into an `Authorization` header, if there is none.
pub fn move_token(brand: &Brand, headers: &mut HeaderMap) {
    let is_handshake =
        headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if !is_handshake || headers.contains_key(AUTHORIZATION) {
        return;
    }
    let prefix = format!("{TOKEN_PROTOCOL}{}.", brand.group_domain);
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered = offered.flat_map(|value| value.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        offered.partition(|protocol| protocol.starts_with(&prefix));
    let Some(&first) = tokens.first() else { return };
    // As in the reference: one token, beside a protocol for the answer to name.
    let is_alone = tokens.len() == 1 && !others.is_empty();
    let encoded = first.strip_prefix(&prefix).filter(|_| is_alone);
    let token = encoded.and_then(|encoded| BASE64_URL_SAFE_NO_PAD.decode(encoded).ok());
    let value = token.filter(|token| !token.is_empty()).and_then(|token| {
        let mut value = HeaderValue::from_bytes(&[b"Bearer ", token.as_slice()].concat()).ok()?;
        value.set_sensitive(true);
        Some(value)
    });
    headers.insert(AUTHORIZATION, value.unwrap_or(UNREADABLE));
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    /// The `Authorization` header of a handshake with these subprotocols.
    fn moved(protocols: &[&str], more: &[(&'static str, &'static str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
        }
        for (name, value) in more {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        move_token(&ORCH, &mut headers);
        headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_token_among_the_subprotocols_is_a_credential() {
        let token = format!("base64url.bearer.authorization.{}.{}", ORCH.group_domain, "c2VjcmV0");
        let of = |value: &str| Some(value.to_owned());
        assert_eq!(moved(&["v4.channel", &token], &[]), of("Bearer secret"));
        assert_eq!(moved(&[&format!("{token}, v4.channel")], &[]), of("Bearer secret"));
        assert_eq!(moved(&["v4.channel"], &[]), None);
        assert_eq!(moved(&["v4.channel", &token], &[("authorization", "Bearer own")]), of("Bearer own"));
        assert_eq!(moved(&["v4.channel", &token], &[("upgrade", "SPDY/3.1")]), None, "no WebSocket");
        let other = "base64url.bearer.authorization.example.com.c2VjcmV0";
        assert_eq!(moved(&["v4.channel", other], &[]), None, "of another product");
    }

    #[test]
    fn a_token_that_cannot_be_read_is_a_bad_credential() {
        let prefix = format!("base64url.bearer.authorization.{}.", ORCH.group_domain);
        let of = |encoded: &str| format!("{prefix}{encoded}");
        for protocols in [
            vec![of("c2VjcmV0")],
            vec!["v4.channel".to_owned(), of("")],
            vec!["v4.channel".to_owned(), of("!")],
            vec!["v4.channel".to_owned(), of("Cg")],
            vec!["v4.channel".to_owned(), of("c2VjcmV0"), of("c2VjcmV0")],
        ] {
            let protocols: Vec<&str> = protocols.iter().map(String::as_str).collect();
            assert_eq!(moved(&protocols, &[]).as_deref(), Some("Bearer \""), "{protocols:?}");
        }
    }
}
