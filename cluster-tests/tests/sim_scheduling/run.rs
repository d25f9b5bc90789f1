//! One run: a cluster, schedulers, users and faults from a seed, then the calm, then the judgement.
//!
//! Owns the phases of a run. The oracles of the cluster watch it all the time; their first finding, or one of the
//! schedulers' judge, ends it.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::dice::Dice;
use orch_cluster_tests::sim::faults as member_faults;
use orch_cluster_tests::sim::operator::Operator;
use orch_cluster_tests::sim::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use orch_cluster_tests::sim::search::{Counted, Report};
use orch_cluster_tests::sim::setup::Setup;
use orch_cluster_tests::sim::world::World;
use orch_scheduler::ambient;
use orch_scheduler::client::ContentType;
use orch_scheduler::election::Timing;

use super::faults;
use super::judge::{Judged, judge};
use super::links::{Links, Manner};
use super::plant::Plant;
use super::scheduler::Fleet;
use super::settled;
use super::timeline::FOLLOWED;
use super::users::Users;

/// Virtual time of users and faults.
const LENGTH_MIN: Duration = Duration::from_secs(10);
const LENGTH_MAX: Duration = Duration::from_secs(25);

/// How long after the last fault every pod must have what it can have: a lease has to lapse, bindings under way to end, a
/// backoff to pass, victims to go. Requests that hang in members may hold an answer for half a minute.
const CALM_MAX: Duration = Duration::from_secs(60);

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// Interval at which the members' logs are observed.
const LOGS_LOOK: Duration = Duration::from_millis(50);

/// Percentage of runs in which the members have faults of their own.
const MEMBER_FAULTS_PERCENT: u64 = 70;

/// Number of the founding operator among the clients.
const FOUNDER: u64 = 101;

/// The observations of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bound: usize,
    pub(crate) leaders: usize,
    pub(crate) late: usize,
    pub(crate) excused: usize,
}

impl Counted for Counts {
    fn add(&mut self, other: &Counts) {
        self.bound += other.bound;
        self.leaders += other.leaders;
        self.late += other.late;
        self.excused += other.excused;
    }
}

/// Does the run of `seed`, with a planted bug or without.
pub(crate) fn run(seed: u64, plant: Option<Plant>) -> Report<Counts> {
    ambient::replace_rng(Some(seed));
    let report = NodeRuntime::with_seed(seed).block_on(async move {
        let members = if seed % 3 == 2 { 5 } else { 3 };
        let world = World::new(Setup::new(seed, members));
        world.ledger().keep(&FOLLOWED);
        let report = Run::new(&world, plant).whole().await;
        world.end();
        report
    });
    ambient::replace_rng(None);
    ambient::replace_wall(None);
    report
}

struct Run {
    world: World,
    dice: Dice,
    gap: Duration,
    fleet: Fleet,
    users: Users,
}

impl Run {
    fn new(world: &World, plant: Option<Plant>) -> Self {
        let dice = world.dice("schedulers");
        let timing = timing(&dice);
        let timings = vec![timing; 2 + dice.index(2)];
        let often = |most: u64| if dice.percent(50) { dice.number(0..most) } else { 0 };
        let manner = Manner { slow: often(30), lost_before: often(8), lost_after: often(12) };
        let links = Links::new(world, plant, manner);
        let slice = Duration::from_millis([10, 20, 40][dice.index(3)]);
        // The plant alters JSON.
        let is_json = dice.percent(30) || plant == Some(Plant::TakesOverEarly);
        let content_type = if is_json { ContentType::Json } else { ContentType::Protobuf };
        let fleet = Fleet::new(links.clone(), timings, slice, content_type);
        let gap = timing.lease_duration() - timing.renew_deadline();
        world.trace().event(format_args!("{timing:?} {manner:?} slice {slice:?} {content_type:?}"));
        Self { world: world.clone(), dice, gap, fleet, users: Users::new(&links, plant) }
    }

    async fn whole(self) -> Report<Counts> {
        self.live().await;
        self.users.look();
        let timeline = self.users.timeline.lock();
        let sent = self.users.links.sent();
        let judged = match timeline.is_untold {
            true => Judged::default(),
            false => judge(&timeline, &sent, self.gap).unwrap_or_else(|broken| {
                self.world.fail(broken);
                Judged::default()
            }),
        };
        let lives: std::collections::BTreeSet<_> = sent.iter().map(|sent| sent.by.as_str()).collect();
        for index in 0..self.fleet.len() {
            self.fleet.kill(index);
        }
        let Judged { bound, late, excused, .. } = judged;
        let counts = Counts { bound, leaders: lives.len(), late, excused };
        Report::of(&self.world, (!timeline.is_untold).then_some(counts))
    }

    async fn live(&self) {
        let (world, users) = (&self.world, &self.users);
        world.members().into_iter().for_each(|node| world.start(node));
        drop(spawn_detached(Operator::new(world, FOUNDER).found()));
        users.await_service("the start").await;
        users.found().await;
        drop(spawn_detached(users.clone().keep_nodes()));
        for index in 0..self.fleet.len() {
            drop(spawn_detached(self.fleet.clone().keep(index)));
        }
        let rage = TaskGroup::default();
        drop(rage.spawn(users.clone().act()));
        drop(rage.spawn(users.clone().act()));
        drop(rage.spawn(faults::rage(self.fleet.clone())));
        if self.dice.percent(MEMBER_FAULTS_PERCENT) {
            drop(rage.spawn(member_faults::rage(world.clone())));
        }
        let end = NodeRuntime::elapsed() + self.dice.duration(LENGTH_MIN, LENGTH_MAX);
        while NodeRuntime::elapsed() < end && world.failure().is_none() {
            NodeRuntime::sleep(LOGS_LOOK).await;
            world.observe_logs();
        }
        world.end_busy();
        rage.kill();
        member_faults::calm(world);
        self.users.links.calm();
        self.fleet.resume_all();
        users.await_service("the last fault").await;
        users.settle().await;
        self.await_settled().await;
    }

    /// Waits until every pod has what it can have.
    async fn await_settled(&self) {
        let began = NodeRuntime::elapsed();
        while self.world.failure().is_none() {
            self.users.look();
            let (missing, is_untold) = {
                let timeline = self.users.timeline.lock();
                (settled::missing(&timeline), timeline.is_untold)
            };
            let missing =
                missing.or_else(|| self.fleet.leader().is_none().then(|| "no process leads".to_owned()));
            let Some(missing) = missing.filter(|_| !is_untold) else { return };
            if NodeRuntime::elapsed() - began > CALM_MAX {
                return self.world.fail(format_args!("{CALM_MAX:?} after the last fault: {missing}"));
            }
            NodeRuntime::sleep(LOOK).await;
            self.world.observe_logs();
        }
    }
}

/// The election's durations of a run: shorter than in production, as are the members'.
fn timing(dice: &Dice) -> Timing {
    let (lease, renew, retry) =
        [(4_000, 2_500, 500), (6_000, 4_000, 1_000), (3_000, 2_000, 400)][dice.index(3)];
    let millis = Duration::from_millis;
    Timing::new(millis(lease), millis(renew), millis(retry)).expect("the durations fit together")
}
