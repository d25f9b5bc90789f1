//! Source of a request: addresses and `User-Agent`.
//!
//! Owns the order of addresses, that of the reference: those of `X-Forwarded-For`, then `X-Real-Ip`, then the peer of
//! the connection. A client can claim any address in these headers; only the last one is certain.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HeaderName, USER_AGENT};
use smallvec::SmallVec;

use super::cut::{USER_AGENT_BYTES_MAX, cut};

/// Addresses of one request. Mostly one: the peer's.
pub(super) type Sources = SmallVec<[IpAddr; 1]>;

/// Addresses that an event shows of `X-Forwarded-For`: a chain of proxies is short, and a client may send any number.
const FORWARDERS_MAX: usize = 32;

/// The addresses that a request came through.
pub(super) fn sources(headers: &HeaderMap, peer: Option<IpAddr>) -> Sources {
    const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
    const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let mut found: Sources = text(FORWARDED_FOR).split(',').filter_map(parse).take(FORWARDERS_MAX).collect();
    // few: `FORWARDERS_MAX`.
    if let Some(real) = parse(text(REAL_IP)).filter(|real| !found.contains(real)) {
        found.push(real);
    }
    if let Some(peer) = peer.map(|peer| peer.to_canonical()).filter(|peer| found.last() != Some(peer)) {
        found.push(peer);
    }
    found
}

/// The `User-Agent` of a request, cut at its bound.
pub(super) fn user_agent(headers: &HeaderMap) -> String {
    let Some(agent) = headers.get(USER_AGENT) else { return String::new() };
    cut(&String::from_utf8_lossy(agent.as_bytes()), USER_AGENT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
        let header = |&(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        entries.iter().map(header).collect()
    }

    #[test]
    fn addresses_stand_in_the_order_in_which_a_request_passed_them() {
        let many = vec!["10.0.0.1"; 100].join(",");
        for (entries, peer, expected) in [
            (&[][..], "192.0.2.1", "192.0.2.1"),
            (&[], "::ffff:192.0.2.1", "192.0.2.1"),
            (&[("x-forwarded-for", "10.1.1.1, 10.2.2.2")], "192.0.2.1", "10.1.1.1 10.2.2.2 192.0.2.1"),
            (&[("x-forwarded-for", "unknown,, fe80::1")], "192.0.2.1", "fe80::1 192.0.2.1"),
            (&[("x-forwarded-for", "10.1.1.1, 192.0.2.1")], "192.0.2.1", "10.1.1.1 192.0.2.1"),
            (&[("x-forwarded-for", "192.0.2.1, 10.1.1.1")], "192.0.2.1", "192.0.2.1 10.1.1.1 192.0.2.1"),
            (&[("x-real-ip", "10.1.1.1")], "192.0.2.1", "10.1.1.1 192.0.2.1"),
            (
                &[("x-forwarded-for", "10.1.1.1, 10.2.2.2"), ("x-real-ip", "10.1.1.1")],
                "192.0.2.1",
                "10.1.1.1 10.2.2.2 192.0.2.1",
            ),
        ] {
            let found = sources(&headers(entries), peer.parse().ok());
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), expected, "{entries:?}");
        }
        let found = sources(&headers(&[("x-forwarded-for", &many)]), None);
        assert_eq!(found.len(), FORWARDERS_MAX);
    }

    #[test]
    fn a_long_user_agent_is_cut() {
        assert_eq!(user_agent(&headers(&[])), "");
        assert_eq!(user_agent(&headers(&[("user-agent", "kubectl/1")])), "kubectl/1");
        let fits = "x".repeat(USER_AGENT_BYTES_MAX);
        assert_eq!(user_agent(&headers(&[("user-agent", &fits)])), fits);
        let long = format!("{fits}y");
        assert_eq!(user_agent(&headers(&[("user-agent", &long)])), format!("{fits}...TRUNCATED"));
    }
}
