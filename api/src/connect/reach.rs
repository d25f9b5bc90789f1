//! Addresses of backends that may be dialled.
//!
//! A node, a pod or a slice of endpoints says where it is, and whoever may write it could name any server. Addresses of this
//! machine, of its link and of metadata services are refused, unless the operator allows them.

use std::net::IpAddr;
use std::str::FromStr;

use crate::egress::{embedded, is_of_this_machine};
use crate::error::ApiError;

/// Addresses that may be dialled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Ranges that the operator allows though they are of this machine or its link.
    pub allowed: Vec<AddressRange>,
}

/// A range of addresses: `127.0.0.0/8`, or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    /// Leading bits that addresses of the range share.
    bits: u32,
}

impl Reach {
    /// Whether `address` may be dialled.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = embedded(address);
        // few: the ranges of one flag.
        !is_of_this_machine(address) || self.allowed.iter().any(|range| range.holds(address))
    }

    /// `addresses`, if all of them may be dialled: a name that also resolves to this machine is not trusted for the others.
    ///
    /// # Errors
    /// `BadRequest` in the reference's words.
    pub(crate) fn checked(&self, addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, ApiError> {
        if addresses.is_empty() {
            return Err(ApiError::BadRequest("no addresses for hostname".to_owned()));
        }
        if addresses.iter().all(|&address| self.allows(address)) {
            return Ok(addresses);
        }
        Err(not_allowed())
    }
}

/// The refusal of an address.
pub(crate) fn not_allowed() -> ApiError {
    ApiError::BadRequest("address not allowed".to_owned())
}

impl AddressRange {
    fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - self.bits;
                shift == 32 || u32::from(own) >> shift == u32::from(other) >> shift
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - self.bits;
                shift == 128 || u128::from(own) >> shift == u128::from(other) >> shift
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address and no range such as 127.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|&bits| bits <= most).ok_or_else(wrong)?,
            None => most,
        };
        Ok(AddressRange { address, bits })
    }
}
