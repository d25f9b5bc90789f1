//! The watches of a node by the question that each depends on, and when that is asked again.
//!
//! Owns which questions there are, their order, and what follows from an answer: a refusal ends the watches of its question, no
//! answer ends them after a while. It asks nothing, and knows neither rules nor clocks.
//!
//! Invariant: a question is here as long as a watch depends on it and it was not refused, once, however many watches do.
//! Invariant: no signal is given, and no watch dropped, under the lock.

use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::question::Question;
use super::{ASK_EVERY, UNDECIDED_SPAN_MAX};
use crate::ambient::Timestamp;
use crate::authn::Credential;
use crate::follow::shrink;
use crate::watch::Ending;

/// A table over what clients choose: its hash is keyed.
type Keyed<K, V> = HashMap<K, V, RandomState>;

/// The questions of one node.
#[derive(Debug, Default)]
pub(in crate::http) struct Ledger(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Number of the newest watch or turn.
    newest: u64,
    /// The credentials, each with the number of questions that share it.
    credentials: Keyed<Arc<Credential>, usize>,
    questions: Keyed<Arc<Question>, Held>,
    /// Questions by their turns.
    turns: BTreeMap<Turn, Arc<Question>>,
    /// Whether a task asks the questions.
    is_swept: bool,
}

/// When a question is asked next, and a number of its own.
type Turn = (Duration, u64);

/// The entry of a question.
#[derive(Debug)]
struct Held {
    watches: Watches,
    /// `None` while it is asked, and for one that is never asked.
    turn: Option<Turn>,
    /// When it was asked first without an answer since.
    undecided_since: Option<Timestamp>,
    /// Whether a watch was let in with this question while it was asked.
    has_joined: bool,
}

/// The watches that depend on a question, by number. Most questions are those of one.
#[derive(Debug)]
enum Watches {
    One(u64, Ending),
    Many(Box<HashMap<u64, Ending>>),
}

/// The right to one watch, which leaves the ledger when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct Right {
    ledger: Arc<Ledger>,
    question: Arc<Question>,
    number: u64,
}

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Held,
    Undecided,
    Lost,
}

/// The effect of an answer on the watches of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is asked again.
    Kept,
    /// Its watches end.
    Ended,
}

impl Watches {
    fn add(&mut self, number: u64, ending: Ending) {
        match self {
            Watches::Many(all) => drop(all.insert(number, ending)),
            Watches::One(first, of_first) => {
                *self =
                    Watches::Many(Box::new(HashMap::from([(*first, of_first.clone()), (number, ending)])));
            }
        }
    }

    /// Takes one away. `true`: none is left.
    fn remove(&mut self, number: u64) -> bool {
        match self {
            Watches::One(only, _) => *only == number,
            Watches::Many(all) => {
                all.remove(&number);
                shrink(&mut **all);
                all.is_empty()
            }
        }
    }

    fn end(self) {
        match self {
            Watches::One(_, ending) => ending.give(),
            Watches::Many(all) => all.into_values().for_each(|ending| ending.give()),
        }
    }
}

impl Ledger {
    /// Adds a watch that was let in with `question` at `now`, which `ending` ends. The second result tells the caller to start
    /// a task that asks.
    pub(super) fn add(
        self: &Arc<Ledger>,
        question: Question,
        ending: Ending,
        now: Duration,
    ) -> (Right, bool) {
        let mut table = self.0.lock();
        table.newest += 1;
        let number = table.newest;
        let question = table.shared(question);
        if let Some(held) = table.questions.get_mut(&question) {
            held.watches.add(number, ending);
            // The request was answered just now.
            held.undecided_since = None;
            held.has_joined = held.turn.is_none();
        } else {
            let held = Held {
                watches: Watches::One(number, ending),
                turn: None,
                undecided_since: None,
                has_joined: false,
            };
            table.questions.insert(question.clone(), held);
            table.give_turn(&question, now + ASK_EVERY);
        }
        let is_first = !std::mem::replace(&mut table.is_swept, true);
        drop(table);
        (Right { ledger: self.clone(), question, number }, is_first)
    }

    /// The time of the next question; `None`: none has a turn.
    pub(super) fn next_turn(&self) -> Option<Duration> {
        self.0.lock().turns.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next question that is due at `now`.
    pub(super) fn take_due(&self, now: Duration) -> Option<Arc<Question>> {
        let mut table = self.0.lock();
        let question = table.turns.first_entry().filter(|turn| turn.key().0 <= now)?.remove();
        if let Some(held) = table.questions.get_mut(&question) {
            (held.turn, held.has_joined) = (None, false);
        }
        Some(question)
    }

    /// Notes the answer to a question that was asked `at` a time of day, at `now`.
    pub(super) fn answer(
        &self,
        question: &Arc<Question>,
        answer: Answer,
        at: Timestamp,
        now: Duration,
    ) -> Outcome {
        let mut table = self.0.lock();
        // It may have gone, or come again, meanwhile.
        let Some((own, held)) = table.questions.get_key_value_mut(question) else { return Outcome::Kept };
        if !Arc::ptr_eq(own, question) {
            return Outcome::Kept;
        }
        let is_lost = match answer {
            Answer::Held => {
                held.undecided_since = None;
                false
            }
            Answer::Undecided => {
                let since = *held.undecided_since.get_or_insert(at);
                Duration::from_micros(at.0.saturating_sub(since.0)) >= UNDECIDED_SPAN_MAX
            }
            Answer::Lost => true,
        };
        if is_lost && !held.has_joined {
            let ended = table.remove(question);
            drop(table);
            ended.into_iter().for_each(Watches::end);
            return Outcome::Ended;
        }
        // Of a watch that was let in meanwhile the answer may come from an earlier state: it is asked at once.
        let next = if is_lost { now } else { now + ASK_EVERY };
        table.give_turn(question, next);
        Outcome::Kept
    }

    /// Ends the task that asks, if no watch is left. `false`: it has to go on.
    pub(super) fn end_sweep(&self) -> bool {
        let mut table = self.0.lock();
        let is_empty = table.questions.is_empty();
        table.is_swept &= !is_empty;
        is_empty
    }

    /// Ends all watches, and the task that asks.
    pub(super) fn end_all(&self) {
        let Table { questions, .. } = std::mem::take(&mut *self.0.lock());
        questions.into_values().for_each(|held| held.watches.end());
    }

    fn leave(&self, question: &Arc<Question>, number: u64) {
        let mut table = self.0.lock();
        let Some((own, held)) = table.questions.get_key_value_mut(question) else { return };
        let is_last = Arc::ptr_eq(own, question) && held.watches.remove(number);
        let left = if is_last { table.remove(question) } else { None };
        drop(table);
        drop(left);
    }

    /// Numbers of the questions and of the credentials.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        let table = self.0.lock();
        (table.questions.len(), table.credentials.len())
    }
}

impl Table {
    /// `question` as it is here already, or with the credential that equal ones share.
    fn shared(&mut self, mut question: Question) -> Arc<Question> {
        if let Some(own) = &mut question.credential
            && let Some((known, _)) = self.credentials.get_key_value(own)
        {
            *own = known.clone();
        }
        match self.questions.get_key_value(&question) {
            Some((known, _)) => known.clone(),
            None => {
                if let Some(credential) = &question.credential {
                    *self.credentials.entry(credential.clone()).or_default() += 1;
                }
                Arc::new(question)
            }
        }
    }

    /// The next turn of a question that is here. One without a credential has none.
    fn give_turn(&mut self, question: &Arc<Question>, at: Duration) {
        let Some(held) = self.questions.get_mut(question).filter(|_| question.credential.is_some()) else {
            return;
        };
        self.newest += 1;
        let turn = (at, self.newest);
        if let Some(earlier) = held.turn.replace(turn) {
            self.turns.remove(&earlier);
        }
        self.turns.insert(turn, question.clone());
    }

    fn remove(&mut self, question: &Arc<Question>) -> Option<Watches> {
        let held = self.questions.remove(question)?;
        shrink(&mut self.questions);
        held.turn.and_then(|turn| self.turns.remove(&turn));
        if let Some(credential) = &question.credential
            && let Some(count) = self.credentials.get_mut(credential)
        {
            *count -= 1;
            if *count == 0 {
                self.credentials.remove(credential);
                shrink(&mut self.credentials);
            }
        }
        Some(held.watches)
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        self.ledger.leave(&self.question, self.number);
    }
}
