//! Compiled expressions, and their cache.
//!
//! Owns compiling: an expression costs nothing but its text until a search first evaluates it, and one that many claims
//! have is compiled once. Invariants: what is kept of compiled expressions fits into [`PROGRAM_BYTES_MAX`], however many
//! there are; beyond it, all are forgotten and compiled again when they are used. The steps of compiling are charged before
//! it begins; without them nothing is kept.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use orch_expression::{Ast, Program, device_selector_steps};
use orch_rules::expression::{
    Charge, DEVICE_SELECTOR_BYTES_MAX, DeviceBounds, Exhausted, PatternLimits, device_scope,
};
use parking_lot::Mutex;

use super::DeviceObject;

/// Bytes of a compiled expression for each of its text: `1+1` becomes three nodes of a hundred bytes and more, once as it
/// is written and once as it is evaluated.
const PROGRAM_BYTES_PER_BYTE: usize = 384;
/// Bytes of all compiled expressions that are kept: those of thousands of usual ones.
const PROGRAM_BYTES_MAX: usize = 64 << 20;
/// Kinds of devices for which the steps of an expression are remembered: clusters have a handful.
const BOUNDS_MAX: usize = 16;

/// An expression, compiled when it is first used.
#[derive(Debug)]
pub(in crate::plan::devices) struct Selector {
    source: Arc<str>,
    programs: Arc<Programs>,
    /// The compiled form, while it is cached.
    compiled: Mutex<Weak<Compiled>>,
}

impl Selector {
    /// The compiled expression; it is charged for where it has to be compiled now.
    ///
    /// # Errors
    /// The steps of compiling it are not left.
    pub(in crate::plan::devices) fn compiled(
        &self,
        charge: &mut dyn Charge,
    ) -> Result<Arc<Compiled>, Exhausted> {
        let mut compiled = self.compiled.lock();
        if let Some(known) = compiled.upgrade() {
            return Ok(known);
        }
        let made = self.programs.compiled(&self.source, charge)?;
        *compiled = Arc::downgrade(&made);
        Ok(made)
    }
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
    fn new(source: &str, charge: &mut dyn Charge) -> Result<Compiled, Exhausted> {
        let program = compile(source, charge)?;
        let bytes = source.len().saturating_mul(PROGRAM_BYTES_PER_BYTE);
        let bytes = bytes.saturating_add(program.as_ref().map_or(0, Program::pattern_bytes));
        Ok(Compiled { program, steps: Mutex::default(), bytes })
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
        let of_byte = |pattern: &str| program.steps_of_byte(pattern);
        let steps = device_selector_steps(program.expression(), bounds, &of_byte);
        if known.len() >= BOUNDS_MAX {
            known.clear();
        }
        known.push((bounds, steps));
        steps
    }
}

fn compile(source: &str, charge: &mut dyn Charge) -> Result<Result<Program, String>, Exhausted> {
    if source.len() > DEVICE_SELECTOR_BYTES_MAX {
        return Ok(Err(format!("the expression is longer than {DEVICE_SELECTOR_BYTES_MAX} bytes")));
    }
    match Ast::check(source, device_scope(), charge)? {
        Ok(ast) => Ok(Ok(ast.program(PatternLimits::STANDING, charge)?)),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// The compiled expressions that are kept, by their text.
#[derive(Debug, Default)]
struct Programs {
    kept: Mutex<ProgramCache>,
}

#[derive(Debug, Default)]
struct ProgramCache {
    by_source: HashMap<Arc<str>, Arc<Compiled>>,
    bytes: usize,
}

impl Programs {
    fn compiled(&self, source: &Arc<str>, charge: &mut dyn Charge) -> Result<Arc<Compiled>, Exhausted> {
        let mut kept = self.kept.lock();
        if let Some(known) = kept.by_source.get(source) {
            return Ok(known.clone());
        }
        let compiled = Arc::new(Compiled::new(source, charge)?);
        if kept.bytes.saturating_add(compiled.bytes) > PROGRAM_BYTES_MAX {
            *kept = ProgramCache::default();
        }
        kept.bytes = kept.bytes.saturating_add(compiled.bytes);
        kept.by_source.insert(source.clone(), compiled.clone());
        Ok(compiled)
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
