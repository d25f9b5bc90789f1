//! Events that tell users what became of their pods.
//!
//! Owns the form of an event, and which repetitions become a count: the first event of a kind is created, the ones that
//! follow only raise the count of its series. A series is written when it begins, then at most every
//! [`SERIES_WRITTEN`], and once more when nothing was added for [`SERIES_OVER`]. Time is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::core::v1::ObjectReference;
use crate::api::events::v1::Event;
use crate::api::meta::v1::ObjectMeta;
use crate::wall_time::WallTime;

use super::binding::PodRef;

/// The longest note; the server refuses longer ones.
const NOTE_BYTES_MAX: usize = 1024;

/// How often the count of a running series is written.
pub(super) const SERIES_WRITTEN: Duration = Duration::from_secs(30 * 60);

/// After this pause a series is over: the next event of its kind begins a new one.
pub(super) const SERIES_OVER: Duration = Duration::from_secs(6 * 60);

/// Series that are remembered: about 20 MB. Beyond, events that repeat are created anew, and the server expires them.
pub(super) const SERIES_MAX: usize = 65_536;

/// An event before it has a name and a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The object that it happened to.
    pub regarding: ObjectReference,
    /// Another object that took part.
    pub related: Option<ObjectReference>,
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// The reason as one word: `Scheduled`, `FailedScheduling`, `Preempted`, `LeaderElection`.
    pub reason: &'static str,
    /// The action: `Binding`, `Scheduling`, `Preempting`.
    pub action: &'static str,
    /// The text for people.
    pub note: String,
    /// The profile's scheduler name.
    pub controller: Arc<str>,
}

/// A reference to a pod.
pub(super) fn reference(pod: &PodRef) -> ObjectReference {
    ObjectReference {
        kind: "Pod".to_owned(),
        api_version: "v1".to_owned(),
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        resource_version: pod.version.to_string(),
        ..ObjectReference::default()
    }
}

/// `Normal` or `Warning`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Expected, such as a binding.
    Normal,
    /// A failure, such as a pod that fits on no node.
    Warning,
}

/// A write of an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sending {
    /// Create this event.
    Create(Box<Event>),
    /// Write the series of the event called so in this namespace.
    Series { namespace: String, name: String, count: i32, last: WallTime },
}

/// The series that run.
#[derive(Debug)]
pub(super) struct Series {
    host: String,
    running: HashMap<SeriesKey, Running>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SeriesKey {
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    related: String,
    severity: Severity,
    reason: &'static str,
    action: &'static str,
    controller: Arc<str>,
}

#[derive(Debug)]
struct Running {
    namespace: String,
    name: String,
    // 1 for an event that did not repeat.
    count: i32,
    last: WallTime,
    written: WallTime,
    written_count: i32,
}

impl Series {
    /// No series yet. `host` names this process's machine in events.
    pub(super) fn new(host: String) -> Self {
        Self { host, running: HashMap::new() }
    }

    /// The write for `report` at `now`; `None` where only a count rises.
    pub(super) fn add(&mut self, report: Report, now: WallTime) -> Option<Sending> {
        let key = SeriesKey::of(&report);
        if let Some(running) = self.running.get_mut(&key)
            && elapsed(running.last, now) < SERIES_OVER
        {
            running.count = running.count.saturating_add(1);
            running.last = now;
            let is_due = running.count == 2 || elapsed(running.written, now) >= SERIES_WRITTEN;
            return is_due.then(|| running.write(now));
        }
        let event = self.event(report, now);
        if self.running.len() < SERIES_MAX {
            let metadata = event.metadata.clone().unwrap_or_default();
            let (namespace, name) = (metadata.namespace, metadata.name);
            let running = Running { namespace, name, count: 1, last: now, written: now, written_count: 1 };
            self.running.insert(key, running);
        }
        Some(Sending::Create(Box::new(event)))
    }

    /// Forgets series that are over at `now`, and returns the last counts that are to be written.
    pub(super) fn end_old(&mut self, now: WallTime) -> Vec<Sending> {
        let mut last = Vec::new();
        self.running.retain(|_, running| {
            let is_over = elapsed(running.last, now) >= SERIES_OVER;
            if is_over && running.count > running.written_count {
                last.push(running.write(now));
            }
            !is_over
        });
        last
    }

    fn event(&self, report: Report, now: WallTime) -> Event {
        let namespace = match report.regarding.namespace.as_str() {
            "" => "default".to_owned(),
            namespace => namespace.to_owned(),
        };
        // Names of events are unique as long as one object has no two events within a microsecond.
        let unique = u64::try_from(now.0).unwrap_or_default().wrapping_mul(1_000);
        let mut suffix = format!(".{unique:x}");
        let mut name = report.regarding.name.clone();
        suffix.truncate(64);
        name.push_str(&suffix);
        Event {
            metadata: Some(ObjectMeta { name, namespace, ..ObjectMeta::default() }),
            event_time: Some(now.micro_time()),
            reporting_instance: format!("{}-{}", report.controller, self.host),
            reporting_controller: report.controller.to_string(),
            action: report.action.to_owned(),
            reason: report.reason.to_owned(),
            regarding: Some(report.regarding),
            related: report.related,
            note: shortened(report.note),
            r#type: report.severity.as_str().to_owned(),
            ..Event::default()
        }
    }
}

impl SeriesKey {
    fn of(report: &Report) -> Self {
        let regarding = &report.regarding;
        Self {
            kind: regarding.kind.clone(),
            namespace: regarding.namespace.clone(),
            name: regarding.name.clone(),
            uid: regarding.uid.clone(),
            related: report.related.as_ref().map(|related| related.uid.clone()).unwrap_or_default(),
            severity: report.severity,
            reason: report.reason,
            action: report.action,
            controller: report.controller.clone(),
        }
    }
}

impl Running {
    fn write(&mut self, now: WallTime) -> Sending {
        self.written = now;
        self.written_count = self.count;
        Sending::Series {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            count: self.count,
            last: self.last,
        }
    }
}

impl Severity {
    /// The value of the event's `type`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

fn elapsed(since: WallTime, now: WallTime) -> Duration {
    Duration::from_micros(u64::try_from(now.0.saturating_sub(since.0)).unwrap_or_default())
}

/// The note, cut to what the server takes, at the end of a character.
fn shortened(mut note: String) -> String {
    const SUFFIX: &str = " ...";
    if note.len() <= NOTE_BYTES_MAX {
        return note;
    }
    let mut end = NOTE_BYTES_MAX - SUFFIX.len();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.truncate(end);
    note.push_str(SUFFIX);
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(pod: &str, reason: &'static str) -> Report {
        Report {
            regarding: ObjectReference {
                kind: "Pod".to_owned(),
                namespace: "n".to_owned(),
                name: pod.to_owned(),
                uid: format!("uid-{pod}"),
                ..ObjectReference::default()
            },
            related: None,
            severity: Severity::Warning,
            reason,
            action: "Scheduling",
            note: "0/1 nodes are available".to_owned(),
            controller: "default-scheduler".into(),
        }
    }

    fn at(seconds: i64) -> WallTime {
        WallTime(1_700_000_000_000_000 + seconds * 1_000_000)
    }

    fn created(sending: Option<Sending>) -> Event {
        match sending {
            Some(Sending::Create(event)) => *event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_has_its_parts() {
        let mut series = Series::new("host".to_owned());
        let event = created(series.add(report("p", "FailedScheduling"), at(0)));
        let metadata = event.metadata.unwrap();
        assert_eq!((metadata.namespace.as_str(), metadata.name.as_str()), ("n", "p.17979cfe362a0000"));
        assert_eq!(event.reporting_instance, "default-scheduler-host");
        assert_eq!((event.r#type.as_str(), event.reason.as_str()), ("Warning", "FailedScheduling"));
        assert_eq!(event.event_time.unwrap().seconds, 1_700_000_000);
    }

    #[test]
    fn an_object_without_namespace_has_its_events_in_the_default_one() {
        let mut node = report("n", "x");
        node.regarding.namespace = String::new();
        let event = created(Series::new(String::new()).add(node, at(0)));
        assert_eq!(event.metadata.unwrap().namespace, "default");
    }

    #[test]
    fn repetitions_become_a_series_that_is_written_at_its_start_and_then_seldom() {
        let mut series = Series::new(String::new());
        let event = created(series.add(report("p", "x"), at(0)));
        let name = event.metadata.unwrap().name;
        let second = series.add(report("p", "x"), at(1));
        let expected = Sending::Series { namespace: "n".to_owned(), name, count: 2, last: at(1) };
        assert_eq!(second, Some(expected));
        let mut now = 1;
        for _ in 0..5 {
            now += 300;
            assert_eq!(series.add(report("p", "x"), at(now)), None);
        }
        now += 300;
        assert!(matches!(series.add(report("p", "x"), at(now)), Some(Sending::Series { count: 8, .. })));
    }

    #[test]
    fn a_series_that_is_over_is_written_once_more_and_the_next_event_is_new() {
        let mut series = Series::new(String::new());
        series.add(report("p", "x"), at(0));
        series.add(report("p", "x"), at(1));
        series.add(report("p", "x"), at(2));
        assert_eq!(series.end_old(at(300)), []);
        let ended = series.end_old(at(2 + 360));
        assert!(matches!(ended[..], [Sending::Series { count: 3, .. }]), "{ended:?}");
        assert_eq!(series.end_old(at(1_000)), []);
        created(series.add(report("p", "x"), at(1_001)));
    }

    #[test]
    fn a_pause_ends_a_series_even_before_it_is_swept() {
        let mut series = Series::new(String::new());
        series.add(report("p", "x"), at(0));
        created(series.add(report("p", "x"), at(360)));
    }

    #[test]
    fn another_pod_reason_or_incarnation_is_another_series() {
        let mut series = Series::new(String::new());
        series.add(report("p", "x"), at(0));
        created(series.add(report("q", "x"), at(0)));
        created(series.add(report("p", "y"), at(0)));
        let mut again = report("p", "x");
        again.regarding.uid = "new".to_owned();
        created(series.add(again, at(0)));
    }

    #[test]
    fn notes_are_cut_at_a_character() {
        let mut long = report("p", "x");
        long.note = "ä".repeat(1_000);
        let event = created(Series::new(String::new()).add(long, at(0)));
        assert!(event.note.len() <= NOTE_BYTES_MAX && event.note.ends_with("ä ..."), "{}", event.note.len());
    }
}
