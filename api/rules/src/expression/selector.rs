//! Selectors of devices at the API, which only checks them: the scheduler evaluates.
//!
//! Owns their check, its bound for one expression, and the remembered results of expressions that were checked lately: an object
//! is checked again in each attempt of its write, and claims of one template have one text. Invariant: a check has one
//! outcome and one price, whether it is remembered or not, so that equal objects get equal answers.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use orch_expression::{
    Allowance, Ast, Charge, DeviceBounds, Exhausted, Libraries, ObjectTable, PatternLimits, Range, Scope,
    Sizes, Type, device_selector_steps,
};

use super::CompileError;

/// Bytes of a device selector. This and the next are the reference's bounds.
pub const DEVICE_SELECTOR_BYTES_MAX: usize = 10 << 10;
/// Steps of one evaluation of a device selector: at most a tenth of a second.
pub const DEVICE_SELECTOR_STEPS_MAX: u64 = 1_000_000;
/// Steps of compiling one device selector: a tenth of a second, in which ten thousand tokens are parsed.
const DEVICE_SELECTOR_COMPILE_STEPS_MAX: u64 = 1_000_000;
/// Steps of compiling all device selectors of an object: half a second. An object that is filled with usual selectors to
/// its last byte has about so many.
pub const OBJECT_COMPILE_STEPS_MAX: u64 = 5_000_000;
/// Bytes of remembered texts: some thousand usual ones.
const REMEMBERED_BYTES_MAX: usize = 1 << 20;
/// Bytes of an entry beside its text.
const ENTRY_BYTES: usize = 128;

/// The names in a selector: `device`, with its members.
static SCOPE: LazyLock<Scope> = LazyLock::new(|| {
    let by_domain = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
    let members = [
        ("driver", Type::String),
        ("attributes", by_domain(Type::Any)),
        ("capacity", by_domain(Type::Opaque("Quantity"))),
        ("allowMultipleAllocations", Type::Bool),
    ];
    Scope::default()
        .with_objects(ObjectTable::default().with("Device", &members))
        .with_libraries(Libraries { devices: true, ..Libraries::default() })
        .with_variable("device", Type::object("Device"))
});

/// The names that a device selector may use, for the program that evaluates it.
pub fn device_scope() -> &'static Scope {
    &SCOPE
}

/// Sizes of devices, in characters and entries, for the reference's estimate.
struct DeviceSizes;

/// Characters of a domain, and of the name of a driver.
const DOMAIN_CHARACTERS_MAX: u64 = 63;
/// Characters of the name of an attribute.
const NAME_CHARACTERS_MAX: u64 = 32;
/// Attributes and capacities of a device.
const ENTRIES_MAX: u64 = 32;
/// Characters of a value.
const VALUE_CHARACTERS_MAX: u64 = 64;

impl Sizes for DeviceSizes {
    fn size(&self, path: &[&str]) -> Option<Range> {
        let max = match path {
            ["device", "driver"] | ["device", "attributes" | "capacity", "@keys"] => DOMAIN_CHARACTERS_MAX,
            ["device", "attributes" | "capacity"] => ENTRIES_MAX,
            ["device", "attributes" | "capacity", _, "@keys"] => NAME_CHARACTERS_MAX,
            ["device", "attributes" | "capacity", _] => ENTRIES_MAX,
            ["device", "attributes", _, ..] => VALUE_CHARACTERS_MAX,
            ["device", "capacity", ..] | ["device", "allowMultipleAllocations"] => 1,
            _ => return None,
        };
        Some(Range::new(0, max))
    }
}

/// A device selector after its check at the API. The scheduler evaluates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSelector {
    /// The type of its value.
    pub result: Type,
    /// A bound of the steps of an evaluation, for any device that the API takes.
    pub steps: u64,
    /// The most that an evaluation may cost by the reference's estimate.
    pub cost: u64,
}

/// Result of a check, and its price. A failure is not kept with its text, which repeats the expression.
#[derive(Clone, Debug)]
struct Checked {
    selector: DeviceSelector,
    price: u64,
}

#[derive(Debug, Default)]
struct Remembered {
    by_source: HashMap<Box<str>, Checked>,
    bytes: usize,
}

/// Selectors that were checked lately and may be evaluated.
static REMEMBERED: LazyLock<Mutex<Remembered>> = LazyLock::new(Mutex::default);

/// Checks a device selector, and takes what that costs from `allowance`. The
/// caller bounds the length.
///
/// # Errors
/// The outer one: the steps are not left. The inner one: it does not parse, names something unknown, applies an operator
/// to values that it does not take, or a pattern in it cannot be used.
pub fn check_device_selector(
    source: &str,
    allowance: &mut Allowance,
) -> Result<Result<DeviceSelector, CompileError>, Exhausted> {
    // The lock is released before the charge, in which a thread may pause.
    let known = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner).find(source);
    if let Some(known) = known {
        allowance.charge_remembered(known.price)?;
        return Ok(Ok(known.selector));
    }
    let before = allowance.left().min(DEVICE_SELECTOR_COMPILE_STEPS_MAX);
    let mut own = Allowance::of(before);
    let checked = check(source, &mut own);
    let price = before - own.left();
    allowance.charge_remembered(price)?;
    let checked = checked?;
    if let Ok(selector) = &checked {
        let checked = Checked { selector: selector.clone(), price };
        REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner).keep(source, checked);
    }
    Ok(checked)
}

fn check(source: &str, charge: &mut dyn Charge) -> Result<Result<DeviceSelector, CompileError>, Exhausted> {
    let ast = match Ast::check(source, &SCOPE, charge)? {
        Ok(ast) => ast,
        Err(error) => return Ok(Err(CompileError::failed(&error.to_string()))),
    };
    let (result, cost) = (ast.result().clone(), ast.estimate(&DeviceSizes).max);
    let program = ast.program(PatternLimits::STANDING, charge)?;
    if let Some(reason) = program.refusal() {
        return Ok(Err(CompileError(reason)));
    }
    let of_byte = |pattern: &str| program.steps_of_byte(pattern);
    let steps = device_selector_steps(program.expression(), DeviceBounds::API, &of_byte);
    Ok(Ok(DeviceSelector { result, steps, cost }))
}

impl Remembered {
    fn find(&self, source: &str) -> Option<Checked> {
        self.by_source.get(source).cloned()
    }

    /// Keeps a result. Beyond the bound all are forgotten, and their selectors are checked again when they come again.
    fn keep(&mut self, source: &str, checked: Checked) {
        let bytes = source.len().saturating_add(ENTRY_BYTES);
        if self.bytes.saturating_add(bytes) > REMEMBERED_BYTES_MAX {
            *self = Remembered::default();
        }
        if self.by_source.insert(source.into(), checked).is_none() {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(source: &str, allowance: &mut Allowance) -> Result<bool, Exhausted> {
        check_device_selector(source, allowance).map(|checked| checked.is_ok())
    }

    #[test]
    fn a_check_costs_the_same_when_it_is_remembered() {
        let source = "device.driver.matches('^[a-z]+x$')";
        let (mut first, mut second) = (Allowance::of(100_000), Allowance::of(100_000));
        assert_eq!(checked(source, &mut first), Ok(true));
        assert_eq!(checked(source, &mut second), Ok(true));
        assert!(first.left() < 100_000, "{first:?}");
        assert_eq!(first, second);
        let price = 100_000 - first.left();
        assert_eq!(checked(source, &mut Allowance::of(price)), Ok(true));
        assert_eq!(checked(source, &mut Allowance::of(price - 1)), Err(Exhausted));
        let unknown = "device.driver.matches('^[a-z]+$') || false";
        assert_eq!(checked(unknown, &mut Allowance::of(price - 1)), Err(Exhausted), "no other answer");
    }

    #[test]
    fn remembered_selectors_are_bounded() {
        let mut remembered = Remembered::default();
        let selector = DeviceSelector { result: Type::Bool, steps: 1, cost: 1 };
        for number in 0..2000 {
            let source = format!("{number}{}", " ".repeat(1000));
            remembered.keep(&source, Checked { selector: selector.clone(), price: 1 });
            let held: usize = remembered.by_source.keys().map(|source| source.len() + ENTRY_BYTES).sum();
            assert_eq!(held, remembered.bytes);
            assert!(held <= REMEMBERED_BYTES_MAX && remembered.find(&source).is_some());
        }
    }

    #[test]
    fn an_expression_of_many_patterns_is_refused_before_they_are_compiled() {
        let pattern = |number: usize| format!("device.driver.matches('(?i)[x\\\\W]{{{number}}}')");
        let all: Vec<String> = (1..300).map(pattern).collect();
        let mut allowance = Allowance::of(OBJECT_COMPILE_STEPS_MAX);
        assert_eq!(checked(&all.join("||"), &mut allowance), Err(Exhausted));
        assert!(allowance.left() >= OBJECT_COMPILE_STEPS_MAX - DEVICE_SELECTOR_COMPILE_STEPS_MAX);
        let same = vec![pattern(7); 100].join("||");
        let mut allowance = Allowance::of(OBJECT_COMPILE_STEPS_MAX);
        assert_eq!(checked(&same, &mut allowance), Ok(true), "a pattern is compiled once");
    }
}
