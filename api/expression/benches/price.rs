//! The price list of expressions and patterns, held against the clock.
//!
//! Each row is work that its price was made for, near the worst that is known. Printed are the nanoseconds of a step, which
//! is meant to be a hundred at most. The program fails where a row is further from the median of all rows than a factor of
//! two (three for upper bounds that are too high): then a price in `api/expression` is wrong. It fails as well where the
//! median is above a hundred by more than slow machines explain: then hostile expressions take longer than they are charged
//! for. A median below is no fault, for a faster processor only makes work cheaper than its price.
//!
//! Other work on the machine must not fail it: time is processor time of this process, whose one other thread parses deep texts, rows are
//! measured in turns, the fastest run of each counts, and turns go on until all rows fit or [`TURNS_MAX`] are over. A wrong price stays wrong.
//!
//! Run with `make prices`.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use orch_expression::{
    Allowance, Ast, Budget, DeviceBounds, Libraries, Limits, Pattern, PatternLimits, Scope,
    device_selector_steps, parse,
};
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a step on the machine that the prices were made on.
const STEP_NS: f64 = 100.0;
/// Factor by which the slowest machines that run this, those of build services, are slower.
const SLOW_MACHINES: f64 = 4.0;
/// Factor by which a price may be too low.
const LOW: f64 = 2.0;
/// Factor by which a price may be too high: it is a bound for work of many shapes.
const HIGH: f64 = 3.0;
/// Turns in which all rows are measured, at least and at most: two seconds, and half a minute.
const TURNS_MIN: u32 = 4;
const TURNS_MAX: u32 = 60;
/// Processor time of a row in each turn.
const TURN: Duration = Duration::from_millis(20);
/// Bytes of the sources of rows, which fit into the caches of a processor: a tenth of the largest selector.
const SOURCE_BYTES: usize = 990;

/// Work, and the steps that it is charged for.
struct Row {
    name: &'static str,
    steps: u64,
    work: Box<dyn Fn()>,
    /// Nanoseconds of the fastest run.
    fastest: f64,
}

impl Row {
    fn new(name: &'static str, steps: u64, work: impl Fn() + 'static) -> Row {
        Row { name, steps, work: Box::new(work), fastest: f64::MAX }
    }

    fn of_step(&self) -> f64 {
        self.fastest / f64::from(u32::try_from(self.steps).unwrap_or(u32::MAX))
    }

    /// Runs for a turn.
    fn measure(&mut self) {
        let began = thread_time();
        let mut before = began;
        while before - began < TURN {
            (self.work)();
            let now = thread_time();
            self.fastest = self.fastest.min((now - before).as_secs_f64() * 1e9);
            before = now;
        }
    }
}

fn main() -> ExitCode {
    let mut rows: Vec<Row> =
        [parsing(), compiling(), matching(), evaluating()].into_iter().flatten().collect();
    for turn in 1..=TURNS_MAX {
        rows.iter_mut().for_each(Row::measure);
        if turn >= TURNS_MIN && wrong(&rows).is_empty() {
            break;
        }
    }
    let wrong = wrong(&rows);
    for row in &rows {
        let fault = if wrong.contains(&row.name) { "  <- wrong" } else { "" };
        println!(
            "{:36} {:>10.1} us {:>9} steps {:>8.1} ns a step{fault}",
            row.name,
            row.fastest / 1e3,
            row.steps,
            row.of_step()
        );
    }
    let fault = if wrong.contains(&"median") { "  <- wrong" } else { "" };
    println!(
        "median {:.1} ns a step, {STEP_NS} on the machine that the prices were made on{fault}",
        median(&rows)
    );
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The rows whose prices are wrong, and `median` for all of them together.
fn wrong(rows: &[Row]) -> Vec<&'static str> {
    let median = median(rows);
    // Prices of evaluations bound the worst of many shapes, and were made for a slower evaluator: only one that is too low is a fault.
    let may_be_high = |row: &&Row| row.name.starts_with("evaluate");
    let fits =
        |row: &&Row| row.of_step() <= median * LOW && (row.of_step() >= median / HIGH || may_be_high(row));
    let mut wrong: Vec<_> = rows.iter().filter(|row| !fits(row)).map(|row| row.name).collect();
    if median >= STEP_NS * SLOW_MACHINES {
        wrong.push("median");
    }
    wrong
}

fn median(rows: &[Row]) -> f64 {
    let mut sorted: Vec<f64> = rows.iter().map(Row::of_step).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Steps that `work` takes.
fn steps(work: impl FnOnce(&mut Allowance)) -> u64 {
    let mut allowance = Allowance::of(u64::MAX);
    work(&mut allowance);
    u64::MAX - allowance.left()
}

/// `first`, and `next` as often as it fits.
fn filled(first: &str, next: &str, last: &str) -> String {
    format!("{first}{}{last}", next.repeat((SOURCE_BYTES - first.len() - last.len()) / next.len()))
}

fn parsing() -> Vec<Row> {
    let nested = format!("||{}1{}", "[".repeat(20), "]".repeat(20));
    let rows = [
        ("parse a list", filled("[1", ",1", "].size() > 0")),
        ("parse a map", filled("{1:1", ",1:1", "}.size() > 0")),
        ("parse comparisons", filled("a<1", "||a<1", "")),
        ("parse loops", filled("true", "||[1].all(a,a>0)", "")),
        ("parse calls", filled("true", "||a.f(a)", "")),
        ("parse nested lists", filled("true", &nested, "")),
        ("parse disjunctions", filled("true", "||true", "")),
    ];
    let row = |(name, source): (&'static str, String)| {
        let run = move |allowance: &mut Allowance| {
            let parsed = parse(&source, Libraries { devices: true, ..Libraries::default() }, allowance)
                .expect("the steps suffice");
            drop(black_box(parsed.expect("it is an expression")));
        };
        Row::new(name, steps(&run), move || run(&mut Allowance::of(u64::MAX)))
    };
    rows.into_iter().map(row).collect()
}

fn compiling() -> Vec<Row> {
    let named = format!("[{}]", r"\p{Cn}\pL".repeat(90));
    let rows = [
        ("compile one named class", r"\pL".to_owned()),
        ("compile a class of named ones", named),
        ("compile letters of any case", format!("(?i){}", "k".repeat(1000))),
        ("fold all characters", r"(?i)[\x{0}-\x{10FFFF}]".to_owned()),
        ("fold a class and a letter", r"(?i)[x\W]".to_owned()),
        ("fold characters with cases", r"(?i)[\x{400}-\x{3fff}]".to_owned()),
        ("an automaton of classes", r"\pL{11}".to_owned()),
        ("fold letters of a class", r"(?i)\p{Lu}".to_owned()),
        ("an automaton that is too large", r"\pL{1000}".to_owned()),
    ];
    let row = |(name, pattern): (&'static str, String)| {
        let run = move |allowance: &mut Allowance| {
            drop(black_box(
                Pattern::compile(&pattern, PatternLimits::STANDING, allowance).expect("the steps suffice"),
            ));
        };
        Row::new(name, steps(&run), move || run(&mut Allowance::of(u64::MAX)))
    };
    rows.into_iter().map(row).collect()
}

fn matching() -> Vec<Row> {
    let rows = [
        ("match optional letters", "(?:a?){1000}@"),
        ("match nested repetitions", "(?:(?:a?){30}){30}@"),
        ("match borders", r"(?:\b|\B|a){300}@"),
    ];
    let row = |(name, pattern): (&'static str, &str)| {
        let compiled = Pattern::compile(pattern, PatternLimits::STANDING, &mut Allowance::of(u64::MAX));
        let pattern = compiled.expect("the steps suffice").expect("it is a pattern");
        let text = "a".repeat(64);
        let steps = pattern.steps_of_byte() * 65;
        let work = move || {
            black_box(pattern.is_match(black_box(&text)));
        };
        Row::new(name, steps, work)
    };
    rows.into_iter().map(row).collect()
}

fn evaluating() -> Vec<Row> {
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let numbers = (0..1000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let rows = [
        ("evaluate nested loops", format!("{hundred}.all(a, {hundred}.all(b, a + b > 0))")),
        ("evaluate a pair search", format!("'{0}{0}'.indexOf('{0}b') > 0", "a".repeat(3000))),
        ("evaluate distinct values", format!("[{numbers}].distinct().size() > 0")),
    ];
    let row = |(name, source): (&'static str, String)| {
        let mut allowance = Allowance::of(u64::MAX);
        let checked = Ast::check(&source, &Scope::default(), &mut allowance).expect("the steps suffice");
        let ast = checked.expect("it is an expression");
        let program = ast.program(PatternLimits::STANDING, &mut allowance).expect("the steps suffice");
        let of_byte = |pattern: &str| program.steps_of_byte(pattern);
        let steps = device_selector_steps(program.expression(), DeviceBounds::API, &of_byte);
        let limits = Limits { cost: u64::MAX, steps: u64::MAX, pattern_steps: u64::MAX };
        let work = move || {
            let mut budget = Budget::UNBOUNDED;
            drop(black_box(program.evaluate(&[], limits, &mut budget)));
        };
        Row::new(name, steps, work)
    };
    rows.into_iter().map(row).collect()
}
