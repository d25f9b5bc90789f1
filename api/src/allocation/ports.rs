//! Node ports of one service: those of its ports, and that of its health check.
//!
//! A number is held by one service, whatever its protocols: the ports of one service may share it, as DNS does over UDP
//! and TCP.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::str::FromStr;

use orch_rules::kinds::service::{needs_health_check, node_ports, uses_node_ports, wants_node_ports};
use orch_rules::validate::tree::{Tree, child_mut, items_mut, set};
use orch_rules::validate::{FieldError, Path};
use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::Unfit;
use super::claims::port_claim;
use super::draw::{Band, Dice};
use crate::admission::View;

/// Lower and upper bound of the ports of a range that are given out last, and their share of it: the reference's.
const RESERVED: (u128, u128, u128) = (16, 128, 32);

/// The ports of `--service-node-port-range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePorts {
    first: u16,
    last: u16,
}

impl Default for NodePorts {
    /// The reference's range.
    fn default() -> NodePorts {
        NodePorts { first: 30_000, last: 32_767 }
    }
}

impl FromStr for NodePorts {
    type Err = String;

    /// Parses `FIRST-LAST`, or `FIRST+MORE` as the reference does.
    fn from_str(text: &str) -> Result<NodePorts, String> {
        let wrong = || format!("{text:?} is no range of ports; write it as 30000-32767");
        let (first, rest) = text.split_once(['-', '+']).ok_or_else(wrong)?;
        let parse = |part: &str| part.trim().parse::<u16>().map_err(|_| wrong());
        let (first, rest) = (parse(first)?, parse(rest)?);
        let last = if text.contains('+') { first.checked_add(rest).ok_or_else(wrong)? } else { rest };
        if first == 0 || last < first { Err(wrong()) } else { Ok(NodePorts { first, last }) }
    }
}

impl NodePorts {
    fn range(self) -> RangeInclusive<i64> {
        i64::from(self.first)..=i64::from(self.last)
    }

    fn band(self) -> Band {
        let (least, most, share) = RESERVED;
        let (first, last) = (u128::from(self.first), u128::from(self.last));
        let size = last - first + 1;
        let reserved = if size <= least { 0 } else { (size / share).clamp(least, most) };
        Band { first, last, reserved }
    }
}

/// The ports that one write takes.
struct Taking<'a> {
    range: NodePorts,
    view: &'a View,
    dice: &'a mut Dice,
    /// Those taken so far.
    taken: BTreeSet<i64>,
}

impl Taking<'_> {
    /// Takes the port that the client wants in the field `path`.
    fn take(&mut self, port: i64, path: Path) -> Result<(), Unfit> {
        let refuse =
            |reason: &str| Err(Unfit::Refused(FieldError::invalid(path.clone(), &port.to_string(), reason)));
        let NodePorts { first, last } = self.range;
        if !self.range.range().contains(&port) {
            let reason = "provided port is not in the valid range. The range of valid ports is";
            return refuse(&format!("{reason} {first}-{last}"));
        }
        if !is_free(port, &self.taken, self.view) {
            return refuse("provided port is already allocated");
        }
        self.taken.insert(port);
        Ok(())
    }

    /// Takes any free port.
    fn draw(&mut self) -> Result<i64, Unfit> {
        let (taken, view) = (&self.taken, self.view);
        let is_free = |port: u128| i64::try_from(port).is_ok_and(|port| is_free(port, taken, view));
        let drawn = self.range.band().draw(self.dice, is_free);
        let port = drawn
            .and_then(|port| i64::try_from(port).ok())
            .ok_or_else(|| Unfit::Exhausted("failed to allocate a nodePort: range is full".to_owned()))?;
        self.taken.insert(port);
        Ok(port)
    }
}

fn is_free(port: i64, taken: &BTreeSet<i64>, view: &View) -> bool {
    let is_claimed = || port_claim(port).is_some_and(|key| view.applied().state.object(&key).is_some());
    !taken.contains(&port) && !is_claimed()
}

/// Gives the service the node ports that it needs and has not.
pub(super) fn allot(
    range: NodePorts,
    old: Option<&Value>,
    service: &mut Value,
    view: &View,
    dice: &mut Dice,
) -> Result<(), Unfit> {
    let mut taking = Taking { range, view, dice, taken: BTreeSet::new() };
    let spec = child_mut(service, "spec");
    if uses_node_ports(spec) {
        match old {
            None => allot_new(spec, &mut taking)?,
            Some(old) => allot_changed(old.at("spec"), spec, &mut taking)?,
        }
    }
    if !needs_health_check(spec) || old.is_some_and(|old| needs_health_check(old.at("spec"))) {
        return Ok(());
    }
    let port = match spec.int("healthCheckNodePort").unwrap_or(0) {
        0 => taking.draw()?,
        given => {
            taking.take(given, Path::new("spec").child("healthCheckNodePort"))?;
            given
        }
    };
    set(spec, "healthCheckNodePort", port);
    Ok(())
}

fn path_of(at: usize) -> Path {
    Path::new("spec").child("ports").index(at).child("nodePort")
}

/// The ports of a new service. Ports of one number share a node port unless they ask for different ones.
fn allot_new(spec: &mut Value, taking: &mut Taking<'_>) -> Result<(), Unfit> {
    let wants_all = wants_node_ports(spec);
    let given = spec.items("ports").iter().rev().filter(|port| !port.is_empty_at("nodePort"));
    let given = given.map(|port| (port.int("port").unwrap_or(0), port.int("nodePort").unwrap_or(0)));
    let wanted: HashMap<i64, i64> = given.collect();
    let mut allotted: HashMap<i64, i64> = HashMap::new();
    for (at, port) in items_mut(spec, "ports").iter_mut().numbered() {
        let (number, own) = (port.int("port").unwrap_or(0), port.int("nodePort").unwrap_or(0));
        if own == 0 && !wants_all {
            continue;
        }
        match allotted.get(&number).copied() {
            None => {
                let taken = match wanted.get(&number).copied() {
                    Some(wanted) => taking.take(wanted, path_of(at)).map(|()| wanted)?,
                    None => taking.draw()?,
                };
                allotted.insert(number, taken);
                set(port, "nodePort", taken);
            }
            Some(shared) if own == 0 => set(port, "nodePort", shared),
            Some(shared) if own == shared => {}
            Some(_) => taking.take(own, path_of(at))?,
        }
    }
    Ok(())
}

/// The ports of a changed service: it keeps those that it holds.
fn allot_changed(old: &Value, spec: &mut Value, taking: &mut Taking<'_>) -> Result<(), Unfit> {
    let (held, wants_all) = (node_ports(old), wants_node_ports(spec));
    let mut seen: HashSet<(String, i64)> = HashSet::new();
    for (at, port) in items_mut(spec, "ports").iter_mut().numbered() {
        let mut number = port.int("nodePort").unwrap_or(0);
        if number == 0 && !wants_all {
            continue;
        }
        if number == 0 {
            number = taking.draw()?;
            set(port, "nodePort", number);
        } else if !held.contains(&number) && !taking.taken.contains(&number) {
            taking.take(number, path_of(at))?;
        }
        if !seen.insert((port.text("protocol").to_owned(), number)) {
            return Err(Unfit::Refused(FieldError::duplicate(path_of(at), &number.to_string())));
        }
    }
    Ok(())
}
