//! Counts and durations of requests, and how many are under way.
//!
//! Owns the table of series by what was asked for. Finding a series hashes names that the server owns and takes no lock;
//! its counters are made when the first request of its kind ends.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use hashbrown::{Equivalent, HashMap};
use http::Method;
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};
use orch_rules::Action;

use crate::registry::Resource;
use crate::request::{Target, Verb};

/// Codes with a counter of their own; others share one, labelled `other`.
const CODES: [u16; 24] = [
    101, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 501, 502,
    503, 504, 0,
];

/// Methods with a series of their own; others are `other`.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const OTHER: &str = "other";

/// Series from which on requests for further custom resources share those of one name: clients choose the names, and a series is
/// kept for ever, at about 5 kB. The built-in resources have some hundred.
const SERIES_MAX: usize = 4000;

/// What a request asked for, in the server's words.
#[derive(Clone, Debug)]
pub struct Measured {
    /// `None`: a path that is no served resource.
    resource: Option<Arc<Resource>>,
    subresource: &'static str,
    verb: &'static str,
    scope: &'static str,
    dry_run: &'static str,
    is_long_running: bool,
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
            is_long_running: verb == Some(Verb::Watch),
        }
    }

    /// The same request, which is passed on by `action` and lasts. A log is a read to the reference, all others connect.
    pub(crate) fn passed_on(self, action: Action) -> Measured {
        let verb = if action == Action::Log { self.verb } else { "CONNECT" };
        Measured { verb, is_long_running: true, ..self }
    }

    /// A request for a path that is no served resource.
    pub fn of_path(method: &Method) -> Measured {
        // few: the methods of HTTP.
        let known = METHODS.iter().find(|known| **known == method.as_str());
        Measured {
            resource: None,
            subresource: "",
            verb: known.copied().unwrap_or(OTHER),
            scope: "",
            dry_run: "",
            is_long_running: false,
        }
    }

    fn key(&self) -> KeyRef<'_> {
        let (group, version, resource) = match &self.resource {
            Some(resource) => (&*resource.group, &*resource.version, &*resource.plural),
            None => ("", "", ""),
        };
        let Measured { subresource, verb, scope, dry_run, .. } = *self;
        KeyRef { group, version, resource, subresource, verb, scope, dry_run }
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
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct KeyRef<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'static str,
    verb: &'static str,
    scope: &'static str,
    dry_run: &'static str,
}

#[derive(Clone)]
struct Key {
    group: String,
    version: String,
    resource: String,
    subresource: &'static str,
    verb: &'static str,
    scope: &'static str,
    dry_run: &'static str,
}

impl Key {
    fn borrow(&self) -> KeyRef<'_> {
        let Key { subresource, verb, scope, dry_run, .. } = *self;
        let (group, version, resource) = (&*self.group, &*self.version, &*self.resource);
        KeyRef { group, version, resource, subresource, verb, scope, dry_run }
    }

    fn labels(&self) -> Vec<Label> {
        vec![
            Label::from_static_parts("verb", self.verb),
            Label::from_static_parts("dry_run", self.dry_run),
            Label::new("group", self.group.clone()),
            Label::new("version", self.version.clone()),
            Label::new("resource", self.resource.clone()),
            Label::from_static_parts("subresource", self.subresource),
            Label::from_static_parts("scope", self.scope),
            Label::from_static_parts("component", "apiserver"),
        ]
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.borrow() == other.borrow()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrow().hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self == key.borrow()
    }
}

/// The handles of one kind of request.
struct Series {
    labels: Vec<Label>,
    /// By the index of the code in [`CODES`].
    codes: [OnceLock<Counter>; CODES.len()],
    duration: Histogram,
    /// The same: no time of a request is spent on webhooks, which the reference leaves out of this one.
    sli_duration: Histogram,
    long_running: OnceLock<Gauge>,
    response_sizes: OnceLock<Histogram>,
}

impl Series {
    fn of(key: &Key) -> Series {
        let labels = key.labels();
        let duration = histogram!("apiserver_request_duration_seconds", labels.clone());
        let sli_duration = histogram!("apiserver_request_sli_duration_seconds", labels.clone());
        let (long_running, response_sizes) = (OnceLock::new(), OnceLock::new());
        Series { labels, codes: Default::default(), duration, sli_duration, long_running, response_sizes }
    }

    fn response_sizes(&self) -> &Histogram {
        // few: the labels of one series.
        let labels = self.labels.iter().filter(|label| label.key() != "dry_run");
        self.response_sizes
            .get_or_init(|| histogram!("apiserver_response_sizes", labels.cloned().collect::<Vec<_>>()))
    }

    fn counter(&self, code: u16) -> &Counter {
        // few: the codes of this server.
        let at = CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1);
        self.codes[at].get_or_init(|| {
            let code = if CODES[at] == 0 { OTHER.to_owned() } else { code.to_string() };
            let mut labels = self.labels.clone();
            labels.push(Label::new("code", code));
            counter!("apiserver_request_total", labels)
        })
    }

    fn long_running(&self) -> &Gauge {
        self.long_running.get_or_init(|| {
            // few: the labels of one series.
            let labels: Vec<Label> =
                self.labels.iter().filter(|label| label.key() != "dry_run").cloned().collect();
            gauge!("apiserver_longrunning_requests", labels)
        })
    }
}

/// The series of all requests.
pub(crate) struct RequestMetrics {
    series: ArcSwap<HashMap<Key, Arc<Series>>>,
    /// Held while a series is added.
    adding: Mutex<()>,
    read_only: Gauge,
    mutating: Gauge,
}

impl RequestMetrics {
    /// No series yet.
    pub(crate) fn new() -> Self {
        RequestMetrics {
            series: ArcSwap::default(),
            adding: Mutex::default(),
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
        Some(InFlight::on(gauge))
    }

    /// Counts a request that was answered with `code`, `micros` microseconds after it arrived. Of a watch, which lasts,
    /// no duration is recorded. `bytes`: the size of the response where it is known, which is recorded of reads.
    pub(crate) fn end(&self, measured: &Measured, code: u16, micros: u64, bytes: Option<u64>) {
        let series = self.series(measured);
        series.counter(code).increment(1);
        if !measured.is_long_running || code >= 400 {
            #[expect(clippy::cast_precision_loss, reason = "a duration of centuries may be rounded")]
            let seconds = micros as f64 / 1e6;
            series.duration.record(seconds);
            series.sli_duration.record(seconds);
        }
        if let (Some(bytes), "GET" | "LIST") = (bytes, measured.verb) {
            #[expect(clippy::cast_precision_loss, reason = "a size beyond 2^53 may be rounded")]
            series.response_sizes().record(bytes as f64);
        }
    }

    /// Reports the number and the size of a resource's objects.
    pub(crate) fn note_objects(group: &str, resource: &str, count: usize, bytes: usize) {
        let labels = [("group", group.to_owned()), ("resource", resource.to_owned())];
        #[expect(clippy::cast_precision_loss, reason = "a number beyond 2^53 may be rounded")]
        let (count, bytes) = (count as f64, bytes as f64);
        gauge!("apiserver_resource_objects", &labels).set(count);
        gauge!("apiserver_resource_size_estimate_bytes", &labels).set(bytes);
    }

    /// Counts a watch as under way until the result is dropped.
    pub(crate) fn long_running(&self, measured: &Measured) -> LongRunning {
        LongRunning(InFlight::on(self.series(measured).long_running()))
    }

    fn series(&self, measured: &Measured) -> Arc<Series> {
        let key = measured.key();
        let known = self.series.load();
        if let Some(series) = known.get(&key) {
            return series.clone();
        }
        let is_custom = measured.resource.as_ref().is_some_and(|resource| resource.record.is_some());
        let is_full = is_custom && known.len() >= SERIES_MAX;
        let key = if is_full { KeyRef { group: "", version: "", resource: OTHER, ..key } } else { key };
        match known.get(&key) {
            Some(series) => series.clone(),
            None => self.add(key),
        }
    }

    /// Adds a series. The table is copied: it has some hundred entries, and a series is added once.
    fn add(&self, key: KeyRef<'_>) -> Arc<Series> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = HashMap::clone(&self.series.load());
        let KeyRef { subresource, verb, scope, dry_run, .. } = key;
        let (group, version, resource) =
            (key.group.to_owned(), key.version.to_owned(), key.resource.to_owned());
        let key = Key { group, version, resource, subresource, verb, scope, dry_run };
        let series = table.entry(key).or_insert_with_key(|key| Arc::new(Series::of(key))).clone();
        self.series.store(Arc::new(table));
        series
    }
}

/// A request under way.
pub(crate) struct InFlight(Gauge);

impl InFlight {
    fn on(gauge: &Gauge) -> InFlight {
        gauge.increment(1.0);
        InFlight(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A watch under way.
pub(crate) struct LongRunning(#[expect(dead_code, reason = "its drop counts")] InFlight);
