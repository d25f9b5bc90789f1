//! Cluster addresses of one service.

use std::net::IpAddr;

use orch_raft::Key;
use orch_rules::kinds::service::{EXTERNAL_NAME, is_headless};
use orch_rules::validate::address::{Family, address_of, parse_loose};
use orch_rules::validate::tree::{Tree, child_mut, set, shown};
use orch_rules::validate::{FieldError, Path};
use orch_schema::json;
use orch_schema::value::Value;

use super::claims::address_claim;
use super::draw::Dice;
use super::ranges::{Ranges, band};
use super::{ADDRESSES, Unfit};
use crate::admission::View;

/// Gives the service a cluster address of each of its families that it has none of.
pub(super) fn allot(
    old: Option<&Value>,
    service: &mut Value,
    ranges: &Ranges,
    view: &View,
    dice: &mut Dice,
) -> Result<(), Unfit> {
    let spec = child_mut(service, "spec");
    let before = old.map(|old| old.at("spec")).filter(|old| old.text("type") != EXTERNAL_NAME);
    if spec.text("type") == EXTERNAL_NAME || is_headless(spec) || before.is_some_and(is_headless) {
        return Ok(());
    }
    let kept = before.map_or(0, |old| old.texts("clusterIPs").len());
    let families: Vec<Family> = spec.texts("ipFamilies").into_iter().filter_map(Family::named).collect();
    let mut list: Vec<String> = spec.texts("clusterIPs").into_iter().map(str::to_owned).collect();
    if families.len() <= kept {
        return Ok(());
    }
    list.resize(list.len().max(families.len()), String::new());
    let asked = json!(list);
    for (at, family) in families.into_iter().enumerate().skip(kept) {
        let address = match list[at].as_str() {
            "" => draw(family, ranges, view, dice)?,
            given => check(given, ranges, view, &asked)?,
        };
        list[at] = address;
    }
    set(spec, "clusterIP", list[0].as_str());
    set(spec, "clusterIPs", json!(list));
    Ok(())
}

fn draw(family: Family, ranges: &Ranges, view: &View, dice: &mut Dice) -> Result<String, Unfit> {
    let mut free = ranges.of_family(family).filter_map(|range| {
        let number = band(range).draw(dice, |number| !is_taken(address_of(family, number), view))?;
        Some(address_of(family, number).to_string())
    });
    free.next().ok_or_else(|| Unfit::Exhausted("failed to allocate a serviceIP: range is full".to_owned()))
}

fn check(given: &str, ranges: &Ranges, view: &View, asked: &Value) -> Result<String, Unfit> {
    let address = parse_loose(given);
    let reason = match address {
        Some(address) if !ranges.offers(address) => "the provided network does not match the current range",
        Some(address) if is_taken(address, view) => "provided IP is already allocated",
        Some(_) => return Ok(given.to_owned()),
        None => "the provided network does not match the current range",
    };
    let path = Path::new("spec").child("clusterIPs");
    let detail = format!("failed to allocate IP {given}: {reason}");
    Err(Unfit::Refused(FieldError::invalid(path, &shown(asked), &detail)))
}

/// Whether a service or a client has taken the address.
fn is_taken(address: IpAddr, view: &View) -> bool {
    let objects = [address_claim(address), address_key(address)];
    objects.iter().flatten().any(|key| view.applied().state.object(key).is_some())
}

/// The key of the IPAddress object of `address`.
pub(crate) fn address_key(address: IpAddr) -> Option<Key> {
    Key::new(&ADDRESSES.into(), "", &address.to_string()).ok()
}
