//! Series of the store: consensus, log, history, space, proposals and reads of this member, and the tasks of the process.
//!
//! Owns their text, which is made of the member's status and figures when somebody reads the page. Names are this program's own, but
//! for those that dashboards of the reference ask for. Labels have names of members, and words of this program.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use orch_proto::Brand;
use orch_proto::brand::KUBERNETES;
use orch_raft::member::{DurationCounts, Figures, MemberStatus, Pressure, Role, Status};
use orch_raft::transport::Peer;

use super::store::Handle;
use crate::metrics::{Source, head};

/// The series of the store of this node.
pub(super) struct StoreSeries {
    handle: Handle,
    /// The cluster's name.
    cluster: Arc<str>,
    brand: &'static Brand,
}

impl StoreSeries {
    pub(super) fn new(handle: Handle, cluster: Arc<str>, brand: &'static Brand) -> Arc<Self> {
        Arc::new(StoreSeries { handle, cluster, brand })
    }
}

impl Source for StoreSeries {
    fn write(&self, text: &mut String) {
        let (status, figures) = (self.handle.status(), self.handle.figures());
        let mut page = Page(text);
        page.write_consensus(&status, figures.counts.leader_changes);
        page.write_members(&status);
        page.write_writes_and_reads(&figures);
        page.write_sizes(&status, &figures, &self.cluster);
        page.write_tasks(self.brand);
    }
}

/// Whether `leader` can lead: it answers, and so does a majority of the voters. A member keeps the leader of its term until it hears of another
/// one, which without a majority it does not.
fn has_leader(leader: Option<&Peer>, members: &[MemberStatus]) -> bool {
    let Some(leader) = leader else { return false };
    let is_silent = |member: &&MemberStatus| member.answers == Some(false);
    // few: the members of a cluster.
    let leader_is_silent = members.iter().any(|member| member.peer.id == leader.id && is_silent(&member));
    let voters = || members.iter().filter(|member| member.voter);
    let (all, silent) = (voters().count(), voters().filter(is_silent).count());
    !leader_is_silent && (silent == 0 || (all - silent) * 2 > all)
}

/// A page that is being written.
struct Page<'t>(&'t mut String);

/// A series of a metric: its labels, without braces, and its value.
type Value = (String, f64);

/// The value of a metric without labels.
fn only(value: f64) -> [Value; 1] {
    [(String::new(), value)]
}

fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a number beyond 2^53 may be rounded")]
fn number(count: u64) -> f64 {
    count as f64
}

impl Page<'_> {
    fn write_consensus(&mut self, status: &Status, leader_changes: u64) {
        let Status { leader, role, term, last_log, committed, applied, agreement, .. } = status;
        self.counter("orch_agreement_divergences_total", only(number(agreement.divergences)));
        self.gauge("orch_agreement_quarantined", only(flag(agreement.quarantine.is_some())));
        self.gauge("orch_consensus_has_leader", only(flag(has_leader(leader.as_ref(), &status.members))));
        let points = [("appended", *last_log), ("applied", applied.0), ("committed", *committed)];
        let points = points.map(|(point, index)| (format!("point=\"{point}\""), number(index)));
        self.gauge("orch_consensus_index", points);
        self.gauge("orch_consensus_is_leader", only(flag(*role == Role::Leader)));
        self.counter("orch_consensus_leader_changes_total", only(number(leader_changes)));
        self.gauge("orch_consensus_term", only(number(*term)));
    }

    fn write_members(&mut self, status: &Status) {
        let members = &status.members;
        let of = |value: &dyn Fn(&MemberStatus) -> Option<f64>| -> Vec<Value> {
            let values = members.iter().filter_map(|member| Some((member, value(member)?)));
            values.map(|(member, value)| (format!("member=\"{}\"", member.peer.name), value)).collect()
        };
        #[expect(clippy::cast_precision_loss, reason = "a difference of so many milliseconds may be rounded")]
        let skew = of(&|member| member.skew_ms.map(|ms| ms as f64 / 1000.0));
        self.gauge("orch_consensus_member_clock_skew_seconds", skew);
        let heard = of(&|member| member.heard_ago.map(|ago| ago.as_secs_f64()));
        self.gauge("orch_consensus_member_heard_seconds", heard);
        let committed = status.committed;
        let lag = of(&|member| member.applied.map(|applied| number(committed.saturating_sub(applied))));
        self.gauge("orch_consensus_member_lag_entries", lag);
        self.gauge("orch_consensus_member_up", of(&|member| member.answers.map(flag)));
        self.gauge("orch_consensus_member_voter", of(&|member| Some(flag(member.voter))));
    }

    fn write_writes_and_reads(&mut self, figures: &Figures) {
        let Figures { counts, log_syncs, proposals_pending, .. } = figures;
        self.histogram("orch_log_sync_duration_seconds", log_syncs);
        self.histogram("orch_proposal_duration_seconds", &counts.proposals);
        let failed = counts.proposals_failed.iter();
        let failed = failed.map(|(reason, count)| (format!("reason=\"{reason}\""), number(*count)));
        self.counter("orch_proposals_failed_total", failed);
        self.counter("orch_proposals_forwarded_total", only(number(counts.proposals_forwarded)));
        self.gauge("orch_proposals_pending", only(number(*proposals_pending as u64)));
        self.histogram("orch_read_barrier_duration_seconds", &counts.reads);
        self.counter("orch_read_barriers_failed_total", only(number(counts.reads_failed)));
    }

    fn write_sizes(&mut self, status: &Status, figures: &Figures, cluster: &str) {
        let Status { usage, space, applied, oldest, .. } = status;
        let used = space.used.map(|used| (format!("storage_cluster_id=\"{cluster}\""), number(used)));
        self.gauge("apiserver_storage_size_bytes", used);
        let pressure = match space.pressure {
            Pressure::None => 0.0,
            Pressure::Tight => 1.0,
            Pressure::Short => 2.0,
        };
        self.gauge("orch_disk_growth_refused", only(flag(!space.short.is_empty())));
        self.gauge("orch_disk_pressure", only(pressure));
        self.gauge("orch_disk_reserve_bytes", only(number(space.reserve)));
        self.gauge("orch_disk_room_bytes", space.room.map(|room| (String::new(), number(room))));
        let history = [("disk", figures.history_disk_bytes), ("memory", figures.history_memory_bytes)];
        let history = history.map(|(place, bytes)| (format!("place=\"{place}\""), number(bytes)));
        self.gauge("orch_history_bytes", history);
        self.gauge("orch_history_revisions", only(number(applied.0.saturating_sub(oldest.0))));
        self.gauge("orch_log_bytes", only(number(figures.log_bytes)));
        self.counter("orch_slow_disk_handovers_total", only(number(status.slow_disk_handovers)));
        self.counter("orch_snapshots_installed_total", only(number(figures.snapshots_installed)));
        self.gauge("orch_state_bytes", only(number(usage.bytes())));
        self.gauge("orch_state_quota_bytes", usage.quota().map(|quota| (String::new(), number(quota))));
    }

    /// The tasks of the runtime that answers requests. Under the reference's brand they stand for its threads of execution, too,
    /// because dashboards show them.
    fn write_tasks(&mut self, brand: &Brand) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let tasks = number(runtime.metrics().num_alive_tasks() as u64);
        if brand.name == KUBERNETES.name {
            self.gauge("go_goroutines", only(tasks));
        }
        self.gauge("orch_tasks", only(tasks));
    }

    fn gauge(&mut self, name: &str, values: impl IntoIterator<Item = Value>) {
        self.family(name, "gauge", values);
    }

    fn counter(&mut self, name: &str, values: impl IntoIterator<Item = Value>) {
        self.family(name, "counter", values);
    }

    /// The series of a metric; no line where it has no value.
    fn family(&mut self, name: &str, kind: &str, values: impl IntoIterator<Item = Value>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.0.push_str(&head(name, kind));
        }
        for (labels, value) in values {
            // A string takes every write.
            let _ = match &*labels {
                "" => writeln!(self.0, "{name} {value}"),
                labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
            };
        }
    }

    fn histogram(&mut self, name: &str, counts: &DurationCounts) {
        let DurationCounts { within, count, sum } = counts;
        self.0.push_str(&head(name, "histogram"));
        let bounds = within.iter().map(|(bound, total)| (Duration::as_secs_f64(bound).to_string(), *total));
        for (bound, total) in bounds.chain([("+Inf".to_owned(), *count)]) {
            // A string takes every write.
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(self.0, "{name}_sum {}\n{name}_count {count}", sum.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::transport::NodeId;

    use super::*;

    #[test]
    fn families_have_a_head_and_their_values_and_none_without_them() {
        let mut text = String::new();
        let mut page = Page(&mut text);
        page.gauge("orch_disk_room_bytes", None);
        page.gauge("orch_consensus_term", only(7.0));
        page.counter("orch_proposals_failed_total", [("reason=\"unknown\"".to_owned(), 2.0)]);
        let within = vec![(Duration::from_micros(500), 1), (Duration::from_millis(1), 3)];
        let counts = DurationCounts { within, count: 4, sum: Duration::from_millis(2500) };
        page.histogram("orch_log_sync_duration_seconds", &counts);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        let expected = [
            "# TYPE orch_consensus_term gauge",
            "orch_consensus_term 7",
            "# TYPE orch_proposals_failed_total counter",
            "orch_proposals_failed_total{reason=\"unknown\"} 2",
            "# TYPE orch_log_sync_duration_seconds histogram",
            "orch_log_sync_duration_seconds_bucket{le=\"0.0005\"} 1",
            "orch_log_sync_duration_seconds_bucket{le=\"0.001\"} 3",
            "orch_log_sync_duration_seconds_bucket{le=\"+Inf\"} 4",
            "orch_log_sync_duration_seconds_sum 2.5",
            "orch_log_sync_duration_seconds_count 4",
        ];
        assert_eq!(lines, expected);
        assert_eq!(text.matches("# HELP").count(), 3, "{text}");
    }

    #[test]
    fn a_leader_that_is_silent_or_without_a_majority_leads_nobody() {
        let peer = |id: u64| Peer { id: NodeId(id), name: format!("m{id}").into(), address: "h:1".into() };
        let has = |leader: Option<u64>, answers: [Option<bool>; 3]| {
            let member = |(id, answers): (u64, Option<bool>)| MemberStatus {
                peer: peer(id),
                voter: true,
                matched: None,
                feature_level_max: None,
                answers,
                heard_ago: None,
                applied: None,
                behind: None,
                syncs: None,
                skew_ms: None,
                room: None,
                report: None,
            };
            let members: Vec<MemberStatus> = (1..).zip(answers).map(member).collect();
            has_leader(leader.map(peer).as_ref(), &members)
        };
        let [up, down] = [Some(true), Some(false)];
        assert!(has(Some(2), [up, up, up]) && has(Some(2), [up, up, down]));
        assert!(has(Some(2), [up, None, None]), "silence is no answer only once they were asked");
        assert!(!has(None, [up, up, up]) && !has(Some(2), [up, down, up]));
        assert!(!has(Some(1), [up, down, down]), "a leader alone is none");
    }

    #[tokio::test]
    async fn tasks_have_the_reference_s_name_under_its_brand_alone() {
        for (brand, has) in [(&KUBERNETES, true), (&orch_proto::brand::ORCH, false)] {
            let mut text = String::new();
            Page(&mut text).write_tasks(brand);
            assert!(text.contains("\norch_tasks ") && text.contains("\ngo_goroutines ") == has, "{text}");
        }
    }
}
