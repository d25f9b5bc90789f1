//! Counts and durations of requests, and how many are under way.
//!
//! Owns which series a request belongs to, and how many there are. Finding a series hashes names that the server owns and
//! takes no lock. The series of kinds that are no longer served leave the table when one is added, and when the text is written.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use http::Method;
use metrics::{Gauge, gauge};
use orch_raft::State;

use super::series::{LabelText, Series, write};
use super::table::{Entry, Key, Place, Table, Words};
use crate::registry::{Handle, Registry, Resource};
use crate::request::{Target, Verb};

/// Methods with a series of their own; others are `other`.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const OTHER: &str = "other";

/// Series from which on requests for further custom resources share those of one name: clients choose the names, and a series is up to
/// half a kilobyte, and eight of the page. The built-in resources have some hundred; four for each of 1,000 custom ones take less than
/// 2 MB.
const SERIES_MAX: usize = 4000;

/// Custom resources whose objects are reported: clients choose their names.
const CUSTOM_MEASURED_MAX: usize = 500;

/// The labels of a request, in the server's words.
#[derive(Clone, Debug)]
pub struct Measured {
    /// `None`: a path that is no served resource.
    resource: Option<Arc<Resource>>,
    subresource: &'static str,
    verb: &'static str,
    scope: &'static str,
    dry_run: &'static str,
    component: &'static str,
    is_long_running: bool,
}

/// The component of requests that this server answers, and of those that it passes on to the server of an APIService.
const OWN: &str = "apiserver";
const AGGREGATOR: &str = "aggregator";

/// The end of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The code of the response.
    pub(crate) code: u16,
    /// Microseconds from its arrival.
    pub(crate) micros: u64,
    /// Microseconds of these for which it waited for webhooks and for its seats.
    pub(crate) waited_micros: u64,
    /// The size of the response, where it is known.
    pub(crate) bytes: Option<u64>,
    /// The server ended it early to protect itself: its time was over, or the server that it is passed on to is not there.
    pub(crate) is_terminated: bool,
}

impl Measured {
    /// A request for a served resource. `verb`: `None` for methods without one.
    pub fn of_resource(
        resource: &Arc<Resource>,
        subresource: &'static str,
        verb: Option<Verb>,
        target: &Target,
        is_apply: bool,
        is_dry_run: bool,
    ) -> Measured {
        let scope = match () {
            () if !target.name.is_empty() || verb == Some(Verb::Create) => "resource",
            () if !target.namespace.is_empty() => "namespace",
            () => "cluster",
        };
        Measured {
            resource: Some(resource.clone()),
            subresource,
            verb: verb.map_or(OTHER, |verb| label(verb, is_apply)),
            scope,
            dry_run: if is_dry_run { "All" } else { "" },
            component: OWN,
            is_long_running: verb == Some(Verb::Watch),
        }
    }

    /// The same request, which is passed on and lasts: logs, too, are connections to the reference's metrics.
    pub(crate) fn passed_on(self) -> Measured {
        Measured { verb: "CONNECT", is_long_running: true, ..self }
    }

    /// Verb and resource, as the name of a span: of few.
    pub(crate) fn title(&self) -> String {
        match &self.resource {
            Some(resource) if self.subresource.is_empty() => format!("{} {}", self.verb, resource.storage),
            Some(resource) => format!("{} {}/{}", self.verb, resource.storage, self.subresource),
            None => self.verb.to_owned(),
        }
    }

    /// Whether it is a watch, or a connection to a pod, service or node.
    pub(crate) fn is_long_running(&self) -> bool {
        self.is_long_running
    }

    /// A request for a path that is no served resource.
    pub fn of_path(method: &Method) -> Measured {
        // few: the methods of HTTP.
        let known = METHODS.iter().find(|known| **known == method.as_str());
        Measured {
            resource: None,
            subresource: "",
            verb: known.map_or(OTHER, |known| if *known == "HEAD" { "GET" } else { known }),
            scope: "",
            dry_run: "",
            component: OWN,
            is_long_running: false,
        }
    }

    /// A request that the server of an APIService answers. Its path is a client's text, and no label.
    pub(crate) fn of_aggregated(method: &Method) -> Measured {
        Measured { component: AGGREGATOR, ..Measured::of_path(method) }
    }

    fn key(&self) -> Key<'_> {
        let (group, version, resource) = match &self.resource {
            Some(resource) => (&*resource.group, &*resource.version, &*resource.plural),
            None => ("", "", ""),
        };
        let Measured { subresource, verb, scope, dry_run, component, .. } = *self;
        let words = Words { subresource, verb, scope, dry_run, component };
        Key { group, version, resource, words }
    }
}

/// The verb as the reference's metrics spell it.
fn label(verb: Verb, is_apply: bool) -> &'static str {
    match verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch if is_apply => "APPLY",
        Verb::Patch => "PATCH",
        // The reference derives the label from the method, and the scope tells a collection.
        Verb::Delete | Verb::DeleteCollection => "DELETE",
    }
}

/// The series of all requests.
pub(crate) struct RequestMetrics {
    series: ArcSwap<Table>,
    /// The registry by which series were last taken away when one was added. Locked while the table is replaced.
    tidied_by: Mutex<Weak<Registry>>,
    served: Handle,
    read_only: Gauge,
    mutating: Gauge,
}

impl RequestMetrics {
    /// No series yet. Those of resources stay while `served` serves them.
    pub(crate) fn new(served: Handle) -> Self {
        RequestMetrics {
            series: ArcSwap::default(),
            tidied_by: Mutex::default(),
            served,
            read_only: gauge!("apiserver_current_inflight_requests", "request_kind" => "readOnly"),
            mutating: gauge!("apiserver_current_inflight_requests", "request_kind" => "mutating"),
        }
    }

    /// Counts a request as under way until the result is dropped. Watches are not counted.
    pub(crate) fn begin(&self, verb: Verb) -> Option<InFlight> {
        let gauge = match verb {
            Verb::Watch => return None,
            verb if verb.is_read() => &self.read_only,
            _ => &self.mutating,
        };
        gauge.increment(1.0);
        Some(InFlight(gauge.clone()))
    }

    /// Counts a request that was answered. Of a watch, which lasts, no duration is recorded, and of reads alone the size.
    pub(crate) fn end(&self, measured: &Measured, ended: Ended) {
        let Ended { code, micros, waited_micros, bytes, is_terminated } = ended;
        let entry = self.entry(measured);
        let series = &entry.series;
        series.count(code);
        if is_terminated {
            series.count_terminated(code);
        }
        if !measured.is_long_running || code >= 400 {
            series.observe_micros(micros, waited_micros);
        }
        if let (Some(bytes), "GET" | "LIST") = (bytes, measured.verb) {
            #[expect(clippy::cast_precision_loss, reason = "a size beyond 2^53 may be rounded")]
            series.observe_bytes(bytes as f64);
        }
    }

    /// Counts a watch as under way until the result is dropped.
    pub(crate) fn long_running(&self, measured: &Measured) -> LongRunning {
        let entry = self.entry(measured);
        entry.series.add_long_running(1);
        LongRunning(entry)
    }

    /// Appends the series of requests, and the number and the size of the objects that `state` holds of each served resource, in
    /// its first group and version. `head`: the lines before the series of a name and type.
    pub(crate) fn write(&self, text: &mut String, state: &State, head: impl Fn(&str, &str) -> String) {
        let registry = self.served.load();
        let table = self.tidy(&registry);
        let mut all: Vec<(LabelText, &Series)> =
            table.iter().map(|entry| (entry.labels(), &entry.series)).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        write(text, &all, &head);
        write_deprecated(text, &table, &registry, &head);
        let mut custom = 0..CUSTOM_MEASURED_MAX;
        let is_measured = |of: &&Arc<Resource>| of.record.is_none() || custom.next().is_some();
        let measured: Vec<&Arc<Resource>> = registry.stored_resources().filter(is_measured).collect();
        let mut series = |name: &str, of: fn(&orch_raft::Collection) -> usize| {
            text.push_str(&head(name, "gauge"));
            for resource in &measured {
                let (group, resource, value) =
                    (&resource.group, &resource.plural, of(&state.collection(&resource.storage)));
                // A string takes every write.
                let _ = writeln!(text, "{name}{{group=\"{group}\",resource=\"{resource}\"}} {value}");
            }
        };
        series("apiserver_resource_objects", orch_raft::Collection::len);
        series("apiserver_resource_size_estimate_bytes", orch_raft::Collection::object_bytes);
        let mut series = |name: &str| {
            text.push_str(&head(name, "gauge"));
            for resource in &measured {
                let value = state.collection(&resource.storage).len();
                let _ = writeln!(text, "{name}{{resource=\"{}\"}} {value}", group_resource(resource));
            }
        };
        series("apiserver_storage_objects");
    }

    fn entry(&self, measured: &Measured) -> Arc<Entry> {
        let key = measured.key();
        let known = self.series.load();
        if let Some(entry) = known.find(&key) {
            return entry.clone();
        }
        let is_custom = measured.resource.as_ref().is_some_and(|resource| resource.record.is_some());
        let is_full = is_custom && known.len() >= SERIES_MAX;
        let key = if is_full { Key { group: "", version: "", resource: OTHER, ..key } } else { key };
        match known.find(&key) {
            Some(entry) => entry.clone(),
            None => self.add(&key),
        }
    }

    /// Adds a series. All others are looked up for it once after each change of what is served.
    fn add(&self, key: &Key<'_>) -> Arc<Entry> {
        let registry = self.served.load();
        let (_, entry) = self.replace(|table, tidied_by| {
            if !std::ptr::eq(tidied_by.as_ptr(), Arc::as_ptr(&registry)) {
                table.retain_served(&registry);
                *tidied_by = Arc::downgrade(&registry);
            }
            table.insert(key)
        });
        entry
    }

    /// The table without series of what `registry` does not serve.
    fn tidy(&self, registry: &Registry) -> Arc<Table> {
        let (table, ()) = self.replace(|table, _| table.retain_served(registry));
        table
    }

    /// Replaces the table by what `change` makes of a copy of it, which has a pointer for each series.
    fn replace<T>(&self, change: impl FnOnce(&mut Table, &mut Weak<Registry>) -> T) -> (Arc<Table>, T) {
        let mut tidied_by = self.tidied_by.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.series.load());
        let made = change(&mut table, &mut tidied_by);
        let table = Arc::new(table);
        self.series.store(table.clone());
        (table, made)
    }

    /// The number of series.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.series.load().len()
    }
}

/// The name of a resource with its group, as the reference writes the two in one label.
fn group_resource(resource: &Resource) -> String {
    match &*resource.group {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    }
}

/// Appends a series for each deprecated version of a resource among `asked`, those of requests. The reference's label for the
/// release that removes it stays empty: this program removes none.
fn write_deprecated(
    text: &mut String,
    asked: &Table,
    registry: &Registry,
    head: impl Fn(&str, &str) -> String,
) {
    let is_deprecated = |(Place { group, version, resource }, _): &(&Place, &str)| {
        let resource = registry.find(group, version, resource);
        resource.is_some_and(|resource| resource.strategy.deprecation(registry.brand).is_some())
    };
    let places = asked.iter().map(|entry| (entry.place(), entry.subresource())).filter(is_deprecated);
    let places: BTreeSet<_> =
        places.map(|(Place { group, version, resource }, part)| (group, version, resource, part)).collect();
    let mut series = |name: &str| {
        if !places.is_empty() {
            text.push_str(&head(name, "gauge"));
        }
        for (group, version, resource, subresource) in &places {
            // A string takes every write.
            let _ = writeln!(
                text,
                "{name}{{group=\"{group}\",version=\"{version}\",resource=\"{resource}\",\
                 subresource=\"{subresource}\",removed_release=\"\"}} 1"
            );
        }
    };
    series("apiserver_requested_deprecated_apis");
}

/// A request under way.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A watch under way.
pub(crate) struct LongRunning(Arc<Entry>);

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.series.add_long_running(-1);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use orch_proto::brand::ORCH;

    use super::*;
    use crate::request::{TargetPath, parse_path};

    fn ended(code: u16) -> Ended {
        Ended { code, micros: 1_000, waited_micros: 0, bytes: Some(10), is_terminated: false }
    }

    #[test]
    fn deprecated_versions_show_once_they_are_asked_for() {
        let served = Handle::new(Registry::builtin(&ORCH));
        let metrics = RequestMetrics::new(served.clone());
        let registry = served.load();
        let text = || {
            let mut text = String::new();
            metrics.write(&mut text, &State::default(), |name, kind| format!("# TYPE {name} {kind}\n"));
            text
        };
        let name = "apiserver_requested_deprecated_apis";
        for plural in ["pods", "endpoints"] {
            assert!(!text().contains(name), "{}", text());
            let TargetPath::Resource(target) = parse_path(&format!("/api/v1/{plural}")) else { panic!() };
            let resource = registry.find("", "v1", plural).unwrap();
            metrics.end(
                &Measured::of_resource(resource, "", Some(Verb::List), &target, false, false),
                ended(200),
            );
        }
        let line =
            "{group=\"\",version=\"v1\",resource=\"endpoints\",subresource=\"\",removed_release=\"\"} 1\n";
        assert!(text().contains(&format!("# TYPE {name} gauge\n{name}{line}")), "{}", text());
    }

    #[test]
    fn the_series_of_a_kind_go_with_it() {
        let served = Handle::new(Registry::builtin(&ORCH));
        let metrics = RequestMetrics::new(served.clone());
        let registry = served.load();
        let count = |plural: &str| {
            let resource = registry.find("", "v1", plural).unwrap();
            let TargetPath::Resource(target) = parse_path(&format!("/api/v1/{plural}")) else { panic!() };
            let measured = Measured::of_resource(resource, "", Some(Verb::List), &target, false, false);
            metrics.end(&measured, ended(200));
        };
        let text = || {
            let mut text = String::new();
            metrics.write(&mut text, &State::default(), |name, kind| format!("# TYPE {name} {kind}\n"));
            text
        };
        let without = |storage: &str| {
            served.update(|now| Ok::<_, Infallible>(now.without(storage))).unwrap();
        };
        ["configmaps", "pods", "secrets"].into_iter().for_each(count);
        metrics.end(&Measured::of_path(&Method::GET), ended(404));
        let lines = |text: &str, plural: &str| text.matches(&format!("resource=\"{plural}\"")).count();
        let before = text();
        assert!(lines(&before, "configmaps") > 10 && lines(&before, "pods") > 10, "{before}");
        assert!(before.contains("apiserver_resource_objects{group=\"\",resource=\"configmaps\"} 0\n"));
        assert!(before.contains("apiserver_storage_objects{resource=\"configmaps\"} 0\n"));
        assert!(before.contains("apiserver_storage_objects{resource=\"deployments.apps\"} 0\n"), "{before}");
        without("configmaps");
        let after = text();
        assert_eq!((lines(&after, "configmaps"), metrics.len()), (0, 3), "{after}");
        assert!(lines(&after, "pods") > 10 && after.contains("code=\"404\"} 1\n"));
        without("secrets");
        count("nodes");
        assert_eq!(metrics.len(), 3, "they go also where nobody reads the page");
    }
}
