//! IP addresses and CIDR ranges as text in fields.
//!
//! Owns what counts as an address, the errors for one that is not, and the warnings for one in an unusual form. The
//! reference once read leading zeros (`010.0.0.1`); such text is recognized, to say what is wrong with it, and refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use orch_proto::Brand;
use orch_schema::excerpt::quoted;

use super::{FieldError, Path};

/// Address family of a cluster address, by the names of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `IPv4`.
    V4,
    /// `IPv6`.
    V6,
}

impl Family {
    /// Both, in the order in which errors list them.
    pub const NAMES: [&str; 2] = ["IPv4", "IPv6"];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// The family called `name`.
    pub fn named(name: &str) -> Option<Family> {
        match name {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => Self::NAMES[0],
            Family::V6 => Self::NAMES[1],
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Family {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }

    /// Bits of an address.
    pub fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }
}

/// Bits of an IPv6 address before an IPv4 address that it holds (`::ffff:0:0/96`).
const MAPPED_BITS: u8 = 96;

/// A range of addresses, `ADDRESS/BITS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    /// Parses a range in strict form. Bits behind the prefix may be set; [`Cidr::network`] is without them.
    pub fn parse(text: &str) -> Option<Cidr> {
        let (address, bits) = text.split_once('/')?;
        let is_plain = bits == "0" || bits.starts_with(|first: char| matches!(first, '1'..='9'));
        let bits: u8 = bits.parse().ok().filter(|_| is_plain)?;
        IpNet::new(address.parse().ok()?, bits).ok().map(Cidr)
    }

    /// Parses a range whose address and prefix may have leading zeros.
    pub fn parse_loose(text: &str) -> Option<Cidr> {
        let (address, bits) = text.split_once('/')?;
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| is_number)?;
        IpNet::new(parse_loose(address)?, bits).ok().map(Cidr)
    }

    /// The family of its addresses.
    pub fn family(self) -> Family {
        Family::of(self.address())
    }

    /// Length of the prefix in bits.
    pub fn prefix_bits(self) -> u8 {
        self.0.prefix_len()
    }

    /// Its first address as a number.
    pub fn network(self) -> u128 {
        number_of(self.0.network())
    }

    /// Its last address as a number.
    pub fn last(self) -> u128 {
        number_of(self.0.broadcast())
    }

    /// Whether `address` is one of the range.
    pub fn holds(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether all its addresses are in `whole`, which has others, too.
    pub fn is_strictly_within(self, whole: Cidr) -> bool {
        self.prefix_bits() > whole.prefix_bits() && whole.holds(self.address())
    }

    /// The address as it was written, with bits behind the prefix.
    fn address(self) -> IpAddr {
        self.0.addr()
    }

    /// The range as warnings recommend it: an IPv4 range in IPv6 form is shown as one of IPv4.
    fn recommended(self) -> String {
        let (network, bits) = (self.0.network(), self.prefix_bits());
        let bits = if is_mapped(network) { bits.saturating_sub(MAPPED_BITS) } else { bits };
        format!("{}/{bits}", unmapped(network))
    }
}

/// An address as a number; those of a family compare as their numbers do.
pub fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// The address of `family` with this number; of IPv4 the low 32 bits count.
pub fn address_of(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(u32::try_from(number & u128::from(u32::MAX)).unwrap_or(0))),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

/// Parses an address; leading zeros in the parts of an IPv4 address do not matter.
pub fn parse_loose(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| without_zeros(text)?.parse().ok())
}

/// The text without leading zeros in its dotted part; `None` for text without one.
fn without_zeros(text: &str) -> Option<String> {
    let (head, dotted) = match text.rsplit_once(':') {
        Some((head, dotted)) => (format!("{head}:"), dotted),
        None => (String::new(), text),
    };
    if dotted.split('.').count() != 4 {
        return None;
    }
    let shorten = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    let parts: Vec<String> = dotted.split('.').map(shorten).collect();
    Some(head + &parts.join("."))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The address, of IPv4 where it is an IPv4 address in IPv6 form.
fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(long) => long.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The error of text that is no address in strict form.
pub fn validate_ip(path: &Path, text: &str) -> Option<FieldError> {
    let refuse = |detail: &str| Some(FieldError::invalid_str(path.clone(), text, detail));
    match (text.parse::<IpAddr>(), parse_loose(text)) {
        (Ok(address), _) if is_mapped(address) => refuse("must not be an IPv4-mapped IPv6 address"),
        (Ok(_), _) => None,
        (Err(_), Some(_)) => refuse("must not have leading 0s"),
        (Err(_), None) => refuse("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

/// The error of text that is no address in canonical form, the only one that newer fields take.
pub fn validate_canonical_ip(path: &Path, text: &str) -> Option<FieldError> {
    validate_ip(path, text).or_else(|| {
        let canonical = text.parse::<IpAddr>().ok()?.to_string();
        let detail = format!("must be in canonical form ({canonical:?})");
        (canonical != text).then(|| FieldError::invalid_str(path.clone(), text, &detail))
    })
}

/// The error of an address that no host of a network can have.
pub fn validate_ordinary_ip(path: &Path, text: &str) -> Option<FieldError> {
    let refuse = |detail: &str| Some(FieldError::invalid_str(path.clone(), text, detail));
    let Some(address) = parse_loose(text) else { return refuse("must be a valid IP address") };
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if address.is_unspecified() {
        return refuse(&format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        return refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        return refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        return refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
    None
}

/// The error of text that is no range in strict form.
pub fn validate_cidr(path: &Path, text: &str) -> Option<FieldError> {
    let refuse = |detail: &str| Some(FieldError::invalid_str(path.clone(), text, detail));
    match (Cidr::parse(text), Cidr::parse_loose(text)) {
        (None, None) => refuse("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        (None, Some(_)) => refuse("must not have leading 0s in IP or prefix length"),
        (Some(cidr), _) if is_mapped(cidr.address()) => refuse("must not have an IPv4-mapped IPv6 address"),
        (Some(cidr), _) if cidr.network() != number_of(cidr.address()) => {
            refuse("must not have bits set beyond the prefix length")
        }
        (Some(_), _) => None,
    }
}

/// The warning for an address that is not in its usual form.
pub fn ip_warning(brand: &Brand, path: &Path, text: &str) -> Option<String> {
    let loose = parse_loose(text)?;
    let shown = quoted(text);
    match text.parse::<IpAddr>() {
        Ok(address) if !is_mapped(address) => {
            let canonical = address.to_string();
            (address.is_ipv6() && canonical != text).then(|| {
                format!("{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({canonical:?})")
            })
        }
        _ => Some(format!(
            "{path}: non-standard IP address {shown} will be considered invalid in a future {} release: use \"{}\"",
            brand.product,
            unmapped(loose)
        )),
    }
}

/// The warnings for a range that is not in its usual form. New ranges are refused in most of these forms; stored ones stay.
pub fn cidr_warnings(brand: &Brand, path: &Path, text: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse_loose(text) else { return Vec::new() };
    let (shown, recommended) = (quoted(text), cidr.recommended());
    let mut warnings = Vec::new();
    if cidr.network() != number_of(cidr.address()) {
        let single = format!("{}/{}", unmapped(cidr.address()), cidr.family().bits());
        warnings.push(format!(
            "{path}: CIDR value {shown} is ambiguous in this context (should be {recommended:?} or {single:?}?)"
        ));
    }
    match Cidr::parse(text).filter(|cidr| !is_mapped(cidr.address())) {
        Some(strict) => {
            let canonical = format!("{}/{}", strict.address(), strict.prefix_bits());
            if strict.family() == Family::V6 && canonical != text {
                warnings.push(format!(
                    "{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({canonical:?})"
                ));
            }
        }
        None => warnings.push(format!(
            "{path}: non-standard CIDR value {shown} will be considered invalid in a future {} release: use \
             {recommended:?}",
            brand.product
        )),
    }
    warnings
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    fn detail(error: Option<FieldError>) -> String {
        error
            .map_or(String::new(), |error| error.message.rsplit_once("\": ").unwrap_or_default().1.to_owned())
    }

    #[test]
    fn addresses_are_strict() {
        let path = Path::new("a");
        for (text, expected) in [
            ("10.0.0.1", ""),
            ("2001:db8::1", ""),
            ("x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("1.2.3.", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("fe80::1%eth0", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("010.0.0.1", "must not have leading 0s"),
            ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
        ] {
            assert_eq!(detail(validate_ip(&path, text)), expected, "{text}");
        }
        for (text, expected) in [
            ("10.0.0.1", ""),
            ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
            ("::1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
            ("ff02::1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
            ("x", "must be a valid IP address"),
        ] {
            assert_eq!(detail(validate_ordinary_ip(&path, text)), expected, "{text}");
        }
    }

    #[test]
    fn ranges_are_strict_and_have_ends() {
        let path = Path::new("a");
        for (text, expected) in [
            ("10.0.0.0/8", ""),
            ("::/0", ""),
            ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ("10.0.0.0/+8", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
            ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
            ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ] {
            assert_eq!(detail(validate_cidr(&path, text)), expected, "{text}");
        }
        let strictly_within = |part: &str, whole: &str| {
            Cidr::parse_loose(part).unwrap().is_strictly_within(Cidr::parse_loose(whole).unwrap())
        };
        assert!(strictly_within("10.1.0.0/16", "010.0.0.0/8") && strictly_within("fd00::/9", "::/0"));
        assert!(!strictly_within("10.0.0.0/8", "10.0.0.0/8") && !strictly_within("::/64", "0.0.0.0/0"));
        let range = Cidr::parse("10.0.0.0/24").unwrap();
        assert_eq!(address_of(Family::V4, range.last()), "10.0.0.255".parse::<IpAddr>().unwrap());
        assert!(range.holds("10.0.0.9".parse().unwrap()) && !range.holds("::a00:9".parse().unwrap()));
        assert_eq!(Cidr::parse("::/0").unwrap().last(), u128::MAX);
    }

    #[test]
    fn unusual_forms_are_mentioned() {
        let path = Path::new("a");
        assert_eq!(ip_warning(&ORCH, &path, "2001:db8::1"), None);
        assert_eq!(
            ip_warning(&ORCH, &path, "2001:DB8::1").unwrap(),
            "a: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"
        );
        assert_eq!(
            ip_warning(&ORCH, &path, "010.0.0.1").unwrap(),
            "a: non-standard IP address \"010.0.0.1\" will be considered invalid in a future Orch release: use \"10.0.0.1\""
        );
        let ambiguous = "is ambiguous in this context (should be \"10.2.2.0/24\" or \"10.2.2.8/32\"?)";
        let use_instead = "will be considered invalid in a future Orch release: use \"10.2.2.0/24\"";
        for (text, expected) in [
            ("10.2.2.0/24", vec![]),
            ("2001:db8::/64", vec![]),
            ("x", vec![]),
            (
                "2001:DB8::/64",
                vec![
                    "a: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")"
                        .to_owned(),
                ],
            ),
            ("10.2.2.8/24", vec![format!("a: CIDR value \"10.2.2.8/24\" {ambiguous}")]),
            ("10.2.2.0/024", vec![format!("a: non-standard CIDR value \"10.2.2.0/024\" {use_instead}")]),
            (
                "::ffff:10.2.2.0/120",
                vec![format!("a: non-standard CIDR value \"::ffff:10.2.2.0/120\" {use_instead}")],
            ),
            (
                "010.2.2.8/24",
                vec![
                    format!("a: CIDR value \"010.2.2.8/24\" {ambiguous}"),
                    format!("a: non-standard CIDR value \"010.2.2.8/24\" {use_instead}"),
                ],
            ),
        ] {
            assert_eq!(cidr_warnings(&ORCH, &path, text), expected, "{text}");
        }
    }
}
