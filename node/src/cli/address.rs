//! Hosts and addresses on the command line, parsed to the end: what is accepted can be an address or a name.
//!
//! Owns the forms `HOST` and `HOST:PORT`, and `https://HOST[:PORT]` of servers. It looks no name up.

use std::net::{IpAddr, Ipv6Addr};

/// Longest host name and longest label of one (RFC 1035).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Port of an `https://` address without one.
const HTTPS_PORT: u16 = 443;

/// Parses an IP address, without brackets, or a host name.
pub(super) fn parse_host(text: &str) -> Result<String, String> {
    let refused = |reason: &str| Err(format!("{text:?} is not an address or host name{reason}"));
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    // The dot at the end of an absolute name.
    let labels = text.strip_suffix('.').unwrap_or(text);
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.chars().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if labels.len() > NAME_BYTES_MAX || !labels.split('.').all(is_label) {
        let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        return refused(if has_port { " (without a port)" } else { "" });
    }
    // No top-level domain is a number, so that a mistyped IPv4 address is no name (RFC 1123, 2.1).
    if labels.rsplit('.').next().is_some_and(|last| last.chars().all(|c| c.is_ascii_digit())) {
        return refused(": a name does not end in a number, and an IPv4 address has four parts of 0 to 255");
    }
    Ok(text.to_owned())
}

/// Parses a host by which others reach a member: none of those that only listen on every address.
pub(super) fn parse_reachable_host(text: &str) -> Result<String, String> {
    let host = parse_host(text)?;
    refuse_unspecified(text, &host)?;
    Ok(host)
}

/// Parses `HOST:PORT` by which others reach a member.
pub(super) fn parse_reachable_host_port(text: &str) -> Result<String, String> {
    let address = parse_host_port(text)?;
    refuse_unspecified(text, crate::run::host_of(&address))?;
    Ok(address)
}

/// Refuses `0.0.0.0`, `::` and the first written as the second: a certificate or client configuration that names it leads
/// every reader to itself.
fn refuse_unspecified(text: &str, host: &str) -> Result<(), String> {
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) if address.is_unspecified() => Err(format!(
            "{text:?} is every address of a machine, by which no other machine is reached: give the member's own"
        )),
        _ => Ok(()),
    }
}

/// Parses a port to listen on.
pub(super) fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "a port is a number, 0 to 65535".to_owned())
}

/// Parses `HOST:PORT`, with an IPv6 host in brackets.
pub(super) fn parse_host_port(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("{text:?} is not HOST:PORT"))?;
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(bare) if bare.parse::<Ipv6Addr>().is_ok() => {}
        None if !host.is_empty() && !host.contains([':', '[', ']']) => {
            parse_host(host).map_err(|reason| format!("{text:?}: {reason}"))?;
        }
        _ => return Err(format!("{text:?} is not HOST:PORT (an IPv6 address stands in brackets)")),
    }
    let is_number = port.chars().all(|c| c.is_ascii_digit());
    if !is_number || port.parse::<u16>().is_err() {
        return Err(format!("{text:?}: {port:?} is not a port (0 to 65535)"));
    }
    Ok(text.to_owned())
}

/// Parses the address of a server, `HOST:PORT` or `https://HOST[:PORT]`, as `HOST:PORT`.
pub(crate) fn parse_server(text: &str) -> Result<String, String> {
    let Some(rest) = text.strip_prefix("https://") else {
        return match text.split_once("://") {
            Some(_) => Err(format!("{text:?} is not an https:// address")),
            None => parse_host_port(text),
        };
    };
    let address = rest.strip_suffix('/').unwrap_or(rest);
    if address.contains(['/', '?', '#', '@']) {
        return Err(format!("{text:?}: a server is https://HOST:PORT, without a path or a user"));
    }
    let has_port = match address.strip_prefix('[') {
        Some(_) => !address.ends_with(']'),
        None => address.contains(':'),
    };
    if has_port { parse_host_port(address) } else { parse_host_port(&format!("{address}:{HTTPS_PORT}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_or_a_name_to_its_end() {
        for host in ["10.0.0.1", "fd00::1", "a", "a-1.example.com", "a.b.", "1a", "1.2.3.4.example", "_x.y"] {
            assert_eq!(parse_host(host), Ok(host.to_owned()));
        }
        for host in [
            "",
            "1.2.3.4.5",
            "1.2.3",
            "256.1.1.1",
            "10.0.0.1:6443",
            "[::1]",
            "a..b",
            "-a",
            "a-.b",
            "a b",
            "a/b",
            "7",
            "ä",
        ] {
            assert!(parse_host(host).is_err(), "{host}");
        }
        assert!(parse_host("1.2.3.4.5").unwrap_err().contains("four parts"));
        assert!(parse_host("a.example:6443").unwrap_err().ends_with("(without a port)"));
        assert!(parse_host(&"a".repeat(64)).is_err());
    }

    #[test]
    fn every_address_of_a_machine_reaches_no_other() {
        for host in ["0.0.0.0", "::", "0::0", "::ffff:0.0.0.0"] {
            assert!(parse_host(host).is_ok(), "{host}: listened on");
            assert!(parse_reachable_host(host).unwrap_err().contains("every address"), "{host}");
        }
        assert!(parse_reachable_host_port("[::]:1").unwrap_err().contains("every address"));
        assert!(parse_reachable_host_port("0.0.0.0:1").is_err());
        for host in ["10.0.0.1", "::1", "a.example"] {
            assert_eq!(parse_reachable_host(host), Ok(host.to_owned()));
        }
        assert_eq!(parse_reachable_host_port("[fd00::1]:1"), Ok("[fd00::1]:1".to_owned()));
    }

    #[test]
    fn a_port_follows_a_host() {
        for address in ["10.0.0.1:6444", "[fd00::1]:0", "a.example:65535"] {
            assert_eq!(parse_host_port(address), Ok(address.to_owned()));
        }
        for address in [
            "a",
            ":1",
            "fd00::1:6444",
            "[10.0.0.1]:1",
            "[a]:1",
            "a:",
            "a:+1",
            "a:65536",
            "1.2.3.4.5:1",
            "a b:1",
            "[::1:1",
            "::1]:1",
        ] {
            assert!(parse_host_port(address).is_err(), "{address}");
        }
    }

    #[test]
    fn a_server_is_an_address_or_a_url_of_one() {
        for (text, address) in [
            ("a:1", "a:1"),
            ("https://a:1/", "a:1"),
            ("https://a", "a:443"),
            ("https://[fd00::1]", "[fd00::1]:443"),
            ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ] {
            assert_eq!(parse_server(text).as_deref(), Ok(address));
        }
        for text in ["a", "http://a:1", "https://", "https://a:1/x", "https://u@a:1", "https://a:1?x"] {
            assert!(parse_server(text).is_err(), "{text}");
        }
    }
}
