//! Contenders over a simulated store, with clocks that run apart, lost answers, long requests and crashes.
//!
//! Owns the proof of the module's promise on many seeds: at no true time do two contenders lead. Each contender has a
//! clock of its own, which starts anywhere and runs up to [`DRIFT_MAX`] too fast or too slow.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::machine::{Attempt, Machine, Monotonic, Timing, Version, Written};
use super::record::Record;
use crate::wall_time::WallTime;

/// How far from true time a clock runs: far above what quartz does, below what the durations allow (a fifth).
const DRIFT_MAX: f64 = 0.05;

const CONTENDERS: usize = 3;

/// True time that one seed covers.
const SPAN: Duration = Duration::from_secs(600);

/// True time after which nothing fails any more.
const CALM: Duration = Duration::from_secs(450);

/// Faults of a run.
#[derive(Clone, Copy)]
struct Faults {
    lost: f64,
    crash: f64,
    delay_max: Duration,
    /// Planted bugs, to see the check fire.
    bug: Bug,
}

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// A holder counts from the end of its write.
    CountsFromTheEnd,
    /// Contenders wait for less than the holder's deadline.
    TakesOverEarly,
    /// The store ignores versions.
    Unconditional,
}

#[derive(Default)]
struct Store {
    record: Option<Record>,
    version: u64,
}

struct Contender {
    machine: Machine,
    offset: Duration,
    rate: f64,
    bug: Bug,
    life: u64,
}

enum Event {
    /// A contender begins an attempt.
    Begin(usize),
    /// Its request reaches the store.
    Arrive(usize, u64, Attempt, Monotonic),
    /// The answer to a read reaches it.
    Read(usize, u64, Option<(Record, Version)>),
    /// The answer to a write reaches it.
    Wrote(usize, u64, Record, Monotonic, Written),
    /// It dies, and starts anew.
    Crash(usize),
}

struct World {
    now: Duration,
    random: StdRng,
    faults: Faults,
    store: Store,
    contenders: Vec<Contender>,
    events: BTreeMap<(Duration, u64), Event>,
    serial: u64,
    takeovers: u32,
    log: Vec<String>,
}

/// The time that a contender writes with a renewal: each one differs from the one before.
fn wall(clock: Monotonic) -> WallTime {
    WallTime(i64::try_from(clock.0.as_micros()).unwrap_or(i64::MAX))
}

impl Contender {
    fn new(index: usize, life: u64, bug: Bug, random: &mut StdRng) -> Self {
        Self {
            machine: Machine::new(format!("contender-{index}-{life}"), Timing::DEFAULT),
            offset: Duration::from_secs(random.random_range(0..1_000_000)),
            rate: 1.0 + random.random_range(-DRIFT_MAX..DRIFT_MAX),
            bug,
            life,
        }
    }

    /// The contender's clock at the true time `now`.
    fn clock(&self, now: Duration) -> Monotonic {
        Monotonic(self.offset + now.mul_f64(self.rate))
    }
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let contenders =
            (0..CONTENDERS).map(|index| Contender::new(index, 0, faults.bug, &mut random)).collect();
        let mut world = Self {
            now: Duration::ZERO,
            random,
            faults,
            store: Store::default(),
            contenders,
            events: BTreeMap::new(),
            serial: 0,
            takeovers: 0,
            log: Vec::new(),
        };
        for index in 0..CONTENDERS {
            let first = Duration::from_millis(world.random.random_range(0..5_000));
            world.at(first, Event::Begin(index));
        }
        world
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.serial += 1;
        self.events.insert((self.now + after, self.serial), event);
    }

    fn delay(&mut self) -> Duration {
        let limit = if self.is_calm() { Duration::from_millis(20) } else { self.faults.delay_max };
        let part: f64 = self.random.random::<f64>().powi(3);
        limit.mul_f64(part)
    }

    fn is_calm(&self) -> bool {
        self.now >= CALM
    }

    fn is_lost(&mut self) -> bool {
        let chance = self.faults.lost;
        !self.is_calm() && self.random.random_bool(chance)
    }

    /// Runs the whole span; an error where two contenders lead at once.
    fn run(&mut self) -> Result<(), String> {
        while let Some((&(time, serial), _)) = self.events.first_key_value() {
            if time > SPAN {
                break;
            }
            let event = self.events.remove(&(time, serial)).expect("it is the first");
            self.now = time;
            self.handle(event);
            self.check_one_leader()?;
        }
        Ok(())
    }

    fn check_one_leader(&self) -> Result<(), String> {
        let leads = |contender: &&Contender| contender.machine.is_leading(contender.clock(self.now));
        let leading: Vec<_> =
            self.contenders.iter().filter(leads).map(|one| one.machine.identity()).collect();
        if leading.len() > 1 {
            return Err(format!("at {:?} {leading:?} lead", self.now));
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begin(index) => self.begin(index),
            Event::Arrive(index, life, attempt, began) => self.arrive(index, life, attempt, began),
            Event::Read(index, life, found) => self.read(index, life, found),
            Event::Wrote(index, life, record, began, written) => {
                if self.contenders[index].life == life {
                    let clock = self.contenders[index].clock(self.now);
                    let began = if self.faults.bug == Bug::CountsFromTheEnd { clock } else { began };
                    self.log.push(format!("{:?} {index} wrote {written:?}", self.now));
                    self.contenders[index].machine.wrote(began, clock, record, written);
                }
            }
            Event::Crash(index) => {
                let life = self.contenders[index].life + 1;
                let bug = self.contenders[index].bug;
                self.contenders[index] = Contender::new(index, life, bug, &mut self.random);
                self.log.push(format!("{:?} {index} crashes", self.now));
            }
        }
    }

    fn begin(&mut self, index: usize) {
        let contender = &mut self.contenders[index];
        let clock = contender.clock(self.now);
        if contender.machine.leads_until().is_some() && !contender.machine.is_leading(clock) {
            contender.machine.stop();
        }
        let (attempt, life) = (contender.machine.begin(clock, wall(clock)), contender.life);
        self.send(index, life, attempt, clock);
        let crash = self.faults.crash;
        if !self.is_calm() && self.random.random_bool(crash) {
            let after = Duration::from_millis(self.random.random_range(0..2_000));
            self.at(after, Event::Crash(index));
        }
        let pause = Duration::from_millis(self.random.random_range(2_000..4_000));
        self.at(pause, Event::Begin(index));
    }

    fn send(&mut self, index: usize, life: u64, attempt: Attempt, began: Monotonic) {
        let delay = self.delay();
        if self.is_lost() {
            return;
        }
        self.at(delay, Event::Arrive(index, life, attempt, began));
    }

    /// The store answers; the answer may be lost.
    fn arrive(&mut self, index: usize, life: u64, attempt: Attempt, began: Monotonic) {
        let answer = match attempt {
            Attempt::Read => {
                let mut found = self.store.record.clone().map(|record| (record, self.version()));
                if let (Some((record, _)), Bug::TakesOverEarly) = (&mut found, self.faults.bug) {
                    record.lease_duration_seconds = 9;
                }
                Event::Read(index, life, found)
            }
            Attempt::Create(record) => {
                let is_free = self.store.record.is_none();
                self.write(index, life, record, began, is_free)
            }
            Attempt::Update(version, record) => {
                let is_same = version == self.version() || self.faults.bug == Bug::Unconditional;
                self.write(index, life, record, began, is_same)
            }
        };
        let delay = self.delay();
        if !self.is_lost() {
            self.at(delay, answer);
        } else if let Event::Wrote(index, life, record, began, _) = answer {
            // The caller's patience ends.
            self.at(Duration::from_secs(5), Event::Wrote(index, life, record, began, Written::Unsure));
        }
    }

    fn write(
        &mut self,
        index: usize,
        life: u64,
        record: Record,
        began: Monotonic,
        is_accepted: bool,
    ) -> Event {
        if !is_accepted {
            return Event::Wrote(index, life, record, began, Written::Unsure);
        }
        let before = self.store.record.as_ref().map(|record| record.holder.clone());
        self.takeovers += u32::from(before.is_some_and(|before| before != record.holder));
        self.store.record = Some(record.clone());
        self.store.version += 1;
        Event::Wrote(index, life, record, began, Written::Done(self.version()))
    }

    fn version(&self) -> Version {
        Version(self.store.version.to_string())
    }

    fn read(&mut self, index: usize, life: u64, found: Option<(Record, Version)>) {
        let contender = &mut self.contenders[index];
        if contender.life != life {
            return;
        }
        let clock = contender.clock(self.now);
        if let Some(attempt) = contender.machine.observe(clock, wall(clock), found) {
            self.send(index, life, attempt, clock);
        }
    }

    fn leaders(&self) -> usize {
        self.contenders.iter().filter(|one| one.machine.is_leading(one.clock(self.now))).count()
    }
}

const FAULTS: Faults = Faults { lost: 0.2, crash: 0.02, delay_max: Duration::from_secs(12), bug: Bug::None };

#[test]
fn two_never_lead_at_once_and_in_the_end_one_does() {
    let mut takeovers = 0;
    for seed in 0..2_000 {
        let mut world = World::new(seed, FAULTS);
        if let Err(problem) = world.run() {
            panic!("seed {seed}: {problem}\n{}", world.log.join("\n"));
        }
        assert_eq!(world.leaders(), 1, "seed {seed}: {}", world.log.join("\n"));
        takeovers += world.takeovers;
    }
    assert!(takeovers > 2_000, "the lock changes hands: {takeovers}");
}

#[test]
fn the_check_finds_planted_bugs() {
    for bug in [Bug::CountsFromTheEnd, Bug::TakesOverEarly, Bug::Unconditional] {
        let found = (0..2_000).any(|seed| World::new(seed, Faults { bug, ..FAULTS }).run().is_err());
        assert!(found, "a planted bug stays hidden");
    }
}

#[test]
fn a_seed_replays_the_same_run() {
    let run = |seed| {
        let mut world = World::new(seed, FAULTS);
        world.run().unwrap();
        world.log
    };
    assert_eq!(run(17), run(17));
    assert_ne!(run(17), run(18));
}
