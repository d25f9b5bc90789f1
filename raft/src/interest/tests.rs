//! The watchers that a change concerns, against a search of every change; and the spans of subscribers who begin, pass and end at any
//! moment of a history.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use futures::FutureExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::hub::TurnBounds;
use super::{HUB_BUGS, Hub, Interest, Subscription, Turn, with_hub_bug};
use crate::fields::Fields;
use crate::key::{Key, ObjectPath, Revision};
use crate::labels::Labels;
use crate::object::{Index, Object};
use crate::state::{Change, HistoryBounds, State};
use crate::transaction::{Operation, Put, Transaction};

const RESOURCE: &str = "pods";
const NAMESPACES: [&str; 3] = ["", "a", "ab"];
const NAMES: [&str; 3] = ["x", "y", "a"];
const VALUES: [&str; 3] = ["", "n1", "n2"];
const LABELS: [&str; 3] = ["app", "tier", "zone"];
const FIELDS: [&str; 2] = ["spec.nodeName", "status.phase"];

/// Bounds that cut the walks of a short history.
const SMALL: TurnBounds = TurnBounds { changes: 2, touches: 3, crowd: 2 };

/// Content of one object: field values (named or not), and values of the labels it has.
type Content = (bool, [usize; 2], [Option<usize>; 3]);

/// One step of a history of one resource.
#[derive(Clone, Debug)]
enum Step {
    /// One transaction: objects put, or deleted where there is no content.
    Write(Vec<(usize, usize, Option<Content>)>),
    /// The hub takes one turn, in the newest state.
    Turn,
    /// The hub walks what is applied.
    Walk,
    /// The watcher reads: it passes what is applied.
    Read(usize),
    /// The watcher is replaced by one that begins so many thirds of the way from the oldest revision still held to the newest.
    Replace(usize, u64, Interest),
    /// The watcher goes away.
    Drop(usize),
    /// All watchers go away.
    DropAll,
    /// The history in memory is dropped.
    Forget,
}

fn interest() -> impl Strategy<Value = Interest> {
    let text = |from: &'static [&'static str]| proptest::sample::select(from).prop_map(Box::<str>::from);
    prop_oneof![
        2 => Just(Interest::Everything),
        1 => (text(&NAMESPACES), text(&NAMES)).prop_map(|(namespace, name)| {
            Interest::Object(if namespace.is_empty() { name } else { format!("{namespace}/{name}").into() })
        }),
        1 => text(&NAMES).prop_map(Interest::Name),
        2 => text(&NAMESPACES).prop_map(Interest::Namespace),
        2 => (0..2usize, text(&VALUES), proptest::option::of(text(&NAMESPACES))).prop_map(
            |(place, value, namespace)| {
                let name = FIELDS[place].into();
                Interest::Field { name, place, value, namespace, is_common: false }
            }
        ),
        2 => (text(&LABELS), text(&VALUES), proptest::option::of(text(&NAMESPACES)))
            .prop_map(|(key, value, namespace)| Interest::Label { key, value, namespace }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let content = (
        any::<bool>(),
        [0..3usize, 0..3],
        [proptest::option::of(0..3usize), proptest::option::of(0..3usize), proptest::option::of(0..3usize)],
    );
    let write = (0..3usize, 0..3usize, proptest::option::of(content));
    prop_oneof![
        6 => proptest::collection::vec(write, 1..4).prop_map(Step::Write),
        3 => Just(Step::Turn),
        3 => Just(Step::Walk),
        3 => (0..4usize).prop_map(Step::Read),
        3 => (0..4usize, 0..4u64, interest()).prop_map(|(at, thirds, interest)| Step::Replace(at, thirds, interest)),
        1 => (0..4usize).prop_map(Step::Drop),
        1 => Just(Step::DropAll),
        1 => Just(Step::Forget),
    ]
}

fn index((named, fields, labels): Content) -> Index {
    // Those with names were stored when the kind had them in another order.
    let stored = match named {
        true => [1, 0].map(|at: usize| (FIELDS[at], VALUES[fields[at]])),
        false => [0, 1].map(|at: usize| ("", VALUES[fields[at]])),
    };
    let labels = LABELS.into_iter().zip(labels).filter_map(|(key, value)| Some((key, VALUES[value?])));
    Index { fields: Fields::new(stored), labels: Labels::new(labels), ..Index::default() }
}

/// Whether a version of the object at `path` has what the interest demands: the definition, without an index.
fn demands(interest: &Interest, path: &str, object: &Object) -> bool {
    let (namespace, name) = ObjectPath::of(path).parts();
    match interest {
        Interest::Everything => true,
        Interest::Object(only) => **only == *path,
        Interest::Name(only) => **only == *name,
        Interest::Namespace(only) => **only == *namespace,
        Interest::Field { name, place, value, namespace: only, .. } => {
            only.as_deref().is_none_or(|only| only == namespace)
                && object.index.fields.value(name, *place) == &**value
        }
        Interest::Label { key, value, namespace: only } => {
            only.as_deref().is_none_or(|only| only == namespace) && object.label(key) == Some(value)
        }
    }
}

fn concerns(interest: &Interest, change: &Change) -> bool {
    [&change.old, &change.new].into_iter().flatten().any(|object| demands(interest, &change.path, object))
}

/// A subscriber with the position up to which it has read.
struct Watcher {
    subscription: Subscription,
    interest: Interest,
    position: Revision,
    /// The newest revision when it subscribed: it looks at what is older without being woken.
    began: Revision,
    /// It was woken since it last read.
    is_told: bool,
}

struct Run {
    hub: Hub,
    state: State,
    /// Every change there ever was.
    all: Vec<Change>,
    watchers: Vec<Option<Watcher>>,
}

impl Run {
    /// A run with watchers of these interests.
    fn of(hub: Hub, interests: impl IntoIterator<Item = Interest>) -> Run {
        let mut state = State::default();
        state.advance(Revision(1));
        let mut run = Run { hub, state, all: Vec::new(), watchers: Vec::new() };
        run.watchers = interests.into_iter().map(|interest| Some(run.watcher(interest, 3))).collect();
        run
    }

    fn subscription(&mut self, at: usize) -> &mut Subscription {
        &mut self.watchers[at].as_mut().unwrap().subscription
    }

    fn pass(&mut self, at: usize, position: u64) -> u64 {
        self.subscription(at).pass(Revision(position)).0
    }

    fn is_woken(&mut self, at: usize) -> bool {
        self.subscription(at).changed().now_or_never().is_some()
    }

    fn turn(&self) -> Turn {
        self.hub.turn(&self.state.collection(RESOURCE), self.state.applied())
    }

    fn walk(&self) {
        self.hub.walk(&self.state.collection(RESOURCE), self.state.applied());
    }

    fn watcher(&self, interest: Interest, thirds: u64) -> Watcher {
        let subscription = self.hub.subscribe(interest.clone(), self.state.applied());
        let oldest = self.state.collection(RESOURCE).floor().max(Revision(1));
        let began = self.state.applied();
        let position = Revision(oldest.0 + began.0.saturating_sub(oldest.0) * thirds / 3);
        Watcher { subscription, interest, position, began, is_told: false }
    }

    fn write(&mut self, writes: &[(usize, usize, Option<Content>)]) {
        let revision = Revision(self.state.applied().0 + 1);
        let operations = writes.iter().map(|(namespace, name, content)| {
            let key = Key::new(&Arc::from(RESOURCE), NAMESPACES[*namespace], NAMES[*name]).unwrap();
            match content {
                Some(content) => Operation::Put(Put {
                    key,
                    json: Bytes::from_static(br#"{"v":""}"#),
                    revision_at: 6,
                    index: index(*content),
                }),
                None => Operation::Delete(key),
            }
        });
        let operations = operations.collect();
        self.state.apply(revision, &Transaction { operations, ..Transaction::default() });
        let collection = self.state.collection(RESOURCE);
        if let Ok(changes) = collection.changes_after(Revision(revision.0 - 1)) {
            self.all.extend(changes.cloned());
        }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Write(writes) => self.write(&writes),
            Step::Turn => {
                if self.turn() == Turn::Last {
                    self.everyone_concerned_is_woken()?;
                }
            }
            Step::Walk => {
                self.walk();
                self.everyone_concerned_is_woken()?;
            }
            Step::Read(at) => {
                if let Some(watcher) = &mut self.watchers[at] {
                    (watcher.position, watcher.is_told) = (self.state.applied(), false);
                    watcher.subscription.pass(watcher.position);
                }
            }
            Step::Replace(at, thirds, interest) => self.watchers[at] = Some(self.watcher(interest, thirds)),
            Step::Drop(at) => self.watchers[at] = None,
            Step::DropAll => {
                self.watchers.fill_with(|| None);
                prop_assert!(self.hub.is_empty(), "nothing is kept of subscribers that are gone");
            }
            Step::Forget => {
                let bounds = HistoryBounds { through: self.state.applied(), ..HistoryBounds::NONE };
                self.state.trim_history(&bounds);
            }
        }
        self.nothing_is_passed_over()
    }

    /// No watcher is told that nothing concerns it where something does.
    fn nothing_is_passed_over(&mut self) -> Result<(), TestCaseError> {
        for watcher in self.watchers.iter_mut().flatten() {
            let clear = watcher.subscription.pass(watcher.position);
            prop_assert!(clear >= watcher.position);
            let span = |change: &&Change| change.revision > watcher.position && change.revision <= clear;
            let missed = self.all.iter().filter(span).find(|change| concerns(&watcher.interest, change));
            prop_assert!(missed.is_none(), "{:?} misses {missed:?}", watcher.interest);
        }
        Ok(())
    }

    /// After a walk, each watcher that something new concerns was woken since it last read.
    fn everyone_concerned_is_woken(&mut self) -> Result<(), TestCaseError> {
        for watcher in self.watchers.iter_mut().flatten() {
            watcher.is_told |= watcher.subscription.changed().now_or_never().is_some();
            let known = watcher.position.max(watcher.began);
            let is_new = |change: &&Change| change.revision > known && concerns(&watcher.interest, change);
            let is_owed = self.all.iter().any(|change| is_new(&change));
            prop_assert!(watcher.is_told || !is_owed, "{:?} sleeps", watcher.interest);
        }
        Ok(())
    }
}

fn play(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut run = Run::of(Hub::with_bounds(SMALL), [const { Interest::Everything }; 4]);
    for step in steps {
        run.take(step)?;
    }
    run.take(Step::DropAll)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..60)
}

proptest! {
    #[test]
    fn a_watcher_is_told_of_what_concerns_it_and_passes_the_rest(steps in steps()) {
        play(steps)?;
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in HUB_BUGS {
        let mut runner =
            TestRunner::new(Config { max_shrink_iters: 0, failure_persistence: None, ..Config::default() });
        let found = with_hub_bug(bug, || runner.run(&steps(), play));
        assert!(found.is_err(), "{bug:?} is not found");
    }
}

fn pod(node: usize) -> Content {
    (true, [node, 0], [None; 3])
}

#[test]
fn a_change_wakes_those_whom_its_old_or_its_new_version_concerns_and_nobody_else() {
    let of_node = |value: &str| Interest::Field {
        name: "spec.nodeName".into(),
        place: 0,
        value: value.into(),
        namespace: None,
        is_common: false,
    };
    let interests = [of_node("n1"), of_node("n2"), of_node(""), Interest::Namespace("ab".into())];
    let mut run = Run::of(Hub::default(), interests);
    let woken = |run: &mut Run| -> Vec<bool> {
        run.walk();
        (0..4).map(|at| run.is_woken(at)).collect()
    };
    for (content, expected) in [
        (Some(pod(1)), [true, false, false, false]),
        (Some(pod(2)), [true, true, false, false]),
        (Some(pod(0)), [false, true, true, false]),
        (None, [false, false, true, false]),
    ] {
        run.write(&[(1, 0, content)]);
        assert_eq!(woken(&mut run), expected, "{content:?}");
    }
    let newest = run.state.applied().0;
    assert_eq!(run.pass(3, 1), newest, "an unconcerned one is at the newest");
    assert_eq!(run.pass(0, 1), 1, "the first change for it is the next one");
    assert_eq!(run.pass(0, 3), newest, "that was all");
}

#[test]
fn turns_end_at_the_edge_of_a_revision_and_nothing_at_the_edge_is_lost() {
    let (mine, other) = ((1, 0, Some(pod(1))), (2, 1, Some(pod(1))));
    let run = || {
        let interests = [Interest::Object("a/x".into()), Interest::Everything];
        let mut run = Run::of(Hub::with_bounds(SMALL), interests);
        (0..2).for_each(|at| assert_eq!(run.pass(at, 1), 1));
        run
    };
    let mut last = run();
    // Revisions 2 to 5. The last change of the first turn concerns the watcher.
    [other, mine, other, other].iter().for_each(|write| last.write(&[*write]));
    assert_eq!(last.turn(), Turn::More);
    assert_eq!((last.pass(0, 1), last.pass(0, 3)), (2, 3), "walked to the edge");
    assert!(last.is_woken(0), "before the walk ends");
    assert_eq!((last.pass(1, 1), last.pass(1, 5)), (1, 5), "those of everything know of all changes");
    assert_eq!(last.turn(), Turn::Last);
    assert_eq!(last.pass(0, 3), 5);
    let mut within = run();
    within.write(&[other]);
    // The second change of the turn is the first of this revision.
    within.write(&[other, (2, 2, Some(pod(1))), mine]);
    within.write(&[other]);
    assert_eq!(within.turn(), Turn::More);
    assert_eq!((within.pass(0, 1), within.pass(0, 3)), (2, 3));
    assert_eq!(within.turn(), Turn::Last);
    assert_eq!((within.pass(0, 3), within.is_woken(0), within.is_woken(1)), (4, true, true));
}

#[test]
fn a_turn_notes_changes_for_a_bounded_number_of_watchers() {
    let label = || Interest::Label { key: "app".into(), value: "n1".into(), namespace: None };
    let labelled = (1, 0, Some((true, [0, 0], [Some(1), None, None])));
    for (members, revisions_per_turn) in [(5_000, 1), (1_000, 5), (0, 256)] {
        let interests = std::iter::repeat_with(label).take(members);
        let bounds = TurnBounds { crowd: usize::MAX, ..TurnBounds::default() };
        let mut run =
            Run::of(Hub::with_bounds(bounds), [Interest::Name("y".into())].into_iter().chain(interests));
        (0..300).for_each(|_| run.write(&[labelled]));
        let mut turns: u64 = 0;
        loop {
            let before = run.pass(0, 1);
            let turn = run.turn();
            turns += 1;
            assert!(run.pass(0, 1) - before <= revisions_per_turn, "{members}");
            if turn == Turn::Last {
                break;
            }
        }
        assert_eq!(turns, 300u64.div_ceil(revisions_per_turn), "{members}");
        assert!((0..=members).all(|at| run.is_woken(at) == (at > 0)));
    }
}

#[test]
fn a_crowd_is_noted_once_for_a_walk_and_reads_to_its_end() {
    let label = || Interest::Label { key: "app".into(), value: "n1".into(), namespace: Some("a".into()) };
    let labelled = |namespace| (namespace, 0, Some((true, [0, 0], [Some(1), None, None])));
    let mut run = Run::of(Hub::default(), std::iter::repeat_with(label).take(5_000));
    (0..300).for_each(|_| run.write(&[labelled(1)]));
    assert_eq!((run.turn(), run.turn(), run.turn()), (Turn::More, Turn::More, Turn::Last), "1, 256 and 43");
    assert!((0..5_000).all(|at| run.is_woken(at)));
    let newest = run.state.applied().0;
    assert_eq!(run.pass(0, newest), newest);
    run.write(&[labelled(2)]);
    assert_eq!(run.turn(), Turn::Last);
    assert!((0..5_000).all(|at| !run.is_woken(at)), "an object of another namespace");
    assert_eq!(run.pass(0, newest), newest + 1);
}

#[test]
fn a_watcher_that_joins_a_crowd_within_a_walk_has_what_was_announced_to_it() {
    let label = || Interest::Label { key: "app".into(), value: "n1".into(), namespace: None };
    let mut run = Run::of(Hub::with_bounds(SMALL), [label(), label()]);
    (0..4).for_each(|_| run.write(&[(1, 0, Some((true, [0, 0], [Some(1), None, None])))]));
    assert_eq!(run.turn(), Turn::More);
    let position = run.pass(0, 5).min(3);
    run.watchers.push(Some(run.watcher(label(), 0)));
    assert_eq!(run.pass(2, position), position, "walked to {position}");
    run.walk();
    assert_eq!((run.pass(2, position), run.pass(2, 5)), (position, 5), "revisions 4 and 5 concern it");
}

#[test]
fn look_ups_for_nobody_end_a_turn() {
    let interests = (0..5_000).map(|at| Interest::Label {
        key: format!("k{at}").into(),
        value: "n1".into(),
        namespace: None,
    });
    let mut run = Run::of(Hub::default(), interests);
    let key = Key::new(&Arc::from(RESOURCE), "a", "x").unwrap();
    for version in 0..20u64 {
        let labels = Labels::new((0..5_000).map(|at| (format!("l{at}"), version.to_string())));
        let index = Index { labels, ..Index::default() };
        let put = Put { key: key.clone(), json: Bytes::from_static(br#"{"v":""}"#), revision_at: 6, index };
        let revision = Revision(run.state.applied().0 + 1);
        let operations = vec![Operation::Put(put)];
        run.state.apply(revision, &Transaction { operations, ..Transaction::default() });
    }
    let turns = 1 + std::iter::repeat_with(|| run.turn()).take_while(|turn| *turn == Turn::More).count();
    assert_eq!(turns, 5, "10,000 look-ups a change but the first");
}

#[test]
fn a_state_older_than_what_is_walked_is_walked_already() {
    let mut run = Run::of(Hub::default(), []);
    let before = run.state.clone();
    run.write(&[(1, 1, Some(pod(1)))]);
    // The first subscriber comes between a look at the state and the walk of it.
    run.watchers.push(Some(run.watcher(Interest::Name("x".into()), 3)));
    run.hub.walk(&before.collection(RESOURCE), before.applied());
    assert!(!run.is_woken(0));
    assert_eq!(run.pass(0, 2), 2);
    run.write(&[(1, 0, Some(pod(1)))]);
    run.walk();
    assert!(run.is_woken(0));
    assert_eq!(run.pass(0, 2), 2);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_task_that_waits_is_woken_once_for_all_changes_until_it_looks() {
    let mut run = Run::of(Hub::with_bounds(SMALL), [Interest::Name("x".into())]);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let poll = |run: &mut Run| {
        std::pin::pin!(run.subscription(0).changed()).poll(&mut Context::from_waker(&waker)).is_ready()
    };
    assert!(!poll(&mut run) && !poll(&mut run));
    for _ in 0..5 {
        run.write(&[(1, 0, Some(pod(1)))]);
    }
    run.walk();
    run.write(&[(1, 0, Some(pod(2)))]);
    run.walk();
    run.hub.wake_all();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(poll(&mut run) && !poll(&mut run));
    run.write(&[(1, 0, None), (1, 1, Some(pod(1)))]);
    run.walk();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
    run.write(&[(1, 1, None)]);
    assert!(poll(&mut run) && !poll(&mut run));
    run.walk();
    assert!(!poll(&mut run), "of no concern");
    run.hub.close();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 3);
}

/// A waker that owns a subscription, as the last one of a task does that has ended.
struct Owner(#[expect(dead_code, reason = "it is dropped with the waker")] Subscription);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_let_go_may_end_subscriptions() {
    let hub = Hub::default();
    let subscribe = || hub.subscribe(Interest::Everything, Revision(1));
    let mut outer = subscribe();
    for _ in 0..2 {
        let waker = Waker::from(Arc::new(Owner(subscribe())));
        let polled = std::pin::pin!(outer.changed()).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "the second takes the place of the first");
    }
    drop(outer);
    assert!(hub.is_empty());
}

#[test]
fn alarms_wake_everybody_once_and_a_closed_hub_ends_them() {
    let hub = Hub::default();
    let mut subscription = hub.subscribe(Interest::Name("x".into()), Revision(3));
    hub.wake_all();
    assert!(subscription.changed().now_or_never().is_some_and(|at| at.is_some()));
    assert!(subscription.changed().now_or_never().is_none());
    hub.close();
    assert_eq!(subscription.changed().now_or_never(), Some(None));
}
