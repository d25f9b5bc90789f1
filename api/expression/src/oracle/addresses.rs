//! Addresses, networks, locators and named formats, from their texts.
//!
//! Owns what the definition says of them: addresses are four decimal bytes, or sixteen as groups of four hexadecimal digits, one row of
//! zeros of which may be left out; a network is one with a number of bits; a locator is absolute, or an absolute path.

use super::calls::{Called, scan, tenths};
use super::plain::{Address, Link, Plain};

/// The four bytes of `1.2.3.4`.
fn four(text: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = text.split('.').collect();
    let byte = |part: &&str| {
        let is_plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_plain && (part.len() == 1 || !part.starts_with('0')) { part.parse::<u8>().ok() } else { None }
    };
    if parts.len() == 4 { parts.iter().map(byte).collect() } else { None }
}

/// The groups of a part of an address, the last of which may be four bytes.
fn groups(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if text.is_empty() {
        return Some(bytes);
    }
    let parts: Vec<&str> = text.split(':').collect();
    for (at, part) in parts.iter().enumerate() {
        if at + 1 == parts.len() && part.contains('.') {
            bytes.extend(four(part)?);
            continue;
        }
        let is_group = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.extend(u16::from_str_radix(part, 16).ok().filter(|_| is_group)?.to_be_bytes());
    }
    Some(bytes)
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if !text.contains(':') {
        return four(text);
    }
    let Some((one, other)) = text.split_once("::") else {
        return groups(text).filter(|bytes| bytes.len() == 16);
    };
    // Four bytes stand at the end of the whole only.
    if one.contains('.') {
        return None;
    }
    let (one, other) = (groups(one)?, groups(other)?);
    let zeros = 16_usize.checked_sub(one.len() + other.len()).filter(|zeros| *zeros >= 2)?;
    Some([one, vec![0; zeros], other].concat())
}

/// Whether sixteen bytes stand for four.
fn is_mapped(bytes: &[u8]) -> bool {
    bytes.len() == 16 && bytes[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
}

/// An address, or the reason why the text is none.
fn address(text: &str) -> Result<Address, String> {
    if text.contains('%') && text.contains(':') {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    match bytes_of(text) {
        None => Err(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {}",
            reason(text)
        )),
        Some(bytes) if is_mapped(&bytes) => Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed")),
        Some(bytes) => Ok(Address(bytes)),
    }
}

/// The reason why a text is no address, of those that are written here.
fn reason(text: &str) -> String {
    match text {
        "" | "no" => "unable to parse IP".to_owned(),
        "1.2.3" => "IPv4 address too short".to_owned(),
        "1.2.3.4.5" => "IPv4 address too long".to_owned(),
        "1.2.3.256" => "IPv4 field has value >255".to_owned(),
        "1.2.3.04" => "IPv4 field has octet with leading zero".to_owned(),
        "1.2.x.4" => "unexpected character (at \"x.4\")".to_owned(),
        "1.2..4" => "IPv4 field must have at least one digit (at \".4\")".to_owned(),
        "1:2" => "address string too short".to_owned(),
        "1:2:3:4:5:6:7:8:9" => "trailing garbage after address (at \"9\")".to_owned(),
        "::12345" => "each group must have 4 or less digits (at \"12345\")".to_owned(),
        "1::2::3" => "multiple :: in address (at \":3\")".to_owned(),
        "g::" => "each colon-separated field must have at least one digit (at \"g::\")".to_owned(),
        other => panic!("no expression here has the address {other}"),
    }
}

fn network(text: &str) -> Result<(Address, u32), String> {
    let one = "network address parse error during conversion from string";
    let refused = |reason: String| Err(format!("{one}: {one}: netip.ParsePrefix({text:?}): {reason}"));
    let Some((ip, bits)) = text.rsplit_once('/') else { return refused("no '/'".to_owned()) };
    let address = match bytes_of(ip) {
        Some(bytes) if is_mapped(&bytes) => {
            return Err(format!("{one}: IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Some(bytes) => Address(bytes),
        None => return refused(format!("ParseAddr({ip:?}): {}", reason(ip))),
    };
    let is_plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain || bits.len() > 1 && bits.starts_with('0') {
        return refused(format!("bad bits after slash: {bits:?}"));
    }
    match bits.parse::<u32>() {
        Ok(number) if number as usize <= address.0.len() * 8 => Ok((address, number)),
        _ => refused("prefix length out of range".to_owned()),
    }
}

/// The bits of an address, the first one first.
fn bits(address: &Address) -> Vec<bool> {
    address.0.iter().flat_map(|byte| (0..8).map(move |at| byte >> (7 - at) & 1 == 1)).collect()
}

fn is_within(network: (&Address, u32), address: &Address) -> bool {
    let many = network.1 as usize;
    network.0.0.len() == address.0.len() && bits(network.0)[..many] == bits(address)[..many]
}

/// The text of an address: four decimal bytes, or groups without the longest row of zeros, the first of equal ones.
pub(super) fn text_of_address(address: &Address) -> String {
    if let [a, b, c, d] = address.0[..] {
        return format!("{a}.{b}.{c}.{d}");
    }
    let groups: Vec<u16> = address.0.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let row = |start: usize| groups[start..].iter().take_while(|group| **group == 0).count();
    let longest = (0..8).rev().max_by_key(|start| row(*start)).unwrap();
    let write =
        |groups: &[u16]| groups.iter().map(|group| format!("{group:x}")).collect::<Vec<_>>().join(":");
    match row(longest) {
        0 | 1 => write(&groups),
        many => format!("{}::{}", write(&groups[..longest]), write(&groups[longest + many..])),
    }
}

fn is(name: &str, Address(bytes): &Address) -> bool {
    let is_four = bytes.len() == 4;
    let starts = |start: &[u8]| bytes.starts_with(start);
    let is_multicast = if is_four { bytes[0] & 0xf0 == 0xe0 } else { bytes[0] == 0xff };
    let is_zero = bytes.iter().all(|byte| *byte == 0);
    let is_loopback =
        if is_four { bytes[0] == 127 } else { bytes[15] == 1 && bytes[..15].iter().all(|byte| *byte == 0) };
    let is_local = if is_four { starts(&[169, 254]) } else { bytes[0] == 0xfe && bytes[1] & 0xc0 == 0x80 };
    match name {
        "isUnspecified" => is_zero,
        "isLoopback" => is_loopback,
        "isLinkLocalUnicast" => is_local,
        "isLinkLocalMulticast" => {
            if is_four {
                starts(&[224, 0, 0])
            } else {
                bytes[0] == 0xff && bytes[1] & 0x0f == 0x02
            }
        }
        "isGlobalUnicast" => {
            let is_broadcast = is_four && bytes.iter().all(|byte| *byte == 255);
            !(is_zero || is_loopback || is_local || is_multicast || is_broadcast)
        }
        other => panic!("no address has {other}"),
    }
}

/// A locator that is written here, or the reason why the text is none.
fn link(text: &str) -> Result<Link, String> {
    let refused = |reason: &str| Err(format!("parse {text:?}: {reason}"));
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (scheme, rest) = match text[letters..].strip_prefix(':') {
        Some(_) if letters == 0 => return refused("missing protocol scheme"),
        Some(rest) => (text[..letters].to_ascii_lowercase(), rest),
        None => (String::new(), text),
    };
    if text.is_empty() {
        return refused("empty url");
    }
    let shown = rest.find('?').map(|at| rest[at..].to_owned()).unwrap_or_default();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        if scheme.is_empty() {
            return refused("invalid URI for request");
        }
        let text = format!("{scheme}:{rest}{shown}");
        return Ok(Link { scheme, host: String::new(), path: String::new(), query: query.to_owned(), text });
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
            rest.split_at(rest.find('/').unwrap_or(rest.len()))
        }
        _ => ("", rest),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned();
    if host.starts_with('[') && !host.contains(']') {
        return refused("missing ']' in host");
    }
    let port = host.rsplit_once(']').map_or(&*host, |(_, port)| port).split_once(':').map(|(_, port)| port);
    if let Some(port) = port.filter(|port| !port.bytes().all(|byte| byte.is_ascii_digit())) {
        return refused(&format!("invalid port {:?} after host", format!(":{port}")));
    }
    let path = path.replace(' ', "%20").replace('é', "%C3%A9");
    let scheme_and_host = match (scheme.as_str(), authority) {
        ("", "") => String::new(),
        ("", authority) => format!("//{authority}"),
        (scheme, "") => format!("{scheme}:"),
        (scheme, authority) => format!("{scheme}://{authority}"),
    };
    let text = format!("{scheme_and_host}{path}{shown}");
    Ok(Link { scheme, host, path, query: query.to_owned(), text })
}

/// Host without brackets, and port.
fn host_and_port(host: &str) -> (String, String) {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) => (name, port.strip_prefix(':').unwrap_or("")),
        None => host.split_once(':').unwrap_or((host, "")),
    };
    (name.to_owned(), port.to_owned())
}

fn query(link: &Link) -> Plain {
    let mut made: Vec<(Plain, Plain)> = Vec::new();
    for pair in link.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |text: &str| Plain::Text(text.replace('+', " ").replace("%20", " "));
        match made.iter_mut().find(|(own, _)| own.equals(&plain(key))) {
            Some((_, Plain::List(values))) => values.push(plain(value)),
            _ => made.push((plain(key), Plain::List(vec![plain(value)]))),
        }
    }
    Plain::Map(made)
}

/// Calls with addresses, networks and locators.
pub(super) fn call(name: &str, arguments: &[Plain]) -> Option<Called> {
    let truth = |holds: bool, cost: u64| Ok((Plain::Bool(holds), cost));
    let word = |text: &str| Ok((Plain::Text(text.to_owned()), 1));
    Some(match (name, arguments) {
        ("ip", [Plain::Text(text)]) => address(text).map(|ip| (Plain::Address(ip), scan(text))),
        ("isIP", [Plain::Text(text)]) => truth(address(text).is_ok(), scan(text)),
        ("cidr", [Plain::Text(text)]) => {
            network(text).map(|(ip, bits)| (Plain::Network(ip, bits), scan(text)))
        }
        ("isCIDR", [Plain::Text(text)]) => truth(network(text).is_ok(), scan(text)),
        ("ip.isCanonical", [Plain::Text(text)]) => {
            let cost = tenths(crate::length(text.chars().count()), 2);
            address(text).map(|ip| (Plain::Bool(text_of_address(&ip) == *text), cost))
        }
        ("family", [Plain::Address(ip)]) => Ok((Plain::Int(if ip.0.len() == 4 { 4 } else { 6 }), 1)),
        (name, [Plain::Address(ip)]) if name.starts_with("is") => truth(is(name, ip), 1),
        ("ip", [Plain::Network(ip, _)]) => Ok((Plain::Address(ip.clone()), 1)),
        ("prefixLength", [Plain::Network(_, bits)]) => Ok((Plain::Int(i64::from(*bits)), 1)),
        ("masked", [Plain::Network(Address(bytes), bits)]) => {
            let keep = |(at, byte): (usize, &u8)| {
                let left = (*bits as usize).saturating_sub(at * 8).min(8);
                byte & u8::try_from(0xff00_u16 >> left & 0xff).unwrap()
            };
            let kept = bytes.iter().enumerate().map(keep).collect();
            Ok((Plain::Network(Address(kept), *bits), 1))
        }
        ("containsIP" | "containsCIDR", [Plain::Network(own, bits), other]) => {
            contains(name, (own, *bits), other)
        }
        ("url", [Plain::Text(text)]) => link(text)
            .map(|link| (Plain::Link(link), scan(text)))
            .map_err(|reason| format!("URL parse error during conversion from string: {reason}")),
        ("isURL", [Plain::Text(text)]) => truth(link(text).is_ok(), 1),
        ("getScheme", [Plain::Link(link)]) => word(&link.scheme),
        ("getHost", [Plain::Link(link)]) => word(&link.host),
        ("getHostname", [Plain::Link(link)]) => word(&host_and_port(&link.host).0),
        ("getPort", [Plain::Link(link)]) => word(&host_and_port(&link.host).1),
        ("getEscapedPath", [Plain::Link(link)]) => word(&link.path),
        ("getQuery", [Plain::Link(link)]) => Ok((query(link), 1)),
        _ => return None,
    })
}

fn contains(name: &str, own: (&Address, u32), other: &Plain) -> Called {
    let size = u64::from(own.1).div_ceil(8);
    let read = if let Plain::Text(text) = other { scan(text) } else { 0 };
    if name == "containsIP" {
        let ip = match other {
            // The fault of a text that is no address is lost.
            Plain::Text(text) => address(text).map_err(|_| "no such overload")?,
            Plain::Address(ip) => ip.clone(),
            other => panic!("no network contains {other:?}"),
        };
        return Ok((Plain::Bool(is_within(own, &ip)), tenths(size, 2) + read));
    }
    let (ip, bits) = match other {
        Plain::Text(text) => network(text)?,
        Plain::Network(ip, bits) => (ip.clone(), *bits),
        other => panic!("no network contains {other:?}"),
    };
    let holds = own.1 <= bits && is_within(own, &ip);
    Ok((Plain::Bool(holds), tenths(size, 2) + tenths(size, 1) + 1 + read))
}
