//! Checks the content of a disk after a power loss against the promises made to its member.
//!
//! A stream's operations become durable in their order, so the content is the sum of a prefix of them, and the prefix
//! reaches at least to the last promised operation. Operations of the two streams have an order, too, if the call of
//! one returned before the other began: the later one is not durable without the earlier one.
//!
//! Invariant: content that a process has read counts as promised.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::Value;

use super::model::{Fact, LogShown, Operation, Shown, Side, StateShown, Stream};

/// Differences that a report lists.
const DIFFERENCES_MAX: usize = 30;
/// Characters of operations that a report lists.
const OPERATIONS_CHARS_MAX: usize = 4_000;

/// An operation whose call began.
#[derive(Debug)]
struct Issued {
    number: u64,
    operation: Operation,
    // Times are record numbers in the trace of the process.
    tried: usize,
    done: Option<usize>,
}

/// One side: the certain state, and the operations after it.
#[derive(Debug, Default)]
struct Promises<S> {
    certain: S,
    issued: Vec<Issued>,
    // Number of promised operations in `issued`.
    promised: usize,
    // The newest operation that was reported as durable.
    reported: u64,
}

impl<S: Side> Promises<S> {
    fn find(&mut self, number: u64) -> Result<(usize, &mut Issued)> {
        let found = self.issued.iter_mut().enumerate().rev().find(|(_, issued)| issued.number == number);
        found.with_context(|| format!("operation {number} was never tried"))
    }

    /// Number of operations that had returned before `time`.
    fn done_before(&self, time: usize) -> usize {
        self.issued
            .iter()
            .rposition(|issued| issued.done.is_some_and(|done| done < time))
            .map_or(0, |at| at + 1)
    }

    /// Every prefix length of the operations whose sum is `shown`.
    fn explain(&self, shown: &S, name: &str) -> Result<Vec<usize>> {
        let mut sum = self.certain.clone();
        let mut found = Vec::new();
        for count in 0..=self.issued.len() {
            if count >= self.promised && sum == *shown {
                found.push(count);
            }
            if let Some(issued) = self.issued.get(count) {
                sum.apply(issued.number, &issued.operation);
            }
        }
        if found.is_empty() {
            bail!("{name}: {}", self.describe(shown));
        }
        Ok(found)
    }

    /// Describes the broken promise, or that no prefix of the operations gives `shown`.
    fn describe(&self, shown: &S) -> String {
        let mut sum = self.certain.clone();
        let mut nearest = (usize::MAX, String::new());
        for count in 0..=self.issued.len() {
            if sum == *shown {
                return format!("{count} operations are there, {} were promised", self.promised);
            }
            let differences = differences(&sum, shown);
            if differences.len() < nearest.0 {
                let listed: Vec<_> = differences.iter().take(DIFFERENCES_MAX).map(String::as_str).collect();
                nearest = (differences.len(), format!("after {count} of them, {}", listed.join(", ")));
            }
            if let Some(issued) = self.issued.get(count) {
                sum.apply(issued.number, &issued.operation);
            }
        }
        let issued = self.issued.iter().map(|issued| format!("{} {:?}", issued.number, issued.operation));
        let issued =
            issued.collect::<Vec<_>>().join(", ").chars().take(OPERATIONS_CHARS_MAX).collect::<String>();
        format!(
            "no prefix of the operations explains it ({} promised of {}); the nearest has {} differences: {}\n operations {issued}",
            self.promised,
            self.issued.len(),
            nearest.0,
            nearest.1
        )
    }

    fn settle(&mut self, shown: &S) {
        *self = Promises { certain: shown.clone(), issued: Vec::new(), promised: 0, reported: self.reported };
    }
}

/// The leaves in which the two contents differ: path, expected value, shown value.
fn differences<S: Serialize>(expected: &S, shown: &S) -> Vec<String> {
    let (mut expected, mut shown) = (leaves(expected), leaves(shown));
    expected.retain(|path, value| shown.get(path) != Some(value) || shown.remove(path).is_none());
    let paths: BTreeSet<_> = expected.keys().chain(shown.keys()).collect();
    let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    let line = |path: &&String| {
        format!("{path}: {} expected, {} shown", text(expected.get(*path)), text(shown.get(*path)))
    };
    paths.iter().map(line).collect()
}

/// Every value of `content` that is no object, by its path.
fn leaves<S: Serialize>(content: &S) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), serde_json::to_value(content).unwrap_or_default())];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(map) => {
                open.extend(map.into_iter().map(|(name, value)| (format!("{path}/{name}"), value)))
            }
            value => drop(found.insert(path, value)),
        }
    }
    found
}

/// The promises made in one directory, over all processes that worked in it.
#[derive(Debug, Default)]
pub struct Judge {
    log: Promises<LogShown>,
    state: Promises<StateShown>,
    /// Operations promised in all.
    pub promised: usize,
    /// Unpromised operations that were lost.
    pub lost: usize,
}

impl Judge {
    /// Processes a fact that a process printed at `time`.
    pub fn hear(&mut self, time: usize, fact: Fact) -> Result<()> {
        match fact {
            Fact::Shown(shown) => return self.check(&shown),
            Fact::Refused(why) => bail!("the disk refused: {why}"),
            Fact::Try(stream, number, operation) => {
                let issued = Issued { number, operation, tried: time, done: None };
                match stream {
                    Stream::Log => self.log.issued.push(issued),
                    Stream::State => self.state.issued.push(issued),
                }
            }
            Fact::Done(Stream::Log, number) => self.log.find(number)?.1.done = Some(time),
            Fact::Done(Stream::State, number) => self.state.find(number)?.1.done = Some(time),
            Fact::Durable(stream, number) => self.promise(stream, number)?,
        }
        Ok(())
    }

    fn promise(&mut self, stream: Stream, number: u64) -> Result<()> {
        self.promised += 1;
        // All operations that had returned before the promised one began are durable with it.
        let (log, state) = match stream {
            Stream::Log => {
                let (at, issued) = self.log.find(number)?;
                let tried = issued.tried;
                ensure!(number > self.log.reported, "operation {number} was reported after a later one");
                self.log.reported = number;
                (at + 1, self.state.done_before(tried))
            }
            Stream::State => {
                let (at, issued) = self.state.find(number)?;
                let tried = issued.tried;
                (self.log.done_before(tried), at + 1)
            }
        };
        self.log.promised = self.log.promised.max(log);
        self.state.promised = self.state.promised.max(state);
        Ok(())
    }

    fn check(&mut self, shown: &Shown) -> Result<()> {
        let (log, state) = (&shown.log, &shown.state);
        let in_log = self.log.explain(log, "log")?;
        let in_state = self.state.explain(state, "state")?;
        let in_order = |log: usize, state: usize| {
            let log_needs =
                log.checked_sub(1).map_or(0, |at| self.state.done_before(self.log.issued[at].tried));
            let state_needs =
                state.checked_sub(1).map_or(0, |at| self.log.done_before(self.state.issued[at].tried));
            log_needs <= state && state_needs <= log
        };
        let pair = in_log.iter().flat_map(|log| in_state.iter().map(move |state| (*log, *state)));
        let pair = pair.into_iter().find(|(log, state)| in_order(*log, *state));
        let Some((kept_log, kept_state)) = pair else {
            bail!(
                "log and state do not belong to one moment: {in_log:?} operations of the log, {in_state:?} of the state"
            );
        };
        self.lost += self.log.issued.len() - kept_log + self.state.issued.len() - kept_state;
        let indexes: Vec<u64> = log.entries.keys().copied().collect();
        ensure!(indexes.windows(2).all(|pair| pair[0] + 1 == pair[1]), "the log has a hole");
        let applied = state.mark.map_or(0, |(_, applied)| applied);
        let purged = log.purged.map_or(0, |(_, index)| index);
        ensure!(purged <= applied, "the log is purged up to {purged}, the state reaches only to {applied}");
        self.log.settle(log);
        self.state.settle(state);
        Ok(())
    }
}
