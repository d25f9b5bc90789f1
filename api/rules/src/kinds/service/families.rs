//! Address families of a service: which it has, and which cluster addresses it still needs.
//!
//! Owns what an update may leave out (addresses and ports that were allotted before), and the families of a service in a
//! cluster that has one or two of them. A service never changes between one and two families unless `ipFamilyPolicy`
//! says so, whatever families the cluster gains or loses.

use orch_schema::json;
use orch_schema::value::Value;

use super::{EXTERNAL_NAME, HEADLESS, adopt, needs_health_check, spec, uses_node_ports, wants_node_ports};
use crate::validate::address::{Family, parse_loose};
use crate::validate::tree::{Tree, child_mut, items_mut, set, shown, unset};
use crate::validate::{FieldError, FieldErrors, Path};

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Fills in what a client left out: allotted values of `old`, and `clusterIPs` from `clusterIP`.
pub fn complete(old: Option<&Value>, new: &mut Value) {
    let spec = child_mut(new, "spec");
    match old {
        None => {
            let first = spec.text("clusterIP").to_owned();
            if !first.is_empty() && spec.is_empty_at("clusterIPs") {
                set(spec, "clusterIPs", json!([first]));
            }
        }
        Some(old) => {
            keep_allotted(old.at("spec"), spec);
            follow_first_address(old.at("spec"), spec);
        }
    }
}

fn keep_allotted(old: &Value, new: &mut Value) {
    if [old, &*new].iter().all(|spec| spec.text("type") != EXTERNAL_NAME) {
        if new.text("clusterIP").is_empty() {
            adopt(old, new, "clusterIP");
        }
        if new.is_empty_at("clusterIPs") && new.text("clusterIP") == old.text("clusterIP") {
            adopt(old, new, "clusterIPs");
        }
    }
    // A balancer that asks for no node ports gives up those that it leaves out.
    if uses_node_ports(old) && wants_node_ports(new) {
        keep_node_ports(old, new);
    }
    if needs_health_check(old) && needs_health_check(new) && new.is_empty_at("healthCheckNodePort") {
        adopt(old, new, "healthCheckNodePort");
    }
}

/// Ports without a node port get that of the old port of the same name, unless another port has it now.
fn keep_node_ports(old: &Value, new: &mut Value) {
    let given = |spec: &Value| {
        let ports = spec.items("ports").iter().filter_map(|port| port.int("nodePort"));
        ports.filter(|port| *port != 0).collect::<std::collections::BTreeSet<i64>>()
    };
    let (before, taken) = (given(old), given(new));
    let by_name: std::collections::HashMap<&str, i64> = old
        .items("ports")
        .iter()
        .map(|port| (port.text("name"), port.int("nodePort").unwrap_or(0)))
        .collect();
    for port in items_mut(new, "ports") {
        let known = by_name.get(port.text("name")).copied().unwrap_or(0);
        // set: both are.
        let is_used = before.contains(&known) && taken.contains(&known);
        if port.is_empty_at("nodePort") && known != 0 && !is_used {
            set(port, "nodePort", known);
        }
    }
}

/// Clients that know only `clusterIP` change `clusterIPs` with it.
fn follow_first_address(old: &Value, new: &mut Value) {
    let (before, after) = (old.text("clusterIP"), new.text("clusterIP").to_owned());
    let is_list_same = old.texts("clusterIPs") == new.texts("clusterIPs");
    if before == after {
        if new.is_empty_at("clusterIPs") {
            adopt(old, new, "clusterIPs");
        }
    } else if is_list_same && after.is_empty() {
        unset(new, "clusterIPs");
    } else if is_list_same {
        set(new, "clusterIPs", json!([after]));
    }
}

/// Sets `ipFamilyPolicy` and `ipFamilies` of a service in a cluster with the families `available`, its default first.
///
/// # Errors
/// The families that the fields ask for contradict each other, or the cluster has none of them.
pub fn settle_families(
    old: Option<&Value>,
    new: &mut Value,
    available: &[Family],
) -> Result<(), FieldErrors> {
    let old = old.map(|old| old.at("spec"));
    let spec = child_mut(new, "spec");
    if spec.text("type") == EXTERNAL_NAME || old.is_some_and(|old| stays_preferred(old, spec)) {
        return Ok(());
    }
    default_policy(old, spec);
    refuse_if_any(spec::validate_addresses(spec))?;
    let mut errors = FieldErrors::new();
    if let Some(old) = old {
        errors.extend(shrink(old, spec));
    }
    errors.extend(check_single(spec));
    errors.extend(infer_families(spec, available));
    refuse_if_any(errors)?;
    if spec.text("clusterIP") == HEADLESS && spec.is_empty_at("selector") {
        // Its endpoints are made by its owner, so that the families of the cluster do not bind it.
        add_families(spec, available.first().copied(), true);
        return Ok(());
    }
    refuse_if_any(check_available(spec, available))?;
    add_families(spec, available.first().copied(), available.len() > 1);
    Ok(())
}

fn refuse_if_any(errors: FieldErrors) -> Result<(), FieldErrors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Whether a service that prefers two families stays as it is, whatever the cluster has now.
fn stays_preferred(old: &Value, new: &Value) -> bool {
    let prefers = |spec: &Value| spec.text("ipFamilyPolicy") == PREFER;
    let is_prefering = prefers(new) && (prefers(old) || !old.has("ipFamilyPolicy"));
    is_prefering
        && old.text("type") == new.text("type")
        && ["clusterIPs", "ipFamilies"].iter().all(|list| old.texts(list) == new.texts(list))
}

fn default_policy(old: Option<&Value>, spec: &mut Value) {
    if spec.has("ipFamilyPolicy") {
        return;
    }
    let before = old.map_or("", |old| old.text("ipFamilyPolicy"));
    let is_unselective = spec.text("clusterIP") == HEADLESS && spec.is_empty_at("selector");
    let policy = match before {
        "" if is_unselective => REQUIRE,
        "" => SINGLE,
        before => before,
    };
    set(spec, "ipFamilyPolicy", policy);
}

/// An update to one family gives up the second address and family; another that leaves them out is refused.
fn shrink(old: &Value, spec: &mut Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (list, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (before, now) = (old.texts(list), spec.texts(list));
        if spec.text("ipFamilyPolicy") == SINGLE {
            if before == now && now.len() > 1 {
                let first = json!([now[0]]);
                set(spec, list, first);
            }
        } else if !now.is_empty() && now.len() < before.len() {
            errors.push(bad_policy(spec, &format!("must be 'SingleStack' to release the secondary {what}")));
        }
    }
    errors
}

fn check_single(spec: &Value) -> FieldErrors {
    let lists = [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")];
    let two = lists
        .into_iter()
        .filter(|(list, _)| spec.text("ipFamilyPolicy") == SINGLE && spec.texts(list).len() == 2);
    two.map(|(_, what)| {
        let detail =
            format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        bad_policy(spec, &detail)
    })
    .collect()
}

fn bad_policy(spec: &Value, detail: &str) -> FieldError {
    FieldError::invalid_str(Path::new("spec").child("ipFamilyPolicy"), spec.text("ipFamilyPolicy"), detail)
}

/// Takes the families of given addresses that have none yet.
fn infer_families(spec: &mut Value, available: &[Family]) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut families: Vec<String> = spec.texts("ipFamilies").into_iter().map(str::to_owned).collect();
    let list = spec.at("clusterIPs").clone();
    for (at, address) in
        spec.texts("clusterIPs").into_iter().enumerate().take_while(|(_, it)| *it != HEADLESS)
    {
        let Some(family) = parse_loose(address).map(Family::of).filter(|_| at >= families.len()) else {
            continue;
        };
        // few: two families.
        if available.contains(&family) {
            families.push(family.name().to_owned());
        } else {
            let detail = format!("{} is not configured on this cluster", family.name());
            let path = Path::new("spec").child("clusterIPs").index(at);
            errors.push(FieldError::invalid(path, &shown(&list), &detail));
        }
    }
    if errors.is_empty() && !families.is_empty() {
        set(spec, "ipFamilies", json!(families));
    }
    errors
}

fn check_available(spec: &Value, available: &[Family]) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if spec.text("ipFamilyPolicy") == REQUIRE && available.len() < 2 {
        errors.push(bad_policy(spec, "this cluster is not configured for dual-stack services"));
    }
    let path = Path::new("spec").child("ipFamilies");
    for (at, name) in spec.texts("ipFamilies").into_iter().enumerate() {
        // few: two families.
        if !Family::named(name).is_some_and(|family| available.contains(&family)) {
            errors.push(FieldError::invalid_str(path.index(at), name, "not configured on this cluster"));
        }
    }
    errors
}

/// Gives a service without families the cluster's default, and one that wants two the other.
fn add_families(spec: &mut Value, default: Option<Family>, has_both: bool) {
    let first = spec.texts("ipFamilies").first().and_then(|name| Family::named(name)).or(default);
    let Some(first) = first.filter(|_| spec.texts("ipFamilies").len() < 2) else { return };
    let wants_both = has_both && spec.text("ipFamilyPolicy") != SINGLE;
    let families = [first.name(), first.other().name()];
    set(spec, "ipFamilies", json!(families[..if wants_both { 2 } else { 1 }]));
}
