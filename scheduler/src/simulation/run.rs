//! One run: processes, users and faults from a seed, then the calm, then the checks.
//!
//! Owns the order of a slice: the network delivers, users act, faults begin, and each process that lives and is not
//! stopped gets its time, one after the other. Checks run at the end; that no two processes lead is looked at after each
//! slice, since no history tells it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::check::Excused;
use super::extenders::Extender;
use super::faults::{Fault, Faults};
use super::lease::Deed;
use super::manner::{Standby, Theme, manner, timing};
use super::network::{Life, World};
use super::plant::{Plant, plant};
use super::process::{Habits, Scheduler};
use super::users::{Settling, Users};
use super::watches::WatchFault;
use super::{Moment, check, devices, settled, volumes};
use crate::ambient;
use crate::run::Rebuild;

/// Time after the last fault in which every pod gets a node if it can have one: a lease has to lapse, bindings under way to end, a
/// backoff to pass, victims to go.
const CALM: Moment = 90_000;

/// Wall time at the beginning of a run, in microseconds.
const WALL: i64 = 1_700_000_000_000_000;

/// Rebuilds of the processes' memory. In one seed of eight they rebuild it whenever they have seen a new text; a rebuild would hide
/// that an event was lost, and the other seeds have none. The seed is another one than the eighth of handovers.
fn rebuild(seed: u64) -> Rebuild {
    match seed % 8 {
        2 => Rebuild { bytes_min: 0, factor: 1, interval_min: Duration::from_secs(15), ..Rebuild::default() },
        _ => Rebuild::default(),
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) problem: Option<String>,
    pub(super) trace: Vec<String>,
    pub(super) bound: usize,
    pub(super) leaders: usize,
    pub(super) excused: Excused,
}

enum Slot {
    Runs(Box<Scheduler>),
    Down(Moment),
}

struct Run {
    world: Arc<Mutex<World>>,
    random: StdRng,
    habits: Habits,
    users: Users,
    faults: Faults,
    slots: Vec<Slot>,
    lives: u64,
    slice: Moment,
    // Later parts of faults, each with its time.
    appointments: Vec<(Moment, Appointment)>,
}

/// A part of a fault that comes some time after its begin.
#[derive(Debug, Clone, Copy)]
enum Appointment {
    /// The process is told to end.
    Terminate(usize),
    /// The watches of pods of all other processes stall until then.
    BlindOthers(usize, Moment),
}

/// Times after the begin of a blinding, which empties a node: the watches stall, the node is whole again, and the
/// process is told to end. Between the first and the last, pods go to the node of which the others do not hear.
const BLIND_AFTER: Moment = 1_500;
const WHOLE_AFTER: Moment = 3_000;
const END_AFTER: Moment = 5_000;

/// Does the run of `seed`, with a planted bug or without.
pub(super) fn run(seed: u64, planted: Option<Plant>) -> Report {
    plant(planted);
    ambient::replace_rng(Some(seed));
    let mut run = Run::new(seed);
    let outcome = run.whole();
    drop(std::mem::take(&mut run.slots));
    ambient::replace_rng(None);
    ambient::replace_wall(None);
    plant(None);
    let mut world = run.world.lock();
    let bound = world.arrived.iter().filter(|arrived| matches!(arrived.deed, Deed::Binding(_))).count();
    let (leaders, trace) = (world.holders.len(), std::mem::take(&mut world.trace));
    let excused = *outcome.as_ref().unwrap_or(&Excused::default());
    Report { problem: outcome.err(), trace, bound, leaders, excused }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let theme = Theme::of(seed);
        let timing = timing(theme, &mut random);
        let manner = manner(theme, timing, &mut random);
        let slice = manner.slice;
        let faults = Faults::new(theme, &mut random);
        let standby = Standby::draw(&mut random);
        let processes = random.random_range(2..4);
        let mut users = Users::default();
        let mut world = World::new(seed, manner);
        users.found(&mut world.store);
        match theme {
            Theme::Devices => devices::found(&mut world.store),
            Theme::Extended => devices::found_extended(&mut world.store),
            Theme::Volumes => volumes::found(&mut world.store),
            Theme::Extenders => world.extender = Some(Extender::default()),
            Theme::Mixed | Theme::Handovers | Theme::OldViews => {}
        }
        let habits = Habits { theme, timing, standby, rebuild: rebuild(seed) };
        world.trace.push(format!("seed {seed}: {theme:?} {:?} {habits:?}", world.manner));
        let slots = (0..processes).map(|_| Slot::Down(random.random_range(0..2_000))).collect();
        Self {
            world: Arc::new(Mutex::new(world)),
            random,
            habits,
            users,
            faults,
            slots,
            lives: 0,
            slice,
            appointments: Vec::new(),
        }
    }

    fn whole(&mut self) -> Result<Excused, String> {
        let faults_end = self.random.random_range(40_000..90_000);
        while self.slice(Phase::Faults)? < faults_end {}
        self.calm();
        let end = faults_end + CALM;
        while self.slice(Phase::Calm)? < end {}
        let leaders = self.leaders().len();
        let world = self.world.lock();
        let excused = check::check(&world)?;
        if leaders != 1 {
            return Err(format!("{leaders} processes lead in the end"));
        }
        settled::check(&world)?;
        Ok(excused)
    }

    /// Runs one slice of time. Returns the moment of its end.
    fn slice(&mut self, phase: Phase) -> Result<Moment, String> {
        let now = {
            let mut world = self.world.lock();
            world.now += self.slice;
            world.deliver();
            let now = world.now;
            match phase {
                Phase::Faults => self.users.act(now, &mut world.store, &mut self.random),
                Phase::Calm => {
                    if self.users.settle(now, &mut world.store, &mut self.random) == Settling::Arrivals {
                        world.end_watches();
                    }
                }
            }
            now
        };
        if phase == Phase::Faults
            && let Some(fault) = self.faults.draw(self.slice, &mut self.random)
        {
            self.strike(fault, now);
        }
        for (at, appointment) in std::mem::take(&mut self.appointments) {
            match appointment {
                _ if at > now => self.appointments.push((at, appointment)),
                Appointment::Terminate(index) => {
                    if let Slot::Runs(scheduler) = &self.slots[index] {
                        scheduler.terminate();
                    }
                }
                Appointment::BlindOthers(index, until) => {
                    let mut world = self.world.lock();
                    for other in (0..self.slots.len()).filter(|other| *other != index) {
                        world.watches.blind(other, until);
                    }
                }
            }
        }
        let micros = i64::try_from(now * 1_000).expect("runs are short");
        ambient::replace_wall(Some(WALL + micros));
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.shuffle(&mut self.random);
        for index in order {
            self.run_process(index, now)?;
        }
        let leaders = self.leaders();
        if leaders.len() > 1 {
            return Err(format!("at {now} {leaders:?} lead"));
        }
        Ok(now)
    }

    fn run_process(&mut self, index: usize, now: Moment) -> Result<(), String> {
        match &mut self.slots[index] {
            Slot::Down(until) if *until <= now => {
                self.lives += 1;
                let life = Life { process: index, number: self.lives };
                self.world.lock().note(&format!("{life:?} starts"));
                let scheduler = Scheduler::start(life, self.habits, &self.world);
                self.slots[index] = Slot::Runs(Box::new(scheduler));
                Ok(())
            }
            Slot::Down(_) => Ok(()),
            Slot::Runs(scheduler) if scheduler.stopped_until > now => Ok(()),
            Slot::Runs(scheduler) => {
                if std::mem::take(&mut scheduler.stopped_until) > 0 {
                    scheduler.skip_until(now);
                }
                scheduler.run_until(now);
                if scheduler.has_ended() { self.bury(index, now) } else { Ok(()) }
            }
        }
    }

    /// A process has ended: it is started again after a while.
    fn bury(&mut self, index: usize, now: Moment) -> Result<(), String> {
        let down = Slot::Down(now + self.random.random_range(200..5_000));
        let Slot::Runs(scheduler) = std::mem::replace(&mut self.slots[index], down) else { return Ok(()) };
        let life = scheduler.life;
        self.world.lock().note(&format!("{life:?} has ended"));
        if scheduler.panicked() { Err(format!("at {now} {life:?} panicked")) } else { Ok(()) }
    }

    fn strike(&mut self, fault: Fault, now: Moment) {
        let leader = self.leaders().first().map(|life| life.process);
        let index = match leader {
            Some(leader) if self.random.random_bool(0.6) => leader,
            _ => self.random.random_range(0..self.slots.len()),
        };
        self.world.lock().note(&format!("process {index}: {fault:?}"));
        match fault {
            Fault::Crash => {
                if let Slot::Runs(_) = self.slots[index] {
                    self.slots[index] = Slot::Down(now + self.random.random_range(200..5_000));
                }
            }
            Fault::Terminate => {
                if let Slot::Runs(scheduler) = &self.slots[index] {
                    scheduler.terminate();
                }
            }
            Fault::Stop(time) => {
                if let Slot::Runs(scheduler) = &mut self.slots[index] {
                    scheduler.stopped_until = now + time;
                    self.world.lock().hold(index, now + time);
                }
            }
            Fault::Cut(server, time) => {
                self.world.lock().cuts.insert((index, server), now + time);
            }
            Fault::Isolate(time) => {
                let mut world = self.world.lock();
                for server in 0..super::network::SERVERS {
                    world.cuts.insert((index, server), now + time);
                }
            }
            Fault::Watch(fault) => {
                let mut world = self.world.lock();
                world.watches.strike(now, index, fault, &mut self.random);
            }
            Fault::LastRenewal(last) => {
                self.world.lock().last_renewals.insert(index, last);
            }
            Fault::Handover(time) => {
                let mut world = self.world.lock();
                for other in (0..self.slots.len()).filter(|other| *other != index) {
                    world.watches.strike(now, other, WatchFault::Stalls(time), &mut self.random);
                }
                self.appointments.push((now + time / 2, Appointment::Terminate(index)));
            }
            Fault::Blinding(time) => {
                let index = leader.unwrap_or(index);
                let store = &mut self.world.lock().store;
                self.users.empty_node(now, now + WHOLE_AFTER, store, &mut self.random);
                let blind = Appointment::BlindOthers(index, now + time);
                self.appointments.push((now + BLIND_AFTER, blind));
                self.appointments.push((now + END_AFTER, Appointment::Terminate(index)));
            }
            Fault::Compact => {
                let mut world = self.world.lock();
                world.store.compacted = world.store.revision;
            }
        }
    }

    fn calm(&mut self) {
        let mut world = self.world.lock();
        world.note("calm");
        world.calm();
        for slot in &mut self.slots {
            if let Slot::Runs(scheduler) = slot
                && scheduler.stopped_until > 0
            {
                scheduler.stopped_until = 1;
            }
        }
    }

    /// The processes that lead and are not stopped.
    fn leaders(&self) -> Vec<Life> {
        let running = self.slots.iter().filter_map(|slot| match slot {
            Slot::Runs(scheduler) if scheduler.stopped_until == 0 => Some(scheduler),
            Slot::Runs(_) | Slot::Down(_) => None,
        });
        running.filter(|scheduler| scheduler.leads()).map(|scheduler| scheduler.life).collect()
    }
}

/// Parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Faults,
    Calm,
}
