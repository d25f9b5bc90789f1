//! The queue against a slow, obvious model: a list of pods that is looked through for everything.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::*;
use crate::queue::event::Subject;
use crate::queue::hints::Hint;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const PLUGINS: [Plugin; 4] =
    [Plugin::NodePorts, Plugin::NodeAffinity, Plugin::DynamicResources, Plugin::PodTopologySpread];

#[derive(Clone, Debug)]
enum Step {
    Add { name: usize, priority: i32, port: i32, is_gated: bool },
    Update { name: usize, priority: i32, port: i32, is_gated: bool },
    Delete { name: usize },
    Pop,
    Reject { name: usize, plugin: usize, is_pending: bool },
    Fail { name: usize },
    Done { name: usize },
    Event { kind: usize, port: i32 },
    Activate { name: usize },
    Refuse { name: usize, refuses: bool },
    Wait { milliseconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..NAMES.len();
    let pod = || (name(), -1..2_i32, 80..82_i32, prop::bool::weighted(0.2));
    let step = prop_oneof![
        4 => pod().prop_map(|(name, priority, port, is_gated)| Step::Add { name, priority, port, is_gated }),
        2 => pod().prop_map(|(name, priority, port, is_gated)| Step::Update { name, priority, port, is_gated }),
        1 => name().prop_map(|name| Step::Delete { name }),
        6 => Just(Step::Pop),
        4 => (name(), 0..PLUGINS.len(), any::<bool>())
            .prop_map(|(name, plugin, is_pending)| Step::Reject { name, plugin, is_pending }),
        2 => name().prop_map(|name| Step::Fail { name }),
        1 => name().prop_map(|name| Step::Done { name }),
        4 => (0..4_usize, 80..82_i32).prop_map(|(kind, port)| Step::Event { kind, port }),
        1 => name().prop_map(|name| Step::Activate { name }),
        1 => (name(), any::<bool>()).prop_map(|(name, refuses)| Step::Refuse { name, refuses }),
        3 => prop_oneof![0..3000_u64, 290_000..310_000_u64].prop_map(|milliseconds| Step::Wait { milliseconds }),
    ];
    prop::collection::vec(step, 1..60)
}

fn shape(port: i32, is_gated: bool) -> Arc<PodShape> {
    let mut shape = PodShape::clone(&with_port(port));
    if is_gated {
        shape.gates.push("gate".to_owned());
    }
    Arc::new(shape)
}

fn event(kind: usize, port: i32) -> ClusterEvent {
    match kind {
        0 => pod_gone(&with_port(port)),
        1 => ClusterEvent::node_added(Arc::new(NodeFacts::default())),
        2 => ClusterEvent::device_class(None, &crate::api::resource::v1::DeviceClass::default()).unwrap(),
        _ => ClusterEvent::wildcard(),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Where {
    Active,
    Backoff,
    Rejected,
    Gated,
    /// With the events since the pop.
    Flying(usize),
}

#[derive(Clone, Debug)]
struct Known {
    facts: Arc<PodFacts>,
    age: usize,
    place: Where,
    queued_at: Duration,
    rejections: u32,
    errors: u32,
    until: Option<Duration>,
    unschedulable: Rejectors,
    pending: Rejectors,
    gate: Option<Plugin>,
    is_deleted: bool,
}

impl Known {
    fn rejectors(&self) -> Rejectors {
        self.unschedulable.union(self.pending)
    }
}

#[derive(Default)]
struct Model {
    pods: Vec<Known>,
    events: Vec<ClusterEvent>,
    ages: usize,
    now: Duration,
    refused: BTreeSet<String>,
}

fn floor(time: Duration) -> Duration {
    seconds(time.as_secs())
}

impl Model {
    fn find(&mut self, name: &str) -> Option<usize> {
        self.pods.iter().position(|pod| &*pod.facts.name == name)
    }

    fn add(&mut self, facts: Arc<PodFacts>) {
        if let Some(at) = self.find(&facts.name) {
            return self.update(at, facts);
        }
        self.ages += 1;
        let known = Known {
            facts,
            age: self.ages,
            place: Where::Active,
            queued_at: self.now,
            rejections: 0,
            errors: 0,
            until: None,
            unschedulable: Rejectors::NONE,
            pending: Rejectors::NONE,
            gate: None,
            is_deleted: false,
        };
        self.pods.push(known);
        let at = self.pods.len() - 1;
        self.go(at, Where::Active);
    }

    fn update(&mut self, at: usize, facts: Arc<PodFacts>) {
        let old = std::mem::replace(&mut self.pods[at].facts, facts.clone());
        self.pods[at].is_deleted = false;
        let Some(own) = ClusterEvent::own(old, facts) else { return };
        match self.pods[at].place {
            Where::Flying(_) => self.events.push(own),
            Where::Rejected | Where::Gated => self.wake(at, &own),
            Where::Active | Where::Backoff => {}
        }
    }

    /// Puts a pod into a place where it may be planned, unless it is refused.
    fn go(&mut self, at: usize, place: Where) {
        let pod = &mut self.pods[at];
        let has_gates = !pod.facts.shape.gates.is_empty();
        pod.gate = if has_gates {
            Some(Plugin::SchedulingGates)
        } else {
            self.refused.contains(&*pod.facts.name).then_some(Plugin::DynamicResources)
        };
        pod.place = match pod.gate {
            Some(plugin) => {
                pod.unschedulable = pod.unschedulable.with(plugin);
                Where::Gated
            }
            None => place,
        };
    }

    /// 0 does not help, 1 helps after the backoff, 2 at once.
    fn help(&self, at: usize, event: &ClusterEvent) -> u8 {
        let pod = &self.pods[at];
        match &event.subject {
            Subject::Wildcard { only } => {
                return u8::from(only.as_ref().is_none_or(|only| *only == pod.facts.uid));
            }
            Subject::Own { new, .. } if new.uid != pod.facts.uid => return 0,
            _ => {}
        }
        let helps = |rejector: Rejector| {
            hints::interests(rejector).intersects(event.kinds)
                && hints::hint(rejector, &pod.facts.shape, event, &NamespaceLabels::new()) == Hint::Queue
        };
        if pod.pending.iter().any(helps) { 2 } else { u8::from(pod.unschedulable.iter().any(helps)) }
    }

    fn wake(&mut self, at: usize, event: &ClusterEvent) {
        let helps = self.help(at, event);
        self.move_on(at, helps);
    }

    fn move_on(&mut self, at: usize, helps: u8) {
        let pod = &self.pods[at];
        let waits = pod.until.is_some_and(|until| until >= floor(self.now));
        match helps {
            0 => {}
            1 if waits => self.go(at, Where::Backoff),
            _ => self.go(at, Where::Active),
        }
    }

    fn event(&mut self, event: &ClusterEvent) {
        self.events.push(event.clone());
        for at in 0..self.pods.len() {
            let pod = &self.pods[at];
            let concerns_gate = match &event.subject {
                Subject::Wildcard { .. } => false,
                _ => pod.gate.is_some_and(|gate| hints::interests(gate.into()).intersects(event.kinds)),
            };
            if pod.place == Where::Rejected || (pod.place == Where::Gated && concerns_gate) {
                self.wake(at, event);
            }
        }
    }

    fn pop(&mut self) -> Option<String> {
        let pods = &self.pods;
        let of = |place: Where| (0..pods.len()).filter(move |at| pods[*at].place == place);
        let order = |at: &usize| {
            let pod = &pods[*at];
            (Reverse(pod.facts.priority), pod.queued_at, pod.age)
        };
        let active = of(Where::Active).min_by_key(order);
        let waiting = of(Where::Backoff).filter(|at| !pods[*at].rejectors().is_empty());
        let waiting = waiting.min_by_key(|at| (pods[*at].until.map(floor), order(at)));
        let at = active.or(waiting)?;
        let events = self.events.len();
        let pod = &mut self.pods[at];
        pod.place = Where::Flying(events);
        pod.unschedulable = Rejectors::NONE;
        pod.pending = Rejectors::NONE;
        Some(pod.facts.name.to_string())
    }

    fn requeue(&mut self, name: &str, rejection: Rejection) {
        let Some(at) = self.find(name) else { return };
        let Where::Flying(since) = self.pods[at].place else { return };
        if self.pods[at].is_deleted {
            self.pods.remove(at);
            return;
        }
        let now = self.now;
        let pod = &mut self.pods[at];
        (pod.unschedulable, pod.pending, pod.queued_at) = (rejection.unschedulable, rejection.pending, now);
        if pod.rejectors().is_empty() {
            pod.errors += 1;
        } else {
            pod.rejections += 1;
            pod.errors = 0;
        }
        let count = if pod.errors > 0 { pod.errors } else { pod.rejections };
        let backoff = (0..count - 1).fold(1_u64, |backoff, _| (backoff * 2).min(10)).min(10);
        pod.until = Some(now + seconds(backoff));
        pod.place = Where::Rejected;
        let helps = if pod.rejectors().is_empty() {
            1
        } else {
            let events = self.events[since..].to_vec();
            events.iter().map(|event| self.help(at, event)).max().unwrap_or(0)
        };
        self.move_on(at, helps);
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        for at in 0..self.pods.len() {
            let pod = &mut self.pods[at];
            if pod.place == Where::Backoff && pod.until.is_some_and(|until| floor(until) < floor(self.now)) {
                pod.place = Where::Active;
            }
        }
        for at in 0..self.pods.len() {
            let pod = &self.pods[at];
            if pod.place == Where::Rejected && self.now - pod.queued_at > seconds(300) {
                self.wake(at, &ClusterEvent::wildcard());
            }
        }
    }

    fn place(&mut self, name: &str) -> Option<QueueName> {
        let at = self.find(name)?;
        match self.pods[at].place {
            Where::Active => Some(QueueName::Active),
            Where::Backoff => Some(QueueName::Backoff),
            Where::Rejected => Some(QueueName::Unschedulable),
            Where::Gated => Some(QueueName::Gated),
            Where::Flying(_) => None,
        }
    }
}

fn take(step: Step, cluster: &mut Cluster, model: &mut Model) {
    match step {
        Step::Add { name, priority, port, is_gated } | Step::Update { name, priority, port, is_gated } => {
            let facts = Arc::new(pod(NAMES[name], priority, &shape(port, is_gated)));
            cluster.at(|queue, at| queue.add(at, facts.clone(), 0));
            model.add(facts);
        }
        Step::Delete { name } => {
            cluster.delete(NAMES[name]);
            if let Some(at) = model.find(NAMES[name]) {
                match model.pods[at].place {
                    Where::Flying(_) => model.pods[at].is_deleted = true,
                    _ => drop(model.pods.remove(at)),
                }
            }
        }
        Step::Pop => assert_eq!(cluster.pop(), model.pop()),
        Step::Reject { name, plugin, is_pending } => {
            let set = only(PLUGINS[plugin]);
            let rejection = if is_pending {
                Rejection { unschedulable: Rejectors::NONE, pending: set }
            } else {
                Rejection { unschedulable: set, pending: Rejectors::NONE }
            };
            cluster.requeue(NAMES[name], rejection);
            model.requeue(NAMES[name], rejection);
        }
        Step::Fail { name } => {
            cluster.fail(NAMES[name]);
            model.requeue(NAMES[name], Rejection::default());
        }
        Step::Done { name } => {
            cluster.queue.done(&Uid::new(NAMES[name]));
            if let Some(at) = model.find(NAMES[name])
                && matches!(model.pods[at].place, Where::Flying(_))
            {
                model.pods.remove(at);
            }
        }
        Step::Event { kind, port } => {
            cluster.event(&event(kind, port));
            model.event(&event(kind, port));
        }
        Step::Activate { name } => {
            cluster.at(|queue, at| queue.activate(at, &Uid::new(NAMES[name])));
            if let Some(at) = model.find(NAMES[name]) {
                match model.pods[at].place {
                    Where::Flying(_) => {
                        model.events.push(ClusterEvent::force_activate(Uid::new(NAMES[name])))
                    }
                    Where::Active => {}
                    _ => model.go(at, Where::Active),
                }
            }
        }
        Step::Refuse { name, refuses } => {
            let name = NAMES[name].to_owned();
            if refuses {
                model.refused.insert(name);
            } else {
                model.refused.remove(&name);
            }
            *cluster.refused.borrow_mut() = model.refused.clone();
        }
        Step::Wait { milliseconds } => {
            cluster.wait(Duration::from_millis(milliseconds));
            model.wait(Duration::from_millis(milliseconds));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(steps in steps()) {
        let mut cluster = Cluster::new();
        let mut model = Model { now: cluster.now, ..Default::default() };
        for step in steps {
            take(step, &mut cluster, &mut model);
            for name in NAMES {
                prop_assert_eq!(cluster.place(name), model.place(name), "{}", name);
            }
            let pending = cluster.queue.pending();
            let flying = cluster.queue.in_flight.len();
            let all = pending.active + pending.backoff + pending.unschedulable + pending.gated + flying;
            prop_assert_eq!(all, model.pods.len());
        }
        // Whatever happened, every pod that is not refused is planned again in the end.
        for name in NAMES {
            cluster.fail(name);
            model.requeue(name, Rejection::default());
        }
        cluster.refused.borrow_mut().clear();
        model.refused.clear();
        take(Step::Event { kind: 2, port: 80 }, &mut cluster, &mut model);
        take(Step::Wait { milliseconds: 301_000 }, &mut cluster, &mut model);
        // The API takes no gates for a pod that had none; one that got some here stays where it is.
        let gated = model.pods.iter().filter(|pod| pod.gate == Some(Plugin::SchedulingGates)).count();
        prop_assert_eq!(cluster.queue.pending().active, model.pods.len() - gated);
    }
}
