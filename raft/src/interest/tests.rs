//! Whom a change concerns, against a search of every change; and the spans of subscribers who begin, pass and end at any
//! moment of a history.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{HUB_BUGS, Hub, Interest, Subscription, with_hub_bug};
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

/// What one object gets: field values (named or not), and values of the labels it has.
type Content = (bool, [usize; 2], [Option<usize>; 3]);

/// One step of a history of one resource.
#[derive(Clone, Debug)]
enum Step {
    /// One transaction: objects put, or deleted where there is no content.
    Write(Vec<(usize, usize, Option<Content>)>),
    /// The hub walks what is applied.
    Walk,
    /// The watcher reads: it passes what is applied.
    Read(usize),
    /// The watcher is replaced by one that begins at the oldest revision still held, or at the newest state.
    Replace(usize, bool, Interest),
    /// The history in memory is dropped.
    Forget,
}

fn interest() -> impl Strategy<Value = Interest> {
    let text = |from: &'static [&'static str]| proptest::sample::select(from).prop_map(Box::<str>::from);
    prop_oneof![
        Just(Interest::Everything),
        (text(&NAMESPACES), text(&NAMES)).prop_map(|(namespace, name)| {
            Interest::Object(if namespace.is_empty() { name } else { format!("{namespace}/{name}").into() })
        }),
        text(&NAMES).prop_map(Interest::Name),
        text(&NAMESPACES).prop_map(Interest::Namespace),
        (0..2usize, text(&VALUES)).prop_map(|(place, value)| {
            Interest::Field { name: ["spec.nodeName", "status.phase"][place].into(), place, value }
        }),
        (text(&LABELS), text(&VALUES)).prop_map(|(key, value)| Interest::Label { key, value }),
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
        3 => Just(Step::Walk),
        3 => (0..4usize).prop_map(Step::Read),
        2 => (0..4usize, any::<bool>(), interest()).prop_map(|(at, old, interest)| Step::Replace(at, old, interest)),
        1 => Just(Step::Forget),
    ]
}

fn index((named, fields, labels): Content) -> Index {
    let names = if named { ["spec.nodeName", "status.phase"] } else { ["", ""] };
    let labels = LABELS.into_iter().zip(labels).filter_map(|(key, value)| Some((key, VALUES[value?])));
    Index {
        fields: Fields::new(names.into_iter().zip(fields.map(|value| VALUES[value]))),
        labels: Labels::new(labels),
        ..Index::default()
    }
}

/// Whether a version of the object at `path` has what the interest demands: the definition, without an index.
fn demands(interest: &Interest, path: &str, object: &Object) -> bool {
    let (namespace, name) = ObjectPath::of(path).parts();
    match interest {
        Interest::Everything => true,
        Interest::Object(only) => **only == *path,
        Interest::Name(only) => **only == *name,
        Interest::Namespace(only) => **only == *namespace,
        Interest::Field { name, place, value } => object.index.fields.value(name, *place) == &**value,
        Interest::Label { key, value } => object.label(key) == Some(value),
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
    watchers: Vec<Watcher>,
}

impl Run {
    fn new() -> Run {
        let mut state = State::default();
        state.advance(Revision(1));
        let mut run = Run { hub: Hub::default(), state, all: Vec::new(), watchers: Vec::new() };
        for _ in 0..4 {
            let watcher = run.watcher(Interest::Everything, false);
            run.watchers.push(watcher);
        }
        run
    }

    fn watcher(&self, interest: Interest, is_old: bool) -> Watcher {
        let subscription = self.hub.subscribe(interest.clone(), self.state.applied());
        let oldest = self.state.collection(RESOURCE).floor().max(Revision(1));
        let began = self.state.applied();
        let position = if is_old { oldest } else { began };
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
            Step::Walk => {
                self.hub.walk(&self.state.collection(RESOURCE), self.state.applied());
                self.everyone_concerned_is_woken()?;
            }
            Step::Read(at) => {
                let watcher = &mut self.watchers[at];
                (watcher.position, watcher.is_told) = (self.state.applied(), false);
                watcher.subscription.pass(watcher.position);
            }
            Step::Replace(at, is_old, interest) => self.watchers[at] = self.watcher(interest, is_old),
            Step::Forget => {
                let bounds = HistoryBounds { through: self.state.applied(), ..HistoryBounds::NONE };
                self.state.trim_history(&bounds);
            }
        }
        self.nothing_is_passed_over()
    }

    /// No watcher is told that nothing concerns it where something does.
    fn nothing_is_passed_over(&mut self) -> Result<(), TestCaseError> {
        for watcher in &mut self.watchers {
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
        for watcher in &mut self.watchers {
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
    let mut run = Run::new();
    for step in steps {
        run.take(step)?;
    }
    run.watchers.clear();
    prop_assert!(run.hub.is_empty(), "nothing is kept of subscribers that are gone");
    Ok(())
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
    let mut run = Run::new();
    let of_node =
        |value: &str| Interest::Field { name: "spec.nodeName".into(), place: 0, value: value.into() };
    let interests = [of_node("n1"), of_node("n2"), of_node(""), Interest::Namespace("ab".into())];
    run.watchers = interests.into_iter().map(|interest| run.watcher(interest, false)).collect();
    let woken = |run: &mut Run| -> Vec<bool> {
        run.hub.walk(&run.state.collection(RESOURCE), run.state.applied());
        run.watchers.iter_mut().map(|one| one.subscription.changed().now_or_never().is_some()).collect()
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
    assert_eq!(
        run.watchers[3].subscription.pass(Revision(1)),
        run.state.applied(),
        "an unconcerned one is at the newest"
    );
    assert_eq!(
        run.watchers[0].subscription.pass(Revision(1)),
        Revision(1),
        "the first change for it is the next one"
    );
    assert_eq!(run.watchers[0].subscription.pass(Revision(3)), run.state.applied(), "that was all");
}

#[test]
fn more_changes_than_one_turn_are_walked_in_whole_revisions() {
    let mut run = Run::new();
    let interest = Interest::Object("a/x".into());
    run.watchers = vec![run.watcher(interest, false), run.watcher(Interest::Everything, false)];
    run.watchers.iter().for_each(|watcher| assert_eq!(watcher.subscription.pass(Revision(1)), Revision(1)));
    let other = (2, 1, Some(pod(1)));
    for _ in 0..super::hub::CHANGES_PER_TURN - 1 {
        run.write(&[other]);
    }
    // The turn ends inside this revision.
    run.write(&[other, (2, 2, Some(pod(1))), (1, 0, Some(pod(1)))]);
    run.write(&[other]);
    run.hub.walk(&run.state.collection(RESOURCE), run.state.applied());
    let at = run.state.applied().0 - 1;
    assert_eq!(run.watchers[0].subscription.pass(Revision(1)), Revision(at - 1));
    assert_eq!(run.watchers[0].subscription.pass(Revision(at)), run.state.applied());
    assert_eq!(run.watchers[1].subscription.pass(Revision(1)), Revision(1));
    assert!(run.watchers.iter_mut().all(|one| one.subscription.changed().now_or_never().is_some()));
}

#[test]
fn a_state_that_goes_back_concerns_everybody_again() {
    let mut run = Run::new();
    run.watchers = vec![run.watcher(Interest::Name("x".into()), false)];
    let before = run.state.clone();
    run.write(&[(1, 1, Some(pod(1)))]);
    run.write(&[(1, 1, Some(pod(2)))]);
    run.hub.walk(&run.state.collection(RESOURCE), run.state.applied());
    let [watcher] = &mut *run.watchers else { panic!() };
    assert_eq!(watcher.subscription.pass(run.state.applied()), run.state.applied());
    run.hub.walk(&before.collection(RESOURCE), before.applied());
    assert!(watcher.subscription.changed().now_or_never().is_some());
    assert_eq!(watcher.subscription.pass(Revision(1)), Revision(1));
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
