//! The ranges that services get cluster addresses from: those of all ServiceCIDR objects that are ready.
//!
//! The families of the cluster follow from them. The object under the brand's name comes first: the first range in it has
//! the default family.

use std::net::IpAddr;

use orch_proto::Brand;
use orch_rules::validate::address::{Cidr, Family, address_of};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::CIDRS;
use super::draw::Band;
use crate::admission::View;

/// Lower and upper bound of the addresses of a range that are given out last, and their share of it: the reference's.
const RESERVED: (u128, u128, u128) = (16, 256, 16);

/// The ranges of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// The families that the cluster has, its default first.
    pub(crate) families: Vec<Family>,
    ranges: Vec<Cidr>,
}

impl Ranges {
    /// The ranges in `view`; none before the cluster has its default ones.
    pub(crate) fn of(brand: &Brand, view: &View) -> Ranges {
        let objects: Vec<Value> = view.list(CIDRS, "");
        let is_default = |object: &&Value| object.at("metadata").text("name") == brand.api_service;
        let (default, others): (Vec<&Value>, Vec<&Value>) = objects.iter().partition(is_default);
        let ready = default.into_iter().chain(others).filter(|object| is_ready(object));
        let texts = ready.flat_map(|object| object.at("spec").texts("cidrs"));
        let ranges: Vec<Cidr> = texts.filter_map(Cidr::parse).collect();
        let mut families: Vec<Family> = Vec::new();
        for range in &ranges {
            // few: two families.
            if !families.contains(&range.family()) {
                families.push(range.family());
            }
        }
        Ranges { families, ranges }
    }

    /// The ranges of `family`, in the order in which they are used.
    pub(super) fn of_family(&self, family: Family) -> impl Iterator<Item = Cidr> {
        self.ranges.iter().copied().filter(move |range| range.family() == family)
    }

    /// Whether some range has `address` for services.
    pub(crate) fn offers(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| {
            let band = band(*range);
            range.holds(address)
                && (band.first..=band.last).contains(&orch_rules::validate::address::number_of(address))
        })
    }
}

/// An object without the condition is ready, so that no loop of others is needed.
fn is_ready(object: &Value) -> bool {
    if object.at("metadata").has("deletionTimestamp") {
        return false;
    }
    let mut conditions = object.at("status").items("conditions").iter();
    conditions
        .find(|condition| condition.text("type") == "Ready")
        .is_none_or(|ready| ready.text("status") == "True")
}

/// The addresses of a range that services may have: not that of the network, nor that of broadcasts in IPv4.
pub(super) fn band(range: Cidr) -> Band {
    let broadcasts = u128::from(range.family() == Family::V4);
    let (least, most, share) = RESERVED;
    let size = (range.last() - range.network()).saturating_add(1);
    let reserved = if size <= least { 0 } else { (size / share).clamp(least, most) };
    Band { first: range.network().saturating_add(1), last: range.last().saturating_sub(broadcasts), reserved }
}

/// The first address of a range that a service may have.
pub(crate) fn first_address(range: Cidr) -> IpAddr {
    address_of(range.family(), band(range).first)
}
