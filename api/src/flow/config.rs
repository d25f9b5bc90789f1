//! The configuration in force: schemas in the order in which they are tried, and levels with their seats.
//!
//! Owns how stored objects become one. The mandatory schemas and levels are there even where none is stored. A level
//! keeps its queues and requests through changes of its object. A schema whose level does not exist is not tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderValue;
use metrics::gauge;
use orch_raft::{Revision, State};
use orch_rules::kinds::flow_control::{CATCH_ALL, EXEMPT, mandatory_flow_schema, mandatory_priority_level};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::gauges::SchemaGauges;
use super::level::{Level, shape_and_shares};
use super::limits::{Bounds, Wanted, bounds, divide};
use super::schema::Schema;
use crate::ambient::Ambient;
use crate::authn::User;
use crate::authz::Attributes;
use crate::follow::Applied;

pub(super) const FLOW_SCHEMAS: &str = "flowschemas.flowcontrol.apiserver";
pub(super) const PRIORITY_LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver";

/// A state's place in the order of configurations: revoked states before it, and the last change of an object.
pub(super) type Version = (u64, Revision);

/// A schema with its level.
pub struct Entry {
    pub(super) schema: Schema,
    pub(super) level: Arc<Level>,
    pub(super) level_uid: Option<HeaderValue>,
    pub(super) gauges: SchemaGauges,
    /// The level's part of all seats, in thousandths.
    pub(super) share_permille: u32,
}

impl Entry {
    /// Name of the level, and its part of all seats in thousandths; `None` for the exempt level.
    pub(crate) fn limited_level(&self) -> Option<(&str, u32)> {
        (!self.level.is_exempt).then_some((self.level.name.as_str(), self.share_permille))
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({} at {})", self.schema.name, self.level.name)
    }
}

/// The configuration as of one version.
pub(super) struct Config {
    pub version: Version,
    /// Ends with `catch-all`.
    entries: Vec<Arc<Entry>>,
    /// In the order of names.
    pub levels: Vec<Placed>,
}

/// A level in the configuration.
pub(super) struct Placed {
    pub level: Arc<Level>,
    bounds: Bounds,
}

/// The version of the configuration in `applied`.
pub(super) fn version(applied: &Applied) -> Version {
    let changed = |storage| applied.state.collection(storage).changed();
    (applied.revocations(), changed(FLOW_SCHEMAS).max(changed(PRIORITY_LEVELS)))
}

impl Config {
    /// The configuration stored in `applied`, with `seats` for all levels. Levels of `before` are taken over.
    pub(super) fn of(
        applied: &Applied,
        seats: u32,
        before: Option<&Config>,
        ambient: &Arc<dyn Ambient>,
    ) -> Config {
        let stored = objects(&applied.state, PRIORITY_LEVELS, mandatory_priority_level);
        let parsed: Vec<_> =
            stored.iter().map(|(name, object)| (name, object, shape_and_shares(object.at("spec")))).collect();
        let shares: Vec<_> = parsed.iter().map(|(_, _, (_, shares))| *shares).collect();
        let bounds = bounds(seats, &shares);
        let mut by_name = BTreeMap::new();
        let mut levels = Vec::new();
        for ((name, object, (shape, shares)), bounds) in parsed.into_iter().zip(bounds) {
            let known = before.and_then(|before| before.find(name));
            let known = known.filter(|level| level.is_exempt == shares.is_exempt);
            let level =
                known.unwrap_or_else(|| Arc::new(Level::new(name, shares.is_exempt, ambient.clone())));
            level.configure(shape, bounds);
            by_name.insert(name.as_str(), (level.clone(), uid(object), bounds));
            levels.push(Placed { level, bounds });
        }
        let schemas = objects(&applied.state, FLOW_SCHEMAS, mandatory_flow_schema);
        let mut entries: Vec<_> = schemas
            .values()
            .filter_map(|object| {
                let schema = Schema::of(object);
                let (level, level_uid, bounds) = by_name.get(schema.level.as_str())?.clone();
                let gauges = SchemaGauges::of(&level.name, &schema.name);
                let share_permille = bounds.nominal.saturating_mul(1000) / seats.max(1);
                Some(Arc::new(Entry { schema, level, level_uid, gauges, share_permille }))
            })
            .collect();
        entries.sort_by(|a, b| {
            let key = |entry: &Entry| (entry.schema.name == CATCH_ALL, entry.schema.precedence);
            key(a).cmp(&key(b)).then_with(|| a.schema.name.cmp(&b.schema.name))
        });
        Config { version: version(applied), entries, levels }
    }

    /// The schema of a request: the first that matches, or `catch-all`.
    pub(super) fn classify(&self, user: &User, asked: Attributes<'_>) -> Option<&Arc<Entry>> {
        // few: the stored schemas, which users with the right to write them choose.
        let found = self.entries.iter().find(|entry| entry.schema.matches(user, asked));
        found.or(self.entries.last())
    }

    /// Divides `seats` anew by the demand since the last call.
    pub(super) fn adjust(&self, seats: u32) {
        let wanted = |placed: &Placed| {
            let (demand, smoothed) = placed.level.take_demand();
            let gauges = &placed.level.gauges;
            gauges.demand_high.set(demand.high());
            gauges.demand_mean.set(demand.mean());
            gauges.demand_deviation.set(demand.deviation());
            gauges.demand_smoothed.set(smoothed);
            gauges.target.set(smoothed.max(f64::from(placed.bounds.lower)));
            Wanted { bounds: placed.bounds, high: demand.high(), smoothed, is_exempt: placed.level.is_exempt }
        };
        let wanted: Vec<_> = self.levels.iter().map(wanted).collect();
        let division = divide(seats, &wanted);
        gauge!("apiserver_flowcontrol_seat_fair_frac").set(division.proportion);
        for (placed, seats) in self.levels.iter().zip(division.limits) {
            placed.level.set_current(seats);
        }
    }

    fn find(&self, name: &str) -> Option<Arc<Level>> {
        let at = self.levels.binary_search_by(|placed| placed.level.name.as_str().cmp(name)).ok()?;
        Some(self.levels[at].level.clone())
    }
}

/// The objects of a collection by name, with the mandatory ones that are not stored. What cannot be read is left out.
fn objects(state: &State, storage: &str, mandatory: fn(&str) -> Option<Value>) -> BTreeMap<String, Value> {
    let fixed = |name: &str| {
        let spec = mandatory(name)?;
        Some((name.to_owned(), json!({"metadata": {"name": name}, "spec": spec})))
    };
    let mut objects: BTreeMap<_, _> = [EXEMPT, CATCH_ALL].into_iter().filter_map(fixed).collect();
    for (name, stored) in state.collection(storage).range_from("") {
        if let Ok(object) = serde_json::from_slice::<Value>(&stored.json) {
            objects.insert(name.to_string(), object);
        }
    }
    objects
}

fn uid(object: &Value) -> Option<HeaderValue> {
    HeaderValue::from_str(object.at("metadata").text("uid")).ok().filter(|uid| !uid.is_empty())
}
