//! Addresses and networks.
//!
//! Owns what their texts may be: no zones, and no IPv4 address in the form of an IPv6 one.

use std::net::{IpAddr, Ipv6Addr};

use orch_schema::excerpt::quoted;

use super::address_faults::address_refusal;
use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// How faults of networks begin.
const NO_NETWORK: &str = "network address parse error during conversion from string";

/// The address `text`, or the reason why it is none.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') && zoned(text) {
        return Err(format!("IP address {} with zone value is not allowed", quoted(text)));
    }
    let parsed: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {} parse error during conversion from string: {}",
            quoted(text),
            address_refusal(text)
        )
    })?;
    match parsed {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text)))
        }
        other => Ok(other),
    }
}

/// Whether the text is an address with a zone.
fn zoned(text: &str) -> bool {
    let split = text.split_once('%');
    split.is_some_and(|(address, zone)| !zone.is_empty() && address.parse::<Ipv6Addr>().is_ok())
}

/// The network `text`: an address, and the bits of its prefix without a sign or leading zeros; or the reason why it is none.
fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let refused = |reason: &str| {
        // The reference says it twice.
        Err(format!("{NO_NETWORK}: {NO_NETWORK}: netip.ParsePrefix({}): {reason}", quoted(text)))
    };
    let Some((before, bits)) = text.rsplit_once('/') else { return refused("no '/'") };
    if zoned(before) {
        return refused("IPv6 zones cannot be present in a prefix");
    }
    let Ok(address) = before.parse::<IpAddr>() else { return refused(&address_refusal(before)) };
    let is_number = bits.bytes().all(|byte| byte.is_ascii_digit()) && !bits.is_empty();
    if !is_number || bits.len() > 1 && bits.starts_with('0') {
        return refused(&format!("bad bits after slash: {}", quoted(bits)));
    }
    match bits.parse::<u8>() {
        Ok(bits) if u32::from(bits) <= width(address) => match address {
            IpAddr::V6(mapped) if mapped.to_ipv4_mapped().is_some() => {
                Err(format!("{NO_NETWORK}: IPv4-mapped IPv6 address {} is not allowed", quoted(text)))
            }
            address => Ok((address, bits)),
        },
        _ => refused("prefix length out of range"),
    }
}

/// Bits of an address.
fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The number that an address is.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The first `bits` bits of an address.
fn prefix(address: IpAddr, bits: u8) -> u128 {
    let shift = width(address).saturating_sub(u32::from(bits));
    number(address).checked_shr(shift).unwrap_or(0)
}

/// The text of a network.
pub(super) fn text(address: IpAddr, bits: u8) -> String {
    format!("{address}/{bits}")
}

fn contains(address: IpAddr, bits: u8, other: IpAddr) -> bool {
    address.is_ipv4() == other.is_ipv4() && prefix(address, bits) == prefix(other, bits)
}

pub(crate) fn ip<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Text(text)] => parse_ip(text).map(Val::Ip).map_err(fault),
        [Val::Cidr(address, _)] => Ok(Val::Ip(*address)),
        _ => Err(no_overload()),
    }
}

pub(crate) fn is_ip<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(parse_ip(text).is_ok()))
}

pub(crate) fn is_canonical<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    parse_ip(text).map(|address| Val::Bool(address.to_string() == **text)).map_err(fault)
}

fn address<'v>(arguments: &[Val<'v>]) -> Result<IpAddr, Failure> {
    match arguments {
        [Val::Ip(address)] => Ok(*address),
        _ => Err(no_overload()),
    }
}

pub(crate) fn family<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Int(if address(arguments)?.is_ipv4() { 4 } else { 6 }))
}

pub(crate) fn is_unspecified<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(address(arguments)?.is_unspecified()))
}

pub(crate) fn is_loopback<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(address(arguments)?.is_loopback()))
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => Ipv6Addr::is_unicast_link_local(&address),
    }
}

pub(crate) fn is_link_local_multicast<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(link_local_multicast(address(arguments)?)))
}

pub(crate) fn is_link_local_unicast<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(link_local(address(arguments)?)))
}

pub(crate) fn is_global_unicast<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let address = address(arguments)?;
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let is_special = address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || link_local(address)
        || is_broadcast;
    Ok(Val::Bool(!is_special))
}

pub(crate) fn cidr<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    parse_cidr(text).map(|(address, bits)| Val::Cidr(address, bits)).map_err(fault)
}

pub(crate) fn is_cidr<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(parse_cidr(text).is_ok()))
}

pub(crate) fn contains_ip<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (address, bits, other) = match arguments {
        [Val::Cidr(address, bits), Val::Ip(other)] => (*address, *bits, *other),
        // The reference loses the fault of a text that is no address.
        [Val::Cidr(address, bits), Val::Text(text)] => {
            (*address, *bits, parse_ip(text).map_err(|_| no_overload())?)
        }
        _ => return Err(no_overload()),
    };
    Ok(Val::Bool(contains(address, bits, other)))
}

pub(crate) fn contains_cidr<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (address, bits, (other, others)) = match arguments {
        [Val::Cidr(address, bits), Val::Cidr(other, others)] => (*address, *bits, (*other, *others)),
        [Val::Cidr(address, bits), Val::Text(text)] => (*address, *bits, parse_cidr(text).map_err(fault)?),
        _ => return Err(no_overload()),
    };
    Ok(Val::Bool(bits <= others && contains(address, bits, other)))
}

pub(crate) fn masked<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Cidr(address, bits)] = arguments else { return Err(no_overload()) };
    let shift = width(*address).saturating_sub(u32::from(*bits));
    let kept = prefix(*address, *bits).checked_shl(shift).unwrap_or(0);
    let first = match address {
        IpAddr::V4(_) => IpAddr::V4(u32::try_from(kept).unwrap_or(0).into()),
        IpAddr::V6(_) => IpAddr::V6(kept.into()),
    };
    Ok(Val::Cidr(first, *bits))
}

pub(crate) fn prefix_length<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Cidr(_, bits)] = arguments else { return Err(no_overload()) };
    Ok(Val::Int(i64::from(*bits)))
}
