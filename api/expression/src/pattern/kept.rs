//! Matching with a large pattern, whose states are kept from text to text.
//!
//! Owns the deterministic automaton of a pattern, made state by state as texts need it, and the price of making it. Simulating a large
//! automaton has a bound for each byte that texts of the field never come near: classes of Unicode repeated sixty times have thirty
//! thousand states, of which a host name visits some dozens. A transition that was made before costs a look; making one costs at most what
//! the simulation costs for a byte.
//!
//! Invariant: a transition is charged for before it is made, so that no text costs more than its simulation would.

use parking_lot::Mutex;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::NFA;
use regex_automata::{Anchored, Input};

/// Bytes of states that are kept. Where they are full, all go, and are made again as texts need them. A pattern whose automaton needs more
/// for a single state gets that.
const STATES_BYTES: usize = 64 << 10;

/// Bytes of a text that one step pays for where their transitions are known.
const KNOWN_PER_STEP: u64 = 32;

/// The states of a pattern.
#[derive(Debug)]
pub(super) struct KeptStates {
    automaton: DFA,
    /// Of the last match that has ended; a match takes it away and brings it back, and locks nothing meanwhile.
    states: Mutex<Option<Cache>>,
}

impl KeptStates {
    /// Those of `automaton`; `None`: it has assertions that no such automaton decides.
    pub(super) fn of(automaton: &NFA) -> Option<KeptStates> {
        let config = DFA::config().cache_capacity(STATES_BYTES).skip_cache_capacity_check(true);
        let automaton = DFA::builder().configure(config).build_from_nfa(automaton.clone()).ok()?;
        Some(KeptStates { automaton, states: Mutex::default() })
    }

    /// Most bytes that it holds, about.
    pub(super) fn bytes_max(&self) -> usize {
        // Five of the largest states, and sets of as many numbers as the automaton has states: about twice its bytes.
        let least = self.automaton.get_nfa().memory_usage().saturating_mul(2);
        self.automaton.memory_usage().saturating_add(least.max(STATES_BYTES))
    }

    /// Whether the pattern matches a part of `text`. `charge` is asked for the steps of what is about to be done, `of_state` for making a
    /// transition. `None`: it refused, or the automaton cannot decide.
    pub(super) fn is_match(
        &self,
        text: &str,
        of_state: u64,
        charge: &mut dyn FnMut(u64) -> bool,
    ) -> Option<bool> {
        let kept = self.states.lock().take();
        let mut states = match kept {
            Some(states) => states,
            // Its tables are as large as the automaton.
            None if charge(of_state) => self.automaton.create_cache(),
            None => return None,
        };
        let found = self.walk(&mut states, text, of_state, charge);
        *self.states.lock() = Some(states);
        found
    }

    fn walk(
        &self,
        states: &mut Cache,
        text: &str,
        of_state: u64,
        charge: &mut dyn FnMut(u64) -> bool,
    ) -> Option<bool> {
        // The first state, and what follows the text, are made like transitions.
        let around = of_state.saturating_mul(2);
        if !charge(around.saturating_add(text.len() as u64 / KNOWN_PER_STEP)) {
            return None;
        }
        let input = Input::new(text).anchored(Anchored::No).earliest(true);
        let mut at = self.automaton.start_state_forward(states, &input).ok()?;
        for (place, &byte) in text.as_bytes().iter().enumerate() {
            if !self.is_known(states, at, byte) && !charge(of_state) {
                return None;
            }
            at = self.automaton.next_state(states, at, byte).ok()?;
            match at {
                // A match is told one byte late. Inside of a character an empty one is none: the simulation decides.
                at if at.is_match() => return text.is_char_boundary(place).then_some(true),
                at if at.is_dead() => return Some(false),
                at if at.is_quit() => return None,
                _ => {}
            }
        }
        let end = self.automaton.next_eoi_state(states, at).ok()?;
        Some(end.is_match())
    }

    /// Whether the transition from `at` was made before.
    fn is_known(&self, states: &Cache, at: LazyStateID, byte: u8) -> bool {
        !at.is_tagged() && !self.automaton.next_state_untagged(states, at, byte).is_unknown()
    }
}
