//! Compiled expressions, and which of them are kept.
//!
//! Owns compiling: an expression costs nothing but its text until a search first evaluates it, and one that many claims
//! have is compiled once. Invariant: what is kept of compiled expressions fits into [`PROGRAM_BYTES_MAX`], however many
//! there are; beyond it, all are forgotten and compiled again when they are used.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use cel::IdedExpr;
use orch_rules::expression::{DEVICE_SELECTOR_BYTES_MAX, DeviceBounds, device_selector_steps, nesting};
use parking_lot::Mutex;

use super::pattern::{self, CelPattern};
use super::{DeviceObject, ENVIRONMENT};

/// Levels of an expression's tree, as the API server takes them.
const NESTING_MAX: usize = 100;
/// Steps of compiling each byte of an expression: the library's parser takes some microseconds for each.
const COMPILE_STEPS_PER_BYTE: u64 = 50;
/// Bytes of a compiled expression for each of its text: `1+1` becomes three nodes of a hundred bytes and more.
const PROGRAM_BYTES_PER_BYTE: usize = 256;
/// Bytes of all compiled expressions that are kept: those of thousands of usual ones.
const PROGRAM_BYTES_MAX: usize = 64 << 20;
/// Kinds of devices for which the steps of an expression are remembered: clusters have a handful.
const BOUNDS_MAX: usize = 16;

/// An expression, compiled when it is first used.
#[derive(Debug)]
pub(in crate::plan::devices) struct Selector {
    source: Arc<str>,
    programs: Arc<Programs>,
    /// What this expression was compiled to, while it is kept.
    compiled: Mutex<Weak<Compiled>>,
}

impl Selector {
    /// The compiled expression, and the steps that it took to compile it now.
    pub(in crate::plan::devices) fn compiled(&self) -> (Arc<Compiled>, u64) {
        let mut compiled = self.compiled.lock();
        if let Some(known) = compiled.upgrade() {
            return (known, 0);
        }
        let (made, steps) = self.programs.compiled(&self.source);
        *compiled = Arc::downgrade(&made);
        (made, steps)
    }
}

/// An expression that is ready for its evaluation.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) expression: IdedExpr,
    pub(super) patterns: Vec<CelPattern>,
}

/// A compiled expression, or the reason why there is none.
#[derive(Debug)]
pub(in crate::plan::devices) struct Compiled {
    program: Result<Program, String>,
    /// Steps of an evaluation by the bounds of devices.
    steps: Mutex<Vec<(DeviceBounds, u64)>>,
    /// Bytes of memory that it takes.
    bytes: usize,
}

impl Compiled {
    fn new(source: &str) -> Compiled {
        let program = compile(source);
        let of_patterns = |program: &Program| program.patterns.iter().map(CelPattern::bytes).sum();
        let bytes = source.len().saturating_mul(PROGRAM_BYTES_PER_BYTE);
        let bytes = bytes.saturating_add(program.as_ref().map_or(0, of_patterns));
        Compiled { program, steps: Mutex::default(), bytes }
    }

    pub(super) fn program(&self) -> Result<&Program, &str> {
        self.program.as_ref().map_err(String::as_str)
    }

    /// A bound of the steps of evaluating the expression for `device`.
    pub(in crate::plan::devices) fn steps(&self, device: &DeviceObject) -> u64 {
        let Ok(program) = &self.program else { return 1 };
        let bounds = device.bounds();
        let mut known = self.steps.lock();
        if let Some((_, steps)) = known.iter().find(|(known, _)| *known == bounds) {
            return *steps;
        }
        let of_byte = |name: &str| pattern::find(&program.patterns, name).map(CelPattern::steps_of_byte);
        let steps = device_selector_steps(&program.expression, bounds, &of_byte);
        if known.len() >= BOUNDS_MAX {
            known.clear();
        }
        known.push((bounds, steps));
        steps
    }
}

fn compile(source: &str) -> Result<Program, String> {
    if source.len() > DEVICE_SELECTOR_BYTES_MAX {
        return Err(format!("the expression is longer than {DEVICE_SELECTOR_BYTES_MAX} bytes"));
    }
    if nesting(source).is_none_or(|levels| levels > NESTING_MAX) {
        return Err(format!("the expression nests more than {NESTING_MAX} levels deep"));
    }
    let mut expression = ENVIRONMENT.parser().parse(source).map_err(|error| error.to_string())?;
    let patterns = pattern::compile_all(&mut expression);
    Ok(Program { expression, patterns })
}

/// The compiled expressions that are kept, by their text.
#[derive(Debug, Default)]
struct Programs {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_source: HashMap<Arc<str>, Arc<Compiled>>,
    bytes: usize,
}

impl Programs {
    /// The compiled expression, and the steps that it took to compile it.
    fn compiled(&self, source: &Arc<str>) -> (Arc<Compiled>, u64) {
        let mut kept = self.kept.lock();
        if let Some(known) = kept.by_source.get(source) {
            return (known.clone(), 0);
        }
        let compiled = Arc::new(Compiled::new(source));
        if kept.bytes.saturating_add(compiled.bytes) > PROGRAM_BYTES_MAX {
            *kept = Kept::default();
        }
        kept.bytes = kept.bytes.saturating_add(compiled.bytes);
        kept.by_source.insert(source.clone(), compiled.clone());
        let bytes = u64::try_from(source.len()).unwrap_or(u64::MAX);
        (compiled, bytes.saturating_mul(COMPILE_STEPS_PER_BYTE))
    }
}

/// The expressions of claims and classes, one for each text.
#[derive(Debug, Default)]
pub(in crate::plan::devices) struct Selectors {
    by_source: HashMap<Arc<str>, Weak<Selector>>,
    /// Number of entries at which those that nothing uses are dropped: twice what was used the last time, so that each
    /// entry pays for looking at a constant number of others.
    sweep_at: usize,
    programs: Arc<Programs>,
}

/// Number of expressions below which unused ones are not looked for.
const SWEEP_AT_LEAST: usize = 64;

impl Selectors {
    /// The selector written as `source`.
    pub(in crate::plan::devices) fn selector(&mut self, source: &str) -> Arc<Selector> {
        if let Some(known) = self.by_source.get(source).and_then(Weak::upgrade) {
            return known;
        }
        if self.by_source.len() >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.by_source.retain(|_, selector| selector.strong_count() > 0);
            self.sweep_at = self.by_source.len().saturating_mul(2);
        }
        let source: Arc<str> = source.into();
        let programs = self.programs.clone();
        let selector = Arc::new(Selector { source: source.clone(), programs, compiled: Mutex::default() });
        self.by_source.insert(source, Arc::downgrade(&selector));
        selector
    }

    /// Number of entries at which unused ones are dropped.
    #[cfg(test)]
    pub(super) fn sweep_at(&self) -> usize {
        self.sweep_at.max(SWEEP_AT_LEAST)
    }

    /// Number of expressions that are known, and of those that are compiled.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.by_source.len(), self.programs.kept.lock().by_source.len())
    }
}
